"""A plugin that answers each call of a run with the next turn of a script."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, TypeAlias

import swink

Turn: TypeAlias = str | swink.Error | list[tuple[str, dict[str, Any]]]
"""Text, a failure, or tool calls: their names and arguments."""


class Turns:
    """A plugin that answers each call with the next turn, and keeps the requests."""

    def __init__(self, *turns: Turn, stop: str = "stop") -> None:
        self.turns = list(turns)
        self.stop = swink.StopReason(stop)
        self.contexts: list[swink.Context] = []
        self.options: list[swink.StreamOptions] = []

    @swink.hookimpl(tryfirst=True)
    def stream(
        self, context: swink.Context, options: swink.StreamOptions
    ) -> AsyncIterator[swink.AssistantMessageEvent]:
        self.contexts.append(context)
        self.options.append(options)
        return self.events(self.turns.pop(0), len(self.contexts))

    async def events(self, turn: Turn, number: int) -> AsyncIterator[swink.AssistantMessageEvent]:
        usage = swink.Usage(1, 2, total=3, reported=True)
        yield swink.Start()
        if isinstance(turn, swink.Error):
            yield turn
        elif isinstance(turn, str):
            yield swink.TextStart(0)
            for at in range(0, len(turn), 7):
                yield swink.TextDelta(0, turn[at : at + 7])
            yield swink.TextEnd(0)
            yield swink.Done(self.stop, usage)
        else:
            for index, (name, arguments) in enumerate(turn):
                yield swink.ToolCallStart(index, f"c{number}{'abc'[index]}", name)
                written = json.dumps(arguments)
                for at in range(0, len(written), 7):
                    yield swink.ToolCallDelta(index, written[at : at + 7])
                yield swink.ToolCallEnd(index)
            yield swink.Done(swink.StopReason.TOOL_USE, usage)
