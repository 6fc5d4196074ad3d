"""Convert requests of Google's API to conversations and options.

https://ai.google.dev/api/generate-content, https://ai.google.dev/api/caching#Content: contents of
the roles user and model, each a list of parts. Field names may be written in camel case or snake
case, and bytes in either base64 alphabet; a list with one value may be replaced by the value
itself. A call without an id gets an id that is derived from the call's position in the
conversation, and is therefore the same in every request. A result without an id belongs to the
first call with the same name in the model's last turn that has no result yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from math import isfinite
from typing import Any

from swink_core import Context, Tool
from swink_gateway.protocols import Asked
from swink_gateway.protocols.fields import Fields
from swink_gateway.protocols.gemini.contents import Contents, said_in
from swink_gateway.protocols.gemini.schemas import camel, json_schema
from swink_gateway.protocols.options import answers

__all__ = ["WIRE_FORMAT", "read_gemini"]

WIRE_FORMAT = "gemini-generate-content"

STREAMED = "streamGenerateContent"

_SAME = {
    "temperature": "temperature",
    "topP": "top_p",
    "presencePenalty": "presence_penalty",
    "frequencyPenalty": "frequency_penalty",
}
_COUNTED = {"topK": "top_k", "maxOutputTokens": "max_tokens", "seed": "seed"}

MOST_ANSWERS = 8
"""The limit for the number of answers to one request.

