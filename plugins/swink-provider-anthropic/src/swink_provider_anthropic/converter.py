"""Conversations as the Messages API wants them: https://platform.claude.com/docs/en/api/messages.

A list of turns whose content is a list of blocks, the system prompt and the tools beside it.
User and assistant take turns, results of tools are the user's, and their order comes first in
the turn. What the API gave with a signature, encrypted or by a tool of its own goes back as it
came and where it was.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from typing import Any

from swink_core import (
    AssistantMessage,
    Block,
    CacheStrategy,
    Context,
    DocumentBlock,
    ExtensionBlock,
    FileIdSource,
    ImageBlock,
    Source,
    StopReason,
    TextBlock,
    ThinkingBlock,
    Tool,
    ToolCallBlock,
    ToolResultMessage,
    UrlSource,
    UserMessage,
)
from swink_core.providers import (
    MessageConverter,
    accepted_id,
    arguments_object,
    media_base64,
    merged_turns,
    trim_prefill,
    with_metadata,
    without_unanswered,
)
from swink_provider_anthropic import claude
from swink_provider_anthropic.parser import CONTAINER

__all__ = ["conversation"]

_CUT = (StopReason.ERROR, StopReason.ABORTED, StopReason.LENGTH)
_UNMARKED = ("thinking", "redacted_thinking")
_FOREIGN_CHARACTER = re.compile(r"[^a-zA-Z0-9_-]")


def conversation(
    context: Context, provider: str, cache: CacheStrategy | None = None
) -> dict[str, Any]:
    """Return `messages` and, where there are any, `system`, `tools`, `container`.

    With a cache strategy the system prompt, the last tool and the last user turn are marked.
    Raises MediaError for a file that cannot be read.
    """
    turns = merged_turns(_Converter(provider).messages(context))
    trim_prefill(turns)
    native: dict[str, Any] = {"messages": turns}
    if context.system_prompt:
        native["system"] = [{"type": "text", "text": context.system_prompt}]
    if context.tools:
        native["tools"] = [_tool(tool, provider) for tool in context.tools]
    if (container := _container(context)) is not None:
        native["container"] = container
    if cache is not None and cache.mode != "none":
        _mark(native, cache)
    return native


class _Converter(MessageConverter):
    def user(self, message: UserMessage) -> list[Any]:
        content = _content(message.content)
        return [{"role": "user", "content": content}] if content else []

    def assistant(self, message: AssistantMessage) -> list[Any]:
        content = _worded([native for block in message.content if (native := _answered(block))])
        if message.stop_reason in _CUT:
            content = without_unanswered(content, _asked_of_server, _answered_by_server)
        return [{"role": "assistant", "content": content}] if content else []

    def tool_results(self, messages: list[ToolResultMessage]) -> list[Any]:
        return [{"role": "user", "content": [_tool_result(message) for message in messages]}]


# -- what the model said ---------------------------------------------------------------------


def _answered(block: Block) -> dict[str, Any] | None:
    match block:
        case TextBlock():
            return _text(block)
        case ThinkingBlock(redacted=True):
            return {"type": "redacted_thinking", "data": block.signature or ""}
        case ThinkingBlock(signature=str(signature)):
            return {"type": "thinking", "thinking": block.thinking, "signature": signature}
        case ToolCallBlock():
            return {
                "type": "tool_use",
                "id": _tool_id(block.id),
                "name": block.name,
                "input": arguments_object(block),
                **(block.metadata or {}),
            }
        case ExtensionBlock(data=dict(data)) if block.kind != CONTAINER:
            # input that was cut off is not an object, and the API takes nothing else
            return data if isinstance(data.get("input", {}), dict) else None
    return None  # unsigned thinking is refused


def _text(block: TextBlock) -> dict[str, Any]:
    native: dict[str, Any] = {"type": "text", "text": block.text}
    if citations := (block.metadata or {}).get("citations"):
        native["citations"] = [_citation(citation) for citation in citations]
    return native


def _citation(citation: Any) -> Any:
    """Leave out the one field of its own citations that the API refuses."""
    if not isinstance(citation, dict):
        return citation
    return {name: value for name, value in citation.items() if name != "file_id"}


def _asked_of_server(block: dict[str, Any]) -> str | None:
    return block.get("id") if block["type"] in ("server_tool_use", "mcp_tool_use") else None


def _answered_by_server(block: dict[str, Any]) -> str | None:
    return block.get("tool_use_id")


def _tool_id(id: str) -> str:
    return accepted_id(id, _FOREIGN_CHARACTER)


def _container(context: Context) -> str | None:
    """Name the container again in which the server waits for what the last answer asked."""
    answers = [m for m in context.messages if isinstance(m, AssistantMessage)]
    for block in answers[-1].content if answers else ():
        if isinstance(block, ExtensionBlock) and block.kind == CONTAINER:
            name: str | None = block.data.get("id")
            return name
    return None


# -- what the user says ----------------------------------------------------------------------


def _content(content: str | Sequence[Block]) -> list[dict[str, Any]]:
    if isinstance(content, str):
        content = [TextBlock(content)]
    return _worded([native for block in content if (native := _said(block)) is not None])


def _worded(content: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out text that the API refuses: empty anywhere, white space where there is no other; a
    message that is left with nothing is left out. Beside other text white space stays, since
    answers have it between cited passages and newer models check that their own words come back
    unchanged."""
    texts = [block.get("text") if block.get("type") == "text" else None for block in content]
    worded = any(text and text.strip() for text in texts)
    return [
        block
        for block, text in zip(content, texts, strict=True)
        if text is None or (text if worded else text.strip())
    ]


