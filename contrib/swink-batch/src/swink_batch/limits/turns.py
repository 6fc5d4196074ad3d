"""`Turns`: spread calls evenly over time at a known rate, in one process or in many."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from swink_core.providers import Clock

__all__ = ["LocalTurns", "Turns", "turn"]


@runtime_checkable
class Turns(Protocol):
    """Assigns start times (turns) to calls, so that all processes together keep to a rate."""

    async def take(self, key: str, amount: float, rate: float) -> float:
        """Take a turn for an amount (calls, tokens) at a rate, and return the seconds to wait.

        The rate is per second. All processes take turns from one sequence. A turn that is not used
        is lost.
        """

    async def members(self) -> int:
        """Return the number of processes that share the providers' limits."""

    async def aclose(self) -> None:
        """Release resources; this process no longer counts as one of the members."""


ALIVE_SECONDS = 20
"""The seconds for which a process counts as a member after it last called `members`."""

BURST = 0.1
"""After a pause, the calls that the rate allows in at most this many seconds may begin at once."""


def turn(due: float, now: float, amount: float, rate: float) -> tuple[float, float]:
    """Return when the next turn is due, and the seconds to wait for the current turn.

    This is the generic cell rate algorithm: `due` is the time at which the current turn may begin.
    """
    due = max(due, now - BURST)
    return due + amount / rate, max(0.0, due - now)


class LocalTurns:
    """Assigns turns to the calls of one process."""

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
