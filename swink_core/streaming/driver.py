"""`Run`: a call under way. Drives the attempts and keeps the promises of every stream.

    attempts ── batches ──> deliver: observers, builder ──> the caller

* The caller pulls; nothing is read ahead and nothing per event crosses a task.
* Exactly one terminal event reaches the observers and the message, however the stream ends: by
  itself, by `aclose()` from any task, by a cancelled task, by `break` and garbage collection.
* What fails outside the source (a time limit, a plugin's exception) becomes that terminal here,
  with open blocks closed and usage kept.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from math import inf
from typing import Any

from attrs import evolve

from swink_core.failures.failure import Failure
from swink_core.failures.faults import FAULT, abandoned, raised, too_large
from swink_core.plugins.binding import Target
from swink_core.plugins.call import Call
from swink_core.providers.source import SETTLE_SECONDS, EventSource
from swink_core.streaming.breaker import Circuits
from swink_core.streaming.builder import MessageBuilder
from swink_core.streaming.retries import CONTENT, Attempts
from swink_core.streaming.watchdog import Watchdog
from swink_core.vocabulary import events as ev
from swink_core.vocabulary.grammar import Automaton
from swink_core.vocabulary.outcome import Cost, StopReason
from swink_core.vocabulary.outcome import StreamErrorKind as Kind

log = logging.getLogger(__name__)

Batch = list[ev.AssistantMessageEvent]


class Run:
    """The state of a call that the stream object and the driving generator share."""

    def __init__(self, call: Call, targets: list[Target], circuits: Circuits) -> None:
        self.call = call
        self.circuits = circuits
        self.targets = targets
        self.builder = MessageBuilder(targets[0].model.provider, targets[0].model.id)
        self.dog = Watchdog(call.clock, self.builder)
        # by name: shared plugins are bound to every target's provider, and observe once
        named = (pair for target in targets for pair in target.binding.observers(call))
        self.observers = list(dict(named).items())
        self.target: Target | None = None  # of the attempt under way
        self.opened: Any = None  # what it reads from, until that is closed
        self.source: EventSource | None = None  # the same, if it is the core's own
        self.events: Callable[[], Awaitable[Batch]] | None = None  # of one that is not
        self.limit = inf  # characters
        self.in_attempt = False  # between its Start and its end
        self.seen = False  # it has handed out content
        self.handed_out = False  # the caller has been given events
        self.buffer = False  # memory ran out: ask for whole answers from now on
        self.unseen = False  # the caller waits for the result and sees nothing before it
        self.parting: Batch = []  # how it ended, where no reader was there to be told
        self.moved: asyncio.Event | None = None  # set for closers when the driver pauses or ends
        self.on_close: Callable[[], Awaitable[None]] | None = None
        call.started_at = call.clock.time()
        self._aim(targets[0])  # a stream that is never read still ends in its provider's terms
        if log.isEnabledFor(logging.DEBUG):
            self.observers.append(("log", lambda event: log.debug("call %s: %r", call.id, event)))
        log.info("call %s: %s begins", call.id, call.model)

    @property
    def ended(self) -> bool:
        return self.builder.terminal is not None

    # -- attempts ----------------------------------------------------------------------------

    async def _begin(self) -> Batch:
        """Wait, open the next attempt, and return what its caller is told before it begins."""
        upcoming = self.attempts.upcoming
        assert upcoming is not None
        if self.call.attempt:
            await self._release()
            # a sleep of nothing still lets the loop close what the attempt left
            await self.call.clock.sleep(upcoming.delay)
        target = self.target = self.targets[upcoming.target]
        self.call.attempt += 1
        self._aim(target)
        self.seen = False
        self.dog.begin_attempt(self.call.options.timeouts)
        self.limit = self.call.options.max_output_chars or inf
        self._open(target)
        told: Batch = self.attempts.passed_over()
        if self.buffer:
            told.append(ev.Notice("buffered", "memory ran out: the answer is asked for whole"))
        return told

    def _end(self, batch: Batch) -> None:
        """Settles what the end of an attempt, the last of these events, is to the caller."""
        terminal: Any = batch[-1]
        self._account(terminal)
        self.dog.end_attempt()
        self.events = None
        if self.target is not None:
            seen = self.seen or any(type(event) in CONTENT for event in batch)
            batch[-1] = self.attempts.ended(self.target, terminal, seen and not self.unseen)
            self.target = None

    def _interrupted(self, reason: Failure | None) -> Batch:
        """Return what a cancellation means; one that is not ours goes on its way."""
        if reason is None:
            raise asyncio.CancelledError
        if self.source is not None and self.source.completed() and reason.code != "closed":
            return self.source.settle()
        return self.cut(reason)

    def _broken(self, error: Exception) -> Batch:
        """Return what an exception means; the source knows best what its input's do."""
        if self.source is not None:
            try:
                return self.source.fail(error)
            except Exception as fault:
                error = fault
        failure = raised(error)
        if failure.code == FAULT:
            self._log_fault(error)
        return self.cut(failure)

    async def _release(self) -> None:
        """Close the source of an attempt, which is over, whatever its plugin says to that."""
        opened, self.opened = self.opened, None
        if opened is not None:
            try:
                await opened.aclose()
            except Exception as error:
                self._log_fault(error)

    def _log_fault(self, error: Exception) -> None:
        provider, trace = self.call.model.provider, self.call.trace(error)
        log.error('the plugin of provider "%s" raised:\n%s', provider, trace)

    def _aim(self, target: Target) -> Call:
        call, hook = self.call, target.binding.hook
        call.model, call.options = target.model, target.options
        call.provider = target.binding.provider
        call.provider_info = target.info or getattr(call.provider, "info", None)
        if self.buffer:
            call.options = evolve(target.options, transport="buffered")
        call.endpoint = call.response_id = call.response_model = call.request_id = None
        call.reported_cost = None
        call.convert_hook, call.classify_hook = hook.convert_messages, hook.classify_error
        if target.options.api_key:
            call.secrets.add(target.options.api_key)
        call.hide(target.options.headers)
        self.in_attempt, self.source = False, None
        return call

    def _open(self, target: Target) -> None:
        call = self.call
        source = target.binding.hook.stream(
            model=call.model, context=call.context, options=call.options, call=call
        )
        if source is None:
            raise TypeError(f'provider "{target.model.provider}" has no stream hook')
        if type(source) is EventSource:
            self.opened = self.source = source
        else:
            self.opened = guarded = self._guard(source, target.model.provider)
            self.events = guarded.__anext__

    async def _guard(self, source: Any, plugin: str) -> AsyncGenerator[Batch, None]:
        """Hold events that others made against the grammar."""
        automaton = Automaton()
        events: AsyncIterator[ev.AssistantMessageEvent] = aiter(source)
        try:
            async for event in events:
                broken = automaton.step(event)
                if broken is not None:
                    yield self.cut(
                        Failure(
                            "streaming",
                            kind=Kind.PROTOCOL,
                            code="grammar",
                            message=f'plugin "{plugin}" broke the event grammar: {broken}',
                        )
                    )
                    return
                yield [event]
                if automaton.phase == "ended":
                    return
        finally:
            close = getattr(events, "aclose", None)
            if close is not None:
                await close()

    def _account(self, terminal: Any) -> None:
        """Add what the attempt took to the call's sums, and prices the terminal event."""
        call = self.call
        if type(terminal) is ev.Error:
            if terminal.title is None:
                call.explain(terminal)
            if terminal.error_kind is Kind.RESOURCE:
                self._free(terminal)
        if terminal.cost is None and call.price_hook is not None:
            terminal.cost = call.price_hook(call.model, terminal.usage)
        if call.reported_cost is not None:
            terminal.cost = terminal.cost or Cost()
            terminal.cost.total = call.reported_cost
        voided = self.source.out.voided if self.source is not None else None
        for usage in (voided, terminal.usage):
            if usage is not None:
                call.usage = usage if call.usage is None else call.usage + usage
        if terminal.cost is not None:
            call.cost = terminal.cost if call.cost is None else call.cost + terminal.cost

    def _free(self, error: ev.Error) -> None:
        """Give back what can be given back before the next attempt."""
        if self.call.http is not None:
            self.call.http.close_idle()
        provider = self.call.provider
        if error.rule == "core:no_memory" and getattr(provider, "buffered", False):
            self.buffer = True

    def cut(self, failure: Failure) -> Batch:
        """Return what ends the attempt from outside: open blocks closed, then the error."""
        batch: Batch = [] if self.in_attempt else [ev.Start()]
        out = self.source.out if self.source is not None else None
        if out is None:
            batch += self.builder.closing_events()
        else:
            # what the parser said last, and signatures that came before their blocks ended
            out.close()
            batch += out.take()
            if out.cost is not None:
                self.call.reported_cost = out.cost
        error = self.call.error(
            failure,
            usage=out.final_usage() if out else None,
            response_id=out.response_id if out else None,
            model=out.model if out else None,
        )
        if failure.kind is Kind.CANCELLED:
            error.stop_reason = StopReason.ABORTED
        batch.append(error)
        return batch

    # -- delivery ----------------------------------------------------------------------------

    async def drive(self) -> AsyncGenerator[Batch, None]:
        """Yield every batch that the caller gets, having shown it to the observers."""
        call, dog, builder = self.call, self.dog, self.builder
        call.started_at = call.clock.time()  # anew: work begins with the first read
        self.attempts = Attempts(call, self.targets, self.circuits)
        try:
            while builder.terminal is None:
                dog.wait()
                source, chars = self.source, builder.chars
                if source is not None:
                    chars += source.out.held
                    if source.out.stop_reason is not None and source.completed():
                        dog.expect_end(SETTLE_SECONDS)
                try:
                    if chars > self.limit:
                        batch = self.cut(too_large(self.limit))
                    elif source is None:
                        batch = await (self.events or self._begin)()
                    elif self.in_attempt:
                        batch = source.take(await source.pull())
                    else:
                        batch = source.begin()
                except asyncio.CancelledError:
                    batch = self._interrupted(dog.recover())
                except Exception as error:
                    batch = self._broken(error)
                if dog.reason is not None:  # the plugin let our cancellation go no further
                    batch = self._interrupted(dog.recover())
                if not batch:
                    dog.back(0)
                    continue
                dog.back(0 if type(batch[0]) is ev.Start else len(batch))
                if type(batch[-1]) in _TERMINAL:
                    self._end(batch)
                self.deliver(batch)
                if self.moved is not None:
                    self.moved.set()
                yield batch
                self.handed_out = True
        finally:
            dog.waiting = None
            dog.stop()
            try:
                await self._release()
            finally:
                try:
                    await self.close()
                finally:
                    if self.moved is not None:
                        self.moved.set()

    async def close(self) -> None:
        """End a call that has not ended, and closes what was opened for it alone."""
        if not self.ended:
            self.parting = self.cut(abandoned())
            self._account(self.parting[-1])
            self.deliver(self.parting)
        if self.on_close is not None:
            on_close, self.on_close = self.on_close, None
            await on_close()

    def deliver(self, batch: Batch) -> None:
        """Show a batch to the observers and folds it into the message."""
        call = self.call
        kind = type(batch[0])
        if kind is ev.Start:
            self.in_attempt = True
        if not self.seen and any(type(event) in CONTENT for event in batch):
            self.seen = True
            if call.first_event_at is None:
                call.first_event_at = call.clock.time()
        if self.observers:
            self._observe(batch)
        self.builder.feed(batch)
        kind = type(batch[-1])
        if kind is ev.Retry:
            self.in_attempt, self.source = False, None
            call.response_id = call.response_model = call.request_id = None
        elif kind in _TERMINAL:
            call.ended_at = call.clock.time()
            _log_end(call, batch[-1])

    def _observe(self, batch: Batch) -> None:
        for entry in list(self.observers):
            name, observer = entry
            try:
                for event in batch:
                    observer(event)
            except Exception as error:
                trace = self.call.trace(error)
                log.error("observer %s raised; it is left out of this call:\n%s", name, trace)
                self.observers.remove(entry)


_TERMINAL = frozenset({ev.Done, ev.Error})


def _log_end(call: Call, terminal: Any) -> None:
    if isinstance(terminal, ev.Done):
        log.info("call %s: %s done: %s", call.id, call.model, terminal.stop_reason)
        return
    level = logging.DEBUG if terminal.stop_reason is StopReason.ABORTED else logging.ERROR
    log.log(
        level,
        "call %s: %s failed: %s: %s",
        call.id,
        call.model,
        terminal.error_kind,
        terminal.error_message,
    )
