"""The field `type` decides between the two variants of a tool call; an empty one does not count.

Servers that serialise zero values (Go's, for one) send `function` and `custom` in every call.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

import swink_core as swink
from swink_core import ToolCallBlock
from swink_recorder.loopback import Exchange, LoopbackServer

EMPTY = {"name": "", "arguments": ""}
NOTHING = {"name": "", "input": ""}
FREE_TEXT = {"item": {"type": "custom_tool_call"}}


class Calls(LoopbackServer):
    """Answers with fragments of tool calls, streamed, or with the whole calls."""

    def __init__(self, calls: list[dict[str, Any]]) -> None:
        super().__init__()
        self.calls = calls

    async def respond(self, exchange: Exchange) -> None:
        frames: list[dict[str, Any]] = [{"delta": {"tool_calls": [call]}} for call in self.calls]
        frames.append({"delta": {}, "finish_reason": "tool_calls"})
        body = b"".join(_data(frame) for frame in frames) + b"data: [DONE]\n\n"
        content_type = "text/event-stream"
        if not exchange.json["stream"]:
            message = {"content": None, "tool_calls": self.calls}
            body = _frame({"message": message, "finish_reason": "tool_calls"})
            content_type = "application/json"
        await exchange.start(200, {"Content-Type": content_type})
        await exchange.write(body)
        await exchange.end()


def _frame(choice: dict[str, Any]) -> bytes:
    return json.dumps({"id": "a", "model": "m", "choices": [{"index": 0, **choice}]}).encode()


def _data(choice: dict[str, Any]) -> bytes:
    return b"data: " + _frame(choice) + b"\n\n"


async def _calls(server: Calls, transport: str = "auto") -> list[ToolCallBlock]:
    async with server, swink.Client(retry=swink.RetryPolicy.none()) as client:
        message = await client.complete(
            "groq/any", "Hi", base_url=server.url, api_key="test", transport=transport
        )
    return message.tool_calls


def _call(kind: str | None, function: Any, custom: Any, **more: Any) -> dict[str, Any]:
    said = {"type": kind} if kind is not None else {}
    variants = {"function": function, "custom": custom}
    return {"index": 0, "id": "c1", **said, **variants, **more}


LOOK = {"name": "look", "arguments": '{"at": 1}'}
SQL = {"name": "sql", "input": "SELECT 1"}

# (name, call, name of the tool, its arguments)
VARIANTS: list[tuple[str, dict[str, Any], str, dict[str, Any]]] = [
    ("a_function", _call("function", LOOK, NOTHING), "look", {"at": 1}),
    ("a_function_beside_null", _call("function", LOOK, None), "look", {"at": 1}),
    ("a_function_beside_nulls", _call("function", LOOK, dict.fromkeys(NOTHING)), "look", {"at": 1}),
    ("a_custom_tool", _call("custom", EMPTY, SQL), "sql", {"input": "SELECT 1"}),
    ("a_custom_tool_alone", _call("custom", None, SQL), "sql", {"input": "SELECT 1"}),
    ("a_function_without_a_type", _call(None, LOOK, NOTHING), "look", {"at": 1}),
    ("a_custom_tool_without_a_type", _call(None, EMPTY, SQL), "sql", {"input": "SELECT 1"}),
    ("a_custom_tool_and_an_empty_type", _call("", EMPTY, SQL), "sql", {"input": "SELECT 1"}),
    ("both_and_the_type_decides", _call("function", LOOK, SQL), "look", {"at": 1}),
]


@pytest.mark.parametrize("transport", ["auto", "buffered"])
@pytest.mark.parametrize(
    ("call", "name", "arguments"), [row[1:] for row in VARIANTS], ids=[row[0] for row in VARIANTS]
)
async def test_the_type_of_a_tool_call_decides_what_it_is(
    call: dict[str, Any], name: str, arguments: dict[str, Any], transport: str
) -> None:
    [found] = await _calls(Calls([call]), transport)

    assert (found.id, found.name, found.arguments) == ("c1", name, arguments)
    assert (found.metadata == FREE_TEXT) is (name == "sql")


@pytest.mark.parametrize("kind", ["function", None])
async def test_fragments_with_zero_values_are_one_call(kind: str | None) -> None:
    pieces = ['{"at"', ": 1}"]
    more = [
        _call(kind, {"name": "", "arguments": piece}, NOTHING, id="", index=0) for piece in pieces
    ]
    begun = _call(kind, {"name": "look", "arguments": ""}, NOTHING)

    [found] = await _calls(Calls([begun, *more]))

    assert (found.name, found.arguments, found.state) == ("look", {"at": 1}, "complete")


@pytest.mark.parametrize("kind", ["custom", None])
async def test_fragments_of_free_text_with_zero_values_are_one_call(kind: str | None) -> None:
    begun = _call(kind, EMPTY, {"name": "sql", "input": ""})
    more = [_call(kind, EMPTY, {"name": "", "input": piece}, id="") for piece in ("SELECT", " 1")]

    [found] = await _calls(Calls([begun, *more]))

    assert (found.name, found.arguments) == ("sql", {"input": "SELECT 1"})
