"""Every installed provider that speaks HTTP, with its own recordings, before a chaos server.

A `Subject` is one provider package and one wire format: what its recordings call good answers,
errors inside a stream and refusals. Presets that differ in address alone are one subject.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable, Iterable
from contextlib import aclosing
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from attrs import define, field
from fakes import Observer, broken_rules

import swink_core as swink
from swink_core.failures.kinds import KINDS
from swink_core.providers import AiohttpClient, Attempt, HTTPProvider, LoopClock
from swink_core.vocabulary.grammar import CONTENT
from swink_recorder.loopback import Exchange
from swink_recorder.recording import Recording, bundled_recordings
from swink_testing.calls import client_with
from swink_testing.chaos import Answer, ChaosServer, Fault
from swink_testing.clock import ManualClock
from swink_testing.driver import comparable, drive_bytes, fold

CANARY = "sk-canary-0123456789abcdef"
CLOSE_WITHIN_SECONDS = 0.1
STUCK_SECONDS = 20.0
"""No test waits so long; one that does is stuck."""

EVERY_BYTE = 400
"""Bytes up to which a body is cut after every one of them."""

FRAMES_FOR_ALL_FAULTS = 11


@define(eq=False)
class Subject:
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
        """What the good answer becomes."""
        if self._whole is None:
            self._whole = fold(await self.events(self.answer().body))
        return self._whole

    async def events(self, body: bytes) -> list[swink.AssistantMessageEvent]:
        """What the same body gives without any network."""
        options = swink.StreamOptions(malformed="skip")
        chunks = [body] if body else []
        return await drive_bytes(self.provider, self.resolved, chunks, options=options)

    async def error_frame(self, recording: Recording) -> tuple[bytes, bool]:
        """What a failed answer's error is said with, and whether that is a frame at all."""
        answer = self.answer(recording)
        for frame in [*answer.frames, answer.body[answer.ends[-1] :]]:
            terminal = (await self.events(frame))[-1]
            if getattr(terminal, "rule", "core:cut") not in ("core:cut", "core:empty_response"):
                return frame, frame in answer.frames
        raise AssertionError(f"{recording.name} has no frame that says an error")

    async def told_errors(self) -> list[Recording]:
        """The failed answers that say their error in a frame: others were only cut."""
        cut = [(await self.events(r.body))[-1].rule == "core:cut" for r in self.errors]
        return [r for r, is_cut in zip(self.errors, cut, strict=True) if not is_cut]

    async def completes_at(self, answer: Answer) -> int:
        """The number of bytes after which the provider has completed its answer.

        The completing frame need not have come to its blank line, if it is whole.
        """
        for end in answer.ends:
            if isinstance((await self.events(answer.body[:end]))[-1], swink.Done):
                return len(answer.body[:end].rstrip(b"\r\n"))
        raise AssertionError("the recording is of an answer that was not completed")


@cache
def subjects() -> list[Subject]:
    """One subject for each package and wire format; those without any recording are left out."""
    host = swink.Host()
    found: dict[tuple[str, str], Subject] = {}
    for entry in host.entries():
        if entry.group != "swink.providers":
            continue
        provider = host.bind(entry.name).provider
        if getattr(type(provider), "chunks", None) is not HTTPProvider.chunks:
            continue  # it does not speak HTTP
        for wire_format, recordings in _recordings(host, entry.package, provider).items():
            key = (entry.package, wire_format)
            subject = _subject(host, provider, wire_format, recordings)
            better = key not in found or provider.name == subject_owner(recordings)
            if subject is not None and better:
                found[key] = subject
    return list(found.values())


def subject_owner(recordings: list[Recording]) -> str:
    return recordings[0].provider


def _recordings(host: swink.Host, package: str, provider: Any) -> dict[str, list[Recording]]:
    """A package's recordings by wire format, or those of others who speak the same."""
    own = _by_wire_format(package)
    if own:
        return own
    wanted = provider.info.wire_format
    for entry in host.entries():
        others = _by_wire_format(entry.package) if entry.group == "swink.providers" else {}
        if wanted in others:
            return {wanted: others[wanted]}
    return {}


