"""`EventStream`: what callers iterate. Drives the attempts and keeps the promises of every stream.

    attempts ── batches ──> deliver: observers, builder ──> the caller

* The caller pulls; nothing is read ahead and nothing per event crosses a task.
* Exactly one terminal event reaches the observers and the message, however the stream ends: by
  itself, by `aclose()` from any task, by a cancelled task, by `break` and garbage collection.
* The driving generator holds `_Run`, never the `EventStream`, so that a forgotten stream is
  collected at once and its connection closed by the event loop's generator hooks.
"""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing
from types import TracebackType
from typing import Any, Self

from attrs import define

from swink_core import events as ev
from swink_core.builder import MessageBuilder
from swink_core.call import Call
from swink_core.errors import Failure, StreamError
from swink_core.host import Binding
from swink_core.messages import AssistantMessage
from swink_core.model import Model, ProviderInfo, StreamOptions
from swink_core.outcome import Cost, StopReason
from swink_core.outcome import StreamErrorKind as Kind
from swink_core.protocol import Automaton
from swink_core.retry import RetryPlan, attempts
from swink_core.source import EventSource
from swink_core.watchdog import Watchdog

__all__ = ["EventStream", "Target"]

log = logging.getLogger(__name__)

Batch = list[ev.AssistantMessageEvent]


@define
class Target:
    """One model of a fallback chain, ready to be called."""

    model: Model
    options: StreamOptions
    binding: Binding
    info: ProviderInfo | None


