"""A base class for observers with a state for each running call.

    class Streams(CallObserver[Stream]):
        def watch(self, call: swink.Call) -> Stream | None:
            return Stream()

An observer is called for every delta of every call, tens of thousands in a second. So a delta
costs a few lookups here, and what is to be done for it is done once for each chunk: for the first
of those that came with one network read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeAlias, TypeVar, get_args

import swink_core as swink

__all__ = ["EVENTS", "CallObserver", "CallState", "Delta", "Taken"]

Delta: TypeAlias = swink.TextDelta | swink.ThinkingDelta | swink.ToolCallDelta

TOKENS = ("input", "output", "cache_read", "cache_write", "reasoning")
"""The counts of a `Usage` that are summed; those after `output` are parts of the first two."""

CACHE_HIT = "cache_hit"
"""The notice of a cached answer, which costs nothing."""

EVENTS = frozenset(get_args(swink.Event))
"""The event classes of a stream; other events may belong to calls that are not running."""

_DELTAS = frozenset({swink.TextDelta, swink.ThinkingDelta, swink.ToolCallDelta})
_TERMINAL = frozenset({swink.Done, swink.Error})


class CallState:
    """The state of one running call.

    `deltas` set true, as the state is made, has `delta` called for each delta. `cached` turns true
    where the answer came from a cache.
    """

    def __init__(self) -> None:
        self.deltas = False
        self.cached = False
        self.reads = 0  # of the attempt, when its last chunk came
        self.enough: int | None = None  # the same, where no more of that chunk is wanted
        self._before = Taken()

    def chunk(self, call: swink.Call) -> None:
        """Take note that more of the answer came, in one network read.

        Where a provider does not read from a network, each delta is a chunk.
        """

    def delta(self, event: Delta, call: swink.Call) -> None:
        """Take a delta, where `deltas` asks for them."""

    def event(self, event: swink.AssistantMessageEvent, call: swink.Call) -> None:
        """Handle an event other than a delta."""

    def taken(self, call: swink.Call) -> Taken:
        """Return the usage and cost since the last call of this method; zero for a cached answer.

        With a `Retry`, `Done` or `Error` in hand, that is what the attempt took which it ends.
        """
        before, now = self._before, Taken()
        for name in TOKENS:
            now.tokens[name] = getattr(call.usage, name, None) or 0
        now.cost = (call.cost.total if call.cost else None) or 0.0
        self._before = now
        since = Taken()
        if not self.cached:
            since.cost = max(now.cost - before.cost, 0.0)
            since.estimated = call.attempt.charge.estimated
            for name, count in now.tokens.items():
                if count > before.tokens.get(name, 0):
                    since.tokens[name] = count - before.tokens.get(name, 0)
        return since


class Taken:
    """Tokens by their names in `Usage`, those that are known and not 0, and US dollars.

    `estimated`: the provider reported no final usage, so that `cost` is an estimate.
    """

    def __init__(self) -> None:
        self.tokens: dict[str, int] = {}
        self.cost = 0.0
        self.estimated = False


State = TypeVar("State", bound=CallState)


class CallObserver(ABC, Generic[State]):
    """An observer whose `watch` creates a state for each call, which receives its events."""

    def __init__(self) -> None:
        self._running: dict[str, State | None] = {}

    @abstractmethod
    def watch(self, call: swink.Call) -> State | None:
        """Create the state of a call before its first event; return `None` to ignore the call."""

    def other(self, event: swink.AssistantMessageEvent, call: swink.Call) -> None:
        """Take an event of a library above the core, where `other_events = True` asks for them."""

    @swink.hookimpl
    def on_event(self, event: swink.AssistantMessageEvent, call: swink.Call) -> None:
        """Pass an event to the state of the call."""
        running = self._running
        try:
            state = running[call.id]
        except KeyError:
            if type(event) not in EVENTS:
                self.other(event, call)
                return
            state = running[call.id] = self.watch(call)
        kind = type(event)
        if state is not None and state.enough == call.attempt.reads and kind in _DELTAS:
            return  # as most of them do
        try:
            if state is None:
                pass
            elif kind in _DELTAS:
                reads = call.attempt.reads
                if reads != state.reads or not reads:
                    state.reads = reads
                    state.chunk(call)
                    state.enough = reads if reads and not state.deltas else None
                if state.deltas:
                    state.delta(event, call)  # type: ignore[arg-type]  # it is of that type
            else:
                if kind is swink.Start:
                    state.reads, state.enough = 0, None
                elif type(event) is swink.Notice and event.code == CACHE_HIT:
                    state.cached = True
                state.event(event, call)
        except BaseException:
            del running[call.id]  # an observer that raised gets no further events of the call
            raise
        if kind in _TERMINAL:
            del running[call.id]
