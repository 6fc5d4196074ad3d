"""The rows of the ledger: one for each attempt, with every store of budgets."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from serving import until

from swink_core import UsageError
from swink_gateway.policy.limits import (
    Allowance,
    Entry,
    Ledger,
    MemoryLedger,
    Query,
    Refusal,
    StoreUnavailable,
    Ticket,
    audited,
)
from swink_gateway.policy.limits.database import Database
from swink_gateway.policy.limits.postgres import PostgresDatabase, PostgresLedger
from swink_gateway.policy.limits.redis import RedisLedger
from swink_gateway.policy.limits.remembered import DATA_LOST
from swink_gateway.policy.limits.rows import NOT_SENT, RESERVED
from swink_gateway.policy.limits.scripts import GRACE_SECONDS
from swink_gateway.policy.limits.sqlite import CARRIED_OVER, SQLiteDatabase, SQLiteLedger, open_rows
from swink_gateway.policy.limits.writer import RowWriter
from swink_gateway.policy.spending import csv_of, query_of, rows_of
from swink_test_helpers.redis_server import RedisServer
from swink_testing.clock import ManualClock

BEGAN = datetime(2026, 1, 31, 23, 50, tzinfo=UTC)

BUDGET = Allowance(dollars_a_day=1.0)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a server that answers late is not lost; nothing happens by itself."""
    monkeypatch.setattr("swink_gateway.policy.limits.connection.ANSWER_SECONDS", 3600.0)
    monkeypatch.setattr(RedisLedger, "_watch", lambda ledger: asyncio.sleep(0))
    monkeypatch.setattr("swink_gateway.policy.limits.redis.MOST_LOOKS", 1)
    monkeypatch.setattr("swink_gateway.policy.limits.audit.LOOK_SECONDS", 0.0)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(began=BEGAN)


Open = Callable[[], AbstractAsyncContextManager[Ledger]]


@pytest.fixture(params=["memory", "sqlite", "postgres", "redis", "redis with postgres"])
def kept(request: pytest.FixtureRequest, clock: ManualClock, tmp_path: Path) -> Open:
    """Open a ledger with each engine."""

    def ledger() -> Ledger:
        if request.param == "memory":
            return MemoryLedger(clock, RowWriter())
        if request.param == "sqlite":
            return SQLiteLedger(tmp_path / "ledger", clock)
        if request.param == "postgres":
            return PostgresLedger(request.getfixturevalue("postgres"), clock)
        rows: Callable[[], Database] = partial(open_rows, tmp_path / "rows")
        if request.param == "redis with postgres":
            rows = partial(PostgresDatabase, request.getfixturevalue("postgres"))
        return RedisLedger(request.getfixturevalue("server").url, clock, rows=RowWriter(rows))

    @asynccontextmanager
    async def opened() -> AsyncIterator[Ledger]:
        made = ledger()
        try:
            yield made
        finally:
            await made.aclose()

    return opened


@pytest.fixture
def key(request: pytest.FixtureRequest) -> str:
    """A key with the name of the test."""
    return str(request.node.name)


async def reserve(ledger: Ledger, key: str, dollars: float | None, **facts: Any) -> Ticket:
    """Reserve an attempt, and return its ticket."""
    ticket = await ledger.admit(key, Allowance(), 100, dollars, Entry(**facts))
    assert isinstance(ticket, Ticket)
    return ticket


async def spend(ledger: Ledger, key: str, dollars: float, **facts: Any) -> None:
    """Reserve an attempt, and settle it."""
    ticket = await reserve(ledger, key, 2 * dollars, **facts)
    ticket.entry.outcome = "stop"
    ticket.entry.estimated = 0
    ticket.entry.input = 7
    ticket.entry.output = 5
    await ledger.settle(ticket, 12, dollars)


