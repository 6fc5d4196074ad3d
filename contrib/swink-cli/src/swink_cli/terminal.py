"""What people read beside the answer: notes, errors and tables, plain enough to need no rich."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Sequence
from typing import IO, Any

import click

__all__ = [
    "as_unicode",
    "is_terminal",
    "one_screen",
    "printable",
    "say",
    "show_error",
    "styled",
    "table",
]

_CONTROL = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # a control sequence (ECMA-48 section 5.4)
    r"|\x1b\].*?(?:\x07|\x1b\\)"  # an operating system command, such as a window's title
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f]",
    re.DOTALL,
)


def printable(text: str) -> str:
    """This will take out control characters, with which text could drive a terminal."""
    return _CONTROL.sub("", text)


def as_unicode(text: str) -> str:
    """This will mend what a user typed in another encoding, which no JSON could carry."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def is_terminal(file: IO[Any]) -> bool:
    """This will tell whether a person may be looking at a file, closed ones included."""
    try:
        return file.isatty()
    except ValueError:
        return False


def one_screen() -> bool:
    """This will tell whether stdout and stderr go to the same person's eyes."""
    return is_terminal(sys.stdout) and is_terminal(sys.stderr)


def styled(text: str, **style: Any) -> str:
    """This will return text with ANSI styles, unless the user wants none (NO_COLOR)."""
    return text if os.environ.get("NO_COLOR") else click.style(text, **style)


def say(text: str, **style: Any) -> None:
    """This will write a line to stderr, dim unless styled otherwise."""
    click.echo(styled(printable(text), **(style or {"dim": True})), err=True)


def show_error(title: str, message: str, resolution: str = "") -> None:
    """This will tell a person what went wrong and what to do."""
    say(f"Error: {title}", fg="red", bold=True)
    if message and message != title:
        click.echo(printable(message), err=True)
    if resolution:
        say(resolution, fg="yellow")


def table(rows: Sequence[Sequence[str] | str], headings: Sequence[str] = ()) -> list[str]:
    """This will lay out rows as lines; the last column wraps below itself where it must.

    A row that is a string is the title of those below it, which are indented then. On a terminal
    the width is the terminal's; elsewhere lines are as long as they need to be.
    """
    from textwrap import wrap

    cells = [row for row in (headings, *rows) if row and not isinstance(row, str)]
    if not cells:
        return []
    indent = 2 if any(isinstance(row, str) for row in rows) else 0
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    start = indent + sum(width + 2 for width in widths[:-1])
    room = shutil.get_terminal_size().columns - start if is_terminal(sys.stdout) else 0
    lines = []
    for row in (headings, *rows) if headings else rows:
        if isinstance(row, str):
            lines.append(styled(row, bold=True))
            continue
        head = "".join(f"{cell:<{width}}  " for cell, width in zip(row, widths, strict=True))
        first, *more = wrap(row[-1], room) if room >= 16 and row[-1] else [row[-1]]
        line = (" " * indent + head[: start - indent] + first).rstrip()
        lines.append(styled(line, bold=True) if row is headings else line)
        lines += [" " * start + rest for rest in more]
    return lines
