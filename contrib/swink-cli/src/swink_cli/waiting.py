"""A sign of life while a model says nothing: what is waited for, and for how long."""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Self

import click

from swink_cli.terminal import ECHO, is_dumb, is_terminal, printable, say, styled

__all__ = ["Waiting"]

MOMENT = 0.15
"""Seconds without a sign that nobody minds; what comes at once never shows one."""

TICK = 0.1


class Waiting:
    """Tells who looks at standard error what is waited for, in the words of `what`.

    The line is there only while nothing else is written: `pause` takes it away first, and `go_on`
    lets it come back. A terminal that cannot take a line back (TERM=dumb) is told once.
    """

    def __init__(self, what: Callable[[], str]) -> None:
        self._what = what
        self._since: float | None = time.monotonic()
        self._shown = ""
        self._fixed = is_dumb()
        self._ticking: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        if is_terminal(sys.stderr):
            self._ticking = asyncio.create_task(self._tick())
        return self

    async def __aexit__(self, *raised: object) -> None:
        self.pause()
        if self._ticking is not None:
            self._ticking.cancel()
            with suppress(asyncio.CancelledError):
                await self._ticking

    def pause(self) -> None:
        """Take the line away."""
        self._since = None
        if self._shown and not self._fixed:
            click.echo("\r\x1b[K", nl=False, err=True)
            self._shown = ""

    def go_on(self, since: float) -> None:
        """Show the line again, of a wait that began at `since` (`time.monotonic()`)."""
        self._since = since

    async def _tick(self) -> None:
        await asyncio.sleep(MOMENT)
        while True:
            if self._since is not None:
                self._show(time.monotonic() - self._since)
            await asyncio.sleep(TICK)

    def _show(self, seconds: float) -> None:
        text = printable(self._what())
        if self._fixed:
            if not self._shown:
                self._shown = text
                say(text)
            return
        text += f" · {seconds:.0f} s" if seconds >= 1 else ""
        text = text[: shutil.get_terminal_size().columns - ECHO]
        if text != self._shown:
            self._shown = text
            click.echo("\r\x1b[K" + styled(text, dim=True), nl=False, err=True)