async def test_a_reservation_and_its_charge_are_one_row(kept: Open) -> None:
    async with kept() as ledger:
        ticket = await reserve(ledger, "alice", 0.5, model="echo/echo", team="blue")
        [row] = await ledger.entries(Query())
        assert (row.outcome, row.cost, row.tokens, row.estimated) == (RESERVED, 0.5, 100, 1)
        ticket.entry.outcome = "stop"
        ticket.entry.estimated = 0
        await ledger.settle(ticket, 12, 0.125)
        [settled] = await ledger.entries(Query())
        assert settled.id == row.id
        assert (settled.outcome, settled.cost, settled.tokens) == ("stop", 0.125, 12)
        assert (settled.key, settled.team, settled.model) == ("alice", "blue", "echo/echo")
        assert settled.at == pytest.approx(BEGAN.timestamp())


async def test_a_reservation_that_was_not_used_has_no_row(kept: Open) -> None:
    async with kept() as ledger:
        ticket = await reserve(ledger, "alice", 0.5)
        ticket.entry.outcome = NOT_SENT
        await ledger.settle(ticket, 0, 0.0)
        assert await ledger.entries(Query()) == []


async def test_a_model_without_a_price_has_no_cost(kept: Open) -> None:
    async with kept() as ledger:
        ticket = await reserve(ledger, "alice", None)
        await ledger.settle(ticket, 12, None)
        [row] = await ledger.entries(Query())
        assert row.cost is None
        [total] = await ledger.report(Query(by=("key",)))
        assert (total.cost, total.tokens) == (0.0, 12)


async def test_only_budgets_refuse_a_later_attempt_of_a_call(kept: Open, key: str) -> None:
    async with kept() as ledger:
        one = Allowance(requests=1, streams=1, tokens=100, dollars_a_day=1.0)
        first = await ledger.admit(key, one, 100, 0.75)
        assert isinstance(first, Ticket)
        await ledger.settle(first, 100, 0.75, ends=False)
        assert isinstance(await ledger.admit(key, one, 1, 0.5), Refusal)
        second = await ledger.admit(key, one, 1, 0.5, begins=False)
        assert isinstance(second, Ticket)
        third = await ledger.admit(key, one, 1, 0.5, begins=False)
        assert isinstance(third, Refusal)
        assert third.what == "1 US dollar a day"
        [taken] = await ledger.spending([key])
        assert (taken.requests, taken.streams) == (1, 1)
        await ledger.settle(second, 1, 0.5)
        [taken] = await ledger.spending([key])
        assert (taken.streams, taken.dollars_today) == (0, 1.25)


REPORTS: dict[str, tuple[str, dict[str, Any], list[tuple[dict[str, str], int, float]]]] = {
    "nothing": ("", {}, [({}, 4, 1.0)]),
    "key": ("key", {}, [({"key": "alice"}, 3, 0.75), ({"key": "bob"}, 1, 0.25)]),
    "team": ("team", {}, [({"team": "blue"}, 2, 0.5), ({"team": "red"}, 2, 0.5)]),
    "tag": (
        "tag", {}, [({"tag": ""}, 1, 0.25), ({"tag": "ci"}, 2, 0.375), ({"tag": "night"}, 2, 0.5)],
    ),
    "model of a tag": ("model", {"where": {"tag": ["ci"]}}, [({"model": "a/x"}, 2, 0.375)]),
    "no tag of a pattern": ("model", {"where": {"tag": ["%", "n_ght"]}}, []),
    "no tag in other letters": ("model", {"where": {"tag": ["CI", "Night", "c", "ci,"]}}, []),
    "day": (
        "day", {}, [({"day": "2026-01-31"}, 2, 0.375), ({"day": "2026-02-01"}, 2, 0.625)],
    ),
    "month and key": (
        "month,key", {"where": {"key": ["alice"]}},
        [
            ({"month": "2026-01", "key": "alice"}, 2, 0.375),
            ({"month": "2026-02", "key": "alice"}, 1, 0.375),
        ],
    ),
    "since": ("key", {"since": "2026-02", "where": {"key": ["bob"]}}, [({"key": "bob"}, 1, 0.25)]),
    "until": ("key", {"until": "2026-01-31"}, [({"key": "alice"}, 2, 0.375)]),
    "a day without any": ("key", {"since": "2026-02-02", "until": "2026-02-28"}, []),
}  # fmt: skip


