"""`swink top`: the calls of a program, as a table that keeps itself up to date."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import aclosing, nullcontext

import click

from swink_cli.listing import print_lines
from swink_cli.terminal import is_terminal, table
from swink_observers.following import DEFAULT_URL, following
from swink_observers.rows import Calls

__all__ = ["command"]

LAST = 100
"""Records to begin with, for the calls that have ended."""


@click.command("top")
@click.argument("url", default=DEFAULT_URL)
@click.option("--once", is_flag=True, help="Print the table once; so does a pipe.")
def command(url: str, once: bool) -> int:
    """Show the calls of a program: their age, first token, tokens per second, retries and cost.

    URL is that of a feed, by default http://127.0.0.1:8765/events: what a program serves that was
    started with SWINK_FEED=8765. Ctrl-C ends this, and not the program.
    """
    return asyncio.run(_top(url, once or not is_terminal(sys.stdout)))


async def _top(url: str, once: bool) -> int:
    from rich.console import Console

    from swink_observers.top import HEADINGS, cells, live

    calls, show = Calls(), nullcontext() if once else None
    async with aclosing(following(url, LAST, lambda: None)) as records:
        name, data = await anext(records)  # who finds no feed is told so on the screen as it is
        with show or live(calls, Console()):
            while not (once and name == "now"):
                calls.take(name, data, time.monotonic())
                name, data = await anext(records)
    now = time.monotonic()
    print_lines(table([cells(row, now) for row in calls.rows()], HEADINGS))
    return 0
