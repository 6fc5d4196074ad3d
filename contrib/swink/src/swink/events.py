"""The events that a tool loop adds to those of the turns: start and end of runs, turns and tools.

    run  = RunStart *turn RunEnd
    turn = TurnStart *(the events of its stream) TurnEnd *ToolStart *ToolEnd

An observer receives these events through `on_event` if its plugin sets `other_events = True`. With
each event it receives the turn's call, even if this call has not begun or has ended. `run_id`
is the same on all events of a run. A run that is closed early has a `RunEnd`, too. Observers
receive a `ToolStart` in the context (of `contextvars`) in which the tool runs.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from swink_core import (
    AssistantMessageEvent,
    Cost,
    Event,
    StopReason,
    ToolCallBlock,
    ToolResultMessage,
    Usage,
)

__all__ = [
    "Outcome",
    "RunEnd",
    "RunEvent",
    "RunStart",
    "ToolEnd",
    "ToolStart",
    "TurnEnd",
    "TurnStart",
]

Outcome: TypeAlias = Literal["done", "paused", "max_turns", "error", "aborted"]
"""How a run ended.

`done`: the model has answered. `paused`: tool calls wait for approval. `max_turns`: the run has
reached its limit of turns. `error`: a call failed, or the answer does not fit its type. `aborted`:
the run was closed.
"""


class RunStart(AssistantMessageEvent, tag="run_start"):
    """A run begins; `tools` contains the names of the available tools."""

    run_id: str
    tools: tuple[str, ...] = ()


class TurnStart(AssistantMessageEvent, tag="turn_start"):
    """A turn (a call of the model) begins; the first turn has the number 1."""

    run_id: str
    turn: int


class TurnEnd(AssistantMessageEvent, tag="turn_end"):
    """The model has answered in this turn; its tool calls are carried out next."""

    run_id: str
    turn: int
    stop_reason: StopReason


class ToolStart(AssistantMessageEvent, tag="tool_start"):
    """A tool begins, or waits for approval."""

    run_id: str
    turn: int
    tool_call: ToolCallBlock


class ToolEnd(AssistantMessageEvent, tag="tool_end"):
    """A tool has ended; the event contains the seconds it took and the result for the model."""

    run_id: str
    turn: int
    tool_call: ToolCallBlock
    result: ToolResultMessage
    seconds: float


class RunEnd(AssistantMessageEvent, tag="run_end"):
    """A run has ended. `usage` and `cost` are sums over all attempts of all calls in the run."""

    run_id: str
    turns: int
    outcome: Outcome
    usage: Usage | None = None
    cost: Cost | None = None


RunEvent: TypeAlias = Event | RunStart | TurnStart | TurnEnd | ToolStart | ToolEnd | RunEnd
"""All events of a run, as a union: type checkers can verify that a `match` is exhaustive."""
