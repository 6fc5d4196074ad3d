"""A plugin's iterator that catches our cancellation and goes on takes nothing away.

At every await of every provider's `exchange()`: data that it yields after cancellation is passed
on, and then exactly one terminal event follows, that of the cancellation.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
from fakes import Observer, broken_rules

import swink_core as swink
from swink_core import StreamErrorKind as Kind
from swink_test_helpers.fault_matrix import FaultSubject, subjects
from swink_testing.clock import ManualClock
from swink_testing.conformance import CANARY_KEY
from swink_testing.driver import comparable, fold

PLACES = 6
"""At how many awaits of a long answer, its first and its last among them."""


class Stubborn:
    """Chunks that wait for ever at one place, and yield the rest when they are cancelled there."""

    def __init__(self, chunks: list[bytes], place: int) -> None:
        self.waits = asyncio.Event()
        self._chunks = iter(chunks)
        self._left = place

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self._left == 0:
            self.waits.set()
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
        self._left -= 1
        data = next(self._chunks, None)
        if data is None:
            raise StopAsyncIteration
        return data


def places(count: int) -> list[int]:
    return sorted({0, count, *range(0, count + 1, max(1, count // PLACES))})


async def left(stream: swink.EventStream, way: str, clock: ManualClock, reader: Any) -> None:
    if way == "close":
        await stream.aclose()
    elif way == "cancel":
        reader.cancel()
    else:
        await clock.advance(400.0)


@pytest.mark.parametrize("way", ["limit", "close", "cancel"])
@pytest.mark.parametrize("subject", subjects(), ids=repr)
async def test_events_after_a_suppressed_cancellation_are_kept_and_one_terminal_follows(
    subject: FaultSubject, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = subject.answer()
    ends = [0, *answer.ends]
    chunks = [answer.body[a:b] for a, b in pairwise(ends)]
    for place in places(len(chunks)):
        stubborn = Stubborn(chunks, place)
        monkeypatch.setattr(type(subject.provider), "exchange", lambda *_, it=stubborn: it)
        observer, clock = Observer(), ManualClock()
        host = swink.Host([observer])
        client = swink.Client(host=host, clock=clock, retry=swink.RetryPolicy.none())
        options: dict[str, Any] = {"api_key": CANARY_KEY, "base_url": "http://stubborn.invalid"}
        stream = client.stream(subject.name, "Hello", **options)
        got: list[Any] = []

        async def read(stream: Any = stream, got: list[Any] = got) -> None:
            async for event in stream:
                got.append(event)

        reader = asyncio.ensure_future(read())
        await stubborn.waits.wait()
        await left(stream, way, clock, reader)
        with suppress(asyncio.CancelledError):
            await reader
        await stream.aclose()

        assert broken_rules(observer.events) == []
        assert len(observer.terminals) == 1
        if way != "cancel":  # whose task is gone
            assert got == observer.events
        kind = getattr(observer.terminals[0], "error_kind", None)
        assert kind in ({"limit": Kind.TIMEOUT}.get(way, Kind.CANCELLED), None)
        taken = await subject.events(answer.body[: ends[min(place + 1, len(chunks))]])
        expected, found = comparable(fold(taken)), comparable(stream.message)
        assert found.content == expected.content, place
