"""Limits, budgets and circuits: the same rules in memory, in SQLite and in Redis."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from serving import until

from swink_core import UsageError
from swink_core.providers import LoopClock
from swink_gateway.policy.limits import (
    Allowance,
    FailedAttempt,
    Ledger,
    MemoryLedger,
    Refusal,
    Spending,
    Store,
    Ticket,
    open_ledger,
    scripts,
)
from swink_gateway.policy.limits.leases import ServerClock
from swink_gateway.policy.limits.ledger import LOST, counted
from swink_gateway.policy.limits.postgres import PostgresLedger
from swink_gateway.policy.limits.redis import SIGN_SECONDS, RedisLedger
from swink_gateway.policy.limits.remembered import DATA_LOST
from swink_gateway.policy.limits.scripts import ALIVE_SECONDS
from swink_gateway.policy.limits.sqlite import SQLiteLedger
from swink_test_helpers.redis_server import RedisServer
from swink_testing.clock import ManualClock

BEGAN = datetime(2026, 1, 31, 23, 50, tzinfo=UTC)
"""Ten minutes before the end of a day and a month."""

ENGINES = ("memory", "sqlite", "postgres", "redis")


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a server that answers late is not lost."""
    monkeypatch.setattr("swink_gateway.policy.limits.connection.ANSWER_SECONDS", 3600.0)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(began=BEGAN)


WORDS = [
    (1e-05, "US dollars a day", "0.00001 US dollars a day"),
    (1.0, "US dollars a day", "1 US dollar a day"),
    (1.0, "answers at a time", "1 answer at a time"),
    (2_000_000.5, "tokens a minute", "2,000,000.5 tokens a minute"),
    (2.5e15, "tokens a minute", "2,500,000,000,000,000 tokens a minute"),
]


@pytest.mark.parametrize(("limit", "what", "said"), WORDS)
def test_limits_are_formatted_for_people(limit: float, what: str, said: str) -> None:
    assert counted(limit, what) == said


Two = tuple[Ledger, Ledger]
Both = Callable[[], AbstractAsyncContextManager[Two]]


@pytest.fixture(params=ENGINES)
def both(request: pytest.FixtureRequest, clock: ManualClock, tmp_path: Path) -> Both:
    """A ledger shared by two processes; in memory, both are the same."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[Two]:
        ledgers = _two(request, clock, tmp_path)
        try:
            yield ledgers
        finally:
            for ledger in {*ledgers}:
                await ledger.aclose()

    return opened


def _two(request: pytest.FixtureRequest, clock: ManualClock, folder: Path) -> Two:
    if request.param == "memory":
        return (MemoryLedger(clock),) * 2
    if request.param == "sqlite":
        return SQLiteLedger(folder / "ledger", clock), SQLiteLedger(folder / "ledger", clock)
    if request.param == "postgres":
        url = request.getfixturevalue("postgres")
        return PostgresLedger(url, clock), PostgresLedger(url, clock)
    url = request.getfixturevalue("server").url
    return RedisLedger(url, clock), RedisLedger(url, clock)


@pytest.fixture
def key(request: pytest.FixtureRequest) -> str:
    """A key with the name of the test."""
    return str(request.node.name)


async def taken(ledger: Ledger, key: str) -> Spending:
    return (await ledger.spending([key]))[0]


LIMITS: dict[str, tuple[Allowance, int, str]] = {
    "requests": (Allowance(requests=3), 3, "3 requests a minute"),
    "tokens": (Allowance(tokens=250), 3, "250 tokens a minute"),
    "streams": (Allowance(streams=2), 2, "2 answers at a time"),
    "day": (Allowance(dollars_a_day=0.5), 2, "0.5 US dollars a day"),
    "month": (Allowance(dollars_a_month=0.9), 4, "0.9 US dollars a month"),
    "the first that is reached": (Allowance(requests=9, dollars_a_day=0.25), 1, "0.25 US dollars"),
    "none": (Allowance(), 9, ""),
}
"""The limits, the number of admitted calls of 100 tokens and 0.25 dollars, and the limit's name."""


@pytest.mark.parametrize("case", LIMITS)
async def test_calls_are_admitted_until_the_processes_reach_a_limit(
    case: str, both: Both, key: str
) -> None:
    async with both() as two:
        allowance, most, what = LIMITS[case]
        answers = [await two[number % 2].admit(key, allowance, 100, 0.25) for number in range(9)]
        assert [isinstance(answer, Ticket) for answer in answers] == [n < most for n in range(9)]
        for answer in answers[most:]:
            assert isinstance(answer, Refusal)
            assert answer.what.startswith(what)
            assert answer.spent == ("dollars" in what)
            assert answer.retry_after >= 1
        assert isinstance(await two[0].admit(f"{key} another", allowance, 100, 0.25), Ticket)


async def test_concurrent_calls_do_not_exceed_a_limit(both: Both, key: str) -> None:
    async with both() as two:
        allowance = Allowance(requests=10)
        answers = await asyncio.gather(
            *(two[number % 2].admit(key, allowance, 0, 0.0) for number in range(40))
        )
        assert sum(isinstance(answer, Ticket) for answer in answers) == 10


