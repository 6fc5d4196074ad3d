"""Tasks that outlive the call that began them: token fetches, and requests that cancel answers."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

CLOSE_SECONDS = 5.0
"""A closing client waits at most this many seconds for tasks that must finish."""


class ClientTasks:
    """Background tasks that belong to a client and not to a single call."""

    def __init__(self) -> None:
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
        """End the tasks of the running loop.

        Wait for the tasks that were started with `finish`, and cancel the others.
        """
        loop = asyncio.get_running_loop()
        if last := [task for task in self._finished if task.get_loop() is loop]:
            await asyncio.wait(last, timeout=CLOSE_SECONDS)
        left = [task for task in self._finished | self._cancelled if task.get_loop() is loop]
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=CLOSE_SECONDS)
