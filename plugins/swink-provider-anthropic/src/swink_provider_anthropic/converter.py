"""Convert conversations for the Messages API: https://platform.claude.com/docs/en/api/messages.

The body contains a list of messages whose content is a list of blocks, next to the system prompt
and the tools. User and assistant messages alternate. Tool results belong to the user message and
come first in it. Signed or encrypted blocks and the blocks of server-side tools are sent back
unchanged, in their original position.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
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
from swink_core.providers import (
    SENT_ELSEWHERE,
    LeftOut,
    MessageConverter,
    Source,
    accepted_id,
    arguments_object,
    closed_schema,
    media_base64,
    media_form,
    media_type_of,
    merged_turns,
    rewritten_schema,
    system_blocks,
    with_metadata,
)
from swink_provider_anthropic.claude import (
    BLANK,
    NEVER_RAN,
    NOT_SIGNED,
    placed,
    unanswered_calls,
)
from swink_provider_anthropic.marks import MARK, mark_for_cache
from swink_provider_anthropic.parser import CONTAINER

__all__ = ["conversation"]

_CUT = (StopReason.ERROR, StopReason.ABORTED, StopReason.LENGTH)
_FOREIGN_CHARACTER = re.compile(r"[^a-zA-Z0-9_-]")

IMAGES = {
    "image/gif": "image/gif",
    "image/jpeg": "image/jpeg",
    "image/jpg": "image/jpeg",
    "image/png": "image/png",
    "image/webp": "image/webp",
}
"""Source: https://platform.claude.com/docs/en/build-with-claude/vision"""

DOCUMENT_FIELDS = ("citations", "context")
"""Metadata fields that are sent with a document."""

PDF = {"application/pdf": "application/pdf"}
DOCUMENTS = {**PDF, "text/*": "text/plain"}
"""The accepted types of documents; only a PDF may be sent as a URL.

Source: https://platform.claude.com/docs/en/build-with-claude/pdf-support
"""


def conversation(
    context: Context,
    provider: str,
    cache: CacheStrategy | None = None,
    native_system: bool = False,
) -> dict[str, Any]:
    """Return `messages` and, if present, `system`, `tools`, `container`.

    With a cache strategy, the system prompt, the last tool and the last user turn get cache marks.
    The caller's own marks count towards the maximum number of marks. `native_system` means that the
    model accepts system messages inside the conversation. Raises MediaError for a file that cannot
    be read, and ProviderFailure (`unsupported`) for media that the API does not accept.
    """
    system, context = system_blocks(context)
    converter = _Converter(provider)
    converter.native_system = native_system
    turns = merged_turns(placed(converter.messages(context)))
    native: dict[str, Any] = {"messages": turns}
    if system:
        native["system"] = [converter.said(block) for block in system]
    if context.tools:
        native["tools"] = [_tool(tool, provider) for tool in context.tools]
    if (container := _container(context)) is not None:
        native["container"] = container
    if cache is not None and cache.mode != "none":
        mark_for_cache(native, cache)
    return native


class _Converter(MessageConverter):
    block_fields = (MARK, *DOCUMENT_FIELDS)

    def system(self, message: SystemMessage) -> list[Any]:
        return [{"role": "system", "content": self._content(message, self.said)}]

    def user(self, message: UserMessage) -> list[Any]:
        content = self._content(message, self.said)
        return [{"role": "user", "content": content}] if content else []

    def assistant(self, message: AssistantMessage) -> list[Any]:
        if message.stop_reason in _CUT:
            unanswered = unanswered_calls(message, _asked_of_server, _answered_by_server)
            content = self._content(
                message, lambda block: NEVER_RAN if id(block) in unanswered else _answered(block)
            )
        else:
            content = self._content(message, _answered)
        return [{"role": "assistant", "content": content}] if content else []

    def tool_results(self, messages: list[ToolResultMessage]) -> list[Any]:
        return [{"role": "user", "content": [self._tool_result(message) for message in messages]}]

    def _tool_result(self, message: ToolResultMessage) -> dict[str, Any]:
        native: dict[str, Any] = {
            "type": "tool_result",
            "tool_use_id": _tool_id(message.tool_call_id),
        }
        content = self._content(message, self.said)
        # The API refuses a cache mark inside the content of a result.
        marks = [block.pop(MARK) for block in content if MARK in block]
        if content:
            native["content"] = content
        if message.is_error:
            native["is_error"] = True
        return {**native, MARK: marks[-1]} if marks else native

    def said(self, block: Block) -> dict[str, Any] | LeftOut:
        """Convert a block of a system prompt, a user message or a tool result."""
        match block:
            case TextBlock():
                return _marked({"type": "text", "text": block.text}, block)
            case ImageBlock():
                source = _source(block.source, IMAGES, IMAGES, "images")
                return _marked({"type": "image", "source": source}, block)
            case DocumentBlock():
                return self._document(block)
            case ExtensionBlock():
                return dict(block.data)
        return LeftOut(
            f"the API does not support {block.type} in user messages and tool results; it was not "
            "sent"
        )

    def _document(self, block: DocumentBlock) -> dict[str, Any]:
        data = media_base64(block.source)
        source = _source(data or block.source, DOCUMENTS, PDF, "documents")
        if data is not None and source["media_type"] == DOCUMENTS["text/*"]:
            source = {**source, "type": "text", "data": self.document_text(block, data)}
        native: dict[str, Any] = {"type": "document", "source": source}
        if block.name:
            native["title"] = block.name
        for name in DOCUMENT_FIELDS:
            if block.metadata and name in block.metadata:
                native[name] = block.metadata[name]
        return _marked(native, block)

    def _content(
        self, message: Message, convert: Callable[[Block], dict[str, Any] | LeftOut]
    ) -> list[dict[str, Any]]:
        """Convert the blocks of a message, without text that the API rejects.

        The API rejects empty text, and white space if the message has no other text. A message
        without remaining blocks is omitted. White space next to other text is kept, because answers
        contain it between cited passages and newer models verify that their text is sent back
        unchanged.
        """
        content = message.content
        blocks = [TextBlock(content)] if isinstance(content, str) else content
        texts = [text for block in blocks if (text := _text_of(block)) is not None]
        if all(map(str.strip, texts)):
            return self.blocks(message, convert)
        worded = any(map(str.strip, texts))

        def checked(block: Block) -> dict[str, Any] | LeftOut:
            text = _text_of(block)
            blank = text is not None and not (text if worded else text.strip())
            return BLANK if blank else convert(block)

        return self.blocks(message, checked)


