"""Tools that the service defines and the caller runs, such as the computer and the shell.

A call of such a tool is an extension, and an answer with such a call has the stop reason tool use.
The caller returns the result as an input item of the API, in an extension. This extension is in a
user message, or in a tool result with the `tool_call_id` of the call. Source: OpenAI's guides
"Computer use", "Shell", "Apply patch", "Tool search" and "MCP and connectors".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeGuard

from swink_core import Block, ExtensionBlock

__all__ = ["PARTS", "Asked", "answer_to", "is_item", "without_unanswered"]

PARTS = frozenset({"input_text", "input_image", "input_file", "input_audio"})
"""Types of message parts; every other type is an input item."""

ANSWERS: dict[str, tuple[str, str]] = {
    "computer_call": ("computer_call_output", "call_id"),
    "shell_call": ("shell_call_output", "call_id"),
    "local_shell_call": ("local_shell_call_output", "id"),
    "apply_patch_call": ("apply_patch_call_output", "call_id"),
    "tool_search_call": ("tool_search_output", "call_id"),
    "mcp_approval_request": ("mcp_approval_response", "approval_request_id"),
}
"""For each type of call, the type of the result item and the item's field for the call's id."""

_FIELDS = dict(ANSWERS.values())


_FEES = {"web_search_call": "searches", "file_search_call": "file_searches"}


class Asked:
    """Collects those tool calls of a response that the caller must answer with results.

    `bool()` of an instance is True while there are such calls. The service can run some of these
    tools itself: if the response contains a call's result, the call is removed. `billed` counts the
    calls that cost a fee.
    """

    def __init__(self) -> None:
        self._waiting: set[str] = set()
        self.billed: Counter[str] = Counter()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def note(self, item: Mapping[str, Any]) -> None:
        """Record an item of the output."""
        if (id := _asking(item)) is not None:
            self._waiting.add(id)
        self._waiting -= _answered(item)
        fee = _FEES.get(str(item.get("type")))
        if fee is not None and not _opens_page(item.get("action")):
            self.billed[fee] += 1


def _opens_page(action: Any) -> bool:
    """Return True if a web search call only opens or reads a page, which is free.

    `action` is the field of the call's item. In items of other types, `action` may be a string.
    """
    return isinstance(action, Mapping) and action.get("type", "search") != "search"


def is_item(block: Block) -> TypeGuard[ExtensionBlock]:
    """Return True if a block is an item of the input, not a part of a message."""
    return isinstance(block, ExtensionBlock) and block.data.get("type") not in PARTS


def answer_to(tool_call_id: str, block: ExtensionBlock) -> dict[str, Any]:
    """Return the field of a result item (`block`) that contains the id of the call."""
    return {_FIELDS.get(str(block.data.get("type")), "call_id"): tool_call_id}


def without_unanswered(
    items: Sequence[dict[str, Any]], leave_out: Callable[[dict[str, Any]], None]
) -> list[dict[str, Any]]:
    """Return the items without unanswered calls, which the API rejects.

    The reasoning directly before such a call is left out too. `leave_out` is called with each item
    that is left out.
    """
    if ANSWERS.keys().isdisjoint([item.get("type") for item in items]):
        return [*items]
    answered = set().union(*map(_answered, items))
    kept: list[dict[str, Any]] = []
    for item in items:
        if (id := _asking(item)) is None or id in answered:
            kept.append(item)
            continue
        leave_out(item)
        while kept and kept[-1].get("type") == "reasoning":
            leave_out(kept.pop())
    return kept


def _asking(item: Mapping[str, Any]) -> str | None:
    kind = item.get("type")
    if kind not in ANSWERS or item.get("execution") == "server":
        return None
    id = item.get("id" if kind == "mcp_approval_request" else "call_id")
    return id if isinstance(id, str) else None


def _answered(item: Mapping[str, Any]) -> set[Any]:
    """Return the id of the call to which a result item belongs; an empty set for other items.

    The id may be in one of several fields, and for local shells, the documentation names two
    different ones. Therefore the values of all these fields are returned.
    """
    if item.get("type") not in _FIELDS:
        return set()
    return {item.get("call_id"), item.get("id"), item.get("approval_request_id")}
