"""`Driver`: runs the attempts of a call, and ensures the guarantees of every stream.

    attempts ── batches ──> deliver: observers, builder ──> the caller

* Data is read only when the caller asks for the next event, in the caller's task.
* Exactly one terminal event reaches the observers and the message, however the stream ends: by
  itself, by `aclose()` from any task, by a cancelled task, or by `break` and garbage collection.
* A failure outside the event source of an attempt (a timeout, an exception of a plugin) becomes a
  terminal event, too. Events that a source has produced before the failure are still delivered.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from math import ceil
from typing import Any

from attrs import evolve

from swink_core.failures.failure import Failure
from swink_core.failures.faults import (
    CLOSED,
    FAULT,
    abandoned,
    ends_program,
    raised,
    too_large,
)
from swink_core.plugins.attempt import Attempt
from swink_core.plugins.binding import Target
from swink_core.plugins.call import Call
from swink_core.providers.downloads import downloaded
from swink_core.providers.foreign import open_source
from swink_core.providers.media import read_media, size_of
from swink_core.providers.source import SETTLE_SECONDS, Source
from swink_core.streaming.builder import MessageBuilder
from swink_core.streaming.gates import ClientGates
from swink_core.streaming.observers import Observers, log_end
from swink_core.streaming.retries import Retries
from swink_core.streaming.under_way import TRANSITIONS, Outcome, UnderWay, has_left, outcome_of
from swink_core.streaming.watchdog import Watchdog
from swink_core.vocabulary import events as ev
from swink_core.vocabulary.grammar import CONTENT, DELTAS, TERMINAL
from swink_core.vocabulary.messages import AssistantMessage, ExtensionBlock
from swink_core.vocabulary.outcome import StreamErrorKind as Kind
from swink_core.vocabulary.tokens import text_tokens, texts_tokens

log = logging.getLogger(__name__)

Batch = list[ev.Event]

SAYING = DELTAS | {ev.ToolCallStart, ev.Extension}
"""Events with content. The start of a block of text or thinking has no content."""


class Driver:
    """The state of a call, which the stream object shares with the generator that runs the call."""

    def __init__(
        self,
        call: Call,
        targets: Sequence[Target],
        gates: ClientGates,
        on_close: Callable[[], Awaitable[None]] | None,
    ) -> None:
        self.call = call
        self.result_only = False  # the caller awaits the result and receives no events before it
        self.observers = Observers(call, [target.binding for target in targets])
        self._gates = gates
        self._on_close = on_close
        model = targets[0].model
        self._builder = MessageBuilder(model.provider, model.id, call.id)
        self._watchdog = Watchdog(call.clock, call.options.timeouts)
        self._retries = Retries(call, targets)
        self._under_way: UnderWay | None = None
        self._ended: Source | None = None  # the last attempt's source, until it is closed
        self._handed_out = False  # the caller has received events
        self._short_of_memory = False
        self._is_left = False  # the client was closed
        self._parting: Batch = []  # the last events, if no task was reading
        self._moved: asyncio.Event | None = None  # wakes closers when the driver pauses or ends
        call.started_at = call.clock.time()
        call.turn_to(call.attempt)  # for a stream that is closed before it is read

    # -- called by the stream ----------------------------------------------------------------

    @property
    def terminal(self) -> ev.Done | ev.Error | None:
        """The terminal event of the call; `None` until it ends."""
        return self._builder.terminal

    @property
    def message(self) -> AssistantMessage:
        """The message so far; complete after the terminal event."""
        message = self._builder.message
        call = self.call
        if self.terminal is None:
            message.response_id = call.response_id
            message.request_id = call.request_id
            message.model = call.response_model or message.model
        message.total_usage = call.usage
        message.total_cost = call.cost
        return message

    def expect_result(self) -> None:
        """Deliver no events to the caller until the call ends, so that failures can be retried.

        If the caller has already received events, this method has no effect.
        """
        self.result_only = not self._handed_out

    def interrupt(self) -> None:
        """Interrupt the task that reads the stream, because the caller closes the stream."""
        if self._watchdog.waiting is not None:
            self._watchdog.interrupt(abandoned())

    def leave(self) -> asyncio.Event | None:
        """End the call, because its client is closed.

        If a task is waiting for events, return an event that is set once it has received a batch.
        """
        self._is_left = True
        if self._watchdog.waiting is None:
            return None
        self.interrupt()
        return self._next_move()

    async def pause(self) -> None:
        """Wait until the reading task has received a batch, or has ended."""
        await self._next_move().wait()

    def _next_move(self) -> asyncio.Event:
        if self._moved is None:
            self._moved = asyncio.Event()
        self._moved.clear()
        return self._moved

    def part(self) -> Batch:
        """Return the last events after another task has closed the stream.

        The task that reads the stream delivers them. Later calls return an empty list.
        """
        parting = self._parting
        self._parting = []
        return parting

    async def close(self) -> None:
        """End the call if it has not ended, and close a client that was created only for it."""
        self._abandon()
        if self._on_close is not None:
            on_close = self._on_close
            self._on_close = None
            await on_close()

    async def drive(self) -> AsyncGenerator[Batch, None]:
        """Yield every batch for the caller, after the observers have received it."""
        watchdog = self._watchdog
        builder = self._builder
        self.call.started_at = self.call.clock.time()  # again: the call begins with the first read
        log.info("call %s: %s begins", self.call.id, self.call.model)
        self.loop = asyncio.get_running_loop()
        self.call.tasks.calls.add(self)
        try:
            while builder.terminal is None:
                watchdog.wait()
                current = self._under_way
                source = None if current is None else current.source
                outcome: Outcome | None = None
                try:
                    if self._is_left:
                        batch, outcome = self._cut(abandoned()), Outcome.CANCELLED
                    elif source is None:
                        batch, outcome = await self._begin()
                    else:
                        if source.completed:
                            watchdog.expect_end(SETTLE_SECONDS)
                        made = await source.pull()
                        self.call.attempt.hear(self.call.clock.time())
                        batch = source.take(made)
                except asyncio.CancelledError:
                    batch, outcome = self._interrupted(watchdog.recover())
                except (Exception, SystemExit) as error:
                    if isinstance(error, SystemExit) and ends_program(error):
                        raise
                    batch = self._broken(error)
                if current is not None and source is not None and source.kept > current.limit:
                    batch, outcome = self._bounded(batch, current, source.kept, outcome)
                # `Start` does not count as an event of the provider
                is_event = batch and source is not None and type(batch[0]) is not ev.Start
                if watchdog.back(bool(is_event)):  # a plugin swallowed a cancellation
                    batch, outcome = self._stifled(batch, watchdog.recover(), outcome)
                if not batch:
                    continue
                if type(batch[-1]) in TERMINAL:
                    self._end(batch, outcome or outcome_of(batch[-1]))
                self._deliver(batch)
                self._release_closers()
                if self.terminal is not None or not self.result_only:
                    yield batch
                    self._handed_out = True
        finally:
            self.call.tasks.calls.discard(self)
            watchdog.stop()
            self._abandon()
            try:
                await self._release()
            finally:
                try:
                    await self.close()
                finally:
                    self._release_closers()

    def _release_closers(self) -> None:
        """Wake the tasks that wait in the method `pause`."""
        if self._moved is not None:
            self._moved.set()

    def _abandon(self) -> None:
        """End the call with an `Error`, because the caller has stopped reading it."""
        if self.terminal is None:
            self._parting = self._cut(abandoned())
            self._end(self._parting, Outcome.CANCELLED)
            self._deliver(self._parting)

    # -- attempts ----------------------------------------------------------------------------

    async def _begin(self) -> tuple[Batch, Outcome | None]:
        """Begin the next attempt, after the delay before a retry, and return its first events.

        If a gate refuses the attempt, also return the attempt's outcome; otherwise, the outcome is
        `None`.
        """
        call = self.call
        if not call.attempts:
            call.context = await read_media(call.context)
            call.size = size_of(call.context)
        else:
            await self._release()  # gives the event loop a chance to run, even for a sleep of 0 s
            await call.clock.sleep(self._retries.delay)
        first: Batch = []
        while True:
            target = self._retries.target
            if call.attempts or target is not call.attempt.target:
                self._turn_to(target)  # the call already began with the first target
            first += self._retries.take_notices()
            if call.attempt.options.download_media:
                call.context = await downloaded(call.context, call.attempt)
                call.size = size_of(call.context)
            call.attempt.about(call.context, call.counter)
            current = UnderWay(call.attempt, call.room)
            self._under_way = current
            refusal = await self._gates.enter(call, current.entered)
            if refusal is None:
                break
            error = call.error(refusal)
            is_fault = refusal.kind is Kind.INTERNAL  # fail closed: try no other target
            outcome = Outcome.REFUSED if is_fault or target.is_last else Outcome.PASSED_OVER
            if TRANSITIONS[outcome].is_final:
                return [*first, ev.Start(), error], outcome
            self._end([error], outcome)
            self._retries.pass_over(error.error_message)
        current.has_begun = True
        current.attempt.begin(call.clock.time())
        call.attempts += 1
        if self._short_of_memory:
            first.append(ev.Notice("buffered", "out of memory: the next attempt does not stream"))
        source = open_source(call)
        current.source = source
        self._watchdog.begin_attempt(current.attempt.options.timeouts, source)
        if target.own_total is not None:
            ends_at = self._retries.begin(target.own_total)
            self._watchdog.limit_model(ends_at, target.own_total)
        return first + source.begin(), None

    def _turn_to(self, target: Target) -> None:
        options = target.options
        if self._short_of_memory:
            options = evolve(options, transport="buffered")
        self.call.turn_to(Attempt(target, self.call.attempts + 1, options=options))
        self._builder.turn_to(target.model.provider, target.model.id)

    def _end(self, batch: Batch, outcome: Outcome) -> None:
        """End the attempt: deliver its last events (`batch`), and do what the outcome requires.

        `TRANSITIONS` defines the consequences of each outcome.
        """
        row = TRANSITIONS[outcome]
        terminal: Any = batch[-1]
        log.debug("call %s: attempt %d %s", self.call.id, self.call.attempts, outcome)
        current = self._under_way
        if current is not None and current.has_begun:
            current.attempt.end(self.call.clock.time())
        self._account(batch, terminal, current, outcome)
        self._under_way = None
        if current is not None:
            self._gates.leave(self.call, current.entered, terminal)
            self._ended = current.source
        self._watchdog.end_attempt()
        if row.may_retry and current is not None and current.has_begun:
            shown = current.content_shown or not CONTENT.isdisjoint(map(type, batch))
            batch[-1] = self._retries.ended(terminal, shown and not self.result_only)

    def _interrupted(self, reason: Failure | None) -> tuple[Batch, Outcome | None]:
        """Return the last events and the outcome of an attempt that swink itself cancelled.

        `reason` is the cause of the cancellation. If it is `None`, other code cancelled the task,
        and CancelledError is raised again.
        """
        if reason is None:
            raise asyncio.CancelledError
        source = None if self._under_way is None else self._under_way.source
        if source is not None and source.completed and reason.code != CLOSED:
            return source.settle(), None
        return self._cut(reason), _outcome_of_cut(reason)

    def _stifled(
        self, batch: Batch, reason: Failure | None, outcome: Outcome | None
    ) -> tuple[Batch, Outcome | None]:
        """Return the last events and the outcome after a plugin has suppressed CancelledError.

        Raises CancelledError again if another task cancelled the call.
        """
        if reason is not None:
            is_whole = batch and type(batch[-1]) is ev.Done and reason.code != CLOSED
            if is_whole:
                return batch, outcome
            return self._instead(batch, reason), _outcome_of_cut(reason)
        if batch := _unended(batch):
            self._deliver(batch)
        raise asyncio.CancelledError  # a cancellation by another task

    def _bounded(
        self, batch: Batch, current: UnderWay, kept: int, outcome: Outcome | None
    ) -> tuple[Batch, Outcome | None]:
        """Return the last events and the outcome of an attempt if its answer is too long."""
        if current.has_room(kept) or (batch and type(batch[-1]) is ev.Error):
            return batch, outcome
        return self._instead(batch, too_large(current.limit)), Outcome.BOUNDED

    def _instead(self, batch: Batch, reason: Failure) -> Batch:
        """Return the batch without its terminal event, followed by the last events for `reason`."""
        return _unended(batch) + self._cut(reason)

    def _broken(self, error: Exception | SystemExit) -> Batch:
        """Return the last events of an attempt after an exception.

        If the exception comes from the input of the event source, the source returns these events.
        Any other exception is a bug in a plugin.
        """
        source = None if self._under_way is None else self._under_way.source
        if source is not None and isinstance(error, Exception):
            try:
                return source.fail(error)
            except Exception as fault:
                error = fault
        failure = raised(error)
        if failure.code == FAULT and failure.exception is not None:
            failure.message = self.call.attempt.target.binding.blame(error)
            self._log_fault(error)
        return self._cut(failure)

    def _cut(self, failure: Failure) -> Batch:
        """Return the last events of an attempt that `failure` ends.

        They are the end events of open blocks and the `Error` event.
        """
        current = self._under_way
        if current is not None and current.source is not None:
            return current.source.cut(failure)
        if current is None and self.call.attempts:  # facts about the last attempt would be lost
            self._turn_to(self._retries.target)
        return [ev.Start(), self.call.error(failure)]

    async def _release(self) -> None:
        """Close the source of the attempt that has ended; log exceptions of the plugin."""
        source = self._ended
        self._ended = None
        if source is not None:
            try:
                await source.aclose()
            except (Exception, SystemExit) as error:
                if isinstance(error, SystemExit) and ends_program(error):
                    raise
                self._log_fault(error)

    def _log_fault(self, error: BaseException) -> None:
        who = self.call.model.provider
        log.error('the plugin of provider "%s" raised:\n%s', who, self.call.trace(error))

    def _account(
        self, batch: Batch, terminal: Any, current: UnderWay | None, outcome: Outcome
    ) -> None:
        """Compute the attempt's final charge, and update the call's totals and the last event."""
        call = self.call
        if type(terminal) is ev.Error:
            if terminal.retry_after is not None:
                terminal.retry_after = max(terminal.retry_after, 0.0)
            if terminal.title is None:
                call.explain(terminal)
            if terminal.error_kind is Kind.RESOURCE:
                self._free(terminal)
        if current is None or not current.has_begun:
            return
        attempt = current.attempt
        source = current.source
        usage = terminal.usage
        now = call.clock.now()
        is_done = type(terminal) is ev.Done
        is_complete = is_done or (source is not None and source.completed)
        if not is_done and terminal.error_kind is Kind.PROTOCOL:
            is_complete = False  # the damaged frame may be the one with the final usage
        is_settled = is_complete and usage is not None and None not in (usage.input, usage.output)
        if is_settled or not has_left(attempt, terminal, outcome):
            terminal.cost = attempt.price(usage, terminal.cost, now)
            attempt.take_charge(usage, terminal.cost)
        else:
            seen = self._tokens_seen(batch)
            terminal.cost = attempt.settle(usage, terminal.cost, seen, is_complete, now)
        if attempt.voided:
            voided = attempt.charge_voided(now)
            call.add(voided.usage, voided.cost)
        call.add(usage, terminal.cost, attempt.charge)

    def _tokens_seen(self, batch: Batch) -> int:
        """Estimate the output tokens of the answer so far, including those of the last events."""
        more: Any = (event for event in batch if type(event) in DELTAS)
        text = "".join((self._builder.received, *(event.delta for event in more)))
        kind = ExtensionBlock.CHOICE
        others = (e.data for e in batch if type(e) is ev.Extension and e.kind == kind)
        said = [data for data in others if isinstance(data, dict)]
        return ceil(text_tokens(text).tokens + texts_tokens(said).tokens)

    def _free(self, error: ev.Error) -> None:
        """Close idle connections, to free resources before the next attempt.

        If the attempt failed because memory ran out, the next attempt will not be streamed, if the
        provider supports that.
        """
        if self.call.http is not None:
            self.call.http.close_idle()
        provider = self.call.attempt.target.binding.provider
        if error.code == "no_memory" and getattr(provider, "buffered", False):
            self._short_of_memory = True

    # -- delivery ----------------------------------------------------------------------------

    def _deliver(self, batch: Batch) -> None:
        """Pass a batch to the observers and add it to the message."""
        call = self.call
        current = self._under_way
        if current is not None and not current.content_shown:
            current.content_shown = not CONTENT.isdisjoint(map(type, batch))
        attempt = call.attempt
        if attempt.first_event_at is None and not SAYING.isdisjoint(map(type, batch)):
            attempt.show_content(call.clock.time())
        self._builder.feed(batch)  # before observers can change events
        terminal: Any = batch[-1]
        if type(terminal) in TERMINAL:
            call.ended_at = call.clock.time()
            log_end(call, terminal)
        if self.observers.bound:
            self.observers.show(batch)


def _outcome_of_cut(reason: Failure) -> Outcome:
    return Outcome.CANCELLED if reason.code == CLOSED else Outcome.CUT


def _unended(batch: Batch) -> Batch:
    return batch[:-1] if batch and type(batch[-1]) in TERMINAL else batch
