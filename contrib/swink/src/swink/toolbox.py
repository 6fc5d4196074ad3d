"""The tool calls of a turn, carried out together."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextvars import copy_context
from typing import Any, TypeAlias

from swink.events import ToolEnd, ToolStart
from swink.tools import FunctionTool, described, failed
from swink_core import ToolCallBlock, ToolResultMessage

__all__ = ["Approve", "Toolbox"]

log = logging.getLogger(__name__)

Tell: TypeAlias = Callable[[ToolStart | ToolEnd], object]
"""Shows an event to observers."""

Approve: TypeAlias = Callable[[ToolCallBlock], bool | str | Awaitable[bool | str]]
"""Says whether a tool call may be carried out; a string refuses it and tells the model why."""

NOT_FINISHED = "The tool was stopped before it had finished."
NOT_STARTED = "The tool was not called: the run had come to its end."
REFUSED = "The user does not allow this call."

PATIENCE = 5.0
"""Seconds within which a tool that is cancelled has to end."""


class Toolbox:
    """The tools of a run, and what is known of the calls of its last turn."""

    def __init__(
        self,
        run_id: str,
        tools: Mapping[str, FunctionTool[..., Any]],
        approve: Approve | None,
        tell: Tell,
    ) -> None:
        self.names = tuple(tools)
        self._run_id, self._tools, self._approve, self._tell = run_id, tools, approve, tell
        self._under_way: dict[asyncio.Task[ToolResultMessage], ToolCallBlock] = {}
        self._results: dict[str, ToolResultMessage] = {}

    async def carry_out(
        self, calls: list[ToolCallBlock], turn: int
    ) -> AsyncGenerator[list[ToolStart | ToolEnd], None]:
        """Carry out calls together, and yield how they begin and end."""
        self._results, began = {}, time.monotonic()
        started = [ToolStart(self._run_id, turn, call) for call in calls]
        try:
            for start in started:
                context = copy_context()  # what observers set there holds for the tool alone
                context.run(self._tell, start)
                task = asyncio.create_task(self._result_of(start.tool_call), context=context)
                self._under_way[task] = start.tool_call
            yield [*started]
            while self._under_way:
                done, _ = await asyncio.wait(self._under_way, return_when=asyncio.FIRST_COMPLETED)
                seconds = time.monotonic() - began
                ended = [
                    ToolEnd(self._run_id, turn, call, self._over(task), seconds)
                    for task, call in [*self._under_way.items()]
                    if task in done
                ]
                for end in ended:
                    self._tell(end)
                yield [*ended]
        finally:
            await self._stop()

    def results(self, calls: list[ToolCallBlock]) -> list[ToolResultMessage]:
        """Return a result for each call of a turn, in order; one that never ended has one too."""
        results, self._results = self._results, {}
        why = NOT_FINISHED if results else NOT_STARTED
        return [results.get(call.id) or failed(call, why) for call in calls]

    def cancel(self) -> None:
        """Have all calls under way end."""
        for task in self._under_way:
            task.cancel()

    async def _stop(self) -> None:
        self.cancel()
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=PATIENCE)
        for task in [*self._under_way]:
            self._over(task)

    def _over(self, task: asyncio.Task[ToolResultMessage]) -> ToolResultMessage:
        """Take the result of a call that has ended, or is waited for no longer."""
        call = self._under_way.pop(task)
        has_result = task.done() and not task.cancelled()
        result = task.result() if has_result else failed(call, NOT_FINISHED)
        self._results[call.id] = result
        return result

    async def _result_of(self, call: ToolCallBlock) -> ToolResultMessage:
        if (known := self._tools.get(call.name)) is None:
            names = ", ".join(self._tools)
            return failed(call, f"There is no tool {call.name!r}. There are: {names or 'none'}.")
        if self._approve is not None:
            try:
                allowed: Any = self._approve(call)
                if inspect.isawaitable(allowed):
                    allowed = await allowed
            except Exception as error:
                return failed(call, f"{REFUSED} {described(error)}")
            if not isinstance(allowed, bool | str | None):
                kind = type(allowed).__name__
                log.warning("approve returned what is of type %s: neither yes nor no", kind)
                allowed = f"{REFUSED} What was to say so returned what is of type {kind}."
            if allowed is not True:
                return failed(call, allowed or REFUSED)
        return await known.carry_out(call)
