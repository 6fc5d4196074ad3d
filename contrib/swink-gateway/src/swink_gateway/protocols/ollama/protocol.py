"""Ollama's API: `/api/chat`, and `/api/generate`, whose answers have no message object.

https://github.com/ollama/ollama/blob/main/docs/api.md. Each line is a JSON object; the last line
has `done`, the reason why the answer ended, and the token counts. Calls are sent complete, with
arguments as objects. The protocol has no field for opaque provider data or for parts of the token
counts (such as cached tokens), and an error is only a text. In a stream, the log
probabilities of a block follow the block in a separate line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from swink_core import (
    AssistantMessage,
    AssistantMessageEvent,
    Done,
    Error,
    Retry,
    StopReason,
    TextBlock,
    TextDelta,
    TextEnd,
    ThinkingBlock,
    ThinkingDelta,
    ThinkingEnd,
    ToolCallBlock,
)
from swink_core.providers import arguments_object, is_synthetic_id
from swink_gateway.protocols import Asked, Facts, Known, Reply
from swink_gateway.protocols.encoding import as_vendors_end, cost_data, model_of, started_anew
from swink_gateway.protocols.failures import headers_of, standard_status, text_of
from swink_gateway.protocols.frames import encode
from swink_gateway.protocols.ollama.requests import WIRE_FORMAT, read_chat, read_generate
from swink_gateway.protocols.whole_calls import WholeCalls

__all__ = ["OllamaGenerateProtocol", "OllamaProtocol"]

NDJSON = "application/x-ndjson"

DONE_REASONS = {StopReason.TOOL_USE: "stop"}
"""The stop reasons that Ollama names differently.

Other stop reasons are sent under swink's names, so that a refusal does not look like a normal end.
"""

LOGPROBS = "logprobs"

DURATIONS = ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration")


class OllamaProtocol:
    """Reads requests that Ollama's clients send to `/api/chat`, and answers them."""

    name = "ollama"
    wire_format = WIRE_FORMAT

    def read(self, body: Any, path: Mapping[str, str], headers: Mapping[str, str]) -> Asked:
        """Parse a request."""
        return read_chat(body)

    def encoder(self, asked: Asked, facts: Facts) -> OllamaEncoder:
        """Create an encoder for the answer to a request."""
        return OllamaEncoder(asked, facts)

    def failure(self, error: Error, status: int) -> Reply:
        """Return the response for a failure before the answer, with this HTTP status."""
        body = encode({"error": text_of(error)})
        return Reply(standard_status(status), body, headers_of(error))


class OllamaGenerateProtocol(OllamaProtocol):
    """Reads requests to `/api/generate`, with one prompt as text, and answers them with a text."""

    def read(self, body: Any, path: Mapping[str, str], headers: Mapping[str, str]) -> Asked:
        """Parse a request."""
        return read_generate(body)

    def encoder(self, asked: Asked, facts: Facts) -> OllamaEncoder:
        """Create an encoder for the answer to a request."""
        return OllamaEncoder(asked, facts, wrapped=False)


