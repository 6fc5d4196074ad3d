"""Convert conversations for Bedrock's Converse API.

User and assistant messages alternate, tool results belong to the user message, and tools and system
prompt are separate fields. Signed or encrypted blocks and the blocks of server-side tools are sent
back unchanged, in their original position. Unsigned reasoning is omitted because some models reject
it. Source: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Message.html and the
pages that it links to.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import PurePath
from typing import Any

from swink_core import (
    AssistantMessage,
    Block,
    Context,
    DocumentBlock,
    ExtensionBlock,
    Message,
    Model,
    StreamOptions,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    Tool,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from swink_core.providers import (
    LeftOut,
    MessageConverter,
    accepted_id,
    arguments_object,
    closed_schema,
    inlined_schema,
    merged_turns,
    report_change,
    rewritten_schema,
    rule_of,
    system_blocks,
    unsupported,
    with_metadata,
)
from swink_provider_anthropic import claude
from swink_provider_anthropic.claude import BLANK, NEVER_RAN, NOT_SIGNED
from swink_provider_bedrock.media import DOCUMENT_FIELDS, media
from swink_provider_bedrock.points import before_documents, mark, takes_points
from swink_provider_bedrock.wire import BY_SERVER

__all__ = ["CHOICES", "conversation"]

LONGEST_TOOL_ID = 64
LONGEST_STEM = 190
"""The maximum length of a document's name before a number is appended; longer names are cut off.

The API allows 200 characters. The number makes duplicate names unique.
"""

CHOICES: dict[str, dict[str, Any]] = {"auto": {"auto": {}}, "required": {"any": {}}}

RESULTS_ALONE = ("meta", "mistral")
"""Vendors whose models accept no other content in a turn with tool results."""

WITHOUT_SYSTEM = re.compile(r"mistral\.(mistral-7b|mixtral-8x7b)|amazon\.titan-text")

UNSIGNED = re.compile(r"openai\.gpt-oss")
"""Models that reject reasoning blocks with a signature."""

VENDORS = re.compile(
    r"\b(ai21|amazon|anthropic|cohere|deepseek|google|meta|minimax|mistral|moonshotai|nvidia|openai"
    r"|qwen|writer|zai)\."
)
"""Finds the vendor in a model's id or ARN.