async def test_the_usage_of_a_call_replaces_its_reservation(both: Both, key: str) -> None:
    async with both() as two:
        first, second = two
        allowance = Allowance(dollars_a_day=1.0, tokens=1000)
        dear = await first.admit(key, allowance, 5000, 3.0)
        assert isinstance(dear, Ticket)
        assert isinstance(await second.admit(key, allowance, 1, 0.1), Refusal)
        await first.settle(dear, 20, 0.125)
        found = await taken(second, key)
        assert (found.requests, found.tokens, found.streams) == (1, 20, 0)
        assert (found.dollars_today, found.dollars_this_month) == (0.125, 0.125)
        assert isinstance(await second.admit(key, allowance, 1, 0.1), Ticket)


async def test_a_minute_is_a_sliding_window(both: Both, key: str, clock: ManualClock) -> None:
    async with both() as two:
        allowance = Allowance(requests=2)
        await two[0].admit(key, allowance, 0, 0.0)
        await clock.advance(30)
        await two[0].admit(key, allowance, 0, 0.0)
        refused = await two[1].admit(key, allowance, 0, 0.0)
        assert isinstance(refused, Refusal)
        assert refused.retry_after == pytest.approx(31, abs=0.01)
        await clock.advance(refused.retry_after)
        assert isinstance(await two[1].admit(key, allowance, 0, 0.0), Ticket)
        assert isinstance(await two[1].admit(key, allowance, 0, 0.0), Refusal)


async def test_budgets_reset_with_the_day_and_the_month(
    both: Both, key: str, clock: ManualClock
) -> None:
    async with both() as two:
        allowance = Allowance(dollars_a_day=1.0, dollars_a_month=1.5)
        late = await two[0].admit(key, allowance, 0, 1.0)
        refused = await two[0].admit(key, allowance, 0, 1.0)
        assert isinstance(refused, Refusal)
        assert refused.retry_after == pytest.approx(600, abs=1)
        await clock.advance(601)
        assert isinstance(late, Ticket)
        await two[0].settle(late, 0, 0.5)  # of the day before
        assert isinstance(await two[1].admit(key, allowance, 0, 0.75), Ticket)
        found = await taken(two[1], key)
        assert (found.dollars_today, found.dollars_this_month) == (0.75, 0.75)
        await clock.advance(86400)
        assert isinstance(await two[0].admit(key, allowance, 0, 0.75), Ticket)
        assert (await taken(two[0], key)).dollars_this_month == 1.5
        month = await two[0].admit(key, allowance, 0, 0.75)
        assert isinstance(month, Refusal)
        assert month.what == "1.5 US dollars a month"
        assert month.retry_after == pytest.approx(27 * 86400, abs=2)


def down(message: str, threshold: int, *, is_first: bool = True) -> FailedAttempt:
    """Return a failure after which one attempt is admitted every 30 seconds."""
    return FailedAttempt(
        kind="overloaded",
        message=message,
        is_first=is_first,
        threshold=threshold,
        rest=30.0,
        probe=30.0,
    )


async def test_a_circuit_opens_for_all_and_admits_one_probe_after_the_cooldown(
    both: Both, key: str, clock: ManualClock
) -> None:
    async with both() as two:
        first, second = two
        assert await first.circuit(key) is None
        for _ in range(3):
            await first.failed(key, down("full – really", threshold=3))
        circuit = await second.circuit(key)
        assert circuit is not None
        assert (circuit.failures, circuit.kind, circuit.message) == (
            3,
            "overloaded",
            "full – really",
        )
        assert circuit.rest == pytest.approx(30, abs=0.01)
        await clock.advance(30.5)
        rests = [(await ledger.circuit(key)) for ledger in (second, first)]
        assert [one and one.rest > 0 for one in rests] == [False, True]
        await second.succeeded(key)
        assert await first.circuit(key) is None


async def test_a_circuit_counts_calls_and_respects_retry_after(
    both: Both, key: str, clock: ManualClock
) -> None:
    async with both() as two:
        first, second = two
        await first.failed(key, down("full", threshold=2))
        for _ in range(3):
            await first.failed(key, down("full", threshold=2, is_first=False))
        closed = await second.circuit(key)
        assert closed is not None
        assert (closed.failures, closed.rest) == (1, 0.0)
        throttled = FailedAttempt(
            kind="throttled", message="slow down", threshold=2, rest=1.5, probe=0.0
        )
        await second.failed(key, throttled)
        rests = [await ledger.circuit(key) for ledger in two]
        assert [one and one.rest for one in rests] == pytest.approx([1.5, 1.5], abs=0.01)
        await clock.advance(1.5)
        rests = [await ledger.circuit(key) for ledger in (*two, *two)]
        assert [one and one.rest for one in rests] == [0.0] * 4


# -- what the machine's own processes share ------------------------------------------------------


