"""Feed broken answers to every installed provider's decoder and parser: `fuzz.py --streams N`.

The answers are those of the providers' own recordings, broken in three ways: bytes on the wire,
whole frames (left out, repeated, out of order, of another answer), and values inside a frame's
JSON. Whatever comes must end in exactly one terminal event that keeps to the grammar, make a
message that can be written as JSON, and take no longer than a moment. A stream is made of its
number alone, so that a failure is repeated with `fuzz.py --only NUMBER`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import multiprocessing
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import swink_core as swink
from swink_core import Catalog
from swink_core.providers import Decoder, EventSource
from swink_core.vocabulary.grammar import Automaton
from swink_recorder.recording import Recording, bundled_recordings
from swink_testing.calls import call_of
from swink_testing.chunking import frame_ends, random_cuts
from swink_testing.driver import fold

STUCK_SECONDS = 20
"""A stream is a few kilobytes; one that takes longer hangs."""

BATCH = 2_000
"""Streams that a process takes on at a time."""

FRAMES = 12
"""Frames of an answer that are used; more would only take more time."""

TOKENS = [
    b"\n", b"\r", b"\r\n", b"\n\n", b"\r\n\r\n", b"\x00", b"\xff", b"\xef\xbb\xbf", b"data:",
    b"data: ", b"event: error\n", b"event:", b"retry: 1\n", b"id:\n", b": \n\n", b"[DONE]", b"{",
    b"}", b"[", b"]", b'"', b"\\", b"\\u", b"\\ud800", b"null", b"true", b"NaN", b"1e999", b"-1",
    b"0.5", b"{}", b"[]",
    b"9" * 400, b"[" * 3000, b'{"a":' * 3000, b"data: {}\n\n", b"{}\n", b"\xc3", b"\xf0\x9f\x98",
]  # fmt: skip

VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 0.5, 1e300, 2**63, 2**70, "", "x", "\ud800", "\x00", "a" * 9000,
    [], {}, [None], [[]], [{}], {"": None}, {"type": "error"}, {"error": {}}, {"error": "x"},
    {"error": None}, {"error": [1]}, "{", "[]", "null", "stop", "error", "0", [1, "x", None, {}],
]  # fmt: skip


class Subject(NamedTuple):
    """A provider and the answers that it gave, each as the frames of its body."""

    provider: Any
    model: swink.Model
    bodies: list[list[bytes]]


class Stream(NamedTuple):
    """What is fed: pieces of a body, or (`framed`) the payloads of frames."""

    subject: Subject
    pieces: list[bytes]
    framed: bool


class GivenFrames:
    """A decoder for what is already cut into frames."""

    def feed(self, data: bytes) -> list[bytes]:
        """Return the piece as a frame."""
        return [data]

    def finish(self) -> list[bytes]:
        """There is nothing left over."""
        return []


@cache
def subjects() -> list[Subject]:
    """Find every provider that reads a body, one for each package and wire format."""
    host = swink.Host()
    catalog = Catalog(host)
    found: dict[tuple[str, str], Subject] = {}
    for entry in host.entries():
        if entry.group != "swink.providers":
            continue
        provider = host.bind(entry.name).provider
        if not (hasattr(provider, "parser") and hasattr(provider, "decoder")):
            continue
        for wire_format, recordings in _recordings(host, entry.package, provider).items():
            if (entry.package, wire_format) not in found:
                decoder = type(provider).decoder
                bodies = [_frames(recording.body, decoder) for recording in recordings]
                model = catalog.resolve(f"{entry.name}/{recordings[0].model}")
                found[entry.package, wire_format] = Subject(provider, model, bodies)
    return list(found.values())


def _recordings(host: swink.Host, package: str, provider: Any) -> dict[str, list[Recording]]:
    """Return a package's streams by wire format, or those of others who speak the same."""
    if own := _streams(package):
        return own
    wanted = provider.info.wire_format
    for other in host.entries():
        if wanted in (groups := _streams(other.package)):
            return {wanted: groups[wanted]}
    return {}


