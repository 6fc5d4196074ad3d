"""OpenAI's Chat Completions, and the APIs that have its shape.

Written from https://platform.openai.com/docs/api-reference/chat and, for reasoning in the open,
from the documents of the vendors in `_REASONING`.
"""

from __future__ import annotations

from typing import Any

from lab.vendor import jsons
from lab.vendor.answers import Call, Refusal, Step, Text, Thought
from lab.vendor.ask import Ask, Segment
from lab.vendor.bill import Usage
from lab.vendor.catalog import model_of
from lab.vendor.failures import Failure
from lab.vendor.protocols import openai_common
from lab.vendor.protocols.base import API, Encoder, Reply, Request, Route, event
from lab.vendor.protocols.reading import add_tool, invalid, limit_of, text_and_media, turn
from lab.vendor.state import State

__all__ = ["Chat", "ChatEncoder"]

_REASONING = {
    "deepseek": "reasoning_content",
    "xai": "reasoning_content",
    "vllm": "reasoning_content",
    "fireworks": "reasoning_content",
    "moonshot": "reasoning_content",
    "groq": "reasoning",
    "openrouter": "reasoning",
    "cerebras": "reasoning",
    "together": "reasoning",
}
"""The field in which a vendor shows reasoning; OpenAI shows none here."""

_STOPS = {
    "stop": "stop",
    "length": "length",
    "tools": "tool_calls",
    "filter": "content_filter",
    "sequence": "stop",
    "pause": "stop",
}
_FINGERPRINT = "fp_vendor0001"


class Chat(API):
    """`POST /v1/chat/completions`, and Azure's, whose path may name the deployment."""

    name = "chat"
    judged_as = "chat"
    provider = "openai"

    def __init__(self) -> None:
        self.routes = (
            Route("POST", r"/deployments/(?P<model>[^/]+)/chat/completions$"),
            Route("POST", r"/chat/completions$"),
        )

    def read(self, state: State, request: Request, body: dict[str, Any]) -> Ask:
        """Read what a request asks for. Raises Refused."""
        model = self.model(request, body)
        if not model:
            raise invalid("you must provide a model parameter")
        messages = body.get("messages")
        if not isinstance(messages, list):
            raise invalid("Missing required parameter: 'messages'.", "messages")
        row = model_of(request.provider, model)
        ask = Ask(request.provider, self.name, row, request.account)
        _read_tools(ask, body)
        _read_messages(state, ask, messages)
        ask.limit = limit_of([body.get("max_completion_tokens"), body.get("max_tokens")])
        stop = body.get("stop")
        ask.stops = [stop] if isinstance(stop, str) else list(stop or [])
        ask.count = body.get("n") or 1
        effort = body.get("reasoning_effort")
        ask.thinking = openai_common.thinks(row, effort)
        if jsons.obj(body.get("thinking")).get("type") == "disabled":
            ask.thinking = False
        ask.schema = _schema(jsons.obj(body.get("response_format")))
        ask.tier = openai_common.tier_of(body.get("service_tier"))
        ask.own = {
            "usage": jsons.obj(body.get("stream_options")).get("include_usage") is True,
            "padding": jsons.obj(body.get("stream_options")).get("include_obfuscation", True),
            "reasoning": _REASONING.get(request.provider),
            "logprobs": body.get("logprobs") is True,
        }
        return ask

    def model(self, request: Request, body: dict[str, Any]) -> str:
        """Return the model of the path, else of the body."""
        return request.found.get("model") or super().model(request, body)

    def encoder(self, state: State, ask: Ask) -> Encoder:
        """Return the encoder of an answer."""
        return ChatEncoder(state, ask)

    def failure(self, failure: Failure, request_id: str) -> Reply:
        """Return an error response."""
        return openai_common.failure(failure, request_id)

    def headers(self, state: State, request_id: str) -> dict[str, str]:
        """Return the headers of an answer."""
        return openai_common.headers(state, request_id)