async def test_a_file_outlives_its_process_and_drops_a_dead_process_streams(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = SQLiteLedger(tmp_path / "ledger")
    monkeypatch.setattr(ledger, "_process", str(2**22 + 1))  # beyond what Linux gives out
    await ledger.admit("a", Allowance(), 10, 1.0)
    await ledger.aclose()
    again = SQLiteLedger(tmp_path / "ledger")
    found = await taken(again, "a")
    assert (found.dollars_today, found.tokens, found.streams) == (1.0, 10, 0)
    await again.aclose()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_the_streams_of_a_dead_process_with_the_same_id_are_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a container, each start gives out the same few ids."""
    with monkeypatch.context() as earlier:
        earlier.setattr("swink_gateway.policy.limits.debts._start_of", lambda id: "1")
        dead = SQLiteLedger(tmp_path / "ledger")
        assert isinstance(await dead.admit("a", Allowance(streams=1), 10, 1.0), Ticket)
        await dead.aclose()
    alive = SQLiteLedger(tmp_path / "ledger")
    assert isinstance(await alive.admit("a", Allowance(streams=1), 10, 1.0), Ticket)
    await alive.aclose()


async def test_the_number_of_stored_circuits_is_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swink_gateway.policy.limits.memory.MOST_REMEMBERED", 5)
    monkeypatch.setattr("swink_gateway.policy.limits.sql.MOST_REMEMBERED", 5)
    for ledger in (MemoryLedger(), SQLiteLedger(tmp_path / "ledger")):
        for number in range(9):
            await ledger.failed(str(number), down("full", threshold=1))
        known = [await ledger.circuit(str(number)) is not None for number in range(9)]
        assert known == [False] * 4 + [True] * 5
        await ledger.aclose()


WRONG = [
    (Store("sqlite"), "needs a path"),
    (Store("redis"), "needs a url"),
    (Store("postgres"), "needs a url"),
    (Store("paper"), "not known"),
    (Store("redis", url="localhost"), "cannot be shared"),
    (Store("postgres", url="localhost"), "cannot be kept in Postgres"),
    (Store("redis", url="redis://localhost", ledger="postgres://[::1"), "not the address"),
    (Store("sqlite", path=Path("/nowhere/ledger")), "cannot be kept"),
    (Store("redis", url="redis://localhost", path=Path("/nowhere")), "/nowhere does not exist"),
]


@pytest.mark.parametrize(("store", "why"), WRONG, ids=[why for _, why in WRONG])
def test_an_unusable_store_is_reported_with_the_cause(store: Store, why: str) -> None:
    before = {*threading.enumerate()}
    with pytest.raises(UsageError, match=why):
        open_ledger(store)
    assert before.issuperset(threading.enumerate())


# -- while Redis is lost ---------------------------------------------------------------------------


@pytest.fixture
def by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the background tasks, so that the test controls every step."""
    monkeypatch.setattr("swink_gateway.policy.limits.redis.SIGN_SECONDS", 3600.0)
    monkeypatch.setattr("swink_gateway.policy.limits.redis.MOST_LOOKS", 1)


@pytest.fixture
def mortal(tmp_path: Path, by_itself: None) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path)
    server.start()
    yield server
    server.kill()


async def back(*ledgers: RedisLedger) -> None:
    """Let the ledgers reconnect, as they do every second without a test."""
    for ledger in ledgers:
        await ledger._come_back()


