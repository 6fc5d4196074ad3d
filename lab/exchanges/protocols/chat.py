"""OpenAI's Chat Completions: https://platform.openai.com/docs/api-reference/chat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lab.exchanges import words
from lab.exchanges.plan import Options
from lab.exchanges.protocols.base import Built, Protocol, call_of, dump, openai_failed
from lab.exchanges.talk import Entry, Failed, Result, Seen, User

__all__ = ["PROTOCOL"]

_STOPS = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_use",
    "content_filter": "content_filter",
}


def _build(
    model: str, entries: Sequence[Entry], options: Options, streamed: bool, key: str
) -> Built:
    messages: list[dict[str, Any]] = []
    if options.system:
        messages.append({"role": "system", "content": options.system})
    messages += [_message(entry) for entry in entries]
    body: dict[str, Any] = {"model": model, "messages": messages}
    if streamed:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    given = {
        "max_completion_tokens": options.max_tokens,
        "temperature": options.temperature,
        "top_p": options.top_p,
        "stop": list(options.stop) or None,
        "reasoning_effort": {"off": "none"}.get(str(options.thinking), options.thinking),
        "service_tier": options.tier,
        "n": options.choices if options.choices > 1 else None,
    }
    body |= {name: value for name, value in given.items() if value is not None}
    if options.tools:
        body["tools"] = [
            {"type": "function", "function": {"name": name, **words.TOOLS[name]}}
            for name in options.tools
        ]
        if options.choice in ("auto", "none", "required"):
            body["tool_choice"] = options.choice
        elif options.choice:
            body["tool_choice"] = {"type": "function", "function": {"name": options.choice}}
    if options.schema is not None:
        named = {"name": "note", "schema": options.schema, "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": named}
    return Built("/v1/chat/completions", {"authorization": f"Bearer {key}"}, body)


def _message(entry: Entry) -> dict[str, Any]:
    if isinstance(entry, Result):
        return {"role": "tool", "tool_call_id": entry.id, "content": entry.text}
    if isinstance(entry, User):
        if not entry.images and len(entry.texts) == 1:
            return {"role": "user", "content": entry.texts[0]}
        parts: list[dict[str, Any]] = [{"type": "text", "text": text} for text in entry.texts]
        for data in entry.images:
            url = f"data:image/png;base64,{words.base64_of(data)}"
            parts.append({"type": "image_url", "image_url": {"url": url}})
        return {"role": "user", "content": parts}
    if entry.native is not None:
        return dict(entry.native)
    made: dict[str, Any] = {"role": "assistant", "content": entry.text or None}
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": dump(call.arguments)},
        }
        for call in entry.calls
    ]
    if calls:
        made["tool_calls"] = calls
    return made


def _read(message: dict[str, Any], finish: Any, usage: Any) -> Seen:
    calls = [
        call_of(call["id"], call["function"]["name"], call["function"]["arguments"])
        for call in message.get("tool_calls") or []
    ]
    made = Seen(str(message.get("content") or message.get("refusal") or ""), calls=tuple(calls))
    made.thinking = str(message.get("reasoning_content") or "")
    made.stop = _STOPS.get(str(finish), f"unknown: {finish}")
    if usage:
        prompt = usage.get("prompt_tokens_details") or {}
        output = usage.get("completion_tokens_details") or {}
        made.usage = {
            "input": usage["prompt_tokens"],
            "output": usage["completion_tokens"],
            "cached": prompt.get("cached_tokens"),
            "reasoning": output.get("reasoning_tokens"),
            "total": usage["total_tokens"],
        }
        made.cost = usage.get("cost")
    native = {"role": "assistant", "content": message.get("content")}
    if calls:
        native["tool_calls"] = message["tool_calls"]
    made.native = native
    return made


def _whole(data: dict[str, Any]) -> Seen:
    choice = data["choices"][0]
    made = _read(choice["message"], choice["finish_reason"], data.get("usage"))
    made.choices = len(data["choices"])
    return made


def _events(events: list[Any]) -> Seen:
    message: dict[str, Any] = {"content": None}
    calls: dict[int, dict[str, Any]] = {}
    finish: Any = None
    others: set[int] = set()
    usage: Any = None
    problems: list[str] = []
    failed: Failed | None = None
    for at, event in enumerate(events):
        if event == "[DONE]":
            if at != len(events) - 1:
                problems.append("something follows [DONE]")
            continue
        if failed is not None:
            problems.append("something follows a failure")
        if "error" in event:
            failed = openai_failed(200, event)
            continue
        usage = event.get("usage") or usage
        for choice in event.get("choices") or []:
            if choice["index"]:
                others.add(choice["index"])
                continue
            delta = choice.get("delta") or {}
            finish = choice.get("finish_reason") or finish
            for name in ("content", "refusal", "reasoning_content"):
                if delta.get(name):
                    message[name] = (message.get(name) or "") + delta[name]
            for piece in delta.get("tool_calls") or []:
                call = calls.setdefault(piece["index"], {"type": "function", "function": {}})
                function = call["function"]
                if piece.get("id"):
                    call["id"] = piece["id"]
                given = piece.get("function") or {}
                for name in ("name", "arguments"):
                    function[name] = function.get(name, "") + (given.get(name) or "")
    if calls:
        message["tool_calls"] = [calls[index] for index in sorted(calls)]
    made = _read(message, finish, usage)
    made.choices += len(others)
    made.failed = failed
    made.problems = problems
    if failed is None and (not events or events[-1] != "[DONE]"):
        made.problems.append("the stream ends without [DONE]")
    return made


PROTOCOL = Protocol("chat", _build, _whole, _events, openai_failed)
