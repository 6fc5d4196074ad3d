"""The frames of `streamGenerateContent`, with the fields that the parser reads, and their framing.

https://ai.google.dev/api/generate-content#v1beta.GenerateContentResponse. Each frame is a complete
response with the next parts. The types accept absent and null fields, unknown enumeration values
and floats, so that a change of the API does not make a frame malformed. Parts are dictionaries
because the parts of server-side tools are sent back unchanged, including unknown fields.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from swink_core.providers import SSEDecoder

__all__ = [
    "Candidate",
    "Chunk",
    "FunctionCall",
    "StreamDecoder",
    "TextChunk",
    "decode_chunk",
    "decode_chunks",
    "decode_text",
    "function_call",
]

FRAME_LIMIT = 64 * 1024 * 1024
"""The size limit of a frame in bytes; a generated image is a single frame."""


class Content(msgspec.Struct, gc=False):
    """The next parts of the answer."""

    parts: list[dict[str, Any]] | None = None


class FunctionCall(msgspec.Struct, gc=False, rename="camel"):
    """A function call, or a piece of one on Vertex AI if the request enables streamed arguments."""

    id: str | None = None
    name: str | None = None
    args: dict[str, Any] | None = None
    partial_args: list[dict[str, Any]] | None = None
    will_continue: bool | None = None


class Candidate(msgspec.Struct, gc=False, rename="camel"):
    """The answer, or one of several alternative answers.

    `finish_reason` is in the last frame; older models repeat it in every frame.
    """

    index: int | float | None = None
    content: Content | None = None
    finish_reason: str | None = None
    finish_message: str | None = None
    safety_ratings: list[dict[str, Any]] | None = None
    citation_metadata: dict[str, Any] | None = None
    grounding_metadata: dict[str, Any] | None = None
    url_context_metadata: dict[str, Any] | None = None
    continuation_token: str | None = None
    avg_logprobs: float | None = None
    logprobs_result: dict[str, Any] | None = None


class PromptFeedback(msgspec.Struct, gc=False, rename="camel"):
    """The safety ratings of the prompt, and the reason if the prompt was rejected."""

    block_reason: str | None = None
    block_reason_message: str | None = None
    safety_ratings: list[dict[str, Any]] | None = None


class Chunk(msgspec.Struct, gc=False, rename="camel"):
    """One frame; without streaming, the whole answer."""

    candidates: list[Candidate] | None = None
    prompt_feedback: PromptFeedback | None = None
    usage_metadata: dict[str, Any] | None = None
    model_version: str | None = None
    response_id: str | None = None
    error: Any = None


class _TextPart(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    text: str


class _TextContent(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    parts: list[_TextPart]
    role: str | None = None


class _TextCandidate(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    content: _TextContent
    index: int | None = None


class TextChunk(msgspec.Struct, gc=False, rename="camel", forbid_unknown_fields=True):
    """A frame with only text, which is the most frequent frame."""

    candidates: list[_TextCandidate]
    usage_metadata: dict[str, Any] | None = None
    model_version: str | None = None
    response_id: str | None = None


decode_text = msgspec.json.Decoder(TextChunk).decode
decode_chunk = msgspec.json.Decoder(Chunk).decode
decode_chunks = msgspec.json.Decoder(list[Chunk]).decode


def function_call(part: dict[str, Any]) -> FunctionCall | None:
    """Return the function call in a part, or `None` if the part contains no call.

    Raises msgspec.ValidationError if the function call is malformed.
    """
    call = part.get("functionCall")
    return None if call is None else msgspec.convert(call, FunctionCall)


_BARE = re.compile(rb"\n[{\[]").search, re.compile(rb"\r[{\[]").search
"""Find a line that begins with a brace or bracket.

These are two patterns, because the search for a pattern that begins with a fixed character is three
times as fast.
"""


class StreamDecoder:
    """Decodes server-sent events, and a plain JSON error after the events.

    An error in the middle of the stream is a plain JSON object on several lines. A decoder of
    server-sent events ignores such lines as unknown fields. No field of an event starts with a
    brace or bracket. Therefore the first line that starts with a brace or bracket, and all lines
    after this line, become the data of one last frame.
    """

    def __init__(self) -> None:
        self._events = SSEDecoder(FRAME_LIMIT)
        self.reports = self._events.reports
        self._bare = False
        self._line_begins = True

    def feed(self, data: bytes) -> list[bytes]:
        """Return the frames that `data` completes, in order.

        Raises `FrameTooLong` when a frame, complete or not, exceeds the limit.
        """
        if self._bare:
            return self._events.feed(self._as_data(data))
        start = self._bare_start(data)
        if start < 0:
            self._line_begins = data.endswith((b"\n", b"\r"))
            return self._events.feed(data)
        self._bare = self._line_begins = True
        return self._events.feed(data[:start] + self._as_data(data[start:]))

    def finish(self) -> list[bytes]:
        """Return a list with the last frame, if the input ended without the blank line after it."""
        return self._events.finish()

    def _bare_start(self, data: bytes) -> int:
        if self._line_begins and data.startswith((b"{", b"[")):
            return 0
        return min((found.end() - 1 for find in _BARE if (found := find(data))), default=-1)

    def _as_data(self, data: bytes) -> bytes:
        field = b"data: " if self._line_begins and data else b""
        self._line_begins = data.endswith(b"\n")
        lines = data[:-1] if self._line_begins else data
        end = b"\n" if self._line_begins else b""
        return field + lines.replace(b"\n", b"\ndata: ") + end
