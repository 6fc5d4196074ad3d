"""Anthropic's Messages, with the counting of tokens and the list of models.

Written from https://platform.claude.com/docs/en/api/messages, and for thoughts from
/docs/en/build-with-claude/extended-thinking and /adaptive-thinking.
"""

from __future__ import annotations

from typing import Any, Literal

from lab.vendor import jsons, judging, tokens
from lab.vendor.answers import Call, Part, Step, Thought
from lab.vendor.ask import Ask, Segment
from lab.vendor.bill import Usage
from lab.vendor.catalog import MODELS, Model, model_of
from lab.vendor.failures import Failure, Refused
from lab.vendor.protocols import anthropic_common
from lab.vendor.protocols.base import API, Encoder, Reply, Request, Route, as_body, named_event
from lab.vendor.protocols.reading import add_tool, invalid, limit_of, text_and_media, turn
from lab.vendor.state import State

__all__ = ["Messages", "check_thought", "claude_thinks", "seal_of"]

_STOPS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tools": "tool_use",
    "filter": "refusal",
    "sequence": "stop_sequence",
    "pause": "pause_turn",
}
_FIELDS = frozenset(
    (
        "anthropic_beta", "anthropic_version", "billing_policy", "cache_control", "compaction",
        "container", "context_management", "diagnostics", "fallback_credit_token", "fallbacks",
        "inference_geo", "max_tokens", "mcp_servers", "messages", "metadata", "model",
        "output_config", "output_format", "service_tier", "speed", "stop_sequences", "stream",
        "system", "temperature", "thinking", "thread", "tool_choice", "tools", "top_k", "top_p",
        "user_profile_id", "workspace_id",
    )
)  # fmt: skip
"""The fields of a request; any other is refused."""

_CREATED = "2026-01-01T00:00:00Z"


class Messages(API):
    """`POST /v1/messages`, and Claude on Vertex: the path names the model, the body the version.

    Vertex: https://platform.claude.com/docs/en/build-with-claude/claude-on-vertex-ai
    """

    name = "messages"
    judged_as = "messages"
    provider = "anthropic"

    def __init__(self) -> None:
        self.routes = (
            Route("POST", r"/messages$"),
            Route(
                "POST", r"/publishers/anthropic/models/(?P<model>[^/:]+):(stream)?[rR]awPredict$"
            ),
            Route("POST", r"/messages/count_tokens$", self._count),
            Route("GET", r"/models$", _models),
            Route("GET", r"/models/(?P<model>[^/]+)$", _one_model),
        )

    def read(self, state: State, request: Request, body: dict[str, Any]) -> Ask:
        """Read what a request asks for. Raises Refused."""
        on_vertex = "model" in request.found
        if on_vertex and body.get("anthropic_version") is None:
            raise invalid("anthropic_version: Field required")
        if not on_vertex and "anthropic-version" not in request.headers:
            raise invalid("anthropic-version: header is required")
        for name in body:
            if name not in _FIELDS:
                raise invalid(f"{name}: Extra inputs are not permitted")
        model = self.model(request, body)
        given = {**body, "model": model or None}
        for name in ("model", "messages", "max_tokens"):
            if given.get(name) is None:
                raise invalid(f"{name}: Field required")
        row = model_of(request.provider, model)
        ask = Ask(request.provider, self.name, row, request.account, caching="marked")
        _read_tools(ask, body)
        _read_system(ask, body.get("system"))
        binding = jsons.obj(jsons.obj(body.get("thinking")).get("block_binding"))
        ask.own["drops"] = binding.get("prefix_mismatch_behavior") == "drop_block"
        _read_messages(state, ask, body["messages"])
        if jsons.obj(body.get("cache_control")).get("type") == "ephemeral" and ask.segments:
            last = ask.segments[-1]
            mark = _mark(body)
            ask.segments[-1] = Segment(last.role, last.text, last.media, last.overhead, mark)
        ask.limit = limit_of([body.get("max_tokens")])
        ask.stops = list(body.get("stop_sequences") or [])
        ask.thinking, ask.shown = claude_thinks(row, jsons.obj(body.get("thinking")))
        output = jsons.obj(body.get("output_config")).get("format") or body.get("output_format")
        if output is not None:
            ask.schema = jsons.obj(jsons.obj(output).get("schema"))
        ask.tier = "standard"
        return ask

    def encoder(self, state: State, ask: Ask) -> Encoder:
        """Return the encoder of an answer."""
        return _MessageEncoder(state, ask)

    def failure(self, failure: Failure, request_id: str) -> Reply:
        """Return an error response."""
        return anthropic_common.failure(failure, request_id)

    def headers(self, state: State, request_id: str) -> dict[str, str]:
        """Return the headers of an answer."""
        return anthropic_common.headers(state, request_id)

    def no_model(self, id: str) -> str:
        """Return the words for a model that there is not."""
        return f"model: {id}"

    def model(self, request: Request, body: dict[str, Any]) -> str:
        """Return the model of the path, else of the body."""
        return request.found.get("model") or super().model(request, body)

    async def _count(self, state: State, request: Request) -> Reply:
        body = {"max_tokens": 4096, **as_body(request)}
        model = jsons.text(body.get("model"))
        judgement = judging.refusal(request.provider, self.judged_as, model, body)
        if judgement is not None:
            raise invalid(judgement.message)
        ask = self.read(state, request, body)
        return Reply.json({"input_tokens": ask.prompt_tokens})


