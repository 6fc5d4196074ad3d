"""Broken answers and refusals of every installed provider, each made of a number alone.

The answers are those of the providers' own recordings, broken in three ways: bytes on the wire,
whole frames (left out, repeated, out of order, of another answer), and values inside a frame's
JSON. Refusals are broken bodies and headers of HTTP errors.

    given = stream(4711)                # the same one on every machine
    given.subject.model, given.pieces
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

from swink_core import (
    Host,
    Model,
)
from swink_core.providers import Catalog, Decoder
from swink_test_helpers.corpus import shipped_by_wire_format
from swink_testing.chaos_answers import Answer, FrameWriter
from swink_testing.chunking import frame_ends, random_cuts
from swink_testing.conformance.subject import Subject

__all__ = ["Mutated", "Refusal", "Stream", "mutated", "refusal", "stream"]

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

STATUSES = (400, 401, 403, 404, 408, 409, 413, 422, 424, 429, 500, 502, 503, 504, 529, 302, 204)

HEADERS = (
    "Retry-After", "retry-after-ms", "x-ratelimit-reset-requests", "x-ratelimit-reset-tokens",
    "x-request-id", "x-should-retry", "Location", "x-amzn-errortype",
)  # fmt: skip

WORDS = (
    "0", "-1", "1", "60", "1.5", "1e999", "nan", "inf", "9" * 400, "1m", "1h1m1s", "x", "",
    "Mon, 01 Jan 2001 00:00:00 GMT", "Mon, 99 Jan 99999", "2099-01-01T00:00:00Z", "\xe9",
    "ThrottlingException:http://x/", "http://[", "a" * 8000,
)  # fmt: skip

BODIES: list[Any] = [
    {"error": {"message": "no", "code": 1, "type": "no", "details": [{"retryDelay": "1s"}]}},
    {"message": "no"}, [{"error": {"code": 400, "message": "no", "status": "NO"}}],
]  # fmt: skip


class Mutated(NamedTuple):
    """A provider, and what it gave: answers as the frames of their bodies, and refusals."""

    kit: Subject
    model: Model
    bodies: list[list[bytes]]
    refusals: list[bytes]

    @property
    def provider(self) -> Any:
        """The provider's plugin object."""
        return self.kit.provider

    @property
    def decoder(self) -> Callable[[], Decoder]:
        """Creates the provider's decoder."""
        made: Callable[[], Decoder] = type(self.provider).decoder
        return made

    @property
    def writer(self) -> FrameWriter | None:
        """Writes frames in the provider's format, if it has a special one."""
        return Answer.of_body(b"", self.decoder).writer


class Stream(NamedTuple):
    """What is fed: pieces of a body, or (`framed`) the payloads of frames."""

    subject: Mutated
    pieces: list[bytes]
    framed: bool

    def on_the_wire(self, seed: int) -> list[bytes]:
        """Return the pieces that a server writes: frames as such, cut anywhere."""
        if not self.framed:
            return self.pieces
        answer = Answer.of_body(b"", self.subject.decoder)
        write = answer.frame if answer.framing else bytes
        return random_cuts(b"".join(map(write, self.pieces)), seed)


class Refusal(NamedTuple):
    """An HTTP error."""

    subject: Mutated
    status: int
    headers: dict[str, str]
    body: bytes


@cache
def mutated() -> list[Mutated]:
    """Find every provider that reads a body, one for each package and wire format."""
    host = Host()
    catalog = Catalog(host)
    found: dict[tuple[str, str], Mutated] = {}
    for name in host.provider_names():
        kit = Subject.find(name)
        if kit.fault is not None or not kit.parses:
            continue
        groups = shipped_by_wire_format(host, kit.entry.package, kit.provider.info.wire_format)
        for wire_format, recordings in groups.items():
            streams = [recording for recording in recordings if recording.status == 200]
            if streams and (kit.entry.package, wire_format) not in found:
                bodies = [_frames(r.body, type(kit.provider).decoder) for r in streams]
                model = catalog.resolve(f"{name}/{streams[0].model}")
                refusals = [r.body for r in kit.failures() if r.status != 200]
                refusals += [json.dumps(body).encode() for body in BODIES]
                made = Mutated(kit, model, bodies, refusals)
                found[kit.entry.package, wire_format] = made
    return list(found.values())


