"""Decisions on tool calls, made while a run waits or after it has been paused and stored.

A run that waits for a decision ends as a `PausedRun`. A paused run is data: `dump` converts it to
JSON, and `load` reads the JSON, also in another process. `Client.run` continues the run once each
tool call has a decision.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from typing import Any, Final, Literal, TypeAlias

import msgspec

from swink_core import (
    AssistantMessage,
    Block,
    Charge,
    Context,
    Conversation,
    Cost,
    SwinkError,
    ToolCallBlock,
    ToolResultMessage,
    Usage,
    UsageError,
)

__all__ = ["PAUSE", "Approve", "Decision", "PausedRun", "RunPaused", "context_after"]


class _Verdict(Enum):
    PAUSE = "pause"

    def __repr__(self) -> str:
        return "swink.PAUSE"


PAUSE: Final = _Verdict.PAUSE
"""Returned by `approve` to pause the run until the tool call is allowed or refused."""

Verdict: TypeAlias = bool | str | Literal[_Verdict.PAUSE]

Approve: TypeAlias = Callable[[ToolCallBlock], Verdict | Awaitable[Verdict]]
"""A function that decides whether a tool call may be carried out.

`True` allows the call, `False` refuses it, a string refuses it and is sent to the model as the
reason, and `PAUSE` pauses the run.
"""


class Decision(msgspec.Struct, omit_defaults=True):
    """A decision on a tool call. `arguments` replace those of the model (`None`: unchanged)."""

    approved: bool
    reason: str | None = None
    arguments: dict[str, Any] | None = None


class PausedRun(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A run that waits for decisions on tool calls.

    `messages` is the conversation before the model's `answer`, which contains the calls; `results`
    are the results of those calls that needed no decision. `turn` is the number of turns so far,
    `usage`, `cost` and `spent` are sums over these turns. `spent` is the amount that counts toward
    limits; it includes estimates of usage that a provider did not report (`None`: computed from
    `usage` and `cost`).
    """

    messages: Conversation
    answer: AssistantMessage
    results: list[ToolResultMessage] = []
    decisions: dict[str, Decision] = {}
    system_prompt: str | list[Block] | None = None
    turn: int = 1
    usage: Usage | None = None
    cost: Cost | None = None
    spent: Charge | None = None

    @property
    def pending(self) -> list[ToolCallBlock]:
        """The calls without a decision, in order."""
        settled = {*self.decisions, *(each.tool_call_id for each in self.results)}
        return [call for call in self.answer.tool_calls if call.id not in settled]

    @property
    def charge(self) -> Charge:
        """The tokens and the cost of the run so far; the cost is `None` if no price is known."""
        if self.spent is not None:
            return self.spent
        usage = self.usage if self.usage is not None else Usage()
        cost = self.cost if self.cost is not None else Cost()
        parts = (usage.input or 0) + (usage.output or 0)
        return Charge(max(usage.total or 0, parts), cost.known, cost.estimated)

    def approve(
        self, call: ToolCallBlock | str, *, arguments: Mapping[str, Any] | None = None
    ) -> None:
        """Allow a call, given as an object or by its id, optionally with other `arguments`.

        Raises UsageError for a call that does not wait for a decision, or whose paused run has
        several calls with the same id.
        """
        changed = None if arguments is None else dict(arguments)
        self._decide(call, Decision(True, None, changed))

    def refuse(self, call: ToolCallBlock | str, reason: str | None = None) -> None:
        """Refuse a call, given as an object or by its id; `reason` is sent to the model.

        Raises UsageError for a call that does not wait for a decision, or whose paused run has
        several calls with the same id.
        """
        told = str.__str__(reason) if isinstance(reason, str) else reason
        self._decide(call, Decision(False, told))

    def _decide(self, call: ToolCallBlock | str, decision: Decision) -> None:
        _check_ids(self.answer)
        call_id = call if isinstance(call, str) else call.id
        waiting = [each.id for each in self.pending]
        if call_id not in waiting:
            raise UsageError(
                f"no tool call {call_id!r} waits for a decision",
                resolution=f"These do: {', '.join(waiting) or 'none'}.",
            )
        self.decisions[call_id] = decision


def _check_ids(answer: AssistantMessage) -> None:
    """Raise UsageError if calls of an answer have the same id, as they may in stored data.

    A decision on one of these calls would apply to all of them.
    """
    [(id, number)] = Counter(call.id for call in answer.tool_calls).most_common(1) or [("", 0)]
    if number > 1:
        raise UsageError(
            f"the paused run has several tool calls with the id {id!r}",
            resolution="Ask the model again: run(model, paused.messages, tools=[…]).",
        )


def context_after(paused: PausedRun) -> Context:
    """Return the conversation so far, with empty results for the tool calls of the last answer.

    Raises UsageError if a call has no decision yet, or several calls have the same id.
    """
    _check_ids(paused.answer)
    if paused.pending:
        calls = ", ".join(f"{call.name} ({call.id})" for call in paused.pending)
        raise UsageError(
            f"these tool calls wait for a decision: {calls}",
            resolution="Call approve(…) or refuse(…) of the paused run for each.",
        )
    results = [ToolResultMessage(call.id, call.name, "") for call in paused.answer.tool_calls]
    return Context([*paused.messages, paused.answer, *results], paused.system_prompt)


class RunPaused(SwinkError, title="The run waits for a decision"):
    """Raised if tool calls of a run wait for a decision; `paused` is the paused run."""

    def __init__(self, paused: PausedRun) -> None:
        calls = ", ".join(f"{call.name} ({call.id})" for call in paused.pending)
        super().__init__(
            f"the run waits for a decision on {calls}",
            resolution="Call approve(…) or refuse(…) of error.paused for each, and go on with "
            "run(model, error.paused, tools=[…]); dump() and load() store it.",
        )
        self.paused = paused

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.paused,)
