"""Write the ledger's rows in batches, at least every second, if the store is not a SQL database.

If a process is killed, its rows of the last second are lost. The store still contains the charges
of the lost rows, so `swink spend --audit` reports that ledger and store differ.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from swink_gateway.policy.limits.database import Database
from swink_gateway.policy.limits.rows import Entry, Query, Total, entries_in, report_in, write
from swink_gateway.policy.limits.sqlite import open_rows

__all__ = ["FLUSH_SECONDS", "RowWriter"]

log = logging.getLogger(__name__)

FLUSH_SECONDS = 0.5
"""Rows are written after this many seconds, so that they are on disk within a second."""

MOST_WAITING = 100_000
"""The maximum number of rows that wait to be written; beyond that, the oldest are dropped."""

MOST_IN_MEMORY = 50_000
"""The maximum number of rows in memory without a file; the oldest are dropped."""

T = TypeVar("T")


class RowWriter:
    """Writes rows to the database that `connect` opens; without `connect`, keeps rows in memory.

    The database is opened and used in one thread. Raises the exceptions of `connect`.
    """

    def __init__(self, connect: Callable[[], Database] | None = None) -> None:
        self._in_memory = connect is None
        self._thread = ThreadPoolExecutor(1, "swink-ledger-rows")
        self._waiting: dict[str, Entry] = {}
        self._flushing: asyncio.Task[None] | None = None
        self._failed = False
        opening: Callable[[], Database] = connect or partial(open_rows, None)
        try:
            self._database = self._thread.submit(opening).result()
        except BaseException:
            self._thread.shutdown()
            raise

    def put(self, entry: Entry) -> None:
        """Queue a row for writing; its values at the time of writing are stored."""
        self._waiting[entry.id] = entry
        if self._flushing is None or self._flushing.done():
            self._flushing = asyncio.ensure_future(self._flush_later())

    async def flush(self) -> None:
        """Write the queued rows."""
        waiting = [*self._waiting.values()]
        if not waiting:
            return
        self._waiting = {}
        try:
            await self._do(lambda: self._write(waiting))
            self._failed = False
        except Exception as error:
            if not self._failed:
                log.error("the ledger cannot be written; its rows wait: %s", error)
            self._failed = True
            self._waiting = {entry.id: entry for entry in waiting} | self._waiting
            excess = len(self._waiting) - MOST_WAITING
            for id in [*self._waiting][: max(0, excess)]:
                del self._waiting[id]

    async def report(self, query: Query) -> list[Total]:
        """Return sums over rows, including queued ones."""
        await self.flush()
        return await self._do(lambda: report_in(self._database.execute, query))

    async def entries(self, query: Query) -> list[Entry]:
        """Return rows, including queued ones."""
        await self.flush()
        return await self._do(lambda: entries_in(self._database.execute, query))

    @property
    def process(self) -> str:
        """The name that identifies this process in its rows."""
        return self._database.name

    async def running(self, processes: Collection[str]) -> set[str]:
        """Return the names of those `processes` that still run."""
        return await self._do(lambda: {*filter(self._database.is_running, processes)})

    async def aclose(self) -> None:
        """Write the queued rows, and close the database."""
        if self._flushing is not None:
            self._flushing.cancel()
        await self.flush()
        self.close()

    def close(self) -> None:
        """Close the database without writing the queued rows."""
        self._thread.submit(self._database.close).result()
        self._thread.shutdown()

    async def _flush_later(self) -> None:
        while self._waiting:
            await asyncio.sleep(FLUSH_SECONDS)
            await self.flush()

    async def _do(self, what: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, what)

    def _write(self, entries: list[Entry]) -> None:
        with self._database.transaction("rows"):
            write(self._database.execute, entries)
            if self._in_memory:
                self._database.execute(_FORGET, (MOST_IN_MEMORY,))


_FORGET = (
    "DELETE FROM attempts WHERE id < (SELECT id FROM attempts ORDER BY id DESC LIMIT 1 OFFSET ?)"
)
