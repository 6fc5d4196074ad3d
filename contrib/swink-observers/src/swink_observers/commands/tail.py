"""`swink tail`: follow the calls of a program, one line per event."""

from __future__ import annotations

import asyncio
import shutil
import sys
from contextlib import aclosing
from datetime import datetime
from textwrap import fill
from typing import Any

import click
import msgspec

from swink_cli.summary import money
from swink_cli.terminal import is_terminal, printable, say
from swink_observers.feed import KEPT
from swink_observers.following import DEFAULT_GATEWAY, DEFAULT_URL, Place, following, told_by

__all__ = ["command"]


@click.command("tail")
@click.argument("url", default=DEFAULT_URL)
@click.option(
    "-n", "--last", type=click.IntRange(0, KEPT), default=10, show_default=True,
    metavar="N", help="Begin with the last N records.",
)  # fmt: skip
@click.option(
    "--gateway", is_flag=False, flag_value=DEFAULT_GATEWAY, metavar="[URL]",
    help=f"Follow the calls of a gateway, by default {DEFAULT_GATEWAY}.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print complete records, as JSON objects.")
def command(url: str, last: int, gateway: str | None, as_json: bool) -> int:
    """Follow the calls of a program: print a line for each event.

    URL is the address of a feed. The default is http://127.0.0.1:8765/events, the address if the
    program was started with SWINK_FEED=8765. If URL is the address of a gateway that requires
    client keys, set SWINK_GATEWAY_KEY to the key of an operator. Ctrl-C ends this command, not the
    program.
    """
    return asyncio.run(_tail(Place.of(url, gateway), last, as_json))


async def _tail(place: Place, last: int, as_json: bool) -> int:
    def lost() -> None:
        say(f"the feed has ended; waiting for {place.shown}")

    async with aclosing(following(place, last, lost)) as records:
        async for name, data in records:
            if as_json:
                click.echo(msgspec.json.encode({"event": name, **data}).decode())
                continue
            with told_by(place):
                line = _line(name, data)
            if line is not None:
                click.echo(_fitted(line))
    return 0


def _fitted(line: str) -> str:
    """Wrap a line at spaces if it is longer than the terminal is wide."""
    if not is_terminal(sys.stdout):
        return line
    return fill(line, shutil.get_terminal_size().columns, subsequent_indent="  ")


def _line(name: str, data: dict[str, Any]) -> str | None:
    """Format a record as a line of text; return `None` for a record that is not printed."""
    match name:
        case "begin":
            what = "begins"
        case "retry":
            what = (
                f"again in {data['delay']:.1f}s on {data['next']}: {data['kind']}, {data['error']}"
            )
        case "notice":
            what = f"notice {data['code']}"
        case "content":
            what = f"{data['kind']} {data['text']!r}"
        case "end":
            what = _end(data)
        case "gap":
            lost = data["lost"]
            return f"... {'some' if lost is None else lost} records were lost"
        case _:
            return None
    when = datetime.fromisoformat(data["time"]).astimezone().strftime("%H:%M:%S")
    line = printable(f"{when} {data['call'][:6]} {data['model']} {what}")
    return " ".join(line.split())


def _end(data: dict[str, Any]) -> str:
    if "error" in data and data["stop"] != "aborted":
        return f"FAILED {data['kind']}: {data['error']}"
    said = [f"{data['stop']} after {data['age']:.1f}s"]
    if data["first"] is not None:
        said.append(f"first token {data['first']:.1f}s")
    if data.get("cached"):
        said.append("from the cache")
    if data["output"] is not None:
        said.append(f"{data['output']} tokens")
    if data.get("cost") is not None:
        said.append(money(data["cost"], bool(data.get("estimated"))))
    return ", ".join(said)
