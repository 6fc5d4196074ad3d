"""Google's generateContent: https://ai.google.dev/api/generate-content."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lab.exchanges import words
from lab.exchanges.plan import Options
from lab.exchanges.protocols.base import Built, Protocol, call_of
from lab.exchanges.talk import Entry, Failed, Result, Seen, User

__all__ = ["PROTOCOL"]

_STOPS = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "SAFETY": "content_filter",
    "PROHIBITED_CONTENT": "content_filter",
}


def _build(
    model: str, entries: Sequence[Entry], options: Options, streamed: bool, key: str
) -> Built:
    contents: list[dict[str, Any]] = []
    for entry in entries:
        role, parts = _parts(entry)
        if contents and contents[-1]["role"] == role:
            contents[-1]["parts"] = contents[-1]["parts"] + parts
        else:
            contents.append({"role": role, "parts": parts})
    body: dict[str, Any] = {"contents": contents}
    if options.system:
        body["systemInstruction"] = {"parts": [{"text": options.system}]}
    config: dict[str, Any] = {
        "maxOutputTokens": options.max_tokens,
        "temperature": options.temperature,
        "topP": options.top_p,
        "stopSequences": list(options.stop) or None,
        "candidateCount": options.choices if options.choices > 1 else None,
    }
    config = {name: value for name, value in config.items() if value is not None}
    if options.thinking == "off":
        config["thinkingConfig"] = {"thinkingBudget": 0}
    elif options.thinking:
        config["thinkingConfig"] = {"includeThoughts": True, "thinkingBudget": 1_024}
    if options.schema is not None:
        config |= {"responseMimeType": "application/json", "responseJsonSchema": options.schema}
    if config:
        body["generationConfig"] = config
    if options.tools:
        declared = [
            {
                "name": name,
                "description": words.TOOLS[name]["description"],
                "parametersJsonSchema": words.TOOLS[name]["parameters"],
            }
            for name in options.tools
        ]
        body["tools"] = [{"functionDeclarations": declared}]
        modes = {"auto": "AUTO", "none": "NONE", "required": "ANY"}
        calling: dict[str, Any] = {}
        if options.choice in modes:
            calling = {"mode": modes[options.choice]}
        elif options.choice:
            calling = {"mode": "ANY", "allowedFunctionNames": [options.choice]}
        if calling:
            body["toolConfig"] = {"functionCallingConfig": calling}
    method = "streamGenerateContent?alt=sse" if streamed else "generateContent"
    return Built(f"/v1beta/models/{model}:{method}", {"x-goog-api-key": key}, body)


def _parts(entry: Entry) -> tuple[str, list[Any]]:
    made: list[Any] = []
    if isinstance(entry, Result):
        name = "error" if entry.is_error else "result"
        response: dict[str, Any] = {"name": entry.name, "response": {name: entry.text}}
        if entry.id:
            response["id"] = entry.id
        return "user", [{"functionResponse": response}]
    if isinstance(entry, User):
        made += [{"text": text} for text in entry.texts]
        for data in entry.images:
            made.append({"inlineData": {"mimeType": "image/png", "data": words.base64_of(data)}})
        return "user", made
    if entry.native is not None:
        return "model", list(entry.native)
    if entry.text:
        made.append({"text": entry.text})
    for call in entry.calls:
        function = {"name": call.name, "args": call.arguments, "id": call.id}
        made.append({"functionCall": function})
    return "model", made


def _read(parts: list[dict[str, Any]], finish: Any, usage: Any) -> Seen:
    made = Seen(native=parts)
    made.text = "".join(p["text"] for p in parts if "text" in p and not p.get("thought"))
    made.thinking = "".join(p["text"] for p in parts if "text" in p and p.get("thought"))
    calls = [part["functionCall"] for part in parts if "functionCall" in part]
    made.calls = tuple(
        call_of(call.get("id"), call["name"], call.get("args") or {}) for call in calls
    )
    made.stop = _STOPS.get(str(finish), f"unknown: {finish}")
    if usage:
        thoughts = usage.get("thoughtsTokenCount")
        made.usage = {
            "input": usage.get("promptTokenCount"),
            "output": usage.get("candidatesTokenCount", 0) + (thoughts or 0),
            "cached": usage.get("cachedContentTokenCount"),
            "reasoning": thoughts,
            "total": usage.get("totalTokenCount"),
        }
        made.cost = usage.get("cost")
    return made


def _whole(data: dict[str, Any]) -> Seen:
    candidate = data["candidates"][0]
    parts = (candidate.get("content") or {}).get("parts") or []
    made = _read(parts, candidate.get("finishReason"), data.get("usageMetadata"))
    made.choices = len(data["candidates"])
    return made


def _events(events: list[Any]) -> Seen:
    parts: list[dict[str, Any]] = []
    finish: Any = None
    others: set[int] = set()
    usage: Any = None
    problems: list[str] = []
    failed: Failed | None = None
    for event in events:
        if failed is not None:
            problems.append("something follows a failure")
        if "error" in event:
            failed = _failed(200, event)
            continue
        usage = event.get("usageMetadata") or usage
        for candidate in event.get("candidates") or []:
            if candidate.get("index"):
                others.add(candidate["index"])
                continue
            finish = candidate.get("finishReason") or finish
            for part in (candidate.get("content") or {}).get("parts") or []:
                _add(parts, part)
    made = _read(parts, finish, usage)
    made.choices += len(others)
    if finish is None and failed is None:
        problems.append("the stream ends without a finishReason")
    made.failed = failed
    made.problems = problems
    return made


def _add(parts: list[dict[str, Any]], part: dict[str, Any]) -> None:
    """Join texts of a kind, as Google's SDKs do, but for those that have a signature."""
    last = parts[-1] if parts else {}
    alike = part.get("thought") == last.get("thought") and "thoughtSignature" not in last
    if "text" in part and "text" in last and alike:
        parts[-1] = {**last, **part, "text": last["text"] + part["text"]}
    else:
        parts.append(dict(part))


def _failed(status: int, body: Any) -> Failed:
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return Failed(status=status, type="none", message=str(body)[:200])
    return Failed(
        status=status,
        code=str(error.get("code")),
        type=error.get("status"),
        message=str(error.get("message")),
    )


PROTOCOL = Protocol("generateContent", _build, _whole, _events, _failed, unsaid=("tier",))
