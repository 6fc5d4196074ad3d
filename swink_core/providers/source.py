"""`EventSource`: turns an async iterator of bytes into events, with a decoder and a parser.

All data of one network read is decoded at once and becomes one batch of events. The source ends
with exactly one terminal event: `Done` if the parser found the provider's end marker of the answer,
otherwise `Error`. After the terminal event was delivered, the rest of the response is read within
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
from swink_core.failures.redaction import excerpt
from swink_core.framing.frame import Decoder, FrameError
from swink_core.plugins.attempt import Leg
from swink_core.plugins.call import Call
from swink_core.plugins.time_limits import time_limit
from swink_core.providers.exchange import DrivenExchange
from swink_core.providers.intact import LONE_SURROGATE, REPAIRED, TOO_DEEP, repaired_json
from swink_core.providers.writer import EventWriter
from swink_core.vocabulary import events as ev
from swink_core.vocabulary.depth import is_too_deep
from swink_core.vocabulary.messages import SystemMessage, ToolResultMessage
from swink_core.vocabulary.outcome import INVALID_COST, StopReason, sound_cost
from swink_core.vocabulary.outcome import StreamErrorKind as Kind

log = logging.getLogger(__name__)

UNPARSABLE = (
    msgspec.DecodeError, MalformedFrame, FrameError, UnicodeDecodeError, RecursionError,
)  # fmt: skip
"""Exceptions that a parser raises for a malformed frame.

Some of them are raised only for invalid content of a binary frame, or for deep nesting.
"""

STRUCTURE = frozenset(b'{}[]"')
"""Bytes of JSON syntax. A damaged frame without any of these bytes contained no content."""

SMALL_FRAME = 1024
"""The maximum size in bytes of a frame whose nesting is not checked.

Such a frame has at most 512 levels, which the JSON decoder can read. Deeply nested data in it does
not become part of a message, because `EventWriter` also checks the nesting.
"""

MALFORMED_IN_A_ROW = 3

MALFORMED_IN_ALL = 10

DRAIN_BYTES = 64 * 1024

DRAIN_SECONDS = 0.1

SETTLE_SECONDS = 5.0
"""How many seconds swink waits for the end of the response when the answer is complete.

