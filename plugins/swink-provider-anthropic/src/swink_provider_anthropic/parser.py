"""Parse answers of the Messages API: convert frames to events.

An answer is a list of content blocks, identified by their index. Text, thinking and tool calls
become events immediately. Every other block (server-side tools and their results, MCP, compaction,
fallback, unknown types) is opaque: the parser merges its deltas into the block and reports it as an
extension, which the converter sends back in its original position.

A block ends at its `content_block_stop`, or when the next block begins, whichever comes first. Only
`message_stop` completes the answer; the `message_delta` before it contains the stop reason.
"""

from __future__ import annotations

from typing import Any

import msgspec

from swink_core import Failure, StopReason
from swink_core.providers import EventWriter, parse_arguments
from swink_provider_anthropic import claude
from swink_provider_anthropic.wire import (
    Block,
    Delta,
    ErrorBody,
    Frame,
    Message,
    decode_frame,
    decode_message,
)

__all__ = ["CONTAINER", "MessagesParser"]

CONTAINER = "container"
"""The kind of the extension that stores the code-execution container waiting for tool results."""

_COUNTED = frozenset(
    {"input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"}
)

_KEPT = _COUNTED | {"cache_creation", "iterations"}
"""Fields of the usage that keep their value until a later frame contains a new value."""

_UNDERSTOOD = ("text", "thinking", "redacted_thinking", "tool_use")


class _Opaque:
    """A block that becomes an extension.

    The strings in a delta are appended to the fields of the block.
    """

    def __init__(self, block: dict[str, Any]) -> None:
        self._block = block
        self._strings: dict[str, list[str]] = {}

    def merge(self, delta: dict[str, Any]) -> None:
        for name, value in delta.items():
            if name == "citation":
                if not isinstance(self._block.get("citations"), list):
                    self._block["citations"] = []
                self._block["citations"].append(value)
            elif isinstance(value, str) and name != "type":
                self._strings.setdefault(name, []).append(value)
            elif name != "type":
                self._block[name] = value

    def whole(self) -> dict[str, Any]:
        for name, parts in self._strings.items():
            text = "".join(parts)
            if name != "partial_json":
                begun = self._block.get(name)
                self._block[name] = (begun if isinstance(begun, str) else "") + text
            elif text:  # input that cannot be parsed stays text
                arguments = parse_arguments(text)
                self._block["input"] = text if arguments is None else arguments
        return self._block