@pytest.mark.parametrize("name", REPORTS)
async def test_spending_is_summed(name: str, kept: Open, clock: ManualClock) -> None:
    by, more, expected = REPORTS[name]
    async with kept() as ledger:
        await spend(ledger, "alice", 0.25, team="blue", tags="ci", model="a/x")
        await spend(ledger, "alice", 0.125, team="red", tags="ci,night", model="a/x")
        await clock.advance(600)
        await spend(ledger, "alice", 0.375, team="red", tags="night", model="a/y")
        await spend(ledger, "bob", 0.25, team="blue", model="b/z")
        found = await ledger.report(query_of(by, **more))
    assert [(one.by, one.attempts, one.cost) for one in found] == expected
    assert all(one.input == 7 * one.attempts for one in found)


WRONG = [
    ({"by": "color"}, "'color'"),
    ({"since": "yesterday"}, "'yesterday'"),
    ({"until": "2026-13"}, "'2026-13'"),
    ({"until": "9999-12-31"}, "'9999-12-31'"),
    ({"until": "9999-12"}, "'9999-12'"),
]


@pytest.mark.parametrize(("given", "what"), WRONG)
def test_an_invalid_report_is_refused_with_the_cause(given: dict[str, Any], what: str) -> None:
    with pytest.raises(UsageError, match=what):
        query_of(**given)


def test_csv_output_escapes_formulas_from_clients() -> None:
    rows = rows_of([Entry(model='=HYPERLINK("x")', key="-1", at=BEGAN.timestamp())])
    [_, line] = csv_of(rows).splitlines()
    assert '"\'=HYPERLINK(""x"")"' in line
    assert ",'-1," in line


