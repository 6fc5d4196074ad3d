"""Cohere's chat, version 2, with the list of models.

Written from https://docs.cohere.com/reference/chat and /reference/chat-stream.
"""

from __future__ import annotations

from typing import Any

from lab.vendor import jsons, tokens
from lab.vendor.answers import Call, Part, Step, Thought
from lab.vendor.ask import Ask, Segment
from lab.vendor.bill import Usage
from lab.vendor.catalog import MODELS, model_of
from lab.vendor.failures import Failure
from lab.vendor.protocols.base import API, Encoder, Reply, Request, Route, named_event
from lab.vendor.protocols.reading import add_tool, invalid, limit_of, text_and_media, turn
from lab.vendor.state import State

__all__ = ["Cohere"]

_STATUS = {
    "invalid": 400,
    "auth": 401,
    "permission": 403,
    "not_found": 404,
    "too_large": 413,
    "rate_limit": 429,
    "quota": 402,
    "overloaded": 503,
    "server": 500,
    "timeout": 504,
    "overflow": 400,
    "filter": 422,
    "signature": 400,
}
_MESSAGES = {
    "auth": "invalid api token",
    "overflow": "too many tokens: size limit exceeded by 1024 tokens. Try using shorter inputs.",
}
_STOPS = {
    "stop": "COMPLETE",
    "length": "MAX_TOKENS",
    "tools": "TOOL_CALL",
    "filter": "ERROR_TOXIC",
    "sequence": "STOP_SEQUENCE",
    "pause": "COMPLETE",
}


class Cohere(API):
    """`POST /v2/chat`."""

    name = "cohere"
    judged_as = "v2"
    provider = "cohere"

    def __init__(self) -> None:
        self.routes = (Route("POST", r"/v2/chat$"), Route("GET", r"/models$", _models))

    def read(self, state: State, request: Request, body: dict[str, Any]) -> Ask:
        """Read what a request asks for. Raises Refused."""
        model = jsons.text(body.get("model"))
        if not model:
            raise invalid("invalid request: model is required.")
        row = model_of(request.provider, model)
        ask = Ask(request.provider, self.name, row, request.account, caching="none")
        for tool in jsons.objects(body.get("tools")):
            function = jsons.obj(tool.get("function"))
            add_tool(ask, jsons.text(function.get("name")), function.get("parameters"), function)
        choice = body.get("tool_choice")
        if choice == "REQUIRED":
            ask.choice = "any"
        elif choice == "NONE":
            ask.choice = "none"
        for document in body.get("documents") or []:
            ask.segments.append(Segment("document", jsons.compact(document)))
        _read_messages(ask, jsons.objects(body.get("messages")))
        ask.limit = limit_of([body.get("max_tokens")])
        ask.stops = list(body.get("stop_sequences") or [])
        thinking = jsons.obj(body.get("thinking")).get("type")
        ask.thinking = row.thinks != "never" and thinking != "disabled"
        form = jsons.obj(body.get("response_format"))
        if form.get("type") == "json_object":
            ask.schema = jsons.obj(form.get("json_schema"))
        return ask

    def encoder(self, state: State, ask: Ask) -> Encoder:
        """Return the encoder of an answer."""
        return _CohereEncoder(state, ask)

    def failure(self, failure: Failure, request_id: str) -> Reply:
        """Return an error response."""
        status = failure.status or _STATUS[failure.kind]
        message = _MESSAGES.get(failure.kind, failure.message)
        reply = Reply.json({"id": request_id, "message": message}, status)
        if failure.retry_after is not None:
            reply.headers["retry-after"] = f"{failure.retry_after:g}"
        return reply

    def no_model(self, id: str) -> str:
        """Return the words for a model that is not there."""
        return f"model '{id}' not found, make sure the correct model ID was used"


