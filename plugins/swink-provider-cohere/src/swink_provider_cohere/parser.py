"""Parse answers of `/v2/chat`: https://docs.cohere.com/docs/streaming.

The type of an event states its content: a piece of a content block, a piece of the plan before tool
calls, a piece of a tool call, a whole citation, or the end of the answer. One struct covers all
events; every field may be absent or null and numbers may be floats. The frame `[DONE]` may follow
the end of the answer.
"""

from __future__ import annotations

from typing import Any

import msgspec

from swink_core import Failure, StopReason
from swink_core.providers import EventWriter

__all__ = ["PLAN", "ChatParser"]

PLAN = "tool_plan"
"""The metadata key that marks a thinking block as the plan before tool calls."""


class _Content(msgspec.Struct, gc=False):
    text: str | None = None
    thinking: str | None = None


class _Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | None = None


class _ToolCall(msgspec.Struct, gc=False):
    id: str | None = None
    function: _Function | None = None


class _Message(msgspec.Struct, gc=False):
    """A message, or a piece of a message.

    In an event, `content`, `tool_calls` and `citations` are single objects. In an unstreamed
    answer, they are lists.
    """

    content: _Content | list[_Content] | None = None
    tool_plan: str | None = None
    tool_calls: _ToolCall | list[_ToolCall] | None = None
    citations: dict[str, Any] | list[dict[str, Any]] | None = None


class _Units(msgspec.Struct, gc=False):
    input_tokens: int | float | None = None
    output_tokens: int | float | None = None
    search_units: int | float | None = None


class _Usage(msgspec.Struct, gc=False):
    billed_units: _Units | None = None
    tokens: _Units | None = None
    cached_tokens: int | float | None = None


class _End(msgspec.Struct, gc=False):
    """The end of an answer, with the finish reason and the usage.

    This struct is the `delta` of the last event, or a part of an unstreamed answer.
    """

    id: str | None = None
    message: _Message | None = None
    finish_reason: str | None = None
    usage: _Usage | None = None
    error: str | None = None


class _Event(msgspec.Struct, gc=False):
    type: str | None = None
    id: str | None = None
    index: int | float | None = None
    delta: _End | None = None
    logprobs: dict[str, Any] | None = None
    message: str | None = None


class _Whole(_End):
    logprobs: list[Any] | None = None


_decode = msgspec.json.Decoder(_Event).decode
_decode_whole = msgspec.json.Decoder(_Whole).decode

_STOP_REASONS = {
    "COMPLETE": StopReason.STOP,
    "STOP_SEQUENCE": StopReason.STOP,
    "MAX_TOKENS": StopReason.LENGTH,
    "TOOL_CALL": StopReason.TOOL_USE,
}
_FAILED = ("ERROR", "TIMEOUT")
_NOTHING = _Message()