async def test_the_number_of_listed_rows_is_limited(
    kept: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swink_gateway.policy.limits.rows.MOST_ENTRIES", 2)
    async with kept() as ledger:
        for _ in range(2):
            await reserve(ledger, "alice", 0.5)
        assert len(await ledger.entries(Query())) == 2
        await reserve(ledger, "alice", 0.5)
        with pytest.raises(UsageError, match="more than 2 attempts"):
            await ledger.entries(Query())


async def test_the_number_of_groups_of_a_sum_is_limited(
    kept: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swink_gateway.policy.limits.rows.MOST_ENTRIES", 2)
    async with kept() as ledger:
        for key in ("alice", "bob"):
            await reserve(ledger, key, 0.5)
        assert len(await ledger.report(Query(by=("key",)))) == 2
        await reserve(ledger, "carol", 0.5)
        with pytest.raises(UsageError, match="more than 2 groups"):
            await ledger.report(Query(by=("key",)))
        one = Query(by=("key",), where={"key": frozenset({"bob"})})
        assert len(await ledger.report(one)) == 1
        await reserve(ledger, "dora", 0.5, tags="a,b,c")
        with pytest.raises(UsageError, match="more than 2 groups"):
            await ledger.report(Query(by=("tag",), where={"key": frozenset({"dora"})}))


# -- rows and budgets ------------------------------------------------------------------------------


async def test_ledger_and_budgets_agree_at_every_moment(
    kept: Open, clock: ManualClock, key: str
) -> None:
    async with kept() as ledger:
        tickets = [await reserve(ledger, key, 0.1 * n) for n in range(1, 6)]
        now = clock.now().timestamp()
        assert (await audited(ledger, [key], now)).differences == []
        for n, ticket in enumerate(tickets):
            await ledger.settle(ticket, 10, 0.03 * n)
            assert (await audited(ledger, [key], now)).differences == []
        [total] = await ledger.report(Query())
        [spent] = await ledger.spending([key])
        assert total.cost == pytest.approx(spent.dollars_today) == pytest.approx(0.3)


async def test_an_audit_reports_rows_lost_in_a_kill(
    server: RedisServer, clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swink_gateway.policy.limits.writer.FLUSH_SECONDS", 3600.0)
    killed = RedisLedger(server.url, clock, rows=RowWriter(lambda: open_rows(tmp_path / "rows")))
    await spend(killed, "killed", 0.25)
    await killed.report(Query())  # writes the row
    await spend(killed, "killed", 0.5)
    there = RedisLedger(server.url, clock, rows=RowWriter(lambda: open_rows(tmp_path / "rows")))
    found = await audited(there, ["killed", "other"], clock.now().timestamp())
    assert [(one.key, one.period, one.store, one.ledger) for one in found.differences] == [
        ("killed", "2026-01-31", 0.75, 0.25),
        ("killed", "2026-01", 0.75, 0.25),
    ]
    await there.aclose()
    await killed.aclose()


async def test_an_audit_reports_attempts_of_a_dead_process(
    clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = SQLiteLedger(tmp_path / "ledger", clock)
    await reserve(ledger, "alice", 0.25, model="a/x")
    monkeypatch.setattr(ledger, "_process", str(2**22 + 1))  # beyond what Linux gives out
    dead = await reserve(ledger, "alice", 0.5, model="a/y")
    found = await audited(ledger, ["alice"], clock.now().timestamp())
    assert [row.id for row in found.unsettled] == [dead.entry.id]
    assert found.differences == []
    await ledger.aclose()


async def test_budgets_of_an_earlier_version_become_rows_once(
    clock: ManualClock, tmp_path: Path
) -> None:
    ledger = SQLiteLedger(tmp_path / "ledger", clock)
    await spend(ledger, "alice", 0.25)
    await clock.advance(86400)
    await spend(ledger, "alice", 0.5)
    await clock.advance(86400)
    await spend(ledger, "alice", 0.125)
    await ledger.aclose()
    with closing(sqlite3.connect(tmp_path / "ledger")) as database:
        database.execute("DROP TABLE attempts")  # as an earlier version kept it
    for _ in range(2):
        ledger = SQLiteLedger(tmp_path / "ledger", clock)
        found = await ledger.report(Query(by=("key", "day", "outcome")))
        assert [(one.by, one.cost) for one in found] == [
            ({"key": "alice", "day": "2026-02-01", "outcome": CARRIED_OVER}, 0.5),
            ({"key": "alice", "day": "2026-02-02", "outcome": CARRIED_OVER}, 0.125),
        ]
        assert (await audited(ledger, ["alice"], clock.now().timestamp())).differences == []
        await ledger.aclose()


# -- rows beside another store ---------------------------------------------------------------------


class Full(SQLiteDatabase):
    """A database whose disk is full for a while."""

    is_full = True

    @contextmanager
    def transaction(self, lock: str) -> Iterator[None]:
        if self.is_full:
            raise sqlite3.OperationalError("database or disk is full")
        with super().transaction(lock):
            yield


async def test_rows_are_queued_while_the_disk_is_full(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swink_gateway.policy.limits.writer.FLUSH_SECONDS", 0.0)
    monkeypatch.setattr("swink_gateway.policy.limits.writer.MOST_WAITING", 3)
    await RowWriter(lambda: open_rows(tmp_path / "rows")).aclose()
    full = Full(tmp_path / "rows")
    rows = RowWriter(lambda: full)
    for number in range(5):
        rows.put(Entry(id=f"{number}", key="alice", cost=1.0))
    await until(lambda: bool(caplog.records))
    full.is_full = False
    [total] = await rows.report(Query())
    assert total.attempts == 3  # the latest
    assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == 1
    await rows.aclose()


async def test_the_number_of_rows_in_memory_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swink_gateway.policy.limits.writer.MOST_IN_MEMORY", 3)
    rows = RowWriter()
    for number in range(5):
        rows.put(Entry(id=f"{number}"))
        await rows.flush()
    assert [row.id for row in await rows.entries(Query())] == ["1", "2", "3", "4"][-4:]
    await rows.aclose()


# -- budgets that Redis loses ----------------------------------------------------------------------


def redis_ledger(server: RedisServer, clock: ManualClock) -> RedisLedger:
    return RedisLedger(server.url, clock)


async def spent_on(ledger: Ledger, key: str) -> float:
    [found] = await ledger.spending([key])
    return found.dollars_today


@pytest.mark.parametrize("what", ["the budget", "the budget and the index", "everything"])
async def test_a_process_restores_budgets_that_redis_loses(
    what: str, server: RedisServer, clock: ManualClock
) -> None:
    key = f"loses {what}"
    ledgers = redis_ledger(server, clock), redis_ledger(server, clock)
    for ledger in ledgers:
        await ledger._check_data()
    ticket = await ledgers[0].admit(key, BUDGET, 0, 1.5)
    assert isinstance(ticket, Ticket)
    assert isinstance(await ledgers[1].admit(key, BUDGET, 0, 1.5), Refusal)
    await lose(ledgers[0], key, what)
    for ledger in ledgers:
        refused = await ledger.admit(key, BUDGET, 0, 1.5)
        assert isinstance(refused, Refusal)
        assert refused.spent
    await ledgers[0].settle(ticket, 0, 0.75)
    for ledger in ledgers:
        assert await spent_on(ledger, key) == 0.75
        assert ledger._budgets._counters[DATA_LOST] == 1
        await ledger.aclose()


async def lose(ledger: RedisLedger, key: str, what: str) -> None:
    names = [f"swink:gateway:dollars:{key}"]
    if what == "everything":
        await ledger._server.redis.flushall()
    elif what == "the budget and the index":
        names.append("swink:gateway:budgets")
    await ledger._server.redis.delete(*names)


async def test_a_process_refuses_a_key_whose_lost_budget_it_does_not_know(
    server: RedisServer, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    key = "remembered by another"
    first, other = redis_ledger(server, clock), redis_ledger(server, clock)
    await first.admit(key, BUDGET, 0, 0.5)
    await lose(first, key, "the budget")
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="lost the budget"):
            await other.admit(key, BUDGET, 0, 0.25)
    assert isinstance(await other.admit(key, Allowance(requests=9), 0, 0.0), Ticket)
    await first.spending([key])
    assert await spent_on(other, key) == 0.5
    assert isinstance(await other.admit(key, BUDGET, 0, 0.75), Ticket)
    assert await spent_on(other, key) == 1.25
    assert len([text for text in caplog.messages if "does not remember" in text]) == 1
    for ledger in (first, other):
        await ledger.aclose()


async def test_after_a_loss_of_all_data_no_key_counts_as_new_at_once(
    server: RedisServer, clock: ManualClock
) -> None:
    key = "not new at once"
    first, other = redis_ledger(server, clock), redis_ledger(server, clock)
    for ledger in (first, other):
        await ledger._check_data()
    await first.admit(key, BUDGET, 0, 2.0)
    await lose(first, key, "everything")
    await other._check_data()
    with pytest.raises(StoreUnavailable):
        await other.admit(key, BUDGET, 0, 0.25)
    assert isinstance(await first.admit(key, BUDGET, 0, 0.25), Refusal)
    assert isinstance(await other.admit(key, BUDGET, 0, 0.25), Refusal)
    await clock.advance(GRACE_SECONDS + 1)
    assert isinstance(await other.admit(f"{key}, but another", BUDGET, 0, 0.25), Ticket)
    for ledger in (first, other):
        await ledger.aclose()


async def test_charges_after_a_loss_are_added_to_the_restored_budget(
    server: RedisServer, clock: ManualClock
) -> None:
    key = "charged after a loss"
    await clock.advance(2 * GRACE_SECONDS)  # since another test's loss
    ledgers = [redis_ledger(server, clock) for _ in range(3)]
    first = await ledgers[0].admit(key, Allowance(dollars_a_day=9.0), 0, 1.0)
    second = await ledgers[1].admit(key, Allowance(dollars_a_day=9.0), 0, 2.0)
    assert isinstance(first, Ticket)
    assert isinstance(second, Ticket)
    await lose(ledgers[0], key, "the budget")
    await ledgers[0].settle(first, 0, 0.5)  # it remembers 1 dollar, the other one 3
    await ledgers[1].settle(second, 0, 2.5)
    for ledger in ledgers:
        assert await spent_on(ledger, key) == 3.0
        await ledger.aclose()
