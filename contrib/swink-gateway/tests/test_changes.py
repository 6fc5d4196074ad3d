"""A process looks at the keys in Redis that changed, and not every second at all that it knows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from serving import until

from swink_gateway.policy.limits import Allowance, Ticket
from swink_gateway.policy.limits.changes import MOST_CHANGED, OTHERS, Changes
from swink_gateway.policy.limits.redis import RedisLedger
from swink_test_helpers.redis_server import RedisServer

KNOWN = [f"key{number}" for number in range(1000)]


def test_changed_keys_are_looked_at_once_and_wanted_ones_first() -> None:
    changes = Changes()
    changes.add(1.0, ["a", "b", "unknown"], ["b", "c"])
    assert changes.due(["a", "b", "c"])[:3] == ["b", "c", "a"]
    changes = Changes()
    changes.add(1.0, KNOWN, [])
    first, second = changes.due(KNOWN), changes.due(KNOWN)
    assert first[:MOST_CHANGED] == KNOWN[:MOST_CHANGED]
    assert second[:MOST_CHANGED] == KNOWN[MOST_CHANGED : 2 * MOST_CHANGED]


def test_all_keys_have_their_turn_a_few_at_a_time() -> None:
    changes, seen = Changes(), set[str]()
    for _ in range(len(KNOWN) // OTHERS):
        due = changes.due(KNOWN)
        assert len(due) == OTHERS
        seen |= {*due}
    assert seen == {*KNOWN}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path, keeps=False)
    server.start()
    yield server
    server.kill()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swink_gateway.policy.limits.redis.SIGN_SECONDS", 0.01)
    monkeypatch.setattr("swink_gateway.policy.limits.changes.OTHERS", 0)


@pytest.mark.usefixtures("quick")
async def test_a_process_learns_what_another_one_was_charged(server: RedisServer) -> None:
    one, other = RedisLedger(server.url), RedisLedger(server.url)
    allowance = Allowance(dollars_a_day=5.0)
    try:
        for ledger in (one, other):
            await ledger.spending(["a", "b"])
        ticket = await one.admit("a", allowance, 1, 0.5)
        assert isinstance(ticket, Ticket)
        await until(lambda: other._seen["a"].dollars_today == 0.5)
        await one.settle(ticket, 1, 0.25)
        await until(lambda: other._seen["a"].dollars_today == 0.25)
    finally:
        await one.aclose()
        await other.aclose()


@pytest.mark.usefixtures("quick")
async def test_a_lost_budget_is_written_again_when_its_key_is_wanted(server: RedisServer) -> None:
    """By the process that remembers it, for one that does not."""
    allowance = Allowance(dollars_a_day=5.0)
    one, other = RedisLedger(server.url), RedisLedger(server.url)
    try:
        ticket = await one.admit("a", allowance, 1, 0.5)
        assert isinstance(ticket, Ticket)
        await one._server.redis.delete("swink:gateway:dollars:a")
        again = await other.admit("a", allowance, 1, 0.5)
        assert isinstance(again, Ticket)
        [spent] = await other.spending(["a"])
        assert spent.dollars_today == 1.0
    finally:
        await one.aclose()
        await other.aclose()