@cache
def _by_wire_format(package: str) -> dict[str, list[Recording]]:
    groups: dict[str, list[Recording]] = {}
    for folder in bundled_recordings(package):
        recording = Recording.load(folder)
        groups.setdefault(recording.wire_format, []).append(recording)
    return groups


def _subject(
    host: swink.Host, provider: Any, wire_format: str, recordings: list[Recording]
) -> Subject | None:
    def failed(recording: Recording) -> bool:
        return recording.message is not None and recording.message.error_kind is not None

    good = [r for r in recordings if r.status == 200 and r.message is not None and not failed(r)]
    good.sort(key=lambda r: _rank(provider, r))
    if not good:
        return None
    return Subject(
        provider,
        wire_format,
        good,
        [r for r in recordings if r.status >= 400 and failed(r)],
        [r for r in recordings if r.status == 200 and failed(r)],
        swink.Catalog(host).resolve(f"{provider.name}/{good[0].model}"),
    )


def _rank(provider: Any, recording: Recording) -> tuple[bool, bool, int]:
    """Plain answers that are long enough for every fault come first, the shortest before others."""
    frames = len(Answer.of_recording(recording, type(provider).decoder).ends)
    plain = recording.message is not None and recording.message.stop_reason == "stop"
    return frames <= FRAMES_FOR_ALL_FAULTS, not plain, len(recording.body)


