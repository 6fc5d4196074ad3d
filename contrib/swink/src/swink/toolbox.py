"""Carry out the tool calls of a turn concurrently."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextvars import copy_context
from typing import Any, TypeAlias

from swink.approvals import PAUSE, Approve, Decision
from swink.events import ToolEnd, ToolStart
from swink.tools import FunctionTool, described, failed
from swink_core import InvalidContext, MediaError, ToolCallBlock, ToolResultMessage, replace

__all__ = ["Toolbox"]

log = logging.getLogger(__name__)

Tell: TypeAlias = Callable[[ToolStart | ToolEnd], object]
"""A function that passes an event to observers."""

Check: TypeAlias = Callable[[ToolResultMessage], object]
"""A function that raises InvalidContext or MediaError for a result that cannot be sent."""

NOT_FINISHED = "The tool was stopped before it had finished."
NOT_STARTED = "The tool was not called: the run had come to its end."
REFUSED = "The user does not allow this call."
WAITING = "The tool was not called yet: the user has not decided on this call."

PATIENCE = 5.0
"""The maximum time in seconds that a cancelled tool may take to end."""


class Toolbox:
    """The tools of a run, and the state of the tool calls in its current turn."""

    def __init__(
        self,
        run_id: str,
        tools: Mapping[str, FunctionTool[..., Any]],
        approve: Approve | None,
        tell: Tell,
        check: Check,
    ) -> None:
        self.names = tuple(tools)
        self._run_id, self._tools, self._approve, self._tell = run_id, tools, approve, tell
        self._check = check
        self._under_way: dict[asyncio.Task[ToolResultMessage | None], ToolCallBlock] = {}
        self._results: dict[str, ToolResultMessage] = {}
        self._decisions: Mapping[str, Decision] = {}
        self._cancelled: asyncio.Future[None] | None = None  # done once the calls are cancelled
        self.waiting: set[str] = set()
        """The ids of calls that wait for a decision."""

    @property
    def finished(self) -> list[ToolResultMessage]:
        """The results of the calls that have ended, in no particular order."""
        return [*self._results.values()]

    def take(self, results: Iterable[ToolResultMessage], decisions: Mapping[str, Decision]) -> None:
        """Add the results and decisions of a paused turn; call this before `carry_out`."""
        self.settle(results)
        self._decisions = decisions

    def settle(self, results: Iterable[ToolResultMessage]) -> None:
        """Add results that exist already, so that their calls are not carried out."""
        self._results |= {each.tool_call_id: each for each in results}

    async def carry_out(
        self, calls: list[ToolCallBlock], turn: int
    ) -> AsyncGenerator[list[ToolStart | ToolEnd], None]:
        """Carry out calls concurrently, and yield their start and end events.

        After `cancel`, calls that do not end in time are left behind.
        """
        began = time.monotonic()
        cancelled = self._cancelled = asyncio.get_running_loop().create_future()
        patience = PATIENCE
        started = [
            ToolStart(self._run_id, turn, call) for call in calls if call.id not in self._results
        ]
        try:
            for start in started:
                context = copy_context()  # context changes by observers apply to this tool only
                context.run(self._tell, start)
                task = asyncio.create_task(self._result_of(start.tool_call), context=context)
                self._under_way[task] = start.tool_call
            yield [*started]
            while self._under_way:
                is_over = cancelled.done()
                done, _ = await asyncio.wait(
                    self._under_way if is_over else [*self._under_way, cancelled],
                    timeout=PATIENCE if is_over else None,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if not done:
                    patience = 0.0
                    break
                seconds = time.monotonic() - began
                ended = [
                    ToolEnd(self._run_id, turn, call, result, seconds)
                    for task, call in [*self._under_way.items()]
                    if task in done and (result := self._over(task)) is not None
                ]
                for end in ended:
                    self._tell(end)
                if ended:
                    yield [*ended]
        finally:
            await self._stop(patience)

    def results(self, calls: list[ToolCallBlock]) -> list[ToolResultMessage]:
        """Return a result for each call of a turn, in order, even for a call that never ended."""
        results, waiting = self._results, self.waiting
        self._results, self._decisions, self.waiting = {}, {}, set()
        why = NOT_FINISHED if self._under_way else NOT_STARTED
        return [
            results.get(call.id) or failed(call, WAITING if call.id in waiting else why)
            for call in calls
        ]

    def cancel(self) -> None:
        """Cancel all running calls."""
        for task in self._under_way:
            task.cancel()
        if self._cancelled is not None and not self._cancelled.done():
            self._cancelled.set_result(None)

    async def _stop(self, patience: float) -> None:
        self.cancel()
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=patience)
        for task in [*self._under_way]:
            self._over(task)

    def _over(self, task: asyncio.Task[ToolResultMessage | None]) -> ToolResultMessage | None:
        """Return the result of a call that has ended, or an error result for a call that was
        stopped.

        Returns `None` if the call waits for a decision.
        """
        call = self._under_way.pop(task)
        has_result = task.done() and not task.cancelled()
        result = task.result() if has_result else failed(call, NOT_FINISHED)
        if result is None:
            self.waiting.add(call.id)
        else:
            self._results[call.id] = result
        return result

    async def _result_of(self, call: ToolCallBlock) -> ToolResultMessage | None:
        """Carry out a call and return its result, or `None` if it waits for a decision."""
        if (known := self._tools.get(call.name)) is None:
            names = ", ".join(self._tools)
            return failed(call, f"There is no tool {call.name!r}. There are: {names or 'none'}.")
        if (decision := self._decisions.get(call.id)) is not None:
            if not decision.approved:
                return failed(call, decision.reason or REFUSED)
            if decision.arguments is not None:
                call = replace(call, arguments=decision.arguments, state="complete")
            return await self._carried_out(known, call)
        verdict: Any = True
        if self._approve is not None:
            verdict = await self._verdict(self._approve, call)
        elif known.needs_approval:
            if (refusal := known.refusal(call)) is not None:
                return refusal  # no decision is needed
            verdict = PAUSE
        if verdict is PAUSE:
            return None
        if verdict is not True:
            return failed(call, verdict or REFUSED)
        return await self._carried_out(known, call)

    async def _carried_out(
        self, known: FunctionTool[..., Any], call: ToolCallBlock
    ) -> ToolResultMessage:
        """Carry out a call and return its result, or an error result if it cannot be sent."""
        result = await known.carry_out(call)
        if type(result.content) is not str:
            try:
                self._check(result)
            except (InvalidContext, MediaError) as error:
                log.warning("tool %s returned what cannot be sent", call.name, exc_info=error)
                return failed(call, described(error))
        return result

    async def _verdict(self, approve: Approve, call: ToolCallBlock) -> Any:
        """Call the application's `approve`.

        The call is refused if `approve` raises an exception or returns a value of a wrong type.
        """
        try:
            verdict: Any = approve(call)
            if inspect.isawaitable(verdict):
                verdict = await verdict
        except (asyncio.CancelledError, KeyboardInterrupt):
            raise
        except BaseException as error:
            return f"{REFUSED} {described(error)}"
        if isinstance(verdict, str):
            return str.__str__(verdict)
        if verdict is PAUSE or isinstance(verdict, bool | None):
            return verdict
        kind = type(verdict).__name__
        log.warning(
            "approve returned a value of type %s, not a bool, a string, None or PAUSE", kind
        )
        return f"{REFUSED} The function approve returned a value of type {kind}."
