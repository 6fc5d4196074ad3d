"""Parse frames of Chat Completions, in all dialects.

Nearly every frame of an answer contains a piece of text and nothing else. `feed` checks for such a
frame with as few attribute reads as possible and writes its text; all other frames are processed by
`_take`. All frames go through `_take` while the answer's id, its model or a think tag are still
expected, and after the finish reason (`_plain` is then false).

An answer is complete when its `finish_reason` has arrived; some servers never send `[DONE]`. If
`[DONE]` arrives without a finish reason, the answer is complete only if its usage has arrived after
the last content: gateways send `[DONE]` even if they have lost the answer in the middle, and some
servers send usage with every piece of content (Databricks, Perplexity). Choice 0 is the answer, and
other choices are left out with a notice. The module `several` parses the answers to a request that
asks for several choices.

Services send errors in many forms, often inside a normal chunk. Errors are rare, so their frames
are parsed a second time as plain JSON data, by the code that reads the bodies of HTTP errors.
"""

from __future__ import annotations

from typing import Any

import msgspec

from swink_core import Failure, StopReason
from swink_core.providers import EventWriter, MalformedFrame
from swink_provider_openai.beside import IMAGE, Beside
from swink_provider_openai.dialect import Dialect
from swink_provider_openai.errors import read_error
from swink_provider_openai.finish import (
    BROKEN_OFF,
    ERROR_FINISH,
    FINISH,
    REFUSAL,
    announce_refusal,
    error_finish,
    reason_of,
)
from swink_provider_openai.free_text import FreeTexts
from swink_provider_openai.pieces import said_alone
from swink_provider_openai.reasoning import ReasoningDetails, ThinkTags
from swink_provider_openai.usage import follows_content, report_usage
from swink_provider_openai.wire import (
    Answer,
    AnyChoice,
    Chunk,
    Custom,
    Delta,
    FirstChunk,
    Function,
    Part,
    ToolCall,
)

__all__ = ["ChatParser"]

_decode_first = msgspec.json.Decoder(FirstChunk).decode
_decode_next = msgspec.json.Decoder(Chunk).decode
_decode_answer = msgspec.json.Decoder(Answer).decode

DONE = b"[DONE]"

_EMPTY = (Delta(), Delta(content=""))
"""Deltas without content, in frames with a role or a finish reason."""

LEGACY_CALL = "function_call"
"""The key under which the parser stores the call in the field `function_call`.

This field is the predecessor of `tool_calls`.
"""