class _CohereEncoder(Encoder):
    """Writes the events of a message, or a message."""

    def __init__(self, state: State, ask: Ask) -> None:
        super().__init__(state, ask)
        self.id = state.ids.uuid()

    def id_of(self, part: Part) -> str:
        if isinstance(part, Call):
            return part.id or self.state.ids.make(f"{part.name}_", 12).lower()
        return ""

    def begin(self, usage: Usage) -> bytes:
        message = {
            "role": "assistant",
            "content": [],
            "tool_plan": "",
            "tool_calls": [],
            "citations": [],
        }
        data = {"type": "message-start", "id": self.id, "delta": {"message": message}}
        return named_event(data)

    def step(self, step: Step, usage: Usage) -> bytes:
        if step.kind == "end":
            return b""
        part = step.part
        assert part is not None
        if isinstance(part, Call):
            return self._call(step, part)
        if self._is_plan(step.index):
            if step.kind != "delta":
                return b""
            message = {"tool_plan": step.text}
            return named_event({"type": "tool-plan-delta", "delta": {"message": message}})
        name = "thinking" if isinstance(part, Thought) else "text"
        index = self._number(step.index)
        if step.kind == "open":
            content = {"type": name, name: ""}
            return _message_event("content-start", index, {"content": content})
        if step.kind == "delta":
            return _message_event("content-delta", index, {"content": {name: step.text}})
        return named_event({"type": "content-end", "index": index})

    def finish(self, usage: Usage) -> bytes:
        delta = {"finish_reason": self._stop(), "usage": self._usage(usage)}
        return named_event({"type": "message-end", "id": self.id, "delta": delta})

    def broken(self, failure: Failure) -> bytes:
        delta = {"error": failure.message, "finish_reason": "ERROR"}
        return named_event({"type": "message-end", "id": self.id, "delta": delta})

    def whole(self, usage: Usage) -> bytes:
        message: dict[str, Any] = {"role": "assistant"}
        for index, each in sorted(self.parts[0].items()):
            part = each.part
            if isinstance(part, Call):
                function = {"name": part.name, "arguments": each.text}
                call = {"id": each.id, "type": "function", "function": function}
                message.setdefault("tool_calls", []).append(call)
            elif self._is_plan(index):
                message["tool_plan"] = message.get("tool_plan", "") + each.text
            else:
                name = "thinking" if isinstance(part, Thought) else "text"
                message.setdefault("content", []).append({"type": name, name: each.text})
        return jsons.dump(
            {
                "id": self.id,
                "message": message,
                "finish_reason": self._stop(),
                "usage": self._usage(usage),
            }
        )

    def _call(self, step: Step, part: Call) -> bytes:
        index = self._number(step.index)
        if step.kind == "close":
            return named_event({"type": "tool-call-end", "index": index})
        if step.kind == "delta":
            calls: dict[str, Any] = {"function": {"arguments": step.text}}
            return _message_event("tool-call-delta", index, {"tool_calls": calls})
        function = {"name": part.name, "arguments": ""}
        calls = {"id": self.open_part(step).id, "type": "function", "function": function}
        return _message_event("tool-call-start", index, {"tool_calls": calls})

    def _is_plan(self, index: int) -> bool:
        """Tell whether a part is what the model says before it calls tools: its plan."""
        parts = self.answer.choices[0].parts
        calls = any(isinstance(part, Call) for part in parts)
        return calls and not isinstance(parts[index], (Call, Thought))

    def _number(self, index: int) -> int:
        """Return a part's index: calls and contents are counted apart."""
        parts = self.answer.choices[0].parts
        is_call = isinstance(parts[index], Call)
        return sum(
            1
            for at in range(index)
            if isinstance(parts[at], Call) == is_call and not self._is_plan(at)
        )

    def _stop(self) -> str:
        end = self.stops[0]
        return _STOPS[end.stop] if end else "COMPLETE"

    def _usage(self, usage: Usage) -> dict[str, Any]:
        figures = {"input_tokens": usage.prompt, "output_tokens": usage.output}
        return {"billed_units": figures, "tokens": dict(figures), "cached_tokens": usage.cached}


def _message_event(kind: str, index: int, message: dict[str, Any]) -> bytes:
    return named_event({"type": kind, "index": index, "delta": {"message": message}})


def _read_messages(ask: Ask, messages: list[dict[str, Any]]) -> None:
    known: set[str] = set()
    for message in messages:
        role = jsons.text(message.get("role"))
        text, media = text_and_media(ask.model, message.get("content"))
        shown = jsons.text(message.get("tool_plan")) + text
        calls = jsons.objects(message.get("tool_calls"))
        if calls:
            shown += jsons.compact([call.get("function") for call in calls])
            known.update(jsons.text(call.get("id")) for call in calls)
        id = message.get("tool_call_id")
        if role == "tool" and id not in known:
            raise invalid(f"invalid request: tool call id {id} not found in previous tool calls")
        ask.segments.append(Segment(role, shown, media, tokens.PER_MESSAGE))
        turn(ask, role, text)


async def _models(state: State, request: Request) -> Reply:
    rows = [
        {
            "name": model.id,
            "endpoints": ["chat"],
            "finetuned": False,
            "context_length": model.window,
            "tokenizer_url": "",
            "default_endpoints": [],
        }
        for model in MODELS.values()
        if model.vendor == "cohere"
    ]
    return Reply.json({"models": rows, "next_page_token": None})
