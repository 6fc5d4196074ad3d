"""Open the ledger in the store that the configuration names."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from attrs import define, field

from swink_gateway.policy.limits.database import Database, Execute
from swink_gateway.policy.limits.ledger import Ledger, StoreError
from swink_gateway.policy.limits.memory import MemoryLedger
from swink_gateway.policy.limits.postgres import PostgresDatabase, PostgresLedger, is_address
from swink_gateway.policy.limits.sqlite import SQLiteLedger, open_rows, reading
from swink_gateway.policy.limits.writer import RowWriter

__all__ = ["ENGINES", "REQUIRED", "Store", "faults_of_place", "open_ledger", "reading_rows"]

ENGINES = ("memory", "sqlite", "postgres", "redis")

REQUIRED = {"sqlite": "path", "postgres": "url", "redis": "url"}
"""The field of a store that an engine requires."""


@define(frozen=True)
class Store:
    """The storage of limits, budgets, circuit breakers and the ledger.

    `engine` is `memory`, `sqlite`, `postgres` or `redis`. For SQLite, `path` is the file; for
    Postgres, `url` is the address of the server; these databases also contain the ledger. For
    Redis, `url` is the address of the server, and `ledger` is where the rows of the ledger are
    written: the path of a SQLite file, or the address of a Postgres server. With the engine
    `memory`, and with Redis without `ledger`, each process keeps its latest 50,000 rows in memory.
    If Redis cannot be reached, charges are kept in the folder at `path`, if given; the processes of
    a machine share this folder.
    """

    engine: str = "memory"
    path: Path | None = None
    url: str | None = field(default=None, repr=False)
    ledger: str | None = field(default=None, repr=False)


def open_ledger(store: Store, counters: Counter[str] | None = None) -> Ledger:
    """Open the ledger of a store.

    The ledger counts in `counters` how often the store was lost. Raises StoreError for an invalid
    path or URL.
    """
    match store:
        case Store(engine="memory"):
            return MemoryLedger(rows=RowWriter())
        case Store(engine="sqlite", path=Path() as path):
            return SQLiteLedger(path, counters=counters)
        case Store(engine="postgres", url=str(url)):
            return PostgresLedger(url, counters=counters)
        case Store(engine="redis", url=str(url), ledger=place):
            from swink_gateway.policy.limits.redis import RedisLedger

            if store.path is not None and (why := _fault_of_folder(store.path)):
                raise StoreError(
                    f"charges cannot be kept in the folder of the store: {why}",
                    resolution="Create the folder, or change path in [store].",
                )
            connect: Callable[[], Database] | None = None
            if place is not None:
                is_server = is_address(place)
                connect = partial(PostgresDatabase if is_server else _open_file, place)
            rows = RowWriter(connect)
            try:
                return RedisLedger(url, folder=store.path, counters=counters, rows=rows)
            except BaseException:
                rows.close()
                raise
    wants = REQUIRED.get(store.engine)
    raise StoreError(
        f"the store {store.engine!r} {f'needs a {wants}' if wants else 'is not known'}",
        resolution=f"Engines are {', '.join(ENGINES)}; SQLite needs a path, the servers a url.",
    )


def _open_file(path: str) -> Database:
    return open_rows(Path(path))


def reading_rows(store: Store) -> AbstractContextManager[Execute] | None:
    """Open the rows of a store for reading, without creating a file.

    `None` means that the rows are in the memory of the gateway's processes.

    Raises StoreError for an invalid path or URL. The context raises StoreUnavailable on entry if
    the rows cannot be read.
    """
    place: str | Path | None = {
        "sqlite": store.path, "postgres": store.url, "redis": store.ledger,
    }.get(store.engine)  # fmt: skip
    if place is None:
        return None
    if isinstance(place, str) and (store.engine == "postgres" or is_address(place)):
        return PostgresDatabase(place).reading()
    return reading(Path(place))


def faults_of_place(store: Store) -> Iterator[tuple[str, str]]:
    """Yield the fields of a store that are wrong, each with the reason.

    Connects to no server and creates no file.
    """
    if store.path is not None:
        if store.engine == "sqlite":
            yield from (("path", why) for why in _faults_of_file(store.path))
        elif why := _fault_of_folder(store.path):
            yield "path", f"a folder that is there and can be written was expected; {why}"
    if store.ledger is not None:
        if is_address(store.ledger):
            yield from (("ledger", why) for why in _faults_of_server("postgres", store.ledger))
        else:
            yield from (("ledger", why) for why in _faults_of_file(Path(store.ledger)))
    if store.engine in ("postgres", "redis"):
        yield from (("url", why) for why in _faults_of_server(store.engine, store.url or ""))


def _faults_of_server(engine: str, url: str) -> Iterator[str]:
    from swink_gateway.policy.limits.redis import RedisLedger

    try:
        PostgresDatabase(url) if engine == "postgres" else RedisLedger(url)
    except StoreError as error:
        yield f"{error.message} ({error.resolution})"


def _faults_of_file(path: Path) -> Iterator[str]:
    if why := _fault_of_folder(path.parent):
        yield f"a file in a folder that is there and can be written was expected; {why}"
    elif path.exists() and not (path.is_file() and os.access(path, os.R_OK | os.W_OK)):
        yield "a file that can be written was expected"


def _fault_of_folder(folder: Path) -> str:
    """Explain the fault of a folder for files; return an empty string for a usable folder."""
    if not folder.exists():
        return f"{folder} does not exist"
    if not folder.is_dir():
        return f"{folder} is not a folder"
    return "" if os.access(folder, os.W_OK | os.X_OK) else f"{folder} cannot be written"
