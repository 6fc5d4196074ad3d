"""Checks of the plugin's hooks, recordings and events."""

from __future__ import annotations

import asyncio
import inspect
import random
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence

from swink_core import Event, Notice
from swink_core.plugins.hookspecs import PROJECT
from swink_core.vocabulary.grammar import Automaton
from swink_recorder.recording import Recording
from swink_testing.chunking import byte_by_byte, chunkings, every_cut, random_cuts
from swink_testing.conformance.check import Blocks, DoesNotApply, fail, require
from swink_testing.conformance.lifecycle.blocking import waits
from swink_testing.conformance.subject import PATIENCE, Subject
from swink_testing.driver import MemoryResponse, comparable, comparable_events, fold, source_of
from swink_testing.freeze import FREEZE, UsualSpeed

__all__ = [
    "HOOKS",
    "broken_rule",
    "check_grammar",
    "check_loads",
    "check_never_blocks",
    "check_recordings",
    "check_same_events",
]

SMALL = 1024
"""A body of at most this many bytes is cut in two at every offset. A longer body is cut at
64 offsets (a sixteenth of this number), chosen at random.
"""

LONGEST_BYTE_BY_BYTE = 128 * 1024
"""The largest body, in bytes, that is also read byte by byte."""

_READ = 5
"""How many recordings, the shortest ones, are read in pairs at the same time."""

HOOKS = ("stream", "convert_messages", "classify_error", "on_event")


def check_loads(subject: Subject) -> None:
    """The plugin can be imported, and matches the hook specifications and the plugin API level.

    Each method with the name of a hook has the decorator @hookimpl, without which it is never
    called.
    """
    require(subject.fault is None, subject.fault or "")
    require(
        subject.binding.hook.stream.get_hookimpls(),
        "it has no stream hook: a method `stream` with @hookimpl, or a base such as HTTPProvider",
    )
    for name in HOOKS:
        found = inspect.getattr_static(subject.provider, name, None)
        is_hook = hasattr(getattr(found, "__func__", found), f"{PROJECT}_impl")
        why = f"{name} is defined without @hookimpl, so that nobody calls it"
        require(found is None or is_hook, why)


def check_recordings(subject: Subject) -> None:
    """The package contains readable recordings with messages, and at least one complete answer."""
    subject.require_parser()
    recordings = subject.recordings
    require(recordings, "it ships no recordings: `swink record` makes one of a live answer")
    for recording in recordings:
        require(
            recording.message is not None,
            f"recording {recording.name} has no message.json that says what it should become",
        )
    require(
        len(subject.failures()) < len(recordings),
        "no recording contains a complete answer",
    )


def check_same_events(subject: Subject) -> None:
    """The events do not depend on the boundaries of network reads or on other answers.

    The other answers are read at the same time, or before.
    """

    async def compare() -> None:
        for recording in subject.answers():
            whole = comparable_events(await subject.parse(recording))
            for cut, chunks in _cuts(subject, recording):
                events = comparable_events(await subject.parse(recording, chunks))
                if events != whole:
                    fail(f"recording {recording.name}, {cut}: {_difference(events, whole)}")
        await _require_side_by_side(subject)
        if subject.speaks_http:
            await _require_exchanged(subject)

    asyncio.run(compare())


async def _require_side_by_side(subject: Subject) -> None:
    """Check that answers that are read concurrently or consecutively do not affect each other."""
    recordings = sorted(subject.answers(), key=lambda recording: len(recording.body))[:_READ]
    alone = {r.name: comparable(fold(await subject.parse(r))) for r in recordings}
    for one, other in zip(recordings, [*recordings[1:], recordings[0]], strict=True):
        for pair in ((one, other), (one, one)):
            for recording, events in zip(pair, await _together(subject, pair), strict=True):
                beside = " and ".join(each.name for each in pair)
                require(
                    comparable(fold(events)) == alone[recording.name],
                    f"recording {recording.name}: it is another message where {beside} are read "
                    "at the same time",
                    recording.body,
                )