class _MessageEncoder(Encoder):
    """Writes the events of a message, or a message."""

    def __init__(self, state: State, ask: Ask) -> None:
        super().__init__(state, ask)
        self.id = state.ids.make("msg_01", 22)
        self.pinged = False

    def id_of(self, part: Part) -> str:
        if isinstance(part, Call):
            return part.id or self.state.ids.make("toolu_01", 22)
        return ""

    def begin(self, usage: Usage) -> bytes:
        message = self._message([], None, None, self._usage(usage, 1))
        return named_event({"type": "message_start", "message": message})

    def step(self, step: Step, usage: Usage) -> bytes:
        if step.kind == "end":
            return b""
        part = step.part
        assert part is not None
        if step.kind == "open":
            return self._open(step, part)
        if step.kind == "close":
            return self._close(step, part)
        if isinstance(part, Thought):
            if part.redacted or not self.ask.shown:
                return b""
            return _delta(step, {"type": "thinking_delta", "thinking": step.text})
        if isinstance(part, Call):
            return _delta(step, {"type": "input_json_delta", "partial_json": step.text})
        return _delta(step, {"type": "text_delta", "text": step.text})

    def finish(self, usage: Usage) -> bytes:
        reason, sequence = self._stop()
        details = _details(reason)
        delta = {"stop_reason": reason, "stop_sequence": sequence, "stop_details": details}
        figures = self._usage(usage, usage.output)
        for name in ("cache_creation", "service_tier", "inference_geo"):
            del figures[name]
        last = {"type": "message_delta", "delta": delta, "usage": figures}
        return named_event(last) + named_event({"type": "message_stop"})

    def broken(self, failure: Failure) -> bytes:
        return named_event({"type": "error", "error": anthropic_common.error_body(failure)})

    def whole(self, usage: Usage) -> bytes:
        blocks = [self._block(each.part, each.text, each.id) for each in self.parts[0].values()]
        reason, sequence = self._stop()
        return jsons.dump(self._message(blocks, reason, sequence, self._usage(usage, usage.output)))

    def _open(self, step: Step, part: Part) -> bytes:
        block: dict[str, Any] = {"type": "text", "text": ""}
        if isinstance(part, Thought):
            block = {"type": "thinking", "thinking": "", "signature": ""}
            if part.redacted:
                block = self._block(part, part.text, "")
        elif isinstance(part, Call):
            id = self.open_part(step).id
            block = {"type": "tool_use", "id": id, "name": part.name, "input": {}}
        start = {"type": "content_block_start", "index": step.index, "content_block": block}
        made = named_event(start)
        if not self.pinged:
            self.pinged = True
            made += named_event({"type": "ping"})
        if isinstance(part, Call):
            made += _delta(step, {"type": "input_json_delta", "partial_json": ""})
        return made

    def _close(self, step: Step, part: Part) -> bytes:
        made = b""
        if isinstance(part, Thought) and not part.redacted:
            signature = seal_of(self.state, self.ask, self.open_part(step).text)
            made = _delta(step, {"type": "signature_delta", "signature": signature})
        return made + named_event({"type": "content_block_stop", "index": step.index})

    def _block(self, part: Part, text: str, id: str) -> dict[str, Any]:
        if isinstance(part, Thought):
            signature = seal_of(self.state, self.ask, text)
            if part.redacted:
                return {"type": "redacted_thinking", "data": signature}
            shown = text if self.ask.shown else ""
            return {"type": "thinking", "thinking": shown, "signature": signature}
        if isinstance(part, Call):
            return {"type": "tool_use", "id": id, "name": part.name, "input": jsons.arguments(text)}
        return {"type": "text", "text": text}

    def _stop(self) -> tuple[str, str | None]:
        end = self.stops[0]
        return (_STOPS[end.stop], end.stop_sequence) if end else ("end_turn", None)

    def _message(
        self, content: list[Any], reason: str | None, sequence: str | None, usage: dict[str, Any]
    ) -> dict[str, Any]:
        return {
            "model": self.ask.model.id,
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "content": content,
            "stop_reason": reason,
            "stop_sequence": sequence,
            "stop_details": _details(reason),
            "usage": usage,
        }

    def _usage(self, usage: Usage, output: int) -> dict[str, Any]:
        made: dict[str, Any] = {
            "input_tokens": usage.uncached,
            "cache_creation_input_tokens": usage.written + usage.written_long,
            "cache_read_input_tokens": usage.cached,
            "cache_creation": {
                "ephemeral_5m_input_tokens": usage.written,
                "ephemeral_1h_input_tokens": usage.written_long,
            },
            "output_tokens": output,
            "service_tier": self.ask.tier,
            "inference_geo": "global",
        }
        if usage.reasoning:
            made["output_tokens_details"] = {"thinking_tokens": usage.reasoning}
        return made


