"""`swink spend`: report the spending of a gateway's keys from its ledger."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import click
from aiohttp import ClientError, ClientSession, ClientTimeout

import swink_core as swink
from swink_cli.listing import print_lines
from swink_cli.summary import money
from swink_cli.terminal import say, table
from swink_gateway.policy.config import Source
from swink_gateway.policy.limits import Query, Store, audited, open_ledger, reading_rows
from swink_gateway.policy.limits.ledger import StoreUnavailable
from swink_gateway.policy.limits.rows import entries_in, periods, report_in
from swink_gateway.policy.spending import FILTERS, audit_of, csv_of, query_of, rows_of

__all__ = ["command"]

DEFAULT_GATEWAY = "http://127.0.0.1:8117"

KEY_ENV = "SWINK_GATEWAY_KEY"
"""Environment variable with the key to send to a gateway."""

UNAUTHORIZED, FORBIDDEN = 401, 403

EXIT_FOUND = 1
"""The exit code of an audit that found differences."""

ASK_SECONDS = 60.0

_Row = Mapping[str, Any]


@click.command("spend")
@click.option(
    "--by", metavar="NAMES",
    help="Group by key (the default), team, tag, model, account, outcome, day, month; several "
    "with commas.",
)  # fmt: skip
@click.option(
    "--since", metavar="DAY|MONTH",
    help="The first day or month, such as 2026-11-25 or 2026-11; by default this month.",
)  # fmt: skip
@click.option("--until", metavar="DAY|MONTH", help="The last day or month; by default today.")
@click.option("--key", multiple=True, metavar="NAME", help="Only this key.")
@click.option("--team", multiple=True, metavar="NAME", help="Only this team.")
@click.option("--tag", multiple=True, metavar="TAG", help="Only attempts with this tag.")
@click.option("--model", multiple=True, metavar="MODEL", help="Only this model, provider/id.")
@click.option("--account", multiple=True, metavar="PLACE", help="Only this provider account.")
@click.option("--outcome", multiple=True, metavar="WORD", help="Only attempts with this outcome.")
@click.option("--call", multiple=True, metavar="ID", help="Only this call: its x-swink-call.")
@click.option(
    "--request-id", multiple=True, metavar="ID", help="Only the request with this id of a vendor."
)
@click.option("--rows", is_flag=True, help="Print each attempt instead of sums.")
@click.option(
    "--format", "form", default="table", show_default=True,
    type=click.Choice(["table", "csv", "json"]), help="The output format.",
)  # fmt: skip
@click.option(
    "--audit", is_flag=True,
    help="Compare the budgets with the ledger; print differences and unsettled attempts.",
)  # fmt: skip
@click.option(
    "--ledger", type=click.Path(path_type=Path, dir_okay=False, exists=True), metavar="FILE",
    help="Read this ledger.",
)  # fmt: skip
@click.option(
    "--config", "file", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="Read the ledger of the [store] in a gateway's configuration file.",
)  # fmt: skip
@click.option(
    "--gateway", metavar="URL", default=None,
    help=f"Query a gateway with the key in SWINK_GATEWAY_KEY; default: {DEFAULT_GATEWAY}.",
)  # fmt: skip
def command(
    by: str | None,
    since: str | None,
    until: str | None,
    rows: bool,
    form: str,
    audit: bool,
    ledger: Path | None,
    file: Path | None,
    gateway: str | None,
    **filters: Sequence[str],
) -> int:
    """Report the spending of a gateway's keys.

    The command reads the ledger from a file, or queries a running gateway. An operator's key sees
    the spending of all keys, any other key only its own. Days and months are in UTC. `--audit`
    exits with 1 if it finds a difference.
    """
    if sum(one is not None for one in (ledger, file, gateway)) > 1:
        raise swink.UsageError(
            "--ledger, --config and --gateway exclude one another",
            resolution="Pass only one of them.",
        )
    where = {name: filters[name] for name in FILTERS if filters.get(name)}
    if audit and (where or since or until or rows or by is not None):
        raise swink.UsageError(
            "--audit compares the whole ledger: no filter, period, --by or --rows applies to it",
            resolution="Leave these options out, or leave out --audit for a report.",
        )
    if rows and by is not None:
        raise swink.UsageError(
            "--rows prints each attempt, so --by does not apply to it",
            resolution="Leave out --by, or leave out --rows for sums.",
        )
    groups = "key" if by is None else by
    if since is None and until is None:
        since = periods(time.time())[1]
    query = query_of("" if rows else groups, since, until, where)
    if audit:
        return asyncio.run(_audit(file, ledger, gateway, form))
    if ledger is not None or file is not None:
        found = _read(ledger or file, _store_of(file, ledger)[0], query, rows)
    else:
        found = asyncio.run(_ask(gateway, groups, since, until, where, rows))
    _print(found, query.by, rows, form)
    return 0


# -- reading ---------------------------------------------------------------------------------------


def _store_of(file: Path | None, ledger: Path | None) -> tuple[Store, list[str]]:
    """Return the store in a configuration file, and the names of the keys in that file.

    Without `file`, return the store of the SQLite file `ledger`, and no names.
    """
    return (Store("sqlite", ledger), []) if file is None else Source.of(file).store(os.environ)


def _read(place: Path | None, store: Store, query: Query, rows: bool) -> list[dict[str, Any]]:
    read: Callable[..., Any] = entries_in if rows else report_in
    found = reading_rows(store)
    if found is None:
        raise swink.UsageError(
            f"the [store] of {place} has no ledger file",
            resolution="Add a path to [store], or query the running gateway with --gateway.",
        )
    try:
        with found as execute:
            return rows_of(read(execute, query))
    except StoreUnavailable as error:
        raise _unreadable(place, error) from error


def _unreadable(place: Path | None, error: swink.SwinkError) -> swink.SwinkError:
    return swink.SwinkError(
        f"{place}: {error.message}",
        title="No ledger",
        resolution=error.resolution or "Pass the path from the [store] of the gateway's file.",
    )


async def _ask(
    gateway: str | None,
    by: str,
    since: str | None,
    until: str | None,
    where: Mapping[str, Sequence[str]],
    rows: bool,
) -> list[dict[str, Any]]:
    asked = [("by", by), *((name, one) for name, values in where.items() for one in values)]
    asked += [(name, text) for name, text in (("since", since), ("until", until)) if text]
    if rows:
        asked.append(("rows", "true"))
    found: list[dict[str, Any]] = (await _answer(gateway, "report", asked))["data"]
    return found


async def _answer(gateway: str | None, what: str, asked: Sequence[tuple[str, str]] = ()) -> Any:
    base = gateway or DEFAULT_GATEWAY
    key = next(iter(os.environ.get(KEY_ENV, "").split()), None)
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    timeout = ClientTimeout(total=ASK_SECONDS)
    url = f"{base.rstrip('/')}/v1/spending/{what}"
    try:
        async with (
            ClientSession(timeout=timeout, headers=headers) as session,
            session.get(url, params=asked) as response,
        ):
            if response.status != 200:
                raise _none(
                    url, f"HTTP {response.status} {response.reason}", _advice(response.status, what)
                )
            return await response.json()
    except (ClientError, OSError, TimeoutError, ValueError) as error:
        raise _none(
            url, str(error) or type(error).__name__, "Start swink gateway there, or read the ledger"
        ) from error


def _advice(status: int, what: str) -> str:
    if status == FORBIDDEN and what == "audit":
        return f"Set {KEY_ENV} to a key with operator = true, or read the ledger"
    if status in (UNAUTHORIZED, FORBIDDEN):
        return f"Set {KEY_ENV} to a key from its file, or read the ledger"
    return "Read the log of the gateway, or read the ledger"


def _none(url: str, why: str, advice: str) -> swink.SwinkError:
    shown = url.rpartition("@")[2].partition("?")[0]
    return swink.SwinkError(
        f"cannot read the spending from the gateway at {shown} ({why})",
        title="No spending report",
        resolution=f"{advice} with --config or --ledger.",
    )


# -- printing --------------------------------------------------------------------------------------

_AMOUNTS = ("attempts", "tokens", "input", "output", "cost", "estimated", "unsettled")

_ROW_CELLS = ("at", "key", "tags", "model", "tokens", "cost", "outcome", "latency", "call")


def _print(found: Sequence[_Row], by: Sequence[str], rows: bool, form: str) -> None:
    if form == "json":
        click.echo(json.dumps([*found], indent=2, ensure_ascii=False))
    elif form == "csv":
        click.echo(csv_of(found), nl=False)
    elif rows:
        print_lines(table([[_cell(row, name) for name in _ROW_CELLS] for row in found], _ROW_CELLS))
    elif found:
        names = [*by, *_AMOUNTS]
        print_lines(table([[_cell(row, name) for name in names] for row in found], names))
    if not found and form == "table":
        say("no spending in this period")


def _cell(row: _Row, name: str) -> str:
    value = row[name]
    if name == "cost" or (name == "estimated" and not isinstance(value, bool)):
        return "?" if value is None else money(value)
    if isinstance(value, int):
        return f"{value:,}"
    return "-" if value in (None, "") else str(value)


# -- the audit -------------------------------------------------------------------------------------


async def _audit(file: Path | None, path: Path | None, gateway: str | None, form: str) -> int:
    if file is not None or path is not None:
        found = await _audit_of(file, path)
    else:
        found = await _answer(gateway, "audit")
    unsettled, differences = found["unsettled"], found["differences"]
    if form == "json":
        shown = {"unsettled": unsettled, "differences": differences}
        click.echo(json.dumps(shown, indent=2, ensure_ascii=False))
    elif form == "csv":
        click.echo(csv_of(unsettled or differences), nl=False)
    else:
        for row in unsettled:
            click.echo(
                f"{row['at']} {row['key']} {row['model']}: not settled, charged at its "
                f"reserved {_cell(row, 'cost')}"
            )
        for one in differences:
            excess = one["store"] - one["ledger"]
            click.echo(
                f"{one['key']} {one['period']}: the budget has {money(one['store'])}, the ledger "
                f"{money(one['ledger'])}; the {'budget' if excess > 0 else 'ledger'} is "
                f"{money(abs(excess))} higher"
            )
        if not unsettled and not differences:
            click.echo("the ledger and the budgets agree, and every attempt is settled")
    return EXIT_FOUND if unsettled or differences else 0


def _has_budgets(path: Path | None) -> bool:
    found = reading_rows(Store("sqlite", path))
    assert found is not None
    query = "SELECT 1 FROM sqlite_master WHERE name = 'accounts'"
    try:
        with found as execute:
            return bool([*execute(query, ())])
    except StoreUnavailable as error:
        raise _unreadable(path, error) from error


async def _audit_of(file: Path | None, path: Path | None) -> dict[str, Any]:
    store, names = _store_of(file, path)
    if store.engine == "memory":
        raise swink.UsageError(
            f"the [store] of {file} is in the memory of the gateway's process",
            resolution="Query the running gateway: swink spend --audit --gateway URL",
        )
    if file is None and not _has_budgets(path):
        raise swink.UsageError(
            f"{path} has the rows of a ledger, but no budgets to compare them with",
            resolution="Pass the gateway's configuration file: swink spend --audit --config FILE",
        )
    async with aclosing(open_ledger(store)) as ledger:
        keys = {*names, *(total.by["key"] for total in await ledger.report(Query(by=("key",))))}
        return audit_of(await audited(ledger, sorted(keys), time.time()))
