"""Turns at a known rate: who may begin when. Shared by many processes, or one's own."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from swink_core.providers import Clock

__all__ = ["LocalTurns", "Turns", "turn"]


@runtime_checkable
class Turns(Protocol):
    """Hands out turns, so that all who ask together keep to a rate."""

    async def take(self, key: str, amount: float, rate: float) -> float:
        """Take a turn of so much (calls, tokens) at a rate a second; return the seconds to wait.

        Turns follow each other, by whomever they are taken; a turn that is taken cannot be given
        back.
        """

    async def members(self) -> int:
        """Return how many processes there are that share what providers allow."""

    async def aclose(self) -> None:
        """Take no more turns."""


ALIVE_SECONDS = 20
"""Seconds after its last sign for which a process still counts."""

BURST = 0.1
"""Seconds that may be caught up with: what was not used in them is used at once."""


def turn(due: float, now: float, amount: float, rate: float) -> tuple[float, float]:
    """Return when the next turn after this one is due, and how long this one has to wait.

    The generic cell rate algorithm: `due` is when the present turn may begin.
    """
    due = max(due, now - BURST)
    return due + amount / rate, max(0.0, due - now)


class LocalTurns:
    """Turns of one process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due: dict[str, float] = {}

    async def take(self, key: str, amount: float, rate: float) -> float:
        """Take a turn and return the seconds to wait for it."""
        now = self._clock.time()
        self._due[key], wait = turn(self._due.get(key, 0.0), now, amount, rate)
        return wait

    async def members(self) -> int:
        """Return 1."""
        return 1

    async def aclose(self) -> None:
        """Do nothing."""
