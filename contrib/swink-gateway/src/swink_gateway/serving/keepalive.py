"""Keep-alives for clients while the upstream sends nothing.

A client, or a proxy in between, treats a silent connection as dead. The encoder of each protocol
returns the bytes to send (`Encoder.alive`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from swink_core.providers import Clock

__all__ = ["SILENT_SECONDS", "KeepAlive"]

SILENT_SECONDS = 10.0
"""The seconds without output after which a client gets a keep-alive."""


class KeepAlive:
    """Calls `beat` after every `SILENT_SECONDS` without output, while its context is active.

    The first call comes after `first` seconds without output. A single timer checks the time of the
    last `touch`, so that `touch` only reads the clock.
    """

    def __init__(self, clock: Clock, beat: Callable[[], Awaitable[None]], first: float) -> None:
        self._clock = clock
        self._beat = beat
        self._silence = first
        self._last = clock.time()
        self._cancel_timer: Callable[[], None] | None = None
        self._beating: asyncio.Future[None] | None = None

    def touch(self) -> None:
        """Record that output was sent."""
        self._last = self._clock.time()
        if self._silence != SILENT_SECONDS:
            self._silence = SILENT_SECONDS
            self._arm()

    @property
    def is_beating(self) -> bool:
        """Whether a call of `beat` is in progress."""
        return self._beating is not None and not self._beating.done()

    async def beaten(self) -> None:
        """If a call of `beat` is in progress, wait until it ends."""
        if self._beating is not None:
            await asyncio.wait([self._beating])

    def __enter__(self) -> Self:
        self._arm()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._cancel_timer is not None:
            self._cancel_timer()
        if self._beating is not None:
            self._beating.cancel()

    def _arm(self) -> None:
        if self._cancel_timer is not None:
            self._cancel_timer()
        self._cancel_timer = self._clock.call_at(self._last + self._silence, self._look)

    def _look(self) -> None:
        if self._clock.time() - self._last >= self._silence:
            self.touch()
            if not self.is_beating:
                self._beating = asyncio.ensure_future(self._beat())
        self._arm()
