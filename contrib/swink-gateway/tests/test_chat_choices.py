"""Several answers to one request (`n`): a client of Chat Completions gets the vendor's choices."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from sdks import openai_client
from serving import Scripted, Watched, ask, serving

import swink_core as swink
from swink_core import Extension, ExtensionBlock, StopReason, StreamErrorKind
from swink_gateway.policy.config import Config, Route, Source, Upstream
from swink_gateway.policy.limits import MemoryLedger
from swink_recorder.loopback import Exchange, LoopbackServer

HI = [{"role": "user", "content": "Hi"}]
PATH = "/v1/chat/completions"
USAGE = {"prompt_tokens": 7, "completion_tokens": 30, "total_tokens": 37}
SURE = {"content": [{"token": "Two", "logprob": -0.5, "bytes": [84], "top_logprobs": []}]}
CALLS = [
    {"id": f"call_{name}", "type": "function",
     "function": {"name": name, "arguments": '{"at":"Rome"}'}}
    for name in ("look", "plan")
]  # fmt: skip


def choice(index: int, finish: str | None, logprobs: Any = None, **message: Any) -> dict[str, Any]:
    said = {"role": "assistant", "content": None, "refusal": None, **message}
    return {"index": index, "message": said, "logprobs": logprobs, "finish_reason": finish}


CHOICES = [
    choice(0, "stop", content="One."),
    choice(1, "stop", {**SURE, "refusal": None}, content="Two."),
    choice(2, "tool_calls", tool_calls=CALLS),
    choice(3, "content_filter", content="Fo"),
    choice(4, "stop", refusal="I'm sorry."),
    choice(5, "length", content="", reasoning_content="Hm."),
]
MOST = len(CHOICES)


def pieces_of(one: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a choice in pieces, as the API streams it."""
    message, index = one["message"], one["index"]
    deltas: list[Any] = [{"role": "assistant", "content": "", "refusal": None}]
    for name in ("reasoning_content", "content", "refusal"):
        deltas += [{name: letter} for letter in message.get(name) or ""]
    for at, call in enumerate(message.get("tool_calls", ())):
        function = {**call["function"], "arguments": ""}
        deltas.append({"tool_calls": [{"index": at, **call, "function": function}]})
        for letter in call["function"]["arguments"]:
            deltas.append({"tool_calls": [{"index": at, "function": {"arguments": letter}}]})
    made = [{"index": index, "delta": d, "logprobs": None, "finish_reason": None} for d in deltas]
    made[-1]["logprobs"] = one["logprobs"]
    end = {"index": index, "delta": {}, "logprobs": None, "finish_reason": one["finish_reason"]}
    return [*made, end]


