"""Builders for conversations whose texts can be found again in a request."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from itertools import count
from typing import Any

from swink_core import (
    AssistantMessage,
    AudioBlock,
    Base64Source,
    Block,
    Context,
    DocumentBlock,
    ExtensionBlock,
    FileIdSource,
    ImageBlock,
    Message,
    StopReason,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    Tool,
    ToolCallBlock,
    ToolResultMessage,
    UrlSource,
    UserMessage,
)

__all__ = [
    "INTEGER", "LOOK", "STRING", "answer", "asked", "audio", "call", "calls", "document",
    "extension", "file_id", "image", "link", "marked", "result", "said", "schema", "system", "t",
    "thought", "thread", "tool", "turns",
]  # fmt: skip

_numbers = count(1)

Part = str | Block


def t(words: str = "words") -> str:
    """Return a text that no other conversation has."""
    return f"nonce{next(_numbers)} {words}"


def _blocks(parts: Sequence[Part]) -> list[Block]:
    return [TextBlock(t(part)) if isinstance(part, str) else part for part in parts]


def said(*parts: Part, name: str | None = None) -> UserMessage:
    """Make a user's message: one text stays a string."""
    if len(parts) == 1 and isinstance(parts[0], str):
        return UserMessage(t(parts[0]), name)
    return UserMessage(_blocks(parts), name)


def system(words: str) -> SystemMessage:
    """Make an instruction."""
    return SystemMessage(t(words))


def answer(*parts: Part, reason: StopReason | None = StopReason.STOP, **facts: Any) -> Any:
    """Make an answer."""
    return AssistantMessage(_blocks(parts), stop_reason=reason, **facts)


def call(id: str, name: str = "look", **arguments: Any) -> ToolCallBlock:
    """Make a tool call."""
    return ToolCallBlock(id, name, arguments)


def calls(*parts: Part) -> Any:
    """Make an answer that ends with tool calls."""
    return answer(*parts, reason=StopReason.TOOL_USE)


def result(id: str, *parts: Part, name: str = "look", failed: bool = False) -> ToolResultMessage:
    """Make the result of a tool call."""
    content: Any = t(parts[0]) if len(parts) == 1 and isinstance(parts[0], str) else _blocks(parts)
    return ToolResultMessage(id, name, content, failed)


def thought(words: str = "I think", signature: str | None = None) -> ThinkingBlock:
    """Make reasoning."""
    return ThinkingBlock(t(words), signature)


def marked(words: str, **metadata: Any) -> TextBlock:
    """Make text with metadata."""
    return TextBlock(t(words), metadata)


def _data(kind: str, words: bytes) -> Base64Source:
    head = {
        "image/png": b"\x89PNG\r\n\x1a\n", "image/jpeg": b"\xff\xd8\xff\xe0",
        "image/gif": b"GIF89a",
        "image/webp": b"RIFF\x24\0\0\0WEBPVP8 ", "audio/wav": b"RIFF\x26\0\0\0WAVEfmt ",
        "application/pdf": b"%PDF-1.7\n",
    }.get(kind, b"")  # fmt: skip
    body = head + b"nonce%d " % next(_numbers) + words
    return Base64Source(kind, base64.b64encode(body).decode())


def image(kind: str = "image/png", **metadata: Any) -> ImageBlock:
    """Make an image."""
    return ImageBlock(_data(kind, b"image"), metadata or None)


def document(kind: str = "application/pdf", name: str | None = None) -> DocumentBlock:
    """Make a document."""
    return DocumentBlock(_data(kind, b"document"), name)


def audio() -> AudioBlock:
    """Make sound."""
    return AudioBlock(_data("audio/wav", b"sound"))


def link(kind: str = "image", ending: str = "png") -> Any:
    """Make an image or a document at an address."""
    source = UrlSource(f"https://example.com/nonce{next(_numbers)}.{ending}")
    return {"image": ImageBlock, "document": DocumentBlock, "audio": AudioBlock}[kind](source)


def file_id(provider: str, kind: str = "document") -> Any:
    """Make media that were uploaded to a provider."""
    source = FileIdSource(provider, f"file-nonce{next(_numbers)}")
    return DocumentBlock(source) if kind == "document" else ImageBlock(source)


def extension(provider: str, kind: str, **data: Any) -> ExtensionBlock:
    """Make a part of a provider's own."""
    return ExtensionBlock(provider, kind, {"type": kind, **data})


def schema(**properties: Any) -> dict[str, Any]:
    """Make the schema of an object that requires all its properties."""
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }


def tool(name: str = "look", parameters: dict[str, Any] | None = None, **more: Any) -> Tool:
    """Make a tool."""
    given = parameters if parameters is not None else schema(where={"type": "string"})
    return Tool(name, t("does it"), given, **more)


def turns(number: int, words: str = "turn") -> list[Message]:
    """Make a thread of so many questions and answers."""
    return [m for _ in range(number) for m in (said(words), answer(words))]


def thread(*messages: Message, tools: Sequence[Tool] = (), prompt: Any = None) -> Context:
    """Make a conversation."""
    return Context([*messages], prompt, [*tools])


def asked(*parts: Part, **more: Any) -> Context:
    """Make a conversation of one message."""
    return thread(said(*parts), **more)


STRING = {"type": "string"}
INTEGER = {"type": "integer"}
LOOK = tool()
