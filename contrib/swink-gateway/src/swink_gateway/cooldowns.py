"""A gate that remembers who is down, and answers for them without asking.

    async with swink.Client(gates=[Cooldowns()]) as client, Gateway(client) as gateway: ...

The core's circuit breaker passes over a model that keeps failing as long as there is another one to
ask. Before many clients that is not enough: when the last model of a route is down, too, each of
them would have it asked again. Here its circuit opens after as many failures in a row, and all who
ask get the last failure at once, with the time until it is asked again.
"""

from __future__ import annotations

from collections import OrderedDict
from math import ceil

from attrs import define

from swink_core import Done, Error, Failure, ProviderFailure, ResponseHead, Target
from swink_core.providers import Clock, LoopClock
from swink_gateway.failures import PASSING

__all__ = ["MOST_REMEMBERED", "Cooldowns"]

MOST_REMEMBERED = 1000
"""Models that failed, those of the longest ago forgotten first: clients choose their names."""


@define
class _Circuit:
    failures: int = 0
    last: Error | None = None
    opened_until: float = 0.0


class Cooldowns:
    """The circuits of all targets; thresholds and cooldowns are those of the retry policy."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or LoopClock()
        self._circuits: OrderedDict[str, _Circuit] = OrderedDict()

    async def enter(self, target: Target) -> None:
        """Let an attempt begin; of those that come after a cooldown, the first alone.

        Raises ProviderFailure while the target is cooling down.
        """
        circuit = self._circuits.get(target.key)
        if circuit is None or circuit.last is None:
            return
        rest = circuit.opened_until - self._clock.time()
        if rest <= 0:
            circuit.opened_until += target.options.retry.circuit_cooldown - rest
            return  # what becomes of this one is what the next ones wait for
        last = circuit.last
        why = f"{last.error_message} ({circuit.failures} times in a row)"
        refusal = Failure("connect", code="cooldown", message=why, kind=last.error_kind)
        refusal.retry_after = ceil(rest)
        raise ProviderFailure(refusal)

    def leave(self, target: Target, terminal: Done | Error, response: ResponseHead | None) -> None:
        """Count failures in a row; any other end closes the circuit, but for a cancellation."""
        if isinstance(terminal, Done):
            self._circuits.pop(target.key, None)
        elif terminal.error_kind in PASSING:
            circuit = self._circuits.setdefault(target.key, _Circuit())
            self._circuits.move_to_end(target.key)
            if len(self._circuits) > MOST_REMEMBERED:
                self._circuits.popitem(last=False)
            circuit.failures += 1
            if circuit.failures >= target.options.retry.circuit_threshold:
                policy = target.options.retry
                wait = min(terminal.retry_after or 0.0, policy.retry_after_cap)
                circuit.last = terminal
                circuit.opened_until = self._clock.time() + max(wait, policy.circuit_cooldown)
