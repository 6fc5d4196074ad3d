"""Convert blocks to those of Anthropic's Messages, including their opaque fields.

https://platform.claude.com/docs/en/api/messages: the API defines `signature` of thinking and `data`
of redacted thinking as opaque.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from swink_core import ExtensionBlock, TextBlock, ThinkingBlock, ThinkingEnd, ToolCallBlock, dump
from swink_core.providers import arguments_object
from swink_gateway.protocols.sealing import Key, Numbers, seal, seal_beside
from swink_gateway.protocols.sources import sources_of

__all__ = [
    "CONTAINER", "block_data", "citations", "extension_data", "opaque_of", "says_more",
    "sealed_beside",
]  # fmt: skip

CONTAINER = "container"
"""The kind of an extension that this protocol sends as metadata of the answer."""

_DIRECT = {"caller": {"type": "direct"}}
"""The default caller of a tool."""


def citations(metadata: Mapping[str, Any] | None, provider: str, is_own: bool) -> list[Any]:
    """Return the citations of a text; data of another provider is encoded into the first citation.

    The API defines `encrypted_index` as opaque.
    """
    if is_own:
        sources = (metadata or {}).get("citations")
        return sources if isinstance(sources, list) else []
    sealed = [{"text": metadata}]
    return [
        {
            "type": "web_search_result_location", "url": one.url, "title": one.title,
            "cited_text": "",  # the text of the page is unknown
            "encrypted_index": seal(provider, **(sealed.pop() if sealed else {})),
        }
        for one in sources_of(metadata, "")
    ]  # fmt: skip


def opaque_of(
    block: ThinkingBlock | ThinkingEnd, provider: str, is_own: bool, shown: bool, kept: str = ""
) -> str | None:
    """Return the value of the opaque field of a thinking block; `None` without opaque data.

    `shown` means that the block has visible text, even if it is marked as redacted. `kept` is text
    that the client must send back but does not show.
    """
    if is_own and not block.metadata and not kept:
        return block.signature
    if not (block.signature is not None or block.metadata or (block.redacted and shown) or kept):
        return None
    redacted = True if block.redacted else None
    return seal(
        provider, signature=block.signature, redacted=redacted, metadata=block.metadata,
        thinking=kept or None,
    )  # fmt: skip


def sealed_beside(
    provider: str, key: Key, metadata: Mapping[str, Any], is_wordless: bool = False
) -> dict[str, Any]:
    """Return a block that contains a provider's opaque data for a call or a text.

    `is_wordless`: the block replaces an empty text.
    """
    data = seal_beside(provider, key, metadata, is_wordless)
    return {"type": "redacted_thinking", "data": data}


def says_more(metadata: Mapping[str, Any] | None) -> bool:
    """Return True if a call has metadata that differs from the default."""
    return bool(metadata) and metadata != _DIRECT


def extension_data(block: ExtensionBlock, is_own: bool) -> dict[str, Any] | None:
    """Return an extension as a block; `None` for data that this protocol sends outside blocks."""
    if not is_own:
        data = seal(block.provider, block=dump(block))
        return {"type": "redacted_thinking", "data": data}
    return None if block.kind == CONTAINER else block.data


def block_data(
    block: Any, provider: str, is_own: bool, numbers: Numbers, thoughts: bool
) -> list[dict[str, Any]]:
    """Convert a block of a complete message; sealed data of the block is added as a separate block.

    `thoughts` means that the client requested the text of thinking.
    """
    match block:
        case TextBlock() if not (block.text or block.metadata):
            return []
        case TextBlock():
            native: dict[str, Any] = {"type": "text", "text": block.text}
            if sources := citations(block.metadata, provider, is_own):
                native["citations"] = sources
            key = numbers.next(None)
            if is_own or sources or not block.metadata:
                return [native]
            beside = sealed_beside(provider, key, block.metadata, not block.text)
            return [native, beside] if block.text else [beside]
        case ThinkingBlock():
            shown, kept = (block.thinking, "") if thoughts else ("", block.thinking)
            opaque = opaque_of(block, provider, is_own, bool(shown), kept)
            if not (shown or opaque):
                return []
            if block.redacted and not shown:
                return [{"type": "redacted_thinking", "data": opaque}]
            return [{"type": "thinking", "thinking": shown, "signature": opaque or ""}]
        case ToolCallBlock():
            call: dict[str, Any] = {"type": "tool_use", "id": block.id, "name": block.name}
            call["input"] = arguments_object(block)
            if is_own:
                return [{**call, **(block.metadata or {})}]
            key, notes = numbers.next(block.id), block.metadata
            return [*([sealed_beside(provider, key, notes)] if notes else []), call]
        case ExtensionBlock():
            extension = extension_data(block, is_own)
            return [] if extension is None else [extension]
    return []
