"""OpenAI's Responses: https://platform.openai.com/docs/api-reference/responses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lab.exchanges import words
from lab.exchanges.plan import Options
from lab.exchanges.protocols.base import Built, Protocol, call_of, dump, openai_failed
from lab.exchanges.talk import Entry, Failed, Result, Seen, User

__all__ = ["PROTOCOL"]


def _build(
    model: str, entries: Sequence[Entry], options: Options, streamed: bool, key: str
) -> Built:
    items: list[Any] = []
    for entry in entries:
        items += _items(entry)
    body: dict[str, Any] = {
        "model": model,
        "input": items,
        "store": False,
    }
    if options.thinking not in (None, "off"):
        body["include"] = ["reasoning.encrypted_content"]
    if streamed:
        body["stream"] = True
    given = {
        "instructions": options.system,
        "max_output_tokens": options.max_tokens,
        "temperature": options.temperature,
        "top_p": options.top_p,
        "service_tier": options.tier,
    }
    body |= {name: value for name, value in given.items() if value is not None}
    if options.thinking == "off":
        body["reasoning"] = {"effort": "none"}
    elif options.thinking:
        body["reasoning"] = {"effort": options.thinking, "summary": "auto"}
    if options.tools:
        body["tools"] = [
            {"type": "function", "name": name, **words.TOOLS[name]} for name in options.tools
        ]
        if options.choice in ("auto", "none", "required"):
            body["tool_choice"] = options.choice
        elif options.choice:
            body["tool_choice"] = {"type": "function", "name": options.choice}
    if options.schema is not None:
        form = {"type": "json_schema", "name": "note", "schema": options.schema, "strict": True}
        body["text"] = {"format": form}
    return Built("/v1/responses", {"authorization": f"Bearer {key}"}, body)


def _items(entry: Entry) -> list[Any]:
    if isinstance(entry, Result):
        return [{"type": "function_call_output", "call_id": entry.id, "output": entry.text}]
    if isinstance(entry, User):
        parts: list[dict[str, Any]] = [{"type": "input_text", "text": each} for each in entry.texts]
        for data in entry.images:
            url = f"data:image/png;base64,{words.base64_of(data)}"
            parts.append({"type": "input_image", "image_url": url, "detail": "auto"})
        return [{"type": "message", "role": "user", "content": parts}]
    if entry.native is not None:
        return list(entry.native)
    made: list[Any] = []
    if entry.text:
        made.append({"role": "assistant", "content": entry.text})
    for call in entry.calls:
        made.append(
            {
                "type": "function_call",
                "call_id": call.id,
                "name": call.name,
                "arguments": dump(call.arguments),
            }
        )
    return made


def _whole(data: dict[str, Any]) -> Seen:
    text: list[str] = []
    thinking: list[str] = []
    calls = []
    for item in data.get("output") or []:
        if item["type"] == "message":
            for part in item["content"]:
                text.append(part.get("text") or part.get("refusal") or "")
        elif item["type"] == "function_call":
            calls.append(call_of(item["call_id"], item["name"], item["arguments"]))
        elif item["type"] == "reasoning":
            thinking += [part["text"] for part in item.get("summary") or []]
    made = Seen("".join(text), "".join(thinking), tuple(calls), native=data.get("output") or [])
    made.stop = "tool_use" if calls else "stop"
    if data.get("status") == "incomplete":
        reason = (data.get("incomplete_details") or {}).get("reason")
        made.stop = {"max_output_tokens": "length"}.get(str(reason), str(reason))
    usage = data.get("usage")
    if usage:
        prompt = usage.get("input_tokens_details") or {}
        output = usage.get("output_tokens_details") or {}
        made.usage = {
            "input": usage["input_tokens"],
            "output": usage["output_tokens"],
            "cached": prompt.get("cached_tokens"),
            "reasoning": output.get("reasoning_tokens"),
            "total": usage["total_tokens"],
        }
        made.cost = usage.get("cost")
    return made


def _events(events: list[Any]) -> Seen:
    text: list[str] = []
    arguments: dict[str, str] = {}
    names: dict[str, str] = {}
    order: list[str] = []
    last: Any = None
    problems: list[str] = []
    failed: Failed | None = None
    for event in events:
        if failed is not None:
            problems.append("something follows a failure")
        kind = event.get("type")
        if kind in ("response.output_text.delta", "response.refusal.delta"):
            text.append(event["delta"])
        elif kind == "response.output_item.added" and event["item"]["type"] == "function_call":
            order.append(event["item"]["id"])
            names[event["item"]["id"]] = event["item"]["name"]
        elif kind == "response.function_call_arguments.delta":
            id = event["item_id"]
            arguments[id] = arguments.get(id, "") + event["delta"]
        elif kind in ("response.completed", "response.incomplete"):
            last = event["response"]
        elif kind in ("response.failed", "error"):
            failed = openai_failed(200, event.get("response") or event)
            if kind == "error":
                failed = None  # `response.failed` follows
                problems.append("an event `error` before `response.failed`")
    if last is not None and failed is None:
        made = _whole(last)
        if made.text != "".join(text):
            problems.append("the deltas of the text are not the text of the response")
        streamed = [arguments.get(id, "") for id in order]
        if [call.raw for call in made.calls] != streamed:
            problems.append("the deltas of the arguments are not those of the response")
    else:
        calls = [call_of(id, names[id], arguments.get(id, "")) for id in order]
        made = Seen("".join(text), calls=tuple(calls))
        if failed is None:
            problems.append("the stream ends without response.completed")
    made.failed = failed
    made.problems = problems
    return made


PROTOCOL = Protocol("responses", _build, _whole, _events, openai_failed, unsaid=("stop",))
