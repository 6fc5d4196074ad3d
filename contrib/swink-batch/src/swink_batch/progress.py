"""Show the progress of a run in one line: redrawn on a terminal, repeated in a log."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from typing import IO

from swink_batch.tally import Tally
from swink_cli.summary import money, seconds
from swink_cli.terminal import ECHO, is_dumb, is_terminal

__all__ = ["Progress", "duration", "told"]

DRAW_SECONDS = 0.2

LOG_SECONDS = 10.0

CLEAR = "\r\x1b[K"
"""Moves the cursor to the start of the line and erases the line (ECMA-48 section 8.3.41)."""


class Progress:
    """Shows the progress of a run; pass it as `watch` to `Job.run`.

    On a terminal, one line is redrawn and cut to the width of the terminal; elsewhere, and on a
    terminal that cannot erase a line (TERM=dumb), a line is written every ten seconds. `now`
    returns the time, in seconds.
    """

    def __init__(self, file: IO[str], now: Callable[[], float] = time.monotonic) -> None:
        self._file, self._now = file, now
        self._is_terminal = is_terminal(file) and not is_dumb()
        self._shown_at = now()

    def __call__(self, tally: Tally) -> None:
        """Show the progress, if it is time to do so."""
        now = self._now()
        if now - self._shown_at < (DRAW_SECONDS if self._is_terminal else LOG_SECONDS):
            return
        self._shown_at = now
        line = told(tally)
        if self._is_terminal:  # a wrapped line could not be erased
            line = f"{CLEAR}{line[: shutil.get_terminal_size().columns - ECHO]}"
        self._file.write(line if self._is_terminal else f"{line}\n")
        self._file.flush()

    def close(self) -> None:
        """Erase the redrawn line."""
        if self._is_terminal:
            self._file.write(CLEAR)
            self._file.flush()


def told(tally: Tally) -> str:
    """Return the line that shows the progress."""
    done = tally.done + tally.kept + tally.kept_failed
    share = f"{done:,} of {tally.total:,}" if tally.total else f"{done:,}"
    parts = [f"{share} rows", f"{tally.rate:,.1f}/s", f"{tally.tokens['total']:,} tokens"]
    parts.append(money(tally.cost) + (" and more" if tally.unpriced else ""))
    if tally.left is not None:
        parts.append(f"{duration(tally.left)} left")
    if (rate := tally.held_to) is not None:
        parts.append(f"rate limit: {rate:,.1f} calls/s" if rate else "rate limit: waiting")
    if tally.failed:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in tally.kinds.most_common())
        parts.append(f"{tally.failed:,} failed ({kinds})")
    return " · ".join([*parts, f"{tally.under_way} under way"])


def duration(value: float) -> str:
    """Format a duration, given in seconds."""
    if value < 60:
        return seconds(value)
    minutes = round(value / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"