async def _require_exchanged(subject: Subject) -> None:
    """Check that the events are the same if two concurrent calls read the body byte by byte.

    Only calls with several requests are checked.
    """
    for recording in subject.answers():
        if not (recording.before or recording.after) or len(recording.body) > 4 * SMALL:
            continue
        whole = comparable_events(await subject.played_events(recording))
        pieces = byte_by_byte(recording.body)
        responses = [_Pausing.of_recording(recording, pieces) for _ in range(2)]
        calls = [subject.played_events(recording, response) for response in responses]
        for events in map(comparable_events, await asyncio.gather(*calls)):
            where = f"recording {recording.name}, in two calls byte by byte"
            require(events == whole, f"{where}: {_difference(events, whole)}")


class _Pausing(MemoryResponse):
    """A response that lets other calls continue after each network read."""

    async def __anext__(self) -> bytes:
        await asyncio.sleep(0)
        return await super().__anext__()


async def _together(subject: Subject, pair: tuple[Recording, Recording]) -> list[list[Event]]:
    sources = [
        source_of(subject.provider, subject.model_of(recording), _in_parts(recording.body))
        for recording in pair
    ]
    found: list[list[Event]] = [[], []]
    left = list(zip(map(aiter, sources), found, strict=True))
    while left:
        for source, events in list(left):
            try:
                events.append(await anext(source))
            except StopAsyncIteration:
                left.remove((source, events))
    return found


def _in_parts(body: bytes) -> list[bytes]:
    size = max(1, len(body) // 20)
    return [body[at : at + size] for at in range(0, len(body), size)]


def check_grammar(subject: Subject) -> None:
    """The events of `stream` follow the grammar, and each Notice has a detail."""

    async def follow() -> None:
        for where, source in _streams(subject):
            events = await _to_the_end(source)
            if (broken := broken_rule(events)) is not None:
                fail(f"{where}: {broken}")
            for event in events:
                mute = isinstance(event, Notice) and not event.detail
                require(not mute, f"{where}: a Notice says nothing: {event}")

    asyncio.run(follow())


def check_never_blocks(subject: Subject) -> None:
    """Neither `stream` nor a parser blocks the event loop."""

    async def listen() -> list[str]:
        with waits() as found:
            for where, events in _streams(subject):
                await _to_the_end(events, found)
                if found:
                    raise Blocks(f"{where}: it waits in the thread of the event loop: {found[0]}")
        return found

    asyncio.run(listen())
    speed = UsualSpeed()
    for _ in range(_ROUNDS):
        where, seconds = asyncio.run(_longest_step(subject))
        if (seconds := speed.seconds(seconds, FREEZE)) < FREEZE:
            return
    fail(f"{where}: an event takes {seconds:.2g} s of the processor, every other call waits")


_ROUNDS = 3
"""Number of measurements. A busy machine may slow down one measurement, but hardly all."""


async def _longest_step(subject: Subject) -> tuple[str, float]:
    longest = ("", 0.0)
    for where, events in _streams(subject):
        source = aiter(events)
        begun = time.thread_time()
        async for _ in source:
            longest = max(longest, (where, time.thread_time() - begun), key=lambda step: step[1])
            begun = time.thread_time()
    return longest


def _streams(subject: Subject) -> Iterator[tuple[str, AsyncIterator[Event]]]:
    """Yield the `stream` hook's events for each recording, and for a new call if possible."""
    calls = subject.can_be_called
    recordings = subject.whole_calls if subject.speaks_http or subject.reads_elsewhere else []
    if not (recordings or calls):
        if subject.speaks_http:
            raise DoesNotApply("the package has no recordings")
        made = type(subject.provider).__name__
        raise DoesNotApply(f"{made} answers from somewhere else: use --offline or --live")
    for recording in recordings:
        if subject.speaks_http or recording.status == 200:
            yield f"recording {recording.name}", subject.recorded_events(recording)
    if calls:
        yield "a call", subject.raw_events(subject.http(), subject.model)


def broken_rule(events: Iterable[Event]) -> str | None:
    """Describe how the order of events breaks the grammar; `None` if it does not."""
    automaton = Automaton()
    for event in events:
        if (broken := automaton.step(event)) is not None:
            return broken
    return None if automaton.phase == "ended" else "the stream has no terminal event"


async def _to_the_end(events: AsyncIterator[Event], faults: Sequence[str] = ()) -> list[Event]:
    """Read events to the end of the stream, or until the caller adds a fault to `faults`.

    Events after the terminal event are read too, because they break the grammar.
    """
    found = []
    try:
        async with asyncio.timeout(PATIENCE.total):
            async for event in events:
                found.append(event)
                if faults:
                    break
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
