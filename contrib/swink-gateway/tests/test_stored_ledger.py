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

import pytest

from swink_gateway.policy.limits import Allowance, Circuit, Refusal
from swink_gateway.policy.limits.debts import Debt, Debts
from swink_gateway.policy.limits.sqlite import SQLiteLedger
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
