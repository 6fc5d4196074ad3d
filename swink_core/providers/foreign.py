"""`ForeignSource`: events produced by plugins, checked for the allowed order of events.

`ForeignSource` is used if the `stream` hook returned an iterator of events that is not the core's
`EventSource`. If the iterator has the method `batches()`, `ForeignSource` reads lists of events
from that method. If a plugin's iterator wraps the core's source, all events of one network read are
collected and delivered together, unless the iterator waits in between. Delivering each event
separately would take as much time as a network read.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from functools import partial
from types import coroutine
from typing import Any

from swink_core.failures.exceptions import ProviderFailure
from swink_core.failures.failure import Failure
from swink_core.failures.faults import not_events
from swink_core.plugins.call import Call
from swink_core.providers.source import EventSource, Source
from swink_core.vocabulary import events as ev
from swink_core.vocabulary.grammar import TERMINAL, Automaton
from swink_core.vocabulary.outcome import INVALID_COST, MOST_TOKENS, TOKENS, sound_cost
from swink_core.vocabulary.outcome import StreamErrorKind as Kind
from swink_core.vocabulary.structs import replace

Batch = list[ev.Event]


class ForeignSource:
    """The events of an attempt, produced by a plugin; `plugin` is the plugin's name."""

    completed = False
    """Always `False`, because swink learns only from `Done` that a plugin's answer is complete."""

    def __init__(self, call: Call, events: Any, plugin: str) -> None:
        batches = getattr(events, "batches", None)
        iterator = aiter(events) if batches is None else batches()
        self._next: Callable[[], Awaitable[Any]] = iterator.__anext__
        self.pull = self._gather if batches is None else self._next
        self._made: list[Any] = []
        self._raised: Exception | SystemExit | None = None
        self._waits = False
        self.kept = 0
        self._close = getattr(iterator, "aclose", None)
        self._call = call
        self._plugin = plugin
        self._automaton = Automaton()

    @property
    def discarded(self) -> int:
        """The size of answers that a `Retry` of the plugin discarded, in characters."""
        return self._automaton.discarded

    def begin(self) -> Batch:
        """Return no events, because the plugin produces the first event itself."""
        return []

    async def _gather(self) -> list[Any]:
        """Return the plugin's events from one network read, or until the plugin waits."""
        if self._raised is not None:
            raise self._raised
        made = self._made
        made.append(await self._next())
        while self._call.attempt.has_rest and not self._waits:
            step = self._next().__await__()
            try:
                waiting = step.send(None)
            except StopIteration as done:
                made.append(done.value)
            except (Exception, SystemExit) as error:
                self._raised = error
                break
            else:  # from now on each event is delivered on its own
                self._waits = True
                made.append(await _resumed(step, waiting))
        return made

    def take(self, made: Any) -> Batch:
        """Return the plugin's events, up to the first event that violates the order of events."""
        self._made = []
        batch: Batch = [*self._call.attempt.take_notices()]
        for event in made:
            broken = self._automaton.step(event)
            if broken is not None:
                return batch + self._against(broken)
            self.kept = self._automaton.kept
            if type(event) in TERMINAL:
                return batch + _counted(event)
            batch.append(event)
        return batch

    def fail(self, error: Exception) -> Batch:
        """Return the last events of an attempt whose iterator ended without a terminal event.

        If `error` is StopAsyncIteration, the iterator has ended normally. Any other exception is
        raised again.
        """
        if isinstance(error, StopAsyncIteration):
            return self.settle()
        raise error

    def _against(self, broken: str) -> Batch:
        message = f'plugin "{self._plugin}" violated the event protocol: {broken}'
        return self.cut(Failure("streaming", kind=Kind.PROTOCOL, code="grammar", message=message))

    def cut(self, failure: Failure) -> Batch:
        """Return the last events after a failure outside the plugin.

        They are the end events of open blocks and the `Error` event.
        """
        if self._made:  # a wait for more events was cancelled
            batch = self.take(self._made)
            return batch if type(batch[-1]) in TERMINAL else batch + self.cut(failure)
        start: Batch = [ev.Start()] if self._automaton.phase == "before" else []
        error = self._call.error(failure, self._call.attempt.usage)
        return [*start, *self._automaton.closing(), error]

    def settle(self) -> Batch:
        """End the attempt with an error, because the plugin's last event was not `Done` or `Error`.

        Without `Done`, the answer may be incomplete.
        """
        return self._against("the stream ended without Done or Error")

    async def aclose(self) -> None:
        """Close the plugin's iterator."""
        if self._close is not None:
            await self._close()


def _counted(end: Any) -> Batch:
    """Return a terminal event without invalid amounts, after a notice for each of them.

    Such an amount would make the sums of the client wrong, and its limits useless.
    """
    notices: Batch = []
    usage, cost = end.usage, end.cost
    for name in TOKENS if usage is not None else ():
        tokens = getattr(usage, name)
        if tokens is not None and not (type(tokens) is int and 0 <= tokens <= MOST_TOKENS):
            usage = replace(usage, **{name: None})
            notices.append(ev.Notice("usage", f"the usage of {name} tokens is not a valid count"))
    if cost is not None:
        cost, wrong = sound_cost(cost)
        notices += [ev.Notice("usage", INVALID_COST.format(name)) for name in wrong]
    return [*notices, replace(end, usage=usage, cost=cost) if notices else end]


@coroutine
def _resumed(step: Generator[Any, Any, Any], waiting: Any) -> Generator[Any, Any, Any]:
    """Continue the coroutine `step` in a task.

    The coroutine was begun outside the task, and is now waiting for `waiting`.
    """
    while True:
        try:
            sent = yield waiting
        except BaseException as error:
            go_on = partial(step.throw, error)
        else:
            go_on = partial(step.send, sent)
        try:
            waiting = go_on()
        except StopIteration as done:
            return done.value


def open_source(call: Call) -> Source:
    """Return the event source of the call's current attempt, from the hook `stream`.

    Exceptions of the hook are passed on. Raises ProviderFailure (`internal`) if the result is not
    an async iterator.
    """
    attempt = call.attempt
    target = attempt.target
    binding = target.binding
    made = binding.first_result(
        "stream", model=target.model, context=call.context, options=attempt.options, call=call
    )
    if not hasattr(made, "__aiter__") and not hasattr(made, "batches"):
        raise ProviderFailure(not_events(binding.maker(made), made))
    if type(made) is EventSource:
        return made
    return ForeignSource(call, made, binding.maker(made))
