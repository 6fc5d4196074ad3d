"""Scripts: what echo says, calls and costs by its setting, request by request."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from echo_calls import ADD, ask

import swink_core as swink
from swink_core import Client, RetryPolicy, StreamErrorKind, TextBlock, ThinkingBlock, Usage
from swink_provider_echo import Script
from swink_testing.clock import ManualClock


def scripted(script: Any, **options: Any) -> swink.AssistantMessage:
    return ask("echo", "a b", settings={"script": script}, **options)


def test_a_script_may_give_every_part_of_an_answer() -> None:
    message = scripted(
        {
            "think": "Two sums.",
            "reply": "I add.",
            "calls": [
                {"name": "add", "arguments": {"a": 1}},
                {"name": "missing", "arguments": '{"a": ', "id": "c7"},
            ],
            "usage": {"input": 1000, "output": 50, "cache_read": 900},
            "cost": 0.25,
            "stop": "pause",
        },
        tools=[ADD],
    )

    thought, text, first, second = message.content
    assert isinstance(thought, ThinkingBlock)
    assert thought.thinking == "Two sums."
    assert text == TextBlock("I add.")
    assert first == swink.ToolCallBlock("echo_call_1", "add", {"a": 1}, '{"a": 1}')
    assert second == swink.ToolCallBlock("c7", "missing", {}, '{"a": ', "invalid")
    assert message.usage == Usage(1000, 50, 900, total=1050, reported=True)
    assert message.cost is not None
    assert message.cost.total == 0.25
    assert message.stop_reason == "pause"


def test_usage_without_counts_is_unknown() -> None:
    usage = scripted({"usage": {}}).usage

    assert usage is not None
    assert (usage.input, usage.output, usage.total) == (None, None, None)


# (script, kind, status, message, text before)
FAILURES: list[tuple[dict[str, Any], str, int | None, str, str]] = [
    ({"fail_status": 429}, "throttled", 429, "status 429", ""),
    ({"fail_status": 529, "fail_after": 1}, "overloaded", 529, "status 529", "a"),
    ({"fail": "auth", "fail_status": 403}, "auth", 403, "auth", ""),
    ({"fail": "network", "fail_message": "Gone."}, "network", None, "Gone.", ""),
    ({"cut_after": 1}, "network", None, "ended before the provider completed", "a"),
    ({"cut_after": 0}, "network", None, "ended before the provider completed", ""),
]


@pytest.mark.parametrize(("script", "kind", "status", "said", "text"), FAILURES, ids=str)
async def test_failures_and_cuts_may_be_scripted(
    script: dict[str, Any], kind: str, status: int | None, said: str, text: str
) -> None:
    async with Client(retry=RetryPolicy.none()) as client:
        with pytest.raises(swink.StreamError) as caught:
            await client.complete("echo/echo", "a b", settings={"script": script})

    assert caught.value.kind == kind
    assert caught.value.status == status
    assert said in str(caught.value)
    assert caught.value.partial is not None
    assert caught.value.partial.text == text


async def test_a_cut_is_retried_like_any_other() -> None:
    scripts = [{"cut_after": 1}, {"reply": "whole"}]
    async with Client(clock=ManualClock(jump=True)) as client:
        with pytest.raises(swink.NetworkError) as caught:
            await client.complete("echo/echo", "a", settings={"script": scripts})
        after = await client.complete("echo/echo", "a", settings={"script": scripts})

    assert caught.value.attempts > 1  # each took the script of its request
    assert after.text == "whole"


async def test_the_first_delay_comes_before_the_answer_begins() -> None:
    clock = ManualClock()
    script = {"first_delay": 3.0, "delay": 1.0}
    async with Client(clock=clock) as client:
        call = client.complete("echo/echo", "a b", settings={"script": script})
        waiting = asyncio.ensure_future(call)
        await clock.advance(4.9)
        assert not waiting.done()
        await clock.advance(0.1)
        message = await waiting

    assert message.text == "a b"


async def test_the_scripts_of_a_list_answer_one_request_each() -> None:
    settings = {"script": [{"reply": "one"}, {"reply": "two"}]}
    async with Client(providers={"echo": settings}) as client:
        texts = [(await client.complete("echo/echo", "Hi")).text for _ in range(2)]
        with pytest.raises(swink.InvalidRequest, match="no script left for request 3: 2 without"):
            await client.complete("echo/echo", "Hi")
    async with Client(providers={"echo": settings}) as client:
        again = await client.complete("echo/echo", "Hi")

    assert texts == ["one", "two"]
    assert again.text == "one"


async def test_a_script_with_a_match_answers_every_request_that_it_is_found_in() -> None:
    scripts = [
        {"match": "(?i)weather", "reply": "Rain."},
        {"reply": "first"},
        {"match": "^$|time", "reply": "Noon."},
        {"reply": "second"},
    ]
    prompts = ["Weather?", "x", "the time", "weather again", "y"]
    async with Client(providers={"echo": {"script": scripts}}) as client:
        texts = [(await client.complete("echo/echo", prompt)).text for prompt in prompts]

    assert texts == ["Rain.", "first", "Noon.", "Rain.", "second"]


def test_a_list_refines_the_script_of_the_model() -> None:
    message = ask("think", "a b", settings={"script": [{"delta": 1}]})

    assert message.thinking.endswith("repeat them.")


# (what is wrong, the setting, part of the message)
WRONG: list[tuple[str, Any, str]] = [
    ("a misspelt field", {"replay": "a"}, "unknown field `replay`; did you mean 'reply'?"),
    ("another field", {"xyz": True}, "the fields are match, reply, words"),
    ("in a list", [{"reply": "a"}, {"delay": -1}], 'settings["script"][1] is wrong: Expected'),
    ("an item of no mapping", ["a"], 'settings["script"][0] is wrong: expected an object'),
    ("a failure without one", {"retry_after": 3}, "`retry_after` needs `fail` or `fail_status`"),
    ("a status of no failure", {"fail_status": 200}, "$.fail_status"),
    ("two ends", {"fail": "auth", "cut_after": 1}, "`cut_after` and `fail` both end"),
    (
        "two ways to call",
        {"tool": True, "calls": []},
        "`calls` and `tool` both choose the tools to call",
    ),
    ("silence with words", {"silent": True, "reply": "a"}, "`reply` and `silent` contradict"),
    ("a broken pattern", [{"match": "("}], "unterminated subpattern"),
    ("usage of another name", {"usage": {"tokens": 1}}, "'tokens' - at `key` in `$.usage`"),
    ("a call without a name", {"calls": [{"arguments": {}}]}, "`name` - at `$.calls[0]`"),
]


@pytest.mark.parametrize(("script", "said"), [r[1:] for r in WRONG], ids=[r[0] for r in WRONG])
def test_a_wrong_script_is_refused(script: Any, said: str) -> None:
    with pytest.raises(swink.StreamError) as caught:
        scripted(script)

    assert caught.value.kind is StreamErrorKind.INVALID_REQUEST
    assert said in str(caught.value)


def test_the_docstring_tells_of_every_field() -> None:
    described = Script.__doc__ or ""
    assert [name for name in Script.__struct_fields__ if f"`{name}`" not in described] == []