class ChatParser:
    """Parses one answer, streamed or whole."""

    def __init__(self) -> None:
        self._logprobs: list[Any] = []
        self._citations: dict[str, list[Any]] = {}
        self._run: tuple[str, Any] | None = None  # the block to which metadata is added

    def feed(self, frame: bytes, out: EventWriter) -> None:
        """Report the content of an event to `out`; ignore events of unknown type."""
        event = _decode(frame)
        end = event.delta or _End()
        message = end.message or _NOTHING
        match event.type:
            case "content-delta" | "content-start":
                for content in _listed(message.content):
                    self._content(content, event.index, out)
                if event.logprobs:
                    self._logprobs.append(event.logprobs)
                    self._note(out, "text", logprobs=self._logprobs)
            case "tool-plan-delta":
                self._plan(message.tool_plan, out)
            case "tool-call-start" | "tool-call-delta":
                for call in _listed(message.tool_calls):
                    self._tool_call(call, event.index, out)
            case "tool-call-end":
                out.end(("call", event.index))
            case "citation-start":
                self._cite(_listed(message.citations), out)
            case "message-start":
                out.response(event.id)
            case "message-end":
                self._finish(end, out)
            case None if event.message:  # the body of an HTTP error, sent in a stream
                out.fail(Failure("streaming", message=event.message))

    def buffered(self, body: bytes, out: EventWriter) -> None:
        """Parse an answer that was not streamed."""
        whole = _decode_whole(body)
        message = whole.message or _NOTHING
        out.response(whole.id)
        self._plan(message.tool_plan, out)
        for index, content in enumerate(_listed(message.content)):
            self._content(content, index, out)
        if whole.logprobs:
            self._note(out, "text", logprobs=whole.logprobs)
        self._cite(_listed(message.citations), out)
        for index, call in enumerate(_listed(message.tool_calls)):
            self._tool_call(call, index, out)
        if whole.finish_reason is not None:
            self._finish(whole, out)

    def _content(self, content: _Content, index: Any, out: EventWriter) -> None:
        if content.thinking:
            self._run = ("thinking", index)
            out.thinking(content.thinking, self._run)
        if content.text:
            self._run = ("text", index)
            out.text(content.text, self._run)

    def _plan(self, plan: str | None, out: EventWriter) -> None:
        if plan:
            self._run = ("thinking", PLAN)
            out.thinking(plan, self._run, metadata={PLAN: True})

    def _tool_call(self, call: _ToolCall, index: Any, out: EventWriter) -> None:
        self._run = None
        function = call.function or _Function()
        out.tool_call(("call", index), call.id, function.name, function.arguments)

    def _cite(self, citations: list[dict[str, Any]], out: EventWriter) -> None:
        """Add citations to the open block.

        Each citation contains the index of the content block in which it appears.
        """
        if citations:
            kind = self._run[0] if self._run else ""
            known = self._citations.setdefault(kind, [])
            known.extend(citations)
            self._note(out, kind, citations=known)

    def _note(self, out: EventWriter, kind: str, **facts: Any) -> None:
        if self._run is None or self._run[0] != kind:
            out.response(metadata=facts)
        elif kind == "text":
            out.text("", self._run, facts)
        else:
            out.thinking("", self._run, metadata=facts)

    def _finish(self, end: _End, out: EventWriter) -> None:
        if end.usage is not None:
            _count(end.usage, out)
        if end.error or end.finish_reason in _FAILED:
            words = end.error or f"the provider stopped the answer early: {end.finish_reason}"
            out.fail(Failure("streaming", code=end.finish_reason, message=words))
            return
        reason = _STOP_REASONS.get(end.finish_reason or "")
        if reason is None:
            what = f"the answer stopped for an unknown reason: {end.finish_reason}"
            out.notice("stop_reason", what)
        if end.finish_reason == "STOP_SEQUENCE":
            out.response(metadata={"stop_sequence": True})  # the API does not say which one
        out.stop(reason or StopReason.STOP)
        out.finish()


def _count(usage: _Usage, out: EventWriter) -> None:
    """Report the token counts, and the billed token counts, which are lower.

    The billed counts are not simply the token counts without the cached tokens. `cached_tokens` is
    not reported as `cache_read`, because the cost calculation would then subtract the cached tokens
    again.
    """
    tokens, billed = usage.tokens or _Units(), usage.billed_units or _Units()
    more = {
        "billed_input": billed.input_tokens,
        "billed_output": billed.output_tokens,
        "search_units": billed.search_units,
        "cached_tokens": usage.cached_tokens,
    }
    counted, made = _number(tokens.input_tokens), _number(tokens.output_tokens)
    out.usage(
        input=_number(billed.input_tokens) if counted is None else counted,
        output=_number(billed.output_tokens) if made is None else made,
        extra={name: int(number) for name, number in more.items() if number is not None},
    )


def _number(value: int | float | None) -> int | None:
    return None if value is None else int(value)


def _listed(value: Any) -> Any:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]