def chunks_of(choices: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the chunks of an answer, whose choices alternate, and its usage."""
    waiting = [pieces_of(one) for one in choices]
    pieces = [[piece] for piece in _alternating(waiting)]
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return [
        *({**head, "choices": one} for one in pieces),
        {**head, "choices": [], "usage": USAGE},
    ]


def _alternating(waiting: list[list[Any]]) -> list[Any]:
    longest = max(map(len, waiting))
    return [one[at] for at in range(longest) for one in waiting if at < len(one)]


class Vendor(LoopbackServer):
    """Answers with the requested number of choices; cuts a stream after `most` chunks."""

    most: int | None = None

    def __init__(self) -> None:
        super().__init__()
        self.bodies: list[dict[str, Any]] = []

    async def respond(self, exchange: Exchange) -> None:
        body = json.loads(exchange.body)
        self.bodies.append(body)
        choices = CHOICES[: body.get("n", 1)]
        if not body.get("stream"):
            await exchange.start(200, {"Content-Type": "application/json"})
            whole = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m"}
            await exchange.write(json.dumps({**whole, "choices": choices, "usage": USAGE}).encode())
        else:
            await exchange.start(200, {"Content-Type": "text/event-stream"})
            for chunk in chunks_of(choices)[: self.most]:
                await exchange.write(b"data: %s\n\n" % json.dumps(chunk).encode())
            if self.most is None:
                await exchange.write(b"data: [DONE]\n\n")
        await exchange.end()


@asynccontextmanager
async def both(*plugins: Any, **options: Any) -> AsyncIterator[tuple[Vendor, Any, Any]]:
    """Yield a vendor, and OpenAI's SDK as its client directly and through a gateway."""
    async with Vendor() as vendor:
        there = {"base_url": f"{vendor.url}/v1", "api_key": "k"}
        names = ("openai", "groq", "anthropic")
        async with (
            serving(*plugins, providers=dict.fromkeys(names, there), **options) as gateway,
            openai_client(vendor.url) as direct,
            openai_client(gateway.url) as through,
        ):
            yield vendor, direct, through


def said(completion: Any) -> list[Any]:
    """Return the choices that an SDK read, without empty fields and the SDK's own ones."""
    return [_without_empty(one.to_dict(mode="json")) for one in completion.choices]


def _without_empty(data: Any) -> Any:
    if isinstance(data, list):
        return [_without_empty(one) for one in data]
    if not isinstance(data, dict):
        return data
    unsaid = ("parsed", "parsed_arguments")
    found = {n: _without_empty(value) for n, value in data.items() if n not in unsaid}
    return {n: value for n, value in found.items() if value not in (None, "", {}, [])}


async def streamed(client: Any, n: int, model: str) -> Any:
    async with client.chat.completions.stream(model=model, messages=HI, n=n) as stream:
        async for _ in stream:
            pass
        return await stream.get_final_completion()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model", ["openai/gpt-4.1", "openai/gpt-5.4", "groq/any"])
async def test_openais_sdk_reads_the_same_choices_directly_and_through_the_gateway(
    model: str,
) -> None:
    async with both() as (vendor, direct, through):
        for n in (2, MOST):
            create = {"messages": HI, "n": n}
            plain = said(await direct.chat.completions.create(model="m", **create))
            assert len(plain) == n
            completion = await through.chat.completions.create(model=model, **create)
            assert said(completion) == plain
            assert vendor.bodies[-1]["n"] == n
            assert completion.usage.completion_tokens == 30
            # the SDK's accumulator raises for the ends of the later choices
            events = said(await streamed(direct, 2, "m"))
            assert said(await streamed(through, 2, model)) == events == plain[:2]


@pytest.mark.filterwarnings("ignore")
async def test_each_choice_of_a_stream_accumulates_to_the_choice_of_the_vendor() -> None:
    pytest.importorskip("openai", reason="OpenAI's SDK is not installed")
    from openai.lib.streaming.chat import ChatCompletionStreamState

    found = []
    async with both() as (_, direct, through):
        for client, model in ((direct, "m"), (through, "openai/gpt-4.1")):
            state: Any = ChatCompletionStreamState()
            create = client.chat.completions.create
            async for chunk in await create(model=model, messages=HI, n=MOST, stream=True):
                ended = [one.index for one in chunk.choices if one.finish_reason]
                for one in chunk.choices:
                    one.finish_reason = None  # for some reasons, the accumulator raises
                state.handle_chunk(chunk)
                found += ended
            snapshot = state.current_completion_snapshot
            assert sorted(found) == list(range(MOST))
            found.clear()
            choices = said(snapshot)
            expected = [_without_empty(one) for one in CHOICES]
            for one in (*choices, *expected):
                one.pop("finish_reason", None)
                for call in one["message"].get("tool_calls", ()):
                    call.pop("index", None)
            assert sorted(choices, key=lambda one: one["index"]) == expected


async def test_a_stream_has_the_finish_reason_of_each_choice() -> None:
    async with both() as (vendor, _, through):
        create = through.chat.completions.create
        stream = await create(model="openai/gpt-4.1", messages=HI, n=MOST, stream=True)
        ends = {
            one.index: one.finish_reason
            async for chunk in stream
            for one in chunk.choices
            if one.finish_reason
        }
        assert ends == {one["index"]: one["finish_reason"] for one in CHOICES}
        vendor.most = 30  # the first choice is complete, others are not
        stream = await create(model="openai/gpt-4.1", messages=HI, n=MOST, stream=True)
        told: dict[int, str] = {}

        async def read() -> None:
            async for chunk in stream:
                for one in chunk.choices:
                    told[one.index] = told.get(one.index, "") + (one.delta.content or "")

        with pytest.raises(Exception, match="ended before"):
            await read()
        assert told[0] == "One."
        assert told[1] == "Two."


OTHERS: list[tuple[str, str, dict[str, Any]]] = [
    ("anthropic/claude-opus-5-5", "anthropic/claude-opus-5-5", {}),
    ("openai/gpt-5.4-pro", "openai/gpt-5.4-pro", {"settings": {"api": "responses"}}),
    ("gemini/gemini-3.5-flash", "gemini/gemini-3.5-flash", {}),
]


@pytest.mark.parametrize(("model", "named", "options"), OTHERS, ids=[row[0] for row in OTHERS])
@pytest.mark.parametrize("stream", [False, True])
async def test_over_another_protocol_several_answers_are_refused(
    model: str, named: str, options: dict[str, Any], stream: bool
) -> None:
    upstream = Scripted([swink.Start(), swink.Done(StopReason.STOP)])
    providers = {model.partition("/")[0]: options} if options else None
    body = {"model": model, "messages": HI, "n": 2, "stream": stream}
    async with serving(upstream, providers=providers) as gateway:
        answer = await ask(gateway, PATH, body)
        assert answer.status == 400
        message = answer.json["error"]["message"]
        assert message.startswith(f"n is 2: {named} does not use the client's protocol")
        assert not upstream.calls
        assert (await ask(gateway, PATH, {**body, "n": 1})).status == 200


def counts_of(upstream: Watched) -> list[tuple[str, Any]]:
    """Return the model and the number of answers of each attempt."""
    return [(model, fields.get("n")) for model, fields in upstream.seen]


async def test_a_fallback_gets_the_number_of_answers_or_is_left_out() -> None:
    fails = swink.Error(error_message="No", error_kind=StreamErrorKind.OVERLOADED)
    upstream = Watched([swink.Start(), fails])
    chain = ["anthropic/claude-opus-5-5", "openai/gpt-4.1", "groq/any"]
    async with serving(upstream, routes={"team": chain}) as gateway:
        for n, models in ((1, chain), (3, chain[1:])):
            upstream.seen.clear()
            answer = await ask(gateway, PATH, {"model": "team", "messages": HI, "n": n})
            assert answer.status >= 500
            assert counts_of(upstream) == [(model, n if n > 1 else None) for model in models]


async def test_the_operators_fields_do_not_replace_the_number_of_answers() -> None:
    upstream = Watched([swink.Start(), swink.Done(StopReason.STOP)])
    mine = Route(tiers=[[Upstream(model="groq/any", options={"extra": {"user": "u"}})]])
    async with serving(upstream, config=Config(routes={"mine": mine})) as gateway:
        body = {"model": "mine", "messages": HI, "n": 3, "logit_bias": {"7": 1}}
        assert (await ask(gateway, PATH, body)).status == 200
        assert (await ask(gateway, PATH, {**body, "model": "openai/gpt-4.1"})).status == 200
    assert counts_of(upstream) == [("groq/any", 3), ("openai/gpt-4.1", 3)]
    assert upstream.options.extra == {"n": 3, "logit_bias": {"7": 1}}


async def test_a_key_with_limits_pays_for_all_answers() -> None:
    file = """
[keys.alice]
key = "${A}"
models = ["openai/gpt-4.1"]
dollars_per_day = 1
"""
    config, ledger = Source("t", file).config({"A": "a"}), MemoryLedger()
    body = {"model": "openai/gpt-4.1", "messages": HI, "n": 3}
    async with Vendor() as vendor:
        there = {"base_url": f"{vendor.url}/v1", "api_key": "k"}
        providers = {"openai": there}
        async with serving(providers=providers, config=config, ledger=ledger) as gateway:
            answer = await ask(gateway, PATH, body, headers={"Authorization": "Bearer a"})
            assert len(answer.json["choices"]) == 3
    [spent] = await ledger.spending(["alice"])
    assert spent.tokens == USAGE["total_tokens"]


async def test_a_choice_of_another_provider_is_left_out() -> None:
    other = Extension(0, "anthropic", ExtensionBlock.CHOICE, CHOICES[1])
    upstream = Scripted([swink.Start(), other, swink.Done(StopReason.STOP)])
    body = {"model": "openai/gpt-4.1", "messages": HI, "n": 2}
    async with serving(upstream) as gateway:
        answer = await ask(gateway, PATH, body)
        assert [one["index"] for one in answer.json["choices"]] == [0]
        frames = (await ask(gateway, PATH, {**body, "stream": True})).frames
        assert {one["index"] for frame in frames[:-1] for one in frame["choices"]} == {0}
