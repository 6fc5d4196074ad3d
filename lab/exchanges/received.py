"""Read the requests that the vendor received, by the documents of each API."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from lab.vendor import Exchange

__all__ = ["Atom", "Received", "read"]


@dataclass(frozen=True, slots=True)
class Atom:
    """One part of a conversation.

    `kind` is `system`, `user`, `said`, `plan`, `image`, `call` or `result`. `data` are a call's
    arguments. A `plan` is a text beside a call, or a thought; a request may lack it.
    """

    kind: str
    text: str = ""
    name: str = ""
    data: Any = None


@dataclass(slots=True)
class Received:
    """The contents of a request: its conversation, its options by neutral names, names of tools."""

    atoms: list[Atom] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    tools: set[str] = field(default_factory=set)

    def add(self, kind: str, text: Any = "", name: Any = "", data: Any = None) -> None:
        """Add a part; texts of the same kind in a row are kept apart."""
        self.atoms.append(Atom(kind, str(text or ""), str(name or ""), data))

    def option(self, name: str, value: Any) -> None:
        """Note an option that is set."""
        if value is not None and value != []:
            self.options[name] = value


def read(exchange: Exchange) -> Received:
    """Read the body of a request."""
    body = json.loads(exchange.body)
    made = Received()
    _READERS[exchange.api](body, made)
    return made


def _parts(content: Any) -> list[dict[str, Any]]:
    if content is None:
        return []
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if isinstance(content, dict):
        return [content]
    return [{"type": "text", "text": each} if isinstance(each, str) else each for each in content]


def _data_of(url: Any) -> str:
    text = url.get("url", "") if isinstance(url, dict) else str(url)
    return text.partition("base64,")[2] or text


def _json(text: Any) -> Any:
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def _joined(content: Any) -> str:
    return "".join(str(part.get("text", "")) for part in _parts(content))


def _contents(made: Received, kind: str, content: Any) -> None:
    """Read the content of a message of OpenAI's, Mistral's or Cohere's."""
    for part in _parts(content):
        match part.get("type"):
            case "text" | "input_text" | "output_text" | "refusal":
                made.add(kind, part.get("text") or part.get("refusal"))
            case "image_url" | "input_image":
                made.add("image", _data_of(part["image_url"]))
            case "thinking":
                # Cohere's reasoning models have the plan of a call there.
                if isinstance(part.get("thinking"), str):
                    made.add("plan", part["thinking"])
            case other:
                made.add("unknown", str(other))


def _chat(body: dict[str, Any], made: Received) -> None:
    for message in body["messages"]:
        role = message["role"]
        if role == "tool":
            made.add("result", _joined(message.get("content")))
            continue
        kind = {"system": "system", "developer": "system", "user": "user"}.get(role, "said")
        _contents(made, kind, message.get("content"))
        if message.get("tool_plan"):
            made.add("plan", message["tool_plan"])
        for call in message.get("tool_calls") or []:
            function = call["function"]
            made.add("call", "", function["name"], _json(function["arguments"]))
    for tool in body.get("tools") or []:
        made.tools.add(tool["function"]["name"])
    limit = body.get("max_completion_tokens", body.get("max_tokens"))
    made.option("max_tokens", limit)
    for name in ("temperature", "top_p"):
        made.option(name, body.get(name))
    made.option("top_p", body.get("p"))
    stop = body.get("stop", body.get("stop_sequences"))
    made.option("stop", [stop] if isinstance(stop, str) else stop)
    made.option("choice", _chat_choice(body.get("tool_choice")))
    form = body.get("response_format") or {}
    named = form.get("json_schema") or {}
    made.option("schema", named.get("schema") or named or form.get("schema"))
    made.option("tier", body.get("service_tier"))


def _chat_choice(choice: Any) -> Any:
    if isinstance(choice, dict):
        named = choice.get("function") or choice
        return named.get("name")
    if choice in ("any", "REQUIRED"):
        return "required"
    return choice.lower() if isinstance(choice, str) else None


def _responses(body: dict[str, Any], made: Received) -> None:
    if body.get("instructions"):
        made.add("system", body["instructions"])
    items = body["input"]
    for item in [{"role": "user", "content": items}] if isinstance(items, str) else items:
        match item.get("type", "message"):
            case "message":
                role = item["role"]
                kind = {"system": "system", "developer": "system", "user": "user"}.get(role, "said")
                _contents(made, kind, item.get("content"))
            case "function_call":
                made.add("call", "", item["name"], _json(item["arguments"]))
            case "function_call_output":
                made.add("result", _joined(item.get("output")))
            case "reasoning":
                pass
            case other:
                made.add("unknown", other)
    for tool in body.get("tools") or []:
        made.tools.add(tool["name"])
    made.option("max_tokens", body.get("max_output_tokens"))
    made.option("temperature", body.get("temperature"))
    made.option("top_p", body.get("top_p"))
    made.option("choice", _chat_choice(body.get("tool_choice")))
    made.option("schema", ((body.get("text") or {}).get("format") or {}).get("schema"))
    made.option("tier", body.get("service_tier"))