The ARN of an inference profile may contain no vendor.
"""

MOVED = (
    "the API refuses a cache point directly after a document that is not a PDF file; this one was "
    "moved before the documents, or left out"
)
RENAMED = "a document's name was changed to characters that the API accepts"
OF_ANOTHER = LeftOut("reasoning of another model was not sent", "thinking_left_out")

_NOT_IN_TOOL_ID = re.compile(r"[^a-zA-Z0-9_.:-]")
_NOT_IN_NAME = re.compile(r"[^a-zA-Z0-9()\[\]-]+")
_SUFFIX = re.compile(r"\.[a-zA-Z0-9]{1,5}$")
_NAMELESS_FAILURE = "The tool failed and did not say why."


def conversation(
    model: Model, context: Context, options: StreamOptions, provider: str
) -> dict[str, Any]:
    """Return `messages` and, if present, `system` and `toolConfig`.

    With a cache strategy, cache points are added after the tools, the system prompt and the last
    user turn, if the model supports them and the maximum number is not exceeded. Raises MediaError
    for a file that cannot be read, and ProviderFailure (`unsupported`) for content that Converse or
    the model does not support.
    """
    vendor, rule, caches = _vendor(model.id), rule_of(model), takes_points(model, options)
    system, context = system_blocks(context)
    converter = _Converter(provider, model, caches)
    converter.native_system = claude.takes_system(model, options)
    turns = merged_turns(claude.placed(converter.messages(context)))
    if vendor in RESULTS_ALONE:
        turns = [part for turn in turns for part in _apart(turn)]
    native: dict[str, Any] = {"messages": turns}
    if rule.facts.get("stored_prompt") and not turns:
        del native["messages"]
    if any(isinstance(block, ExtensionBlock) or block.text.strip() for block in system):
        if options.rules and WITHOUT_SYSTEM.search(model.id):
            raise unsupported("system_prompt", "this model does not support system prompts")
        if options.rules and rule.facts.get("stored_prompt"):
            raise unsupported("system_prompt", "a stored prompt has its own system prompt")
        native["system"] = [
            part
            for block in system
            for part in (
                dict(block.data) if isinstance(block, ExtensionBlock) else {"text": block.text},
                *_point(block, caches),
            )
        ]
    declared = _declared(context, turns, options.tool_choice)
    if tools := [part for tool in declared for part in _tool(tool, provider, vendor, caches)]:
        if options.rules and model.lacks("tools"):
            raise unsupported(
                "tools",
                "the model does not support tools, but the conversation contains tool calls",
            )
        native["toolConfig"] = {"tools": tools}
        choice = options.tool_choice
        if choice not in (None, "none") and context.tools:
            one = options.rules and rule.facts.get("tool_choice") == "one"
            if one and choice not in CHOICES:
                named = [tool for tool in tools if tool["toolSpec"]["name"] == choice]
                native["toolConfig"]["tools"], choice = named, "required"
            chosen = CHOICES.get(choice, {"tool": {"name": choice}})
            native["toolConfig"]["toolChoice"] = chosen
    if options.cache is not None and options.cache.mode != "none":
        mark(native, options.cache, rule.facts)
    return native


class _Converter(MessageConverter):
    block_fields = ("cachePoint", *DOCUMENT_FIELDS)

    def __init__(self, provider: str, model: Model, caches: bool) -> None:
        super().__init__(provider)
        self._vendor = _vendor(model.id)
        self._unsigned = UNSIGNED.search(model.id) is not None
        self._caches = caches
        self._names: set[str] = set()

    def system(self, message: SystemMessage) -> list[Any]:
        return [{"role": "system", "content": self._content(message)}]

    def user(self, message: UserMessage) -> list[Any]:
        content = self._content(message)
        return [{"role": "user", "content": content}] if content else []

    def assistant(self, message: AssistantMessage) -> list[Any]:
        author = _vendor(message.model or "")
        own = not (author and self._vendor) or author == self._vendor
        signed = own and not self._unsigned
        unanswered = claude.unanswered_calls(message, _asked_of_server, _answered_by_server)

        def answered(block: Block) -> dict[str, Any] | LeftOut:
            if isinstance(block, ThinkingBlock) and not signed:
                return NOT_SIGNED if own else OF_ANOTHER
            return NEVER_RAN if id(block) in unanswered else _answered(block, own)

        content = self.blocks(message, answered)
        return [{"role": "assistant", "content": content}] if content else []

    def tool_results(self, messages: list[ToolResultMessage]) -> list[Any]:
        results = [part for message in messages for part in self._tool_result(message)]
        return [{"role": "user", "content": results}]

    def _tool_result(self, message: ToolResultMessage) -> list[dict[str, Any]]:
        parts = self._with_text(self._native(message, self._pointed))
        # The API rejects cache points in a tool result.
        points = [part for part in parts if "cachePoint" in part]
        content = [part for part in parts if "cachePoint" not in part]
        result = {"toolUseId": _tool_id(message.tool_call_id), "content": content}
        if message.is_error:  # refused without content
            result["content"] = content or [{"text": _NAMELESS_FAILURE}]
            result["status"] = "error"
        return [{"toolResult": result}, *points[-1:]]

    def _content(self, message: Message) -> list[dict[str, Any]]:
        return self._with_text(_placed(self._native(message, self._parts)))

    def _native(
        self, message: Message, convert: Callable[[Block], list[dict[str, Any]] | LeftOut]
    ) -> list[dict[str, Any]]:
        return [part for parts in self.blocks(message, convert) for part in parts]

    def _with_text(self, native: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Add the name of the first document to content without text, which the API refuses."""
        documents = [part["document"] for part in native if "document" in part]
        if documents and not any("text" in part for part in native):
            native.append({"text": documents[0]["name"]})
        return native

    def _parts(self, block: Block) -> list[dict[str, Any]] | LeftOut:
        """Convert a block as `_pointed` does, and report a cache point that must be moved."""
        parts = self._pointed(block)
        if not isinstance(parts, LeftOut) and len(parts) > 1 and not before_documents(parts[:1]):
            report_change(f"{self.path(block)}.metadata.cachePoint", MOVED, "content_changed")
        return parts

    def _pointed(self, block: Block) -> list[dict[str, Any]] | LeftOut:
        """Return a converted block, followed by the cache point that the caller set after it."""
        part = self._part(block)
        return part if isinstance(part, LeftOut) else [part, *_point(block, self._caches)]

    def _part(self, block: Block) -> dict[str, Any] | LeftOut:
        if isinstance(block, TextBlock):
            return {"text": block.text} if block.text.strip() else BLANK
        if isinstance(block, ExtensionBlock):
            return dict(block.data)
        native = media(block, self._vendor)
        if native is None:
            return LeftOut(
                f"the API does not support {block.type} in user messages and tool results; it was "
                "not sent"
            )
        if "document" in native and isinstance(block, DocumentBlock):
            native["document"]["name"] = self._name(block)
        return native

    def _name(self, block: DocumentBlock) -> str:
        """Return a unique name for a document, with only characters that the API allows."""
        source = block.source
        place: str = getattr(source, "path", "") or getattr(source, "url", "")
        words = _NOT_IN_NAME.sub(" ", _SUFFIX.sub("", block.name or PurePath(place).name))
        stem = words.strip()[:LONGEST_STEM].strip() or "document"
        name, number = stem, 1
        while name.lower() in self._names:
            number += 1
            name = f"{stem} {number}"
        self._names.add(name.lower())
        if block.name and name != _SUFFIX.sub("", block.name):
            report_change(f"{self.path(block)}.name", RENAMED, "content_changed")
        return name


