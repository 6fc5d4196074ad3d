"""The vendor's promises, protocol by protocol, without an SDK."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import struct
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yarl
from hypothesis import given
from hypothesis import strategies as st

from lab.tests.vendor_requests import PROTOCOLS, request_of, send
from lab.tests.vendor_shapes import events_of
from lab.vendor import (
    Fault,
    ManualClock,
    Schedule,
    Usage,
    Vendor,
    bill,
    catalog,
    media,
    tokens,
    writer,
)
from lab.vendor.answers import Text
from lab.vendor.ask import Ask
from lab.vendor.record import Exchange

HELLO = {"parts": [{"thought": "Hm, let me see"}, {"text": "Hello there, 東京 🌊"}]}
CALLS = [{"call": "add", "arguments": {"a": 1}}, {"call": "add", "arguments": {"a": 2}}]
THOUGHT_AND_CALLS = {"parts": [{"thought": "Hm, let me see"}, *CALLS]}


def last(vendor: Vendor) -> Exchange:
    return vendor.state.record.exchanges[-1]


def usage_of(protocol: str, answer: Any) -> dict[str, int]:
    """Read prompt, cached, output and reasoning tokens from an answer's usage fields."""
    if protocol == "openai-chat":
        usage = answer["usage"]
        cached = usage["prompt_tokens_details"]["cached_tokens"]
        reasoning = usage["completion_tokens_details"]["reasoning_tokens"]
        return figures(usage["prompt_tokens"], cached, usage["completion_tokens"], reasoning)
    if protocol == "openai-responses":
        usage = answer["usage"]
        cached = usage["input_tokens_details"]["cached_tokens"]
        reasoning = usage["output_tokens_details"]["reasoning_tokens"]
        return figures(usage["input_tokens"], cached, usage["output_tokens"], reasoning)
    if protocol == "anthropic-messages":
        usage = answer["usage"]
        cached = usage["cache_read_input_tokens"]
        prompt = usage["input_tokens"] + cached + usage["cache_creation_input_tokens"]
        reasoning = usage["output_tokens_details"]["thinking_tokens"]
        return figures(prompt, cached, usage["output_tokens"], reasoning)
    if protocol == "gemini-generate-content":
        usage = answer["usageMetadata"]
        reasoning = usage["thoughtsTokenCount"]
        output = usage["candidatesTokenCount"] + reasoning
        assert usage["totalTokenCount"] == usage["promptTokenCount"] + output
        return figures(usage["promptTokenCount"], 0, output, reasoning)
    if protocol == "bedrock-converse":
        usage = answer["usage"]
        prompt = usage["totalTokens"] - usage["outputTokens"]
        return figures(prompt, usage["cacheReadInputTokens"], usage["outputTokens"], 5)
    if protocol == "mistral-chat":
        usage = answer["usage"]
        return figures(usage["prompt_tokens"], 0, usage["completion_tokens"], 5)
    if protocol == "ollama-chat":
        return figures(answer["prompt_eval_count"], 0, answer["eval_count"], 5)
    usage = (answer.get("delta") or answer)["usage"]["tokens"]
    return figures(usage["input_tokens"], 0, usage["output_tokens"], 5)


def figures(prompt: int, cached: int, output: int, reasoning: int) -> dict[str, int]:
    return {"prompt": prompt, "cached": cached, "output": output, "reasoning": reasoning}


def final(protocol: str, body: bytes) -> Any:
    """Return the event of a stream that has the usage."""
    events = [data for kind, data in events_of(protocol, body) if data is not None]
    if protocol == "openai-responses":
        return events[-1]["response"]
    if protocol == "anthropic-messages":
        return events[-2]
    return events[-1]


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_function_of_the_request_decides_the_answers_of_requests_without_a_script(
    protocol: str,
) -> None:
    def play(ask: Ask) -> writer.Script:
        return writer.Script((({"text": f"{ask.user_text}, {ask.tools[0].name}"},),))

    async with Vendor() as vendor:
        vendor.state.play = play
        await send(vendor, protocol, text="one")
        assert last(vendor).texts == ["one, add"]
        await send(vendor, protocol, script=HELLO)
        assert last(vendor).texts != ["hello, add"]


async def _usage(protocol: str, streamed: bool) -> None:
    async with Vendor() as vendor:
        answer = await send(vendor, protocol, streamed=streamed, script=HELLO)
        assert answer.status == 200, answer.body
        shown = final(protocol, answer.body) if streamed else answer.json()
        exchange = last(vendor)
        assert exchange.charge is not None
        usage = exchange.charge.usage
        assert usage.reasoning == tokens.count("Hm, let me see") == 5
        assert usage.output == 5 + tokens.count("Hello there, 東京 🌊")
        billed = figures(usage.prompt, usage.cached, usage.output, usage.reasoning)
        assert usage_of(protocol, shown) == billed
        assert exchange.texts == ["Hello there, 東京 🌊"]
        assert exchange.ended == "complete"
        assert exchange.sent_tokens == usage.output


def run(test: Any) -> None:
    asyncio.run(test)


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_usage_fields_say_what_the_bill_says(protocol: str, streamed: bool) -> None:
    run(_usage(protocol, streamed))