class _Run:
    """The state of a call that the stream object and the driving generator share."""

    def __init__(self, call: Call, targets: list[Target]) -> None:
        self.call = call
        self.targets = targets
        self.builder = MessageBuilder(targets[0].model.provider, targets[0].model.id)
        self.dog = Watchdog(call.clock, lambda: self.builder.chars)
        self.observers = [
            observer for target in targets[:1] for observer in target.binding.observers(call)
        ]
        self.source: Any = None
        self.in_attempt = False
        self.handed_out = False  # the caller has been given events
        self.unseen = False  # the caller waits for the result and sees nothing before it
        self.left: asyncio.Future[None] | None = None
        call.started_at = call.clock.time()

    @property
    def ended(self) -> bool:
        return self.builder.terminal is not None

    # -- attempts ----------------------------------------------------------------------------

    async def attempt(self, number: int) -> AsyncGenerator[Batch, None]:
        """Makes one attempt; always ends with a terminal event unless cancelled by others."""
        call = self._aim(self.targets[number])
        self.dog.begin_attempt(call.options.timeouts)
        try:
            batches = self._open(self.targets[number])
        except Exception as error:
            yield self._cut(_fault(error, "a stream hook raised"))
            return
        step = batches.__anext__
        limit = call.options.max_output_chars
        async with aclosing(batches):
            while True:
                try:
                    batch = await step()
                except StopAsyncIteration:
                    batch = self._cut(_missing_terminal())
                except asyncio.CancelledError:
                    reason = self.dog.recover()
                    if reason is None:
                        raise
                    batch = self._cut(reason)
                except Exception as error:
                    batch = self._cut(_fault(error, "the provider's plugin raised"))
                terminal = batch[-1] if batch else None
                if type(terminal) in _TERMINAL:
                    self._account(terminal)
                    yield batch
                    return
                yield batch
                if limit is not None and self.builder.chars > limit:
                    large = self._cut(_too_large(limit))
                    self._account(large[-1])
                    yield large
                    return

    def _aim(self, target: Target) -> Call:
        call, hook = self.call, target.binding.hook
        call.model, call.options, call.provider_info = target.model, target.options, target.info
        call.endpoint = call.response_id = call.response_model = call.request_id = None
        call.reported_cost = None
        call.convert_hook, call.classify_hook = hook.convert_messages, hook.classify_error
        if target.options.api_key:
            call.secrets.add(target.options.api_key)
        call.hide(target.options.headers)
        self.in_attempt, self.source = False, None
        return call

    def _open(self, target: Target) -> AsyncGenerator[Batch, None]:
        call = self.call
        source = target.binding.hook.stream(
            model=call.model, context=call.context, options=call.options, call=call
        )
        self.source = source
        if isinstance(source, EventSource):
            return source.batches()
        if source is None:
            raise TypeError(f'provider "{target.model.provider}" has no stream hook')
        return self._guard(source, target.model.provider)

    async def _guard(self, source: Any, plugin: str) -> AsyncGenerator[Batch, None]:
        """Holds events that others made against the grammar."""
        automaton = Automaton()
        events: AsyncIterator[ev.AssistantMessageEvent] = aiter(source)
        try:
            async for event in events:
                broken = automaton.step(event)
                if broken is not None:
                    yield self._cut(
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
        """Adds what the attempt took to the call's sums, and prices the terminal event."""
        call = self.call
        if terminal.cost is None and call.price_hook is not None:
            terminal.cost = call.price_hook(call.model, terminal.usage)
        if call.reported_cost is not None:
            terminal.cost = terminal.cost or Cost()
            terminal.cost.total = call.reported_cost
        if terminal.usage is not None:
            call.usage = terminal.usage if call.usage is None else call.usage + terminal.usage
        if terminal.cost is not None:
            call.cost = terminal.cost if call.cost is None else call.cost + terminal.cost

    def _cut(self, failure: Failure) -> Batch:
        """Returns what ends the attempt from outside: open blocks closed, then the error."""
        batch: Batch = [] if self.in_attempt else [ev.Start()]
        batch += self.builder.closing_events()
        out = getattr(self.source, "out", None) if type(self.source) is EventSource else None
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
        """Yields every batch that the caller gets, having shown it to the observers."""
        policies = [target.options.retry for target in self.targets]
        names = [str(target.model) for target in self.targets]
        inner = attempts(
            self.call, names, RetryPlan(policies), policies, self.attempt, lambda: self.unseen
        )
        dog, step = self.dog, inner.__anext__
        try:
            async with aclosing(inner):
                while not self.ended:
                    dog.wait()
                    try:
                        batch = await step()
                    except asyncio.CancelledError:
                        reason = dog.recover()
                        if reason is None:
                            raise
                        batch = self._cut(reason)
                        self._account(batch[-1])
                    except StopAsyncIteration:
                        return
                    if not batch:
                        dog.back(0)
                        continue
                    dog.back(0 if type(batch[0]) is ev.Start else len(batch))
                    self.deliver(batch)
                    if self.left is not None and not self.left.done():
                        self.left.set_result(None)
                    yield batch
                    self.handed_out = True
        finally:
            dog.waiting = None
            dog.stop()
            if not self.ended:
                batch = self._cut(_abandoned())
                self._account(batch[-1])
                self.deliver(batch)

    def deliver(self, batch: Batch) -> None:
        """Shows a batch to the observers and folds it into the message."""
        call = self.call
        kind = type(batch[0])
        if kind is ev.Start:
            self.in_attempt = True
        if call.first_event_at is None and (kind is not ev.Start or len(batch) > 1):
            call.first_event_at = call.clock.time()
        if self.observers:
            self._observe(batch)
        self.builder.feed(batch)
        kind = type(batch[-1])
        if kind is ev.Retry:
            self.in_attempt = False
        elif kind in _TERMINAL:
            call.ended_at = call.clock.time()
            _log_end(call, batch[-1])

    def _observe(self, batch: Batch) -> None:
        for entry in list(self.observers):
            name, observer = entry
            try:
                for event in batch:
                    observer(event)
            except Exception:
                log.exception("observer %s raised; it is left out for the rest of the call", name)
                self.observers.remove(entry)


class EventStream:
    """The events of a call, in order, ending with exactly one `Done` or `Error`.

        async with client.stream("acme/large", "Why?") as stream:
            async for event in stream: ...
        print(stream.message.text)

    Leaving the `async with` closes the connection. `call` tells what is known of the call;
    `message` is what has arrived so far, at any time, also after a failure.
    """

    def __init__(self, call: Call, targets: list[Target], on_close: Any = None) -> None:
        self._run = _Run(call, targets)
        self._driver: AsyncGenerator[Batch, None] | None = None
        self._rest: Iterator[ev.AssistantMessageEvent] = iter(())
        self._closed = False
        self._on_close = on_close

    @property
    def call(self) -> Call:
        """The call: its id, attempts, times, usage and cost over all attempts."""
        return self._run.call

    @property
    def message(self) -> AssistantMessage:
        """What has arrived so far; complete after the terminal event."""
        builder = self._run.builder
        if builder.terminal is None:
            builder.response_id = self.call.response_id
            builder.request_id = self.call.request_id
        return builder.message

    async def batches(self) -> AsyncGenerator[list[ev.AssistantMessageEvent], None]:
        """This will yield the events of one network read at a time, as lists."""
        rest = list(self._rest)
        if rest:
            yield rest
        step = self._start()
        while True:
            self._check_reader()
            try:
                batch = await step()
            except StopAsyncIteration:
                return
            yield batch

    def __aiter__(self) -> AsyncGenerator[ev.AssistantMessageEvent, None]:
        return self._iterate()

    async def _iterate(self) -> AsyncGenerator[ev.AssistantMessageEvent, None]:
        # the iterator over a batch is kept on the stream: a loop left by break can be resumed
        for event in self._rest:
            yield event
        step = self._start()
        while True:
            self._check_reader()
            try:
                batch = await step()
            except StopAsyncIteration:
                return
            self._rest = iter(batch)
            for event in self._rest:
                yield event

    async def result(self) -> AssistantMessage:
        """This will read to the end and return the message.

        A dropped stream is begun again, within the retry policy, if no events were handed out
        before. Raises the `StreamError` of the failure's kind; its `partial` holds what came.
        """
        if not self._run.handed_out:
            self._run.unseen = True
        async for _ in self.batches():
            pass
        await self._finish()
        terminal = self._run.builder.terminal
        if isinstance(terminal, ev.Error):
            raise self._error(terminal)
        return self.message

    async def aclose(self) -> None:
        """This will close the connection at once, from any task; a second call does nothing.

        A task that is reading gets `Error(aborted)` and reaches the end of its loop.
        """
        run = self._run
        if self._driver is None:
            self._start()  # a stream never read still tells its observers how it ended
        if run.dog.waiting is not None:
            run.left = asyncio.get_running_loop().create_future()
            if run.dog.interrupt(_abandoned()):
                await run.left
        await self._finish()

    async def _finish(self) -> None:
        assert self._driver is not None
        self._closed = True
        await self._driver.aclose()
        if not self._run.ended:  # closed before the first read
            self._run.deliver(self._run._cut(_abandoned()))
        if self._on_close is not None:
            close, self._on_close = self._on_close, None
            await close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        run = getattr(self, "_run", None)
        if run is not None and self._driver is not None and not (self._closed or run.ended):
            warnings.warn(
                f"a stream of {run.call.model} was left unread and unclosed; use async with",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )

    def _start(self) -> Any:
        if self._driver is None:
            self._driver = self._run.drive()
        return self._driver.__anext__

    def _check_reader(self) -> None:
        if self._run.dog.waiting is not None:
            raise RuntimeError("the stream is being read by another task")

    def _error(self, event: ev.Error) -> StreamError:
        call = self.call
        kind = event.error_kind or Kind.UNKNOWN
        retryable = bool(call.options.retry.retries.get(kind)) and event.rule != "core:total"
        end = call.ended_at if call.ended_at is not None else call.clock.time()
        return StreamError.for_kind(kind)(
            event.error_message,
            title=event.title,
            resolution=event.resolution or "",
            kind=kind,
            phase=event.phase,
            provider=call.model.provider,
            model=str(call.model),
            attempts=call.attempt,
            elapsed=end - call.started_at,
            status=event.status,
            request_id=event.request_id,
            retry_after=event.retry_after,
            retryable=retryable,
            rule=event.rule,
            partial=self.message,
        )


_TERMINAL = frozenset({ev.Done, ev.Error})


def _fault(error: Exception, what: str) -> Failure:
    log.error("%s", what, exc_info=error)
    message = f"{what}: {type(error).__name__}: {error}"
    return Failure("streaming", kind=Kind.INTERNAL, code="plugin", message=message, exception=error)


def _missing_terminal() -> Failure:
    return Failure(
        "streaming",
        kind=Kind.NETWORK,
        code="cut",
        message="the stream ended without a terminal event",
    )


def _too_large(limit: int) -> Failure:
    return Failure(
        "streaming",
        kind=Kind.OUTPUT_TOO_LARGE,
        code="size",
        message=f"the answer passed {limit} characters",
    )


def _abandoned() -> Failure:
    return Failure("streaming", kind=Kind.CANCELLED, code="closed", message="closed by the caller")


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
