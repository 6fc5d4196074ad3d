"""Budgets, circuits and debts that an earlier version kept still count.

Commit 390bb376 wrote `stored/ledger.sql`, the dump of a ledger in SQLite, and `stored/owed`, the
debts of a process that shared a ledger in Redis.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from swink_gateway.policy.limits import Allowance, Circuit, Entry, Query, Refusal, sqlite
from swink_gateway.policy.limits.debts import Debt, Debts
from swink_gateway.policy.limits.ledger import StoreError
from swink_gateway.policy.limits.rows import write
from swink_gateway.policy.limits.sqlite import SQLiteLedger, open_rows
from swink_testing.clock import ManualClock

STORED = Path(__file__).parent / "stored"

WRITTEN = datetime(2026, 1, 31, 23, 50, tzinfo=UTC)
"""The time by the clock of the process that wrote the ledger."""


async def test_spending_recorded_by_an_earlier_version_counts(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    [spending] = await ledger.spending(["team"])
    assert (spending.dollars_today, spending.dollars_this_month) == (0.375, 0.375)
    assert (spending.requests, spending.tokens) == (2, 120)
    refused = await ledger.admit("team", Allowance(dollars_a_day=0.375), 10, 0.01)
    assert isinstance(refused, Refusal)
    assert refused.spent
    await ledger.aclose()


async def test_a_circuit_that_an_earlier_version_opened_is_open(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    assert await ledger.circuit("echo/echo") == Circuit(2, 30.0, "overloaded", "it broke", True)
    await ledger.aclose()


WRITING = """
import asyncio, os, shutil, sys
from pathlib import Path
from swink_gateway.policy.limits import Allowance, Entry
from swink_gateway.policy.limits.sqlite import SQLiteLedger

async def admit(count):
    for number in range(count):
        entry = Entry(model="echo/echo", account="x" * 500)
        await ledger.admit(f"key {number % 9}", Allowance(dollars_a_day=9.0), 10, 0.01, entry)

ledger = SQLiteLedger(Path(sys.argv[1]))
asyncio.run(admit(40))
ledger._database.connection.execute("VACUUM INTO ?", (sys.argv[2],))
asyncio.run(admit(300))
os._exit(0)  # as if killed: the file -wal remains
"""


def restored_beside_its_wal(tmp_path: Path) -> Path:
    """Return a ledger of a killed process over which a backup was copied."""
    path, backup = tmp_path / "ledger.db", tmp_path / "backup.db"
    subprocess.run([sys.executable, "-c", WRITING, path, backup], check=True)
    assert (tmp_path / "ledger.db-wal").stat().st_size
    shutil.copy(backup, path)
    return path


def test_a_backup_beside_the_wal_of_a_later_ledger_is_refused_with_advice(
    swink: Any, tmp_path: Path
) -> None:
    path, file = restored_beside_its_wal(tmp_path), tmp_path / "team.toml"
    with pytest.raises(StoreError, match=r"malformed|damaged") as refused:
        SQLiteLedger(path)
    assert "restore the file from a backup" in refused.value.resolution
    file.write_text(f"[store]\nengine = 'sqlite'\npath = '{path}'\n")
    for command in (
        ["gateway", "--config", str(file), "--port", "0"],
        ["spend", "--ledger", str(path)],
    ):
        done = swink(*command)
        assert done.returncode in (1, 2)
        assert "restore the file from a backup" in " ".join(done.stderr.split())


def test_a_backup_without_the_wal_is_accepted(tmp_path: Path) -> None:
    path = restored_beside_its_wal(tmp_path)
    for end in ("-wal", "-shm"):
        Path(f"{path}{end}").unlink()
    ledger = SQLiteLedger(path)
    assert len(asyncio.run(ledger.entries(Query()))) == 40
    asyncio.run(ledger.aclose())


def test_the_check_of_a_large_ledger_ends_after_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.db"
    database = open_rows(path)
    with database.transaction("rows"):
        write(database.execute, [Entry(id=f"{n}", model="x" * 50) for n in range(20_000)])
    database.close()
    monkeypatch.setattr(sqlite, "CHECK_SECONDS", -1.0)  # the time has passed at once
    open_rows(path).close()
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(b"\xff" * 8192)
    open_rows(path).close()
    monkeypatch.undo()
    with pytest.raises(StoreError, match=r"malformed|damaged"):
        open_rows(path)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_other_users_cannot_read_a_new_ledger(tmp_path: Path) -> None:
    async def written() -> set[int]:
        ledger = SQLiteLedger(tmp_path / "new.db", ManualClock(began=WRITTEN))
        await ledger.admit("team", Allowance(dollars_a_day=1.0), 10, 0.01)
        modes = _modes(tmp_path)  # while it is open, it has further files
        await ledger.aclose()
        return modes

    assert asyncio.run(written()) == {0o600}


def _modes(folder: Path) -> set[int]:
    return {stat.S_IMODE(path.stat().st_mode) for path in folder.glob("new.db*")}


async def test_debts_that_an_earlier_version_left_are_paid(tmp_path: Path) -> None:
    shutil.copy(STORED / "owed", tmp_path / f"owed-{dead_process()}")
    paid: list[Debt] = []

    async def pays(debt: Debt) -> None:
        paid.append(debt)

    await Debts(tmp_path).pay(pays)
    assert [debt[1:] for debt in paid] == [
        ("team", 1769903400, 1, 100, 0.5),
        ("team", 1769903401, 0, -20, -0.25),
    ]


def dead_process() -> int:
    """Return the id of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


def opened(folder: Path) -> SQLiteLedger:
    """Open the stored ledger at the time at which it was written."""
    path = folder / "ledger"
    with closing(sqlite3.connect(path)) as database:
        database.executescript((STORED / "ledger.sql").read_text("utf-8"))
    return SQLiteLedger(path, ManualClock(began=WRITTEN))
