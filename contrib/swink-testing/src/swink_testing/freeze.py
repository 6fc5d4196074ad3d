"""Measures how long a function would block an event loop.

Times are CPU times of the thread, so that waiting for the processor does not count. A time that is
too long is compared with that of a fixed piece of work, because a processor may be slow or share
its core; see `UsualSpeed`.

    assert cpu_seconds(lambda: parse(hostile)) < FREEZE

`long_frames` and `long_errors` make a provider parse very large frames and error responses, and
describe those that took too long.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from time import thread_time
from typing import TYPE_CHECKING, Any

import msgspec

from swink_core.providers import EventSource
from swink_core.streaming.builder import MessageBuilder
from swink_testing.calls import call_of
from swink_testing.driver import MemoryResponse
from swink_testing.oversized_json import NESTING, TEXTS, WHOLE, inflated

if TYPE_CHECKING:
    from swink_testing.conformance.subject import Subject

__all__ = [
    "CONTENT",
    "FREEZE",
    "HOSTILE_SIZE",
    "Frames",
    "UsualSpeed",
    "cpu_seconds",
    "frames_of",
    "large_frames",
    "long_errors",
    "long_frames",
    "step_seconds",
]

FREEZE = 0.1
"""Seconds that a frame or error response of `HOSTILE_SIZE` bytes may block the event loop."""

HOSTILE_SIZE = 256 * 1024

_RUNS = 10
"""The maximum number of runs of work that takes too long.

A busy machine may slow down several runs, but hardly all of them.
"""

_CERTAIN = 5.0
"""If a run takes this many times as long as it may, no further run is made.

A busy machine with a slow processor does not slow down a run by this factor.
"""

USUAL_SECONDS = 0.014
"""Seconds that a core of an AMD EPYC at 2.4 GHz, otherwise idle, takes for `_usual_work`."""


class UsualSpeed:
    """Converts CPU seconds to those of a processor of usual speed.

    `seconds` is called after each of several runs of the same work. It compares the speed of this
    processor before and after the run, and the higher speed counts. The time of the first run does
    not change, because no speed was measured before it.
    """

    def __init__(self) -> None:
        self._slowness = 1.0

    def seconds(self, seconds: float, enough: float = 0.0) -> float:
        """Return the seconds that the latest run would take at usual speed, at most `seconds`.

        If `seconds` is less than `enough`, they are returned, and no speed is measured.
        """
        if seconds < enough:
            return seconds
        before, self._slowness = self._slowness, max(1.0, _once(_usual_work) / USUAL_SECONDS)
        return seconds / min(before, self._slowness)


def _usual_work() -> None:
    texts = dict[int, str]()
    for number in range(100_000):
        texts[number & 1023] = str(number)


def cpu_seconds(work: Callable[[], object], enough: float = FREEZE, runs: int = _RUNS) -> float:
    """Return the seconds that `work` takes at usual speed.

    This is the shortest time of at most `runs` runs. No further run is made after one that takes
    less than `enough`, or more than five times as long. If `enough` is 0, all runs are made.

    The time of the garbage collector is left out, because it depends on earlier work.
    """
    return _shortest(lambda: work, enough, runs)


CONTENT = ("x", "1", '{"a":')
"""Texts that are repeated to make long values in frames.

