"""`EventSource`: the events that a decoder and a parser make of an async iterator of bytes.

All data of one network read is decoded at once and becomes one batch of events. The source ends
with exactly one terminal event: `Done` if the parser found the provider's end marker of the answer,
otherwise `Error`. After the terminal event was delivered, the rest of the input is read within
limits, so that the connection can be used again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from typing import Any, Protocol

import msgspec

from swink_core.failures.exceptions import ProviderFailure
from swink_core.failures.failure import Failure, MalformedFrame, Phase
from swink_core.failures.faults import FAULT, raised
from swink_core.failures.redaction import excerpt, redact
from swink_core.framing.frame import Decoder, FrameError
from swink_core.plugins.call import Call
from swink_core.providers.exchange import DrivenExchange
from swink_core.providers.intact import LONE_SURROGATE, REPAIRED, TOO_DEEP, repaired_json
from swink_core.providers.writer import EventWriter
from swink_core.vocabulary import events as ev
from swink_core.vocabulary.depth import is_too_deep
from swink_core.vocabulary.messages import SystemMessage, ToolResultMessage
from swink_core.vocabulary.outcome import StopReason, Usage
from swink_core.vocabulary.outcome import StreamErrorKind as Kind

log = logging.getLogger(__name__)

UNPARSABLE = (
    msgspec.DecodeError, MalformedFrame, FrameError, UnicodeDecodeError, RecursionError,
)  # fmt: skip
"""Exceptions by which a parser reports a malformed frame.

They include those for invalid content of binary frames, and for deep nesting.
"""

STRUCTURE = frozenset(b'{}[]"')
"""Bytes of JSON syntax: a damaged frame without any of them cannot have contained content."""

SMALL_FRAME = 1024
"""The maximum size in bytes of a frame whose nesting is not checked.

Such a frame has at most 512 levels, which the JSON decoder can read. Whatever the size of the
frame, the writer refuses deeply nested data that would become part of a message.
"""

MALFORMED_IN_A_ROW = 3

MALFORMED_IN_ALL = 10

DRAIN_BYTES = 64 * 1024

DRAIN_SECONDS = 0.1

SETTLE_SECONDS = 5.0
"""How many seconds a completed answer may keep the connection open.

