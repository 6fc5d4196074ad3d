"""Convert blocks to output items of the Responses API, in progress and complete.

https://developers.openai.com/api/reference/resources/responses: messages, reasoning, calls. Opaque
data of another provider is encoded ("sealed") into `encrypted_content` of reasoning, the only
opaque field. The text of thinking is sealed as well, because a client may omit the text when it
sends the item back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from swink_core import (
    Cost,
    ExtensionBlock,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    Usage,
    dump,
)
from swink_gateway.protocols.encoding import arguments_text, cost_data, is_refusal
from swink_gateway.protocols.generated import image_of, run_of
from swink_gateway.protocols.sealing import Key, Numbers, held_for, seal, seal_beside
from swink_gateway.protocols.sources import flat_annotation, sources_of
from swink_gateway.protocols.tool_names import Known

__all__ = [
    "ENCRYPTED", "WIRE_FORMAT", "Items", "is_made", "refusal_part", "text_part", "usage_data",
]  # fmt: skip

WIRE_FORMAT = "openai-responses"

ENCRYPTED = "encrypted_content"
"""The opaque field of an item."""

INCOMPLETE = {
    StopReason.LENGTH: "max_output_tokens",
    StopReason.CONTENT_FILTER: "content_filter",
}
"""Reasons of incomplete answers; with any other finish reason, the status is `completed`."""

MADE = "swink_"
"""The second part of generated item ids, after the kind."""

FACTS = ("service_tier", "metadata")
"""Metadata of an answer for which the API has fields."""


Notes: TypeAlias = Mapping[str, Any] | None
"""Those metadata of a block that are already known when its item begins, if any."""


class Items:
    """Creates the items of one answer.

    `prefix` distinguishes the generated item ids from those of other answers. `is_own`: the
    provider uses this protocol, so its items are sent unchanged, except for encrypted content of
    another vendor than the protocol's, which is sealed. An item keeps the id with which it begins:
    the provider's id if it is known by then, otherwise a generated id.
    """

    def __init__(
        self, prefix: str, provider: str, is_own: bool, tools: Mapping[str, Known]
    ) -> None:
        self._prefix = prefix
        self._provider = provider
        self.is_own = is_own
        self._tools = tools
        self._made = 0
        self._numbers = Numbers()
        self._has_refusal = False

    def message(self, notes: Notes = None) -> dict[str, Any]:
        """Return a message item in progress."""
        return {"type": "message", "id": self._id("msg", notes), "status": "in_progress",
                "role": "assistant", "content": []}  # fmt: skip

    def reasoning(self, notes: Notes = None) -> dict[str, Any]:
        """Return a reasoning item in progress."""
        return {"type": "reasoning", "id": self._id("rs", notes), "summary": []}

    def call(self, id: str, name: str, notes: Notes = None) -> dict[str, Any]:
        """Return a call item in progress, under the client's name of the tool."""
        known = self._tools.get(name, Known(name))
        item: dict[str, Any] = {"status": "in_progress", "call_id": id, "name": known.name}
        if known.namespace:
            item["namespace"] = known.namespace
        if known.is_free_text:
            return {"type": "custom_tool_call", "id": self._id("ctc", notes), **item, "input": ""}
        return {"type": "function_call", "id": self._id("fc", notes), **item, "arguments": ""}

    def said(self, item: dict[str, Any], block: TextBlock) -> dict[str, Any]:
        """Return the completed message item, with its text and the provider's ids."""
        metadata = block.metadata or {}
        own = _item(metadata) if self.is_own else {}
        own.pop("refused", None)
        sources: Any = metadata.get("annotations")
        if not self.is_own:
            sources = [flat_annotation(one) for one in sources_of(metadata, block.text)]
        part = text_part(block.text, sources, metadata.get("logprobs"))
        if is_refusal(metadata):
            self._has_refusal = True
            part = refusal_part(block.text)
        return {**item, **own, "id": item["id"], "status": "completed", "content": [part]}

    def thought(self, item: dict[str, Any], block: ThinkingBlock) -> dict[str, Any]:
        """Return the completed reasoning item, with its text and opaque provider data."""
        own = _item(block.metadata) if self.is_own else {}
        if own:
            return {**self._held(own), "id": item["id"]}
        whole = dict(item)
        if self.is_own:
            shown = [{"type": "summary_text", "text": block.thinking}] if block.thinking else []
            return {**whole, "summary": shown}
        if block.thinking:
            whole["content"] = [{"type": "reasoning_text", "text": block.thinking}]
        if block.thinking or block.signature or block.metadata:
            whole[ENCRYPTED] = seal(self._provider, thought=dump(block))
        return whole

    def called(self, item: dict[str, Any], block: ToolCallBlock) -> dict[str, Any]:
        """Return the completed call item, with its arguments and the provider's ids."""
        own = _item(block.metadata) if self.is_own else {}
        own.pop("type", None)
        whole = {**item, **own, "id": item["id"], "status": _status(block)}
        if "input" in item:
            return {**whole, "input": str(block.arguments.get("input", block.raw_arguments or ""))}
        return {**whole, "arguments": arguments_text(block)}

    def key(self, id: str | None) -> Key:
        """Return the key of the next call with this id, or of the next text if `id` is `None`."""
        return self._numbers.next(id)

    def beside(
        self, key: Key, metadata: Notes, *, is_wordless: bool = False
    ) -> dict[str, Any] | None:
        """Return an item that contains another provider's opaque data for a call or a text.

        `is_wordless` means that the text is empty, and that only the item is sent. Otherwise
        clients would show the message without text as the final answer.
        """
        if self.is_own or not metadata:
            return None
        held = seal_beside(self._provider, key, metadata, is_wordless)
        return {**self.reasoning(), ENCRYPTED: held}

    def extension(self, block: ExtensionBlock) -> list[dict[str, Any]]:
        """Return the items of an extension block.

        A block of another provider is sealed into an item, because the provider needs the block in
        the next request. An image or code is also returned in an item that clients can read.
        """
        if self.is_own and isinstance(block.data, dict):
            return [self._held(block.data)]
        held = seal(block.provider, block=dump(block))
        return [*self._generated(block), {**self.reasoning(), ENCRYPTED: held}]

    def _held(self, item: dict[str, Any]) -> dict[str, Any]:
        """Return an item of a provider with this protocol, with its encrypted content sealed."""
        opaque = item.get(ENCRYPTED)
        if not isinstance(opaque, str):
            return item
        return {**item, ENCRYPTED: held_for(self._provider, WIRE_FORMAT, opaque)}

    def _generated(self, block: ExtensionBlock) -> list[dict[str, Any]]:
        if (image := image_of(block)) is not None:
            item = {"type": "image_generation_call", "id": self._id("ig"), "status": "completed"}
            return [{**item, "result": image.data}]
        if (run := run_of(block)) is not None:
            logs = None if run.output is None else [{"type": "logs", "logs": run.output}]
            return [
                {
                    "type": "code_interpreter_call",
                    "id": self._id("ci"),
                    "status": "completed",
                    "container_id": "",
                    "code": run.code,
                    "outputs": logs,
                }
            ]
        return []

    def of(self, block: Any) -> list[dict[str, Any]]:
        """Return the items of a block of a complete message."""
        match block:
            case TextBlock(text="") if block.metadata and not self.is_own:
                wordless = self.beside(self.key(None), block.metadata, is_wordless=True)
                return [wordless] if wordless is not None else []
            case TextBlock():
                said = self.said(self.message(block.metadata), block)
                beside = self.beside(self.key(None), block.metadata)
                return [said] if beside is None else [said, beside]
            case ThinkingBlock():
                return [self.thought(self.reasoning(block.metadata), block)]
            case ToolCallBlock():
                called = self.called(self.call(block.id, block.name, block.metadata), block)
                beside = self.beside(self.key(block.id), block.metadata)
                return [called] if beside is None else [beside, called]
            case ExtensionBlock():
                return self.extension(block)
        return []

    def ending(self, reason: StopReason, metadata: Notes) -> dict[str, Any]:
        """Return the fields that end an answer, including metadata for which the API has fields.

        An answer with a refusal counts as complete, because a refusal has its own type of part.
        """
        said = {name: metadata[name] for name in FACTS if metadata and name in metadata}
        is_refused = self._has_refusal and reason is StopReason.CONTENT_FILTER
        if reason in INCOMPLETE and not is_refused:
            why = {"reason": INCOMPLETE[reason]}
            return {**said, "status": "incomplete", "incomplete_details": why}
        return {**said, "status": "completed"}

    def _id(self, kind: str, notes: Notes = None) -> str:
        if self.is_own and isinstance(given := _item(notes).get("id"), str):
            return given
        self._made += 1
        return f"{kind}_{MADE}{self._prefix}_{self._made}"