class ChatParser:
    """Parses one response. The dialect states whether the content may contain think tags."""

    def __init__(self, dialect: Dialect | None = None) -> None:
        self._decode: Any = _decode_first
        self._plain = False
        self._identified = False
        self._tags = ThinkTags() if dialect is not None and dialect.think_tags else None
        self._details = ReasoningDetails()
        self._beside = Beside()
        self._filters = msgspec.Raw()
        self._texts = FreeTexts()
        self._text_over = self._refused = self._several = self._counted = False

    def feed(self, frame: bytes, out: EventWriter) -> None:
        """Report the content of a frame to `out`."""
        if not self._plain and frame == DONE:  # most servers send exactly this
            self._done(out)
            return
        try:
            chunk = self._decode(frame)
        except msgspec.DecodeError:
            if frame.strip() != DONE:
                raise
            self._done(out)
            return
        choices = chunk.choices
        if choices and self._plain and chunk.usage is None and chunk.error is None:
            choice = choices[0]
            delta = choice.delta
            if delta is not None and choice.finish_reason is None and not choice.index:
                content = delta.content
                if (
                    content.__class__ is str
                    and content
                    and delta.tool_calls is None
                    and delta.reasoning_content is None
                    and delta.reasoning is None
                    and delta.reasoning_details is None
                    and delta.annotations is None
                    and delta.audio is None
                    and delta.images is None
                    and delta.refusal is None
                    and delta.function_call is None
                    and delta.thinking is None
                    and delta.executed_tools is None
                    and delta.provider_metadata is None
                    and choice.logprobs is None
                    and chunk.citations is None
                    and chunk.search_results is None
                ):
                    filters = choice.content_filter_results
                    if filters != self._filters and filters:
                        self._filters = filters  # most chunks have the same fields
                        self._beside.note_filters(filters, out)
                    out.text(content)
                    return
                beside = choice.logprobs or chunk.citations or chunk.search_results
                if not (content or beside) and said_alone(delta, self._text_over, out):
                    return
        self._take(chunk, frame, out)

    def buffered(self, body: bytes, out: EventWriter) -> None:
        """Report to `out` the content of an answer that was not streamed."""
        answer = _decode_answer(body)
        out.response(_word(answer.id), answer.model)
        self._beside.note_facts(body, out)
        if answer.usage is not None:
            report_usage(answer.usage, out, (out.metadata or {}).get("service_tier"))
        if answer.error or not answer.choices:
            failure = _read_failure(body)
            if failure is None:
                raise MalformedFrame("the answer has no choices")
            out.fail(failure)
            return
        for choice in answer.choices:
            if choice.index:
                self._leave_out(out)
                continue
            if choice.finish_reason == ERROR_FINISH:
                out.fail(error_finish(choice.message))
                return
            if choice.message is not None:
                self._say(choice.message, out)
            self._note(choice, out)
            if choice.finish_reason:
                self._stop(reason_of(choice), out)
        self._counted = True  # the whole answer is known to be complete
        self._done(out)

    # -- frames with other content -----------------------------------------------------------

    def _take(self, chunk: Chunk, frame: bytes, out: EventWriter) -> None:
        if isinstance(chunk, FirstChunk):
            out.response(_word(chunk.id), chunk.model)
            if out.response_id and out.model:
                self._identified = True
                self._decode = _decode_next
            self._beside.note_facts(frame, out)
        elif (
            not chunk.choices
            or chunk.usage
            or chunk.citations
            or chunk.search_results
            or chunk.choices[0].finish_reason
        ):
            self._beside.note_facts(frame, out)
        groq = chunk.x_groq or {}
        failure = None
        if chunk.choices is None or chunk.error or groq.get("error"):
            failure = _read_failure(frame)
        usage = chunk.usage or groq.get("usage")
        if usage:
            if out.stop_reason is None and not self._counted:
                self._counted = follows_content(usage, chunk.choices, out)
            report_usage(usage, out, (out.metadata or {}).get("service_tier"))
        for choice in chunk.choices or ():
            if choice.index:
                self._leave_out(out)
                continue
            if choice.finish_reason == ERROR_FINISH:
                failure = failure or error_finish(choice.delta)
            elif choice.delta is not None and choice.delta not in _EMPTY:
                self._counted = False
                self._say(choice.delta, out)
            self._note(choice, out)
            if choice.finish_reason and failure is None:
                self._stop(reason_of(choice), out)
        if failure is not None:
            out.fail(failure)
        elif out.stop_reason is not None:
            self._end(out)
        self._plain = self._identified and not (
            self._details
            or self._beside.is_about_reasoning
            or self._tags
            or self._counted
            or out.stop_reason is not None
        )

    def _note(self, choice: AnyChoice, out: EventWriter) -> None:
        """Store the fields of a choice other than its delta."""
        if choice.logprobs is not None:
            self._beside.note_logprobs(choice.logprobs, out)
        if choice.content_filter_results:
            self._beside.note_filters(choice.content_filter_results, out)
        if choice.seed is not None:
            out.response(metadata={"seed": choice.seed})
        if isinstance(choice.stop_reason, str) and choice.stop_reason not in FINISH:
            # VLLM: this stop sequence was generated.
            out.response(metadata={"stop_sequence": choice.stop_reason})

    def _say(self, delta: Delta, out: EventWriter) -> None:
        shown = ""
        if isinstance(delta.reasoning_details, list):
            shown = "".join(map(self._details.add, delta.reasoning_details))
        out.thinking(delta.reasoning_content or delta.reasoning or delta.thinking or shown)
        self._beside.note_sources(delta.annotations, delta.executed_tools)
        if delta.provider_metadata:
            out.response(metadata={"provider_metadata": delta.provider_metadata})
        content = delta.content
        if isinstance(content, str):
            self._text(content, out)
        elif content is not None:
            for part in content:
                self._part(part, out)
        if delta.refusal:
            if not self._refused:
                self._refused = True
                self._settle(out)
                out.end(None)
                announce_refusal(out)
                out.text("", metadata={REFUSAL: True})
            self._text(delta.refusal, out)
        if delta.audio is not None:
            self._beside.hear(delta.audio, out)
        for image in delta.images if isinstance(delta.images, list) else ():
            self._settle(out)
            self._text_over = True
            out.extension(IMAGE, image)
        if delta.tool_calls:
            for call in delta.tool_calls:
                self._call(call.index, call, out)
        elif delta.function_call is not None:
            self._call(LEGACY_CALL, ToolCall(function=delta.function_call), out)

    def _part(self, part: Part, out: EventWriter) -> None:
        thinking = part.thinking
        if isinstance(thinking, list):
            thinking = "".join(piece.text or "" for piece in thinking)
        if thinking:
            out.thinking(thinking)
        elif part.text:
            self._text(part.text, out)
        elif part.reference_ids:
            out.text("", metadata={"reference_ids": part.reference_ids})
            out.end(None)

    def _text(self, text: str, out: EventWriter) -> None:
        if not text:
            return
        self._end_details(out)
        if self._tags is None:
            out.text(text)
        elif not self._tags.feed(text, out):
            self._tags = None

    def _call(self, key: Any, call: ToolCall, out: EventWriter) -> None:
        function, custom = call.function, call.custom
        if function is None and custom is None and not call.id:
            return
        self._settle(out)
        self._text_over = True
        if custom is not None and (function is None or self._is_custom(key, call)):
            self._texts.add(key, _word(call.id), custom, out)
            return
        name = arguments = None
        if function is not None:
            name, given = function.name, function.arguments
            arguments = msgspec.json.encode(given).decode() if isinstance(given, dict) else given
        extra = None if call.extra_content is None else {"extra_content": call.extra_content}
        out.tool_call(key, _word(call.id), name, arguments, extra)

    def _is_custom(self, key: Any, call: ToolCall) -> bool:
        """Return True if a fragment with `function` and `custom` belongs to a free-text call.

        Some servers send both fields, one of them with empty values. The call's `type` decides
        between them. Without a `type`, the field that is not empty decides. If both have content,
        or neither has, an earlier fragment with the same key decides.
        """
        if call.type in ("function", "custom"):
            return call.type == "custom"
        function, custom = call.function or Function(), call.custom or Custom()
        is_function = bool(function.name or function.arguments)
        if is_function == bool(custom.name or custom.input):
            return self._texts.is_open(key)
        return not is_function

    def _settle(self, out: EventWriter) -> None:
        """Write the metadata collected for earlier blocks, before a new block or the end."""
        if self._tags is not None:
            self._tags.flush(out)
        self._end_details(out)
        if out.has_answer and not self._text_over:
            self._beside.settle(out)

    def _end_details(self, out: EventWriter) -> None:
        if self._details:
            out.thinking("", metadata={"reasoning_details": self._details.take()})
        self._beside.end_reasoning(out)

    def _leave_out(self, out: EventWriter) -> None:
        if not self._several:
            self._several = True
            out.notice("other_choices", "the provider sent several answers; only the first is used")

    # -- the end -----------------------------------------------------------------------------

    def _stop(self, word: str, out: EventWriter) -> None:
        self._settle(out)
        lower = word.lower()
        if lower in BROKEN_OFF:
            message = f"the provider stopped the answer early: {word}"
            out.fail(Failure("streaming", code=lower, message=message))
            return
        reason = FINISH.get(lower)
        if reason is None:
            out.notice("stop_reason", f"the answer stopped for an unknown reason: {word}")
            reason = StopReason.STOP
        if reason is StopReason.STOP and self._refused:
            reason = StopReason.CONTENT_FILTER
        self._texts.end(reason is StopReason.LENGTH, out)
        out.stop(reason)

    def _done(self, out: EventWriter) -> None:
        """Stop reading: a finish reason, or the usage after the content, completes the answer."""
        if out.stop_reason is None and out.failure is None and self._counted:
            out.notice("stop_reason", "the provider completed its answer without a finish reason")
            self._stop("stop", out)
        if out.stop_reason is not None:
            self._end(out)
        out.finish()

    def _end(self, out: EventWriter) -> None:
        """Write all collected data.

        This method is called again if frames arrive after the end of the answer.
        """
        self._settle(out)
        self._beside.end(out)


def _read_failure(frame: bytes) -> Failure | None:
    """Return the error in a frame; `None` for a frame of unknown type.

    Since the HTTP status of a stream is not that of the error, the failure's status is the one in
    the error object, if there is one.
    """
    failure = Failure("streaming")
    return failure if read_error(msgspec.json.decode(frame), failure) else None


def _word(id: str | int | None) -> str | None:
    return id if id is None or isinstance(id, str) else str(id)