After that, the stream ends as if the connection had been closed.
"""


AFTER_ANSWER = "after_answer"
"""The code of a notice about a failed request that was sent after the answer was complete."""

_ANSWERS = (StopReason.STOP, StopReason.TOOL_USE)
"""The stop reasons of a complete answer."""


class Parser(Protocol):
    """Parses the frames of a provider, without access to a socket, a clock or a log.

    A parser that needs a subclass of `EventWriter` has the subclass as its attribute `writer`. An
    optional method `after_read(out)` is called once after all frames of a network read, for values
    that every frame repeats, such as cumulative counts.
    """

    def feed(self, frame: bytes, out: EventWriter) -> None:
        """Report the content of a frame to `out`. Ignore frames of unknown type.

        Raises `msgspec.DecodeError` or `MalformedFrame` for a frame that cannot be parsed.
        """


class Source(Protocol):
    """The events of one attempt, as the driver reads them.

    `pull` awaits the next piece of the input, which `take` converts to events. `completed` says
    whether the answer is complete, even if the stream has not ended; `kept` is the size of the part
    of the answer that is kept in memory, in characters.
    """

    kept: int
    completed: bool
    pull: Callable[[], Awaitable[Any]]

    @property
    def voided(self) -> Usage | None:
        """The usage of discarded answers, which the server restarted within this attempt."""

    def begin(self) -> list[ev.Event]:
        """Return the first events, before `pull` is called."""

    def take(self, data: Any) -> list[ev.Event]:
        """Return the events of a piece of the input; the list may be empty."""

    def fail(self, error: Exception) -> list[ev.Event]:
        """Return the last events after an exception of `pull` or `take`.

        An exception that indicates a bug in a plugin is raised again.
        """

    def cut(self, failure: Failure) -> list[ev.Event]:
        """Return the events after a failure outside the source: block ends, and the error."""

    def settle(self) -> list[ev.Event]:
        """Return the last events of a completed answer whose connection stays open."""

    async def aclose(self) -> None:
        """Close the input."""


class EventSource:
    """The events of one attempt, parsed from bytes.

    The order of events is not checked, because the writer guarantees it. `malformed` is the policy
    for damaged frames: `read_on` leaves out up to 3 damaged frames in a row or 10 in all, delivers
    the other frames, and fails at the end; `skip` ignores them; `fail` ends the stream at once.
    `names` maps renamed tools to their original names. Instead of iterating, a loop can call the
    methods directly: `begin`, then `take` with the result of each `pull` (or `fail` with its
    exception) until `ended`, then `aclose`.
    """

    def __init__(
        self,
        call: Call,
        chunks: AsyncIterator[bytes],
        decoder: Decoder,
        parser: Parser,
        *,
        malformed: str = "read_on",
        notices: tuple[ev.Notice, ...] = (),
        names: Mapping[str, str] | None = None,
        exchange: DrivenExchange | None = None,
    ) -> None:
        self.pull = chunks.__anext__
        """Awaits the next piece of the input, for `take`."""
        self.ended = False
        self.completed = False
        """Whether the answer is complete, even if the stream has not ended."""
        self.kept = 0
        """The size of the part of the answer that is kept in memory, in characters."""
        attempt = call.attempt
        model = attempt.model
        writer: type[EventWriter] = getattr(parser, "writer", EventWriter)
        self._out = writer(model.provider, f"{call.id}_{attempt.number}", str(model))
        self._out.names = names or {}
        self._call = call
        self._attempt = attempt
        self._decoder = decoder
        self._parser = parser
        self._chunks: Any = chunks
        self._exchange = exchange
        self._is_tapped = exchange is not None and exchange.attach(self._out, self._feed_frame)
        self._after_read = getattr(parser, "after_read", lambda out: None)
        self._reports: list[tuple[int, str, str]] = getattr(decoder, "reports", [])
        self._is_text = not getattr(decoder, "binary", False)
        self._not_ascii = False  # an incomplete frame may contain other bytes than ASCII
        self._policy = malformed
        self._notices = notices
        self._phase: Phase = "connect"
        self._drains = False
        self._bad_run = 0
        self._bad_total = 0
        self._noise = 0

    async def __aiter__(self) -> AsyncGenerator[ev.Event, None]:
        async with aclosing(self.batches()) as batches:
            async for batch in batches:
                for event in self._attempt.hand_out(batch):
                    yield event

    async def batches(self) -> AsyncGenerator[list[ev.Event], None]:
        """Yield the events of each network read; an empty list shows that the stream is alive."""
        async with aclosing(self):
            yield self.begin()
            while not self.ended:
                try:
                    batch = self.take(await self.pull())
                except Exception as error:
                    batch = self.fail(error)
                yield batch

    def begin(self) -> list[ev.Event]:
        """Return the first events, before a request is sent."""
        return [ev.Start(), *self._notices]

    def take(self, data: bytes) -> list[ev.Event]:
        """Return the events of a network read; the list may be empty."""
        self._phase = "streaming"
        if data:  # other sources than the network may yield no bytes
            self._attempt.count_read()
        if self._call.taps:
            self._tap(data)
        out = self._out
        feed = self._parser.feed
        broken = None
        try:
            frames = self._decoder.feed(data)
        except FrameError as error:
            frames = error.frames
            broken = error
        reports = self._reports
        done = 0  # frames processed, counted if there are reports
        is_ascii = data.isascii()
        checked = self._is_text and (self._not_ascii or not is_ascii)
        self._not_ascii = checked and not (is_ascii and frames)
        for frame in frames:
            if reports:
                self._report(done)
                done += 1
            try:
                if checked:
                    frame.decode()
                if len(frame) > SMALL_FRAME and self._is_text and is_too_deep(frame):
                    self._feed_deep(frame)
                else:
                    feed(frame, out)
            except UNPARSABLE as error:
                self._malformed(frame, error)
            else:
                self._bad_run = 0
            if out.finished:
                break
        else:
            if broken is not None:
                why = str(broken)
                out.fail(Failure("streaming", kind=Kind.PROTOCOL, code="frame", message=why))
        if reports and not out.finished:
            self._report(len(frames))
        self._after_read(out)
        self.kept = out.kept
        self.completed = out.stop_reason is not None and out.failure is None
        if out.finished:
            self._drains = out.failure is None
            return self._end(out.failure)
        attempt = self._attempt
        if (
            out.usage_seen is not attempt.usage
            or out.response_id is not attempt.response_id
            or out.model is not attempt.response_model
        ):
            attempt.learn(out.response_id, out.model, out.usage_seen)
        return [*attempt.take_notices(), *out.take()] if attempt.notices else out.take()

    def _tap(self, data: bytes) -> None:
        if self._attempt.leg is None or not self._is_tapped:
            self._call.tap(data)

    def _feed_frame(self, frame: bytes) -> None:
        """Pass a frame directly to the parser, without the decoder.

        The events of this frame are delivered with the next read.
        """
        try:
            self._feed(frame)
        except UNPARSABLE as error:
            self._malformed(frame, error)

    def fail(self, error: Exception) -> list[ev.Event]:
        """Return the last events after the input has ended or failed, or was invalid.

        `error` is StopAsyncIteration at the end of the input, otherwise the exception of the input
        or the parser. An exception that indicates a bug in the plugin is raised again.
        """
        failure = None
        if not isinstance(error, StopAsyncIteration):
            failure = raised(error)
            if failure.code == FAULT:
                raise error
        if failure is None:
            self._take_rest()
        elif isinstance(error, ProviderFailure) and self._phase != "connect":
            failure.phase = self._phase
            with suppress(ProviderFailure):  # raised for an incomplete body
                self._take_rest()
        return self._end(self._out.failure or failure)

    def cut(self, failure: Failure) -> list[ev.Event]:
        """Return the events after a failure outside the source: block ends, and the error."""
        # get the parser's last events, and signatures that arrived before their blocks ended
        return [*self._rest(), self._error(failure)]

    async def aclose(self) -> None:
        """Close the input.

        If the rest of the input is short, it is read first, so that the connection can be reused.
        """
        try:
            drains = self._drains
            self._drains = False
            if drains and not getattr(self._chunks, "at_end", False):
                await self._drain()
        finally:
            try:
                if hasattr(self._chunks, "aclose"):
                    await self._chunks.aclose()
            finally:
                exchange = self._exchange
                self._exchange = None
                if exchange is not None:
                    await exchange.end(self.completed)

    async def _drain(self) -> None:
        seen = 0
        if self._exchange is not None:
            self._exchange.stop()
        with suppress(StopAsyncIteration, ProviderFailure, TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                while seen <= DRAIN_BYTES:
                    try:
                        data = await self.pull()
                    except asyncio.CancelledError:
                        if self._exchange is not None and self._exchange.is_stopped:
                            return
                        raise
                    self._tap(data)
                    seen += len(data)

    @property
    def voided(self) -> Usage | None:
        """The usage of discarded answers, which the server restarted within this attempt."""
        return self._out.voided

    def settle(self) -> list[ev.Event]:
        """Return the last batch of a completed answer whose connection stays open."""
        late = Failure("finalize", message=f"it took longer than {SETTLE_SECONDS:g} s")
        return self._end(late if self._exchange is not None else None)

    def _take_rest(self) -> None:
        """Parse an unterminated last frame; if it is incomplete, drop it.

        If an incomplete frame follows a completed answer, a notice is added, because the frame may
        be an error or usage.
        """
        self._phase = "finalize"
        for frame in self._decoder.finish():
            try:
                self._feed(frame)
            except UNPARSABLE as error:
                log.debug("the input ends inside a frame of %d bytes", len(frame))
                if self._out.stop_reason is not None:
                    self._out.notice("cut_frame", self._detail(frame, error))
        self._after_read(self._out)

    def _report(self, number: int) -> None:
        """Add the decoder's notices about input before the frame with the index `number`."""
        reports = self._reports
        while reports and reports[0][0] <= number:
            _, code, detail = reports.pop(0)
            self._out.notice(code, redact(detail, self._call.secrets))

    def _feed(self, frame: bytes) -> None:
        """Check a frame and pass it to the parser."""
        if self._is_text:
            frame.decode()
            if is_too_deep(frame):
                self._feed_deep(frame)
                return
        self._parser.feed(frame, self._out)

    def _feed_deep(self, frame: bytes) -> None:
        """Accept a deeply nested frame only for tool call arguments that are sent as an object.

        The block becomes `invalid` and keeps the text of the arguments. The writer refuses other
        deeply nested data.
        """
        out = self._out
        before = len(out.pending)
        self._parser.feed(frame, out)
        new = out.pending[before:]
        if not any(type(event) is ev.ToolCallDelta and is_too_deep(event.delta) for event in new):
            raise MalformedFrame(TOO_DEEP)

    def _malformed(self, frame: bytes, error: Exception) -> None:
        is_syntax = type(error) is msgspec.DecodeError  # subclasses are type errors
        if is_syntax and self._is_text and (repaired := repaired_json(frame)) is not None:
            with suppress(*UNPARSABLE):
                self._feed(repaired)
                self._out.notice(LONE_SURROGATE, REPAIRED)
                return
        out = self._out
        detail = self._detail(frame, error)
        # a wrong checksum (FrameError) is a more precise reason than the invalid bytes
        if not isinstance(error, FrameError) and STRUCTURE.isdisjoint(frame):
            self._noise += 1
            if self._noise <= MALFORMED_IN_ALL:  # limited, because a notice counts as progress
                out.notice("noise", detail)
            return
        self._bad_run += 1
        self._bad_total += 1
        spent = self._bad_run > MALFORMED_IN_A_ROW or self._bad_total > MALFORMED_IN_ALL
        code = "malformed" if spent else "damaged_frame"
        why = f"a frame cannot be parsed: {detail}"
        failure = Failure("streaming", kind=Kind.PROTOCOL, code=code, message=why)
        if spent or self._policy == "fail":
            out.fail(failure)
            return
        if self._policy == "read_on":
            out.damage = out.damage or failure
        log.warning("%s: a malformed frame is skipped: %s", self._call.model, detail)
        out.notice("malformed_frame", detail)

    def _detail(self, frame: bytes, error: Exception) -> str:
        secrets = self._call.secrets
        return f"{redact(str(error), secrets)} in {excerpt(frame, secrets, 120)}"

    def _end(self, failure: Failure | None) -> list[ev.Event]:
        out = self._out
        call = self._call
        if failure is not None and self._is_after_answer:
            self._attempt.notice(AFTER_ANSWER, f"a request after the answer failed: {failure}")
        batch = self._rest()
        if self.completed:
            if failure is not None:
                log.debug("%s: the connection failed after the answer: %s", call.model, failure)
            failure = out.damage
            answered = out.has_answer or self._ends_an_agent
            if not (failure or answered) and out.stop_reason in _ANSWERS:
                why = "the answer has neither text nor a tool call"
                kind = Kind.EMPTY_RESPONSE
                failure = Failure("finalize", kind=kind, code=kind.value, message=why)
        elif failure is None:
            why = "the stream ended before the provider completed its answer"
            cut = Failure(self._phase, kind=Kind.NETWORK, code="cut", message=why)
            failure = out.damage or cut
        if failure is not None:
            return [*batch, self._error(failure)]
        assert out.stop_reason is not None
        known = (out.response_id, out.model, call.request_id, out.metadata)
        return [*batch, ev.Done(out.stop_reason, self._attempt.usage, None, *known)]

    @property
    def _is_after_answer(self) -> bool:
        """Whether a further request was sent after the answer was complete."""
        out = self._out
        if self._exchange is None or out.stop_reason is None or out.failure is not None:
            return False
        kinds = [leg.kind for leg in self._attempt.legs]
        return kinds.count("stream") + kinds.count("whole") > 1

    @property
    def _ends_an_agent(self) -> bool:
        """Whether an empty answer counts as complete, because it follows the results of tools.

        Source: https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons, "Empty
        responses with end_turn".
        """
        messages = self._call.context.messages
        said = (m for m in reversed(messages) if not isinstance(m, SystemMessage))
        last = next(said, None)
        return isinstance(last, ToolResultMessage) and self._out.stop_reason is StopReason.STOP

    def _error(self, failure: Failure) -> ev.Error:
        error = self._call.error(failure, self._attempt.usage)
        error.metadata = self._out.metadata
        return error

    def _rest(self) -> list[ev.Event]:
        """Close open blocks, store usage and response id in the attempt; return the last events."""
        out = self._out
        attempt = self._attempt
        self.ended = True
        self.kept = out.kept
        self.completed = out.stop_reason is not None and out.failure is None
        out.close()
        usage = out.usage_seen and out.usage_seen.added_up()
        attempt.learn(out.response_id, out.model, usage)
        if out.cost is not None:
            attempt.report_cost(out.cost)
        return [*attempt.take_notices(), *out.take()]