CUT_INPUT = LeftOut("a call of a server-side tool with incomplete input was not sent")


def _text_of(block: Block) -> str | None:
    """Return the text of a block that is sent as text; `None` for other blocks."""
    if isinstance(block, TextBlock):
        return block.text
    if not isinstance(block, ExtensionBlock) or not isinstance(block.data, dict):
        return None
    text = block.data.get("text") if block.data.get("type") == "text" else None
    return text if isinstance(text, str) else None


# -- assistant messages ----------------------------------------------------------------------


def _answered(block: Block) -> dict[str, Any] | LeftOut:
    match block:
        case TextBlock():
            return _text(block)
        case ToolCallBlock():
            return {
                "type": "tool_use",
                "id": _tool_id(block.id),
                "name": block.name,
                "input": arguments_object(block),
                **(block.metadata or {}),
            }
        case ThinkingBlock(redacted=True):
            return {"type": "redacted_thinking", "data": block.signature or ""}
        case ThinkingBlock(signature=str(signature)):
            return {"type": "thinking", "thinking": block.thinking, "signature": signature}
        case ExtensionBlock(kind=kind) if kind == CONTAINER:
            return SENT_ELSEWHERE  # the container's id is a separate field of the request
        case ExtensionBlock(data=dict(data)):
            # Incomplete input is not an object, which the API requires.
            return data if isinstance(data.get("input", {}), dict) else CUT_INPUT
        case ThinkingBlock():
            return NOT_SIGNED  # the API refuses it
    return LeftOut(f"the API does not support {block.type} in assistant messages; it was not sent")


def _text(block: TextBlock) -> dict[str, Any]:
    native = _marked({"type": "text", "text": block.text}, block)
    if citations := (block.metadata or {}).get("citations"):
        native["citations"] = [_citation(citation) for citation in citations]
    return native


def _citation(citation: Any) -> Any:
    """Remove `file_id` from a citation, because the API rejects this field in requests."""
    if not isinstance(citation, dict):
        return citation
    return {name: value for name, value in citation.items() if name != "file_id"}


def _asked_of_server(block: dict[str, Any]) -> str | None:
    return block.get("id") if block.get("type") in ("server_tool_use", "mcp_tool_use") else None


def _answered_by_server(block: dict[str, Any]) -> str | None:
    return block.get("tool_use_id")


def _tool_id(id: str) -> str:
    return accepted_id(id, _FOREIGN_CHARACTER)


def _container(context: Context) -> str | None:
    """Return the id of the code-execution container that waits for tool results."""
    answers = [m for m in context.messages if isinstance(m, AssistantMessage)]
    for block in answers[-1].content if answers else ():
        if isinstance(block, ExtensionBlock) and block.kind == CONTAINER:
            name: str | None = block.data.get("id")
            return name
    return None


# -- user messages ---------------------------------------------------------------------------


def _marked(
    native: dict[str, Any], block: TextBlock | ImageBlock | DocumentBlock
) -> dict[str, Any]:
    """Return a native block, with the cache mark that the caller set on the original block."""
    mark = (block.metadata or {}).get(MARK)
    return native if mark is None else {**native, MARK: mark}


def _source(
    source: Source, forms: Mapping[str, str], fetched: Mapping[str, str], what: str
) -> dict[str, Any]:
    """Convert a media source to the form of the API.

    Data must have a media type in `forms`. A URL, which the API fetches itself, must have a media
    type in `fetched`, if its type is known.
    """
    if isinstance(source, UrlSource):
        if media_type_of(source) is not None:
            media_form(source, fetched, what)
        return {"type": "url", "url": source.url}
    if isinstance(source, FileIdSource):
        return {"type": "file", "file_id": source.id}
    media_type = media_form(source, forms, what)
    data = media_base64(source)
    assert data is not None  # otherwise it would be a URL or a file id
    return {"type": "base64", "media_type": media_type, "data": data.data}


def _tool(tool: Tool, provider: str) -> dict[str, Any]:
    schema = tool.parameters if "type" in tool.parameters else {"type": "object", **tool.parameters}
    native: dict[str, Any] = {"name": tool.name}
    if tool.description:
        native["description"] = tool.description
    native["input_schema"] = schema
    if tool.strict is not None:
        native["strict"] = tool.strict
    if tool.strict:
        native["input_schema"] = rewritten_schema(closed_schema, schema)
    return with_metadata(native, tool, provider)
