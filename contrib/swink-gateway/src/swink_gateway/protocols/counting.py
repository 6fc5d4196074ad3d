"""How long a conversation is, roughly, before anybody counted.

Providers count when they answer. Clients that ask beforehand want to know whether a conversation
still fits, for which an estimate will do.
"""

from __future__ import annotations

from swink_core import Context, TextBlock, ThinkingBlock, ToolCallBlock, dump
from swink_gateway.protocols.frames import encode

__all__ = ["estimated_tokens"]

BYTES_PER_TOKEN = 4
"""Of English and of JSON, as the vendors' tokenizers have it."""

TOKENS_PER_MEDIUM = 1000
"""Of an image; the vendors' figures are between 85 and 1600."""


def estimated_tokens(context: Context) -> int:
    """Return about how many tokens a conversation and its tools are."""
    size, media = len((context.system_prompt or "").encode("utf-8", "surrogatepass")), 0
    size += sum(len(encode(dump(tool))) for tool in context.tools)
    for message in context.messages:
        blocks = (
            [TextBlock(message.content)] if isinstance(message.content, str) else message.content
        )
        for block in blocks:
            if isinstance(block, TextBlock | ThinkingBlock):
                text = block.text if isinstance(block, TextBlock) else block.thinking
                size += len(text.encode("utf-8", "surrogatepass"))
            elif isinstance(block, ToolCallBlock):
                size += len(block.name) + len(encode(block.arguments))
            else:
                media += 1
    return -(-size // BYTES_PER_TOKEN) + media * TOKENS_PER_MEDIUM
