"""`ForeignSource`: events that something else than the core made, held to the grammar.

It stands where an `EventSource` would, for a hand-written `stream` hook, an iterator that a wrapper
put around another, or whatever else a plugin hands over. What has a `batches()` is asked for its
events a list at a time, so that wrapping a source need not cost its batches.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from swink_core.failures.failure import Failure
from swink_core.plugins.call import Call
from swink_core.providers.open_blocks import kept_of
from swink_core.providers.source import EventSource
from swink_core.vocabulary import events as ev
from swink_core.vocabulary.grammar import Automaton
from swink_core.vocabulary.outcome import StreamErrorKind as Kind

Batch = list[ev.AssistantMessageEvent]


class ForeignSource:
    """The events of one attempt, made by others; `plugin` is who is named if they break a rule."""

    voided = None
    completed = staticmethod(lambda: False)

    def __init__(self, call: Call, events: Any, plugin: str) -> None:
        batches = getattr(events, "batches", None)
        self._batched = batches is not None
        iterator = aiter(events) if batches is None else batches()
        self.pull: Callable[[], Awaitable[Any]] = iterator.__anext__
        self.ended = False
        self.kept = 0
        self._close = getattr(iterator, "aclose", None)
        self._call = call
        self._plugin = plugin
        self._automaton = Automaton()

    def begin(self) -> Batch:
        """Return no events: the first one, too, is theirs to make."""
        return []

    def take(self, made: Any) -> Batch:
        """Return the events that they made, up to the first that is against the rules."""
        batch: Batch = [*self._call.attempt.take_notices()]
        for event in made if self._batched else (made,):
            broken = self._automaton.step(event)
            if broken is not None:
                message = f'plugin "{self._plugin}" broke the event grammar: {broken}'
                failure = Failure("streaming", kind=Kind.PROTOCOL, code="grammar", message=message)
                return batch + self.cut(failure)
            batch.append(event)
            self.kept = 0 if type(event) is ev.Retry else self.kept + kept_of(event)
            if self._automaton.phase == "ended":
                self.ended = True
                break
        return batch

    def fail(self, error: Exception) -> Batch:
        """Raise it: nothing is known of their iterator that would tell more."""
        raise error

    def cut(self, failure: Failure) -> Batch:
        """Return what ends the attempt from outside: open blocks closed, then the error."""
        self.ended = True
        start: Batch = [ev.Start()] if self._automaton.phase == "before" else []
        return [
            *start,
            *self._automaton.closing(),
            self._call.error(failure, self._call.attempt.usage),
        ]

    async def aclose(self) -> None:
        """Close their iterator."""
        if self._close is not None:
            await self._close()


def open_source(call: Call) -> EventSource | ForeignSource:
    """Return the source of the attempt that a call turned to. Raises what the hook raises."""
    attempt = call.attempt
    binding = attempt.target.binding
    made = binding.hook.stream(
        model=attempt.model, context=call.context, options=attempt.options, call=call
    )
    if made is None:
        raise TypeError(f'provider "{binding.name}" has no stream hook')
    if type(made) is EventSource:
        return made
    return ForeignSource(call, made, binding.maker(made))