def offsets(answer: Answer, seed: int = 0) -> list[int]:
    """Where to cut a body: everywhere if it is short, else around frames and at random places."""
    size = len(answer.body)
    if size <= EVERY_BYTE:
        return list(range(size + 1))
    rng = random.Random(seed)
    some = answer.ends[:: max(1, len(answer.ends) // 8)]
    near = [end + step for end in some for step in (-1, 0, 1)]
    last = [size - step for step in range(12)]
    chosen = {0, 1, *near, *last, *rng.sample(range(size), min(size, 120))}
    return sorted(offset for offset in chosen if 0 <= offset <= size)


# -- one call against a hostile server ------------------------------------------------------------


class Connections:
    """An `HTTPClient` that begins anew for each call: no connection is left of the last one."""

    def __init__(self) -> None:
        self._http = AiohttpClient()

    async def send(self, request: Any, connect_timeout: float | None) -> Any:
        return await self._http.send(request, connect_timeout)

    def close_idle(self) -> None:
        self._http.close_idle()

    async def aclose(self) -> None:
        await self._http.aclose()
        self._http = AiohttpClient()


@cache
def _client() -> tuple[swink.Client, Connections, Observer]:
    """A client for all calls: finding and reading every installed plugin takes its time."""
    http, observer = Connections(), Observer()
    return client_with(plugins=[observer], api_key=CANARY, http=http), http, observer


@define
class Outcome:
    """How a call went, as caller, observers and server saw it."""

    stream: swink.EventStream
    events: list[swink.AssistantMessageEvent]
    requests: int
    sent: int

    @property
    def call(self) -> swink.Call:
        return self.stream.call

    @property
    def message(self) -> swink.AssistantMessage:
        return self.stream.message

    @property
    def terminal(self) -> Any:
        return self.events[-1]

    @property
    def kind(self) -> swink.StreamErrorKind | None:
        return getattr(self.terminal, "error_kind", None)

    @property
    def notices(self) -> list[str]:
        return [e.code for e in self.events if isinstance(e, swink.Notice)]

    @property
    def attempts(self) -> int:
        return sum(isinstance(event, swink.Start) for event in self.events)


async def call(
    subject: Subject,
    faults: Iterable[Fault] = (),
    *,
    answer: Answer | None = None,
    base_url: Callable[[ChaosServer], str] | None = None,
    clock: ManualClock | None = None,
    **options: Any,
) -> Outcome:
    """Makes a call and holds what every call must keep, however it fails."""
    client, http, observer = _client()
    client._clock = clock or LoopClock()
    observer.events = []
    options.setdefault("retry", swink.RetryPolicy(base=0.0))
    options.setdefault("malformed", "skip")
    async with asyncio.timeout(STUCK_SECONDS), ChaosServer() as chaos, aclosing(http):
        url = chaos.add("case", answer or subject.answer(), *faults) if faults else ""
        url = base_url(chaos) if base_url else url
        async with client.stream(subject.name, "Hello", base_url=url, **options) as stream:
            reader = asyncio.ensure_future(_collect(stream))
            if clock is not None:
                await _let_time_pass(clock, chaos, reader, Heard(stream, faults))
            events = await reader
            for exchange in chaos.exchanges:
                assert await chaos.left(exchange, CLOSE_WITHIN_SECONDS), "the server saw no close"
        assert broken_rules(events) == []
        assert observer.events == events
        assert len(observer.terminals) == 1
        sent = sum(exchange.sent for exchange in chaos.exchanges)
        return Outcome(stream, events, len(chaos.exchanges), sent)


async def _collect(stream: swink.EventStream) -> list[swink.AssistantMessageEvent]:
    return [event async for event in stream]


async def _let_time_pass(
    clock: ManualClock, chaos: ChaosServer, reader: asyncio.Future[Any], heard: Heard
) -> None:
    """Turns the clock as often as an attempt has got all that it will get."""
    while not reader.done():
        while not (reader.done() or heard.all_of(chaos.exchanges)):  # noqa: ASYNC110  # of sockets
            await asyncio.sleep(0.001)
        await clock.advance(400.0)


class Heard:
    """How much has come to a client that stalls keep waiting."""

    def __init__(self, stream: swink.EventStream, faults: Iterable[Fault]) -> None:
        self._call = stream.call
        self._bytes = 0
        [fault] = faults
        self._each = getattr(fault, "after", None) or 0
        stream.call.taps.append(self._count)

    def _count(self, _: Attempt, data: bytes) -> None:
        self._bytes += len(data)

    def all_of(self, exchanges: list[Exchange]) -> bool:
        """Whether every attempt has reached the server, and all its bytes the client."""
        asked = len(exchanges)
        return asked == self._call.attempts and self._bytes >= asked * self._each


# -- what to expect -------------------------------------------------------------------------------


async def requests_for(
    subject: Subject, body: bytes, kind: swink.StreamErrorKind, retries: int | None = None
) -> int:
    """How many requests are made when an attempt fails with `kind` after `body` was read."""
    if any(type(event) in CONTENT for event in await subject.events(body)):
        return 1
    return 1 + (KINDS[kind].retries if retries is None else retries)


def asks_another_api(subject: Subject) -> bool:
    """Whether a server without the API of the model's rules is asked over the other one."""
    if "api" not in subject.provider.info.settings:
        return False
    elsewhere = swink.StreamOptions(base_url="http://elsewhere.example")
    name: str = subject.provider.api(subject.resolved, elsewhere).api_name
    return name == "responses"


async def assert_kept(subject: Subject, outcome: Outcome, body: bytes) -> None:
    """What arrived is kept: exactly that, and the beginning of the good answer."""
    expected = comparable(fold(await subject.events(body)))
    got = comparable(outcome.message)
    assert got.content == expected.content
    whole = await subject.whole()
    for mine, full in zip(outcome.message.content, whole.content, strict=False):
        assert _said(full).startswith(_said(mine))


def _said(block: Any) -> str:
    if isinstance(block, swink.ToolCallBlock):
        return block.raw_arguments or ""
    return getattr(block, "text", None) or getattr(block, "thinking", None) or ""


def openssl_certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate that nobody has signed, made now; skips where openssl is missing."""
    import shutil
    import subprocess

    if shutil.which("openssl") is None:
        pytest.skip("no openssl here to make a certificate with")
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ})
    return key, certificate
