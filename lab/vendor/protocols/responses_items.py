"""The input items of OpenAI's Responses: messages, calls, results and reasoning that comes back."""

from __future__ import annotations

from typing import Any

from lab.vendor import jsons
from lab.vendor.ask import Ask, Segment
from lab.vendor.failures import Failure, Refused
from lab.vendor.protocols import openai_common
from lab.vendor.protocols.openai_things import with_ids
from lab.vendor.protocols.reading import add_tool, invalid, text_and_media, turn
from lab.vendor.state import State

__all__ = ["SEALED", "items_of", "read_items", "read_tools"]

SEALED = "gAAAAAB"
"""How encrypted reasoning begins."""


def items_of(given: Any, state: State) -> list[dict[str, Any]]:
    """Return the items of a request's input, each with an id."""
    if isinstance(given, str):
        content = [{"type": "input_text", "text": given}]
        given = [{"type": "message", "role": "user", "content": content}]
    return with_ids(state, given)


def read_tools(ask: Ask, body: dict[str, Any]) -> None:
    """Read the tools of a request and the choice among them."""
    for tool in jsons.objects(body.get("tools")):
        if tool.get("type") == "function":
            add_tool(ask, jsons.text(tool.get("name")), tool.get("parameters"), tool)
        else:
            ask.segments.append(Segment("tool", jsons.compact(tool)))
    choice = body.get("tool_choice")
    if choice in ("none", "auto"):
        ask.choice = choice
    elif choice == "required":
        ask.choice = "any"
    elif isinstance(choice, dict) and choice.get("type") == "function":
        ask.choice = "tool"
        ask.tool = jsons.text(choice.get("name"))
    ask.parallel = body.get("parallel_tool_calls") is not False


def read_items(state: State, ask: Ask, items: list[dict[str, Any]], stored: int) -> None:
    """Read all items, of which the first `stored` are the vendor's own."""
    calls: dict[str, bool] = {}
    for at, item in enumerate(items):
        kind = item.get("type", "message")
        if kind == "item_reference":
            item = _referenced(state, ask, item)
            kind = item.get("type", "message")
        openai_common.check_files(state, ask.account, item.get("content"))
        text, media = text_and_media(ask.model, item.get("content"))
        role = jsons.text(item.get("role"))
        if kind == "function_call":
            role = "assistant"
            text = jsons.compact([item.get("name"), item.get("arguments")])
            calls[jsons.text(item.get("call_id"))] = False
        elif kind == "tool_search_call" and item.get("execution") == "client":
            role = "assistant"
            text = jsons.compact(item.get("arguments"))
            calls[jsons.text(item.get("call_id"))] = False
        elif kind == "function_call_output" or (
            kind == "tool_search_output" and item.get("execution") == "client"
        ):
            role = "tool"
            text, media = text_and_media(ask.model, item.get("output"))
            id = jsons.text(item.get("call_id"))
            if id not in calls:
                raise invalid(
                    f"No tool call found for function call output with call_id {id}.", "input"
                )
            calls[id] = True
        elif kind == "reasoning":
            role = "assistant"
            text = ""
            if at >= stored:
                _check_reasoning(state, ask, item, items[at + 1 :])
        ask.segments.append(Segment(role, text, media))
        turn(ask, role, text)
    open_calls = [id for id, answered in calls.items() if not answered]
    if open_calls:
        raise invalid(f"No tool output found for function call {open_calls[0]}.", "input")


def _referenced(state: State, ask: Ask, item: dict[str, Any]) -> dict[str, Any]:
    found = state.owned.get("item", jsons.text(item.get("id")), ask.account)
    if found is None:
        raise _no_item(item)
    return jsons.obj(found)


def _no_item(item: dict[str, Any]) -> Refused:
    message = (
        f"Item with id '{item.get('id')}' not found. Items are not persisted when `store` is set "
        "to false. Try again with `store` set to true, or remove this item from your input."
    )
    return Refused(Failure("not_found", message, param="input"))


_KEEPERS = frozenset(("openai", "azure"))
"""Providers that look up reasoning by its id where it is not encrypted; others read its text."""


def _check_reasoning(
    state: State, ask: Ask, item: dict[str, Any], following: list[dict[str, Any]]
) -> None:
    """Check reasoning that comes back: that it is the vendor's, the account's and in its place."""
    id = item.get("id")
    sealed = item.get("encrypted_content")
    if isinstance(sealed, str):
        seal = state.seals.open(sealed.removeprefix(SEALED))
        reason = None
        if seal is None or not sealed.startswith(SEALED):
            reason = "Encrypted content could not be decrypted or parsed."
        elif seal.account != ask.account:
            reason = "Encrypted content organization_id did not match the target organization."
        if reason is not None:
            message = f"The encrypted content for item {id} could not be verified. Reason: {reason}"
            raise Refused(Failure("signature", message))
    elif ask.provider in _KEEPERS and not state.owned.get("item", jsons.text(id), ask.account):
        raise _no_item(item)
    after = next((each for each in following if each.get("type") != "reasoning"), {})
    made_by_model = after.get("role") == "assistant" or str(after.get("type")).endswith("_call")
    if not made_by_model and after.get("type") != "item_reference":
        raise invalid(
            f"Item '{id}' of type 'reasoning' was provided without its required following item.",
            "input",
        )