class ChatEncoder(Encoder):
    """Writes chunks, or a completion."""

    def __init__(self, state: State, ask: Ask) -> None:
        super().__init__(state, ask)
        self.id = state.ids.make("chatcmpl-", 29)
        self.reasoning: str | None = ask.own["reasoning"]

    def id_of(self, part: Any) -> str:
        if isinstance(part, Call):
            return part.id or self.state.ids.make("call_")
        return ""

    def begin(self, usage: Usage) -> bytes:
        delta = {"role": "assistant", "content": "", "refusal": None}
        return b"".join(self.chunk(at, dict(delta)) for at in range(self.ask.count))

    def step(self, step: Step, usage: Usage) -> bytes:
        if step.kind == "end":
            return self.chunk(step.choice, {}, self.reason(step))
        part = step.part
        if isinstance(part, Call):
            return self._call(step, part)
        if step.kind != "delta":
            return b""
        if isinstance(part, Thought):
            if self.reasoning is None:
                return b""
            return self.chunk(step.choice, {self.reasoning: step.text})
        name = "refusal" if isinstance(part, Refusal) else "content"
        return self.chunk(step.choice, {name: step.text})

    def reason(self, step: Step) -> str:
        """Return the finish reason of a choice."""
        return _STOPS[step.stop]

    def finish(self, usage: Usage) -> bytes:
        last = b""
        if self.ask.own["usage"]:
            chunk = {**self.head(), "choices": [], "usage": self.usage(usage)}
            last = self._data(chunk)
        return last + b"data: [DONE]\n\n"

    def broken(self, failure: Failure) -> bytes:
        return event({"error": openai_common.error_body(failure)})

    def whole(self, usage: Usage) -> bytes:
        return jsons.dump(
            {
                "id": self.id,
                "object": "chat.completion",
                "created": self.created,
                "model": self.ask.model.id,
                "choices": [self.choice(at) for at in range(self.ask.count)],
                "usage": self.usage(usage),
                "service_tier": openai_common.shown_tier(self.ask.tier),
                "system_fingerprint": _FINGERPRINT,
            }
        )

    def _call(self, step: Step, call: Call) -> bytes:
        earlier = self.parts[step.choice].items()
        index = sum(1 for at, open in earlier if at < step.index and isinstance(open.part, Call))
        if step.kind == "open":
            id = self.open_part(step).id
            function = {"name": call.name, "arguments": ""}
            made = {"index": index, "id": id, "type": "function", "function": function}
        elif step.kind == "delta":
            made = {"index": index, "function": {"arguments": step.text}}
        else:
            return b""
        return self.chunk(step.choice, {"tool_calls": [made]})

    def head(self) -> dict[str, Any]:
        """Return the fields that every chunk has."""
        return {
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.ask.model.id,
            "service_tier": openai_common.shown_tier(self.ask.tier),
            "system_fingerprint": _FINGERPRINT,
        }

    def chunk(
        self,
        choice: int,
        delta: dict[str, Any],
        finish: str | None = None,
        usage: dict[str, Any] | None = None,
    ) -> bytes:
        """Return a chunk of one choice."""
        logprobs = None
        if self.ask.own["logprobs"] and delta.get("content"):
            logprobs = {"content": [_logprob(delta["content"])], "refusal": None}
        made = {"index": choice, "delta": delta, "logprobs": logprobs, "finish_reason": finish}
        chunk = {**self.head(), "choices": [made]}
        if usage is not None or self.ask.own["usage"]:
            chunk["usage"] = usage
        return self._data(chunk)

    def _data(self, chunk: dict[str, Any]) -> bytes:
        if self.ask.own["padding"]:
            chunk["obfuscation"] = self.state.ids.make("", 1 + len(chunk["choices"]) * 7)
        return event(chunk)

    def choice(self, at: int) -> dict[str, Any]:
        """Return one choice of a whole answer."""
        content: str | None = None
        refusal: str | None = None
        reasoning = ""
        calls = []
        for _, each in sorted(self.parts[at].items()):
            part = each.part
            if isinstance(part, Text):
                content = (content or "") + each.text
            elif isinstance(part, Refusal):
                refusal = (refusal or "") + each.text
            elif isinstance(part, Thought):
                reasoning += each.text
            else:
                function = {"name": part.name, "arguments": each.text}
                calls.append({"id": each.id, "type": "function", "function": function})
        message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": refusal}
        message["annotations"] = []
        if calls:
            message["tool_calls"] = calls
        if self.reasoning is not None and reasoning:
            message[self.reasoning] = reasoning
        end = self.stops[at]
        logprobs = None
        if self.ask.own["logprobs"] and content:
            logprobs = {"content": [_logprob(content)], "refusal": None}
        return {
            "index": at,
            "message": message,
            "logprobs": logprobs,
            "finish_reason": _STOPS[end.stop] if end else "stop",
        }

    def usage(self, usage: Usage) -> dict[str, Any]:
        """Return the usage fields of an answer."""
        prompt: dict[str, int] = {"cached_tokens": usage.cached, "audio_tokens": 0}
        if self.ask.model.write:
            prompt["cache_write_tokens"] = usage.written + usage.written_long
        made: dict[str, Any] = {
            "prompt_tokens": usage.prompt,
            "completion_tokens": usage.output,
            "total_tokens": usage.total,
            "prompt_tokens_details": prompt,
            "completion_tokens_details": {
                "reasoning_tokens": usage.reasoning,
                "audio_tokens": 0,
                "accepted_prediction_tokens": 0,
                "rejected_prediction_tokens": 0,
            },
        }
        if self.ask.provider == "deepseek":
            made["prompt_cache_hit_tokens"] = usage.cached
            made["prompt_cache_miss_tokens"] = usage.prompt - usage.cached
        return made


