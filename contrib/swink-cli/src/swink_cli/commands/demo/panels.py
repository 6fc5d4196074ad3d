"""Draw the demo on a terminal: streams side by side, in panels as large as the screen allows."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from math import ceil
from typing import NamedTuple

from rich.box import ROUNDED
from rich.console import Console, JustifyMethod, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from swink_cli.commands.demo.recordings import Performance
from swink_cli.listing import print_lines
from swink_cli.terminal import ECHO, printable, table

__all__ = ["Layout", "choose_layout", "show_live", "show_table"]

REDRAW = 1 / 12
"""How many seconds pass between two redraws."""
WIDTHS = (38, 26)
"""The minimum width of a panel; the second value is used if the panels do not fit otherwise."""
LEAST_HEIGHT, MOST_HEIGHT = 4, 12
WIRE_FORMAT, NUMERIC = 1, (2, 3, 4, 6)
"""Indexes of the table column with the wire format, and of the columns with numbers."""
LEAST_WIRE_FORMAT = 9
"""The minimum width of the wire format's name in a narrow table."""
ROOMY = 100
"""On screens of at least this width, the table has wide spacing."""

_STYLES = {"text": "", "thinking": "dim italic", "tool": "cyan"}


class Layout(NamedTuple):
    """The number of panels side by side, and their height; a panel of height 1 is a single line."""

    columns: int
    height: int


def choose_layout(count: int, width: int, height: int) -> Layout:
    """Arrange `count` panels so that all fit on the screen."""
    for least in WIDTHS:
        columns = max(1, min(count, width // least))
        rows = ceil(count / columns)
        each = min(MOST_HEIGHT, (height - 1) // rows)
        if each >= LEAST_HEIGHT:
            columns = ceil(count / rows)  # avoids a column that only the first rows would have
            return Layout(columns, each)
    return Layout(1, 1)


async def show_live(shown: Sequence[Performance], console: Console) -> None:
    """Redraw until all streams have ended; the last frame stays on the screen."""
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        while True:
            over = all(one.over for one in shown)
            live.update(_picture(shown, console), refresh=True)
            if over:
                return
            await asyncio.sleep(REDRAW)


def _picture(shown: Sequence[Performance], console: Console) -> RenderableType:
    screen = console.width - ECHO
    layout = choose_layout(len(shown), screen, console.height)
    grid = Table.grid()
    grid.width = screen
    if layout.height == 1:
        grid.add_column(no_wrap=True)
        grid.add_column(ratio=1, no_wrap=True)
        names = max(len(one.title) for one in shown)
        for one in shown:
            line = Text(f"{one.title:<{names}}  ", style=_colour(one))
            grid.add_row(line, _ticker(one, screen - names - 2))
        return grid
    for _ in range(layout.columns):
        grid.add_column(ratio=1)
    width = screen // layout.columns - 4
    panels = [_panel(one, console, width, layout.height) for one in shown]
    for start in range(0, len(panels), layout.columns):
        grid.add_row(*panels[start : start + layout.columns])
    return grid


def _panel(one: Performance, console: Console, width: int, height: int) -> Panel:
    return Panel(
        _tail(one, console, width, height - 2),
        title=Text(one.title, style="bold"),
        title_align="left",
        height=height,
        box=ROUNDED,
        border_style=_colour(one),
    )


def _colour(one: Performance) -> str:
    return "red" if one.problem else "green" if one.over else "yellow"


def _tail(one: Performance, console: Console, width: int, height: int) -> Text:
    """Return the last lines of the text, wrapped to this width."""
    text = Text()
    for style, piece in one.pieces[-4 * width * height :]:  # each piece has at least one character
        text.append(printable(piece), _STYLES[style])
    if one.problem:
        text.append(("\n" if one.pieces else "") + printable(one.problem), "red")
    lines = list(text.wrap(console, max(1, width)))
    while lines and not lines[0].plain.strip():
        del lines[0]
    while lines and not lines[-1].plain.strip():
        del lines[-1]
    return Text("\n").join(lines[-height:])


def _ticker(one: Performance, width: int) -> Text:
    """Return the end of the text as one line, for a panel of height 1."""
    if one.problem:
        return Text(printable(one.problem)[:width], "red")
    said = "".join(piece for _, piece in one.pieces[-width:])
    style = _STYLES[one.pieces[-1][0]] if one.pieces else ""
    return Text(" ".join(printable(said).split())[-width:], style)


def show_table(headings: Sequence[str], rows: Sequence[Sequence[str]], console: Console) -> None:
    """Print the results in a table, compact on a narrow screen."""
    gap = 2 if console.width >= ROOMY else 1
    columns = zip(headings, *rows, strict=True)
    least = [max(map(len, [*heading.split(), *column])) + gap for heading, *column in columns]
    least[WIRE_FORMAT] = LEAST_WIRE_FORMAT
    if sum(least) - gap > console.width:
        print_lines(["", *table(rows, headings), ""])
        return
    grid = Table(box=None, padding=(0, gap, 0, 0), pad_edge=False, header_style="bold")
    for number, heading in enumerate(headings):
        justify: JustifyMethod = "right" if number in NUMERIC else "left"
        heading = heading.replace(" ", "\n")
        # on a narrow screen, the longest words are shortened: those of the wire format
        grid.add_column(
            heading,
            justify=justify,
            no_wrap=number != WIRE_FORMAT,
            overflow="ellipsis",
            vertical="bottom",
        )
    for row in rows:
        grid.add_row(*map(Text, row))
    console.print()
    console.print(grid)
    console.print()
