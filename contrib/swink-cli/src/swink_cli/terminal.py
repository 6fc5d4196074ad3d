"""Notices, errors and tables on standard error. This module does not use rich."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from itertools import accumulate, pairwise
from pathlib import Path
from typing import IO, Any, TextIO

import click

__all__ = [
    "ECHO",
    "HelpFormatter",
    "PrintableStream",
    "as_unicode",
    "columns_of",
    "fitted",
    "is_dumb",
    "is_terminal",
    "one_screen",
    "own_stdout",
    "owner_of",
    "printable",
    "say",
    "show_error",
    "spelled_here",
    "stdout",
    "styled",
    "table",
]

KNOWN = Path(__file__).resolve().parent / "known_providers.txt"
"""A file with one line per provider that swink maintains: its name and its distribution."""

LEAST_HELP = 52
"""The terminal width below which help texts use a narrow layout."""

ECHO = 2
"""The width of ^C, which a terminal prints at the cursor when Ctrl-C is pressed.

Lines that are erased later leave two columns free, so that ^C does not wrap to the next line.
"""

GAP = 2
"""The number of spaces between the columns of a table."""

LEAST_TAIL = 16
"""The minimum width of the last column of a table; a narrower column is printed below its row."""

_JOINERS = r"\u200c\u200d\ufe00-\ufe0f\U000e0100-\U000e01ef"
"""Joiners and variation selectors, which choose the form of the character before them."""

_UNSEEN = re.compile(
    r"\r\n|[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff"  # control characters, lone surrogates
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidirectional controls (UAX #9)
    r"\xad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u2028\u2029\u2060-\u2065"  # no glyph
    r"\u206a-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"
    rf"{_JOINERS}]"
)
_JOINER = re.compile(f"[{_JOINERS}]")


def printable(text: str) -> str:
    r"""Escape control, bidirectional and invisible characters: `\x1b`, `\u202e`.

    Such characters could control the terminal, or make text look different from its content. Line
    ends and tabs are kept, and so are joiners and variation selectors that belong to the character
    before them.
    """
    return _UNSEEN.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    character = match[0]
    if character == "\r\n":
        return "\n"
    start = match.start()
    if _JOINER.match(character) and start and _takes(match.string[start - 1], character):
        return character
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _takes(before: str, joiner: str) -> bool:
    """Return whether a joiner or variation selector changes the form of the character before it."""
    if joiner == "\ufe0f" and before in "0123456789#*":  # key caps
        return True
    if _UNSEEN.match(before):
        return before == "\ufe0f" and joiner == "\u200d"  # emoji in a sequence
    return before > "\x7f" and not before.isspace()


class PrintableStream:
    """Escapes text that arrives in pieces; the result is that of `printable` for the whole text."""

    def __init__(self) -> None:
        self._last = ""
        self._held = ""

    def feed(self, piece: str) -> str:
        """Return a piece as printable text; a carriage return at its end is kept for the next
        piece.
        """
        text = self._last + self._held + piece
        self._held = "\r" if text.endswith("\r") else ""
        text = text.removesuffix("\r")
        made = printable(text)[len(printable(self._last)) :]
        self._last = text[-1:]
        return made

    def close(self) -> str:
        """Return the rest of the text."""
        held, self._held = self._held, ""
        return printable(held)


def as_unicode(text: str) -> str:
    """Replace undecodable bytes that the user typed, which JSON cannot represent."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def is_terminal(file: IO[Any] | None) -> bool:
    """Return whether a file is a terminal; False if it is closed or `None`."""
    try:
        return file is not None and file.isatty()
    except ValueError:
        return False


_kept: TextIOWrapper | None = None


def stdout() -> TextIO:
    """Return the standard output of this program."""
    return _kept or sys.stdout