@cache
def _streams(package: str) -> dict[str, list[Recording]]:
    groups: dict[str, list[Recording]] = {}
    for folder in bundled_recordings(package):
        recording = Recording.load(folder)
        if recording.status == 200:
            groups.setdefault(recording.wire_format, []).append(recording)
    return groups


def _frames(body: bytes, decoder: Callable[[], Decoder]) -> list[bytes]:
    ends = frame_ends(body, decoder)
    return [body[start:end] for start, end in pairwise([0, *ends])] or [body]


# -- breaking -------------------------------------------------------------------------------------


def stream(number: int) -> Stream:
    """Make the stream of a number."""
    rng = random.Random(number)
    subject = rng.choice(subjects())
    frames = list(rng.choice(subject.bodies))
    if len(frames) > FRAMES:  # its beginning, some of its middle, and its end
        middle = sorted(rng.sample(range(2, len(frames) - 3), FRAMES - 5))
        frames = frames[:2] + [frames[n] for n in middle] + frames[-3:]
    for _ in range(rng.choice((0, 0, 1, 1, 2, 4))):
        _break_frames(rng, frames, subject)
    if rng.random() < 0.5:
        payloads = _decoded(subject, b"".join(frames))
        for _ in range(rng.choice((1, 1, 2, 3, 8))):
            _break_values(rng, payloads)
        return Stream(subject, payloads, True)
    body = bytearray(b"".join(frames))
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        _break_bytes(rng, body)
    whole = bytes(body)
    return Stream(subject, random_cuts(whole, number, rng.choice((0, 1, 8, 40))), False)


def _break_frames(rng: random.Random, frames: list[bytes], subject: Subject) -> None:
    place = rng.randrange(len(frames) + 1)
    match rng.randrange(5):
        case 0:
            del frames[place : place + rng.randint(1, 3)]
        case 1:
            frames[place:place] = frames[max(0, place - 2) : place]
        case 2:
            rng.shuffle(frames)
        case 3:
            other = rng.choice(rng.choice(subjects()).bodies)
            frames.insert(place, rng.choice(other))
        case _:
            frames.insert(place, rng.choice(rng.choice(subject.bodies)))


def _break_bytes(rng: random.Random, body: bytearray) -> None:
    place = rng.randrange(len(body) + 1)
    match rng.randrange(6):
        case 0 if place < len(body):
            body[place] ^= 1 << rng.randrange(8)
        case 1:
            del body[place : place + rng.randint(1, 20)]
        case 2:
            body[place:place] = body[place : place + rng.randint(1, 200)]
        case 3:
            body[place:place] = rng.randbytes(rng.randint(1, 8))
        case 4:
            del body[place:]
        case _:
            body[place:place] = rng.choice(TOKENS)


def _break_values(rng: random.Random, payloads: list[bytes]) -> None:
    if not payloads:
        return
    place = rng.randrange(len(payloads))
    head, text, tail = _parts(payloads[place])
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        if not head:
            payloads[place] = rng.choice(TOKENS)
        return
    holders = list(_holders([value]))
    holder, key = rng.choice(holders)
    match rng.randrange(4):
        case 0 if isinstance(holder, dict):
            del holder[key]
        case 1 if isinstance(holder, dict):
            other, name = rng.choice(holders)
            holder[name if isinstance(other, dict) else "type"] = holder[key]
        case 2:
            other, name = rng.choice(holders)
            holder[key] = json.loads(json.dumps(other[name]))  # a copy: a cycle cannot be written
        case _:
            holder[key] = rng.choice(VALUES)
    payloads[place] = head + json.dumps(value).encode() + tail


def _parts(payload: bytes) -> tuple[bytes, bytes, bytes]:
    """JSON, and what is around it where a payload is a binary message (AWS's event stream)."""
    if not payload.startswith(b"\x00"):
        return b"", payload, b""
    start = payload.find(b"{")
    return payload[:start], payload[start:-4], payload[-4:]


