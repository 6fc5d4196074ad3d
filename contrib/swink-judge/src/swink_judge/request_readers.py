"""Read the conversation in a request body of any API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field

__all__ = ["SIZE", "Reading", "read_request", "scalars_of", "strings_of"]


@define
class Reading:
    """The conversation in a request.

    `steps` contains a pair for each user text, tool call and tool result, in order: `("user", "")`,
    `("call", id)` or `("result", id)`. `roles` contains the role of each turn. `empty` describes
    turns and parts without content.
    """

    steps: list[tuple[str, str]] = field(factory=list)
    roles: list[str] = field(factory=list)
    empty: list[str] = field(factory=list)

    def ids(self, kind: str) -> list[str]:
        """Return the ids of all calls (`kind` is `call`) or of all results (`result`)."""
        return [id for step, id in self.steps if step == kind]

    def check(self, what: str, value: Any) -> None:
        """Record `what` (a part of a turn) in `empty` if its value is empty or only white space."""
        if not value or (isinstance(value, str) and not value.strip()):
            self.empty.append(f"{what} of turn {len(self.roles)}")


def strings_of(data: Any) -> list[str]:
    """Return all strings of JSON data, including names."""
    found: list[str] = []
    _add_strings(data, found)
    return found


def _add_strings(data: Any, found: list[str]) -> None:
    """Append all strings of JSON data to `found`, without copying lists at each level."""
    if isinstance(data, dict):
        for name, value in data.items():
            found.append(name)
            if isinstance(value, str):
                found.append(value)
            else:
                _add_strings(value, found)
    elif isinstance(data, list):
        for item in data:
            _add_strings(item, found)
    elif isinstance(data, str):
        found.append(data)


SIZE = "{}"
"""The last step of a path whose value is the size of an object or list."""


def scalars_of(data: Any) -> list[tuple[str, Any]]:
    """Return all scalars of JSON data with their paths, and the sizes of all objects and lists."""
    found: list[tuple[str, Any]] = []
    _add_scalars(data, "", found)
    return found


def _add_scalars(data: Any, path: str, found: list[tuple[str, Any]]) -> None:
    if isinstance(data, dict):
        found.append((f"{path}{SIZE}", len(data)))
        for name, value in data.items():
            if isinstance(value, dict | list):
                _add_scalars(value, f"{path}.{name}", found)
            else:
                found.append((f"{path}.{name}", value))
    elif isinstance(data, list):
        for value in data:
            _add_scalars(value, path, found)
    else:
        found.append((path, data))


def read_request(api: str, body: Any) -> Reading:
    """Read the conversation in a request. `api` is a key of `READERS`, such as `openai-chat`."""
    reading = Reading()
    READERS[api](body, reading)
    return reading


def _parts(content: Any, reading: Reading) -> None:
    reading.check("content", content)
    for part in content if isinstance(content, list) else ():
        if part["type"] in ("text", "input_text", "output_text"):
            reading.check("text", part["text"])


def _chat(body: Any, reading: Reading) -> None:
    for message in body["messages"]:
        reading.roles.append(message["role"])
        if message["role"] == "tool":
            reading.steps.append(("result", message["tool_call_id"]))
            continue
        calls = message.get("tool_calls", ())
        if message["role"] == "user":
            reading.steps.append(("user", ""))
        if not calls or message.get("content") not in (None, ""):
            _parts(message["content"], reading)
        reading.steps.extend(("call", call["id"]) for call in calls)


def _responses(body: Any, reading: Reading) -> None:
    for item in body["input"]:
        kind = item.get("type", "message")
        reading.roles.append(item.get("role", kind))
        if kind == "message":
            reading.steps.extend([("user", "")] if item["role"] == "user" else [])
            _parts(item["content"], reading)
        elif kind == "function_call":
            reading.steps.append(("call", item["call_id"]))
        elif kind == "function_call_output":
            reading.steps.append(("result", item["call_id"]))
            _parts(item["output"], reading)


def _messages(body: Any, reading: Reading) -> None:
    for turn in body["messages"]:
        reading.roles.append(turn["role"])
        content = turn["content"]
        reading.check("content", content)
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            if block["type"] == "tool_use":
                reading.steps.append(("call", block["id"]))
            elif block["type"] == "tool_result":
                reading.steps.append(("result", block["tool_use_id"]))
            elif turn["role"] == "user":
                reading.steps.append(("user", ""))
            if block["type"] == "text":
                reading.check("text", block["text"])


def _converse(body: Any, reading: Reading) -> None:
    for turn in body["messages"]:
        reading.roles.append(turn["role"])
        reading.check("content", turn["content"])
        for block in turn["content"]:
            use, result = block.get("toolUse", {}), block.get("toolResult", {})
            if use and "type" not in use:
                reading.steps.append(("call", use["toolUseId"]))
            elif result and turn["role"] == "user":
                reading.steps.append(("result", result["toolUseId"]))
            elif turn["role"] == "user":
                reading.steps.append(("user", ""))
            if "text" in block:
                reading.check("text", block["text"])


def _generate_content(body: Any, reading: Reading) -> None:
    for turn in body["contents"]:
        reading.roles.append(turn["role"])
        reading.check("parts", turn["parts"])
        for part in turn["parts"]:
            if call := part.get("functionCall"):
                reading.steps.append(("call", call.get("id", call["name"])))
            elif result := part.get("functionResponse"):
                reading.steps.append(("result", result.get("id", result["name"])))
            elif turn["role"] == "user" and "text" in part:
                reading.steps.append(("user", ""))
            if "text" in part and "thoughtSignature" not in part:
                reading.check("text", part["text"])


def _ollama(body: Any, reading: Reading) -> None:
    for message in body["messages"]:
        reading.roles.append(message["role"])
        if message["role"] == "tool":
            id = message.get("tool_call_id", message["tool_name"])
            reading.steps.append(("result", id))
            continue
        calls = message.get("tool_calls", ())
        if message["role"] == "user":
            reading.steps.append(("user", ""))
        if not calls:
            reading.check("content", message["content"])
        reading.steps.extend(("call", c.get("id", c["function"]["name"])) for c in calls)


def _words(body: Any, reading: Reading) -> None:
    """Check a request in a format without turns and without ids of tool calls.

    If all strings in the request are blank, record the request in `reading.empty`.
    """
    for text in strings_of(body):
        if text.strip():
            return
    reading.empty.append("the request")


READERS: dict[str, Callable[[Any, Reading], None]] = {
    "anthropic-messages": _messages,
    "bedrock-converse": _converse,
    "claude-stream-json": _words,
    "cohere-chat": _chat,
    "gemini-generate-content": _generate_content,
    "none": _words,
    "ollama-chat": _ollama,
    "openai-chat": _chat,
    "openai-responses": _responses,
    "perplexity-agent": _responses,
}
