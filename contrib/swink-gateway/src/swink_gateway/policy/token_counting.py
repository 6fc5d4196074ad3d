"""How long a conversation is, roughly: no provider is asked.

A token of English is some four characters, in every vendor's words about its own; of an image
nobody knows before it is looked at.
"""

from __future__ import annotations

from swink_core import Context, TextBlock, ThinkingBlock, ToolCallBlock
from swink_gateway.protocols.encoding import arguments_text
from swink_gateway.protocols.frames import encode

__all__ = ["ESTIMATED", "estimated_tokens", "tokens_of"]

ESTIMATED = "x-swink-estimated"
"""The response header that names what is an estimate."""

CHARACTERS_PER_TOKEN = 4
TOKENS_PER_MESSAGE = 4
TOKENS_PER_MEDIUM = 1500


def tokens_of(characters: int) -> int:
    """Return about how many tokens a text of so many characters has."""
    return -(-characters // CHARACTERS_PER_TOKEN)


def estimated_tokens(context: Context) -> int:
    """Return about how many tokens a conversation has, tools included."""
    characters = len(context.system_prompt or "")
    characters += sum(
        len(tool.name) + len(tool.description) + len(encode(tool.parameters))
        for tool in context.tools
    )
    media = 0
    for message in context.messages:
        content = message.content
        for block in [TextBlock(content)] if isinstance(content, str) else content:
            match block:
                case TextBlock(text=text) | ThinkingBlock(thinking=text):
                    characters += len(text)
                case ToolCallBlock():
                    characters += len(block.name) + len(arguments_text(block))
                case _:
                    media += 1
    of_messages = TOKENS_PER_MESSAGE * len(context.messages)
    return tokens_of(characters) + of_messages + TOKENS_PER_MEDIUM * media
