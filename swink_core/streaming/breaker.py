"""Gives a target that keeps failing a rest, for all calls of a client.

A circuit opens after so many consecutive failures of a target, and half-opens after a cooldown:
one call is let through, and its outcome closes the circuit or opens it anew.
"""

from __future__ import annotations

from collections.abc import Hashable

from attrs import define


@define
class _Circuit:
    failures: int = 0
    opened_at: float | None = None


class Circuits:
    """The circuits of a client's targets. Times are a monotonic clock's seconds."""

    def __init__(self) -> None:
        self._circuits: dict[Hashable, _Circuit] = {}

    def is_open(self, target: Hashable, now: float, cooldown: float) -> bool:
        """Tell whether a target is at rest; asking changes nothing."""
        circuit = self._circuits.get(target)
        return (
            circuit is not None
            and circuit.opened_at is not None
            and now - circuit.opened_at < cooldown
        )

    def allows(self, target: Hashable, now: float, cooldown: float) -> bool:
        """Tell whether a call may turn to a target; half-open, only the first may."""
        if self.is_open(target, now, cooldown):
            return False
        circuit = self._circuits.get(target)
        if circuit is not None and circuit.opened_at is not None:
            circuit.opened_at = now  # the next ones wait for what becomes of this try
        return True

    def answered(self, target: Hashable) -> None:
        """Close a target's circuit: it works, whatever it answered."""
        self._circuits.pop(target, None)

    def failed(self, target: Hashable, now: float, threshold: int) -> None:
        """Count a failure and open the circuit when there were enough in a row."""
        circuit = self._circuits.setdefault(target, _Circuit())
        circuit.failures += 1
        if circuit.failures >= threshold:
            circuit.opened_at = now
