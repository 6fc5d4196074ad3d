"""The tasks of a client, and what remains of them when it is closed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from swink_core.plugins.client_tasks import ClientTasks


class Stuck:
    """A call whose reader never gets its last events."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.left = 0

    def leave(self) -> asyncio.Event:
        self.left += 1
        return asyncio.Event()


async def test_a_client_that_closes_leaves_no_task_of_a_call_that_does_not_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("swink_core.plugins.client_tasks.CLOSE_SECONDS", 0.01)
    tasks, stuck = ClientTasks(), Stuck()
    known: Any = tasks.calls
    known.add(stuck)
    await asyncio.wait_for(tasks.aclose(), 5)
    await asyncio.sleep(0)
    assert stuck.left == 1
    assert asyncio.all_tasks() == {asyncio.current_task()}