def claude_thinks(model: Model, thinking: dict[str, Any]) -> tuple[bool, bool]:
    """Return whether a Claude model thinks, and whether the answer shows its thoughts."""
    kind = thinking.get("type")
    shown = thinking.get("display", "summarized" if model.shows else "omitted") == "summarized"
    if kind is None:
        return model.thinks in ("by default", "always"), shown
    return kind != "disabled", shown


def seal_of(state: State, ask: Ask, text: str) -> str:
    """Sign a thought: the signature covers the visible text."""
    prefix = ask.own.get("prefix")
    if prefix is None:
        prefix = ask.own["prefix"] = ask.prefix()
    return state.seals.make(ask.account, ask.model.id, text if ask.shown else "", prefix)


def check_thought(
    state: State, ask: Ask, text: str | None, signature: str, where: str, before: int
) -> bool:
    """Check a thought that comes back; return whether this model can read it.

    `text` is `None` for a redacted one, `before` the number of segments before its message.
    Raises Refused for a signature that was made elsewhere, for another account, for another text,
    or after another prefix by a model that checks that.
    """
    kind = "thinking" if text is not None else "redacted_thinking"
    seal = state.seals.open(signature)
    if seal is None or seal.account != ask.account:
        field = "signature" if text is not None else "data"
        message = f"{where}: Invalid `{field}` in `{kind}` block"
        raise Refused(Failure("signature", message))
    if text is not None and not seal.covers(text):
        message = (
            f"{where}: `thinking` or `redacted_thinking` blocks in the latest assistant message "
            "cannot be modified. These blocks must remain as they were in the original response."
        )
        raise Refused(Failure("signature", message))
    if ask.model.binds and seal.model == ask.model.id and seal.prefix != ask.prefix(before):
        if ask.own.get("drops"):
            return False
        message = (
            f"{where}: Invalid `signature` in `{kind}` block. The block is bound to a different "
            "conversation. Remove the block, or set "
            '`thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
        )
        raise Refused(Failure("signature", message))
    return seal.model == ask.model.id


def _delta(step: Step, delta: dict[str, Any]) -> bytes:
    return named_event({"type": "content_block_delta", "index": step.index, "delta": delta})


def _details(reason: str | None) -> dict[str, Any] | None:
    if reason != "refusal":
        return None
    return {"type": "refusal", "category": "cyber", "explanation": "The request was declined."}


def _mark(block: dict[str, Any]) -> Literal["short", "long"] | None:
    control = jsons.obj(block.get("cache_control"))
    if control.get("type") != "ephemeral":
        return None
    return "long" if control.get("ttl") == "1h" else "short"


def _read_tools(ask: Ask, body: dict[str, Any]) -> None:
    for tool in jsons.objects(body.get("tools")):
        definition = {name: value for name, value in tool.items() if name != "cache_control"}
        if tool.get("type", "custom") == "custom":
            name = jsons.text(tool.get("name"))
            add_tool(ask, name, tool.get("input_schema"), definition, _mark(tool))
        else:
            text = jsons.compact(definition)
            ask.segments.append(Segment("tool", text, 0, tokens.PER_TOOL, _mark(tool)))
    choice = jsons.obj(body.get("tool_choice"))
    kind = choice.get("type", "auto")
    if kind in ("auto", "none", "any", "tool"):
        ask.choice = kind
    ask.tool = jsons.text(choice.get("name"))
    ask.parallel = choice.get("disable_parallel_tool_use") is not True