class OllamaEncoder:
    """Writes lines of JSON. With `wrapped`, text and thinking are fields of a message object."""

    content_type = NDJSON
    has_statuses = True

    def __init__(self, asked: Asked, facts: Facts, wrapped: bool = True) -> None:
        self.ended = False
        self._idle = {} if asked.idle is None else {"done_reason": asked.idle}
        self._wrapped = wrapped
        self._facts = facts
        self._created = datetime.fromtimestamp(facts.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self._begun = False
        self._calls = WholeCalls()
        self._numbered = 0

    def alive(self, known: Known) -> bytes:
        """Return a line with an empty text: clients expect JSON on every line."""
        out: list[bytes] = []
        head = {"model": model_of(known, ()), "created_at": self._created}
        self._line({**head, **self._said({"content": ""}), "done": False}, out)
        return b"".join(out)

    def feed(self, batch: Sequence[AssistantMessageEvent], known: Known) -> bytes:
        """Encode a batch of events as lines."""
        out: list[bytes] = []
        batch = as_vendors_end(batch)
        head = {"model": model_of(known, batch), "created_at": self._created}
        for event in batch:
            if self.ended:
                break
            match event:
                case Retry() if self._begun:
                    self._fail(started_anew(event), out)
                case Retry():
                    out.clear()
                    self._calls = WholeCalls()
                    self._numbered = 0
                case Error():
                    self._fail(event, out)
                case Done():
                    self._finish(event, self._is_own(known.model.provider), head, out)
                case TextEnd() | ThinkingEnd() if self._is_own(known.model.provider):
                    if chances := _logprobs(event.metadata):
                        said = {**self._said({"content": ""}), **chances}
                        self._line({**head, **said, "done": False}, out)
                case _:
                    self._write(event, head, out)
        self._begun = self._begun or bool(out)
        return b"".join(out)

    def _write(self, event: Any, head: dict[str, Any], out: list[bytes]) -> None:
        match event:
            case TextDelta(delta=text) if text:
                self._line({**head, **self._said({"content": text}), "done": False}, out)
            case ThinkingDelta(delta=text) if text:
                said = self._said({"content": "", "thinking": text})
                self._line({**head, **said, "done": False}, out)
            case _:
                for block in self._calls.feed(event):
                    self._write_call(block, head, out)

    def _write_call(self, block: ToolCallBlock, head: dict[str, Any], out: list[bytes]) -> None:
        said = self._said({"content": "", "tool_calls": [self._call(block)]})
        self._line({**head, **said, "done": False}, out)

    def _said(self, message: dict[str, Any]) -> dict[str, Any]:
        if self._wrapped:
            return {"message": {"role": "assistant", **message}}
        return {"response": message.pop("content"), **message}

    def _call(self, block: ToolCallBlock) -> dict[str, Any]:
        """Return a tool call; arguments that are invalid JSON become an object with their text."""
        function = {
            "index": self._numbered,
            "name": block.name,
            "arguments": arguments_object(block),
        }
        self._numbered += 1
        named = {} if is_synthetic_id(block.id) else {"id": block.id}
        return {**named, "function": function}

    def _is_own(self, provider: str) -> bool:
        return self._facts.wire_formats.get(provider) == WIRE_FORMAT

    def _finish(self, done: Done, is_own: bool, head: dict[str, Any], out: list[bytes]) -> None:
        self.ended = True
        for block in self._calls.finish(done.stop_reason):
            self._write_call(block, head, out)
        chances = _logprobs(done.metadata) if is_own else {}
        self._line({**head, **self._said({"content": ""}), **_end(done), **chances}, out)

    def _fail(self, error: Error, out: list[bytes]) -> None:
        self.ended = True
        self._line({"error": text_of(error)}, out)

    def _line(self, data: dict[str, Any], out: list[bytes]) -> None:
        out.append(encode(data) + b"\n")

    def whole(self, message: AssistantMessage) -> bytes:
        """Encode the answer as one object."""
        said: dict[str, Any] = {"content": message.text}
        if message.thinking:
            said["thinking"] = message.thinking
        if message.tool_calls:
            said["tool_calls"] = [self._call(block) for block in message.tool_calls]
        head = {"model": message.model, "created_at": self._created}
        chances = _logprobs(*_notes(message)) if self._is_own(message.provider or "") else {}
        return encode({**head, **self._said(said), **_end(message), **chances, **self._idle})


def _notes(message: AssistantMessage) -> Iterator[Mapping[str, Any] | None]:
    for block in message.content:
        if isinstance(block, TextBlock | ThinkingBlock):
            yield block.metadata
    yield message.metadata


def _logprobs(*notes: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the field with the log probabilities in metadata of blocks and of the answer."""
    found = [one for said in notes if said for one in said.get(LOGPROBS) or ()]
    return {LOGPROBS: found} if found else {}


def _end(end: Done | AssistantMessage) -> dict[str, Any]:
    """Return the fields of the last line; durations are in nanoseconds, the cost in US dollars."""
    reason = end.stop_reason or StopReason.STOP
    last: dict[str, Any] = {"done": True, "done_reason": DONE_REASONS.get(reason, str(reason))}
    if (usage := end.usage) is not None and usage.reported:
        last |= {name: usage.extra[name] for name in DURATIONS if name in usage.extra}
        counts = {"prompt_eval_count": usage.input, "eval_count": usage.output}
        last |= {name: count for name, count in counts.items() if count is not None}
    return last | cost_data(end.cost)
