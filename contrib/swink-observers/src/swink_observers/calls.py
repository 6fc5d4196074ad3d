"""A base class for observers that have a state object for each running call.

    class Streams(CallObserver[Stream]):
        def watch(self, call: swink.Call) -> Stream | None:
            return Stream()

An observer is called for every delta of every call, tens of thousands of times per second.
Therefore this class does only a few lookups for each delta, and calls `chunk` only for the first
delta of each network read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeAlias, TypeVar, get_args

import swink_core as swink

__all__ = ["EVENTS", "CallObserver", "CallState", "Delta", "Taken"]

Delta: TypeAlias = swink.TextDelta | swink.ThinkingDelta | swink.ToolCallDelta

TOKENS = ("input", "output", "cache_read", "cache_write", "reasoning")
"""The counts of a `Usage` that are summed.

`input` includes the cached tokens, `output` the reasoning.
"""

CACHE_HIT = "cache_hit"
"""The code of the notice that an answer came from a cache and costs nothing."""

EVENTS = frozenset(get_args(swink.Event))
"""The event classes of a call's stream. Events of other classes may belong to no running call."""

_DELTAS = frozenset(get_args(Delta))
_TERMINAL = frozenset({swink.Done, swink.Error})


class CallState:
    """The state of one running call.

    If `deltas` is true when the state is created, `delta` is called for each delta. `cached`
    becomes true if the answer came from a cache.
    """

    def __init__(self) -> None:
        self.deltas = False
        self.cached = False
        self.reads = 0  # the attempt's number of network reads when `chunk` was last called
        self.enough: int | None = None  # equals `reads` if `chunk` needs no more of this read
        self._before = Taken()

    def chunk(self, call: swink.Call) -> None:
        """Process a chunk, which consists of all deltas of one network read.

        If a provider does not read from a network, each delta is a separate chunk.
        """

    def delta(self, event: Delta, call: swink.Call) -> None:
        """Process a delta; called if `deltas` is true."""

    def event(self, event: swink.AssistantMessageEvent, call: swink.Call) -> None:
        """Process an event other than a delta."""

    def taken(self, call: swink.Call) -> Taken:
        """Return the usage and cost since the last call of this method; zero for a cached answer.

        If the method is called for a `Retry`, `Done` or `Error` event, the result is the usage of
        the attempt that this event ends.
        """
        before, now = self._before, Taken()
        for name in TOKENS:
            now.tokens[name] = getattr(call.usage, name, None) or 0
        now.cost = (call.cost.known if call.cost else None) or 0.0
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
    """The token counts and the cost of attempts.

    `tokens` maps names of `Usage` fields to counts, without unknown counts and zeros. The cost is
    in US dollars; if the total of an attempt is unknown, its known parts count. `estimated` is true
    if the provider reported no final usage, so that `cost` is an estimate.
    """

    def __init__(self) -> None:
        self.tokens: dict[str, int] = {}
        self.cost = 0.0
        self.estimated = False


State = TypeVar("State", bound=CallState)


class CallObserver(ABC, Generic[State]):
    """An observer that passes the events of each call to a state object, which `watch` creates."""

    def __init__(self) -> None:
        self._running: dict[str, State | None] = {}

    @abstractmethod
    def watch(self, call: swink.Call) -> State | None:
        """Create the state of a call before its first event; return `None` to ignore the call."""

    def other(self, event: swink.AssistantMessageEvent, call: swink.Call) -> None:
        """Process an event that the core does not define, such as a tool loop's event.

        This method is called only if `other_events` is true.
        """

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
            return  # most deltas end here
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
                    state.delta(event, call)  # type: ignore[arg-type]  # it is of this type
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
