"""Google's generateContent and streamGenerateContent, with countTokens and the list of models.

Written from https://ai.google.dev/api/generate-content and, for thoughts and their signatures,
from https://ai.google.dev/gemini-api/docs/thinking and /thought-signatures.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote

from lab.vendor import jsons, tokens
from lab.vendor.answers import Call, Part, Step, Thought
from lab.vendor.ask import Ask, Segment
from lab.vendor.bill import Usage
from lab.vendor.catalog import MODELS, Model, model_of
from lab.vendor.failures import Failure, Refused
from lab.vendor.media import image_tokens
from lab.vendor.protocols import gemini_batches
from lab.vendor.protocols.base import API, Encoder, Reply, Request, Route, as_body
from lab.vendor.protocols.gemini_caches import cache_of
from lab.vendor.protocols.reading import add_tool, invalid, limit_of, turn
from lab.vendor.state import State

__all__ = ["Gemini", "failure_reply"]

_KINDS: dict[str, tuple[int, str]] = {
    "invalid": (400, "INVALID_ARGUMENT"),
    "auth": (400, "INVALID_ARGUMENT"),
    "permission": (403, "PERMISSION_DENIED"),
    "not_found": (404, "NOT_FOUND"),
    "too_large": (413, "INVALID_ARGUMENT"),
    "rate_limit": (429, "RESOURCE_EXHAUSTED"),
    "quota": (429, "RESOURCE_EXHAUSTED"),
    "overloaded": (503, "UNAVAILABLE"),
    "server": (500, "INTERNAL"),
    "timeout": (504, "DEADLINE_EXCEEDED"),
    "overflow": (400, "INVALID_ARGUMENT"),
    "filter": (400, "INVALID_ARGUMENT"),
    "signature": (400, "INVALID_ARGUMENT"),
}
_STOPS = {
    "stop": "STOP",
    "length": "MAX_TOKENS",
    "tools": "STOP",
    "filter": "SAFETY",
    "sequence": "STOP",
    "pause": "STOP",
}
_SKIPPED = {"skip_thought_signature_validator", "context_engineering_is_the_way_to_go"}
"""Texts that stand for a signature where a call was not made by this model."""

_SIGNED = re.compile(r"^gemini-([3-9]|\d\d)")
"""Models that want the signatures of calls back."""

_OPAQUE = {
    "args", "response", "parameters", "parametersJsonSchema", "responseSchema", "labels",
    "responseJsonSchema",
}  # fmt: skip
"""Fields whose contents are the user's."""

_MEDIA = {"audio": tokens.AUDIO, "video": tokens.DOCUMENT}


