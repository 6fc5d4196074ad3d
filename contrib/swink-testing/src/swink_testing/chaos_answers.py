"""A normal response of a provider, as data that faults can change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import pairwise
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec
from attrs import define, evolve, field

from swink_core.providers import Decoder, FrameError, NDJSONDecoder, SSEDecoder
from swink_recorder.recording import Recording
from swink_testing.chunking import frame_ends

__all__ = ["Answer", "FrameWriter", "Framing", "framing_of"]

Framing = Literal["sse", "ndjson"]


@runtime_checkable
class FrameWriter(Protocol):
    """A decoder class that also converts frames to JSON text and back."""

    def __call__(self) -> Decoder:
        """Make a decoder."""

    @staticmethod
    def as_json(frame: bytes) -> bytes:
        """Return the JSON text of a frame from the decoder.

        Raises ValueError if the frame cannot be converted.
        """

    @staticmethod
    def of_json(text: bytes) -> bytes:
        """Return the bytes of a frame with this JSON text.

        Raises ValueError if the text cannot be converted.
        """


@define(frozen=True)
class Answer:
    """A response of the provider without faults.

    `ends` are the offsets in the body at which the frames end. `writer` is the provider's decoder
    class, if it is a `FrameWriter`. If it is not, `framing` is the framing of the body: `sse`,
    `ndjson` or, for any other, `None`.
    """

    body: bytes = field(repr=False)
    content_type: str = "text/event-stream"
    status: int = 200
    headers: Mapping[str, str] = field(factory=dict, repr=False)
    ends: tuple[int, ...] = field(default=(), repr=False)
    framing: Framing | None = None
    writer: FrameWriter | None = field(default=None, repr=False)

    @classmethod
    def of_body(
        cls, body: bytes, decoder: Callable[[], Decoder], content_type: str = "text/event-stream"
    ) -> Answer:
        """Make an answer from the bytes of a stream; `decoder` makes the provider's decoder."""
        ends = tuple(frame_ends(body, decoder))
        made: Any = type(decoder())
        writer = made if isinstance(made, FrameWriter) else None
        framing = framing_of(decoder) if writer is None else None
        return cls(body, content_type, ends=ends, framing=framing, writer=writer)

    @classmethod
    def of_recording(cls, recording: Recording, decoder: Callable[[], Decoder]) -> Answer:
        """Make an answer from a recording."""
        types = [v for name, v in recording.headers.items() if name.lower() == "content-type"]
        good = cls.of_body(recording.body, decoder)
        return evolve(good, status=recording.status, content_type=types[0] if types else "")

    @property
    def frames(self) -> list[bytes]:
        """The bytes of each frame."""
        return [self.body[start:end] for start, end in pairwise((0, *self.ends))]

    @property
    def is_data(self) -> bool:
        """Whether the payloads of frames can be read and replaced."""
        return self.framing is not None or self.writer is not None

    def payloads(self, frame: bytes) -> list[bytes]:
        """Return the payloads of a frame, which are usually JSON texts; empty if it has none."""
        if self.writer is not None:
            with suppress(ValueError):
                made = self.writer().feed(frame)
                return [_opened(self.writer.as_json(each)) for each in made]
            return []
        decoder = SSEDecoder() if self.framing == "sse" else NDJSONDecoder()
        return decoder.feed(frame)

    def frame(self, payload: bytes, event: str | None = None) -> bytes:
        """Write a payload as a frame; `event` is an SSE event's name.

        Raises ValueError if the framing is unknown, or if a frame cannot contain the payload.
        """
        if self.framing == "ndjson":
            return payload + b"\n"
        if self.framing == "sse":
            name = f"event: {event}\n".encode() if event else b""
            return name + b"data: " + payload + b"\n\n"
        if self.writer is not None:
            return self.writer.of_json(_closed(payload))
        raise ValueError("frames of this answer cannot be written")

    def with_frames(self, frames: list[bytes]) -> Answer:
        """Return a copy of the answer that consists of these frames."""
        ends, end = [], 0
        for frame in frames:
            end += len(frame)
            ends.append(end)
        return evolve(self, body=b"".join(frames), ends=tuple(ends))


_DATA = "data of an event"
"""The field under which checks find the JSON text in an event's `data` as a parsed object."""


def _opened(payload: bytes) -> bytes:
    """Parse the JSON text in an event's field `data`, so that checks find the values in it."""
    event = _event(payload)
    text = event.get("data") if isinstance(event, dict) else None
    if not isinstance(text, str) or not text.startswith("{"):
        return payload
    with suppress(msgspec.DecodeError):
        inner = msgspec.json.decode(text, type=dict[str, Any])
        rest = {name: value for name, value in event.items() if name != "data"}
        return msgspec.json.encode({**rest, _DATA: inner})
    return payload


def _event(payload: bytes) -> Any:
    """Parse a JSON payload; return `None` if it is invalid."""
    try:
        return msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _closed(payload: bytes) -> bytes:
    """Convert the parsed `data` of an event back to text; the reverse of `_opened`."""
    event = _event(payload)
    if not isinstance(event, dict) or _DATA not in event:
        return payload
    inner = msgspec.json.encode(event.pop(_DATA)).decode()
    return msgspec.json.encode({**event, "data": inner})


def framing_of(decoder: Callable[[], Decoder]) -> Framing | None:
    """Return the framing that a provider's decoder reads.

    The result is `None` if the frames are neither SSE events nor lines of JSON.
    """
    found: list[Framing] = [framing for framing, frame in _FRAMES if _reads(decoder(), frame)]
    return found[0] if found else None


_PAYLOAD = b"{}"
_FRAMES: tuple[tuple[Framing, bytes], ...] = (
    ("sse", b"data: %b\n\n" % _PAYLOAD),
    ("ndjson", b"%b\n" % _PAYLOAD),
)


def _reads(decoder: Decoder, frame: bytes) -> bool:
    try:
        return [*decoder.feed(frame)] == [_PAYLOAD]
    except FrameError:
        return False
