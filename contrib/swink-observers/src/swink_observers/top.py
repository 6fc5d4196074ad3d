"""Show a table of calls in the terminal and update it, in a program or in `swink top`.

feed = Feed()
async with swink.Client(plugins=[feed]) as client, top(feed):
    ...
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

import msgspec
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from swink_cli.summary import money
from swink_cli.terminal import printable, table
from swink_observers.feed import Feed
from swink_observers.rows import Calls, Row

__all__ = ["cells", "lines_of", "live", "spent_cells", "top"]

HEADINGS = ("MODEL", "AGE", "FIRST", "TOKENS", "TOK/S", "RETRIES", "COST", "")

SPENT_HEADINGS = ("KEY", "REQUESTS/MIN", "TOKENS/MIN", "UNDER WAY", "TODAY", "THIS MONTH")

NARROW = 64
"""Terminals narrower than this many columns show only the columns in `FEW`."""

FEW = (0, 1, 4, 6)

FEW_OF_LAST = (0, 1, 6, 7)
"""The indexes of the `HEADINGS` that `lines_of` uses on a narrow terminal.

The last column tells how a call ended.
"""

FEW_SPENT = (0, 4, 5)
"""The indexes of `SPENT_HEADINGS` that are used on a narrow terminal."""

MOST_SHOWN = 100


def cells(row: Row, now: float) -> tuple[str, ...]:
    """Return the table cells of a call, in the order of `HEADINGS`."""
    return (
        printable(row.model).replace("\n", " "),
        _seconds(row.age_at(now)),
        _seconds(row.first),
        "" if row.output is None else f"{row.output:,}",
        "" if row.rate is None else f"{row.rate:.0f}",
        str(row.retries) if row.retries else "",
        "" if row.cost is None else money(row.cost),
        "" if row.end is None else printable(row.end),
    )


def spent_cells(row: dict[str, Any]) -> tuple[str, ...]:
    """Return the table cells of a key's spending, in the order of `SPENT_HEADINGS`."""
    limits = row["limits"]

    def of(taken: str, limit: str, shown: Callable[[float], str] = "{:,.0f}".format) -> str:
        most = limits.get(limit)
        return shown(row[taken]) + ("" if most is None else f" of {shown(most)}")

    return (
        printable(row["key"]).replace("\n", " "),
        of("requests", "requests"),
        of("tokens", "tokens"),
        of("streams", "streams"),
        of("dollars_today", "dollars_a_day", money),
        of("dollars_this_month", "dollars_a_month", money),
    )


def lines_of(calls: Calls, spent: Sequence[dict[str, Any]], width: int | None) -> list[str]:
    """Format the current calls and the spending of keys in lines of `width` columns.

    `width` is `None` for an unlimited width.
    """
    is_narrow, now = width is not None and width < NARROW, time.monotonic()

    def rows(told: Iterable[Sequence[str]], heads: Sequence[str], few: Sequence[int]) -> list[str]:
        kept = few if is_narrow else range(len(heads))
        return table([[row[at] for at in kept] for row in told], [heads[at] for at in kept])

    lines = rows([cells(row, now) for row in calls.rows()], HEADINGS, FEW_OF_LAST)
    if spent:
        lines += ["", *rows(map(spent_cells, spent), SPENT_HEADINGS, FEW_SPENT)]
    return lines


def _seconds(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.1f}s" if value < 100 else f"{value / 60:.0f}m"


def live(calls: Calls, console: Console) -> Live:
    """Return a display of calls that fills the terminal and updates itself."""

    def view() -> Group:
        now, chosen = time.monotonic(), range(len(HEADINGS))
        if console.width < NARROW:
            chosen = FEW  # type: ignore[assignment]  # any sequence of numbers is valid
        shown_calls = Table(box=None, expand=True, pad_edge=False)
        for index in chosen:
            is_model = index == 0
            shown_calls.add_column(
                HEADINGS[index],
                ratio=1 if is_model else None,
                justify="left" if is_model or not HEADINGS[index] else "right",
                no_wrap=True,
                overflow="ellipsis",
            )
        room = console.height - 2 - (len(calls.spent) + 2 if calls.spent else 0)
        for row in calls.rows()[: max(0, min(room, MOST_SHOWN))]:
            shown = cells(row, now)
            style = "" if row.end is None else "dim"
            shown_calls.add_row(*(Text(shown[index]) for index in chosen), style=style)
        parts: list[Any] = [
            Text(f"{calls.running} under way; Ctrl-C ends this", style="bold"),
            shown_calls,
        ]
        if calls.spent:
            kept = FEW_SPENT if console.width < NARROW else range(len(SPENT_HEADINGS))
            spent = Table(*(SPENT_HEADINGS[index] for index in kept), box=None, pad_edge=False)
            for one in calls.spent:
                told = spent_cells(one)
                spent.add_row(*(Text(told[index]) for index in kept))
            parts[1:1] = [spent, Text()]
        return Group(*parts)

    return Live(get_renderable=view, console=console, screen=True, refresh_per_second=4)


@asynccontextmanager
async def top(feed: Feed, console: Console | None = None) -> AsyncIterator[None]:
    """Show the calls of `feed` as long as the context is open, on `console` (`None`: stderr)."""
    calls = Calls()

    async def follow() -> None:
        async with aclosing(feed.follow()) as records:
            async for record in records:
                if record is not None:
                    calls.take(record.name, msgspec.json.decode(record.data), time.monotonic())

    following = asyncio.create_task(follow())
    try:
        with live(calls, console or Console(stderr=True)) as view:
            view.refresh()
            yield
    finally:
        following.cancel()
        await asyncio.wait([following])
