"""`Driver`: drives a call's attempts and keeps the promises of every stream.

    attempts ── batches ──> deliver: observers, builder ──> the caller

* The caller pulls; nothing is read ahead and nothing per event crosses a task.
* Exactly one terminal event reaches the observers and the message, however the stream ends: by
  itself, by `aclose()` from any task, by a cancelled task, by `break` and garbage collection.
* What fails outside the source (a time limit, a plugin's exception) becomes that terminal here;
  nothing that was taken from a source is thrown away.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from math import inf
from typing import Any

from attrs import evolve

from swink_core.failures.failure import Failure
from swink_core.failures.faults import FAULT, abandoned, raised, too_large
from swink_core.plugins.binding import Target
from swink_core.plugins.call import Attempt, Call
from swink_core.providers.foreign import ForeignSource, open_source
from swink_core.providers.media import read_media
from swink_core.providers.source import SETTLE_SECONDS, EventSource
from swink_core.streaming.breaker import CircuitBreaker
from swink_core.streaming.builder import MessageBuilder
from swink_core.streaming.gates import ClientGates, Gates
from swink_core.streaming.observers import Observers, log_end
from swink_core.streaming.retries import Retries
from swink_core.streaming.watchdog import Watchdog
from swink_core.vocabulary import events as ev
from swink_core.vocabulary.grammar import CONTENT, DELTAS, TERMINAL
from swink_core.vocabulary.messages import AssistantMessage
from swink_core.vocabulary.outcome import StreamErrorKind as Kind

log = logging.getLogger(__name__)

Batch = list[ev.Event]

SAYING = DELTAS | {ev.ToolCallStart, ev.Extension}
"""Events that hold content: more than that a block of text or thinking begins."""


class Driver:
    """The state of a call that the stream object and the driving generator share."""

    def __init__(
        self,
        call: Call,
        targets: Sequence[Target],
        breaker: CircuitBreaker | None = None,
        gates: ClientGates | None = None,
        on_close: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.call = call
        self.result_only = False  # the caller waits for the result and is handed no event before
        self._targets, self._breaker, self._on_close = targets, breaker, on_close
        self._gates = Gates(call, gates or ClientGates(()))
        self._builder = MessageBuilder(call.model.provider, call.model.id)
        self._watchdog = Watchdog(call.clock)
        self.observers = Observers(call, [target.binding for target in targets])
        self._attempt: Attempt | None = None  # the one under way
        self._source: EventSource | ForeignSource | None = None  # its own, until that is closed
        self._limit = inf  # characters of an answer
        self._content_shown = False  # by the attempt under way
        self._handed_out = self._short_of_memory = False  # the caller has been given events
        self._parting: Batch = []  # how it ended, where no reader was there to be told
        self._moved = asyncio.Event()  # set for closers when the driver pauses or ends
        call.started_at = call.clock.time()
        call.turn_to(call.attempt)  # one that is never read still ends in its provider's terms

    # -- for the stream ----------------------------------------------------------------------

    @property
    def terminal(self) -> ev.Done | ev.Error | None:
        """How the call ended; `None` while it has not."""
        return self._builder.terminal

    @property
    def message(self) -> AssistantMessage:
        """What has arrived so far; complete after the terminal event."""
        message, call = self._builder.message, self.call
        if self.terminal is None and self._attempt is not None:
            message.response_id, message.request_id = call.response_id, call.request_id
            message.model = call.response_model or message.model
        message.total_usage, message.total_cost = call.usage, call.cost
        return message

    def expect_result(self) -> None:
        """Hand out nothing before the end, unless events have been handed out already."""
        self.result_only = not self._handed_out

    def interrupt(self) -> None:
        """End the wait of whoever reads, because the caller closes the stream."""
        self._watchdog.interrupt(abandoned())

    async def pause(self) -> None:
        """Return when whoever reads has been handed a batch, or has left."""
        self._moved.clear()
        await self._moved.wait()

    def part(self) -> Batch:
        """Return, once, what a stream that was closed from outside still owes its reader."""
        parting, self._parting = self._parting, []
        return parting

    async def close(self) -> None:
        """End a call that has not ended, and close what was opened for it alone."""
        self._abandon()
        if self._on_close is not None:
            on_close, self._on_close = self._on_close, None
            await on_close()

    async def drive(self) -> AsyncGenerator[Batch, None]:
        """Yield every batch that the caller gets, having shown it to the observers."""
        watchdog, builder = self._watchdog, self._builder
        self.call.started_at = self.call.clock.time()  # anew: work begins with the first read
        log.info("call %s: %s begins", self.call.id, self.call.model)
        self._retries = Retries(self.call, self._targets, self._breaker)
        try:
            while builder.terminal is None:
                watchdog.wait()
                source: Any = self._source if self._attempt is not None else None
                try:
                    if source is None:
                        batch = await self._begin()
                    else:
                        if source.completed:
                            watchdog.expect_end(SETTLE_SECONDS)
                        made = await source.pull()
                        self.call.attempt.hear(self.call.clock.time())
                        batch = source.take(made)
                except asyncio.CancelledError:
                    batch = self._interrupted(watchdog.recover())
                except Exception as error:
                    batch = self._broken(error)
                if source is not None and source.kept > self._limit:
                    batch = self._bounded(batch)
                # a start is no event of the provider's yet
                said = batch and source is not None and type(batch[0]) is not ev.Start
                if watchdog.back(bool(said)):  # a plugin let a cancellation go no further
                    batch = self._stifled(batch, watchdog.recover())
                if not batch:
                    continue
                if type(batch[-1]) in TERMINAL:
                    self._end(batch)
                self._deliver(batch)
                self._moved.set()
                if self.terminal is not None or not self.result_only:
                    yield batch
                    self._handed_out = True
        finally:
            watchdog.stop()
            self._abandon()
            try:
                await self._release()
            finally:
                try:
                    await self.close()
                finally:
                    self._moved.set()

    def _abandon(self) -> None:
        """End a call that nobody reads any more."""
        if self.terminal is None:
            self._parting = self._cut(abandoned())
            self._settle_attempt(self._parting)
            self._deliver(self._parting)

    # -- attempts ----------------------------------------------------------------------------

    async def _begin(self) -> Batch:
        """Wait, begin the next attempt, and return its first events."""
        call = self.call
        if not call.attempts:
            call.context = await read_media(call.context)
        else:
            await self._release()  # which the loop goes on with even in a sleep of nothing
            await call.clock.sleep(self._retries.delay)
        told: Batch = []
        while True:
            if call.attempts or self._retries.target is not call.attempt.target:
                self._turn_to(self._retries.target)  # the call began with the first one
            told += self._retries.take_notices()
            refusal = await self._gates.enter()
            if refusal is None:
                break
            error = call.error(refusal)
            self._gates.leave(error)
            is_fault = refusal.kind is Kind.INTERNAL  # fail closed: try no other target
            if is_fault or not self._retries.pass_over(error.error_message):
                return [*told, ev.Start(), error]
        attempt = self._attempt = call.attempt
        attempt.begin(call.clock.time())
        call.attempts += 1
        self._content_shown = False
        self._limit = attempt.options.max_output_chars or inf
        if self._short_of_memory:
            told.append(ev.Notice("buffered", "memory ran out: the answer is asked for whole"))
        source = self._source = open_source(call)
        self._watchdog.begin_attempt(attempt.options.timeouts, source)
        return told + source.begin()

    def _turn_to(self, target: Target) -> None:
        options = target.options
        if self._short_of_memory:
            options = evolve(options, transport="buffered")
        self.call.turn_to(Attempt(target, self.call.attempts + 1, options=options))
        self._builder.turn_to(target.model.provider, target.model.id)

    def _end(self, batch: Batch) -> None:
        """Settle what the end of an attempt, the last of these events, is to the caller."""
        under_way = self._attempt is not None
        self._settle_attempt(batch)
        self._watchdog.end_attempt()
        if under_way:
            shown = self._content_shown or not CONTENT.isdisjoint(map(type, batch))
            terminal: Any = batch[-1]
            batch[-1] = self._retries.ended(terminal, shown and not self.result_only)

    def _settle_attempt(self, batch: Batch) -> None:
        """Take the attempt, whose last events these are, as over, and tell who is to know."""
        terminal: Any = batch[-1]
        if self._attempt is not None:
            self._attempt.end(self.call.clock.time())
        self._account(terminal)
        self._gates.leave(terminal)
        self._attempt = None

    def _interrupted(self, reason: Failure | None) -> Batch:
        """Return what a cancellation means; one that is not ours goes on its way."""
        if reason is None:
            raise asyncio.CancelledError
        source = self._source
        if type(source) is EventSource and source.completed and reason.code != "closed":
            return source.settle()
        return self._cut(reason)

    def _stifled(self, batch: Batch, reason: Failure | None) -> Batch:
        """Return what a cancellation means that a plugin has caught, and gone on."""
        if reason is not None:
            whole = batch and type(batch[-1]) is ev.Done and reason.code != "closed"
            return batch if whole else self._instead(batch, reason)
        if batch := _unended(batch):
            self._deliver(batch)
        raise asyncio.CancelledError  # somebody else's, whose task wants to end

    def _bounded(self, batch: Batch) -> Batch:
        """Return what was taken of an answer that has grown too large."""
        has_failed = batch and type(batch[-1]) is ev.Error
        return batch if has_failed else self._instead(batch, too_large(self._limit))

    def _instead(self, batch: Batch, reason: Failure) -> Batch:
        """Return what was taken, with another end than it may have."""
        return _unended(batch) + self._cut(reason)

    def _broken(self, error: Exception) -> Batch:
        """Return what an exception means; the source knows best what its input's do."""
        if self._attempt is not None and self._source is not None:
            try:
                return self._source.fail(error)
            except Exception as fault:
                error = fault
        failure = raised(error)
        if failure.code == FAULT:
            failure.message = self.call.attempt.target.binding.blame(error)
            self._log_fault(error)
        return self._cut(failure)

    def _cut(self, failure: Failure) -> Batch:
        """Return what ends the attempt from outside: open blocks closed, then the error."""
        if self._attempt is not None and self._source is not None:
            return self._source.cut(failure)
        if self._attempt is None and self.call.attempts:  # what the last one learnt is void
            self._turn_to(self._retries.target)
        return [ev.Start(), self.call.error(failure)]

    async def _release(self) -> None:
        """Close the source of an attempt, whatever its plugin says to that."""
        source, self._source = self._source, None
        if source is not None:
            try:
                await source.aclose()
            except Exception as error:
                self._log_fault(error)

    def _log_fault(self, error: Exception) -> None:
        who = self.call.model.provider
        log.error('the plugin of provider "%s" raised:\n%s', who, self.call.trace(error))

    def _account(self, terminal: Any) -> None:
        """Add what the attempt took to the call's sums, and price the terminal event."""
        call = self.call
        if type(terminal) is ev.Error:
            if terminal.title is None:
                call.explain(terminal)
            if terminal.error_kind is Kind.RESOURCE:
                self._free(terminal)
        terminal.cost = call.attempt.price(terminal.usage, terminal.cost, call.clock.now())
        if self._source is not None and self._attempt is not None:
            call.add(self._source.voided)
        call.add(terminal.usage, terminal.cost)

    def _free(self, error: ev.Error) -> None:
        """Give back what can be given back before the next attempt."""
        if self.call.http is not None:
            self.call.http.close_idle()
        provider = self.call.attempt.target.binding.provider
        if error.code == "no_memory" and getattr(provider, "buffered", False):
            self._short_of_memory = True

    # -- delivery ----------------------------------------------------------------------------

    def _deliver(self, batch: Batch) -> None:
        """Show a batch to the observers and fold it into the message."""
        call = self.call
        if not (self._content_shown or CONTENT.isdisjoint(map(type, batch))):
            self._content_shown = True
        attempt = call.attempt
        if attempt.first_event_at is None and not SAYING.isdisjoint(map(type, batch)):
            attempt.show_content(call.clock.time())
        self._builder.feed(batch)  # first: who changes events spoils no message
        terminal: Any = batch[-1]
        if type(terminal) in TERMINAL:
            call.ended_at = call.clock.time()
            log_end(call, terminal)
        if self.observers.bound:
            self.observers.show(batch)


def _unended(batch: Batch) -> Batch:
    return batch[:-1] if batch and type(batch[-1]) in TERMINAL else batch