Unlike the texts for error responses (`TEXTS`), they contain no waiting times such as `1m`.
"""


class Frames:
    """The frames of a recorded answer. `step` parses another frame after some of these frames."""

    def __init__(self, subject: Subject, name: str, frames: list[bytes]) -> None:
        self.name = name
        self.frames = frames
        self._provider, self._model = subject.provider, subject.model

    def step(self, before: int, frame: bytes) -> Callable[[], object]:
        """Return a function that parses `frame` after the first `before` recorded frames."""

        def work() -> None:
            with suppress(Exception):  # any exception ends the parser's work
                batch = source.take(frame)
                if not source.ended:
                    batch = [*batch, *source.fail(StopAsyncIteration())]
                builder.feed(batch)
                builder.message  # noqa: B018  # the property builds the message

        source, builder = self._source(), MessageBuilder()
        builder.feed(source.begin())
        for earlier in self.frames[:before]:
            builder.feed(source.take(earlier))
        return work if not source.ended else lambda: None

    def _source(self) -> EventSource:
        call = call_of(self._provider, self._model)
        parser = self._provider.parser(call.model)
        return EventSource(call, _nothing(), _AsItIs(), parser, malformed="skip")


def frames_of(subject: Subject) -> list[Frames]:
    """Return the frames of each recorded answer that was streamed."""
    found = []
    for recording in subject.recordings:
        if recording.status == 200 and recording.kind == "stream":
            decoder = type(subject.provider).decoder()
            frames = [*decoder.feed(recording.body), *decoder.finish()]
            found.append(Frames(subject, recording.name, frames))
    return found


def long_frames(subjects: Iterable[Subject]) -> Iterator[str]:
    """Describe each frame of `HOSTILE_SIZE` bytes that blocks the event loop for too long.

    If several answers contain a field, the field is enlarged only in the answer with the fewest
    frames.
    """
    for where, answer, at, frame in large_frames(subjects, HOSTILE_SIZE):
        seconds = step_seconds(answer, at, frame)
        if seconds > FREEZE:
            yield f"{where} takes {seconds:.2f} s"


def large_frames(
    subjects: Iterable[Subject], size: int
) -> Iterator[tuple[str, Frames, int, bytes]]:
    known = set[tuple[Any, str]]()
    answers = (frames for subject in subjects for frames in frames_of(subject))
    for answer in sorted(answers, key=lambda answer: len(answer.frames)):
        for at, frame in enumerate(answer.frames):
            try:
                data = msgspec.json.decode(frame)
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
            kind = data.get("type") if isinstance(data, dict) else None
            for where, large in inflated(data, size, CONTENT, _New(known, kind)):
                yield f"{answer.name}, frame {at}, {where}", answer, at, large


class _New:
    """Lets `inflated` create each variant only once for each kind of frame.

    The variant in which a nested value replaces the whole frame is created once for all kinds.
    """

    def __init__(self, known: set[tuple[Any, str]], kind: Any) -> None:
        self._known, self._kind = known, kind

    def __contains__(self, where: object) -> bool:
        before = len(self._known)
        kind = None if where == f"{WHOLE}: {NESTING}" else self._kind
        self._known.add((kind, str(where)))
        return len(self._known) > before


def step_seconds(
    answer: Frames, at: int, frame: bytes, enough: float = FREEZE, runs: int = _RUNS
) -> float:
    """Return the seconds that a frame takes after the first `at` frames; see `cpu_seconds`."""
    return _shortest(lambda: answer.step(at, frame), enough, runs)


def long_errors(subject: Subject) -> Iterator[str]:
    """Describe each error response that blocks the event loop for too long.

    Each of the responses has a header or a body of `HOSTILE_SIZE` bytes.
    """
    bodies: list[Any] = [{"error": {"message": "no", "code": 1, "type": "no", "details": [{}]}}]
    for recording in subject.failures():
        if recording.status != 200:
            try:
                bodies.append(msgspec.json.decode(recording.body))
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
    answers: list[tuple[str, dict[str, str], bytes]] = [
        (where, {}, body) for data in bodies for where, body in inflated(data, HOSTILE_SIZE)
    ]
    for name in ("Retry-After", "retry-after-ms", "x-ratelimit-reset-requests", "Location"):
        for text in (*TEXTS, "1.", "Mon, ", "-1", "9e"):
            large = text * (HOSTILE_SIZE // len(text))
            answers.append((f"{name} of {text!r}", {name: large}, b"{}"))
    http = subject.http()
    client, options = subject.client(http), subject.call_options()

    async def ask() -> None:
        async with client.stream(subject.model, "Hello", **options) as stream:
            async for _ in stream:
                pass

    def refused(headers: dict[str, str], body: bytes) -> None:
        headers = {"Content-Type": "application/json", **headers}
        http.answer(MemoryResponse([body], 429, headers))
        runner.run(ask())

    with asyncio.Runner() as runner:
        for where, headers, body in answers:
            seconds = cpu_seconds(partial(refused, headers, body))
            if seconds > FREEZE:
                yield f"{where} takes {seconds:.2f} s"


def _shortest(make: Callable[[], Callable[[], object]], enough: float, runs: int) -> float:
    """Return the shortest time of several runs, each of the work that `make` then returns."""
    best, speed = float("inf"), UsualSpeed()
    for _ in range(runs):
        best = min(best, speed.seconds(_once(make()), enough))
        if enough and not enough <= best <= _CERTAIN * enough:
            break
    return best


def _once(work: Callable[[], object]) -> float:
    tracer, collects = sys.gettrace(), gc.isenabled()
    sys.settrace(None)  # the time of a coverage tool does not count
    gc.disable()
    try:
        begun = thread_time()
        work()
        return thread_time() - begun
    finally:
        if collects:
            gc.enable()
        sys.settrace(tracer)


class _AsItIs:
    """A decoder that treats each network read as one frame."""

    def feed(self, data: bytes) -> list[bytes]:
        return [data]

    def finish(self) -> list[bytes]:
        return []


async def _nothing() -> AsyncIterator[bytes]:
    for data in list[bytes]():
        yield data