def _read_system(ask: Ask, system: Any) -> None:
    if isinstance(system, str):
        ask.segments.append(Segment("system", system))
    for block in jsons.objects(system):
        text, media = text_and_media(ask.model, [block])
        ask.segments.append(Segment("system", text, media, cache=_mark(block)))


def _read_messages(state: State, ask: Ask, messages: Any) -> None:
    if not isinstance(messages, list):
        raise invalid("messages: Input should be a valid list")
    waiting: list[str] = []
    for at, message in enumerate(messages):
        role = jsons.text(jsons.obj(message).get("role"))
        content = jsons.obj(message).get("content")
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        blocks = jsons.objects(content)
        said = []
        if role == "user":  # assistant messages in a row are one turn
            _check_results(at, blocks, waiting)
            waiting = []
        before = len(ask.segments)
        for number, block in enumerate(blocks):
            where = f"messages.{at}.content.{number}"
            overhead = 0 if number else tokens.PER_MESSAGE
            text, media = _read_block(state, ask, block, where, before)
            if text is None:
                continue
            ask.segments.append(Segment(role, text, media, overhead, _mark(block)))
            if block.get("type") == "text":
                said.append(text)
            if block.get("type") == "tool_use":
                waiting.append(jsons.text(block.get("id")))
        turn(ask, role, "".join(said))
    if waiting:
        raise _unanswered(len(messages) - 1, waiting)


def _check_results(at: int, blocks: list[dict[str, Any]], waiting: list[str]) -> None:
    """Check that results answer the calls of the message before, one each."""
    results = [block for block in blocks if block.get("type") == "tool_result"]
    answered = [jsons.text(block.get("tool_use_id")) for block in results]
    for number, id in enumerate(answered):
        if id not in waiting:
            raise invalid(
                f"messages.{at}.content.{number}: unexpected `tool_use_id` found in `tool_result` "
                f"blocks: {id}. Each `tool_result` block must have a corresponding `tool_use` "
                "block in the previous message."
            )
    left = [id for id in waiting if id not in answered]
    if left:
        raise _unanswered(at - 1, left)


def _unanswered(at: int, ids: list[str]) -> Refused:
    return invalid(
        f"messages.{at}: `tool_use` ids were found without `tool_result` blocks immediately "
        f"after: {', '.join(ids)}. Each `tool_use` block must have a corresponding `tool_result` "
        "block in the next message."
    )


def _read_block(
    state: State, ask: Ask, block: dict[str, Any], where: str, before: int
) -> tuple[str | None, int]:
    """Return a block's text and media; no text where the model cannot read the block."""
    kind = block.get("type")
    if kind == "thinking":
        text = jsons.text(block.get("thinking"))
        signature = jsons.text(block.get("signature"))
        readable = check_thought(state, ask, text, signature, where, before)
        return (text if readable else None), 0
    if kind == "redacted_thinking":
        data = jsons.text(block.get("data"))
        return ("" if check_thought(state, ask, None, data, where, before) else None), 0
    if kind == "tool_use":
        return jsons.sorted_compact([block.get("name"), block.get("input")]), 0
    if kind == "tool_result":
        return text_and_media(ask.model, block.get("content"))
    source = jsons.obj(block.get("source"))
    if source.get("type") == "file":
        id = jsons.text(source.get("file_id"))
        if state.owned.get("anthropic file", id, ask.account) is None:
            raise Refused(Failure("not_found", f"File not found: {id}"))
    return text_and_media(ask.model, [block])


async def _models(state: State, request: Request) -> Reply:
    rows = [_row(model) for model in MODELS.values() if model.vendor == "anthropic"]
    return anthropic_common.page(request, rows, 1000)


async def _one_model(state: State, request: Request) -> Reply:
    model = MODELS.get(request.found["model"])
    if model is None or model.vendor != "anthropic":
        raise Refused(Failure("not_found", f"model: {request.found['model']}"))
    return Reply.json(_row(model))


def _row(model: Model) -> dict[str, Any]:
    return {
        "type": "model",
        "id": model.id,
        "display_name": model.id.replace("-", " ").title(),
        "created_at": _CREATED,
        "max_input_tokens": model.window,
        "max_tokens": model.most_output,
    }