def _messages(body: dict[str, Any], made: Received) -> None:
    for part in _parts(body.get("system")):
        made.add("system", part.get("text"))
    for message in body["messages"]:
        kind = {"user": "user", "system": "system"}.get(message["role"], "said")
        for part in _parts(message["content"]):
            match part.get("type"):
                case "text":
                    made.add(kind, part["text"])
                case "image":
                    made.add("image", part["source"].get("data"))
                case "tool_use":
                    made.add("call", "", part["name"], part["input"])
                case "tool_result":
                    made.add("result", _joined(part.get("content")))
                case "thinking" | "redacted_thinking":
                    pass
                case other:
                    made.add("unknown", other)
    for tool in body.get("tools") or []:
        made.tools.add(tool["name"])
    made.option("max_tokens", body.get("max_tokens"))
    made.option("temperature", body.get("temperature"))
    made.option("top_p", body.get("top_p"))
    made.option("stop", body.get("stop_sequences"))
    choice = body.get("tool_choice") or {}
    kinds = {"any": "required", "auto": "auto", "none": "none", "tool": choice.get("name")}
    made.option("choice", kinds.get(choice.get("type", "")))
    form = (body.get("output_config") or {}).get("format") or body.get("output_format") or {}
    made.option("schema", form.get("schema"))
    made.option("tier", body.get("service_tier"))


def _gemini(body: dict[str, Any], made: Received) -> None:
    for part in (body.get("systemInstruction") or {}).get("parts", []):
        made.add("system", part.get("text"))
    for content in body["contents"]:
        kind = "said" if content.get("role") == "model" else "user"
        for part in content.get("parts", []):
            if part.get("thought"):
                continue
            if "functionCall" in part:
                call = part["functionCall"]
                made.add("call", "", call["name"], call.get("args") or {})
            elif "functionResponse" in part:
                response = part["functionResponse"]
                made.add("result", _response_text(response.get("response")), response["name"])
            elif "inlineData" in part:
                made.add("image", part["inlineData"]["data"])
            elif part.get("text"):
                made.add(kind, part["text"])
    for tool in body.get("tools") or []:
        for function in tool.get("functionDeclarations") or []:
            made.tools.add(function["name"])
    config = body.get("generationConfig") or {}
    made.option("max_tokens", config.get("maxOutputTokens"))
    made.option("temperature", config.get("temperature"))
    made.option("top_p", config.get("topP"))
    made.option("stop", config.get("stopSequences"))
    made.option("schema", config.get("responseJsonSchema") or config.get("responseSchema"))
    calling = (body.get("toolConfig") or {}).get("functionCallingConfig") or {}
    names = calling.get("allowedFunctionNames") or []
    modes = {"ANY": names[0] if names else "required", "AUTO": "auto", "NONE": "none"}
    made.option("choice", modes.get(str(calling.get("mode", "")).upper()))


def _response_text(response: Any) -> str:
    """Return the text of a function's response: its only field, or the whole as JSON."""
    if isinstance(response, dict) and len(response) == 1:
        [value] = response.values()
        if isinstance(value, str):
            return value
    return json.dumps(response, ensure_ascii=False)


def _converse(body: dict[str, Any], made: Received) -> None:
    for part in body.get("system") or []:
        if "text" in part:
            made.add("system", part["text"])
    for message in body["messages"]:
        kind = "user" if message["role"] == "user" else "said"
        for part in message["content"]:
            if "text" in part:
                made.add(kind, part["text"])
            elif "image" in part:
                made.add("image", part["image"]["source"]["bytes"])
            elif "toolUse" in part:
                made.add("call", "", part["toolUse"]["name"], part["toolUse"]["input"])
            elif "toolResult" in part:
                content = part["toolResult"]["content"]
                made.add("result", "".join(str(each.get("text", "")) for each in content))
            elif not {"reasoningContent", "cachePoint"} & part.keys():
                made.add("unknown", sorted(part))
    tools = body.get("toolConfig") or {}
    for tool in tools.get("tools") or []:
        if "toolSpec" in tool:
            made.tools.add(tool["toolSpec"]["name"])
    choice = tools.get("toolChoice") or {}
    if "tool" in choice:
        made.option("choice", choice["tool"]["name"])
    elif choice:
        made.option("choice", {"any": "required", "auto": "auto"}.get(next(iter(choice))))
    config = body.get("inferenceConfig") or {}
    made.option("max_tokens", config.get("maxTokens"))
    made.option("temperature", config.get("temperature"))
    made.option("top_p", config.get("topP"))
    made.option("stop", config.get("stopSequences"))
    made.option("schema", (body.get("outputConfig") or {}).get("textFormat"))
    made.option("tier", (body.get("serviceTier") or {}).get("type"))


def _ollama(body: dict[str, Any], made: Received) -> None:
    for message in body["messages"]:
        role = message["role"]
        if role == "tool":
            made.add("result", message.get("content"), message.get("tool_name"))
            continue
        kind = {"system": "system", "user": "user"}.get(role, "said")
        if message.get("content"):
            made.add(kind, message["content"])
        for data in message.get("images") or []:
            made.add("image", data)
        for call in message.get("tool_calls") or []:
            made.add("call", "", call["function"]["name"], call["function"]["arguments"])
    for tool in body.get("tools") or []:
        made.tools.add(tool["function"]["name"])
    options = body.get("options") or {}
    made.option("max_tokens", options.get("num_predict"))
    made.option("temperature", options.get("temperature"))
    made.option("top_p", options.get("top_p"))
    made.option("stop", options.get("stop"))
    form = body.get("format")
    made.option("schema", form if isinstance(form, dict) else None)


_READERS = {
    "chat": _chat,
    "mistral": _chat,
    "cohere": _chat,
    "responses": _responses,
    "messages": _messages,
    "generateContent": _gemini,
    "converse": _converse,
    "ollama": _ollama,
}