class Gemini(API):
    """`POST /v1beta/models/{model}:generateContent` and `:streamGenerateContent`."""

    name = "generateContent"
    judged_as = "generateContent"
    provider = "gemini"

    def __init__(self) -> None:
        self.routes = (
            Route("POST", r"/models/(?P<model>[^/:]+):generateContent$"),
            Route("POST", r"/models/(?P<model>[^/:]+):(?P<stream>streamGenerateContent)$"),
            Route("POST", r"/models/(?P<model>[^/:]+):countTokens$", self._count),
            Route("GET", r"/models$", _models),
            Route("GET", r"/models/(?P<model>[^/:]+)$", _one_model),
        )

    def model(self, request: Request, body: dict[str, Any]) -> str:
        """Return the id of the model, which the path names."""
        return unquote(request.found["model"])

    def is_streamed(self, request: Request, body: dict[str, Any]) -> bool:
        """Tell whether the answer is to be streamed, which the path says."""
        return request.found.get("stream") is not None

    def normal(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return a body with names in lower camel case: the API takes both spellings."""
        return jsons.obj(_camel(body))

    def read(self, state: State, request: Request, body: dict[str, Any]) -> Ask:
        """Read what a request asks for. Raises Refused."""
        row = model_of(request.provider, self.model(request, body))
        ask = Ask(request.provider, self.name, row, request.account)
        config = jsons.obj(body.get("generationConfig"))
        if body.get("cachedContent") is not None:
            cache = cache_of(state, request.account, str(body["cachedContent"]))
            ask.segments += cache.ask.segments
            ask.tools += cache.ask.tools
            ask.cached = cache.ask.prompt_tokens
        for part in jsons.objects(jsons.obj(body.get("systemInstruction")).get("parts")):
            ask.segments.append(Segment("system", jsons.text(part.get("text"))))
        _read_tools(ask, body)
        _read_contents(state, ask, body.get("contents"))
        ask.limit = limit_of([config.get("maxOutputTokens")])
        ask.stops = list(config.get("stopSequences") or [])
        ask.count = config.get("candidateCount") or 1
        thinking = jsons.obj(config.get("thinkingConfig"))
        ask.thinking = _thinks(row, thinking)
        ask.shown = thinking.get("includeThoughts") is True
        if config.get("responseMimeType") == "application/json":
            ask.schema = jsons.obj(config.get("responseJsonSchema") or config.get("responseSchema"))
        ask.own = {"sse": request.query.get("alt") == "sse"}
        return ask

    def encoder(self, state: State, ask: Ask) -> Encoder:
        """Return the encoder of an answer."""
        return _GeminiEncoder(state, ask)

    def failure(self, failure: Failure, request_id: str) -> Reply:
        """Return an error response."""
        return failure_reply(failure)

    def no_model(self, id: str) -> str:
        """Return the words for a model that there is not."""
        return (
            f"models/{id} is not found for API version v1beta, or is not supported for "
            "generateContent. Call ListModels to see the list of available models and their "
            "supported methods."
        )

    async def _count(self, state: State, request: Request) -> Reply:
        body = self.normal(as_body(request))
        ask = self.read(state, request, jsons.obj(body.get("generateContentRequest")) or body)
        size = ask.prompt_tokens
        details = [{"modality": "TEXT", "tokenCount": size}]
        return Reply.json({"totalTokens": size, "promptTokensDetails": details})


class _GeminiEncoder(Encoder):
    """Writes chunks, as SSE or as one JSON array, or a response."""

    def __init__(self, state: State, ask: Ask) -> None:
        super().__init__(state, ask)
        self.id = state.ids.make("", 22)
        self.media_type = "text/event-stream" if ask.own["sse"] else "application/json"
        self.begun = False
        self.is_signed = ask.thinking and _SIGNED.match(ask.model.id) is not None

    def id_of(self, part: Part) -> str:
        if isinstance(part, Call):
            return part.id or self.state.ids.make("", 8).lower()
        return ""

    def begin(self, usage: Usage) -> bytes:
        return b""

    def step(self, step: Step, usage: Usage) -> bytes:
        if step.kind == "end":
            part: dict[str, Any] = {"text": ""}
            if self.is_signed and not self._has_call(step.choice):
                part["thoughtSignature"] = self._seal("")
            return self._chunk(step.choice, [part], usage, _STOPS[step.stop])
        if isinstance(step.part, Call):
            if step.kind != "close":
                return b""
            return self._chunk(step.choice, [self._call(step.choice, step.index)], usage)
        if step.kind != "delta":
            return b""
        if isinstance(step.part, Thought):
            if not self.ask.shown or step.part.redacted:
                return b""
            return self._chunk(step.choice, [{"text": step.text, "thought": True}], usage)
        return self._chunk(step.choice, [{"text": step.text}], usage)

    def finish(self, usage: Usage) -> bytes:
        return b"" if self.ask.own["sse"] else b"]"

    def broken(self, failure: Failure) -> bytes:
        error = jsons.dump({"error": _error(failure)})
        if self.ask.own["sse"]:
            return error + b"\r\n"  # no frame: servers end the body with bare JSON
        return (b",\r\n" if self.begun else b"[") + error + b"]"

    def whole(self, usage: Usage) -> bytes:
        candidates = []
        for choice in range(self.ask.count):
            parts = self._parts(choice)
            end = self.stops[choice]
            candidates.append(
                {
                    "content": {"parts": parts, "role": "model"},
                    "finishReason": _STOPS[end.stop] if end else "STOP",
                    "index": choice,
                }
            )
        return jsons.dump(self._response(candidates, usage))

    def _parts(self, choice: int) -> list[dict[str, Any]]:
        made = []
        for index, each in sorted(self.parts[choice].items()):
            if isinstance(each.part, Call):
                made.append(self._call(choice, index))
            elif not isinstance(each.part, Thought):
                made.append({"text": each.text})
            elif self.ask.shown and not each.part.redacted:
                made.append({"text": each.text, "thought": True})
        if self.is_signed and not self._has_call(choice):
            if not made or made[-1].get("thought"):
                made.append({"text": ""})
            made[-1]["thoughtSignature"] = self._seal("")
        return made

    def _has_call(self, choice: int) -> bool:
        return any(isinstance(each.part, Call) for each in self.parts[choice].values())

    def _call(self, choice: int, index: int) -> dict[str, Any]:
        open = self.parts[choice][index]
        assert isinstance(open.part, Call)
        call: dict[str, Any] = {"name": open.part.name, "args": jsons.arguments(open.text)}
        if _SIGNED.match(self.ask.model.id):
            call["id"] = open.id
        made: dict[str, Any] = {"functionCall": call}
        earlier = [at for at, each in self.parts[choice].items() if isinstance(each.part, Call)]
        if self.is_signed and index == min(earlier):
            made["thoughtSignature"] = self._seal(open.part.name)
        return made

    def _seal(self, text: str) -> str:
        return self.state.seals.make(self.ask.account, self.ask.model.id, text)

    def _chunk(
        self, choice: int, parts: list[dict[str, Any]], usage: Usage, finish: str | None = None
    ) -> bytes:
        candidate: dict[str, Any] = {"content": {"parts": parts, "role": "model"}}
        if finish is not None:
            candidate["finishReason"] = finish
        candidate["index"] = choice
        data = jsons.dump(self._response([candidate], usage))
        if self.ask.own["sse"]:
            return b"data: " + data + b"\r\n\r\n"
        opening = b",\r\n" if self.begun else b"["
        self.begun = True
        return opening + data

    def _response(self, candidates: list[dict[str, Any]], usage: Usage) -> dict[str, Any]:
        return {
            "candidates": candidates,
            "usageMetadata": _usage(usage),
            "modelVersion": self.ask.model.id,
            "responseId": self.id,
        }


def failure_reply(failure: Failure) -> Reply:
    """Return an error response."""
    status = failure.status or _KINDS[failure.kind][0]
    return Reply.json({"error": _error(failure)}, status)


def _error(failure: Failure) -> dict[str, Any]:
    status, name = _KINDS[failure.kind]
    message = failure.message
    details: list[dict[str, Any]] = []
    if failure.kind == "auth":
        message = "API key not valid. Please pass a valid API key."
        details.append(
            {
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": "API_KEY_INVALID",
                "domain": "googleapis.com",
                "metadata": {"service": "generativelanguage.googleapis.com"},
            }
        )
    if failure.kind == "overflow":
        found = [int(number) for number in re.findall(r"\d+", message)] or [1_048_577, 1_048_576]
        message = (
            f"The input token count ({found[0]}) exceeds the maximum number of tokens allowed "
            f"({found[-1]})."
        )
    if failure.retry_after is not None:
        delay = f"{failure.retry_after:g}s"
        details.append({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay})
    error: dict[str, Any] = {
        "code": failure.status or status,
        "message": message,
        "status": name,
    }
    if details:
        error["details"] = details
    return error


def _usage(usage: Usage) -> dict[str, Any]:
    made: dict[str, Any] = {"promptTokenCount": usage.prompt}
    said = usage.output - usage.reasoning
    if said:
        made["candidatesTokenCount"] = said
    made["totalTokenCount"] = usage.total
    if usage.cached:
        made["cachedContentTokenCount"] = usage.cached
    made["promptTokensDetails"] = [{"modality": "TEXT", "tokenCount": usage.prompt}]
    if usage.reasoning:
        made["thoughtsTokenCount"] = usage.reasoning
    return made


def _thinks(model: Model, thinking: dict[str, Any]) -> bool:
    if model.thinks in ("never", "always"):
        return model.thinks == "always"
    budget = thinking.get("thinkingBudget")
    level = str(thinking.get("thinkingLevel", "")).lower()
    if model.thinks == "on request":
        return bool(budget) or level not in ("", "minimal")
    return budget != 0 and level != "minimal"


def _read_tools(ask: Ask, body: dict[str, Any]) -> None:
    for tool in jsons.objects(body.get("tools")):
        functions = jsons.objects(tool.get("functionDeclarations"))
        for function in functions:
            schema = function.get("parametersJsonSchema") or function.get("parameters")
            add_tool(ask, jsons.text(function.get("name")), schema, function)
        if not functions:
            ask.segments.append(Segment("tool", jsons.compact(tool)))
    config = jsons.obj(jsons.obj(body.get("toolConfig")).get("functionCallingConfig"))
    mode = str(config.get("mode", "AUTO")).upper()
    names = config.get("allowedFunctionNames") or []
    if mode == "NONE":
        ask.choice = "none"
    elif mode == "ANY":
        ask.choice = "tool" if len(names) == 1 else "any"
        ask.tool = str(names[0]) if len(names) == 1 else ""


def _read_contents(state: State, ask: Ask, contents: Any) -> None:
    turns = [contents] if isinstance(contents, dict) else jsons.objects(contents)
    texts = [
        at
        for at, each in enumerate(turns)
        if each.get("role", "user") == "user"
        and any(part.get("text") for part in jsons.objects(each.get("parts")))
    ]
    running = texts[-1] if texts else 0
    for at, content in enumerate(turns):
        role = "assistant" if content.get("role") == "model" else "user"
        first_call = True
        said = []
        for number, part in enumerate(jsons.objects(content.get("parts"))):
            where = f"contents[{at}].parts[{number}]"
            is_call = isinstance(part.get("functionCall"), dict)
            _check_signature(state, ask, part)
            wanted = is_call and first_call and at > running and _SIGNED.match(ask.model.id)
            if wanted and not part.get("thoughtSignature"):
                name = part["functionCall"].get("name")
                raise invalid(
                    "Function call is missing a thought_signature in functionCall parts. This is "
                    "required for tools to work correctly, and missing thought_signature may lead "
                    f"to degraded model performance. Additional data, function call "
                    f"`default_api:{name}` , position {number + 1}. ({where})"
                )
            first_call = first_call and not is_call
            text, media = _read_part(state, ask, part)
            if isinstance(part.get("text"), str) and not part.get("thought"):
                said.append(text)
            overhead = 0 if number else tokens.PER_MESSAGE
            ask.segments.append(Segment(role, text, media, overhead))
        turn(ask, role, "".join(said))


def _check_signature(state: State, ask: Ask, part: dict[str, Any]) -> None:
    signature = part.get("thoughtSignature")
    if not isinstance(signature, str) or signature in _SKIPPED:
        return
    seal = state.seals.open(signature.replace("-", "+").replace("_", "/"))
    call = jsons.obj(part.get("functionCall"))
    covered = jsons.text(call.get("name"))
    if seal is None or seal.account != ask.account or not seal.covers(covered):
        raise Refused(Failure("signature", "Corrupted thought signature."))


def _read_part(state: State, ask: Ask, part: dict[str, Any]) -> tuple[str, int]:
    if isinstance(part.get("text"), str):
        return part["text"], 0
    inline = jsons.obj(part.get("inlineData"))
    file = jsons.obj(part.get("fileData"))
    if inline or file:
        uri = jsons.text(file.get("fileUri"))
        name = re.search(r"(files/[^/?]+)", uri)
        if name:
            gemini_batches.owned_file(state, ask.account, name.group(1))
        kind = jsons.text((inline or file).get("mimeType")).partition("/")[0]
        if kind == "image":
            return "", image_tokens(ask.model, jsons.text(inline.get("data")))
        return "", _MEDIA.get(kind, tokens.DOCUMENT)
    shown = {name: value for name, value in part.items() if name != "thoughtSignature"}
    return jsons.compact(shown), 0


def _camel(value: Any) -> Any:
    """Return JSON data with the names of fields in lower camel case; data of users stays."""
    if isinstance(value, list):
        return [_camel(each) for each in value]
    if not isinstance(value, dict):
        return value
    made = {}
    for name, each in value.items():
        first, *others = name.split("_")
        camel = first + "".join(word.capitalize() for word in others) if first else name
        made[camel] = each if camel in _OPAQUE else _camel(each)
    return made


async def _models(state: State, request: Request) -> Reply:
    rows = [_row(model) for model in MODELS.values() if model.vendor == "gemini"]
    size = int(request.query.get("pageSize", "50"))
    start = int(request.query.get("pageToken", "0") or 0)
    page: dict[str, Any] = {"models": rows[start : start + size]}
    if start + size < len(rows):
        page["nextPageToken"] = str(start + size)
    return Reply.json(page)


async def _one_model(state: State, request: Request) -> Reply:
    model = MODELS.get(request.found["model"])
    if model is None or model.vendor != "gemini":
        message = f"models/{request.found['model']} is not found for API version v1beta."
        raise Refused(Failure("not_found", message))
    return Reply.json(_row(model))


def _row(model: Model) -> dict[str, Any]:
    return {
        "name": f"models/{model.id}",
        "version": "001",
        "displayName": model.id.replace("-", " ").title(),
        "description": "A model of the simulated vendor.",
        "inputTokenLimit": model.window,
        "outputTokenLimit": model.most_output,
        "supportedGenerationMethods": ["generateContent", "countTokens", "batchGenerateContent"],
        "temperature": 1,
        "topP": 0.95,
        "topK": 64,
        "maxTemperature": 2,
        "thinking": model.thinks != "never",
    }