def _frames(body: bytes, decoder: Callable[[], Decoder]) -> list[bytes]:
    ends = frame_ends(body, decoder)
    return [body[start:end] for start, end in pairwise([0, *ends])] or [body]


def stream(number: int) -> Stream:
    """Make the stream of a number."""
    rng = random.Random(number)
    subject = rng.choice(mutated())
    frames = list(rng.choice(subject.bodies))
    if len(frames) > FRAMES:  # its beginning, some of its middle, and its end
        middle = sorted(rng.sample(range(2, len(frames) - 3), FRAMES - 5))
        frames = frames[:2] + [frames[n] for n in middle] + frames[-3:]
    for _ in range(rng.choice((0, 0, 1, 1, 2, 4))):
        _break_frames(rng, frames, subject)
    if rng.random() < 0.5:
        payloads = _decoded(subject, b"".join(frames))
        for _ in range(rng.choice((1, 1, 2, 3, 8))):
            _break_values(rng, payloads, subject.writer)
        return Stream(subject, payloads, True)
    body = bytearray(b"".join(frames))
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        _break_bytes(rng, body)
    whole = bytes(body)
    return Stream(subject, random_cuts(whole, number, rng.choice((0, 1, 8, 40))), False)


def refusal(number: int) -> Refusal:
    """Make the refusal of a number."""
    rng = random.Random(number)
    subject = rng.choice([subject for subject in mutated() if subject.kit.speaks_http])
    bodies = [rng.choice(subject.refusals)]
    for _ in range(rng.choice((0, 1, 1, 2, 3, 8))):
        _break_values(rng, bodies)
    body = bytearray(bodies[0])
    for _ in range(rng.choice((0, 0, 0, 1, 4))):
        _break_bytes(rng, body)
    names = rng.sample(HEADERS, rng.choice((0, 1, 2)))
    headers = {"Content-Type": rng.choice(("application/json", "text/html", "", "x" * 300))}
    headers |= {name: rng.choice(WORDS) for name in names}
    return Refusal(subject, rng.choice(STATUSES), headers, bytes(body))


def _break_frames(rng: random.Random, frames: list[bytes], subject: Mutated) -> None:
    place = rng.randrange(len(frames) + 1)
    match rng.randrange(5):
        case 0:
            del frames[place : place + rng.randint(1, 3)]
        case 1:
            frames[place:place] = frames[max(0, place - 2) : place]
        case 2:
            rng.shuffle(frames)
        case 3:
            other = rng.choice(rng.choice(mutated()).bodies)
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


def _break_values(
    rng: random.Random, payloads: list[bytes], writer: FrameWriter | None = None
) -> None:
    if not payloads:
        return
    place = rng.randrange(len(payloads))
    try:
        text = payloads[place] if writer is None else writer.as_json(payloads[place])
        value = json.loads(text)
    except (ValueError, RecursionError):
        if writer is None:
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
    made = json.dumps(value).encode()
    with suppress(ValueError):  # not everything can be said in frames of a framing of its own
        payloads[place] = made if writer is None else writer.of_json(made)


def _holders(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in JSON data: what holds it, and its key there. The root's holder is a list."""
    pairs: Any = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in list(pairs):
        yield value, key
        if isinstance(item, dict | list):
            yield from _holders(item)


def _decoded(subject: Mutated, body: bytes) -> list[bytes]:
    decoder = subject.decoder()
    try:
        return [*decoder.feed(body), *decoder.finish()]
    except ValueError as error:  # a binary framing whose checksums no longer fit
        return list(getattr(error, "frames", ()))