@pytest.mark.parametrize("forgets", [False, True])
async def test_without_redis_each_process_uses_its_lease_and_settles_after_the_reconnect(
    forgets: bool, mortal: RedisServer, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    ledgers = RedisLedger(mortal.url, clock), RedisLedger(mortal.url, clock)
    budget = Allowance(dollars_a_day=16.0)
    for ledger in ledgers * 2:
        assert isinstance(await ledger.admit("a", budget, 0, 1.0), Ticket)
    for ledger in ledgers:
        await ledger.spending(["a"])  # as each does every second
    mortal.kill(forgets=forgets)
    with caplog.at_level(logging.WARNING):
        alone = [[await ledger.admit("a", budget, 0, 1.0) for _ in range(9)] for ledger in ledgers]
        assert [sum(isinstance(one, Ticket) for one in some) for some in alone] == [3, 3]
        mortal.start()
        await back(*ledgers)
    said = [record.message for record in caplog.records]
    assert [("share, one of 2" in one, "is back:" in one) for one in said] == [
        (True, False), (True, False), (False, True), (False, True),
    ]  # fmt: skip
    for ledger in ledgers:
        assert (await taken(ledger, "a")).dollars_today == 10.0  # and half of what was left
    for ledger in ledgers:
        assert isinstance(await ledger.admit("a", budget, 0, 1.0), Ticket)
        await ledger.aclose()


class Torn(RedisLedger):
    """A ledger that loses its server before or after a request reaches it.

    `asked` contains the scripts that were to run.
    """

    cut: str = ""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.asked: list[str] = []
        server: Any = self._server
        self._reached = server.run
        server.run = self._run

    async def _run(self, script: str, keys: Sequence[str], *arguments: Any) -> Any:
        self.asked.append(script)
        if self.cut == "before":
            raise ConnectionError("cut off")
        reply = await self._reached(script, keys, *arguments)
        if self.cut == "after":
            raise ConnectionError("cut off")
        return reply


PROCESSES = 4

BOUNDS: dict[str, tuple[Allowance, int]] = {
    "requests": (Allowance(requests=60), 60),
    "tokens": (Allowance(tokens=6000), 60),
    "answers at a time": (Allowance(streams=60), 60),
    "dollars": (Allowance(dollars_a_day=60.0), 60),
    "dollars a month": (Allowance(dollars_a_month=60.0), 60),
}
"""The limits, and the number of admitted calls of 100 tokens and a dollar."""


@pytest.mark.parametrize("bound", BOUNDS)
async def test_redis_outages_exceed_a_limit_by_at_most_a_call_per_process(
    bound: str, server: RedisServer, clock: ManualClock, by_itself: None
) -> None:
    (allowance, most), reached = BOUNDS[bound], 0
    for seed in range(8):
        chance, key = random.Random(seed), f"{bound} {seed}"
        ledgers = [Torn(server.url, clock) for _ in range(PROCESSES)]
        admitted = 0
        for _ in range(300):
            ledger = chance.choice(ledgers[: chance.randint(1, PROCESSES)])  # most ask one
            match chance.random():
                case small if small < 0.1:
                    await ledger._look([key])
                case small if small < 0.13:  # all of them, or one
                    cut = chance.choice(["before", "after"])
                    for one in chance.choice([ledgers, [ledger]]):
                        one.cut = cut
                case small if small < 0.2:
                    ledger.cut = ""
                    if ledger._server.is_lost:
                        await ledger._come_back()
                case _:
                    answer = await ledger.admit(key, allowance, 100, 1.0)
                    admitted += isinstance(answer, Ticket)
        assert admitted <= most + PROCESSES, seed
        reached += admitted >= most - PROCESSES
        for ledger in ledgers:
            await ledger.aclose()
    assert reached  # or nothing was tried


async def admitted(ledger: Ledger, key: str, times: int) -> int:
    """Return the number of admitted calls, at 40 a minute."""
    answers = [await ledger.admit(key, Allowance(requests=40), 0, 0.0) for _ in range(times)]
    return sum(isinstance(answer, Ticket) for answer in answers)


async def test_usage_reduces_the_lease_of_a_process(
    server: RedisServer, clock: ManualClock, key: str, by_itself: None
) -> None:
    ledger = Torn(server.url, clock)
    await admitted(ledger, key, 1)
    await ledger.spending([key])  # it holds 19
    assert await admitted(ledger, key, 36) == 36
    ledger.cut = "before"
    assert await admitted(ledger, key, 40) == 3
    await ledger.aclose()


async def test_a_process_may_use_its_lease_until_it_is_told_to_return_it(
    server: RedisServer, clock: ManualClock, key: str, by_itself: None
) -> None:
    away, there = Torn(server.url, clock), RedisLedger(server.url, clock)
    assert await admitted(there, key, 4) == 4
    await away.spending([key])
    await there.spending([key])  # each holds 9
    assert await admitted(there, key, 20) == 20
    away.cut = "after"
    await away.spending([key])
    assert await admitted(there, key, 40) == 7
    assert await admitted(away, key, 40) == 9
    for ledger in (away, there):
        await ledger.aclose()


@pytest.mark.parametrize(("used", "reports", "left"), [(19, 1, 11), (20, 2, 15), (30, 2, 7)])
async def test_a_lease_is_reported_again_at_once_only_if_it_falls_below_half(
    used: int, reports: int, left: int, server: RedisServer, clock: ManualClock, by_itself: None
) -> None:
    key = f"used {used}"
    away, there = Torn(server.url, clock), RedisLedger(server.url, clock)
    assert await admitted(there, key, 1) == 1
    await away.spending([key])  # holds 9.75 of the 39 that are left
    assert await admitted(there, key, used) == used
    away.asked.clear()
    await away.spending([key])
    assert away.asked.count(scripts.LOOK) == reports
    assert await admitted(there, key, 40) == left
    for ledger in (away, there):
        await ledger.aclose()


@pytest.mark.parametrize("used", [20.0, 35.0])
async def test_a_lowered_limit_reduces_the_leases_of_all_processes(
    used: float, server: RedisServer, clock: ManualClock, by_itself: None
) -> None:
    key = f"lowered after {used}"
    ledgers = [Torn(server.url, clock) for _ in range(PROCESSES)]
    before, now = Allowance(dollars_a_day=100), Allowance(dollars_a_day=30)
    assert isinstance(await ledgers[0].admit(key, before, 0, used), Ticket)
    for ledger in ledgers:
        await ledger.spending([key])  # each holds an eighth of what remains of 100 dollars
    assert isinstance(await ledgers[0].admit(key, now, 0, 1.0), Refusal)
    for ledger in ledgers * 2:  # the old leases are given up, then new ones granted
        await ledger.spending([key])
    is_left = used < 30
    assert isinstance(await ledgers[1].admit(key, now, 0, 1.0), Ticket) == is_left
    for ledger in ledgers:
        ledger.cut = "before"
    for ledger in ledgers:
        answers = [await ledger.admit(key, now, 0, 1.0) for _ in range(3)]
        assert any(isinstance(answer, Ticket) for answer in answers) == is_left
    for ledger in ledgers:
        await ledger.aclose()


async def test_unused_leases_of_others_go_to_a_process_that_needs_them(
    server: RedisServer, clock: ManualClock, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swink_gateway.policy.limits.redis.SIGN_SECONDS", 0.01)
    ledgers = RedisLedger(server.url, clock), RedisLedger(server.url, clock)
    await ledgers[1].spending([key])
    answers = [await ledgers[0].admit(key, Allowance(requests=40), 0, 0.0) for _ in range(41)]
    assert [isinstance(answer, Ticket) for answer in answers] == [True] * 40 + [False]
    for ledger in ledgers:
        await ledger.aclose()


async def test_the_lease_of_a_silent_process_is_not_released_at_once(
    server: RedisServer, clock: ManualClock, key: str, by_itself: None
) -> None:
    ledgers, allowance = (
        [RedisLedger(server.url, clock) for _ in range(2)],
        Allowance(requests=40.5),
    )
    await ledgers[0].admit(key, allowance, 0, 0.0)
    await ledgers[1].spending([key])  # holds 9.875 of 39.5 from now on
    answers = [await ledgers[0].admit(key, allowance, 0, 0.0) for _ in range(31)]
    assert [isinstance(answer, Ticket) for answer in answers] == [True] * 30 + [False]
    busy = answers[-1]
    assert isinstance(busy, Refusal)
    assert (busy.what, busy.retry_after, busy.spent) == ("40.5 requests a minute", 1.0, False)
    await clock.advance(ALIVE_SECONDS + 1)
    assert isinstance(await ledgers[0].admit(key, allowance, 0, 0.0), Ticket)
    for ledger in ledgers:
        await ledger.aclose()


async def test_concurrent_answers_that_begin_together_all_count(
    server: RedisServer, clock: ManualClock, key: str
) -> None:
    ledger, two = RedisLedger(server.url, clock), Allowance(streams=2)
    answers = await asyncio.gather(*(ledger.admit(key, two, 0, 0.0) for _ in range(5)))
    admitted = [answer for answer in answers if isinstance(answer, Ticket)]
    assert len(admitted) == 2
    assert isinstance(await ledger.admit(key, two, 0, 0.0), Refusal)
    await asyncio.gather(*(ledger.settle(ticket, 0, 0.0) for ticket in admitted))
    assert (await taken(ledger, key)).streams == 0
    await ledger.aclose()


async def test_an_answer_that_ends_without_redis_frees_no_slot_for_others(
    mortal: RedisServer, clock: ManualClock
) -> None:
    ledger, three = RedisLedger(mortal.url, clock), Allowance(requests=3)
    tickets = [await ledger.admit("a", three, 0, 0.0) for _ in range(3)]
    mortal.kill()
    assert isinstance(tickets[0], Ticket)
    await ledger.settle(tickets[0], 0, 0.0)
    assert isinstance(await ledger.admit("a", three, 0, 0.0), Refusal)
    mortal.start()
    await ledger.aclose()


async def test_a_charge_whose_reply_was_lost_counts_once(
    server: RedisServer, clock: ManualClock, key: str, by_itself: None
) -> None:
    ledger = Torn(server.url, clock)
    ticket = await ledger.admit(key, Allowance(), 0, 4.0)
    assert isinstance(ticket, Ticket)
    ledger.cut = "before"
    await ledger.spending([key])  # it is lost from now on
    await ledger.settle(ticket, 0, 1.0)  # 3 are owed back
    ledger.cut = "after"
    with pytest.raises(ConnectionError):
        await ledger._come_back()
    ledger.cut = ""
    await ledger._come_back()
    assert (await taken(ledger, key)).dollars_today == 1.0
    ledger.cut = "after"
    dear = await ledger.admit(key, Allowance(), 0, 4.0)  # Redis has reserved it
    assert isinstance(dear, Ticket)
    ledger.cut = ""
    await ledger._come_back()
    assert (await taken(ledger, key)).dollars_today == 5.0
    ledger.cut = "after"
    await ledger.settle(dear, 0, 1.0)  # Redis has charged it
    ledger.cut = ""
    await ledger._come_back()
    assert (await taken(ledger, key)).dollars_today == 2.0
    await ledger.aclose()


@pytest.mark.parametrize("cut", ["before", "after"])
async def test_a_settlement_that_meets_a_broken_connection_refunds_its_reservation(
    cut: str, server: RedisServer, clock: ManualClock, key: str, by_itself: None
) -> None:
    ledger = Torn(server.url, clock)
    ticket = await ledger.admit(key, Allowance(), 100, 4.0)
    assert isinstance(ticket, Ticket)
    ledger.cut = cut
    await ledger.settle(ticket, 10, 1.0)
    ledger.cut = ""
    await ledger._come_back()
    spent = await taken(ledger, key)
    assert (spent.dollars_today, spent.tokens, spent.streams) == (1.0, 10, 0)
    await ledger.aclose()


@pytest.mark.parametrize("cut", ["before", "after"])
async def test_a_refusal_after_a_broken_connection_leaves_no_reservation(
    cut: str, server: RedisServer, clock: ManualClock, key: str, by_itself: None
) -> None:
    ledger = Torn(server.url, clock)
    ledger.cut = cut
    assert isinstance(await ledger.admit(key, Allowance(requests=9), 100, 4.0), Refusal)
    ledger.cut = ""
    await ledger._come_back()
    spent = await taken(ledger, key)
    assert (spent.dollars_today, spent.requests, spent.tokens, spent.streams) == (0.0, 0, 0, 0)
    await ledger.aclose()


async def test_a_restart_of_redis_is_lost_once_and_charges_each_answer_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swink_gateway.policy.limits.redis.SIGN_SECONDS", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    kept = ("--appendonly", "yes", "--appendfsync", "always", "--save", "")
    server, counters = RedisServer(tmp_path, options=("--port", port, *kept)), Counter[str]()
    server.start()
    ledger = RedisLedger(f"redis://127.0.0.1:{port}", counters=counters)
    try:
        # the answers begin together, so that the pool has a connection for each
        admits = (ledger.admit("a", Allowance(), 9, 4.0) for _ in range(8))
        tickets = [one for one in await asyncio.gather(*admits) if isinstance(one, Ticket)]
        server.kill()
        await until(lambda: ledger._server.is_lost)
        server.start()
        await until(lambda: not ledger._server.is_lost)
        await asyncio.gather(*(ledger.settle(ticket, 1, 0.5) for ticket in tickets))
        assert counters[LOST] == 1
        spent = await taken(ledger, "a")
        assert (spent.dollars_today, spent.tokens, spent.streams) == (4.0, 8, 0)
    finally:
        await ledger.aclose()
        server.kill()


async def test_marks_of_charges_are_deleted(
    server: RedisServer, clock: ManualClock, key: str, by_itself: None
) -> None:
    ledger = RedisLedger(server.url, clock)
    ticket = await ledger.admit(key, Allowance(), 100, 4.0)
    assert isinstance(ticket, Ticket)
    await ledger.settle(ticket, 10, 1.0)
    own = f"swink:gateway:paid:{ledger._name}-*"
    assert len(await ledger._server.redis.keys(own)) == 2
    await ledger._forget_marks()
    assert await ledger._server.redis.keys(own) == []
    await ledger.aclose()


async def test_a_call_that_begins_without_redis_is_settled_with_it_and_vice_versa(
    mortal: RedisServer, clock: ManualClock
) -> None:
    ledger, anything = RedisLedger(mortal.url, clock), Allowance()
    shared = await ledger.admit("a", anything, 100, 4.0)
    mortal.kill()
    alone = await ledger.admit("a", anything, 100, 4.0)
    assert isinstance(shared, Ticket)
    assert isinstance(alone, Ticket)
    await ledger.settle(shared, 10, 1.0)
    mortal.start()
    await back(ledger)
    await ledger.settle(alone, 10, 2.0)
    found = await taken(ledger, "a")
    assert (found.dollars_today, found.tokens, found.requests, found.streams) == (3.0, 20, 2, 0)
    await ledger.aclose()


async def test_a_refusal_without_redis_is_no_spent_budget(clock: ManualClock) -> None:
    ledger = RedisLedger("redis://127.0.0.1:9", clock)
    refused = await ledger.admit("new", Allowance(dollars_a_day=5.0), 0, 0.1)
    assert isinstance(refused, Refusal)
    assert refused.what.endswith("while Redis cannot be reached")
    assert (refused.retry_after, refused.spent) == (5.0, False)
    await ledger.aclose()


async def test_a_new_key_exceeds_no_limit_without_redis(tmp_path: Path, clock: ManualClock) -> None:
    allowances = {
        "rate": Allowance(requests=100), "tokens": Allowance(tokens=1e6),
        "budget": Allowance(dollars_a_day=5.0), "month": Allowance(dollars_a_month=5.0),
    }  # fmt: skip
    ledger = RedisLedger(f"unix://{tmp_path / 'nobody'}", clock)
    for key, allowance in allowances.items():
        assert isinstance(await ledger.admit(key, allowance, 10, 0.1), Refusal), key
    assert isinstance(await ledger.admit("free", Allowance(), 10, 0.1), Ticket)
    await ledger.aclose()


async def test_the_debts_of_a_dead_process_are_paid_by_another(
    mortal: RedisServer, clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.getpid", lambda: 2**22 + 1)  # beyond what Linux gives out
    dead = RedisLedger(mortal.url, clock, tmp_path)
    monkeypatch.undo()
    alive = RedisLedger(mortal.url, clock, tmp_path)
    for ledger in (dead, alive):
        assert isinstance(await ledger.admit("a", Allowance(requests=9), 5, 0.5), Ticket)
        await ledger.spending(["a"])
    mortal.kill()
    for ledger in (dead, alive):
        assert isinstance(await ledger.admit("a", Allowance(requests=9), 5, 0.5), Ticket)
    mortal.start()
    await back(alive)
    found = await taken(alive, "a")
    assert (found.requests, found.tokens, found.dollars_today) == (4, 20, 2.0)
    assert not [name for name in os.listdir(tmp_path) if name.startswith("owed-")]
    for ledger in (dead, alive):
        await ledger.aclose()


async def test_circuits_are_local_while_redis_is_lost(
    mortal: RedisServer, clock: ManualClock
) -> None:
    ledger = RedisLedger(mortal.url, clock)
    await ledger.failed("a", down("gone", threshold=2))
    mortal.kill()
    await ledger.failed("a", down("gone", threshold=2))
    open_one = await ledger.circuit("a")
    assert open_one is not None
    assert open_one.rest > 0
    await ledger.succeeded("a")
    assert await ledger.circuit("a") is None
    mortal.start()
    await ledger.aclose()


async def test_a_ledger_reconnects_in_the_background(
    mortal: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swink_gateway.policy.limits.redis.SIGN_SECONDS", 0.01)
    assert SIGN_SECONDS == 1.0
    ledger = RedisLedger(mortal.url)
    await ledger.admit("a", Allowance(), 1, 0.5)
    mortal.kill()
    await until(lambda: ledger._server.is_lost)
    await ledger.admit("a", Allowance(), 1, 0.5)
    mortal.start()
    await until(lambda: not ledger._server.is_lost)
    assert (await taken(ledger, "a")).dollars_today == 1.0
    await ledger.aclose()


async def test_redis_uses_its_own_clock_and_computes_dates(server: RedisServer) -> None:
    days = [datetime(*day, 12, tzinfo=UTC) for day in DAYS]
    for day in days:
        ledger = RedisLedger(server.url, ManualClock(began=day))
        await ledger.admit(f"on {day}", Allowance(), 0, 1.0)
        raw: Any = await ledger._server.redis.hgetall(f"swink:gateway:dollars:on {day}")
        assert {*raw} == {f"{day:%Y-%m-%d}".encode(), f"{day:%Y-%m}".encode(), b"id"}
        await ledger.aclose()
    ledger = RedisLedger(server.url)
    await ledger.admit("now", Allowance(), 5, 1.0)
    found = await taken(ledger, "now")
    assert (found.requests, found.tokens, found.dollars_today) == (1, 5, 1.0)
    await ledger.aclose()


DAYS = [
    (2026, 1, 1), (2026, 2, 28), (2026, 3, 1), (2028, 2, 29), (2028, 3, 1), (2026, 12, 31),
    (2100, 2, 28), (2100, 3, 1), (2000, 2, 29),
]  # fmt: skip


async def test_a_corrected_clock_locks_no_key() -> None:
    clock = _Corrected()
    ledger = MemoryLedger(clock)
    allowance = Allowance(requests=1)
    clock.offset = 3600
    assert isinstance(await ledger.admit("team", allowance, 0, 0.0), Ticket)
    failed = FailedAttempt(kind="overloaded", message="", threshold=1, rest=30.0, probe=10.0)
    await ledger.failed("echo/echo", failed)
    clock.offset = 0
    assert isinstance(await ledger.admit("team", allowance, 0, 0.0), Ticket)
    assert isinstance(await ledger.admit("team", allowance, 0, 0.0), Refusal)
    circuit = await ledger.circuit("echo/echo")
    assert circuit is not None
    assert circuit.rest == 30.0


class _Corrected(ManualClock):
    """A clock that may be wrong by `offset` seconds."""

    offset = 0

    def __init__(self) -> None:
        super().__init__(began=BEGAN)

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=self.offset)


async def test_a_corrected_redis_clock_locks_no_key(server: RedisServer, key: str) -> None:
    clock = _Corrected()
    ledger = RedisLedger(server.url, clock)
    allowance = Allowance(requests=1)
    clock.offset = 3600
    assert isinstance(await ledger.admit(key, allowance, 0, 0.0), Ticket)
    clock.offset = 0
    assert (await taken(ledger, key)).requests == 0
    await ledger.aclose()


def test_the_clock_of_a_server_goes_on_by_itself_once_its_time_is_known() -> None:
    machine = _Corrected()
    server = ServerClock(machine)
    assert server.now() == machine.now()
    server.set(1_000_000.0)
    for machine.offset in (0, 3600, -3600):
        assert server.now().timestamp() == pytest.approx(1_000_000.0)


@pytest.mark.parametrize("looks", [True, False])
async def test_a_wrong_clock_of_a_machine_moves_no_attempt_while_redis_is_lost(
    looks: bool, mortal: RedisServer, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = {"hours": 0}

    def now(self: LoopClock) -> datetime:
        return datetime.now(UTC) + timedelta(**ahead)

    monkeypatch.setattr(LoopClock, "now", now)
    ledger, allowance = RedisLedger(mortal.url), Allowance(requests=10)
    for _ in range(2):
        assert isinstance(await ledger.admit(key, allowance, 0, 0.0), Ticket)
    if looks:
        await ledger.spending([key])
    mortal.kill()
    admitted = 0
    for ahead["hours"] in (1, 2, -1, 0):
        found = [await ledger.admit(key, allowance, 0, 0.0) for _ in range(6)]
        admitted += sum(isinstance(one, Ticket) for one in found)
    expected = 4 if looks else 0
    assert admitted == expected, "half of what was left, however often the clock is set"
    ahead["hours"] = 1
    mortal.start()
    await back(ledger)
    assert (await taken(ledger, key)).requests == 2 + admitted
    await ledger.aclose()


async def test_a_clock_that_is_set_frees_nothing_for_a_process_that_never_reached_redis(
    tmp_path: Path, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = {"hours": 0}

    def now(self: LoopClock) -> datetime:
        return datetime.now(UTC) + timedelta(**ahead)

    monkeypatch.setattr(LoopClock, "now", now)
    ledger = RedisLedger(f"unix://{tmp_path / 'nobody'}")
    for ahead["hours"] in (0, 1, -1, 0):
        assert isinstance(await ledger.admit(key, Allowance(requests=10), 0, 0.0), Refusal)
    await ledger.aclose()


async def test_a_ledger_can_be_closed_at_any_moment(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swink_gateway.policy.limits.redis.SIGN_SECONDS", 0.0)
    for turns in range(40):
        ledger = RedisLedger(server.url)
        await ledger.spending(["team"])
        await asyncio.sleep(0.005)
        for _ in range(turns):
            await asyncio.sleep(0)
        await ledger.aclose()
        assert len(asyncio.all_tasks()) == 1


async def test_an_id_has_one_owner_for_all_processes(both: Both, key: str) -> None:
    async with both() as (one, other):
        await one.claim(key, {f"{key}-a"})
        await other.claim("bob", {f"{key}-a", f"{key}-b"})
        assert await other.owned(key, {f"{key}-a", f"{key}-b"}) == {f"{key}-a"}
        assert await one.owned("bob", {f"{key}-a", f"{key}-b"}) == {f"{key}-b"}


async def test_budgets_in_redis_never_expire(server: RedisServer, clock: ManualClock) -> None:
    key = "never expires"
    ledger = RedisLedger(server.url, clock)
    ticket = await ledger.admit(key, Allowance(dollars_a_day=1), 0, 0.5)
    assert isinstance(ticket, Ticket)
    await ledger.settle(ticket, 0, 0.25)
    assert await ledger._server.redis.ttl(f"swink:gateway:dollars:{key}") == -1
    await ledger.aclose()


async def test_an_eviction_policy_that_may_delete_budgets_is_logged(
    server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    ledger = RedisLedger(server.url)
    try:
        await ledger._server.check_eviction()
        assert caplog.messages == []
        await ledger._server.redis.config_set("maxmemory", "1gb")
        await ledger._server.redis.config_set("maxmemory-policy", "allkeys-lru")
        await ledger._server.check_eviction()
        [message] = caplog.messages
        assert "allkeys-lru" in message
        assert "noeviction" in message
    finally:
        await ledger._server.redis.config_set("maxmemory", "0")
        await ledger._server.redis.config_set("maxmemory-policy", "noeviction")
        await ledger.aclose()


def _has_mark(ledger: RedisLedger) -> bool:
    return ledger._mark is not None


async def test_budgets_are_restored_after_a_flush_of_redis(
    server: RedisServer, caplog: pytest.LogCaptureFixture, by_itself: None
) -> None:
    key, counters = "flushed", Counter[str]()
    ledger = RedisLedger(server.url, counters=counters)
    ticket = await ledger.admit(key, Allowance(dollars_a_day=1), 0, 0.5)
    assert isinstance(ticket, Ticket)
    await ledger.settle(ticket, 0, 0.25)
    await taken(ledger, key)
    await until(partial(_has_mark, ledger))
    await ledger._server.redis.flushall()
    await ledger._check_data()
    spent = await taken(ledger, key)
    assert (spent.dollars_today, spent.streams) == (0.25, 0)
    assert counters[DATA_LOST] == 1
    assert "has lost its data" in caplog.text
    await ledger._check_data()
    assert counters[DATA_LOST] == 1
    await ledger.aclose()


async def test_running_answers_are_counted_again_after_a_flush_of_redis(
    server: RedisServer, key: str, by_itself: None
) -> None:
    ledgers, four = [RedisLedger(server.url), RedisLedger(server.url)], Allowance(streams=4)
    tickets = []
    for ledger in ledgers:
        await taken(ledger, key)
        await until(partial(_has_mark, ledger))
        for _ in range(2):
            ticket = await ledger.admit(key, four, 0, 0.0)
            assert isinstance(ticket, Ticket)
            tickets.append((ledger, ticket))
    await ledgers[0]._server.redis.flushall()
    for ledger, ticket in tickets[1:3]:
        await ledger.settle(ticket, 0, 0.0)
        assert (await taken(ledger, key)).streams >= 0
    for ledger in ledgers:  # as each does every second
        await ledger._check_data()
        await taken(ledger, key)
    assert (await taken(ledgers[0], key)).streams == 2
    more = [await ledger.admit(key, four, 0, 0.0) for ledger in ledgers * 3]
    assert sum(isinstance(one, Ticket) for one in more) == 2
    for ledger in ledgers:
        await ledger.aclose()
