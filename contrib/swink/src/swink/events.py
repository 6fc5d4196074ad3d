"""Events that a tool loop adds to those of its turns: start and end of runs, turns and tools.

    run  = RunStart *turn RunEnd
    turn = TurnStart *(the events of its stream) TurnEnd *ToolStart *ToolEnd

An observer receives them through `on_event` if its plugin sets `other_events = True`, each with the
call of its turn, which has not begun yet or has ended. `run_id` is the same on all events of a run.
If a run is left early, its `RunEnd` says so. Observers receive a `ToolStart` in the context (of
`contextvars`) in which the tool runs.
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
"""How a run ended: with an answer, to wait for approvals, at its limit of turns, with an error (a
failed call, or an answer that does not fit its type), or because it was closed."""


class RunStart(AssistantMessageEvent, tag="run_start"):
    """A run begins; `tools` names what is on offer."""

    run_id: str
    tools: tuple[str, ...] = ()


class TurnStart(AssistantMessageEvent, tag="turn_start"):
    """A turn begins, counted from 1: one call of the model."""

    run_id: str
    turn: int


class TurnEnd(AssistantMessageEvent, tag="turn_end"):
    """The model's part of a turn is over; its tool calls are carried out next."""

    run_id: str
    turn: int
    stop_reason: StopReason


class ToolStart(AssistantMessageEvent, tag="tool_start"):
    """A tool begins, or waits for its approval."""

    run_id: str
    turn: int
    tool_call: ToolCallBlock


class ToolEnd(AssistantMessageEvent, tag="tool_end"):
    """A tool has ended after some seconds, with the result for the model."""

    run_id: str
    turn: int
    tool_call: ToolCallBlock
    result: ToolResultMessage
    seconds: float


class RunEnd(AssistantMessageEvent, tag="run_end"):
    """A run is over. `usage` and `cost` sum all attempts of all its calls."""

    run_id: str
    turns: int
    outcome: Outcome
    usage: Usage | None = None
    cost: Cost | None = None


RunEvent: TypeAlias = Event | RunStart | TurnStart | TurnEnd | ToolStart | ToolEnd | RunEnd
"""Every event of a run, so that a `match` can be seen to leave none out."""
