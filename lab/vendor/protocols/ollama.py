"""Ollama's chat, with the lists of models.

Written from https://github.com/ollama/ollama/blob/main/docs/api.md.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

from lab.vendor import jsons, tokens
from lab.vendor.answers import Call, Part, Step, Thought
from lab.vendor.ask import Ask, Segment
from lab.vendor.bill import Usage
from lab.vendor.catalog import MODELS, Model, model_of
from lab.vendor.clock import timestamp
from lab.vendor.failures import Failure, Refused
from lab.vendor.protocols.base import API, Encoder, Reply, Request, Route, as_body
from lab.vendor.protocols.reading import add_tool, invalid, text_and_media, turn
from lab.vendor.state import State

__all__ = ["Ollama"]

_STATUS = {
    "invalid": 400,
    "auth": 401,
    "permission": 403,
    "not_found": 404,
    "too_large": 413,
    "rate_limit": 429,
    "quota": 429,
    "overloaded": 503,
    "server": 500,
    "timeout": 504,
    "overflow": 400,
    "filter": 400,
    "signature": 400,
}
_MESSAGES = {
    "auth": "unauthorized",
    "overflow": "the input length exceeds the context length",
}
_VERSION = "0.14.2"
_SIZE = 2_500_000_000
_NANO = 1_000_000_000


class Ollama(API):
    """`POST /api/chat`."""

    name = "ollama"
    judged_as = "chat"
    provider = "ollama"

    def __init__(self) -> None:
        self.routes = (
            Route("POST", r"/api/chat$"),
            Route("GET", r"/api/tags$", _tags),
            Route("GET", r"/api/ps$", _running),
            Route("POST", r"/api/show$", _show),
            Route("GET", r"/api/version$", _version),
        )

    def is_streamed(self, request: Request, body: dict[str, Any]) -> bool:
        """Tell whether the answer is to be streamed: it is, unless the request declines."""
        return body.get("stream") is not False

    def read(self, state: State, request: Request, body: dict[str, Any]) -> Ask:
        """Read what a request asks for. Raises Refused."""
        model = jsons.text(body.get("model"))
        if not model:
            raise invalid("model is required")
        row = model_of(request.provider, model)
        ask = Ask(request.provider, self.name, row, request.account, caching="none")
        for tool in jsons.objects(body.get("tools")):
            function = jsons.obj(tool.get("function"))
            add_tool(ask, jsons.text(function.get("name")), function.get("parameters"), function)
        options = jsons.obj(body.get("options"))
        for message in jsons.objects(body.get("messages")):
            _read_message(ask, message)
        window = options.get("num_ctx")
        size = window if isinstance(window, int) else row.window
        ask.model = replace(row, window=size)
        if body.get("truncate") is not False:
            _cut(ask, size)
        limit = options.get("num_predict")
        ask.limit = limit if isinstance(limit, int) and limit >= 0 else None
        stop = options.get("stop")
        ask.stops = [stop] if isinstance(stop, str) else list(stop or [])
        ask.thinking = _thinks(row, body.get("think"))
        form = body.get("format")
        if form:
            ask.schema = form if isinstance(form, dict) else {}
        return ask

    def encoder(self, state: State, ask: Ask) -> Encoder:
        """Return the encoder of an answer."""
        return _OllamaEncoder(state, ask)

    def failure(self, failure: Failure, request_id: str) -> Reply:
        """Return an error response."""
        status = failure.status or _STATUS[failure.kind]
        message = _MESSAGES.get(failure.kind, failure.message)
        reply = Reply.json({"error": message}, status)
        if failure.retry_after is not None:
            reply.headers["retry-after"] = f"{failure.retry_after:g}"
        return reply

    def no_model(self, id: str) -> str:
        """Return the words for a model that is not there."""
        return f"model '{id}' not found"


class _OllamaEncoder(Encoder):
    """Writes lines of JSON, or one object."""

    media_type = "application/x-ndjson"

    def id_of(self, part: Part) -> str:
        if isinstance(part, Call):
            return part.id or self.state.ids.make("call_", 8).lower()
        return ""

    def begin(self, usage: Usage) -> bytes:
        return b""

    def step(self, step: Step, usage: Usage) -> bytes:
        part = step.part
        if isinstance(part, Call):
            if step.kind != "close":
                return b""
            call = self._call(step.index, self._calls_before(step.index))
            return self._line({"role": "assistant", "content": "", "tool_calls": [call]})
        if step.kind != "delta":
            return b""
        message = {"role": "assistant", "content": step.text}
        if isinstance(part, Thought):
            message = {"role": "assistant", "content": "", "thinking": step.text}
        return self._line(message)

    def finish(self, usage: Usage) -> bytes:
        return self._last({"role": "assistant", "content": ""}, usage)

    def broken(self, failure: Failure) -> bytes:
        return jsons.dump({"error": failure.message}) + b"\n"

    def whole(self, usage: Usage) -> bytes:
        message: dict[str, Any] = {"role": "assistant", "content": ""}
        calls: list[dict[str, Any]] = []
        for index, each in sorted(self.parts[0].items()):
            if isinstance(each.part, Call):
                calls.append(self._call(index, len(calls)))
            elif isinstance(each.part, Thought):
                message["thinking"] = message.get("thinking", "") + each.text
            else:
                message["content"] += each.text
        if calls:
            message["tool_calls"] = calls
        return self._last(message, usage)

    def whole_media_type(self) -> str:
        return "application/json; charset=utf-8"

    def _calls_before(self, index: int) -> int:
        earlier = self.parts[0].items()
        return sum(1 for at, each in earlier if at < index and isinstance(each.part, Call))

    def _call(self, index: int, number: int) -> dict[str, Any]:
        open = self.parts[0][index]
        assert isinstance(open.part, Call)
        arguments = jsons.arguments(open.text)
        function = {"index": number, "name": open.part.name, "arguments": arguments}
        return {"id": open.id, "function": function}

    def _head(self, message: dict[str, Any]) -> dict[str, Any]:
        created = timestamp(self.state.clock.now())
        return {"model": self.ask.model.id, "created_at": created, "message": message}

    def _line(self, message: dict[str, Any]) -> bytes:
        return jsons.dump({**self._head(message), "done": False}) + b"\n"

    def _last(self, message: dict[str, Any], usage: Usage) -> bytes:
        end = self.stops[0]
        elapsed = int((self.state.clock.now() - self.created) * _NANO)
        line = {
            **self._head(message),
            "done_reason": "length" if end and end.stop == "length" else "stop",
            "done": True,
            "total_duration": elapsed + 2_000_000,
            "load_duration": 1_000_000,
            "prompt_eval_count": usage.prompt,
            "prompt_eval_duration": 1_000_000,
            "eval_count": usage.output,
            "eval_duration": max(elapsed, 1),
        }
        return jsons.dump(line) + b"\n"


def _thinks(model: Model, think: Any) -> bool:
    if model.thinks == "never":
        return False
    return model.thinks == "always" or think is not False


def _read_message(ask: Ask, message: dict[str, Any]) -> None:
    role = jsons.text(message.get("role"))
    text, _ = text_and_media(ask.model, message.get("content"))
    media = len(message.get("images") or []) * tokens.IMAGE
    shown = text
    calls = jsons.objects(message.get("tool_calls"))
    if calls:
        shown += jsons.compact([call.get("function") for call in calls])
    shown = jsons.text(message.get("thinking")) + shown
    ask.segments.append(Segment(role, shown, media))
    turn(ask, role, text)


def _cut(ask: Ask, size: int) -> None:
    """Drop the oldest messages that do not fit, as the server does without a word."""
    while len(ask.segments) > 1 and ask.prompt_tokens > size:
        del ask.segments[0]


def _row(model: Model) -> dict[str, Any]:
    name = f"{model.id}:latest"
    details = {
        "parent_model": "",
        "format": "gguf",
        "family": model.id,
        "families": [model.id],
        "parameter_size": "4B",
        "quantization_level": "Q4_K_M",
    }
    return {
        "name": name,
        "model": name,
        "modified_at": "2026-11-01T00:00:00Z",
        "size": _SIZE,
        "digest": hashlib.sha256(model.id.encode()).hexdigest(),
        "details": details,
    }


def _local() -> list[Model]:
    return [model for model in MODELS.values() if model.vendor == "ollama"]


async def _tags(state: State, request: Request) -> Reply:
    return Reply.json({"models": [_row(model) for model in _local()]})


async def _running(state: State, request: Request) -> Reply:
    return Reply.json({"models": []})


async def _version(state: State, request: Request) -> Reply:
    return Reply.json({"version": _VERSION})


async def _show(state: State, request: Request) -> Reply:
    body = as_body(request)
    name = jsons.text(body.get("model") or body.get("name"))
    model = MODELS.get(name.split(":")[0])
    if model is None or model.vendor != "ollama":
        raise Refused(Failure("not_found", f"model '{name}' not found"))
    capabilities = ["completion", "tools"] + (["thinking"] if model.thinks != "never" else [])
    return Reply.json(
        {
            "modelfile": "",
            "parameters": "",
            "template": "{{ .Prompt }}",
            "details": _row(model)["details"],
            "model_info": {
                "general.architecture": model.id,
                f"{model.id}.context_length": model.window,
            },
            "capabilities": capabilities,
            "modified_at": "2026-11-01T00:00:00Z",
        }
    )
