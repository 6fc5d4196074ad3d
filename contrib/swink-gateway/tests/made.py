"""Handwritten answers as events, and a tool."""

from __future__ import annotations

from typing import Any

import swink_core as swink
from swink_core import StopReason

TEXT = [swink.TextStart(0), swink.TextDelta(0, "Hel"), swink.TextDelta(0, "lo"), swink.TextEnd(0)]

CALLS = [
    swink.ToolCallStart(0, "c1", "f"),
    swink.ToolCallStart(1, "c2", "g"),
    swink.ToolCallDelta(1, '{"b":'),
    swink.ToolCallDelta(0, '{"a":1}'),
    swink.ToolCallDelta(1, "2}"),
    swink.ToolCallEnd(0),
    swink.ToolCallEnd(1),
]
"""Two calls with interleaved deltas."""


def events(*inner: Any, **done: Any) -> list[Any]:
    """Return the events of an answer with these events inside."""
    end = swink.Done(done.pop("stop_reason", StopReason.STOP), **done)
    return [swink.Start(), *inner, end]


def said(text: str, *before: Any) -> list[Any]:
    """Return the events of an answer with a text after other blocks."""
    at = sum(1 for event in before if type(event).__name__.endswith("Start"))
    return events(*before, swink.TextStart(at), swink.TextDelta(at, text), swink.TextEnd(at))


def called(*calls: tuple[str, str, str]) -> list[Any]:
    """Return the events of an answer with calls, each an id, a name and arguments."""
    inner: list[Any] = []
    for at, (id, name, arguments) in enumerate(calls):
        inner += [swink.ToolCallStart(at, id, name), swink.ToolCallDelta(at, arguments)]
        inner.append(swink.ToolCallEnd(at))
    return events(*inner, stop_reason=StopReason.TOOL_USE)


def weather(city: str) -> str:
    """Say how the weather is.

    Args:
      city: Where.
    """
    return f"sunny in {city}"