def _said(block: Block) -> dict[str, Any] | None:
    match block:
        case TextBlock():
            return {"type": "text", "text": block.text}
        case ImageBlock():
            return {"type": "image", "source": _source(block.source)}
        case DocumentBlock():
            return _document(block)
        case ExtensionBlock():
            return dict(block.data)
    return None


def _document(block: DocumentBlock) -> dict[str, Any]:
    source = _source(block.source)
    if source["type"] == "base64" and source["media_type"].startswith("text/"):
        text = base64.b64decode(source["data"]).decode("utf-8", "replace")
        source = {"type": "text", "media_type": "text/plain", "data": text}
    native: dict[str, Any] = {"type": "document", "source": source}
    if block.name:
        native["title"] = block.name
    for name in ("citations", "context"):
        if block.metadata and name in block.metadata:
            native[name] = block.metadata[name]
    return native


def _source(source: Source) -> dict[str, Any]:
    if isinstance(source, UrlSource):
        return {"type": "url", "url": source.url}
    if isinstance(source, FileIdSource):
        return {"type": "file", "file_id": source.id}
    data = media_base64(source)
    assert data is not None  # only what is elsewhere has none
    return {"type": "base64", "media_type": data.media_type, "data": data.data}


def _tool_result(message: ToolResultMessage) -> dict[str, Any]:
    native: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": _tool_id(message.tool_call_id),
    }
    if content := _content(message.content):
        native["content"] = content
    if message.is_error:
        native["is_error"] = True
    return native


def _tool(tool: Tool, provider: str) -> dict[str, Any]:
    schema = tool.parameters if "type" in tool.parameters else {"type": "object", **tool.parameters}
    native: dict[str, Any] = {"name": tool.name}
    if tool.description:
        native["description"] = tool.description
    native["input_schema"] = schema
    if tool.strict is not None:
        native["strict"] = tool.strict
    return with_metadata(native, tool, provider)


# -- caching ---------------------------------------------------------------------------------


def _mark(native: dict[str, Any], cache: CacheStrategy) -> None:
    """Each mark caches all before it: tools, then the system prompt, then the conversation
    (https://platform.claude.com/docs/en/build-with-claude/prompt-caching)."""
    control = {"type": "ephemeral", **claude.cache_ttl(cache)}
    users = [turn["content"] for turn in native["messages"] if turn["role"] == "user"]
    for blocks in (native.get("tools"), native.get("system"), users[-1] if users else None):
        if blocks:
            blocks[-1] = {**blocks[-1], "cache_control": control}