@contextmanager
def own_stdout() -> Iterator[None]:
    """Reserve standard output for swink: other code and child processes print to stderr instead.

    The file descriptor of stdout is redirected to stderr, and `stdout` returns a copy of the
    original. If stdout is a terminal, nothing is redirected.
    """
    global _kept
    theirs = sys.stdout
    if is_terminal(theirs) or not isinstance(theirs, TextIOWrapper):
        yield
        return
    theirs.flush()
    copy = os.dup(theirs.fileno())
    to = sys.stderr.fileno() if sys.stderr is not None else os.open(os.devnull, os.O_WRONLY)
    os.dup2(to, theirs.fileno())
    theirs.reconfigure(line_buffering=True)
    kept = _kept = open(copy, "w", encoding=theirs.encoding, errors=theirs.errors)  # noqa: SIM115
    try:
        yield
    finally:
        with suppress(OSError):
            theirs.flush()
        theirs.reconfigure(line_buffering=False)
        os.dup2(copy, theirs.fileno())
        _kept = None
        kept.close()


def one_screen() -> bool:
    """Return whether stdout and stderr are both terminals."""
    return is_terminal(stdout()) and is_terminal(sys.stderr)


def is_dumb() -> bool:
    """Return whether the terminal can neither erase lines nor show styles (TERM=dumb)."""
    return os.environ.get("TERM") == "dumb"


def styled(text: str, **style: Any) -> str:
    """Return text with ANSI styles, unless NO_COLOR or TERM=dumb disables them.

    `click.echo` removes the styles if its output is not a terminal.
    """
    return text if is_dumb() or os.environ.get("NO_COLOR") else click.style(text, **style)


def say(text: str, **style: Any) -> None:
    """Print lines to stderr, dim unless styled otherwise."""
    click.echo(styled(fitted(printable(text)), **(style or {"dim": True})), err=True)


def fitted(text: str, to_stdout: bool = False) -> str:
    """Break lines between words, so that the terminal does not break them inside a word."""
    if not is_terminal(stdout() if to_stdout else sys.stderr):
        return text
    width = shutil.get_terminal_size().columns
    return "\n".join(
        line if columns_of(line) <= width else _wrap(line, width) for line in text.split("\n")
    )


def columns_of(text: str) -> int:
    """Return the number of columns that a line takes on a terminal."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _wrap(line: str, width: int) -> str:
    margin = " " * (len(line) - len(line.lstrip(" ")))
    if not line.isascii():
        from swink_cli.wrapping import breaks

        text = line[len(margin) :]
        starts = [0, *breaks(text, max(1, width - len(margin)))]
        parts = [text[begin:end].rstrip() for begin, end in pairwise([*starts, len(text)])]
        return "\n".join(margin + part for part in parts)
    from textwrap import fill

    return fill(
        line, width, subsequent_indent=margin, break_long_words=False, break_on_hyphens=False
    )


KEEP_A_KEY = "or store one: swink keys set {}, or pass --api-key KEY"

SPELLED_HERE = {
    "or pass api_key=…": KEEP_A_KEY.format("PROVIDER"),
    "base_url=…": "--base-url URL",
    "timeouts=Timeouts(…)": "--option timeouts.NAME=SECONDS",
    "Options in extra=": "Options in --option extra.KEY=VALUE",
    "Raise max_output_chars": "Raise --option max_output_chars=NUMBER",
    "lower max_tokens": "lower --max-tokens",
    "raise max_tokens": "raise --max-tokens",
    'malformed="skip"': "--option malformed=skip",
    "rules=False": "--option rules=false",
    "retired=True": "--option retired=true",
    "the log at DEBUG level": "the output of `swink --debug …`",
}
"""Replacements for parts of the library's advice, which is written for Python callers."""


def spelled_here(advice: str) -> str:
    """Replace Python arguments in the library's advice with options of the command line."""
    for python, here in SPELLED_HERE.items():
        advice = advice.replace(python, here)
    return advice


