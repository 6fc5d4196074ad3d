"""Build the input of the command: one user message with text, images and documents.

The command accepts only user messages, so a conversation is written into one user message as a
transcript (called script here).
"""

from __future__ import annotations

import json
from typing import Any

from swink_core import (
    AssistantMessage,
    Block,
    Context,
    DocumentBlock,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from swink_core.providers import (
    SENT_ELSEWHERE,
    LeftOut,
    MessageConverter,
    arguments_object,
    media_base64,
    media_form,
    text_of,
    unsupported,
)

__all__ = ["prompt_of"]

IMAGES = {f"image/{kind}": f"image/{kind}" for kind in ("gif", "jpeg", "png", "webp")}
DOCUMENTS = {"application/pdf": "application/pdf", "text/*": "text/plain"}


def prompt_of(context: Context, provider: str, goes_on: bool) -> str | list[dict[str, Any]]:
    """Return only the last user message, or the whole conversation as a script.

    `goes_on` means that the command's session already contains the earlier messages. Raises
    MediaError for a file that cannot be read, and ProviderFailure (`unsupported`) for media that
    the command does not accept.
    """
    said = _Converter(provider).messages(context)
    if goes_on:
        spoken = [isinstance(message, AssistantMessage) for message, _ in said]
        said = said[len(spoken) - [*reversed(spoken), True].index(True) :]
    if len(said) == 1 and isinstance(said[0][0], UserMessage):
        return _joined(said[0][1])
    parts = [_text("Continue this conversation as the assistant.")]
    for message, content in said:
        media = [part for part in content if part["type"] != "text"]
        parts += [_text(f"\n\n{_line(message)}"), *media]
    return _joined(parts)


class _Converter(MessageConverter):
    """Converts messages to pairs of the message and its converted content."""

    block_fields = ()

    def user(self, message: UserMessage) -> list[Any]:
        return [(message, self.blocks(message, self._part))]

    def assistant(self, message: AssistantMessage) -> list[Any]:
        self.take(message, ToolCallBlock)
        for block in self.take(message, ThinkingBlock):
            self.leave_out(block, "reasoning was not sent", "thinking_left_out")
        return [(message, self.blocks(message, self._part))]

    def tool_results(self, messages: list[ToolResultMessage]) -> list[Any]:
        return [(message, self.blocks(message, self._part)) for message in messages]

    def _part(self, block: Block) -> dict[str, Any] | LeftOut:
        """Return a block in the format of the Messages API, which the command passes on."""
        match block:
            case TextBlock(text):
                return _text(text)
            case ImageBlock(source):
                media_type = media_form(source, IMAGES, "images")
            case DocumentBlock(source):
                media_type = media_form(source, DOCUMENTS, "documents")
            case ToolCallBlock() | ThinkingBlock():
                return SENT_ELSEWHERE  # sent as text, or reported
            case _:
                return LeftOut(f"Claude Code does not support {block.type}; it was not sent")
        if (data := media_base64(source)) is None:
            raise unsupported(
                f"{block.type}s", "Claude Code accepts media only as data, not as a URL"
            )
        said = {"type": "base64", "media_type": media_type, "data": data.data}
        if isinstance(block, ImageBlock):
            return {"type": "image", "source": said}
        if media_type == DOCUMENTS["text/*"]:
            said |= {"type": "text", "data": self.document_text(block, data)}
        title = {"title": _whole(block.name)} if block.name else {}
        return {"type": "document", "source": said, **title}


def _joined(parts: list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """Join consecutive texts; content that is only text becomes a plain string."""
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
    return text.encode("utf-8", "replace").decode()  # a lone surrogate cannot be encoded


def _line(message: Message) -> str:
    """Return a message as a line of the script.

    The caller has already converted system messages to user messages.
    """
    if isinstance(message, AssistantMessage):
        said = [(call.name, json.dumps(arguments_object(call))) for call in message.tool_calls]
        calls = [f"[calls {name} {arguments}]" for name, arguments in said]
        return "Assistant: " + "\n".join([*filter(None, [message.text]), *calls])
    if isinstance(message, ToolResultMessage):
        failed = " failed" if message.is_error else ""
        return f"Tool {message.tool_name}{failed}: {text_of(message.content)}"
    return f"User: {text_of(message.content)}"