def _point(block: Block, caches: bool) -> list[dict[str, Any]]:
    """Return the cache point that the caller set after a block, as a list.

    The list is empty without a cache point, or if the model does not support prompt caching.
    """
    point = (block.metadata or {}).get("cachePoint")
    return [{"cachePoint": point}] if point is not None and caches else []


def _placed(parts: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return content with each cache point at the last place before it that the API accepts.

    A cache point is omitted if it has no such place, or if another one is already there.
    """
    placed: list[dict[str, Any]] = []
    for part in parts:
        at = before_documents(placed) if "cachePoint" in part else len(placed)
        if "cachePoint" not in part or (at and "cachePoint" not in placed[at - 1]):
            placed.insert(at, part)
    return placed


def _apart(turn: dict[str, Any]) -> list[dict[str, Any]]:
    """Split a turn into one with the tool results and one with all other blocks."""
    results = [block for block in turn["content"] if "toolResult" in block]
    others = [block for block in turn["content"] if "toolResult" not in block]
    return [{**turn, "content": part} for part in (results, others) if part]


# -- assistant messages ------------------------------------------------------------------


def _answered(block: Block, own: bool) -> dict[str, Any] | LeftOut:
    match block:
        case TextBlock():
            return _text(block)
        case ThinkingBlock(redacted=True) if own:
            return {"reasoningContent": {"redactedContent": block.signature or ""}}
        case ThinkingBlock(signature=str(signature)) if own:
            text = {"text": block.thinking, "signature": signature}
            return {"reasoningContent": {"reasoningText": text}}
        case ToolCallBlock():
            return {
                "toolUse": {
                    "toolUseId": _tool_id(block.id),
                    "name": block.name,
                    "input": arguments_object(block),
                    **(block.metadata or {}),
                }
            }
        case ThinkingBlock():
            return NOT_SIGNED if own else OF_ANOTHER
        case ExtensionBlock(kind="image"):
            return LeftOut("images are accepted only in user messages; this one was not sent")
        case ExtensionBlock(data=dict(data)) if own:
            return data
        case ExtensionBlock():
            return LeftOut("content of another model was not sent")
    return LeftOut(f"the API does not support {block.type} in assistant messages; it was not sent")


def _text(block: TextBlock) -> dict[str, Any] | LeftOut:
    if citations := (block.metadata or {}).get("citations"):
        return {"citationsContent": {"content": [{"text": block.text}], "citations": citations}}
    return {"text": block.text} if block.text.strip() else BLANK


def _asked_of_server(block: dict[str, Any]) -> str | None:
    use = block.get("toolUse", {})
    return use.get("toolUseId") if use.get("type") == BY_SERVER else None


def _answered_by_server(block: dict[str, Any]) -> str | None:
    id: str | None = block.get("toolResult", {}).get("toolUseId")
    return id


def _tool_id(id: str) -> str:
    return accepted_id(id, _NOT_IN_TOOL_ID, LONGEST_TOOL_ID)


def _vendor(model_id: str) -> str:
    found = VENDORS.search(model_id)
    return found[1] if found else ""


# -- tools -----------------------------------------------------------------------------------


def _declared(context: Context, turns: list[dict[str, Any]], choice: str | None) -> Iterable[Tool]:
    """Return the tools to declare.

    The API requires declarations of all tools that the conversation calls. If the caller passes no
    tools, the called tools are declared with only their names.
    """
    uses = [block["toolUse"] for turn in turns for block in turn["content"] if "toolUse" in block]
    called = {use["name"]: None for use in uses if use.get("type") != BY_SERVER}
    if choice == "none" and context.tools:
        if called:
            raise unsupported(
                "tool_choice",
                "the Converse API cannot forbid tool calls in a conversation that contains some",
            )
        return []
    return context.tools or map(Tool, called)


def _tool(tool: Tool, provider: str, vendor: str, caches: bool) -> list[dict[str, Any]]:
    """Return a converted tool, followed by the cache point that the caller set after it."""
    schema = tool.parameters if "type" in tool.parameters else {"type": "object", **tool.parameters}
    if vendor != "anthropic":  # Nova supports type, properties and required, but no definitions
        schema = rewritten_schema(inlined_schema, schema)
    if tool.strict:
        schema = rewritten_schema(closed_schema, schema)
    native: dict[str, Any] = {"name": tool.name, "inputSchema": {"json": schema}}
    if tool.description:
        native["description"] = tool.description
    if tool.strict is not None:
        native["strict"] = tool.strict
    declared = with_metadata({"toolSpec": native}, tool, provider)
    point = declared.pop("cachePoint", None)
    return [declared, {"cachePoint": point}] if point is not None and caches else [declared]
