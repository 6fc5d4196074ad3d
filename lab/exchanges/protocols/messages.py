"""Anthropic's Messages: https://platform.claude.com/docs/en/api/messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lab.exchanges import words
from lab.exchanges.plan import Options
from lab.exchanges.protocols.base import Built, Protocol, call_of, loaded
from lab.exchanges.talk import NOT_JSON, Entry, Failed, Result, Seen, User

__all__ = ["PROTOCOL"]

_STOPS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool_use",
    "refusal": "content_filter",
    "pause_turn": "pause",
}
_MOST = 4_096
_BUDGET = 1_024


def _build(
    model: str, entries: Sequence[Entry], options: Options, streamed: bool, key: str
) -> Built:
    messages: list[dict[str, Any]] = []
    for entry in entries:
        role, blocks = _blocks(entry)
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"] = messages[-1]["content"] + blocks
        else:
            messages.append({"role": role, "content": blocks})
    limit = _MOST if options.max_tokens is None else options.max_tokens
    body: dict[str, Any] = {"model": model, "messages": messages, "max_tokens": limit}
    if streamed:
        body["stream"] = True
    given = {
        "system": options.system,
        "temperature": options.temperature,
        "top_p": options.top_p,
        "stop_sequences": list(options.stop) or None,
    }
    body |= {name: value for name, value in given.items() if value is not None}
    if options.thinking == "off":
        body["thinking"] = {"type": "disabled"}
    elif options.thinking and limit > _BUDGET:
        body["thinking"] = {"type": "enabled", "budget_tokens": _BUDGET}
    if options.tools:
        body["tools"] = [
            {
                "name": name,
                "description": words.TOOLS[name]["description"],
                "input_schema": words.TOOLS[name]["parameters"],
            }
            for name in options.tools
        ]
        kinds = {"auto": "auto", "none": "none", "required": "any"}
        if options.choice in kinds:
            body["tool_choice"] = {"type": kinds[options.choice]}
        elif options.choice:
            body["tool_choice"] = {"type": "tool", "name": options.choice}
    if options.schema is not None:
        body["output_config"] = {"format": {"type": "json_schema", "schema": options.schema}}
    headers = {"x-api-key": key, "anthropic-version": "2023-06-01"}
    return Built("/v1/messages", headers, body)


def _blocks(entry: Entry) -> tuple[str, list[Any]]:
    made: list[Any] = []
    if isinstance(entry, Result):
        result: dict[str, Any] = {"type": "tool_result", "tool_use_id": entry.id}
        result["content"] = entry.text
        if entry.is_error:
            result["is_error"] = True
        return "user", [result]
    if isinstance(entry, User):
        made += [{"type": "text", "text": text} for text in entry.texts]
        for data in entry.images:
            source = {"type": "base64", "media_type": "image/png", "data": words.base64_of(data)}
            made.append({"type": "image", "source": source})
        return "user", made
    if entry.native is not None:
        return "assistant", list(entry.native)
    if entry.text:
        made.append({"type": "text", "text": entry.text})
    for call in entry.calls:
        made.append({"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments})
    return "assistant", made


def _read(blocks: list[dict[str, Any]], stop: Any, usage: Any) -> Seen:
    made = Seen(native=[block for block in blocks if block.get("text") != ""])
    made.text = "".join(block["text"] for block in blocks if block["type"] == "text")
    made.thinking = "".join(block["thinking"] for block in blocks if block["type"] == "thinking")
    made.calls = tuple(
        call_of(block["id"], block["name"], block["input"])
        for block in blocks
        if block["type"] == "tool_use"
    )
    made.stop = _STOPS.get(str(stop), f"unknown: {stop}")
    if usage:
        cached = usage.get("cache_read_input_tokens") or 0
        written = usage.get("cache_creation_input_tokens") or 0
        details = usage.get("output_tokens_details") or {}
        made.usage = {
            "input": usage["input_tokens"] + cached + written,
            "output": usage["output_tokens"],
            "cached": usage.get("cache_read_input_tokens"),
            "written": usage.get("cache_creation_input_tokens"),
            "reasoning": details.get("thinking_tokens"),
        }
        made.cost = usage.get("cost")
    return made


def _whole(data: dict[str, Any]) -> Seen:
    return _read(data["content"], data["stop_reason"], data.get("usage"))


def _events(events: list[Any]) -> Seen:
    blocks: dict[int, dict[str, Any]] = {}
    partial: dict[int, str] = {}
    usage: dict[str, Any] = {}
    stop: Any = None
    problems: list[str] = []
    failed: Failed | None = None
    ended = False
    for event in events:
        if failed is not None or ended:
            problems.append("something follows the end")
        match event.get("type"):
            case "message_start":
                usage = dict(event["message"]["usage"])
            case "content_block_start":
                blocks[event["index"]] = dict(event["content_block"])
            case "content_block_delta":
                _add(blocks[event["index"]], event["delta"], partial, event["index"])
            case "message_delta":
                stop = event["delta"].get("stop_reason")
                given = event.get("usage") or {}
                usage |= {name: value for name, value in given.items() if value is not None}
            case "message_stop":
                ended = True
            case "error":
                failed = _failed(200, event)
    for index, text in partial.items():
        value = loaded(text) if text else {}
        blocks[index]["input"] = value if isinstance(value, dict) else {NOT_JSON: text}
    made = _read([blocks[index] for index in sorted(blocks)], stop, usage if ended else None)
    if not ended and failed is None:
        problems.append("the stream ends without message_stop")
    made.failed = failed
    made.problems = problems
    return made


def _add(block: dict[str, Any], delta: dict[str, Any], partial: dict[int, str], index: int) -> None:
    match delta.get("type"):
        case "text_delta":
            block["text"] += delta["text"]
        case "thinking_delta":
            block["thinking"] += delta["thinking"]
        case "signature_delta":
            block["signature"] = delta["signature"]
        case "input_json_delta":
            partial[index] = partial.get(index, "") + delta["partial_json"]


def _failed(status: int, body: Any) -> Failed:
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return Failed(status=status, type="none", message=str(body)[:200])
    return Failed(status=status, type=error.get("type"), message=str(error.get("message")))


PROTOCOL = Protocol("messages", _build, _whole, _events, _failed, unsaid=("tier",))
