"""Convert conversations and answers to OpenTelemetry's format for content capture.

Source: https://github.com/open-telemetry/semantic-conventions-genai, gen-ai-input-messages.json and
similar files. `opentelemetry.util.genai.types` implements the format.
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from opentelemetry.util.genai.types import (
    BlobPart,
    FilePart,
    FunctionToolDefinition,
    InputMessage,
    MessagePart,
    Modality,
    OutputMessage,
    ReasoningPart,
    TextPart,
    ToolCallRequestPart,
    ToolCallResponsePart,
    ToolDefinition,
    UriPart,
)

import swink_core as swink
from swink_core.providers import Source, parse_arguments, text_of

__all__ = ["Answer", "arguments", "definitions", "input_messages", "result", "system_parts"]

MODALITIES = {"image": Modality.IMAGE, "audio": Modality.AUDIO, "document": Modality.DOCUMENT}


def system_parts(context: swink.Context) -> list[TextPart]:
    """Return the system prompt in OpenTelemetry's format."""
    prompt = text_of(context.system_prompt or "")
    return [TextPart(prompt)] if prompt else []


def definitions(context: swink.Context) -> list[ToolDefinition]:
    """Return the available tools in OpenTelemetry's format."""
    return [
        FunctionToolDefinition(tool.name, tool.description, tool.parameters)
        for tool in context.tools
    ]


def input_messages(context: swink.Context) -> list[InputMessage]:
    """Return the messages, without content for which OpenTelemetry's conventions have no format."""
    return [_message(message) for message in context.messages]


def _message(message: swink.Message) -> InputMessage:
    if isinstance(message, swink.ToolResultMessage):
        result = [*_parts(message.content)]
        response = result[0].content if _is_text(result) else result
        return InputMessage("tool", [ToolCallResponsePart(response, message.tool_call_id)])
    return InputMessage(message.role, [*_parts(message.content)])


def arguments(call: swink.ToolCallBlock) -> Any:
    """Return the arguments of a tool call, or their raw text if they are not a JSON object."""
    return call.arguments if call.state == "complete" else call.raw_arguments


def result(message: swink.ToolResultMessage) -> Any:
    """Return the content of a tool result: a text, or the data of each block."""
    parts = [*_parts(message.content)]
    return parts[0].content if _is_text(parts) else [asdict(part) for part in parts]


def _is_text(parts: list[Any]) -> bool:
    return len(parts) == 1 and isinstance(parts[0], TextPart)


def _parts(content: str | Iterable[Any]) -> Iterator[Any]:
    if isinstance(content, str):
        yield TextPart(content)
        return
    for block in content:
        match block:
            case swink.TextBlock(text=text):
                yield TextPart(text)
            case swink.ThinkingBlock(thinking=thinking) if thinking:
                yield ReasoningPart(thinking)
            case swink.ToolCallBlock(arguments=arguments, name=name, id=call_id):
                yield ToolCallRequestPart(arguments, name, call_id)
            case swink.ImageBlock() | swink.AudioBlock() | swink.DocumentBlock():
                yield from _media(block.source, MODALITIES[block.type])


def _media(source: Source, modality: Modality) -> Iterator[MessagePart]:
    match source:
        case swink.UrlSource(url=url, media_type=media_type):
            yield UriPart(media_type, modality, url)
        case swink.FileIdSource(id=file_id):
            yield FilePart(None, modality, file_id)
        case swink.Base64Source(data=data, media_type=media_type):
            try:
                yield BlobPart(media_type, modality, b64decode(data))
            except Base64Error:
                return


class Answer:
    """Collects the blocks of an answer while it is received."""

    def __init__(self) -> None:
        self._blocks: dict[int, tuple[Any, list[str]]] = {}

    def take(self, event: swink.AssistantMessageEvent) -> None:
        """Process an event; the start of an attempt discards earlier content."""
        match event:
            case swink.Start():
                self._blocks.clear()
            case swink.TextStart() | swink.ThinkingStart() | swink.ToolCallStart():
                self._blocks[event.content_index] = (event, [])
            case swink.TextDelta() | swink.ThinkingDelta() | swink.ToolCallDelta():
                self._blocks[event.content_index][1].append(event.delta)

    def message(self, finish_reason: str) -> OutputMessage:
        """Return the answer so far."""
        parts = [_answered(start, "".join(said)) for start, said in self._blocks.values()]
        return OutputMessage("assistant", parts, finish_reason)


def _answered(start: swink.AssistantMessageEvent, said: str) -> MessagePart:
    match start:
        case swink.ThinkingStart():
            return ReasoningPart(said)
        case swink.ToolCallStart(name=name, id=call_id):
            arguments = parse_arguments(said)
            return ToolCallRequestPart(said if arguments is None else arguments, name, call_id)
        case _:
            return TextPart(said)