def _holders(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in JSON data: what holds it, and its key there. The root's holder is a list."""
    pairs: Any = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in list(pairs):
        yield value, key
        if isinstance(item, dict | list):
            yield from _holders(item)


def _decoded(subject: Subject, body: bytes) -> list[bytes]:
    decoder = type(subject.provider).decoder()
    try:
        return [*decoder.feed(body), *decoder.finish()]
    except ValueError as error:  # a binary framing whose checksums no longer fit
        return list(getattr(error, "frames", ()))


# -- feeding --------------------------------------------------------------------------------------


async def feed(given: Stream) -> list[swink.AssistantMessageEvent]:
    """Return the events that a stream makes."""
    provider = given.subject.provider
    call = call_of(provider, given.subject.model)
    source = EventSource(
        call,
        _pieces(given.pieces),
        GivenFrames() if given.framed else type(provider).decoder(),
        provider.parser(call.model),
        malformed="skip",
    )
    return [event async for event in source]


async def _pieces(pieces: list[bytes]) -> Any:
    for piece in pieces:
        yield piece


def check(events: list[swink.AssistantMessageEvent]) -> None:
    """Raise AssertionError for events that no stream may have."""
    automaton = Automaton()
    for event in events:
        broken = automaton.step(event)
        assert broken is None, broken
    assert automaton.phase == "ended", "no terminal event"
    terminal = events[-1]
    if isinstance(terminal, swink.Error):
        assert isinstance(terminal.error_kind, swink.StreamErrorKind), terminal
        assert terminal.error_kind is not swink.StreamErrorKind.INTERNAL, terminal
        assert terminal.error_message, terminal
    message = swink.dump(fold(events))
    json.dumps(message, allow_nan=False)
    json.dumps([swink.dump(event) for event in events], allow_nan=False)


def stuck(*_: object) -> None:
    """Break a hanging stream off; see `signal.setitimer`."""
    raise TimeoutError(f"a stream takes longer than {STUCK_SECONDS} s")


async def run(numbers: range) -> tuple[int, str] | None:
    """Feed streams and return the first that fails, with why; `None` if none does."""
    for number in numbers:
        signal.setitimer(signal.ITIMER_REAL, STUCK_SECONDS)
        try:
            check(await feed(stream(number)))
        except Exception:
            return number, traceback.format_exc()
    signal.setitimer(signal.ITIMER_REAL, 0)
    return None


def work(numbers: range) -> tuple[int, str] | None:
    """Do what `run` does, in a process of the pool."""
    logging.disable()
    signal.signal(signal.SIGALRM, stuck)
    return asyncio.run(run(numbers))


def fail(number: int, why: str) -> None:
    """Say what was fed, and exit."""
    given = stream(number)
    print(f"stream {number}, {given.subject.model}, {'frames' if given.framed else 'bytes'}:")
    for piece in given.pieces:
        print(f"    {piece[:2000]!r}")
    sys.exit(f"{why}\nagain: python tools/fuzz.py --only {number}")


def main() -> None:
    """Feed as many streams as were asked for, on all processors."""
    parser = argparse.ArgumentParser(description="Feed broken answers to installed providers.")
    parser.add_argument("--streams", type=int, default=1_000_000, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the number to begin with")
    parser.add_argument("--only", type=int, help="feed this one alone")
    given = parser.parse_args()
    if given.only is not None:
        signal.signal(signal.SIGALRM, stuck)
        failed = asyncio.run(run(range(given.only, given.only + 1)))
        if failed is not None:
            fail(*failed)
        return
    print(f"{given.streams} streams of {', '.join(str(s.model) for s in subjects())}")
    began = time.monotonic()
    last = given.first + given.streams
    batches = [range(n, min(n + BATCH, last)) for n in range(given.first, last, BATCH)]
    with multiprocessing.Pool(os.cpu_count()) as pool:
        for done, failed in enumerate(pool.imap_unordered(work, batches), 1):
            if failed is not None:
                pool.terminate()
                fail(*failed)
            if done % 25 == 0:
                print(f"{done * BATCH} in {time.monotonic() - began:.0f} s", flush=True)
    print(f"no surprise in {given.streams} streams, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