def show_error(title: str, message: str, resolution: str = "") -> None:
    """Print an error and what to do."""
    absent = re.match(r'no provider "([\w-]+)"', message)
    if absent and (owner := owner_of(absent[1])):
        resolution = f"Install it with `pip install {owner}`; if it is installed, run swink doctor."
    if keyless := re.match(r"no API key for ([\w-]+):", message):
        resolution = resolution.replace("or pass api_key=…", KEEP_A_KEY.format(keyless[1]))
    resolution = spelled_here(resolution)
    for python, here in SPELLED_HERE.items():
        if "…" in python:  # other texts may come from a provider and are not changed
            message = message.replace(python, here)
    say(f"Error: {title}", fg="red", bold=True)
    if message and message != title:
        click.echo(fitted(printable(message)), err=True)
    if resolution:
        say(resolution, fg="yellow")


def owner_of(provider: str) -> str | None:
    """Return the distribution of a provider, whether or not it is installed.

    The result is `None` if swink does not maintain a distribution for the provider.
    """
    return dict(line.split() for line in KNOWN.read_text("utf-8").splitlines()).get(provider)


def table(rows: Sequence[Sequence[str] | str], headings: Sequence[str] = ()) -> list[str]:
    """Format rows as lines, without control characters.

    A row that is a string is the title of the rows below it, which are indented. On a terminal, the
    last column wraps within its width. Columns that do not fit are printed below their row. In a
    file or a pipe, lines have any length.
    """
    rows = [row if isinstance(row, str) else tuple(map(printable, row)) for row in rows]
    cells = [row for row in (headings, *rows) if row and not isinstance(row, str)]
    if not cells:
        return []
    indent = 2 if any(isinstance(row, str) for row in rows) else 0
    widths = [max(map(columns_of, column)) for column in zip(*cells, strict=True)]
    columns = shutil.get_terminal_size().columns if is_terminal(stdout()) else 0
    ends = [indent + end for end in accumulate(width + GAP for width in widths[:-1])]
    if columns and ends and ends[-1] - GAP > columns:
        fit = max(1, sum(end - GAP <= columns for end in ends))
        shorter = [row if isinstance(row, str) else _merged(row, fit) for row in rows]
        return table(shorter, _merged(headings, fit) if headings else ())
    start = ends[-1] if ends else indent
    lines = []
    for row in (headings, *rows) if headings else rows:
        if isinstance(row, str):
            lines.append(styled(row, bold=True))
            continue
        head = "".join(
            cell + " " * (width + GAP - columns_of(cell))
            for cell, width in zip(row[:-1], widths[:-1], strict=True)
        )
        made = _with_tail(" " * indent + head, row[-1], start, columns)
        lines += [styled(line, bold=True) for line in made] if row is headings else made
    return lines


def _merged(row: Sequence[str], fit: int) -> tuple[str, ...]:
    """Keep the first `fit` cells of a row, and merge the others into one cell."""
    return (*row[:fit], (" " * GAP).join(row[fit:]))


def _with_tail(head: str, tail: str, start: int, columns: int) -> list[str]:
    if not columns or start + columns_of(tail) <= columns:
        return [(head + tail).rstrip()]
    if columns - start < LEAST_TAIL:
        return [head.rstrip(), *_wrap(" " * 4 + tail, columns).split("\n")]
    return (head + _wrap(" " * start + tail, columns)[start:]).split("\n")


class HelpFormatter(click.HelpFormatter):
    """A help formatter for terminals narrower than 50 columns, the minimum of click's formatter."""

    def __init__(
        self, indent_increment: int = 2, width: int | None = None, max_width: int | None = None
    ) -> None:
        columns = shutil.get_terminal_size().columns
        self._narrow = columns < LEAST_HELP
        super().__init__(indent_increment, width or (columns if self._narrow else None), max_width)

    def write_dl(
        self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2
    ) -> None:
        """Write a definition list; on a narrow terminal, long terms have a separate line."""
        super().write_dl(rows, self.width // 3 if self._narrow else col_max, col_spacing)
