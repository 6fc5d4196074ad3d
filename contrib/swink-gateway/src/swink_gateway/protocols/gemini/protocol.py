"""The protocol of Google's SDKs and Gemini CLI: `generateContent`.

https://ai.google.dev/api/generate-content. Each frame is a complete response with the next parts of
the answer; the last one has the finish reason and the usage. Tool calls are sent complete.

Another provider's opaque data, such as signatures of reasoning, is sent to the client in the field
`thoughtSignature` of a part: no other field of the API can contain such data. The data is encoded
("sealed") into the next part that is not a thought, because clients do not keep thoughts.

Without `alt=sse`, the frames are the elements of one JSON array. An error is a frame as well: the
SDKs raise an exception for an event, or an element, with the field `error`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from swink_core import (
    AssistantMessage,
    AssistantMessageEvent,
    Done,
    Error,
    Extension,
    ExtensionBlock,
    Retry,
    StopReason,
    TextDelta,
    TextEnd,
    ThinkingBlock,
    ThinkingDelta,
    ThinkingEnd,
)
from swink_gateway.protocols import Asked, Facts, Known, Reply
from swink_gateway.protocols.encoding import as_vendors_end, id_of, model_of, started_anew
from swink_gateway.protocols.failures import standard_status, status_of
from swink_gateway.protocols.frames import JSON, SSE, data_frame, encode
from swink_gateway.protocols.gemini.errors import (
    blocked_prompt,
    error_data,
    error_reply,
    is_blocked_prompt,
)
from swink_gateway.protocols.gemini.parts import (
    OF_CANDIDATE,
    OF_END,
    Parts,
    PartsWriter,
    usage_data,
)
from swink_gateway.protocols.gemini.requests import WIRE_FORMAT, read_gemini
from swink_gateway.protocols.whole_calls import WholeCalls

__all__ = ["GeminiProtocol"]

FINISH = {
    StopReason.STOP: "STOP",
    StopReason.LENGTH: "MAX_TOKENS",
    StopReason.TOOL_USE: "STOP",
    StopReason.CONTENT_FILTER: "SAFETY",
    StopReason.PAUSE: "CONTINUATION",
}

BROKEN_CALL = "MALFORMED_FUNCTION_CALL"

READ_BARE_ERRORS = ("GeminiCLI",)
"""Prefixes of `User-Agent` of clients that expect an error as a plain line of JSON in the stream.

Google writes errors that way. Other clients read errors from an event.
"""


class GeminiProtocol:
    """Reads requests that Google's SDKs send to `models.generate_content`, and answers them."""

    name = "gemini"
    wire_format = WIRE_FORMAT

    def read(self, body: Any, path: Mapping[str, str], headers: Mapping[str, str]) -> Asked:
        """Parse a request."""
        asked = read_gemini(body, path)
        asked.said["bare_errors"] = headers.get("User-Agent", "").startswith(READ_BARE_ERRORS)
        return asked

    def encoder(self, asked: Asked, facts: Facts) -> GeminiEncoder:
        """Create an encoder for the answer to a request."""
        return GeminiEncoder(asked, facts)

    def failure(self, error: Error, status: int) -> Reply:
        """Return the response for a failure before the answer, with this HTTP status."""
        return error_reply(error, status)


