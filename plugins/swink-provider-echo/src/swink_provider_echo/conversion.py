"""Convert calls to JSON data for echo. All content becomes text, and unset options are omitted.

{"model": "…", "extra": {…}, "max_tokens": …, "thinking": …, "stop": ["…", …], "tool_choice": "…",
 "parallel_tool_calls": …, "response_format": …,
 "system": "…" | null, "tools": [{"name", "parameters"}, …],
 "messages": [{"role": "user" | "tool", "text": "…"},
              {"role": "assistant", "text": "…", "thinking": [{"text", "signature"}, …],
               "tool_calls": [{"id", "name", "arguments"}, …]}, …]}
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from swink_core import (
    AssistantMessage,
    AudioBlock,
    Block,
    Context,
    DocumentBlock,
    ExtensionBlock,
    ImageBlock,
    Model,
    StreamOptions,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from swink_core.providers import MessageConverter, media_base64, media_type_of

__all__ = ["CONVERSATION", "EchoConverter"]

CONVERSATION = ("system", "tools", "messages")

OPTIONS = (
    "extra", "max_tokens", "thinking", "stop", "tool_choice", "parallel_tool_calls",
    "response_format",
)  # fmt: skip


class EchoConverter(MessageConverter):
    """Converts a call to the JSON data from which echo composes its answer."""

    def payload(self, model: Model, context: Context, options: StreamOptions) -> dict[str, Any]:
        """Return the whole call as JSON data."""
        given = {name: getattr(options, name) for name in OPTIONS}
        return {
            "model": model.id,
            **{name: value for name, value in given.items() if value not in (None, (), {})},
            "system": context.system_prompt,
            "tools": [{"name": t.name, "parameters": t.parameters} for t in context.tools],
            "messages": self.messages(context),
        }

    def user(self, message: UserMessage) -> list[Any]:
        """Convert a user message to text, with a placeholder line for each image or other file."""
        self.blocks(message, _word)
        return [{"role": "user", "text": words_of(message.content)}]

    def assistant(self, message: AssistantMessage) -> list[Any]:
        """Convert an answer to its text, its signed thinking and its tool calls."""
        self.take(message, ThinkingBlock)
        self.take(message, ToolCallBlock)
        for block in self.take(message, ExtensionBlock):
            self.leave_out(block, f"{block.kind} was not sent")
        for kind in (TextBlock, ImageBlock, DocumentBlock, AudioBlock):
            self.take(message, kind)
        return [
            {
                "role": "assistant",
                "text": "".join(map(_said, message.content)),
                "thinking": [
                    {"text": block.thinking, "signature": block.signature}
                    for block in message.content
                    if isinstance(block, ThinkingBlock)
                ],
                "tool_calls": [
                    {"id": call.id, "name": call.name, "arguments": call.arguments}
                    for call in message.tool_calls
                ],
            }
        ]

    def tool_results(self, messages: list[ToolResultMessage]) -> list[Any]:
        """Convert the results of tools to text."""
        for message in messages:
            self.blocks(message, _word)
        lines = [
            f"{m.tool_name} {'failed' if m.is_error else 'returned'}: {words_of(m.content)}"
            for m in messages
        ]
        return [{"role": "tool", "text": "\n".join(lines)}]


def _said(block: Block) -> str:
    if isinstance(block, TextBlock):
        return block.text
    return _word(block) if isinstance(block, ImageBlock | DocumentBlock | AudioBlock) else ""


def words_of(content: str | Sequence[Block]) -> str:
    """Return content as text; an image becomes `[image image/png 123 bytes]`, for example."""
    if isinstance(content, str):
        return content
    return "\n".join(word for block in content if (word := _word(block)))


def _word(block: Block) -> str:
    if isinstance(block, TextBlock):
        return block.text
    if not isinstance(block, ImageBlock | DocumentBlock | AudioBlock):
        return f"[{block.type}]"
    facts = [block.type]
    if isinstance(block, DocumentBlock) and block.name:
        facts.append(block.name)
    held = media_base64(block.source)
    media_type = media_type_of(block.source if held is None else held)
    if media_type:
        facts.append(media_type)
    if held is None:
        facts.append(getattr(block.source, "url", ""))
    else:
        size = len(held.data) * 3 // 4 - held.data[-2:].count("=")
        facts.append(f"{size} bytes")
    return f"[{' '.join(facts)}]"
