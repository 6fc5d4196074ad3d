"""The subjects of the fault matrix: a package and a wire format, with its recordings.

A `FaultSubject` knows what its recordings call good answers, errors inside a stream and refusals.
Presets that differ in address alone are one subject.
"""

from __future__ import annotations

import random
from functools import cache
from typing import Any

from attrs import define, field

import swink_core as swink
from swink_core.plugins.host import PROVIDER_GROUP
from swink_core.providers import Catalog, HTTPProvider
from swink_recorder.recording import Recording
from swink_test_helpers.corpus import shipped_by_wire_format
from swink_testing.chaos_answers import Answer
from swink_testing.conformance.failures.errors import OWN_CODES
from swink_testing.driver import drive_bytes, fold, reads_on

__all__ = ["FaultSubject", "offsets", "subjects"]

EVERY_BYTE = 400
"""Bytes up to which a body is cut after every one of them."""

FRAMES_FOR_ALL_FAULTS = 11


@define(eq=False)
class FaultSubject:
    """A provider and what it is known to answer."""

    provider: Any
    wire_format: str
    good: list[Recording] = field(repr=False)
    refusals: list[Recording] = field(repr=False)
    errors: list[Recording] = field(repr=False)
    resolved: swink.Model = field(repr=False)
    """The model, with what the catalogue knows: it may choose among the provider's APIs."""

    _answers: dict[str, Answer] = field(factory=dict, repr=False, init=False)
    _whole: swink.AssistantMessage | None = field(default=None, repr=False, init=False)
    _reads_on: bool | None = field(default=None, repr=False, init=False)

    def __repr__(self) -> str:
        return f"{self.provider.name}-{self.wire_format}"

    @property
    def model(self) -> str:
        return self.good[0].model

    @property
    def name(self) -> str:
        return f"{self.provider.name}/{self.model}"

    def answer(self, recording: Recording | None = None) -> Answer:
        recording = recording or self.good[0]
        if recording.name not in self._answers:
            decoder = type(self.provider).decoder
            self._answers[recording.name] = Answer.of_recording(recording, decoder)
        return self._answers[recording.name]

    async def whole(self) -> swink.AssistantMessage:
        """Return the message of the good answer."""
        if self._whole is None:
            self._whole = fold(await self.events(self.answer().body))
        return self._whole

    async def reads_on(self) -> bool:
        """Tell whether its answers end with their bytes alone."""
        if self._reads_on is None:
            answers = [self.answer(recording) for recording in self.good]
            self._reads_on = await reads_on(self.provider, self.resolved, answers)
        return self._reads_on

    async def events(self, body: bytes) -> list[swink.Event]:
        """Return the events of a body, without a network."""
        options = swink.StreamOptions(malformed="skip")
        chunks = [body] if body else []
        return await drive_bytes(self.provider, self.resolved, chunks, options=options)

    async def error_frame(self, recording: Recording) -> tuple[bytes, bool]:
        """Return the bytes of a failed answer's error, and whether they are a frame."""
        answer = self.answer(recording)
        for frame in [*answer.frames, answer.body[answer.ends[-1] :]]:
            terminal = (await self.events(frame))[-1]
            if isinstance(terminal, swink.Error) and terminal.code not in OWN_CODES:
                return frame, frame in answer.frames
        raise AssertionError(f"{recording.name} has no frame that says an error")

    async def told_errors(self) -> list[Recording]:
        """Return the failed answers that say their error in a frame: others were only cut."""
        told = []
        for recording in self.errors:
            assert recording.message is not None
            kind = recording.message.error_kind
            terminal = (await self.events(recording.body))[-1]
            if getattr(terminal, "code", None) != "cut":
                # what is our own verdict on a frame is no error that the frame tells
                told += [recording] if kind != "protocol" else []
            else:
                assert kind == "network", f"{recording.name} says {kind}, and is read as cut"
        return told

    async def completes_at(self, answer: Answer) -> int:
        """Return the number of bytes after which the provider has completed its answer.

        The completing frame need not have come to its blank line, if it is whole.
        """
        for end in answer.ends:
            if isinstance((await self.events(answer.body[:end]))[-1], swink.Done):
                return len(answer.body[:end].rstrip(b"\r\n"))
        raise AssertionError("the recording is of an answer that was not completed")


@cache
def subjects(name: str | None = None) -> list[FaultSubject]:
    """Return one for each package and wire format, of one provider or of all that are installed.

    Those that do not speak HTTP, and those without any recording, are left out. Raises
    UnknownProvider.
    """
    host = swink.Host()
    if name is not None:
        host.entry(name)
    found: dict[tuple[str, str], FaultSubject] = {}
    for entry in host.entries():
        if entry.group != PROVIDER_GROUP or name not in (None, entry.name):
            continue
        provider = host.bind(entry.name).provider
        made = type(provider)
        if not issubclass(made, HTTPProvider) or made.request is HTTPProvider.request:
            continue  # it does not speak HTTP
        groups = shipped_by_wire_format(host, entry.package, provider.info.wire_format)
        for wire_format, recordings in groups.items():
            key = (entry.package, wire_format)
            if key in found and provider.name != recordings[0].provider:
                continue
            if (subject := _subject(host, provider, wire_format, recordings)) is not None:
                found[key] = subject
    return list(found.values())


def _subject(
    host: swink.Host, provider: Any, wire_format: str, recordings: list[Recording]
) -> FaultSubject | None:
    def failed(recording: Recording) -> bool:
        return recording.message is not None and recording.message.error_kind is not None

    good = [r for r in recordings if r.status == 200 and r.message is not None and not failed(r)]
    good.sort(key=lambda r: _rank(provider, r))
    if not good:
        return None
    return FaultSubject(
        provider,
        wire_format,
        good,
        [r for r in recordings if r.status >= 400 and failed(r)],
        [r for r in recordings if r.status == 200 and failed(r)],
        Catalog(host).resolve(f"{provider.name}/{good[0].model}"),
    )


def _rank(provider: Any, recording: Recording) -> tuple[bool, bool, int]:
    """Put plain answers first that are long enough for every fault, short before long."""
    frames = len(Answer.of_recording(recording, type(provider).decoder).ends)
    plain = recording.message is not None and recording.message.stop_reason == "stop"
    return frames <= FRAMES_FOR_ALL_FAULTS, not plain, len(recording.body)


def offsets(answer: Answer, seed: int = 0) -> list[int]:
    """Return where to cut a body: everywhere if it is short, else near frames and at random."""
    size = len(answer.body)
    if size <= EVERY_BYTE:
        return list(range(size + 1))
    rng = random.Random(seed)
    some = answer.ends[:: max(1, len(answer.ends) // 8)]
    near = [end + step for end in some for step in (-1, 0, 1)]
    last = [size - step for step in range(12)]
    chosen = {0, 1, *near, *last, *rng.sample(range(size), min(size, 120))}
    return sorted(offset for offset in chosen if 0 <= offset <= size)
