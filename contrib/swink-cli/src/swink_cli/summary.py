"""Format the summary line after an answer, and its numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import swink_core as swink
from swink_cli.display import Display

if TYPE_CHECKING:
    from swink import Run

__all__ = ["amount", "money", "rate", "run_summary", "seconds", "summary", "tokens"]

MEASURABLE = 0.02
"""The duration in seconds below which no rate is computed.

Such a fast answer arrives in one or two network reads, which show no rate.
"""

_REASONS = {
    swink.StopReason.LENGTH: "truncated at the token limit",
    swink.StopReason.CONTENT_FILTER: "stopped by a content filter",
    swink.StopReason.PAUSE: "paused by the provider: ask again to continue",
    swink.StopReason.TOOL_USE: "waiting for its tools",
}


def amount(count: int | None) -> str:
    """Format a number of tokens with separators; `?` if unknown."""
    return "?" if count is None else f"{count:,}"


def money(dollars: float, estimated: bool = False) -> str:
    """Format US dollars with at least two decimals and two significant digits."""
    if estimated and dollars:
        return f"{money(dollars)} (estimated)"
    if dollars == 0:
        return "$0"
    decimals = 2
    while decimals < 9 and abs(dollars) < 10 ** (1 - decimals):
        decimals += 1
    return f"${dollars:,.{decimals}f}"


def seconds(value: float) -> str:
    """Format a duration."""
    return f"{value * 1000:.0f} ms" if value < 0.9995 else f"{value:.1f} s"


def rate(count: int | None, duration: float) -> float | None:
    """Return tokens per second; `None` if it cannot be computed."""
    return None if count is None or duration < MEASURABLE else count / duration


def tokens(usage: swink.Usage | None, *, complete: bool = True) -> str:
    """Format the token usage; an incomplete answer's output tokens are marked "at least"."""
    if usage is None or (usage.input is None and usage.output is None):
        return "tokens unknown"
    read = f" ({amount(usage.cache_read)} cached)" if usage.cache_read else ""
    thought = f" ({amount(usage.reasoning)} thinking)" if usage.reasoning else ""
    least = "" if complete else "at least "
    word = "token" if usage.input == 1 else "tokens"
    return f"{amount(usage.input)} {word} in{read}, {least}{amount(usage.output)} out{thought}"


def summary(stream: swink.EventStream, display: Display) -> str:
    """Format model, usage and speed of an answer."""
    call, message = stream.call, stream.message
    asked = str(call.model)
    answered = message.model
    named = answered in (None, call.model.id, asked)
    complete = isinstance(display.terminal, swink.Done)
    parts = [asked if named else f"{asked} ({answered})", tokens(call.usage, complete=complete)]
    if call.cost is not None and call.cost.total is not None:
        parts.append(money(call.cost.total, call.cost.estimated))
    first, end = display.first_token_at, display.ended_at
    if first is not None:
        parts.append(f"first token {seconds(first - call.started_at)}")
        last = message.usage.output if message.usage else None
        if complete and end is not None and (speed := rate(last, end - first)) is not None:
            parts.append(f"{speed:,.0f} tokens/s")
    if call.attempts > 1:
        parts.append(f"{call.attempts} attempts")
    if message.stop_reason in _REASONS:
        parts.append(_REASONS[message.stop_reason])
    return " · ".join(parts)


def run_summary(run: Run) -> str:
    """Format model and total usage of a tool loop."""
    parts = [str(run.call.model), f"{run.turns} turn{'' if run.turns == 1 else 's'}"]
    parts.append(tokens(run.usage, complete=run.outcome == "done"))
    if run.cost is not None and run.cost.total is not None:
        parts.append(money(run.cost.total, run.cost.estimated))
    if run.outcome == "done" and run.message.stop_reason in _REASONS:
        parts.append(_REASONS[run.message.stop_reason])
    return " · ".join(parts)
