"""The events of ConverseStream and the response of Converse, with the fields that the parser reads.

https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStreamOutput.html. One
struct covers the payloads of all events. Every field may be absent or null, and numbers may be
floats, so that new events and events with new fields can be decoded. Padding (`p`) is ignored.
Blocks that are sent back unchanged stay dictionaries.
"""

from __future__ import annotations

from typing import Any

import msgspec

from swink_core.providers import EventWriter

__all__ = [
    "BY_SERVER",
    "Answer",
    "Block",
    "Delta",
    "Facts",
    "Payload",
    "Reasoning",
    "ToolUse",
    "Trace",
    "decode_answer",
    "decode_payload",
    "decode_text",
]


BY_SERVER = "server_tool_use"
"""The type of a tool call that Bedrock carries out itself."""


class Words(msgspec.Struct, gc=False):
    """Text, with a signature if it is reasoning."""

    text: str | None = None
    signature: str | None = None


class Reasoning(Words):
    """A piece of reasoning. In an unstreamed answer, the text is in a nested object."""

    redactedContent: str | None = None
    reasoningText: Words | None = None


class ToolUse(msgspec.Struct, gc=False):
    """A tool call: its start without input, a delta of its input, or the whole input."""

    toolUseId: str | None = None
    name: str | None = None
    type: str | None = None
    input: str | dict[str, Any] | None = None


class Bytes(msgspec.Struct, gc=False):
    """The data of an image, in base64."""

    bytes: str | None = None


class Image(msgspec.Struct, gc=False):
    """A piece of an image."""

    source: Bytes | None = None


class Delta(msgspec.Struct, gc=False):
    """A piece of a content block; only the field for its type is set."""

    text: str | None = None
    toolUse: ToolUse | None = None
    reasoningContent: Reasoning | None = None
    citation: Any = None
    toolResult: list[Any] | None = None
    image: Image | None = None


class Cited(msgspec.Struct, gc=False):
    """Text with its sources, in an unstreamed answer."""

    content: list[Words] | None = None
    citations: list[Any] | None = None


class Block(msgspec.Struct, gc=False):
    """A content block of an unstreamed answer."""

    text: str | None = None
    toolUse: ToolUse | None = None
    reasoningContent: Reasoning | None = None
    citationsContent: Cited | None = None


class Router(msgspec.Struct, gc=False):
    """The model that a prompt router selected."""

    invokedModelId: str | None = None


class Trace(msgspec.Struct, gc=False):
    """The trace of a request: the results of the guardrail and of the prompt router."""

    guardrail: dict[str, Any] | None = None
    promptRouter: Router | None = None


class Facts(msgspec.Struct, gc=False):
    """Metadata of an answer, from its last events or from the unstreamed response."""

    stopReason: str | None = None
    usage: dict[str, Any] | None = None
    trace: Trace | None = None
    metrics: Any = None
    performanceConfig: Any = None
    serviceTier: Any = None
    additionalModelResponseFields: Any = None


class Payload(Facts, gc=False):
    """The payload of an event or exception; its type is in the message's headers."""

    contentBlockIndex: int | float | None = None
    start: dict[str, dict[str, Any] | None] | None = None
    delta: Delta | None = None
    message: str | None = None
    originalMessage: str | None = None


class Message(msgspec.Struct, gc=False):
    """The message of the model. Blocks stay dictionaries, because some are sent back unchanged."""

    content: list[dict[str, Any]] | None = None


class Output(msgspec.Struct, gc=False):
    """The output in the response of Converse: a union with only one member, `message`."""

    message: Message | None = None


class Answer(Facts, gc=False):
    """The response body of Converse."""

    output: Output | None = None


class _Text(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    text: str


class TextPayload(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """The payload of a text delta (the most frequent message), including the padding."""

    contentBlockIndex: int
    delta: _Text
    p: str | None = None


decode_text = msgspec.json.Decoder(TextPayload).decode
_decode = msgspec.json.Decoder(Payload).decode


def decode_payload(body: bytes, out: EventWriter) -> Payload:
    """Decode a payload; add a notice if a lone surrogate was replaced.

    Raises msgspec.DecodeError, UnicodeDecodeError or MalformedFrame if the payload is not valid
    JSON of this form.
    """
    return out.decode_json(body, _decode)


decode_answer = msgspec.json.Decoder(Answer).decode
