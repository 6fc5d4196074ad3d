"""The events of ConverseStream and the answer of Converse, as far as they are understood.

https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStreamOutput.html. One
struct stands for the payloads of all events, every field may be absent or null and numbers may be
floats, so that what did not exist yesterday is no error. Padding (`p`) is ignored. Blocks that are
only handed back stay dictionaries.
"""

from __future__ import annotations

from typing import Any

import msgspec

from swink_core import repaired_json

__all__ = ["Answer", "Delta", "Payload", "Reasoning", "Trace", "decode_answer", "decode_payload"]


class Reasoning(msgspec.Struct):
    """A piece of reasoning, or all of it where the answer is not streamed."""

    text: str | None = None
    signature: str | None = None
    redactedContent: str | None = None
    reasoningText: dict[str, Any] | None = None


class ToolInput(msgspec.Struct):
    """A piece of a tool call's arguments."""

    input: str | None = None


class Delta(msgspec.Struct):
    """A piece of a content block; one field is set."""

    text: str | None = None
    toolUse: ToolInput | None = None
    reasoningContent: Reasoning | None = None
    citation: Any = None
    toolResult: list[Any] | None = None
    image: dict[str, Any] | None = None


class Router(msgspec.Struct):
    """Which model a prompt router chose."""

    invokedModelId: str | None = None


class Guardrail(msgspec.Struct):
    """What a guardrail did; the assessments are not read."""

    actionReason: str | None = None


class Trace(msgspec.Struct):
    """What happened beside the model."""

    guardrail: Guardrail | None = None
    promptRouter: Router | None = None


class Payload(msgspec.Struct):
    """The payload of an event or exception; its type is in the message's headers."""

    contentBlockIndex: int | float | None = None
    start: dict[str, Any] | None = None
    delta: Delta | None = None
    stopReason: str | None = None
    usage: dict[str, Any] | None = None
    trace: Trace | None = None
    message: str | None = None
    originalMessage: str | None = None


class Output(msgspec.Struct):
    """What stands where the union of outputs is."""

    message: dict[str, Any] | None = None


class Answer(msgspec.Struct):
    """The body of Converse."""

    output: Output | None = None
    stopReason: str | None = None
    usage: dict[str, Any] | None = None
    trace: Trace | None = None


_decode = msgspec.json.Decoder(Payload).decode


def decode_payload(body: bytes) -> Payload:
    """This will decode a payload, also one with the lone surrogates that models produce.

    Raises msgspec.DecodeError.
    """
    try:
        return _decode(body)
    except msgspec.DecodeError:
        if (repaired := repaired_json(body)) is None:
            raise
        return _decode(repaired)


decode_answer = msgspec.json.Decoder(Answer).decode
