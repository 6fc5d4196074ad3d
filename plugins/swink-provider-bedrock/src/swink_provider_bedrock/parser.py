"""Parse answers of ConverseStream: convert messages of the AWS event stream to swink's events.

Blocks are identified by their index. Text and reasoning start with their first delta; tool calls
and opaque blocks (server-side tools, their results, images) have a start event. The answer is
complete when `messageStop` arrives. The event `metadata` with the usage follows and ends the
stream.
"""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from swink_core import Failure, StopReason, ToolCallBlock
from swink_core.providers import EventWriter, MalformedFrame, arguments_object, parse_arguments
from swink_provider_anthropic import claude
from swink_provider_bedrock.errors import error_type
from swink_provider_bedrock.eventstream import HeaderValue, headers_and_payload
from swink_provider_bedrock.facts import note_facts, note_guardrail
from swink_provider_bedrock.wire import (
    BY_SERVER,
    Block,
    Delta,
    Facts,
    Payload,
    Reasoning,
    ToolUse,
    decode_answer,
    decode_payload,
    decode_text,
)

__all__ = ["ConverseParser"]

STOP_REASONS = {
    **claude.STOP_REASONS,
    "guardrail_intervened": StopReason.CONTENT_FILTER,
    "content_filtered": StopReason.CONTENT_FILTER,
}
"""https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_MessageStopEvent.html"""

FAILED = {
    "malformed_model_output": "the model's output could not be read",
    "malformed_tool_use": "the model's call of a tool could not be read",
}
"""The failure message for each stop reason after which the answer cannot be used."""

_COUNTED = frozenset(
    {
        "inputTokens", "outputTokens", "totalTokens", "cacheReadInputTokens",
        "cacheWriteInputTokens",
    }
)  # fmt: skip


class _Opaque:
    """A block that is collected and sent back to the API unchanged."""

    def __init__(self, kind: str, start: dict[str, Any]) -> None:
        self.kind = kind
        self._block = start
        self._input: list[str] = []
        self._results: list[Any] = []
        self._bytes: list[bytes] = []

    def merge(self, delta: Delta) -> None:
        if delta.toolUse is not None:
            self._input.append(_piece(delta.toolUse))
        if delta.toolResult is not None:
            self._results += delta.toolResult
        if delta.image is not None and delta.image.source is not None:
            self._bytes.append(_decoded(delta.image.source.bytes or ""))

    def whole(self) -> dict[str, Any]:
        if self.kind == "toolUse" and "input" not in self._block:
            text = "".join(self._input)
            arguments = parse_arguments(text)
            call = ToolCallBlock("", "", raw_arguments=text, state="invalid")
            self._block["input"] = arguments_object(call) if arguments is None else arguments
        if self._results:
            self._block["content"] = [*self._block.get("content", ()), *self._results]
        if self._bytes:
            self._block["source"] = {"bytes": base64.b64encode(b"".join(self._bytes)).decode()}
        return {self.kind: self._block}


class _Sealed:
    """Collects the signature or the redacted content of a reasoning block."""

    def __init__(self, index: Any) -> None:
        self.index = index
        self.signature: list[str] = []
        self.redacted: list[str] = []


