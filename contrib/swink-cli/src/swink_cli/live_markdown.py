"""Draw a Markdown answer on a terminal as it arrives.

An answer may be longer than the screen, and lines that have scrolled off cannot be redrawn. So only
the last top-level block of the text (a paragraph, a list, a code block) is drawn live; earlier
blocks can no longer change, and are printed once. If the last block is taller than the screen, only
its end is drawn. Redraws are limited to a few per second, fewer for a long block, so their cost
does not depend on the number of deltas. Each redraw is one change to the terminal (private mode
2026, "synchronized output"), so that terminals never show a partial state; a terminal without that
mode ignores its control sequences.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.segment import Segments

from swink_cli.markdown import Line, joined, render
from swink_cli.markdown_tokens import settled
from swink_cli.terminal import PrintableStream

__all__ = ["LiveMarkdown"]

REDRAW = 1 / 15
"""The minimum seconds between two redraws."""
SHARE = 0.2
"""The maximum share of time spent on drawing, however long the last block is."""

BEGIN_CHANGE, END_CHANGE = "\x1b[?2026h", "\x1b[?2026l"


class LiveMarkdown:
    """Shows an answer as formatted Markdown while it arrives; see the docstring of the module."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console()
        self._text = ""
        self._parts: list[str] = []
        self._printable = PrintableStream()
        self._live: Live | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._pause = REDRAW
        self._printed = self._voidable = False
        self._erasable = 0

    def write(self, text: str) -> None:
        """Show text at the next redraw."""
        self._parts.append(self._printable.feed(text))
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._pause, self._draw)

    def flush(self) -> None:
        """Do nothing: the next scheduled redraw shows the text."""

    def step_aside(self) -> None:
        """Remove the live block from the screen; it is redrawn below the output to stderr."""
        self._join()
        with self._one_change():
            self._stop()
        self._erasable = 0

    def end_block(self) -> None:
        """Print the live block permanently."""
        self._parts.append(self._printable.close())
        self._printable = PrintableStream()
        self._join()
        with self._one_change():
            self._stop()
            self._print(self._text)
        self._text = ""

    def end_turn(self) -> None:
        """Keep the printed lines: a later `discard` does not remove them."""
        self._voidable, self._erasable = False, 0

    def discard(self) -> bool:
        """Remove the visible lines that were printed since the last turn or output to stderr.

        Return False if some of these lines can no longer be removed.
        """
        self._join()
        self._stop()
        self._text = ""
        self._printable = PrintableStream()
        gone = not self._voidable or 0 < self._erasable < self._console.height
        if gone and self._erasable:
            # move the cursor up to the first of these lines, and clear from there
            self._console.file.write(f"\x1b[{self._erasable}F\x1b[J")
            self._console.file.flush()
        self._printed, self._voidable, self._erasable = False, False, 0
        return gone

    def close(self) -> None:
        """Print the rest of the text."""
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
        start = settled(self._text)
        with self._one_change():
            if start:
                done, self._text = self._text[:start], self._text[start:]
                self._stop()
                self._print(done)
            if self._text.strip():
                if self._live is None:
                    self._live = Live(console=self._console, auto_refresh=False, transient=True)
                    self._live.start()
                lines = joined(self._rendered(self._text)[1 - self._console.height :])
                self._live.update(Segments(lines), refresh=True)
        self._pause = max(REDRAW, (time.perf_counter() - began) / SHARE)

    def _print(self, text: str) -> None:
        lines = self._rendered(text)
        if lines:
            self._console.print(Segments(joined(lines)), end="")
            self._erasable += len(lines)
            self._printed = self._voidable = True

    def _rendered(self, text: str) -> list[Line]:
        """Render blocks, separated by blank lines from each other and from earlier output."""
        lines = render(text, self._console)
        return [[], *lines] if lines and self._printed else lines

    def _stop(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
