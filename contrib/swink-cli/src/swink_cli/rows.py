"""Rows for people: a table, or where the terminal is too narrow for one, a few words for each."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence

from swink_cli.listing import print_lines
from swink_cli.terminal import is_terminal, table

__all__ = ["print_rows", "reads"]

LEAST = 16
"""Columns that the last cell needs; a table that leaves it fewer is none."""


def print_rows(
    rows: Sequence[Sequence[str]],
    headings: Sequence[str],
    short: Callable[..., Sequence[str]],
) -> None:
    """Print rows; `short` makes two cells of all cells of one, for a narrow terminal."""
    columns = [*zip(*rows, headings, strict=True)]
    needed = sum(max(map(len, cells)) + 2 for cells in columns[:-1]) + LEAST
    if is_terminal(sys.stdout) and needed > shutil.get_terminal_size().columns:
        print_lines(table([short(*row) for row in rows]))
    else:
        print_lines(table(rows, headings))


def reads(count: int) -> str:
    """Say in how many reads of the network something came."""
    return f"{count} read{'' if count == 1 else 's'}"
