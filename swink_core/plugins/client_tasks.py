"""End the running calls of a closed client, and the tasks that outlive their calls.

Such tasks fetch tokens, or send requests that cancel answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Protocol, TypeVar

T = TypeVar("T")

CLOSE_SECONDS = 5.0
"""A closing client waits at most this many seconds for tasks that must finish."""


class RunningCall(Protocol):
    """A call whose reading has begun, in the event loop `loop`."""

    loop: asyncio.AbstractEventLoop

    def leave(self) -> asyncio.Event | None:
        """End the call.

        If a task is waiting for its events, return an event that is set once the task has received
        the last ones.
        """


class ClientTasks:
    """The running calls of a client, and its background tasks that belong to no single call."""

    def __init__(self) -> None:
        self.calls: set[RunningCall] = set()
        self._finished: set[asyncio.Task[Any]] = set()
        self._cancelled: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, T], *, finish: bool) -> asyncio.Task[T]:
        """Run a coroutine in a task of the running event loop, and return the task.

        If `finish` is true, a closing client waits for the task; otherwise it cancels the task.
        """
        task = asyncio.get_running_loop().create_task(work)
        kept = self._finished if finish else self._cancelled
        kept.add(task)
        task.add_done_callback(kept.discard)
        return task

    async def aclose(self) -> None:
        """End all calls, and the tasks of the running loop.

        Tasks that read the calls receive their last events. Wait for the tasks that were started
        with `finish`, and cancel the others.
        """
        loop = asyncio.get_running_loop()
        told: list[asyncio.Task[Any]] = []
        for call in [*self.calls]:
            if call.loop is not loop:
                with suppress(RuntimeError):  # the loop is closed
                    call.loop.call_soon_threadsafe(call.leave)
            elif (received := call.leave()) is not None:
                told.append(loop.create_task(received.wait()))
        if told:
            _, late = await asyncio.wait(told, timeout=CLOSE_SECONDS)
            for task in late:
                task.cancel()
        if last := [task for task in self._finished if task.get_loop() is loop]:
            await asyncio.wait(last, timeout=CLOSE_SECONDS)
        left = [task for task in self._finished | self._cancelled if task.get_loop() is loop]
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=CLOSE_SECONDS)