def _logprob(text: str) -> dict[str, Any]:
    return {"token": text, "logprob": -0.25, "bytes": list(text.encode()), "top_logprobs": []}


def _read_tools(ask: Ask, body: dict[str, Any]) -> None:
    for tool in jsons.objects(body.get("tools")):
        function = jsons.obj(tool.get("function"))
        if tool.get("type") == "function":
            add_tool(ask, jsons.text(function.get("name")), function.get("parameters"), function)
    choice = body.get("tool_choice")
    if choice in ("none", "auto"):
        ask.choice = choice
    elif choice == "required":
        ask.choice = "any"
    elif isinstance(choice, dict):
        named = jsons.obj(choice.get("function"))
        ask.choice = "tool"
        ask.tool = jsons.text(named.get("name"))
    ask.parallel = body.get("parallel_tool_calls") is not False


def _read_messages(state: State, ask: Ask, messages: list[Any]) -> None:
    waiting: list[str] = []
    for at, message in enumerate(messages):
        if not isinstance(message, dict):
            raise invalid(f"Invalid type for 'messages[{at}]': expected an object.", "messages")
        role = jsons.text(message.get("role"))
        openai_common.check_files(state, ask.account, message.get("content"))
        text, media = text_and_media(ask.model, message.get("content"))
        if role == "tool":
            id = jsons.text(message.get("tool_call_id"))
            if id not in waiting:
                raise invalid(
                    "Invalid parameter: messages with role 'tool' must be a response to a "
                    "preceeding message with 'tool_calls'.",
                    f"messages.[{at}].role",
                )
            waiting.remove(id)
        elif waiting:
            raise _unanswered(waiting)
        calls = jsons.objects(message.get("tool_calls"))
        waiting = waiting or [jsons.text(call.get("id")) for call in calls]
        if calls:
            text += jsons.compact([call.get("function") for call in calls])
        ask.segments.append(Segment(role, text, media))
        turn(ask, role, text)
    if waiting:
        raise _unanswered(waiting)


def _unanswered(ids: list[str]) -> Exception:
    return invalid(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to "
        f"each 'tool_call_id'. The following tool_call_ids did not have response messages: "
        f"{', '.join(ids)}",
        "messages",
    )


def _schema(response_format: dict[str, Any]) -> dict[str, Any] | None:
    if response_format.get("type") == "json_object":
        return {}
    if response_format.get("type") == "json_schema":
        return jsons.obj(jsons.obj(response_format.get("json_schema")).get("schema"))
    return None
