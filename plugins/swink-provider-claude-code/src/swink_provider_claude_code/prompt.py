"""What the command is told: one turn of the user's, of text, images and documents.

It takes the user's turns alone, so that a conversation becomes a script within one.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

from swink_core import (
    AssistantMessage,
    Block,
    Context,
    DocumentBlock,
    ImageBlock,
    Message,
    TextBlock,
    ToolResultMessage,
    UserMessage,
)
from swink_core.providers import (
    arguments_object,
    media_base64,
    media_form,
    normalise,
    text_of,
    unsupported,
)

__all__ = ["prompt_of"]

IMAGES = {f"image/{kind}": f"image/{kind}" for kind in ("gif", "jpeg", "png", "webp")}
DOCUMENTS = {"application/pdf": "application/pdf", "text/*": "text/plain"}


def prompt_of(context: Context, provider: str, goes_on: bool) -> str | list[dict[str, Any]]:
    """Return the last words alone, or the conversation as a script.

    `goes_on`: the session has heard what came before the model's last word. Raises MediaError for
    a file that cannot be read, and ProviderFailure (`unsupported`) for media that is not taken.
    """
    messages = normalise(context, provider)
    if goes_on:
        spoken = [isinstance(message, AssistantMessage) for message in messages]
        messages = messages[len(spoken) - [*reversed(spoken), True].index(True) :]
    if len(messages) == 1 and isinstance(messages[0], UserMessage):
        parts = _parts(messages[0].content)
    else:
        parts = [_text("Continue this conversation as the assistant.")]
        for message in messages:
            parts += [_text(f"\n\n{_line(message)}"), *_media(message)]
    return _joined(parts)


def _joined(parts: list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """Join texts that follow one another; text alone is a plain string."""
    joined: list[dict[str, Any]] = []
    for part in parts:
        if joined and part["type"] == joined[-1]["type"] == "text":
            joined[-1] = _text(joined[-1]["text"] + part["text"])
        else:
            joined.append(part)
    alone = len(joined) == 1 and joined[0]["type"] == "text"
    return joined[0]["text"] if alone else joined or ""


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": _whole(text)}


def _whole(text: str) -> str:
    return text.encode("utf-8", "replace").decode()  # half of a surrogate pair has no bytes


def _parts(content: str | Sequence[Block]) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [_text(content)]
    return [part for block in content if (part := _part(block)) is not None]


def _media(message: Message) -> list[dict[str, Any]]:
    content = message.content
    return [part for part in _parts(content) if part["type"] != "text"]


def _part(block: Block) -> dict[str, Any] | None:
    """https://platform.claude.com/docs/en/api/messages: the command hands blocks on."""
    match block:
        case TextBlock(text):
            return _text(text)
        case ImageBlock(source):
            media_type = media_form(source, IMAGES, "images")
        case DocumentBlock(source):
            media_type = media_form(source, DOCUMENTS, "documents")
        case _:
            return None
    if (data := media_base64(source)) is None:
        raise unsupported(f"{block.type}s", "Claude Code takes media as data, not by its address")
    said = {"type": "base64", "media_type": media_type, "data": data.data}
    if media_type == DOCUMENTS["text/*"]:
        text = base64.b64decode(data.data).decode("utf-8", "replace")
        said = {"type": "text", "media_type": media_type, "data": text}
    named = isinstance(block, DocumentBlock) and block.name
    title = {"title": _whole(named)} if named else {}
    return {"type": block.type, "source": said, **title}


def _line(message: Message) -> str:
    """Write a message as a line of a script; instructions have become user turns."""
    if isinstance(message, AssistantMessage):
        said = [(call.name, json.dumps(arguments_object(call))) for call in message.tool_calls]
        calls = [f"[calls {name} {arguments}]" for name, arguments in said]
        return "Assistant: " + "\n".join([*filter(None, [message.text]), *calls])
    if isinstance(message, ToolResultMessage):
        failed = " failed" if message.is_error else ""
        return f"Tool {message.tool_name}{failed}: {text_of(message.content)}"
    return f"User: {text_of(message.content)}"
