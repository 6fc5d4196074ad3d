"""Read the user's turns, of one line or several, with line editing and history on a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import click

from swink_cli.files import private_folder, state_folder
from swink_cli.terminal import as_unicode, is_terminal, say, styled

__all__ = ["Reader", "read_turn"]

QUOTES = '"""'
HISTORY_LINES = 2000

Completer = Callable[[str], Iterable[str]]


def read_turn(line: Callable[[bool], str]) -> str:
    """Read the lines of a user's turn and return them as one text.

    A turn continues after a line that ends with a backslash, and between two lines of triple
    quotes.

    `line(is_first)` returns the next line without its line break, or raises EOFError at the end of
    input. If the input ends within a turn, the lines read so far are the turn.
    """
    text = line(True)
    if text.lstrip().startswith(QUOTES):
        return _quoted(text.lstrip()[len(QUOTES) :], line)
    parts = []
    while _is_continued(text):
        parts.append(text[:-1])
        try:
            text = line(False)
        except EOFError:
            text = ""
    return "\n".join([*parts, text])


def _is_continued(text: str) -> bool:
    return (len(text) - len(text.rstrip("\\"))) % 2 == 1


def _quoted(text: str, line: Callable[[bool], str]) -> str:
    parts = []
    while not text.rstrip().endswith(QUOTES):
        parts.append(text)
        try:
            text = line(False)
        except EOFError:
            return "\n".join(parts).strip("\n")
    parts.append(text.rstrip()[: -len(QUOTES)])
    return "\n".join(parts).strip("\n")


class Reader:
    """Reads turns from standard input. `complete` returns completions for the Tab key; with
    `keeps`, the input history is stored for the next chat.
    """

    def __init__(self, complete: Completer, *, keeps: bool) -> None:
        self.interactive = is_terminal(sys.stdin)
        self._editing: Any = None
        if self.interactive and is_terminal(sys.stdout):
            self._editing = _line_editing(complete)
        self._history = state_folder() / "history"
        self._keeps = keeps

    def __enter__(self) -> Reader:
        if self._editing:
            with suppress(OSError):  # the history file does not exist before the first chat
                self._editing.read_history_file(self._history)
            self._editing.set_history_length(HISTORY_LINES)
        return self

    def __exit__(self, *_: object) -> None:
        if not (self._editing and self._keeps):
            return
        try:
            private_folder(self._history.parent)
            # the history is private
            os.close(os.open(self._history, os.O_WRONLY | os.O_CREAT, 0o600))
            self._editing.write_history_file(self._history)
        except OSError as error:
            say(f"notice: the input history was not saved: {self._history}: {error.strerror}")

    def read(self) -> str:
        """Return the next turn. Raises EOFError at the end of input."""
        return as_unicode(read_turn(self._line)).strip()

    def _line(self, first: bool) -> str:
        if self._editing:
            return input(_prompt(first, bracket=True))
        if self.interactive:
            click.echo(_prompt(first), nl=False, err=True)
        text = sys.stdin.readline() if sys.stdin is not None else ""
        if not text:
            raise EOFError
        return text.rstrip("\r\n")


def _prompt(first: bool, bracket: bool = False) -> str:
    if not first:
        return ". "
    colour, end = styled(">", fg="cyan", bold=True).split(">")
    if bracket and colour:  # readline must know which characters take no space on the screen
        return f"\001{colour}\002>\001{end}\002 "
    return f"{colour}>{end} "


def _line_editing(complete: Completer) -> Any:
    """Return the readline module, which adds line editing to `input` (`None` if unavailable)."""
    try:
        import readline
    except ImportError:
        return None

    def offer(_: str, number: int) -> str | None:
        words = list(complete(readline.get_line_buffer()))
        return words[number] if number < len(words) else None

    readline.set_completer(offer)
    readline.set_completer_delims(" ")
    bind = "bind ^I rl_complete" if "libedit" in (readline.__doc__ or "") else "tab: complete"
    readline.parse_and_bind(bind)
    # Python turns bracketed paste off. With bracketed paste, pasted lines are a single turn.
    readline.parse_and_bind("set enable-bracketed-paste on")
    return readline
