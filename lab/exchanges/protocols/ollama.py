"""Ollama's chat: https://docs.ollama.com/api/chat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lab.exchanges import words
from lab.exchanges.plan import Options
from lab.exchanges.protocols.base import Built, Protocol, call_of
from lab.exchanges.talk import Entry, Failed, Result, Seen, User

__all__ = ["PROTOCOL"]


def _build(
    model: str, entries: Sequence[Entry], options: Options, streamed: bool, key: str
) -> Built:
    messages: list[dict[str, Any]] = []
    if options.system:
        messages.append({"role": "system", "content": options.system})
    messages += [_message(entry) for entry in entries]
    body: dict[str, Any] = {"model": model, "messages": messages, "stream": streamed}
    given = {
        "num_predict": options.max_tokens,
        "temperature": options.temperature,
        "top_p": options.top_p,
        "stop": list(options.stop) or None,
    }
    chosen = {name: value for name, value in given.items() if value is not None}
    if chosen:
        body["options"] = chosen
    if options.thinking == "off":
        body["think"] = False
    elif options.thinking:
        body["think"] = options.thinking
    if options.tools:
        body["tools"] = [
            {"type": "function", "function": {"name": name, **words.TOOLS[name]}}
            for name in options.tools
        ]
    if options.schema is not None:
        body["format"] = options.schema
    return Built("/api/chat", {"authorization": f"Bearer {key}"}, body)


def _message(entry: Entry) -> dict[str, Any]:
    if isinstance(entry, Result):
        return {"role": "tool", "tool_name": entry.name, "content": entry.text}
    if isinstance(entry, User):
        made: dict[str, Any] = {"role": "user", "content": "\n".join(entry.texts)}
        if entry.images:
            made["images"] = [words.base64_of(data) for data in entry.images]
        return made
    if entry.native is not None:
        return dict(entry.native)
    said: dict[str, Any] = {"role": "assistant", "content": entry.text}
    if entry.calls:
        said["tool_calls"] = [
            {"function": {"name": call.name, "arguments": call.arguments}} for call in entry.calls
        ]
    return said


def _read(message: dict[str, Any], last: dict[str, Any]) -> Seen:
    calls = [
        call_of(call.get("id"), call["function"]["name"], call["function"]["arguments"])
        for call in message.get("tool_calls") or []
    ]
    made = Seen(message.get("content") or "", message.get("thinking") or "", tuple(calls))
    made.native = message
    reason = str(last.get("done_reason"))
    known = ("stop", "length", "content_filter")
    made.stop = reason if reason in known else f"unknown: {reason}"
    if "eval_count" in last or "prompt_eval_count" in last:
        made.usage = {"input": last.get("prompt_eval_count"), "output": last.get("eval_count")}
    made.cost = last.get("cost")
    return made


def _whole(data: dict[str, Any]) -> Seen:
    return _read(data["message"], data)


def _events(events: list[Any]) -> Seen:
    message: dict[str, Any] = {"role": "assistant", "content": ""}
    problems: list[str] = []
    last: dict[str, Any] = {}
    failed: Failed | None = None
    for event in events:
        if failed is not None or last:
            problems.append("something follows the end")
        if "error" in event:
            failed = _failed(200, event)
            continue
        piece = event.get("message") or {}
        message["content"] += piece.get("content") or ""
        if piece.get("thinking"):
            message["thinking"] = message.get("thinking", "") + piece["thinking"]
        if piece.get("tool_calls"):
            message["tool_calls"] = message.get("tool_calls", []) + piece["tool_calls"]
        if event.get("done"):
            last = event
    made = _read(message, last)
    if not last and failed is None:
        problems.append("the stream ends without `done`")
    made.failed = failed
    made.problems = problems
    return made


def _failed(status: int, body: Any) -> Failed:
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, str):
        return Failed(status=status, type="none", message=str(body)[:200])
    return Failed(status=status, message=error)


PROTOCOL = Protocol(
    "ollama", _build, _whole, _events, _failed, lines=True, unsaid=("tier", "choice")
)
