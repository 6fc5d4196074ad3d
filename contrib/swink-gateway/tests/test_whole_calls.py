"""Tool calls for protocols that send them complete."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import swink_core as swink
from swink_gateway.protocols.whole_calls import WholeCalls
from swink_test_helpers.growing_work import LINEAR, growth


def parallel(count: int) -> Callable[[], list[swink.ToolCallBlock]]:
    """Return the work for calls that begin together and then end in the same order."""
    events: list[Any] = [swink.ToolCallStart(n, f"call-{n}", "add") for n in range(count)]
    events += [swink.ToolCallDelta(n, "{}") for n in range(count)]
    events += [swink.ToolCallEnd(n) for n in range(count)]

    def work() -> list[swink.ToolCallBlock]:
        calls = WholeCalls()
        return [block for event in events for block in calls.feed(event)]

    return work


def test_parallel_calls_keep_their_order() -> None:
    assert [block.id for block in parallel(9)()] == [f"call-{n}" for n in range(9)]


def test_many_parallel_calls_take_linear_time() -> None:
    assert growth(parallel, 1_000) < LINEAR
