"""The circuit breaker: a target that keeps failing is passed over for a while, by all calls.

A circuit opens after so many failures of a target in a row, and is half open after a cooldown: one
call is let through, and what becomes of it closes the circuit or opens it anew. The last target of
a chain is always tried: there is nothing better to do.
"""

from __future__ import annotations

from attrs import define

from swink_core.failures.exceptions import ProviderFailure
from swink_core.failures.failure import Failure
from swink_core.failures.kinds import KINDS
from swink_core.plugins.binding import Target
from swink_core.vocabulary.clock import Clock
from swink_core.vocabulary.events import Done, Error
from swink_core.vocabulary.http import ResponseHead
from swink_core.vocabulary.outcome import StreamErrorKind as Kind

STALE = "core:stale"
"""The rule of a pooled connection that had gone, which is nobody's fault."""

KEEPS_FAILING = "it keeps failing"


@define
class _Circuit:
    failures: int = 0
    opened_at: float | None = None


class CircuitBreaker:
    """The circuits of a client's targets; the first of its gates."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._circuits: dict[str, _Circuit] = {}

    def is_open(self, target: Target) -> bool:
        """Tell whether a target is cooling down; asking changes nothing."""
        circuit = self._circuits.get(target.key) if self._circuits else None
        if circuit is None or circuit.opened_at is None:
            return False
        return self._clock.time() - circuit.opened_at < target.options.retry.circuit_cooldown

    async def enter(self, target: Target) -> None:
        """Let an attempt begin; half open, only the first. Raises ProviderFailure."""
        if not self._circuits or target.is_last:
            return
        if self.is_open(target):
            kind, code = Kind.OVERLOADED, "circuit_open"
            raise ProviderFailure(Failure("connect", kind=kind, code=code, message=KEEPS_FAILING))
        circuit = self._circuits.get(target.key)
        if circuit is not None and circuit.opened_at is not None:
            circuit.opened_at = self._clock.time()  # the next ones wait for what becomes of this

    def leave(self, target: Target, terminal: Done | Error, response: ResponseHead | None) -> None:
        """Count what the end of an attempt says of its target's health."""
        healthy: bool | None = True
        if isinstance(terminal, Error):
            healthy = KINDS[terminal.error_kind or Kind.UNKNOWN].healthy
        if healthy:
            if self._circuits:
                self._circuits.pop(target.key, None)
        elif healthy is False and terminal.rule != STALE:  # type: ignore[union-attr]
            circuit = self._circuits.setdefault(target.key, _Circuit())
            circuit.failures += 1
            if circuit.failures >= target.options.retry.circuit_threshold:
                circuit.opened_at = self._clock.time()