def is_made(id: Any) -> bool:
    """Return True if the gateway, and not the provider, generated an item's id."""
    return isinstance(id, str) and id.partition("_")[2].startswith(MADE)


def text_part(text: str, sources: Any = None, chances: Any = None) -> dict[str, Any]:
    """Return a text part of a message."""
    part: dict[str, Any] = {"type": "output_text", "text": text}
    part["annotations"] = sources if isinstance(sources, list) else []
    if isinstance(chances, list):
        part["logprobs"] = chances
    return part


def refusal_part(text: str) -> dict[str, Any]:
    """Return a part of a message in which the model refuses."""
    return {"type": "refusal", "refusal": text}


def _status(call: ToolCallBlock) -> str:
    return "completed" if call.state == "complete" else "incomplete"


def _item(metadata: Notes) -> dict[str, Any]:
    item = (metadata or {}).get("item")
    return dict(item) if isinstance(item, dict) else {}


def usage_data(usage: Usage | None, cost: Cost | None) -> dict[str, Any] | None:
    """Return the token usage of an answer, if it is known; `cost` is in US dollars.

    Unknown counts become 0, because the API requires all of these fields.
    """
    if usage is None:
        return None
    data: dict[str, Any] = {
        "input_tokens": usage.input or 0,
        "input_tokens_details": {
            "cached_tokens": usage.cache_read or 0,
            "cache_write_tokens": usage.cache_write or 0,
        },
        "output_tokens": usage.output or 0,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning or 0},
        "total_tokens": usage.added_up().total or 0,
    }
    return data | cost_data(cost)