class MessagesParser:
    """Parses one response."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._message: Message | None = None
        self._begun = False
        self._opaque: dict[Any, _Opaque] = {}
        self._inputs: dict[Any, str] = {}
        self._citations: dict[Any, list[Any]] = {}
        self._usage: dict[str, Any] = {}
        self._calls_from_server = False
        self._end = Delta()

    def feed(self, frame: bytes, out: EventWriter) -> None:
        """Report the content of a frame to `out`; ignore frames of unknown type."""
        data = decode_frame(frame)
        match data.type:
            case "content_block_delta":
                self._delta(data, frame, out)
            case "content_block_start" if data.content_block is not None:
                self._start(data.index, data.content_block, out)
            case "content_block_stop":
                self._stop(data.index, out)
            case "message_start" if data.message is not None:
                self._begin(data.message, out)
            case "message_delta":
                self._settle(out)
                self._count(data.usage, out)
                _note(out, context_management=data.context_management)
                self._ending(data.delta or Delta())
            case "message_stop":
                self._finish(out)
            case "error":
                _fail(data.error, out)
            case None if data.error is not None:  # an error of a server in front of the API
                _fail(data.error, out)

    def buffered(self, body: bytes, out: EventWriter) -> None:
        """Parse an answer that was not streamed."""
        message = decode_message(body)
        if message.error is not None:
            _fail(message.error, out)
        elif message.content is not None:
            self._begin(message, out)
            self._finish(out)

    # -- the answer --------------------------------------------------------------------------

    def _begin(self, message: Message, out: EventWriter) -> None:
        """Record the start of an answer; a second start discards the content received so far.

        Some gateways send the start frame twice for one answer. Others lose an answer in the middle
        and send another one in the same body. An incomplete answer cannot be sent back in the next
        request, so it is discarded.
        """
        if self._message is not None and self._message.id == message.id:
            return
        if self._begun:
            out.restart("the provider started its answer again")
            self._clear()
        self._message = message
        out.response(message.id, message.model)
        self._count(message.usage, out)
        _note(out, context_management=message.context_management)
        for index, block in enumerate(message.content or ()):
            self._start(index, block, out)
            self._stop(index, out)
        self._ending(
            Delta(
                stop_reason=message.stop_reason,
                stop_sequence=message.stop_sequence,
                stop_details=message.stop_details,
                container=message.container,
            )
        )

    def _ending(self, delta: Delta) -> None:
        end = self._end
        end.stop_reason = delta.stop_reason or end.stop_reason
        end.stop_sequence = delta.stop_sequence or end.stop_sequence
        end.stop_details = delta.stop_details or end.stop_details
        end.container = delta.container or end.container

    def _finish(self, out: EventWriter) -> None:
        self._settle(out)
        word, details = self._end.stop_reason, self._end.stop_details or {}
        reason = claude.STOP_REASONS.get(word or "")
        if reason is None:
            out.notice("stop_reason", f"the answer stopped for an unknown reason: {word}")
        elif word == "model_context_window_exceeded":
            out.notice("stop_reason", "the context window was full before max_tokens was reached")
        elif reason is StopReason.CONTENT_FILTER:
            facts = [details.get("category"), details.get("explanation")]
            out.notice("refusal", ": ".join(str(fact) for fact in facts if fact))
        if word == "stop_sequence" and self._end.stop_sequence:
            _note(out, stop_sequence=self._end.stop_sequence)
        _note(out, stop_details=self._end.stop_details, container=self._end.container)
        if self._end.container and (reason is StopReason.PAUSE or self._calls_from_server):
            out.extension(CONTAINER, self._end.container)
        out.stop(reason or StopReason.STOP)
        out.finish()

    def _count(self, usage: dict[str, Any] | None, out: EventWriter) -> None:
        """Record the token counts, which are cumulative; a missing count keeps its last value.

        The tokens of a compaction are billed, but the API includes them only in `iterations`. The
        iterations of another model (`advisor_message`) are not added, because the model's prices do
        not apply to them. Source: `BetaUsage.iterations` of Anthropic's SDK for Python, and
        https://platform.claude.com/docs/en/build-with-claude/compaction.
        """
        if not usage:
            return
        told = {name: value for name, value in usage.items() if value is not None}
        self._usage.update((name, told[name]) for name in _KEPT & told.keys())
        seen = self._usage
        parts = [seen, *_compactions(seen.get("iterations"))]
        fresh, output = _sum(parts, "input_tokens"), _sum(parts, "output_tokens")
        read = _sum(parts, "cache_read_input_tokens")
        write = _sum(parts, "cache_creation_input_tokens")
        details = told.get("output_tokens_details")
        caches = [_object(part.get("cache_creation")) for part in parts]
        tools = _object(told.get("server_tool_use"))
        billed = {
            "cache_write_long": _sum(caches, "ephemeral_1h_input_tokens"),
            "searches": _number(tools.get("web_search_requests")),
        }
        out.usage(
            input=None if fresh is None else fresh + (read or 0) + (write or 0),
            output=output,
            cache_read=read,
            cache_write=write,
            reasoning=_number(details.get("thinking_tokens"))
            if isinstance(details, dict)
            else None,
            extra={name: value for name, value in told.items() if name not in _COUNTED}
            | {name: count for name, count in billed.items() if count is not None},
        )

    # -- blocks ------------------------------------------------------------------------------

    def _start(self, index: Any, block: dict[str, Any], out: EventWriter) -> None:
        kind = block.get("type")
        said = msgspec.convert(block, Block) if kind in _UNDERSTOOD else Block()
        self._settle(out)
        self._begun = True
        match kind:
            case "text":
                citations = self._citations[index] = said.citations or []
                known = {"citations": citations} if citations else None
                out.text(said.text or "", index, known)
            case "thinking":
                out.thinking(said.thinking or "", index, said.signature)
            case "redacted_thinking":
                out.thinking("", index, said.data, redacted=True)
            case "tool_use":
                self._tool_use(index, block, said, out)
            case _:
                self._opaque[index] = _Opaque(block)

    def _tool_use(self, index: Any, block: dict[str, Any], said: Block, out: EventWriter) -> None:
        if given := block.get("input"):  # complete, unless deltas follow
            self._inputs[index] = msgspec.json.encode(given).decode()
        rest = {k: v for k, v in block.items() if k not in ("type", "id", "name", "input")}
        caller = rest.get("caller")
        if isinstance(caller, dict) and caller.get("type") != "direct":
            self._calls_from_server = True
        out.tool_call(index, said.id, said.name, metadata=rest or None)

    def _delta(self, data: Frame, frame: bytes, out: EventWriter) -> None:
        delta, index = data.delta, data.index
        if delta is None:
            return
        if index in self._opaque:
            self._opaque[index].merge(msgspec.json.decode(frame)["delta"])
            return
        match delta.type:
            case "text_delta":
                out.text(delta.text or "", index)
            case "input_json_delta":
                if delta.partial_json:
                    self._inputs.pop(index, None)
                    out.tool_call(index, arguments=delta.partial_json)
            case "thinking_delta":
                out.thinking(delta.thinking or "", index)
            case "signature_delta":
                out.thinking("", index, delta.signature)
            case "citations_delta":
                citations = self._citations.setdefault(index, [])
                citations.append(delta.citation)
                out.text("", index, {"citations": citations})

    def _stop(self, index: Any, out: EventWriter) -> None:
        if (block := self._opaque.pop(index, None)) is not None:
            data = block.whole()
            out.extension(str(data.get("type")), data)
        elif (arguments := self._inputs.pop(index, None)) is not None:
            out.tool_call(index, arguments=arguments)
        out.end(index)

    def _settle(self, out: EventWriter) -> None:
        for index in [*self._opaque, *self._inputs]:
            self._stop(index, out)


def _note(out: EventWriter, **facts: Any) -> None:
    out.response(metadata={name: fact for name, fact in facts.items() if fact})


def _fail(error: ErrorBody | None, out: EventWriter) -> None:
    error = error or ErrorBody()
    out.fail(Failure("streaming", type=error.type, message=error.message))


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _compactions(iterations: Any) -> list[dict[str, Any]]:
    """Return the usage of each compaction in the iterations of an answer."""
    rows = iterations if isinstance(iterations, list) else ()
    return [row for row in rows if _object(row).get("type") == "compaction"]


def _sum(parts: list[dict[str, Any]], name: str) -> int | None:
    """Return the sum of the count `name` in all parts; `None` if no part contains it."""
    counts = [count for part in parts if (count := _number(part.get(name))) is not None]
    return sum(counts) if counts else None


def _number(value: Any) -> int | None:
    return int(value) if isinstance(value, int | float) else None