class GeminiEncoder:
    """Encodes each batch of events as a response."""

    has_statuses = True

    def __init__(self, asked: Asked, facts: Facts) -> None:
        self.ended = False
        self._array = asked.stream and asked.said["array"]
        self.content_type = JSON if self._array else SSE
        self._has_bare_errors = asked.said.get("bare_errors", False)
        self._thoughts = asked.said["thoughts"]
        self._facts = facts
        self._begun = False
        self._fresh()

    def _fresh(self) -> None:
        self._writer: PartsWriter | None = None
        self._thinking: dict[int, list[str]] = {}
        self._calls = WholeCalls()

    def alive(self, known: Known) -> bytes:
        """Return a keep-alive: a response without candidates, or white space in an array.

        Google's SDKs do not read SSE comments.
        """
        if self._array:
            return b"\r\n"
        return data_frame({"modelVersion": model_of(known, ())})

    def feed(self, batch: Sequence[AssistantMessageEvent], known: Known) -> bytes:
        """Encode a batch of events as a response."""
        out: list[bytes] = []
        batch = as_vendors_end(batch)
        head = {
            "modelVersion": model_of(known, batch),
            "responseId": id_of(known, batch, self._facts, ""),
        }
        for event in batch:
            match event:
                case Retry() if self._begun:
                    self._fail(started_anew(event), out)
                case Retry():
                    self._fresh()
                case Error():
                    self._content(head, out)
                    self._fail(event, out, head)
                case Done():
                    self._finish(event, self._for(known.model.provider), head, out)
                case _:
                    self._write(event, self._for(known.model.provider))
            if self.ended:
                return b"".join(out)
        self._content(head, out)
        return b"".join(out)

    def _content(self, head: dict[str, Any], out: list[bytes]) -> None:
        if self._writer is not None and self._writer.parts.made:
            self._frame({**self._candidates(self._writer), **head}, out)

    def _for(self, provider: str) -> PartsWriter:
        if self._writer is None:
            own = self._facts.wire_formats.get(provider) == WIRE_FORMAT
            self._writer = PartsWriter(provider, own, self._thoughts)
        return self._writer

    def _write(self, event: Any, writer: PartsWriter) -> None:
        if type(event) is TextDelta:
            writer.text(event.delta)
            return
        for call in self._calls.feed(event):
            writer.call(call)
        match event:
            case ThinkingDelta(content_index=index, delta=text):
                self._thinking.setdefault(index, []).append(text)
                writer.thought(text)
            case TextEnd():
                writer.end_text(event.metadata)
            case ThinkingEnd(content_index=index):
                text = "".join(self._thinking.pop(index, ()))
                block = ThinkingBlock(text, event.signature, event.redacted, event.metadata)
                writer.end_thought(block)
            case Extension():
                kept = ExtensionBlock(event.provider, event.kind, event.data, event.metadata)
                writer.extension(kept)

    def _finish(
        self, done: Done, writer: PartsWriter, head: dict[str, Any], out: list[bytes]
    ) -> None:
        self.ended = True
        for call in self._calls.finish(done.stop_reason):
            writer.call(call)
        if writer.broken:  # clients discard the parts in a response with this finish reason
            self._content(head, out)
        self._frame(self._last(writer, done, head), out)
        if self._array:
            out.append(b"]")

    def _fail(self, error: Error, out: list[bytes], head: Mapping[str, Any] | None = None) -> None:
        self.ended = True
        if is_blocked_prompt(error) and not self._begun:
            self._frame({**blocked_prompt(error), **(head or {})}, out)
        else:
            status = standard_status(status_of(error))
            data = {"error": error_data(error, status)}
            if self._has_bare_errors and not self._array:
                out += (encode(data), b"\n")
            else:
                self._frame(data, out)
        if self._array:
            out.append(b"]")

    def _frame(self, data: dict[str, Any], out: list[bytes]) -> None:
        if self._array:
            out.append(b",\r\n" if self._begun else b"[")
            out.append(encode(data))
        else:
            out.append(data_frame(data))
        self._begun = True

    def whole(self, message: AssistantMessage) -> bytes:
        """Encode a message as a response."""
        writer = self._for(message.provider or "")
        for block in message.content:
            writer.block(block)
        head = {
            "modelVersion": message.model,
            "responseId": message.response_id or self._facts.id,
        }
        return encode(self._last(writer, message, head))

    def _last(
        self, writer: PartsWriter, end: Done | AssistantMessage, head: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the last response of an answer."""
        writer.finish()
        if not writer.parts.made:
            writer.parts.made.append({"text": ""})
        reason = end.stop_reason or StopReason.STOP
        facts = (end.metadata or {}) if writer.own else {}
        why: dict[str, Any] = {"finishReason": FINISH[reason]}
        why |= {name: facts[name] for name in OF_END if name in facts}
        if writer.broken:
            why["finishMessage"] = "; ".join(writer.broken)
            if reason in (StopReason.STOP, StopReason.TOOL_USE):  # other reasons explain the cut
                why["finishReason"] = BROKEN_CALL
        answer = self._candidates(writer, **why)
        answer["candidates"][0] |= {name: facts[name] for name in OF_CANDIDATE if name in facts}
        if "promptFeedback" in facts:
            answer["promptFeedback"] = facts["promptFeedback"]
        answer["candidates"] += writer.others
        if counts := usage_data(end.usage, end.cost, writer.own):
            answer["usageMetadata"] = counts
        return {**answer, **head}

    def _candidates(self, writer: PartsWriter, **more: Any) -> dict[str, Any]:
        content = {"parts": writer.parts.made, "role": "model"}
        candidate = {"content": content, **more, "index": 0, **writer.candidate}
        writer.parts, writer.candidate = Parts(), {}
        return {"candidates": [candidate]}
