"""Checks of server faults, and of large frames and error bodies."""

from __future__ import annotations

import asyncio
from functools import cache
from itertools import chain
from typing import Any

from swink_core import Done, Error, Event
from swink_core import StreamErrorKind as Kind
from swink_core.providers import AiohttpClient
from swink_recorder.recording import Recording
from swink_testing.chaos import Answer, ChaosServer, standard_faults
from swink_testing.clock import TurnClock
from swink_testing.conformance.answers.streaming import broken_rule
from swink_testing.conformance.check import fail, require
from swink_testing.conformance.played import Through
from swink_testing.conformance.subject import Subject
from swink_testing.driver import MemoryResponse, comparable, fold, reads_on
from swink_testing.expected_faults import AFTER_THE_END, FAILS, FULL_STREAM, HALFWAY, TOO_DAMAGED
from swink_testing.freeze import long_errors, long_frames
from swink_testing.quiet import quiet

__all__ = ["check_large_input", "check_standard_faults"]

_LONGEST = 16_384
"""The maximum size, in bytes, of a recording that the checks damage.

Damage to a longer recording would reveal no further faults.
"""


def check_standard_faults(subject: Subject) -> None:
    """A server's faults are reported with the right error kind, and the partial answer is kept."""
    subject.require_http()
    recordings = sorted(subject.answers(), key=lambda recording: len(recording.body))
    fitting = [recording for recording in recordings if len(recording.body) <= _LONGEST]
    recording = (fitting or recordings[:1])[-1]
    answer = Answer.of_recording(recording, type(subject.provider).decoder)

    kinds = FAILS | HALFWAY | TOO_DAMAGED

    async def spoil() -> None:
        whole = await subject.played_events(recording)
        begun = [recording.body[: len(recording.body) // 2]]
        half = await subject.played_events(recording, MemoryResponse.of_recording(recording, begun))
        lost = await subject.parse(recording, begun)  # without the further answers
        async with ChaosServer(clock=TurnClock()) as chaos:
            for name, fault in standard_faults(answer).items():
                if name not in kinds.keys() | FULL_STREAM:
                    continue
                if name in HALFWAY and isinstance(lost[-1], Done) and _is_same(lost, whole):
                    continue  # half of the bytes are the whole answer
                if name in AFTER_THE_END and recording.after:
                    continue  # the parser must read on, for the further answers
                events = await _events(subject, recording, chaos.add(name, answer, fault))
                if name in FULL_STREAM:
                    require(isinstance(events[-1], Done), f"{name} ends in {events[-1]!r:.200}")
                    if name not in AFTER_THE_END or not await _reads_on(subject):
                        _require_same(name, events, whole)
                else:
                    _require_kind(name, events, kinds[name])
                if name in HALFWAY and not _is_same(events, lost):
                    _require_same(name, events, half)
        http = subject.http(MemoryResponse.of_recording(recording))
        model = subject.model_of(recording)
        limited = await subject.events_of_call(http, model, max_output_chars=1)
        _require_kind("an answer that is longer than allowed", limited, Kind.OUTPUT_TOO_LARGE)

    with quiet():
        asyncio.run(spoil())


async def _reads_on(subject: Subject) -> bool:
    decoder = type(subject.provider).decoder
    answers = [Answer.of_recording(recording, decoder) for recording in subject.answers()]
    return await reads_on(subject.provider, subject.model, answers)


async def _events(subject: Subject, recording: Recording, base_url: str) -> list[Event]:
    there = AiohttpClient()
    http = subject.http(Through(there, base_url), recording=recording)
    http.is_open = True
    options = subject.call_options(malformed="skip")
    model = subject.model_of(recording)
    async with subject.client(http).stream(model, "Hello", **options) as stream:
        events = [event async for event in stream]
    await there.aclose()
    if (broken := broken_rule(events)) is not None:
        fail(f"a server's fault breaks the grammar: {broken}")
    return events


def _require_kind(name: str, events: list[Event], kind: Any) -> None:
    terminal = events[-1]
    found = terminal.error_kind if isinstance(terminal, Error) else terminal.type
    require(found == kind, f"{name} ends in {found}, expected Error({kind})")


def _require_same(name: str, events: list[Event], expected: list[Event]) -> None:
    found, wanted = comparable(fold(events)).content, comparable(fold(expected)).content
    require(found == wanted, f"{name}: of the answer {found!r:.200} is kept, not {wanted!r:.200}")


def _is_same(events: list[Event], expected: list[Event]) -> bool:
    return comparable(fold(events)).content == comparable(fold(expected)).content


def check_large_input(subject: Subject) -> None:
    """No frame or error body of 256 KB blocks the event loop, whichever part of it is large."""
    subject.require_parser()
    with quiet():
        if slow := _first_slow(_Reading(subject)):
            fail(slow)


class _Reading:
    """A cache key, equal for providers of a package that have the same parser and recordings."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        made, parser = type(subject.provider), subject.provider.parser(subject.model)
        names = tuple(recording.name for recording in subject.recordings)
        state = tuple(type(value) for value in getattr(parser, "__dict__", {}).values())
        self._key = (subject.entry.package, made, type(parser), state, names)

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Reading) and self._key == other._key


@cache
def _first_slow(reading: _Reading) -> str | None:
    """Describe the first input that takes too long; after it, no further input is measured."""
    subject = reading.subject
    refused = long_errors(subject) if subject.speaks_http else ()
    return next(chain(long_frames([subject]), refused), None)
