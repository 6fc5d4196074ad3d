"""Parse the output of `claude --output-format stream-json`: one JSON object per line.

The command runs an agent, which may call the model several times. Content arrives twice: as stream
events of the Messages API, and then as one complete `assistant` line per content block. Blocks that
were streamed are not repeated. If an answer of the model is cut off, the command repeats the
request, with or without streaming; the blocks of the first answer are discarded when the second one
has content. The agent's tool calls and their results are not tool calls of the caller; they become
extension blocks. Messages of sub-agents (`parent_tool_use_id`) are omitted. The answer is complete
when the line `result` arrives, which also contains the run's usage for each model. The cost is
computed from this usage, because the command guesses prices that it does not know. A `result` with
`is_error` is a failure, whatever its `subtype`. With `--json-schema`, the answer is the validated
input of the command's tool `StructuredOutput`. That input arrives with `result`; all other text of
the model becomes extension blocks. Source:
https://docs.claude.com/en/docs/claude-code/sdk/sdk-headless, and recorded runs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any

import msgspec

from swink_core import Cost, Failure, ModelInfo, StopReason, Usage
from swink_core.providers import (
    EventWriter,
    cost_of,
    text_field,
)

__all__ = ["StreamJsonParser"]


class _Delta(msgspec.Struct):
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None


class _Counts(msgspec.Struct):
    input_tokens: int | float | None = None
    output_tokens: int | float | None = None
    cache_read_input_tokens: int | float | None = None
    cache_creation_input_tokens: int | float | None = None


class _Usage(_Counts):
    cache_creation: dict[str, Any] | None = None
    service_tier: str | None = None
    speed: str | None = None
    inference_geo: str | None = None

    def terms(self) -> dict[str, Any]:
        """Return the reported data that affect the price."""
        told = {name: getattr(self, name) for name in ("service_tier", "speed", "inference_geo")}
        return {name: word for name, word in told.items() if word is not None}


class _Message(msgspec.Struct):
    id: str | None = None
    model: str | None = None
    content: list[dict[str, Any]] | str | None = None
    usage: _Counts | None = None


class _Event(msgspec.Struct):
    type: str = ""
    index: int | float | None = None
    delta: _Delta | None = None
    message: _Message | None = None
    usage: _Counts | None = None


class _ModelUsage(msgspec.Struct, rename="camel"):
    input_tokens: int | float | None = None
    output_tokens: int | float | None = None
    cache_read_input_tokens: int | float | None = None
    cache_creation_input_tokens: int | float | None = None
    web_search_requests: int | float | None = None


class _Line(msgspec.Struct):
    type: str = ""
    subtype: str | None = None
    event: _Event | None = None
    message: _Message | None = None
    parent_tool_use_id: str | None = None
    model: str | None = None
    session_id: str | None = None
    is_error: bool | None = None
    result: str | None = None
    stop_reason: str | None = None
    usage: _Usage | None = None
    model_usage: dict[str, _ModelUsage] | None = msgspec.field(default=None, name="modelUsage")
    total_cost_usd: int | float | None = None
    api_error_status: int | float | None = None
    attempt: int | float | None = None
    max_retries: int | float | None = None
    error: Any = None
    num_turns: int | float | None = None
    errors: list[Any] | None = None
    tools: list[Any] | None = None
    structured_output: Any = None


_decode = msgspec.json.Decoder(_Line).decode

STOPS = {
    None: StopReason.STOP,  # many versions omit it
    "end_turn": StopReason.STOP,
    "stop_sequence": StopReason.STOP,
    "tool_use": StopReason.STOP,  # a call of a built-in tool
    "max_tokens": StopReason.LENGTH,
    "model_context_window_exceeded": StopReason.LENGTH,
    "refusal": StopReason.CONTENT_FILTER,
    "pause_turn": StopReason.PAUSE,
}
"""Source: https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons"""


SYNTHETIC = "<synthetic>"
"""The model name in a message that the command created itself, such as an error."""


WHOLE = "whole"
"""The key of a block that was not streamed, with the number of the turn."""


SHAPED = "StructuredOutput"
"""The tool whose arguments are the answer; the command adds it for a call with an answer schema."""


class _Request(msgspec.Struct):
    """The token counts of one request to a model, as far as the stream reports them.

    `prompt` counts its uncached tokens, those read from the cache, and those written to it.
    """

    model: str
    prompt: list[float] = msgspec.field(default_factory=lambda: [0, 0, 0])
    output: float | None = None  # a line reports a preliminary count, which is not stored

    def measure(self, usage: _Counts) -> None:
        """Record the counts of the prompt; a count that is missing or zero keeps its last value."""
        self.prompt = [new or old for new, old in zip(_prompt(usage), self.prompt, strict=True)]


class _Spent(msgspec.Struct):
    """The token counts of all requests of a run to models with the same prices."""

    info: ModelInfo
    prompt: list[float] = msgspec.field(default_factory=lambda: [0, 0, 0])
    output: float = 0
    searches: float = 0

    def add(self, usage: _ModelUsage) -> None:
        self.prompt = [a + b for a, b in zip(self.prompt, _prompt(usage), strict=True)]
        self.output += usage.output_tokens or 0
        self.searches += usage.web_search_requests or 0


class _Streamed(msgspec.Struct):
    """A block of text or thinking that was streamed, and whose complete line has not arrived."""

    kind: str
    key: Hashable
    parts: list[str] = msgspec.field(default_factory=list)
    signature: str | None = None

    @property
    def text(self) -> str:
        return "".join(self.parts)


class StreamJsonParser:
    """Parses the output of one run; `info` returns the catalogue entry of a model."""

    def __init__(self, info: Callable[[str], ModelInfo | None]) -> None:
        self._info = info
        self._shaped = False
        self._turn = 0
        self._requests: dict[str, _Request] = {}
        self._message: str | None = None  # the id of the model's current answer
        self._is_streaming = False  # its `message_stop` has not arrived
        self._is_partial = False  # it may have been cut off within a block
        self._is_within = False  # a block of it has begun and has not ended
        self._is_lost = False  # it was cut off, and another one replaces it
        self._streamed: list[_Streamed] = []
        self._told: list[dict[str, Any]] = []  # complete blocks, which are written after a restart
        self._settled = 0  # how many of these are from earlier answers of the model

    def feed(self, frame: bytes, out: EventWriter) -> None:
        """Report the content of a line to `out`; ignore lines of unknown type."""
        line = _decode(frame)
        self._measure(line)
        if line.parent_tool_use_id is not None:
            return
        match line.type:
            case "stream_event" if line.event is not None:
                self._piece(line.event, out)
            case "assistant" if line.message is not None and line.message.model != SYNTHETIC:
                self._belong(line.message.id)
                out.response(model=line.message.model)
                self._whole(line.message, out)
            case "user" if line.message is not None and isinstance(line.message.content, list):
                # A tool may end while the model still writes a block of the same answer.
                if not self._is_within:
                    self._turn += 1
                    self._settle()
                for block in line.message.content:
                    if block.get("type") == "tool_result":
                        self._write(block, out)
                        self._told.append(block)
            case "system" if line.subtype == "init":
                out.response(line.session_id, line.model)
                self._shaped = SHAPED in (line.tools or ())
            case "system" if line.subtype == "api_retry":
                self._is_partial = True
                # The command itself ends the events of an answer that was cut off.
                self._is_lost |= bool(self._streamed) and not self._is_streaming
                tries = f"{line.attempt} of {line.max_retries}"
                out.notice("retry", f"the command retries, attempt {tries}: {line.error}")
            case "result":
                self._result(line, out)

    def _measure(self, line: _Line) -> None:
        """Record the size of a request, also of a sub-agent's."""
        message = line.message if line.event is None else line.event.message
        if message is not None and message.usage is not None and message.id and message.model:
            request = self._requests.setdefault(message.id, _Request(message.model))
            request.measure(message.usage)

    def _piece(self, event: _Event, out: EventWriter) -> None:
        delta, key = event.delta, (self._turn, event.index)
        if event.type == "message_start":
            self._begin(event.message.id if event.message else None)
        elif event.type == "message_delta" and event.usage is not None:
            if (request := self._requests.get(self._message or "")) is not None:
                request.measure(event.usage)
                request.output = event.usage.output_tokens
        elif event.type == "message_stop":
            self._is_streaming = self._is_partial = self._is_within = False
        elif event.type == "content_block_start":
            self._is_partial = self._is_within = True
        elif event.type == "content_block_stop":
            self._is_partial = self._is_within = False
            out.end(key)
        elif event.type == "content_block_delta" and delta is not None:
            if delta.text and not self._shaped:
                self._stream("text", delta.text, None, key, out)
            if delta.thinking or delta.signature:
                self._stream("thinking", delta.thinking or "", delta.signature, key, out)

    def _stream(
        self, kind: str, delta: str, signature: str | None, key: Hashable, out: EventWriter
    ) -> None:
        self._renew(out)
        self._is_partial = True
        if not self._streamed or (self._streamed[-1].kind, self._streamed[-1].key) != (kind, key):
            self._streamed.append(_Streamed(kind, key))
        block = self._streamed[-1]
        block.parts.append(delta)
        block.signature = signature or block.signature
        _add(kind, delta, signature, key, out)

    def _whole(self, message: _Message, out: EventWriter) -> None:
        """Write the blocks of a line, without the text that was streamed.

        If a block differs from what was streamed of it, the streamed part is discarded.
        """
        content = message.content
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        for block in content or ():
            self._renew(out)
            kind = str(block.get("type"))
            begun = next((each for each in self._streamed if each.kind == kind), None)
            if begun is not None:
                text, signature = _content(block)
                self._streamed.remove(begun)
                if text.startswith(begun.text):
                    if rest := text[len(begun.text) :]:
                        _add(kind, rest, signature, begun.key, out)
                    self._told.append(block)
                    continue
                self._restart(out)
            self._write(block, out)
            self._told.append(block)
        out.end((self._turn, WHOLE))

    def _write(self, block: dict[str, Any], out: EventWriter) -> None:
        kind = str(block.get("type"))
        if kind == "thinking" or (kind == "text" and not self._shaped):
            _add(kind, *_content(block), (self._turn, WHOLE), out)
        else:
            out.extension(kind, block)

    # -- requests that the command repeats ---------------------------------------------------

    def _begin(self, id: str | None) -> None:
        """Record the start of an answer of the model, and whether the one before was cut off."""
        cut = self._is_streaming and self._is_partial
        if not (cut or self._is_lost):
            self._settle()
        self._turn += 1
        self._message = id
        self._is_lost |= cut
        self._is_streaming, self._is_partial, self._is_within = True, False, False

    def _belong(self, id: str | None) -> None:
        """Record the answer to which a line belongs.

        A line of another answer than the streamed one is from a request without streaming. The
        command makes this request if it cannot read a stream to its end.
        """
        if id and self._message and id != self._message:
            if self._is_streaming:
                self._is_lost = True
            elif not self._is_lost:
                self._settle()
            self._message, self._is_streaming, self._is_within = id, False, False
        self._is_partial = False

    def _settle(self) -> None:
        """Keep all blocks so far, because the model's current answer is complete."""
        for each in self._streamed:
            self._told.append(
                {"type": each.kind, each.kind: each.text, "signature": each.signature}
            )
        self._streamed.clear()
        self._settled = len(self._told)
        self._is_streaming = self._is_partial = self._is_lost = False

    def _renew(self, out: EventWriter) -> None:
        """Discard the blocks of an answer that was cut off, if there are any."""
        if self._is_lost:
            self._is_lost = False
            if self._streamed or len(self._told) > self._settled:
                self._streamed.clear()
                del self._told[self._settled :]
                self._restart(out)

    def _restart(self, out: EventWriter) -> None:
        id, model = out.response_id, out.model
        out.restart("the command repeated a request whose answer was cut off")
        out.response(id, model)
        for block in self._told:
            self._write(block, out)
            out.end((self._turn, WHOLE))
        for each in self._streamed:
            _add(each.kind, each.text, each.signature, each.key, out)

    # -- the result --------------------------------------------------------------------------

    def _count(self, line: _Line, usage: _Usage, out: EventWriter) -> None:
        read = _number(usage.cache_read_input_tokens)
        wrote = _number(usage.cache_creation_input_tokens)
        fresh = _number(usage.input_tokens)
        extra = usage.terms()
        long = (usage.cache_creation or {}).get("ephemeral_1h_input_tokens")
        if isinstance(long, int | float):
            extra["cache_write_long"] = int(long)
        if line.num_turns is not None:
            extra["num_turns"] = line.num_turns
        cost = self._cost(line, usage)
        out.usage(
            None if fresh is None else fresh + (read or 0) + (wrote or 0),
            _number(usage.output_tokens),
            read,
            wrote,
            cost=cost,
            extra=extra,
        )
        if line.model_usage:  # otherwise the run is priced as one request to the call's model
            out.cost_parts = Cost(total=cost)

    def _result(self, line: _Line, out: EventWriter) -> None:
        failed = line.is_error or (line.subtype or "success") != "success"
        if not failed:
            self._renew(out)
        if line.usage is not None:
            self._count(line, line.usage, out)
        if failed:
            said = line.result or "; ".join(map(str, line.errors or ())) or line.subtype
            failure = Failure("streaming", code=line.subtype, message=said)
            failure.status = _number(line.api_error_status)
            out.fail(failure)
            return
        if line.structured_output is not None:
            out.text(msgspec.json.encode(line.structured_output).decode())
        elif line.result and (self._shaped or not out.has_answer):
            out.text(line.result)
        if (reason := STOPS.get(line.stop_reason)) is None:
            what = f"the answer stopped for an unknown reason: {line.stop_reason}"
            out.notice("stop_reason", what)
        out.stop(reason or StopReason.STOP)
        out.finish()

    def _cost(self, line: _Line, whole: _Usage) -> float | None:
        """Return the cost of all models in US dollars, or `None` if a price is unknown.

        If the token counts of a model are missing, return the cost that the command reports. Models
        of the same prices are counted together, because the command may name a model differently
        for the run and for a request. The price of a token written to the cache depends on its
        lifetime there, and the command reports how many tokens have each lifetime only for the
        whole run. Therefore the tokens of each model are divided between the lifetimes in the same
        proportion as those of the whole run.
        """
        spent: list[_Spent] = []
        for id, usage in (line.model_usage or {}).items():
            info = self._info(id)
            if usage.input_tokens is None and usage.output_tokens is None:
                return line.total_cost_usd
            if info is None or info.prices is None:
                return None
            same = next((each for each in spent if each.info.prices == info.prices), None)
            if same is None:
                spent.append(same := _Spent(info))
            same.add(usage)
        total = 0.0
        for each in spent:
            for used in self._shares(each, line, whole):
                cost = cost_of(used, each.info.prices)
                if cost is None or cost.total is None:
                    return None
                total += cost.total
        return total if spent else None

    def _shares(self, spent: _Spent, line: _Line, whole: _Usage) -> Iterator[Usage]:
        """Divide the tokens between requests, because a price may depend on the prompt's length.

        A request gets the tokens that the stream reports of it. Output that no request reports is
        divided equally between the requests whose output is unknown. The remaining tokens are
        divided equally between the turns of the run whose requests are unknown, at least one.
        """
        kept = (whole.cache_creation or {}).get("ephemeral_1h_input_tokens")
        written = whole.cache_creation_input_tokens
        long = kept / written if written and isinstance(kept, int | float) else 0.0
        rest, output = spent.prompt, spent.output
        rows: list[tuple[float, list[float], float | None]] = []
        known = [each for each in self._requests.values() if any(each.prompt)]
        for each in known:
            info = self._info(each.model)
            if info is not None and info.prices == spent.info.prices:
                part = [min(*pair) for pair in zip(each.prompt, rest, strict=True)]
                rest = [all - mine for all, mine in zip(rest, part, strict=True)]
                said = None if each.output is None else min(each.output, output)
                output -= said or 0
                rows.append((sum(each.prompt), part, said))
        silent = sum(said is None for *_, said in rows)
        turns = max(1, int(line.num_turns or 1) - len(known))
        rows.append((sum(rest) / turns, rest, 0 if silent else output))
        for number, (size, (fresh, read, wrote), said) in enumerate(rows, 1):
            yield Usage(
                int(size),
                0,
                int(read),
                int(wrote),
                extra={
                    **whole.terms(),
                    "billed_input": fresh + read + wrote,
                    "billed_output": output / silent if said is None else said,
                    "cache_write_long": round(wrote * long),
                    "searches": int(spent.searches) if number == len(rows) else 0,
                },
            )


def _prompt(usage: _Counts | _ModelUsage) -> tuple[float, float, float]:
    return (
        usage.input_tokens or 0,
        usage.cache_read_input_tokens or 0,
        usage.cache_creation_input_tokens or 0,
    )


def _content(block: dict[str, Any]) -> tuple[str, str | None]:
    """Return the text and the signature of a block of text or thinking."""
    kind = str(block.get("type"))
    signature = text_field(block.get("signature"), "signature")
    return text_field(block.get(kind), kind), signature or None


def _add(kind: str, text: str, signature: str | None, key: Hashable, out: EventWriter) -> None:
    if kind == "text":
        out.text(text, key)
    else:
        out.thinking(text, key, signature)


def _number(value: int | float | None) -> int | None:
    return None if value is None else int(value)
