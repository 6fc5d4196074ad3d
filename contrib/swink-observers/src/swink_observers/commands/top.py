"""`swink top`: a table of the calls of a program, updated continuously."""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from contextlib import aclosing, nullcontext

import click

from swink_cli.listing import print_lines
from swink_cli.terminal import is_terminal
from swink_observers.following import (
    DEFAULT_GATEWAY,
    DEFAULT_URL,
    Place,
    following,
    spending,
    told_by,
)
from swink_observers.rows import Calls

__all__ = ["command"]

LAST = 100
"""How many earlier records to request, so that the table shows calls that have already ended."""

SPENDING_SECONDS = 2.0
"""The number of seconds between two requests for a gateway's spending report."""


@click.command("top")
@click.argument("url", default=DEFAULT_URL)
@click.option(
    "--gateway", is_flag=False, flag_value=DEFAULT_GATEWAY, metavar="[URL]",
    help=f"Follow the calls of a gateway, by default {DEFAULT_GATEWAY}.",
)  # fmt: skip
@click.option("--once", is_flag=True, help="Print the table once; the default in a pipe.")
def command(url: str, gateway: str | None, once: bool) -> int:
    """Show the calls of a program: their age, first token, tokens per second, retries and cost.

    URL is the address of a feed. The default is http://127.0.0.1:8765/events, the address if the
    program was started with SWINK_FEED=8765. If URL is the address of a gateway that requires
    client keys, set SWINK_GATEWAY_KEY to the key of an operator; the spending of each key is then
    shown too. Ctrl-C ends this command, not the program.
    """
    return asyncio.run(_top(Place.of(url, gateway), once or not is_terminal(sys.stdout)))


async def _keep_spending(place: Place, calls: Calls) -> None:
    while place.spending is not None:
        calls.spent = await spending(place)
        await asyncio.sleep(SPENDING_SECONDS)


async def _top(place: Place, once: bool) -> int:
    from rich.console import Console

    from swink_observers.top import lines_of, live

    width = shutil.get_terminal_size().columns if is_terminal(sys.stdout) else None
    calls, show = Calls(), nullcontext() if once else None
    async with aclosing(following(place, LAST, lambda: None)) as records:
        name, data = await anext(records)  # if this fails, the error appears on the normal screen
        try:
            with show or live(calls, Console()):
                keeping = asyncio.ensure_future(_keep_spending(place, calls))
                try:
                    while not (once and name == "now"):
                        with told_by(place):
                            calls.take(name, data, time.monotonic())
                        name, data = await anext(records)
                finally:
                    keeping.cancel()
        except asyncio.CancelledError:  # Ctrl-C: keep the last table on the screen
            print_lines(lines_of(calls, calls.spent, width))
            raise
    print_lines(lines_of(calls, await spending(place), width))
    return 0
