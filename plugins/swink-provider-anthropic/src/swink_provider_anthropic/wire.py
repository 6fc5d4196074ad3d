"""The frames of `/v1/messages`, with the fields that the parser reads.

https://platform.claude.com/docs/en/build-with-claude/streaming. One struct covers all frame types.
Every field may be absent or null, and numbers may be floats, so that frames of new types or with
new fields can be decoded. Content blocks stay dictionaries because the blocks of server-side tools
are sent back unchanged, including unknown fields.
"""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["Block", "Delta", "ErrorBody", "Frame", "Message", "decode_frame", "decode_message"]


class ErrorBody(msgspec.Struct, gc=False):
    """The error in a frame of type `error` or in the body of an HTTP error."""

    type: str | None = None
    message: str | None = None


class Delta(msgspec.Struct, gc=False):
    """A piece of a content block; in a `message_delta` frame, the stop reason."""

    type: str | None = None
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    partial_json: str | None = None
    citation: Any = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    stop_details: dict[str, Any] | None = None
    container: dict[str, Any] | None = None


class Block(msgspec.Struct, gc=False):
    """A content block of a supported type, in the frame that begins the block."""

    id: str | None = None
    name: str | None = None
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    input: dict[str, Any] | str | None = None
    citations: list[Any] | None = None


class Message(msgspec.Struct, gc=False):
    """An answer: its beginning in `message_start`, or the whole answer if it is not streamed."""

    id: str | None = None
    model: str | None = None
    content: list[dict[str, Any]] | None = None
    usage: dict[str, Any] | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    stop_details: dict[str, Any] | None = None
    container: dict[str, Any] | None = None
    context_management: dict[str, Any] | None = None
    error: ErrorBody | None = None


class Frame(msgspec.Struct, gc=False):
    """One event of the stream; the SSE event name equals `type` and is not read."""

    type: str | None = None
    index: int | float | None = None
    delta: Delta | None = None
    content_block: dict[str, Any] | None = None
    message: Message | None = None
    usage: dict[str, Any] | None = None
    context_management: dict[str, Any] | None = None
    error: ErrorBody | None = None


decode_frame = msgspec.json.Decoder(Frame).decode
decode_message = msgspec.json.Decoder(Message).decode
