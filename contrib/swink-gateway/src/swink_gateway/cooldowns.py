"""A gate that remembers who is down, and answers for them without asking.

    ledger = MemoryLedger()
    async with swink.Client(breaker=False, gates=[Cooldowns(ledger)]) as client: ...

The core's circuit breaker passes over a model that keeps failing as long as there is another one to
ask. Before many clients that is not enough: when the last model of a route is down, too, each of
them would have it asked again. Here its circuit opens after as many failures in a row, and all who
ask get the last failure at once, with the time until it is asked again. So do the clients of every
process that shares the ledger.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from math import ceil

from swink_core import Done, Error, Failure, ProviderFailure, ResponseHead, StreamErrorKind, Target
from swink_gateway.failures import PASSING, for_clients
from swink_gateway.limits import Ledger, MemoryLedger

__all__ = ["Cooldowns"]


class Cooldowns:
    """The circuits of all targets; thresholds and cooldowns are those of the retry policy.

    `ledger` is where they are kept; without one, in memory.
    """

    def __init__(self, ledger: Ledger | None = None) -> None:
        self._ledger = ledger or MemoryLedger()
        self._failing: set[str] = set()
        self._writing: dict[str, asyncio.Task[None]] = {}

    async def enter(self, target: Target) -> None:
        """Let an attempt begin; of those that come after a cooldown, the first alone.

        Raises ProviderFailure while the target is cooling down.
        """
        key = target.key
        if key in self._writing:
            await asyncio.wait([self._writing[key]])
        circuit = await self._ledger.circuit(key, target.options.retry.circuit_cooldown)
        if circuit is None:
            self._failing.discard(key)
            return
        self._failing.add(key)
        if circuit.rest > 0:
            why = f"{circuit.message} ({circuit.failures} times in a row)"
            kind = StreamErrorKind(circuit.kind)
            refusal = Failure("connect", code="cooldown", message=why, kind=kind)
            refusal.retry_after = ceil(circuit.rest)
            raise ProviderFailure(refusal)

    def leave(self, target: Target, terminal: Done | Error, response: ResponseHead | None) -> None:
        """Count failures in a row; an answer closes the circuit."""
        key, policy = target.key, target.options.retry
        if isinstance(terminal, Done):
            if key in self._failing:
                self._failing.discard(key)
                self._write(key, self._ledger.succeeded(key))
        elif terminal.error_kind in PASSING:
            self._failing.add(key)
            said = min(terminal.retry_after or 0.0, policy.retry_after_cap)
            rest, why = max(said, policy.circuit_cooldown), for_clients(terminal).error_message
            threshold = policy.circuit_threshold
            self._write(
                key, self._ledger.failed(key, threshold, rest, str(terminal.error_kind), why)
            )

    def _write(self, key: str, written: Awaitable[None]) -> None:
        """Have it written in its turn: who asks next waits for it."""
        before = self._writing.get(key)

        async def write() -> None:
            if before is not None:
                await asyncio.wait([before])
            await written

        task = self._writing[key] = asyncio.ensure_future(write())
        task.add_done_callback(lambda task: self._written(key, task))

    def _written(self, key: str, task: asyncio.Task[None]) -> None:
        if self._writing.get(key) is task:
            del self._writing[key]
