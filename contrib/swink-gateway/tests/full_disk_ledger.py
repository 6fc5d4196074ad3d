"""A ledger in SQLite on a disk that a test can fill."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import TypeVar

from swink_gateway.policy.limits.sqlite import SQLiteLedger

T = TypeVar("T")


class FullDisk(SQLiteLedger):
    """A ledger in a file that no longer grows."""

    is_full = False

    async def _do(self, what: Callable[[], T]) -> T:
        def fail() -> T:
            raise sqlite3.OperationalError("database or disk is full")

        return await super()._do(fail if self.is_full else what)