class ConverseParser:
    """Parses one response."""

    def __init__(self) -> None:
        self._opaque: dict[Any, _Opaque] = {}
        self._sealed: _Sealed | None = None
        self._citations: dict[Any, list[Any]] = {}
        self._has_metadata = False
        # headers of the last message, if it was a text delta; equal headers are the same object
        self._text_headers: dict[str, HeaderValue] | None = None

    def feed(self, frame: bytes, out: EventWriter) -> None:
        """Report the content of a message to `out`; ignore events of unknown type."""
        headers, body = headers_and_payload(frame)
        if headers is self._text_headers:
            try:
                data = decode_text(body)
            except ValueError:  # other content or damage: use the full decoder, which reports it
                self._text_headers = None
            else:
                out.text(data.delta.text, data.contentBlockIndex)
                return
        match headers.get(":message-type"):
            case "event":
                self._text_headers = None
                self._event(headers, body, out)
            case "exception" | "error":
                self._failed(headers, body, out)

    def buffered(self, body: bytes, out: EventWriter) -> None:
        """Parse an answer that was not streamed."""
        answer = decode_answer(body)
        if answer.output is None or answer.output.message is None:
            return
        for index, block in enumerate(answer.output.message.content or ()):
            self._block(index, block, out)
        self._has_metadata = True
        self._metadata(answer, out)
        self._finish(answer.stopReason, out)

    def _event(self, headers: dict[str, HeaderValue], body: bytes, out: EventWriter) -> None:
        match headers.get(":event-type"):
            case "contentBlockDelta":
                data = decode_payload(body, out)
                if data.delta is not None:
                    self._delta(data.contentBlockIndex, data.delta, out)
                    is_text = data.delta.text is not None and self._sealed is None
                    self._text_headers = headers if is_text else None
            case "contentBlockStart":
                data = decode_payload(body, out)
                self._start(data.contentBlockIndex, data.start or {}, out)
            case "contentBlockStop":
                self._stop(decode_payload(body, out).contentBlockIndex, out)
            case "messageStop":
                data = decode_payload(body, out)
                note_facts(data, out)
                self._finish(data.stopReason, out)
            case "metadata":
                data = decode_payload(body, out)
                self._has_metadata = True
                self._metadata(data, out)
                if out.stop_reason is not None or out.failure is not None:
                    out.finish()

    # -- the end of the answer ---------------------------------------------------------------

    def _finish(self, word: str | None, out: EventWriter) -> None:
        self._unseal(out)
        for index in list(self._opaque):
            self._stop(index, out)
        if word in FAILED:
            out.failure = Failure("streaming", code=word, message=FAILED[word])
        else:
            reason = STOP_REASONS.get(word or "")
            if reason is None:
                out.notice("stop_reason", f"the answer stopped for an unknown reason: {word}")
            elif word == "model_context_window_exceeded":
                out.notice(
                    "stop_reason", "the context window was full before max_tokens was reached"
                )
            out.stop(reason or StopReason.STOP)
        if self._has_metadata:
            out.finish()

    def _metadata(self, data: Facts, out: EventWriter) -> None:
        note_facts(data, out)
        trace = data.trace
        if usage := data.usage:
            fresh, output = _number(usage.get("inputTokens")), _number(usage.get("outputTokens"))
            read = _number(usage.get("cacheReadInputTokens"))
            write = _number(usage.get("cacheWriteInputTokens"))
            out.usage(
                input=None if fresh is None else fresh + (read or 0) + (write or 0),
                output=output,
                cache_read=read,
                cache_write=write,
                extra={n: value for n, value in usage.items() if n not in _COUNTED and value}
                | _billed(usage, data.serviceTier),
            )
        if trace is not None and trace.guardrail is not None:
            note_guardrail(trace.guardrail, out)
        if trace is not None and trace.promptRouter is not None:
            out.response(model=trace.promptRouter.invokedModelId)

    def _failed(self, headers: dict[str, HeaderValue], body: bytes, out: EventWriter) -> None:
        data = _told(body, out)
        kind = error_type(str(headers.get(":exception-type") or headers.get(":error-code") or ""))
        text = str(data.message or headers.get(":error-message") or "")
        if data.originalMessage:
            text = f"{text} ({data.originalMessage})"
        if out.stop_reason is not None:  # the answer is complete
            out.notice("error_after_answer", f"{kind}: {text}")
            out.finish()
            return
        out.fail(Failure("streaming", type=kind or None, message=text or None))

    # -- blocks ------------------------------------------------------------------------------

    def _start(self, index: Any, start: dict[str, dict[str, Any] | None], out: EventWriter) -> None:
        self._unseal(out)
        for kind, block in start.items():
            if kind == "toolUse" and (tool := msgspec.convert(block, ToolUse)).type != BY_SERVER:
                out.tool_call(index, tool.toolUseId, tool.name)
            else:
                self._opaque[index] = _Opaque(kind, block or {})

    def _delta(self, index: Any, delta: Delta, out: EventWriter) -> None:
        if self._sealed is not None and self._sealed.index != index:
            self._unseal(out)
        if delta.text is not None:
            out.text(delta.text, index)
        elif (opaque := self._opaque.get(index)) is not None:
            opaque.merge(delta)
        elif delta.toolUse is not None:
            out.tool_call(index, arguments=_piece(delta.toolUse))
        elif delta.reasoningContent is not None:
            self._reasoning(index, delta.reasoningContent, out)
        elif delta.citation is not None:
            citations = self._citations.setdefault(index, [])
            citations.append(delta.citation)
            out.text("", index, {"citations": citations})

    def _reasoning(self, index: Any, delta: Reasoning, out: EventWriter) -> None:
        if delta.text:
            out.thinking(delta.text, index)
        if delta.signature:
            self._seal(index).signature.append(delta.signature)
        if delta.redactedContent:
            _decoded(delta.redactedContent)
            self._seal(index).redacted.append(delta.redactedContent)

    def _seal(self, index: Any) -> _Sealed:
        if self._sealed is None:
            self._sealed = _Sealed(index)
        return self._sealed

    def _unseal(self, out: EventWriter) -> None:
        """Write the signature or redacted content of a reasoning block once it is complete."""
        sealed, self._sealed = self._sealed, None
        if sealed is None:
            return
        if sealed.signature:
            out.thinking("", sealed.index, "".join(sealed.signature))
        if sealed.redacted:
            out.thinking("", sealed.index, _joined(sealed.redacted), redacted=True)

    def _stop(self, index: Any, out: EventWriter) -> None:
        self._unseal(out)
        if (block := self._opaque.pop(index, None)) is not None:
            out.extension(block.kind, block.whole())
        out.end(index)

    def _block(self, index: int, block: dict[str, Any], out: EventWriter) -> None:
        """Write a block of an answer that was not streamed."""
        known = msgspec.convert(block, Block)
        if known.text is not None:
            out.text(known.text, index)
        elif (reasoning := known.reasoningContent) is not None:
            self._reasoning(index, reasoning, out)
            if (words := reasoning.reasoningText) is not None:
                out.thinking(words.text or "", index, words.signature)
        elif (cited := known.citationsContent) is not None:
            text = "".join(words.text or "" for words in cited.content or ())
            out.text(text, index, {"citations": cited.citations or []})
        elif (tool := known.toolUse) is not None and tool.type != BY_SERVER:
            arguments = msgspec.json.encode(tool.input or {}).decode()
            out.tool_call(index, tool.toolUseId, tool.name, arguments)
        else:
            for kind in block:
                out.extension(kind, block)
        self._unseal(out)
        out.end(index)