After that, the stream ends as if the server had ended the response.
"""


AFTER_ANSWER = "after_answer"
"""The code of the notice about a request that failed after the answer was complete."""

_ANSWERS = (StopReason.STOP, StopReason.TOOL_USE)
"""The stop reasons of a complete answer."""


class Parser(Protocol):
    """Parses the frames of a provider, without access to a socket, a clock or a log.

    A parser that needs a subclass of `EventWriter` sets its attribute `writer` to the subclass. If
    a parser has a method `after_read(out)`, this method is called once after all frames of a
    network read. In this method, a parser can report values that every frame repeats, such as
    cumulative counts.
    """

    def feed(self, frame: bytes, out: EventWriter) -> None:
        """Report the content of a frame to `out`. Ignore frames of unknown type.

        Raises `msgspec.DecodeError` or `MalformedFrame` for a frame that cannot be parsed.
        """


class Source(Protocol):
    """The events of one attempt, as the driver reads them.

    `pull` awaits and returns the next piece of the input, and `take` converts it to events.
    `completed` is true when the answer is complete, even if the stream has not ended. `kept` is the
    size in characters of that part of the answer which is kept in memory, and `discarded` the size
    of the earlier answers that the server began again in the same response.
    """

    kept: int
    completed: bool
    pull: Callable[[], Awaitable[Any]]

    @property
    def discarded(self) -> int: ...

    def begin(self) -> list[ev.Event]:
        """Return the first events, before `pull` is called."""

    def take(self, data: Any) -> list[ev.Event]:
        """Return the events of a piece of the input; the list may be empty."""

    def fail(self, error: Exception) -> list[ev.Event]:
        """Return the last events of the attempt after `pull` or `take` has raised `error`.

        If the exception shows a bug in a plugin, it is raised again.
        """

    def cut(self, failure: Failure) -> list[ev.Event]:
        """Return the last events after a failure outside the source.

        They are the end events of open blocks and the `Error` event.
        """

    def settle(self) -> list[ev.Event]:
        """Return the last events of a complete answer when the server does not end the response."""

    async def aclose(self) -> None:
        """Close the input."""


class EventSource:
    """The events of one attempt, parsed from bytes.

    The order of events is not checked, because `EventWriter` creates events in an allowed order.
    `malformed` is the policy for damaged frames: `read_on` leaves out up to 3 damaged frames in a
    row or 10 in all, delivers the other frames, and fails at the end; `skip` ignores damaged
    frames; `fail` ends the stream at once. `names` maps the names of tools in the request to the
    caller's names. Instead of iterating over the source, code can call its methods: first `begin`;
    then repeatedly `pull`, passing each result to `take` or the exception to `fail`; when `ended`
    is true, `aclose`.
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
        self._out.voided = attempt.voided
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
        self._answer_leg: Leg | None = None  # the request whose response completed the answer
        self._drains = False
        self._bad_run = 0
        self._bad_total = 0
        self._noise = 0

    @property
    def discarded(self) -> int:
        """The size of answers that the server began again in the same response, in characters."""
        return self._out.discarded

    async def __aiter__(self) -> AsyncGenerator[ev.Event, None]:
        async with aclosing(self.batches()) as batches:
            async for batch in batches:
                for event in self._attempt.hand_out(batch):
                    yield event

    async def batches(self) -> AsyncGenerator[list[ev.Event], None]:
        """Yield the list of events of each network read, even if it is empty.

        An empty list shows the caller that data still arrives.
        """
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
        completed = out.stop_reason is not None and out.failure is None
        if completed and not self.completed:
            self._answer_leg = self._attempt.leg
        self.completed = completed
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
        """Return the last events when the input has ended, or cannot be read or parsed.

        `error` is StopAsyncIteration at the end of the input, and otherwise the exception that the
        input or the parser raised. If an exception shows a bug in the plugin, it is raised again.
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
        """Return the last events after a failure outside the source.

        They are the end events of open blocks and the `Error` event.
        """
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
            async with time_limit(DRAIN_SECONDS):
                while seen <= DRAIN_BYTES:
                    try:
                        data = await self.pull()
                    except asyncio.CancelledError:
                        if self._exchange is not None and self._exchange.is_stopped:
                            return
                        raise
                    self._tap(data)
                    seen += len(data)

    def settle(self) -> list[ev.Event]:
        """Return the last events of a complete answer when the server does not end the response."""
        late = Failure("finalize", message=f"it took longer than {SETTLE_SECONDS:g} s")
        return self._end(late if self._exchange is not None else None)

    def _take_rest(self) -> None:
        """Parse an unterminated frame at the end of the input, or drop the frame if it is damaged.

        A notice reports a frame that is dropped after a complete answer, because the frame may have
        contained an error or the usage.
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
        """Add the decoder's notices about input that precedes frame `number` of a read."""
        reports = self._reports
        while reports and reports[0][0] <= number:
            _, code, detail = reports.pop(0)
            self._out.notice(code, self._call.redact(detail))

    def _feed(self, frame: bytes) -> None:
        """Check a frame and pass it to the parser."""
        if self._is_text:
            frame.decode()
            if is_too_deep(frame):
                self._feed_deep(frame)
                return
        self._parser.feed(frame, self._out)

    def _feed_deep(self, frame: bytes) -> None:
        """Parse a deeply nested frame, which is accepted only if it contains tool call arguments.

        The block of the tool call becomes `invalid` and keeps the text of the arguments. Raises
        MalformedFrame for any other frame.
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
        call = self._call
        return f"{call.redact(str(error))} in {excerpt(frame, call.secrets, 120)}"

    def _end(self, failure: Failure | None) -> list[ev.Event]:
        out = self._out
        call = self._call
        if failure is not None and self._is_after_answer:
            why = call.redact(failure.message or failure.code or failure.phase)
            self._attempt.notice(AFTER_ANSWER, f"a request after the answer failed: {why}")
        batch = self._rest()
        if self.completed:
            if failure is not None:
                why = call.redact(failure.message or "")
                log.debug("%s: the connection failed after the answer: %s", call.model, why)
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
        return [*batch, ev.Done(out.stop_reason, self._attempt.usage, out.cost_parts, *known)]

    @property
    def _is_after_answer(self) -> bool:
        """Whether the provider has sent another request after the one that completed the answer."""
        out = self._out
        if self._answer_leg is None or out.stop_reason is None or out.failure is not None:
            return False
        return self._attempt.leg is not self._answer_leg

    @property
    def _ends_an_agent(self) -> bool:
        """Whether an empty answer is accepted as complete.

        It is accepted if it follows tool results and its stop reason is `STOP`. Source:
        https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons, "Empty
        responses with end_turn".
        """
        messages = self._call.context.messages
        said = (m for m in reversed(messages) if not isinstance(m, SystemMessage))
        last = next(said, None)
        return isinstance(last, ToolResultMessage) and self._out.stop_reason is StopReason.STOP

    def _error(self, failure: Failure) -> ev.Error:
        error = self._call.error(failure, self._attempt.usage)
        error.cost, error.metadata = self._out.cost_parts, self._out.metadata
        return error

    def _rest(self) -> list[ev.Event]:
        """Close open blocks and return the last events of the attempt.

        Also store the response id, the responding model and the usage in the attempt.
        """
        out = self._out
        attempt = self._attempt
        self.ended = True
        self.kept = out.kept
        self.completed = out.stop_reason is not None and out.failure is None
        out.close()
        usage = out.usage_seen and out.usage_seen.added_up()
        attempt.learn(out.response_id, out.model, usage)
        if out.cost_parts is not None:
            out.cost_parts, wrong = sound_cost(out.cost_parts)
            for name in wrong:
                if name != "total":  # the total is reported as `cost` too
                    attempt.notice("usage", INVALID_COST.format(name))
        if out.cost is not None:
            attempt.report_cost(out.cost)
        return [*attempt.take_notices(), *out.take()]
