"""Markdown on a terminal, as it arrives.

An answer may be longer than the screen, and what has scrolled off cannot be drawn again. So
only the last top-level block of the text (a paragraph, a list, a code block) is drawn live;
blocks before it can no longer change, and are printed once, for good. Of a last block that is
taller than the screen only the end is drawn. Drawing is held to a few
times a second, fewer for a long block: its cost does not depend on the number of deltas. What is
wiped and what takes its place are marked as one change (private mode 2026, "synchronized output"),
so that no terminal shows what is between; one that does not know the marks passes over them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

from markdown_it import MarkdownIt
from rich.console import Console
from rich.live import Live
from rich.markdown import Markdown
from rich.segment import Segment, Segments

from swink_cli.terminal import printable

__all__ = ["LiveMarkdown", "last_block"]

REDRAW = 1 / 15
"""Seconds between two drawings, at least."""
SHARE = 0.2
"""The part of the time that drawing may take, however long the last block has become."""

BEGIN_CHANGE, END_CHANGE = "\x1b[?2026h", "\x1b[?2026l"

_parser = MarkdownIt().enable("strikethrough").enable("table")  # as rich parses


def last_block(text: str) -> int:
    """Return where the last top-level block of Markdown text begins."""
    starts = [token.map[0] for token in _parser.parse(text) if token.level == 0 and token.map]
    if len(starts) < 2:
        return 0
    lines = text.split("\n")  # as the parser does; `splitlines` ends lines at U+2028 too
    return sum(len(line) + 1 for line in lines[: starts[-1]])


class LiveMarkdown:
    """The answer as formatted text; see the module."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console()
        self._text = ""
        self._parts: list[str] = []
        self._live: Live | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._pause = REDRAW
        self._printed = self._voidable = False
        self._erasable = 0

    def write(self, text: str) -> None:
        """Show text at the next drawing."""
        self._parts.append(printable(text))
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._pause, self._draw)

    def flush(self) -> None:
        """Nothing to do: a drawing is due."""

    def step_aside(self) -> None:
        """Take the live block off the screen; it comes back below."""
        self._join()
        with self._one_change():
            self._stop()
        self._erasable = 0

    def end_block(self) -> None:
        """Print what is left for good."""
        self._join()
        with self._one_change():
            self._stop()
            self._print(self._text)
        self._text = ""

    def end_turn(self) -> None:
        """Forget; what is on the screen is valid."""
        self._voidable, self._erasable = False, 0

    def discard(self) -> bool:
        """Wipe what was printed since anyone else wrote, if it is still on the screen."""
        self._join()
        self._stop()
        self._text = ""
        gone = not self._voidable or 0 < self._erasable < self._console.height
        if gone and self._erasable:
            # to the start of the line so many above, and clear from there
            self._console.file.write(f"\x1b[{self._erasable}F\x1b[J")
            self._console.file.flush()
        self._printed, self._voidable, self._erasable = False, False, 0
        return gone

    def close(self) -> None:
        """Print what is left."""
        self.end_block()

    @contextmanager
    def _one_change(self) -> Iterator[None]:
        self._console.file.write(BEGIN_CHANGE)
        try:
            yield
        finally:
            self._console.file.write(END_CHANGE)
            self._console.file.flush()

    def _join(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._text += "".join(self._parts)
        self._parts.clear()

    def _draw(self) -> None:
        began = time.perf_counter()
        self._join()
        start = last_block(self._text)
        with self._one_change():
            if start:
                done, self._text = self._text[:start], self._text[start:]
                self._stop()
                self._print(done)
            if self._text.strip():
                if self._live is None:
                    self._live = Live(console=self._console, auto_refresh=False, transient=True)
                    self._live.start()
                lines = _joined(self._rendered(self._text)[1 - self._console.height :])
                self._live.update(Segments(lines), refresh=True)
        self._pause = max(REDRAW, (time.perf_counter() - began) / SHARE)

    def _print(self, text: str) -> None:
        if not text.strip():
            return
        lines = self._rendered(text)
        self._console.print(Segments(_joined(lines)), end="")
        self._erasable += len(lines)
        self._printed = self._voidable = True

    def _rendered(self, text: str) -> list[list[Segment]]:
        """Blocks come with blank lines of their own; here one stands between any two."""
        lines = [_stripped(line) for line in self._console.render_lines(Markdown(text), pad=False)]
        while lines and _is_blank(lines[0]):
            del lines[0]
        while lines and _is_blank(lines[-1]):
            del lines[-1]
        return [[], *lines] if self._printed else lines

    def _stop(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None


def _joined(lines: list[list[Segment]]) -> list[Segment]:
    return [segment for line in lines for segment in (*line, Segment.line())]


def _stripped(line: list[Segment]) -> list[Segment]:
    """Take off the blanks that fill a line: they are in the way of copying, and of ^C's echo."""
    kept = list(line)
    while kept and not _is_coloured(kept[-1]):
        text = kept[-1].text.rstrip()
        if text:
            kept[-1] = Segment(text, kept[-1].style)
            break
        kept.pop()
    return kept


def _is_coloured(segment: Segment) -> bool:
    return segment.style is not None and segment.style.bgcolor is not None


def _is_blank(line: list[Segment]) -> bool:
    return not any(segment.text.strip() for segment in line)