def _joined(pieces: list[str]) -> str:
    """Join pieces of base64, each encoded separately; a single piece is unchanged."""
    if len(pieces) == 1:
        return pieces[0]
    return base64.b64encode(b"".join(map(_decoded, pieces))).decode()


def _piece(tool: ToolUse) -> str:
    if isinstance(tool.input, dict):
        raise MalformedFrame("a piece of a tool's input is an object")
    return tool.input or ""


def _told(body: bytes, out: EventWriter) -> Payload:
    """Decode the payload of an error; return an empty payload if decoding fails.

    In this case, only the error type in the message's headers is known.
    """
    try:
        return decode_payload(body, out)
    except (msgspec.DecodeError, MalformedFrame, UnicodeDecodeError):
        return Payload()


def _number(value: Any) -> int | None:
    return int(value) if isinstance(value, int | float) else None


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise MalformedFrame("bytes are not base64") from None


def _billed(usage: dict[str, Any], tier: Any) -> dict[str, Any]:
    """Return the service tier and the tokens in the one-hour cache, which affect the price."""
    rows = usage.get("cacheDetails")
    kept = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    long = sum(_number(row.get("inputTokens")) or 0 for row in kept if row.get("ttl") == "1h")
    named = tier.get("type") if isinstance(tier, dict) else None
    told = {"cache_write_long": long if kept else None, "service_tier": named}
    return {name: value for name, value in told.items() if value is not None}
