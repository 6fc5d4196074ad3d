"""The ledger in Postgres: what differs from the one in a file."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from swink_gateway.commands.spend import command
from swink_gateway.policy.limits import (
    Allowance,
    Entry,
    Query,
    Store,
    StoreUnavailable,
    Ticket,
    audited,
    faults_of_place,
)
from swink_gateway.policy.limits.ledger import IS_LOST, LOST
from swink_gateway.policy.limits.postgres import PostgresLedger
from swink_testing.clock import ManualClock

if TYPE_CHECKING:
    from swink_test_helpers.postgres_server import PostgresServer

BEGAN = datetime(2026, 1, 31, 23, 50, tzinfo=UTC)

DAY = Allowance(dollars_a_day=1.0)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(began=BEGAN)


async def test_a_server_that_is_away_refuses_calls_and_is_used_again(
    postgres: str, postgres_server: PostgresServer, clock: ManualClock
) -> None:
    counters = Counter[str]()
    ledger = PostgresLedger(postgres, clock, counters)
    ticket = await ledger.admit("alice", DAY, 10, 0.5)
    assert isinstance(ticket, Ticket)
    postgres_server.stop()
    with pytest.raises(StoreUnavailable, match="limits cannot be read or written"):
        await ledger.admit("alice", DAY, 10, 0.5)
    with pytest.raises(StoreUnavailable, match="the ledger cannot be read"):
        await ledger.report(Query())
    assert (counters[LOST], counters[IS_LOST]) == (1, 1)
    postgres_server.start()
    await ledger.settle(ticket, 5, 0.25)
    assert (counters[LOST], counters[IS_LOST]) == (1, 0)
    postgres_server.stop()
    postgres_server.start()
    [spent] = await ledger.spending(["alice"])  # by a new connection
    assert spent.dollars_today == 0.25
    await ledger.aclose()


async def test_the_streams_of_a_process_without_a_connection_are_forgotten(
    postgres: str, clock: ManualClock
) -> None:
    dead, alive = PostgresLedger(postgres, clock), PostgresLedger(postgres, clock)
    one = Allowance(streams=1)
    ticket = await dead.admit("alice", one, 10, 0.5, Entry(model="echo/two"))
    assert isinstance(ticket, Ticket)
    assert not isinstance(await alive.admit("alice", one, 10, 0.5), Ticket)
    now = clock.now().timestamp()
    assert (await audited(alive, ["alice"], now)).unsettled == []
    await dead.aclose()
    while True:  # the server ends the connection a moment later
        if not await alive.running({ticket.entry.process}):
            break
        await asyncio.sleep(0.01)
    assert [row.id for row in (await audited(alive, ["alice"], now)).unsettled] == [ticket.entry.id]
    assert isinstance(await alive.admit("alice", one, 10, 0.5), Ticket)
    await alive.aclose()


async def test_many_processes_make_the_tables_together(postgres: str, clock: ManualClock) -> None:
    ledgers = [PostgresLedger(postgres, clock) for _ in range(8)]
    answers = await asyncio.gather(
        *(one.admit("alice", Allowance(requests=5), 10, 0.5) for one in ledgers)
    )
    assert sum(isinstance(answer, Ticket) for answer in answers) == 5
    for ledger in ledgers:
        await ledger.aclose()


async def test_a_character_that_postgres_does_not_store_is_left_out(
    postgres: str, clock: ManualClock
) -> None:
    ledger = PostgresLedger(postgres, clock)
    await ledger.admit("alice", DAY, 10, 0.5, Entry(model="echo/\0two"))
    [row] = await ledger.entries(Query())
    assert row.model == "echo/two"
    await ledger.aclose()


@pytest.mark.parametrize("engine", ["postgres", "redis"])
def test_the_command_reads_a_ledger_in_postgres(
    engine: str,
    postgres: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def spend() -> None:
        ledger = PostgresLedger(postgres)
        ticket = await ledger.admit("alice", DAY, 10, 0.5)
        assert isinstance(ticket, Ticket)
        await ledger.settle(ticket, 5, 0.25)
        await ledger.aclose()

    asyncio.run(spend())
    file = tmp_path / "team.toml"
    place = "ledger" if engine == "redis" else "url"
    file.write_text(f"""[store]
engine = "{engine}"
{place} = "${{LEDGER}}"
[keys.alice]
key = "${{KEY}}"
""")
    monkeypatch.setenv("LEDGER", postgres)
    monkeypatch.setenv("KEY", "a key")
    command.main(["--config", str(file), "--format", "json"], standalone_mode=False)
    [row] = json.loads(capsys.readouterr().out)
    assert (row["key"], row["attempts"], row["cost"]) == ("alice", 1, 0.25)


def test_a_wrong_address_is_found_without_a_server_and_its_password_is_not_shown() -> None:
    store = Store("postgres", url="postgresql://user:hunter2@[::1/swink")
    [(field, why)] = faults_of_place(store)
    assert field == "url"
    assert "not the address of a server" in why
    assert "hunter2" not in why
    assert "hunter2" not in repr(store)