Source: https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/inference
"""

LEVELS = {"MINIMAL": "minimal", "LOW": "low", "MEDIUM": "medium", "HIGH": "high"}

CHOICES = {"AUTO": "auto", "ANY": "required", "NONE": "none"}


class _Message(Fields):
    """A reader of an object in the JSON format of protocol buffers."""

    def __init__(self, data: Any, path: str = "", parent: Fields | None = None) -> None:
        if isinstance(data, dict):
            data = {camel(name): value for name, value in data.items()}
        super().__init__(data, path, parent)

    def take(self, name: str, kind: Any) -> Any:
        if kind == (int, float) and isinstance(text := self._data.get(name), str):
            with suppress(ValueError):  # protocol buffers accept numbers as strings
                if isfinite(number := float(text)):
                    self._data[name] = number
        if kind is list and isinstance(self._data.get(name), dict):
            self._data[name] = [self._data[name]]
        return super().take(name, kind)


def read_gemini(body: Any, path: Mapping[str, str]) -> Asked:
    """Parse a request. Raises BadRequest if it is invalid."""
    said: Fields = _Message(body)
    if (inner := said.object("generateContentRequest")) is not None:  # the form for countTokens
        said = inner
    said.text("model")  # the model is in the URL
    asked = Asked(path["model"], Context([]))
    asked.stream = path["method"] == STREAMED
    asked.said = {"array": path.get("alt") != "sse", "thoughts": False}
    contents = Contents(WIRE_FORMAT)
    for content in said.objects("contents"):
        contents.add(content)
    contents.finish()
    asked.context.messages = contents.messages
    asked.own_places += contents.own_places
    if (system := said.object("systemInstruction")) is not None:
        system.text("role")
        asked.context.system_prompt = said_in(system) or None
    _tools(said, asked)
    if (config := said.object("generationConfig")) is not None:
        _options(config, asked)
    _keep(said, asked)
    asked.dropped = said.dropped
    return asked


def _keep(said: Fields, asked: Asked, *under: str) -> None:
    """Store the fields of an object that are not read yet, for providers with the same API."""
    if not (rest := said.rest()):
        return
    asked.own_places += [said.place(name) for name in rest]
    kept = asked.own
    for name in under:
        kept = kept.setdefault(name, {})
    for name, value in rest.items():
        both = isinstance(value, dict) and isinstance(kept.get(name), dict)
        kept[name] = {**kept[name], **value} if both else value


def _tools(said: Fields, asked: Asked) -> None:
    for one in said.objects("tools"):
        for function in one.objects("functionDeclarations"):
            asked.context.tools.append(_tool(function))
        own = one.rest()
        asked.own_places += [one.place(name) for name in own]
        if own:
            asked.own.setdefault("tools", []).append(own)
    if (config := said.object("toolConfig")) is None:
        return
    if (calling := config.object("functionCallingConfig")) is not None:
        _tool_choice(calling, asked)
        _keep(calling, asked, "toolConfig", "functionCallingConfig")
    _keep(config, asked, "toolConfig")


def _tool_choice(calling: Fields, asked: Asked) -> None:
    mode = (calling.text("mode") or "AUTO").upper()
    names = calling.data("allowedFunctionNames")
    if mode == "ANY" and isinstance(names, list) and len(names) == 1:
        calling.take("allowedFunctionNames", list)
        asked.options["tool_choice"] = str(names[0])
        return
    if mode in CHOICES:
        asked.options["tool_choice"] = CHOICES[mode]
    else:
        config = asked.own.setdefault("toolConfig", {})
        config["functionCallingConfig"] = {"mode": mode}
        asked.own_places.append(calling.place("mode"))
    if isinstance(names, list) and names:
        config = asked.own.setdefault("toolConfig", {}).setdefault("functionCallingConfig", {})
        config["allowedFunctionNames"] = names
        asked.own_places.append(calling.place("allowedFunctionNames"))


def _tool(function: Fields) -> Tool:
    tool = Tool(function.required("name"), function.text("description") or "")
    plain = function.take("parametersJsonSchema", dict)
    typed = function.take("parameters", dict)
    if (schema := plain if plain is not None else json_schema(typed)) is not None:
        tool.parameters = schema
    return tool


def _options(config: Fields, asked: Asked) -> None:
    options: dict[str, Any] = {ours: config.number(name) for name, ours in _SAME.items()}
    options |= {ours: config.whole_number(name) for name, ours in _COUNTED.items()}
    stops = config.take("stopSequences", list)
    options["stop"] = tuple(map(str, stops)) if stops else None
    asked.answers = answers(config, "candidateCount", MOST_ANSWERS)
    if asked.answers > 1:
        asked.answers_field = "generationConfig.candidateCount"
        asked.own.setdefault("generationConfig", {})["candidateCount"] = asked.answers
    options["response_format"] = _response_format(config, asked)
    if (thinking := config.object("thinkingConfig")) is not None:
        options["thinking"] = _thinking(thinking, asked)
    asked.options |= {name: value for name, value in options.items() if value is not None}
    _keep(config, asked, "generationConfig")


def _response_format(config: Fields, asked: Asked) -> Any:
    kind = config.text("responseMimeType") or "text/plain"
    plain = config.take("responseJsonSchema", dict) or config.take("_responseJsonSchema", dict)
    typed = config.take("responseSchema", dict)
    if kind == "application/json":
        return plain or json_schema(typed) or "json"
    if kind != "text/plain":
        own = asked.own.setdefault("generationConfig", {})
        own["responseMimeType"] = kind
        if typed is not None:
            own["responseSchema"] = typed
        asked.own_places.append(config.place("responseMimeType"))
    return None


def _thinking(thinking: Fields, asked: Asked) -> str | int | None:
    """Return the thinking level or budget.

    The function also stores in `asked.said` whether the client wants thoughts, because the encoder
    shows or hides them accordingly.
    """
    shown = bool(thinking.flag("includeThoughts"))
    asked.said["thoughts"] = shown
    level, budget = thinking.text("thinkingLevel"), thinking.whole_number("thinkingBudget")
    _keep(thinking, asked, "generationConfig", "thinkingConfig")
    if level and level.upper() in LEVELS:
        return LEVELS[level.upper()]
    if budget is not None and budget >= 0:
        return budget or "off"
    own = asked.own.setdefault("generationConfig", {}).setdefault("thinkingConfig", {})
    own["includeThoughts"] = shown
    if level:
        own["thinkingLevel"] = level
        asked.own_places.append(thinking.place("thinkingLevel"))
    elif budget is not None:
        own["thinkingBudget"] = budget  # negative: the model decides, as it does by default
    return None
