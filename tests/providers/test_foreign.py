"""Wrappers and hand-written iterators pass events on unchanged, at any time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from math import nan
from typing import Any

import pytest
from fakes import (
    HELLO,
    MODEL,
    Observer,
    Pipe,
    PipeClient,
    Yielding,
    broken_rules,
    client_of,
    collect,
    settled,
    types,
)

import swink_core as swink
from swink_core import Cost, Done, Error, Start, StopReason, Usage
from swink_core import StreamErrorKind as Kind
from swink_testing.clock import ManualClock

ALL_AT_ONCE = b"".join(HELLO)


class Around:
    """A shared plugin that puts an iterator around each provider's."""

    def __init__(self, change: Callable[[Any], Any]) -> None:
        self.change = change

    @swink.hookimpl(wrapper=True)
    def stream(self) -> Any:
        return self.change((yield))


async def streamed(
    *plugins: Any, pieces: tuple[bytes, ...] = (ALL_AT_ONCE,), **options: Any
) -> list[Any]:
    """The events of an answer that comes in these pieces, one network read each."""
    async with client_of(*plugins, http=PipeClient(Pipe(*pieces))) as client:
        return await collect(client.stream(MODEL, "Hi", **options))


class Turnstile:
    """A wrapper that passes one event on whenever the test allows it."""

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(0)
        self.cancelled = False

    def let(self, events: int = 1) -> None:
        for _ in range(events):
            self._turns.release()

    async def __call__(self, inner: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for event in inner:
            try:
                await self._turns.acquire()
            except asyncio.CancelledError:
                self.cancelled = True
                raise
            yield event


@pytest.mark.parametrize("pieces", [(ALL_AT_ONCE,), tuple(HELLO)], ids=["one_read", "five_reads"])
async def test_a_wrapper_that_waits_between_events_changes_none(pieces: tuple[bytes, ...]) -> None:
    async def waiting(inner: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for event in inner:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            yield event

    assert await streamed(Around(waiting), pieces=pieces) == await streamed(pieces=pieces)


async def test_events_of_one_read_for_which_a_wrapper_waits_come_one_by_one() -> None:
    turnstile, events = Turnstile(), []
    async with client_of(Around(turnstile), http=PipeClient(Pipe(ALL_AT_ONCE))) as client:

        async def read() -> None:
            async for event in client.stream(MODEL, "Hi"):
                events.append(event)

        reader = asyncio.create_task(read())
        told = []
        for _ in range(6):
            turnstile.let()
            await settled()
            told.append(types(events))
        await reader
    *_, before, after, end = told
    assert before == ["start", "text_start", "text_delta", "text_delta"]
    assert (after[-1], end[-1]) == ("text_end", "done")


async def test_events_of_one_read_for_which_a_wrapper_does_not_wait_come_together() -> None:
    async def handing_on(inner: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for event in inner:
            yield event

    async with client_of(Around(handing_on), http=PipeClient(Pipe(ALL_AT_ONCE))) as client:
        batches = [len(batch) async for batch in client.stream(MODEL, "Hi").batches() if batch]
    async with client_of(http=PipeClient(Pipe(ALL_AT_ONCE))) as client:
        bare = [len(batch) async for batch in client.stream(MODEL, "Hi").batches() if batch]
    assert batches == bare == [1, 5]


async def raising(inner: AsyncIterator[Any]) -> AsyncIterator[Any]:
    async for event in inner:
        if event.type == "text_end":
            raise ZeroDivisionError("oops")
        yield event


async def test_events_of_a_wrapper_before_its_exception_are_passed_on() -> None:
    events = await streamed(Around(raising))
    assert broken_rules(events) == []
    assert types(events) == ["start", "text_start", *["text_delta"] * 2, "text_end", "error"]
    assert events[-1].error_kind is Kind.INTERNAL
    assert "oops" in events[-1].error_message


async def test_a_bound_of_the_answer_comes_before_the_exception_of_a_wrapper_behind_it() -> None:
    events = await streamed(Around(raising), max_output_chars=4)
    assert broken_rules(events) == []
    assert events[-1].error_kind is Kind.OUTPUT_TOO_LARGE


async def test_events_held_by_a_wrapper_at_close_are_counted() -> None:
    """It has handed two events of a read on and waits for the third: the caller gets the two."""
    observer, turnstile = Observer(), Turnstile()
    http = PipeClient(Pipe(ALL_AT_ONCE))
    async with client_of(Around(turnstile), observer, http=http) as client:
        stream = client.stream(MODEL, "Hi")
        reader = asyncio.create_task(collect(stream))
        turnstile.let(2)
        await settled()
        await stream.aclose()
        events = await reader
    assert turnstile.cancelled
    assert events == observer.events
    assert types(events) == ["start", "text_start", "text_end", "error"]
    assert events[-1].stop_reason is StopReason.ABORTED


async def test_a_wrapper_may_end_the_answer_before_its_provider_does() -> None:
    """Events from one network read are passed on as a whole; the stream is not closed twice."""

    async def short(inner: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for event in inner:
            yield event
            break
        yield Done(StopReason.STOP)
        await asyncio.Event().wait()

    assert types(await streamed(Around(short))) == ["start", "done"]


async def test_an_end_that_a_wrapper_made_is_the_end_though_it_goes_on_waiting() -> None:
    async def dallying(inner: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for event in inner:
            yield event
            if event.type == "text_end":
                yield Done(StopReason.STOP)
                await asyncio.Event().wait()

    observer, http = Observer(), PipeClient(Pipe(ALL_AT_ONCE))
    async with client_of(Around(dallying), observer, http=http) as client:
        stream = client.stream(MODEL, "Hi")
        reader = asyncio.create_task(collect(stream))
        await settled()
        await stream.aclose()
        events = await reader
    assert events == observer.events
    assert types(events)[-2:] == ["text_end", "done"]
    assert broken_rules(events) == []


ANSWER = [Start(), swink.Notice("hint", "nothing of note"), Done(StopReason.STOP)]


async def test_events_may_be_handed_over_in_lists() -> None:
    class Lists:
        async def batches(self) -> AsyncIterator[list[Any]]:
            yield ANSWER[:1]
            yield []
            yield ANSWER[1:]

    async with client_of(providers={"toy": Yielding(Lists)}) as client:
        assert await collect(client.stream(MODEL, "Hi")) == ANSWER


async def test_a_plugin_may_take_long_between_events() -> None:
    clock = ManualClock()

    class Slow:
        async def batches(self) -> AsyncIterator[list[Any]]:
            for event in ANSWER:
                await clock.sleep(10.0)
                yield [event]

    async with client_of(providers={"toy": Yielding(Slow)}, clock=clock) as client:
        reader = asyncio.create_task(collect(client.stream(MODEL, "Hi")))
        for _ in ANSWER:
            await settled()
            await clock.advance(10.0)
        assert await reader == ANSWER


async def test_an_exception_before_the_first_event_ends_the_answer() -> None:
    class Broken:
        async def batches(self) -> AsyncIterator[list[Any]]:
            raise ZeroDivisionError("oops")
            yield []

    async with client_of(providers={"toy": Yielding(Broken)}) as client:
        events = await collect(client.stream(MODEL, "Hi"))
    assert types(events) == ["start", "error"]
    assert "raised ZeroDivisionError: oops" in events[-1].error_message


async def test_nothing_comes_after_an_end_that_was_handed_over_with_more() -> None:
    class Lists:
        async def batches(self) -> AsyncIterator[list[Any]]:
            yield [*ANSWER, swink.Notice("late", "nobody listens"), *ANSWER]

    async with client_of(providers={"toy": Yielding(Lists)}) as client:
        assert await collect(client.stream(MODEL, "Hi")) == ANSWER


# the usage and cost in a plugin's last event, and what is left of them
AMOUNTS: list[tuple[Any, Any, Any, Any]] = [
    (Usage(-5, 2), None, Usage(None, 2), None),
    (Usage(1, 2.5, total=10**30), None, Usage(1), None),
    (Usage(True, "2"), None, Usage(), None),
    (None, Cost(total=nan), None, None),
    (None, Cost(-0.5, 1.0), None, Cost(None, 1.0)),
    (None, Cost(fees="1", total=2.0), None, Cost(total=2.0)),
]


@pytest.mark.parametrize(("usage", "cost", "left", "paid"), AMOUNTS)
@pytest.mark.parametrize("end", [partial(Done, StopReason.STOP), partial(Error, StopReason.ERROR)])
async def test_invalid_amounts_in_a_plugins_last_event_are_left_out_with_a_notice(
    end: Callable[..., Any], usage: Any, cost: Any, left: Any, paid: Any
) -> None:
    class Miscounts:
        async def batches(self) -> AsyncIterator[list[Any]]:
            words = [swink.TextStart(0), swink.TextDelta(0, "Hi"), swink.TextEnd(0)]
            yield [Start(), *words, end(usage=usage, cost=cost)]

    async with client_of(providers={"toy": Yielding(Miscounts)}) as client:
        stream = client.stream(MODEL, "Hi", retry=False)
        events = await collect(stream)
        assert (client.usage, client.cost) == (stream.call.usage, stream.call.cost)
    *_, notice, last = events
    assert notice.code == "usage"
    assert "is not a valid" in notice.detail
    assert (last.usage, last.cost) == (left, paid)
    assert stream.message.text == "Hi"


async def test_an_iterator_need_not_know_how_to_be_closed() -> None:
    class Plain:
        def __init__(self) -> None:
            self.left = iter([ANSWER[0]])

        def __aiter__(self) -> Any:
            return self

        async def __anext__(self) -> Any:
            return next(self.left)

    async with client_of(providers={"toy": Yielding(Plain)}) as client:
        [event async for event in client.stream(MODEL, "Hi") if isinstance(event, Error)]
        async with client.stream(MODEL, "Hi") as left:
            async for event in left:
                assert event == ANSWER[0]
                break


async def test_the_size_of_an_answer_is_counted_anew_from_a_restart_on() -> None:
    class Restarted:
        async def batches(self) -> AsyncIterator[list[Any]]:
            yield [Start(), swink.TextStart(0), swink.TextDelta(0, "abc"), swink.TextEnd(0)]
            yield [swink.Retry(2, 3, 0.0, "cut", MODEL, Kind.NETWORK)]
            yield [Start(), swink.TextStart(0), swink.TextDelta(0, "abcde"), swink.TextEnd(0)]
            yield [Done(StopReason.STOP)]

    for limit, end in ((5, Done), (4, Error)):
        async with client_of(providers={"toy": Yielding(Restarted)}) as client:
            events = await collect(client.stream(MODEL, "Hi", max_output_chars=limit))
        assert type(events[-1]) is end, events[-1]


@pytest.mark.parametrize(
    "whole",
    [
        swink.Extension(0, "toy", "odd", "x" * 100),
        swink.Extension(0, "toy", "odd", None, {"said": "x" * 100}),
        swink.ToolCallStart(0, "x" * 100, "f"),
        swink.ToolCallStart(0, "a", "f" * 100),
    ],
    ids=["data", "metadata", "id", "name"],
)
async def test_content_of_whole_events_counts_towards_the_size_of_an_answer(whole: Any) -> None:
    class Wide:
        async def batches(self) -> AsyncIterator[list[Any]]:
            yield [Start(), whole]
            yield [Done(StopReason.STOP)]

    async with client_of(providers={"toy": Yielding(Wide)}) as client:
        events = await collect(client.stream(MODEL, "Hi", max_output_chars=90))
    assert events[-1].error_kind is Kind.OUTPUT_TOO_LARGE
