"""Level 1: what was recorded comes out as the events and the message that it is."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence

from attrs import evolve, fields

from swink_core import AssistantMessage, Event, StopReason
from swink_core.vocabulary.grammar import Automaton
from swink_recorder.recording import Recording
from swink_testing.chunking import chunkings, every_cut, random_cuts
from swink_testing.conformance.check import DoesNotApply, fail, require
from swink_testing.conformance.subject import PATIENCE, Subject
from swink_testing.driver import (
    MemoryHTTPClient,
    MemoryResponse,
    comparable,
    comparable_events,
    fold,
)

__all__ = [
    "broken_rule",
    "check_expected_message",
    "check_grammar",
    "check_loads",
    "check_recordings",
    "check_same_events_however_cut",
]

SMALL = 1024
"""Bytes up to which a body is cut in two at every place; a longer one at as many as this / 16."""

LONGEST_BYTE_BY_BYTE = 128 * 1024
"""Bytes up to which a body is also read byte by byte."""


def check_loads(subject: Subject) -> None:
    """The plugin imports, fits the hooks, and is written for this level of the plugin API."""
    require(subject.fault is None, subject.fault or "")


def check_recordings(subject: Subject) -> None:
    """It ships recordings that can be read, each with its message, one of a complete answer."""
    if not subject.parses:
        raise DoesNotApply("it has no parser: no bytes can be put through it")
    recordings = subject.recordings
    require(recordings, "it ships no recordings: `swink record` makes one of a live answer")
    for recording in recordings:
        require(
            recording.message is not None,
            f"recording {recording.name} has no message.json that says what it should become",
        )
    require(
        len(subject.failures()) < len(recordings),
        "none of its recordings is of a complete answer",
    )


def check_same_events_however_cut(subject: Subject) -> None:
    """Where a network read ends makes no difference to the events."""

    async def compare() -> None:
        for recording in subject.answers():
            whole = comparable_events(await subject.parse(recording))
            for cut, chunks in _cuts(subject, recording):
                events = comparable_events(await subject.parse(recording, chunks))
                if events != whole:
                    fail(f"recording {recording.name}, {cut}: {_difference(events, whole)}")

    asyncio.run(compare())


def check_grammar(subject: Subject) -> None:
    """What the `stream` hook yields keeps to the event grammar."""
    provider = subject.provider
    if subject.speaks_http:
        cases = [
            (f"recording {recording.name}", MemoryResponse.of_recording(recording), recording)
            for recording in subject.recordings
        ]
        if not cases:
            raise DoesNotApply("there are no recordings")
    elif subject.can_be_called:
        cases = []
    else:
        raise DoesNotApply(f"{type(provider).__name__} answers from somewhere else: use --live")

    async def follow() -> None:
        for where, response, recording in cases:
            events = subject.raw_events(MemoryHTTPClient(response), subject.model_of(recording))
            if (broken := broken_rule(await _to_the_end(events))) is not None:
                fail(f"{where}: {broken}")
        if subject.can_be_called:
            events = subject.raw_events(MemoryHTTPClient(), subject.model)
            if (broken := broken_rule(await _to_the_end(events))) is not None:
                fail(broken)

    asyncio.run(follow())


def check_expected_message(subject: Subject) -> None:
    """Each recording of a complete answer becomes the message that stands beside it."""

    async def compare() -> None:
        for recording in subject.answers():
            assert recording.message is not None  # answers() chose those that have one
            events = await subject.parse(recording)
            found = fold(events, subject.name, recording.model)
            expected = evolve(recording.message, provider=subject.name)
            if (difference := _message_difference(found, expected)) is not None:
                fail(f"recording {recording.name}: {difference}")

    asyncio.run(compare())


def broken_rule(events: Iterable[Event]) -> str | None:
    """Name the rule of the grammar that events break, or return `None`."""
    automaton = Automaton()
    for event in events:
        if (broken := automaton.step(event)) is not None:
            return broken
    return None if automaton.phase == "ended" else "the stream has no terminal event"


async def _to_the_end(
    events: AsyncIterator[Event],
) -> list[Event]:
    """Wait for what comes after the terminal event, which breaks the grammar too."""
    found = []
    try:
        async with asyncio.timeout(PATIENCE.total):
            async for event in events:
                found.append(event)
    except TimeoutError:
        last = found[-1].type if found else "nothing"
        fail(f"the stream does not end after {last}")
    return found


def _cuts(subject: Subject, recording: Recording) -> Iterator[tuple[str, Sequence[bytes]]]:
    body = recording.body
    if len(body) <= LONGEST_BYTE_BY_BYTE:
        yield from chunkings(body, type(subject.provider).decoder)
    else:
        for seed in range(8):
            yield f"random cuts, seed {seed}", random_cuts(body, seed, 1 + len(body) // 1024)
    if len(body) <= SMALL:
        for place, chunks in enumerate(every_cut(body), 1):
            yield f"cut at byte {place}", chunks
    else:
        for place in sorted(random.Random(0).sample(range(1, len(body)), SMALL // 16)):
            yield f"cut at byte {place}", [body[:place], body[place:]]


def _difference(events: Sequence[Event], whole: Sequence[Event]) -> str:
    for number, (event, expected) in enumerate(zip(events, whole, strict=False)):
        if event != expected:
            return f"event {number} is {event!r:.200}, in one piece it is {expected!r:.200}"
    return f"there are {len(events)} events, in one piece {len(whole)}"


_NOT_COMPARED = frozenset({"cost", "request_id", "error_message"})
"""What a message has from elsewhere than the body: prices, headers, the core's own words."""


def _message_difference(found: AssistantMessage, expected: AssistantMessage) -> str | None:
    found, expected = comparable(found), comparable(expected)
    if found.stop_reason is StopReason.ERROR:
        return f"it fails ({found.error_kind}): {found.error_message}"
    for field in fields(AssistantMessage):
        is_, should = getattr(found, field.name), getattr(expected, field.name)
        if field.name not in _NOT_COMPARED and is_ != should:
            return f"{field.name} is {is_!r:.300}, expected {should!r:.300}"
    return None
