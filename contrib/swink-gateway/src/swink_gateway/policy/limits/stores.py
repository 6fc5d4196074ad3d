"""Where a ledger is kept, as a configuration says it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from attrs import define, field

from swink_gateway.policy.limits.files import open_rows
from swink_gateway.policy.limits.ledger import Ledger, StoreError
from swink_gateway.policy.limits.memory import MemoryLedger
from swink_gateway.policy.limits.writer import RowWriter

__all__ = ["ENGINES", "Store", "faults_of_place", "open_ledger"]

ENGINES = ("memory", "sqlite", "redis")


@define(frozen=True)
class Store:
    """Where it is kept what the owners of keys took, and which models rest.

    `engine` is `memory`, `sqlite` or `redis`. SQLite's has the `path` of a file, which is the
    ledger too. Redis's has a `url`, and writes rows to the SQLite file `ledger`;
    without it, and in memory, each process has its latest 50,000 rows. The processes of a machine
    keep what they owe Redis in a folder at `path`, if there is one.
    """

    engine: str = "memory"
    path: Path | None = None
    url: str | None = field(default=None, repr=False)
    ledger: Path | None = None


def open_ledger(store: Store, counters: Counter[str] | None = None) -> Ledger:
    """Return the ledger that is kept there; `counters` count losses of a server, by name.

    Raises StoreError where it cannot be kept there.
    """
    match store:
        case Store(engine="memory"):
            return MemoryLedger(rows=RowWriter())
        case Store(engine="sqlite", path=Path() as path):
            from swink_gateway.policy.limits.sqlite import SQLiteLedger

            return SQLiteLedger(path)
        case Store(engine="redis", url=str(url)):
            from swink_gateway.policy.limits.redis import RedisLedger

            rows = RowWriter(None if store.ledger is None else partial(open_rows, store.ledger))
            return RedisLedger(url, folder=store.path, counters=counters, rows=rows)
    wants = {"sqlite": "a path", "redis": "a url"}.get(store.engine)
    raise StoreError(
        f"the store {store.engine!r} {f'needs {wants}' if wants else 'is not known'}",
        resolution=f"Engines are {', '.join(ENGINES)}; SQLite needs a path, Redis a url.",
    )


def faults_of_place(store: Store) -> Iterator[tuple[str, str]]:
    """Yield what shows, without a server asked or a file made, that no ledger can be kept there.

    Each is a field of the store, and why not.
    """
    if store.path is not None:
        if store.engine == "sqlite":
            yield from (("path", why) for why in _faults_of_file(store.path))
        elif not _takes_files(store.path):
            yield "path", "a folder that is there and can be written was expected"
    if store.ledger is not None:
        yield from (("ledger", why) for why in _faults_of_file(store.ledger))
    if store.engine == "redis":
        from swink_gateway.policy.limits.redis import RedisLedger

        try:
            RedisLedger(store.url or "")
        except StoreError as error:
            yield "url", f"{error.message} ({error.resolution})"


def _faults_of_file(path: Path) -> Iterator[str]:
    if not _takes_files(path.parent):
        yield "a file in a folder that is there and can be written was expected"
    elif path.exists() and not (path.is_file() and os.access(path, os.R_OK | os.W_OK)):
        yield "a file that can be written was expected"


def _takes_files(folder: Path) -> bool:
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