ERRORS: dict[str, tuple[int, Callable[[Any], Any], Any]] = {
    "openai-chat": (401, lambda body: body["error"]["code"], "invalid_api_key"),
    "openai-responses": (401, lambda body: body["error"]["code"], "invalid_api_key"),
    "anthropic-messages": (401, lambda body: body["error"]["type"], "authentication_error"),
    "gemini-generate-content": (
        400,
        lambda body: body["error"]["details"][0]["reason"],
        "API_KEY_INVALID",
    ),
    "bedrock-converse": (
        403,
        lambda body: body["message"],
        "The security token included in the request is invalid.",
    ),
    "ollama-chat": (401, lambda body: body["error"], "unauthorized"),
    "cohere-chat": (401, lambda body: body["message"], "invalid api token"),
    "mistral-chat": (401, lambda body: body["detail"], "Unauthorized"),
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_unknown_key_is_refused_in_the_form_of_the_api(protocol: str) -> None:
    async def test() -> None:
        async with Vendor() as vendor:
            answer = await send(vendor, protocol, key="sk-unknown-key")
            status, read, expected = ERRORS[protocol]
            assert (answer.status, read(answer.json())) == (status, expected)
            assert last(vendor).account is None
            assert last(vendor).charge is None

    run(test())


def test_a_key_is_nowhere_in_the_record() -> None:
    async def test() -> None:
        async with Vendor() as vendor:
            for protocol in PROTOCOLS:
                await send(vendor, protocol)
            shown = json.dumps([each.as_json() for each in vendor.state.record.exchanges])
            assert "key-alpha" not in shown

    run(test())


RULES: dict[str, dict[str, Any]] = {
    "openai-chat": {"model": "gpt-5", "temperature": 0.2},
    "openai-responses": {"max_output_tokens": 3},
    "anthropic-messages": {
        "top_k": 3,
        "model": "claude-opus-5-5",
        "thinking": {"type": "adaptive"},
    },
    "gemini-generate-content": {"messages": []},
    "bedrock-converse": {"messages": []},
    "ollama-chat": {"think": "sometimes"},
    "cohere-chat": {"temperature": 3},
    "mistral-chat": {"temperature": 3},
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_broken_rule_is_refused_and_named_in_the_record(protocol: str) -> None:
    async def test() -> None:
        async with Vendor() as vendor:
            answer = await send(vendor, protocol, change=RULES[protocol])
            assert answer.status == (422 if protocol == "mistral-chat" else 400)
            assert last(vendor).rule
            assert str(last(vendor).message) in answer.body.decode().replace('\\"', '"')
            assert last(vendor).charge is None

    run(test())


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_missing_model_is_a_404(protocol: str) -> None:
    async def test() -> None:
        async with Vendor() as vendor:
            path, body, headers = request_of(protocol)
            changed = re.sub(r"(models?/)[^:/]+(?=[:/])", r"\1missing-x", path)
            headers["authorization"] = "Bearer key-alpha"
            body = {**body, "model": "missing-x"} if "model" in body else body
            url = yarl.URL(vendor.url + changed, encoded=True)
            async with (
                aiohttp.ClientSession() as session,
                session.post(url, json=body, headers=headers) as reply,
            ):
                assert reply.status == 404
                assert "missing-x" in await reply.text()

    run(test())


# -- faults --------------------------------------------------------------------------------------

CONNECTIONS = ["cut", "reset"]


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("after", [None, 0, 3, "end"])
@pytest.mark.parametrize("kind", CONNECTIONS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_connection_breaks_where_it_should(
    protocol: str, kind: str, after: Any, streamed: bool
) -> None:
    async def test() -> None:
        async with Vendor() as vendor:
            fault = {"kind": kind, "after": after}
            answer = await send(vendor, protocol, fault=fault, script=HELLO, streamed=streamed)
            assert answer.broken
            exchange = last(vendor)
            assert exchange.ended == "broken"
            assert exchange.fault == Fault.of(fault).as_json()
            if after is None:
                assert exchange.charge is None
            else:
                whole = 5 + tokens.count("Hello there, 東京 🌊")
                assert exchange.charge is not None
                assert exchange.charge.usage.output == (whole if after == "end" else after)

    run(test())


STATUSES = {"rate_limit": 429, "overload": (503, 529), "server": 500, "overflow": 400}


@pytest.mark.parametrize("kind", STATUSES)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_failure_before_the_head_is_a_status_and_after_it_an_event(
    protocol: str, kind: str
) -> None:
    async def test() -> None:
        async with Vendor() as vendor:
            before = await send(vendor, protocol, fault={"kind": kind, "retry_after": 7})
            expected = STATUSES[kind]
            assert before.status in (expected if isinstance(expected, tuple) else (expected,))
            delay = before.headers.get("retry-after") or before.body.decode()
            assert "7" in delay
            assert last(vendor).ended == "refused"
            within = await send(vendor, protocol, fault={"kind": kind, "after": 3}, script=HELLO)
            assert within.status == 200
            assert not within.broken
            assert last(vendor).ended == "failed"
            assert last(vendor).charge is not None
            assert last(vendor).charge.usage.output == 3  # type: ignore[union-attr]
            whole = await send(vendor, protocol, fault={"kind": kind, "after": 3}, streamed=False)
            assert whole.status == before.status

    run(test())


def test_other_faults_of_a_stream() -> None:
    async def test() -> None:
        async with Vendor() as vendor:
            empty = await send(vendor, "openai-chat", fault={"kind": "empty", "after": 2})
            assert b"[DONE]" not in empty.body
            assert not empty.broken
            nothing = await send(vendor, "openai-chat", fault={"kind": "empty"})
            assert (nothing.status, nothing.body) == (200, b"")
            page = await send(vendor, "openai-chat", fault={"kind": "content_type"})
            assert page.headers["content-type"].startswith("text/html")
            damaged = await send(vendor, "openai-chat", fault={"kind": "damaged", "after": 2})
            with pytest.raises(UnicodeDecodeError):
                damaged.body.decode()
            assert damaged.body.endswith(b"data: [DONE]\n\n")
            garbage = await send(vendor, "ollama-chat", fault={"kind": "garbage", "after": 2})
            with pytest.raises(UnicodeDecodeError):
                garbage.body.decode()
            filtered = await send(vendor, "openai-chat", fault={"kind": "filter", "after": 2})
            assert b'"finish_reason":"content_filter"' in filtered.body
            assert last(vendor).stops == ["filter"]

    run(test())


def test_silence_lasts_until_the_client_leaves() -> None:
    async def test() -> None:
        async with Vendor() as vendor:
            vendor.state.faults.add(Fault("silence", after=2))
            path, body, headers = request_of("openai-chat")
            headers["authorization"] = "Bearer key-alpha"
            headers["x-vendor-script"] = json.dumps({"parts": [{"tokens": 10}]})
            async with (
                aiohttp.ClientSession() as session,
                session.post(vendor.url + path, json=body, headers=headers) as reply,
            ):
                for _ in range(3):  # the head and two tokens
                    await reply.content.readuntil(b"\n\n")
            await vendor.idle()
            assert last(vendor).ended == "hung up"
            assert last(vendor).hung_up_after == 2

    run(test())


def test_a_killed_vendor_comes_back_on_the_same_port() -> None:
    async def test() -> None:
        async with Vendor() as vendor:
            vendor.state.faults.add(Fault("kill", after=2, seconds=0.2))
            assert (await send(vendor, "openai-chat")).broken
            assert (await send(vendor, "openai-chat")).broken == "ClientConnectorError"
            await asyncio.sleep(0.4)
            assert (await send(vendor, "openai-chat")).status == 200
            assert [each.ended for each in vendor.state.record.exchanges] == ["broken", "complete"]

    run(test())


def test_faults_wait_for_the_requests_that_they_match() -> None:
    async def test() -> None:
        async with Vendor() as vendor:
            vendor.state.faults.add(Fault("overload", account="beta", times=2))
            found = [
                (await send(vendor, "openai-chat", key=key)).status
                for key in ("key-alpha", "key-beta", "key-beta", "key-beta")
            ]
            assert found == [200, 503, 503, 200]

    run(test())


def test_a_schedule_draws_the_same_faults_again() -> None:
    first = [Schedule(1, 0.3).fault(number) for number in range(200)]
    again = [Schedule(1, 0.3).fault(number) for number in range(200)]
    other = [Schedule(2, 0.3).fault(number) for number in range(200)]
    assert first == again
    assert first != other
    assert 40 <= sum(fault is not None for fault in first) <= 80


@pytest.mark.parametrize(
    "data",
    [[], {"kind": "unknown"}, {"kind": "status"}, {"kind": "cut", "when": 3}],
)
def test_a_fault_that_cannot_be_read_raises(data: Any) -> None:
    with pytest.raises(ValueError, match="fault"):
        Fault.of(data)


# -- pace and hang-ups ---------------------------------------------------------------------------


def test_a_paced_stream_takes_its_tokens_divided_by_the_rate() -> None:
    async def test() -> None:
        clock = ManualClock()
        async with Vendor(clock=clock, tokens_per_second=50, first_token=2.0) as vendor:
            await send(vendor, "anthropic-messages", script={"parts": [{"tokens": 100}]})
            exchange = last(vendor)
            assert exchange.until is not None
            assert exchange.until - exchange.at == pytest.approx(2.0 + 100 / 50)

    run(test())


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_client_that_hangs_up_pays_for_what_was_produced(protocol: str) -> None:
    async def test() -> None:
        async with Vendor(tokens_per_second=200) as vendor:
            path, body, headers = request_of(protocol)
            headers["authorization"] = "Bearer key-alpha"
            headers["x-vendor-script"] = json.dumps({"parts": [{"tokens": 400}]})
            async with (
                aiohttp.ClientSession() as session,
                session.post(
                    yarl.URL(vendor.url + path, encoded=True), json=body, headers=headers
                ) as reply,
            ):
                await reply.content.readany()
                await reply.content.readany()
            await vendor.idle()
            exchange = last(vendor)
            assert exchange.ended == "hung up"
            assert exchange.hung_up_after is not None
            assert 0 < exchange.hung_up_after < 400
            assert exchange.charge is not None
            produced = tokens.count(exchange.texts[0])
            assert exchange.charge.usage.output == produced < 400

    run(test())


# -- signatures ----------------------------------------------------------------------------------


async def _turn(vendor: Vendor, protocol: str, key: str, change: Any = None) -> Any:
    """Take a turn with calls, send it back with its results, and return the second answer."""
    first = await send(vendor, protocol, streamed=False, script=THOUGHT_AND_CALLS)
    body = first.json()
    _, request, _ = request_of(protocol)
    if protocol == "openai-responses":
        items = body["output"]
        results = [
            {"type": "function_call_output", "call_id": item["call_id"], "output": "3"}
            for item in items
            if item["type"] == "function_call"
        ]
        if change:
            items[0]["encrypted_content"] = change(items[0]["encrypted_content"])
        history = [{"role": "user", "content": "hello"}, *items, *results]
        changed: dict[str, Any] = {"input": history, "store": False}
    elif protocol == "anthropic-messages":
        blocks = body["content"]
        results = [
            {"type": "tool_result", "tool_use_id": block["id"], "content": "3"}
            for block in blocks
            if block["type"] == "tool_use"
        ]
        if change:
            blocks[0]["signature"] = change(blocks[0]["signature"])
        turns = [{"role": "assistant", "content": blocks}, {"role": "user", "content": results}]
        changed = {"messages": [*request["messages"], *turns]}
    elif protocol == "gemini-generate-content":
        content = body["candidates"][0]["content"]
        calls = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
        results = [
            {"functionResponse": {"id": call["id"], "name": "add", "response": {"sum": 3}}}
            for call in calls
        ]
        signed = next(part for part in content["parts"] if "thoughtSignature" in part)
        if change:
            signed["thoughtSignature"] = change(signed["thoughtSignature"])
        contents = [*request["contents"], content, {"role": "user", "parts": results}]
        changed = {"contents": contents}
    else:
        message = body["output"]["message"]
        results = [
            {"toolResult": {"toolUseId": block["toolUse"]["toolUseId"], "content": [{"text": "3"}]}}
            for block in message["content"]
            if "toolUse" in block
        ]
        thought = message["content"][0]["reasoningContent"]["reasoningText"]
        if change:
            thought["signature"] = change(thought["signature"])
        turns = [message, {"role": "user", "content": results}]
        changed = {"messages": [*request["messages"], *turns]}
    return await send(vendor, protocol, streamed=False, key=key, change=changed)


SIGNED = ["openai-responses", "anthropic-messages", "gemini-generate-content", "bedrock-converse"]


@pytest.mark.parametrize("protocol", SIGNED)
def test_signatures_are_checked_on_return(protocol: str) -> None:
    async def test() -> None:
        async with Vendor() as vendor:
            assert (await _turn(vendor, protocol, "key-alpha")).status == 200
            foreign = await _turn(vendor, protocol, "key-beta")
            assert foreign.status == 400
            tampered = await _turn(
                vendor, protocol, "key-alpha", lambda sign: sign[:30] + "AAAA" + sign[34:]
            )
            assert tampered.status == 400
            assert last(vendor).message
            assert re.search("sign|encrypted", str(last(vendor).message), re.IGNORECASE)

    run(test())


def test_a_changed_thought_is_refused() -> None:
    async def test() -> None:
        async with Vendor() as vendor:
            first = await send(
                vendor, "anthropic-messages", streamed=False, script=THOUGHT_AND_CALLS
            )
            blocks = first.json()["content"]
            blocks[0]["thinking"] = "Something else"
            results = [
                {"type": "tool_result", "tool_use_id": block["id"], "content": "3"}
                for block in blocks[1:]
            ]
            messages = [
                {"role": "user", "content": "hello"},
                {"role": "assistant", "content": blocks},
                {"role": "user", "content": results},
            ]
            answer = await send(vendor, "anthropic-messages", change={"messages": messages})
            assert answer.status == 400
            assert b"cannot be modified" in answer.body

    run(test())


PREFIXES = [
    ("claude-opus-5-5", {}, 200),
    ("claude-opus-5-5", {"system": "Another system prompt."}, 400),
    ("claude-opus-5", {"system": "Another system prompt."}, 200),
    (
        "claude-opus-5-5",
        {
            "system": "Another system prompt.",
            "thinking": {
                "type": "adaptive",
                "block_binding": {"prefix_mismatch_behavior": "drop_block"},
            },
        },
        200,
    ),
]


@pytest.mark.parametrize(("model", "later", "status"), PREFIXES)
def test_thoughts_are_bound_to_their_prefix(model: str, later: Any, status: int) -> None:
    async def test() -> None:
        async with Vendor() as vendor:
            change = {"model": model, "thinking": {"type": "adaptive"}, "system": "Be short."}
            first = await send(
                vendor,
                "anthropic-messages",
                streamed=False,
                script=THOUGHT_AND_CALLS,
                change=change,
            )
            blocks = first.json()["content"]
            assert blocks[0]["thinking"] == ""
            results = [
                {"type": "tool_result", "tool_use_id": block["id"], "content": "3"}
                for block in blocks[1:]
            ]
            messages = [
                {"role": "user", "content": "hello"},
                {"role": "assistant", "content": blocks},
                {"role": "user", "content": results},
            ]
            again: dict[str, Any] = {**change, "messages": messages, **later}
            second = await send(vendor, "anthropic-messages", change=again)
            assert second.status == status, second.body

    run(test())


# -- money ---------------------------------------------------------------------------------------


def test_a_prefix_is_cached_for_its_account_until_it_expires() -> None:
    async def test() -> None:
        clock = ManualClock()
        async with Vendor(clock=clock) as vendor:
            system = [{"type": "text", "text": "word " * 2000}]
            marked = [{**system[0], "cache_control": {"type": "ephemeral"}}]

            async def usage(key: str) -> Usage:
                await send(vendor, "anthropic-messages", key=key, change={"system": marked})
                charge = last(vendor).charge
                assert charge is not None
                return charge.usage

            first = await usage("key-alpha")
            assert first.written > 2000
            assert first.cached == 0
            second = await usage("key-alpha")
            assert (second.cached, second.written) == (first.written, 0)
            assert (await usage("key-beta")).cached == 0
            clock.advance(301)
            assert (await usage("key-alpha")).written == first.written

    run(test())


def test_openai_caches_by_itself_from_1024_tokens_on() -> None:
    async def test() -> None:
        async with Vendor() as vendor:
            for words, expected in ((500, 0), (3000, 1)):
                await send(vendor, "openai-chat", text="word " * words)
                await send(vendor, "openai-chat", text="word " * words)
                charge = last(vendor).charge
                assert charge is not None
                assert (charge.usage.cached > 0) == bool(expected)
                assert charge.usage.cached % 128 == 0

    run(test())


CHARGES = [
    # 1000 prompt at 2.50, 100 output at 10
    ("openai", "gpt-4o", Usage(prompt=1000, output=100), "default", "0.0035"),
    # 800 of them cached at 1.25
    ("openai", "gpt-4o", Usage(prompt=1000, cached=800, output=100), "default", "0.0025"),
    ("openai", "gpt-4o", Usage(prompt=1000, output=100), "batch", "0.00175"),
    ("openai", "gpt-5.4", Usage(prompt=1000, output=100), "priority", "0.008"),
    ("openai", "gpt-5.5", Usage(prompt=1000, output=100), "priority", "0.02"),
    # above 272,000: twice the input, 1.5 times the output
    ("openai", "gpt-5.4", Usage(prompt=300_000, output=1000), "default", "1.5225"),
    # a written token costs 1.25 times, one for an hour twice the input's price
    ("anthropic", "claude-sonnet-5", Usage(prompt=1000, written=1000), "standard", "0.0025"),
    ("anthropic", "claude-sonnet-5", Usage(prompt=1000, written_long=1000), "standard", "0.004"),
    ("gemini", "gemini-2.5-pro", Usage(prompt=200_001, output=1000), "default", "0.5150025"),
    ("bedrock", "eu.anthropic.claude-haiku-4-5-20251001-v1:0", Usage(prompt=1000), "default",
     "0.0011"),
    ("bedrock", "global.anthropic.claude-haiku-4-5-20251001-v1:0", Usage(prompt=1000), "default",
     "0.001"),
    ("openai", "gpt-9-sol", Usage(prompt=1000), "default", "0.002"),
    ("ollama", "qwen3:8b", Usage(prompt=1000, output=100), "default", "0"),
]  # fmt: skip


@pytest.mark.parametrize(("provider", "model", "usage", "tier", "cost"), CHARGES)
def test_prices(provider: str, model: str, usage: Usage, tier: str, cost: str) -> None:
    row = catalog.model_of(provider, model)
    assert bill.charge("alpha", provider, row, usage, tier).cost == Decimal(cost)


def test_the_prompt_of_several_choices_is_billed_once() -> None:
    async def test() -> None:
        async with Vendor() as vendor:
            await send(vendor, "openai-chat", script=HELLO)
            one = last(vendor).charge
            await send(vendor, "openai-chat", script=HELLO, change={"n": 3})
            three = last(vendor).charge
            assert one is not None
            assert three is not None
            assert three.usage.prompt == one.usage.prompt
            assert three.usage.output == 3 * one.usage.output
            assert len(last(vendor).texts) == 3

    run(test())


def _png(width: int, height: int) -> str:
    head = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + b"IHDR"
    return base64.b64encode(head + struct.pack(">II", width, height) + bytes(5)).decode()


IMAGES = [
    # 2048 × 1024 is fitted to 1536 × 768: 3 × 2 tiles
    ("openai", "gpt-4.1", _png(2048, 1024), 85 + 170 * 6),
    ("openai", "gpt-6.2-sol", _png(320, 320), 100),
    ("anthropic", "claude-sonnet-5", _png(1000, 750), 1000),
    # fitted to 1568 × 784
    ("anthropic", "claude-sonnet-5", _png(3136, 1568), 1640),
    ("gemini", "gemini-2.5-flash", _png(300, 200), 258),
    ("gemini", "gemini-2.5-flash", _png(1500, 700), 516),
    ("cohere", "command-a-03-2025", _png(1500, 700), tokens.IMAGE),
    ("openai", "gpt-4.1", "https://example.com/a.png", tokens.IMAGE),
]


@pytest.mark.parametrize(("provider", "model", "data", "expected"), IMAGES)
def test_images_cost_what_the_vendor_computes(
    provider: str, model: str, data: str, expected: int
) -> None:
    row = catalog.model_of(provider, model)
    assert media.image_tokens(row, data) == expected


@given(st.text())
def test_the_pieces_of_a_text_are_the_text(text: str) -> None:
    assert "".join(piece for piece, _ in tokens.pieces(text)) == text


# -- answers -------------------------------------------------------------------------------------


def test_the_time_to_write_a_long_text_grows_with_its_length(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = 0
    pieces = tokens.pieces

    def counted(text: str) -> Iterator[tuple[str, int]]:
        nonlocal read
        read += len(text)
        return pieces(text)

    monkeypatch.setattr(tokens, "pieces", counted)
    script = writer.Script.of({"parts": [{"tokens": 5_000}]})
    ask = Ask("openai", "chat", catalog.model_of("openai", "gpt-5.4-mini"), "alpha")
    [choice] = writer.write(ask, script).choices
    [part] = choice.parts
    assert isinstance(part, Text)
    assert tokens.count(part.text) == 5_000
    assert read < 10 * len(part.text)


def test_without_a_script_the_same_prompt_gets_the_same_answer() -> None:
    async def test() -> None:
        async with Vendor() as vendor, Vendor(seed=3) as other:
            for text in ("one", "two"):
                await send(vendor, "ollama-chat", text=text)
                await send(other, "ollama-chat", text=text)
            mine = [each.produced for each in vendor.state.record.exchanges]
            theirs = [each.produced for each in other.state.record.exchanges]
            assert [_plain(each) for each in mine] == [_plain(each) for each in theirs]
            assert mine[0] != mine[1]

    run(test())


def _plain(produced: list[list[dict[str, Any]]]) -> Any:
    return [[{**part, "id": None} for part in parts] for parts in produced]


def test_drawn_answers_call_one_or_two_tools_or_none() -> None:
    async def test() -> None:
        async with Vendor() as vendor:
            numbers = set()
            for at in range(40):
                await send(vendor, "openai-chat", text=f"question {at}", streamed=False)
                parts = last(vendor).produced[0]
                calls = [json.loads(part["text"]) for part in parts if part["type"] == "call"]
                assert all(isinstance(call["a"], int) for call in calls)
                numbers.add(len(calls))
            assert numbers == {0, 1, 2}

    run(test())


def test_a_script_in_the_prompt_answers_turn_by_turn() -> None:
    async def test() -> None:
        async with Vendor() as vendor:
            turns = [[{"call": "add", "arguments": {"a": 1}}], [{"text": "It is 2."}]]
            text = f"Add. [[vendor {json.dumps({'turns': turns})}]]"
            first = await send(vendor, "openai-chat", text=text, streamed=False)
            message = first.json()["choices"][0]["message"]
            result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"]}
            messages = [{"role": "user", "content": text}, message, {**result, "content": "2"}]
            change = {"messages": messages}
            second = await send(vendor, "openai-chat", streamed=False, change=change)
            assert second.json()["choices"][0]["message"]["content"] == "It is 2."

    run(test())


def test_limits_and_stop_sequences_end_an_answer() -> None:
    async def test() -> None:
        async with Vendor() as vendor:
            script = {"parts": [{"text": "one two three four"}]}
            change: dict[str, Any] = {"max_completion_tokens": 2}
            await send(vendor, "openai-chat", script=script, change=change)
            assert (last(vendor).texts, last(vendor).stops) == (["one two"], ["length"])
            await send(vendor, "openai-chat", script=script, change={"stop": [" three"]})
            assert (last(vendor).texts, last(vendor).stops) == (["one two"], ["sequence"])

    run(test())


def test_a_prompt_beyond_the_window_overflows() -> None:
    async def test() -> None:
        async with Vendor() as vendor:
            change = {"model": "gpt-4o"}
            answer = await send(vendor, "openai-chat", text="word " * 130_000, change=change)
            assert answer.status == 400
            assert answer.json()["error"]["code"] == "context_length_exceeded"

    run(test())


# -- what accounts own ---------------------------------------------------------------------------


async def _call(
    vendor: Vendor, method: str, path: str, key: str, body: Any = None, **headers: str
) -> tuple[int, Any]:
    about = {"authorization": f"Bearer {key}", **headers}
    url = yarl.URL(vendor.url + path, encoded=True)
    async with aiohttp.ClientSession() as session:
        if isinstance(body, aiohttp.FormData):
            request = session.request(method, url, data=body, headers=about)
        else:
            request = session.request(method, url, json=body, headers=about)
        async with request as reply:
            text = await reply.text()
            kind = reply.headers["content-type"]
            return reply.status, json.loads(text) if "application/json" in kind else text


def test_stored_responses_belong_to_their_account() -> None:
    async def test() -> None:
        async with Vendor() as vendor:
            answer = await send(vendor, "openai-responses", streamed=False, script=HELLO)
            id = answer.json()["id"]
            path = f"/v1/responses/{id}"
            assert (await _call(vendor, "GET", path, "key-alpha"))[0] == 200
            for method, tail in (("GET", ""), ("GET", "/input_items"), ("POST", "/cancel"),
                                 ("DELETE", "")):  # fmt: skip
                assert (await _call(vendor, method, path + tail, "key-beta"))[0] == 404
            change = {"previous_response_id": id}
            own = await send(vendor, "openai-responses", streamed=False, change=change)
            assert own.status == 200
            foreign = await send(vendor, "openai-responses", key="key-beta", change=change)
            assert foreign.status == 400
            assert vendor.state.owned.owners().keys() == {"alpha"}

    run(test())


LONG = [{"role": "user", "parts": [{"text": "word " * 3000}]}]
CACHE = {"model": "models/gemini-2.5-flash", "contents": LONG}
FILE_SEARCH = {"type": "file_search", "vector_store_ids": ["ID"]}
INTERPRETER = {"type": "code_interpreter", "container": "ID"}
OWNED: list[tuple[str, Any, str, str, Any, int]] = [
    # where and how a thing is made, where it is, the request that uses it, a stranger's status
    ("/v1/conversations", {}, "/v1/conversations/ID", "openai-responses",
     {"conversation": "ID"}, 404),
    ("/v1/vector_stores", {"name": "a"}, "/v1/vector_stores/ID", "openai-responses",
     {"tools": [FILE_SEARCH]}, 404),
    ("/v1/containers", {"name": "a"}, "/v1/containers/ID", "openai-responses",
     {"tools": [INTERPRETER]}, 404),
    ("/v1beta/cachedContents", CACHE, "/v1beta/ID", "gemini-generate-content",
     {"cachedContent": "ID", "tools": []}, 403),
]  # fmt: skip


@pytest.mark.parametrize(("path", "made", "place", "protocol", "change", "status"), OWNED)
def test_things_belong_to_their_account(
    path: str, made: Any, place: str, protocol: str, change: Any, status: int
) -> None:
    async def test() -> None:
        async with Vendor() as vendor:
            _, thing = await _call(vendor, "POST", path, "key-alpha", made)
            id = thing.get("id") or thing["name"]
            use = json.loads(json.dumps(change).replace("ID", id))
            where = place.replace("ID", id)
            assert (await _call(vendor, "GET", where, "key-alpha"))[0] == 200
            assert (await _call(vendor, "GET", where, "key-beta"))[0] == status
            assert (await _call(vendor, "DELETE", where, "key-beta"))[0] == status
            assert (await send(vendor, protocol, change=use)).status == 200
            assert (await send(vendor, protocol, change=use, key="key-beta")).status == status
            assert (await _call(vendor, "DELETE", where, "key-alpha"))[0] == 200
            assert (await send(vendor, protocol, change=use)).status == status

    run(test())


def test_a_websocket_carries_one_exchange_after_the_other() -> None:
    async def test() -> None:
        async with (
            Vendor() as vendor,
            aiohttp.ClientSession() as session,
            session.ws_connect(
                vendor.url + "/v1/responses", headers={"authorization": "Bearer key-alpha"}
            ) as socket,
        ):

            async def turn(**body: Any) -> list[Any]:
                request = {"type": "response.create", "model": "gpt-6-luna", "store": False}
                await socket.send_json({**request, **body})
                events: list[Any] = []
                while not events or events[-1]["type"] not in (
                    "response.completed",
                    "response.failed",
                    "error",
                ):
                    events.append(await socket.receive_json())
                return events

            warm = await turn(input="hello", generate=False)
            assert [event["type"] for event in warm] == ["response.created", "response.completed"]
            assert vendor.state.record.charges() == []
            item = {"role": "user", "content": "and you?"}
            done = await turn(input=[item], previous_response_id=warm[-1]["response"]["id"])
            charge = last(vendor).charge
            assert charge is not None
            assert done[-1]["response"]["usage"]["output_tokens"] == charge.usage.output
            assert charge.usage.prompt == 2 * tokens.PER_MESSAGE + tokens.count("hello and you?")
            refused = await turn(input="hello", temperature=0.2)
            assert refused[-1]["status"] == 400
            assert last(vendor).rule

    run(test())


def test_a_conversation_goes_on_where_it_stopped() -> None:
    async def test() -> None:
        async with Vendor() as vendor:
            _, made = await _call(vendor, "POST", "/v1/conversations", "key-alpha", {})
            change = {"conversation": made["id"], "tools": []}
            sizes = []
            for _ in range(3):
                await send(vendor, "openai-responses", change=change, script=HELLO)
                charge = last(vendor).charge
                assert charge is not None
                sizes.append(charge.usage.prompt)
            assert sizes[0] < sizes[1] < sizes[2]
            path = f"/v1/conversations/{made['id']}/items?order=asc"
            _, items = await _call(vendor, "GET", path, "key-alpha")
            kinds = [item["type"] for item in items["data"]]
            assert kinds == ["message", "reasoning", "message"] * 3

    run(test())


def test_embeddings_are_billed() -> None:
    async def test() -> None:
        async with Vendor() as vendor:
            body = {"model": "text-embedding-3-small", "input": ["hello", "hello there"]}
            _, answer = await _call(vendor, "POST", "/v1/embeddings", "key-alpha", body)
            assert [len(row["embedding"]) for row in answer["data"]] == [1536, 1536]
            assert vendor.state.bill()["total"]["usage"]["prompt"] == 3

    run(test())


def test_a_background_response_is_polled_followed_and_cancelled() -> None:
    async def test() -> None:
        async with Vendor(tokens_per_second=400) as vendor:
            script = {"parts": [{"tokens": 60}]}
            change = {"background": True, "tools": []}
            begun = await send(
                vendor, "openai-responses", streamed=False, script=script, change=change
            )
            path = f"/v1/responses/{begun.json()['id']}"
            assert begun.json()["status"] == "queued"
            status, followed = await _call(vendor, "GET", path + "?stream=true", "key-alpha")
            assert status == 200
            assert "response.completed" in followed
            _, done = await _call(vendor, "GET", path, "key-alpha")
            assert done["status"] == "completed"
            assert done["usage"]["output_tokens"] == 60
            begun = await send(
                vendor, "openai-responses", streamed=False, script=script, change=change
            )
            path = f"/v1/responses/{begun.json()['id']}"
            _, cancelled = await _call(vendor, "POST", path + "/cancel", "key-alpha")
            assert cancelled["status"] == "cancelled"

    run(test())


def test_files_and_batches_belong_to_their_account_and_cost_half() -> None:
    async def test() -> None:
        async with Vendor() as vendor:
            request = {"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}]}
            line = {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions"}
            refused = {**request, "temperature": 9}
            lines = [{**line, "body": request}, {**line, "custom_id": "b", "body": refused}]
            form = aiohttp.FormData()
            form.add_field("purpose", "batch")
            form.add_field("file", "\n".join(map(json.dumps, lines)), filename="in.jsonl")
            _, file = await _call(vendor, "POST", "/v1/files", "key-alpha", form)
            order = {
                "input_file_id": file["id"],
                "endpoint": "/v1/chat/completions",
                "completion_window": "24h",
            }
            assert (await _call(vendor, "POST", "/v1/batches", "key-beta", order))[0] == 404
            _, batch = await _call(vendor, "POST", "/v1/batches", "key-alpha", order)
            path = f"/v1/batches/{batch['id']}"
            assert (await _call(vendor, "GET", path, "key-beta"))[0] == 404
            _, batch = await _call(vendor, "GET", path, "key-alpha")
            assert batch["status"] == "completed"
            assert batch["request_counts"] == {"total": 2, "completed": 1, "failed": 1}
            output = f"/v1/files/{batch['output_file_id']}/content"
            _, result = await _call(vendor, "GET", output, "key-alpha")
            assert json.loads(result)["custom_id"] == "a"
            assert (await _call(vendor, "GET", output, "key-beta"))[0] == 404
            [charge] = vendor.state.record.charges("alpha")
            row = catalog.model_of("openai", "gpt-4o")
            full = bill.charge("alpha", "openai", row, charge.usage, "default")
            assert charge.cost * 2 == full.cost

    run(test())


def test_a_batch_whose_answer_is_lost_exists() -> None:
    async def test() -> None:
        async with Vendor() as vendor:
            params = {"model": "claude-sonnet-5", "max_tokens": 50}
            params["messages"] = [{"role": "user", "content": "hi"}]
            body = {"requests": [{"custom_id": "a", "params": params}]}
            version = {"anthropic-version": "2023-06-01"}
            for after, batches in ((None, 0), (0, 1)):
                vendor.state.faults.add(Fault("cut", after=after, path="/batches"))
                with pytest.raises(aiohttp.ClientConnectionError):
                    await _call(
                        vendor, "POST", "/v1/messages/batches", "key-alpha", body, **version
                    )
                _, page = await _call(vendor, "GET", "/v1/messages/batches", "key-alpha", **version)
                assert len(page["data"]) == batches

    run(test())


def test_message_batches() -> None:
    async def test() -> None:
        async with Vendor(clock=(clock := ManualClock()), batch_seconds=60) as vendor:
            params = {"model": "claude-sonnet-5", "max_tokens": 50}
            params["messages"] = [{"role": "user", "content": "hi"}]
            requests = [{"custom_id": "a", "params": params}, {"custom_id": "b", "params": {}}]
            version = {"anthropic-version": "2023-06-01"}
            path = "/v1/messages/batches"
            _, batch = await _call(
                vendor, "POST", path, "key-alpha", {"requests": requests}, **version
            )
            assert batch["processing_status"] == "in_progress"
            clock.advance(61)
            path = f"{path}/{batch['id']}"
            assert (await _call(vendor, "GET", path, "key-beta", **version))[0] == 404
            _, batch = await _call(vendor, "GET", path, "key-alpha", **version)
            counts = batch["request_counts"]
            assert (counts["succeeded"], counts["errored"]) == (1, 1)
            again = [await _call(vendor, "GET", f"{path}/results", "key-alpha", **version)] * 2
            assert again[0] == again[1]
            assert len(vendor.state.record.charges()) == 1

    run(test())


# -- control and the command line ----------------------------------------------------------------


def test_the_control_api_queues_faults_and_shows_record_and_bill() -> None:
    async def test() -> None:
        async with Vendor() as vendor:
            fault = {"kind": "overload", "times": 1}
            assert (await _call(vendor, "POST", "/control/faults", "", fault))[0] == 200
            assert (await send(vendor, "cohere-chat")).status == 503
            script = {"parts": [{"text": "Hello"}]}
            await _call(vendor, "POST", "/control/scripts", "", script)
            await send(vendor, "cohere-chat")
            _, record = await _call(vendor, "GET", "/control/record?account=alpha", "")
            assert [each["status"] for each in record] == [503, 200]
            assert record[1]["produced"] == [[{"type": "text", "text": "Hello"}]]
            _, shown = await _call(vendor, "GET", "/control/bill", "")
            assert shown["total"]["attempts"] == 1
            assert shown["accounts"]["alpha"] == shown["total"]
            added = {"name": "gamma", "keys": ["key-gamma"]}
            await _call(vendor, "POST", "/control/accounts", "", added)
            assert (await send(vendor, "cohere-chat", key="key-gamma")).status == 200
            await _call(vendor, "DELETE", "/control/accounts?key=key-gamma", "")
            assert (await send(vendor, "cohere-chat", key="key-gamma")).status == 401
            wrong = await _call(vendor, "POST", "/control/faults", "", {"kind": "unknown"})
            assert wrong[0] == 400

    run(test())


def test_the_command_line_prints_the_address() -> None:
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "lab.vendor", "--port", "0", "--account", "a=key-a"]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            request = urllib.request.Request(f"{url}/v1/models")
            request.add_header("authorization", "Bearer key-a")
            with urllib.request.urlopen(request) as reply:
                assert json.load(reply)["object"] == "list"
        finally:
            process.terminate()


def test_it_runs_in_a_thread() -> None:
    with Vendor() as vendor:
        answer = asyncio.run(send(vendor, "ollama-chat"))
        assert answer.status == 200
