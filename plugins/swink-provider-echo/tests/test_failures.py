"""Scripted failures, stalls and delays of echo."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import swink_core as swink
from swink_core import (
    AssistantMessage,
    Client,
    Error,
    Retry,
    RetryPolicy,
    StopReason,
    StreamErrorKind,
    TextBlock,
    TextDelta,
    Timeouts,
    Tool,
    Usage,
)
from swink_provider_echo import EchoProvider
from swink_provider_echo.script import MODELS
from swink_testing.calls import call_of
from swink_testing.clock import ManualClock

ONCE = RetryPolicy.none()


async def failed(
    model: str, context: Any = "a b c", **options: Any
) -> tuple[Error, AssistantMessage]:
    """The terminal event and the partial message of a call that fails."""
    async with (
        Client(retry=ONCE) as client,
        client.stream(f"echo/{model}", context, **options) as stream,
    ):
        events = [event async for event in stream]
    assert isinstance(events[-1], Error)
    return events[-1], stream.message


@pytest.mark.parametrize("kind", list(StreamErrorKind))
async def test_it_fails_at_once_with_each_kind(kind: StreamErrorKind) -> None:
    error, message = await failed(f"fail-{kind.replace('_', '-')}")

    assert error.error_kind is kind
    assert error.phase == "request"
    assert error.title
    assert message.content == []
    assert message.usage is None


@pytest.mark.parametrize(
    ("model", "text"),
    [
        ("fail-network-after-0", ""),
        ("fail-network-after-1", "a"),
        ("fail-network-after-3", "a b c"),
        ("fail-network-after-9", "a b c"),
    ],
)
async def test_it_fails_after_so_many_deltas(model: str, text: str) -> None:
    error, message = await failed(model)

    assert error.error_kind is StreamErrorKind.NETWORK
    assert message.text == text


async def test_a_failure_in_the_middle_knows_the_usage_so_far() -> None:
    error, _ = await failed("fail-network-after-2")

    assert error.usage == Usage(3, 2, total=5, reported=True)
    assert error.phase == "streaming"


async def test_open_blocks_are_closed_before_the_failure() -> None:
    directions = {"parallel": True, "arguments": {"a": 1}, "delta": 2, "fail_after": 3}

    _, message = await failed(
        "fail-network",
        tools=[Tool("a"), Tool("b")],
        settings={"script": {"tool": True, **directions}},
    )

    assert [call.raw_arguments for call in message.tool_calls] == ['{"a"', '{"']
    assert {call.state for call in message.tool_calls} == {"truncated"}


@pytest.mark.parametrize(
    ("model", "reason", "kind"),
    [
        ("stop-error", StopReason.ERROR, StreamErrorKind.UNKNOWN),
        ("stop-aborted", StopReason.ABORTED, StreamErrorKind.CANCELLED),
    ],
)
async def test_stop_reasons_of_no_success_are_errors(
    model: str, reason: StopReason, kind: StreamErrorKind
) -> None:
    error, message = await failed(model)

    assert (error.stop_reason, error.error_kind) == (reason, kind)
    assert message.text == "a b c"
    assert message.usage == Usage(3, 3, reasoning=0, total=6, reported=True)


REFUSED: list[tuple[str, str, dict[str, Any], StreamErrorKind, str]] = [
    ("another model", "parrot", {}, StreamErrorKind.MODEL_NOT_FOUND, "no model 'parrot'"),
    ("another suffix", "echo-after-3", {}, StreamErrorKind.MODEL_NOT_FOUND, "no model"),
    (
        "another model with a suffix",
        "parrot-after-3",
        {},
        StreamErrorKind.MODEL_NOT_FOUND,
        "no model",
    ),
    (
        "a direction that does not exist",
        "echo",
        {"settings": {"script": {"sing": True}}},
        StreamErrorKind.INVALID_REQUEST,
        "`sing`",
    ),
    (
        "a direction of the wrong type",
        "echo",
        {"settings": {"script": {"delay": "long"}}},
        StreamErrorKind.INVALID_REQUEST,
        "$.delay",
    ),
    (
        "directions that are not a mapping",
        "echo",
        {"settings": {"script": "sing"}},
        StreamErrorKind.INVALID_REQUEST,
        "expected an object, or a list of objects",
    ),
    (
        "a kind of failure that does not exist",
        "echo",
        {"settings": {"script": {"fail": "boredom"}}},
        StreamErrorKind.INVALID_REQUEST,
        "boredom",
    ),
    (
        "a delta of no characters",
        "echo",
        {"settings": {"script": {"delta": 0}}},
        StreamErrorKind.INVALID_REQUEST,
        "$.delta",
    ),
]


@pytest.mark.parametrize(
    ("model", "options", "kind", "said"),
    [row[1:] for row in REFUSED],
    ids=[row[0] for row in REFUSED],
)
async def test_what_cannot_be_done_is_refused(
    model: str, options: dict[str, Any], kind: StreamErrorKind, said: str
) -> None:
    error, message = await failed(model, **options)

    assert error.error_kind is kind
    assert said in error.error_message
    assert message.content == []


async def test_a_feature_that_a_subclass_gives_up_is_unsupported() -> None:
    class Deaf(EchoProvider):
        features = EchoProvider.features - {"tools"}

    provider = Deaf("echo")
    model, context = swink.Model("echo", "echo"), swink.Context.of("a")
    context.tools.append(Tool("add"))
    call = call_of(provider, model, context=context)

    events = [e async for e in provider.stream(model, context, call.options, call)]

    assert events[-1].error_kind is StreamErrorKind.UNSUPPORTED


async def test_flaky_answers_in_its_second_attempt() -> None:
    clock = ManualClock(jump=True)
    async with Client(clock=clock) as client, client.stream("echo/flaky", "a") as stream:
        events = [event async for event in stream]

    assert [event.error_kind for event in events if isinstance(event, Retry)] == ["network"]
    assert stream.message.content == [TextBlock("a")]


async def test_the_wait_that_it_asks_for_is_respected() -> None:
    clock = ManualClock(jump=True)
    directions = {"fail": "throttled", "fail_attempts": 2, "retry_after": 7.0}
    async with Client(clock=clock) as client:
        message = await client.complete("echo/echo", "a", settings={"script": directions})

    assert message.text == "a"
    assert [seconds for seconds in clock.sleeps if seconds] == [7.0, 7.0]


async def test_each_delta_waits_by_the_clock_of_the_call() -> None:
    clock = ManualClock()
    seen: list[tuple[float, str]] = []

    async def read() -> None:
        async with (
            Client(clock=clock) as client,
            client.stream("echo/echo", "a b c", settings={"script": {"delay": 2.0}}) as stream,
        ):
            async for event in stream:
                if isinstance(event, TextDelta):
                    seen.append((clock.time(), event.delta))

    reader = asyncio.create_task(read())
    await clock.advance(4.0)
    assert seen == [(2.0, "a"), (4.0, " b")]
    await clock.advance(2.0)
    await reader
    assert seen[-1] == (6.0, " c")


@pytest.mark.parametrize(
    ("model", "limits", "text", "phase"),
    [
        ("stall", Timeouts(idle=30), "a", "streaming"),
        ("stall-after-2", Timeouts(idle=30), "a b", "streaming"),
        ("stall-after-0", Timeouts(first_event=30), "", "first_event"),
    ],
)
async def test_it_stalls_until_a_limit_passes(
    model: str, limits: Timeouts, text: str, phase: str
) -> None:
    clock = ManualClock()
    async with (
        Client(clock=clock, retry=ONCE) as client,
        client.stream(f"echo/{model}", "a b c", timeouts=limits) as stream,
    ):
        result = asyncio.create_task(stream.result())
        await clock.advance(31)
        with pytest.raises(swink.StreamTimeout) as caught:
            await result

    assert caught.value.phase == phase
    assert stream.message.text == text


async def test_it_stalls_until_the_caller_gives_up() -> None:
    async with Client() as client, client.stream("echo/stall", "a b") as stream:
        async for event in stream:
            if isinstance(event, TextDelta):
                break

    assert stream.message.stop_reason is StopReason.ABORTED
    assert stream.message.text == "a"


def test_the_catalogue_lists_what_echo_can_do_at_no_cost() -> None:
    listed = Client().catalog.models("echo")

    assert {info.id for info in listed} == set(MODELS)
    assert {(info.prices.input, info.prices.output) for info in listed if info.prices} == {(0, 0)}
