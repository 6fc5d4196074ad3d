"""Signs of life: what a client gets while its upstream thinks.

A client, or a proxy on the way, takes a silent connection for a dead one. What the sign is, each
protocol's encoder says (`Encoder.alive`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from swink_core.providers import Clock

__all__ = ["SILENT_SECONDS", "KeepAlive"]

SILENT_SECONDS = 10.0
"""After which a client is told that its answer is still being made."""


class KeepAlive:
    """Calls `beat` whenever nothing was said for `SILENT_SECONDS`, while it is entered.

    The first beat comes after `first` seconds of silence. One timer looks at the
    time of the last `touch`, which costs nothing but a look at the clock.
    """

    def __init__(
        self, clock: Clock, beat: Callable[[], Awaitable[None]], first: float = SILENT_SECONDS
    ) -> None:
        self._clock = clock
        self._beat = beat
        self._silence = first
        self._last = clock.time()
        self._cancel_timer: Callable[[], None] | None = None
        self._beating: asyncio.Future[None] | None = None

    def touch(self) -> None:
        """Take note that something was said."""
        self._last = self._clock.time()
        if self._silence != SILENT_SECONDS:
            self._silence = SILENT_SECONDS
            self._arm()

    @property
    def is_beating(self) -> bool:
        """Whether a beat is not over."""
        return self._beating is not None and not self._beating.done()

    async def beaten(self) -> None:
        """Return when the beat is over."""
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
