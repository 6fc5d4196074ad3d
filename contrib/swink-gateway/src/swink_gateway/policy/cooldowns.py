"""A gate that shares the circuits of failing targets between clients and processes.

    ledger = MemoryLedger()
    async with swink.Client(breaker=False, gates=[Cooldowns(ledger)]) as client: ...

The core's circuit breaker passes over a model that keeps failing as long as the chain has another
one. A gateway serves many clients, so its circuits also refuse the last model of a route: all
clients get the last failure at once, with the time until the model is tried again, in every process
that shares the ledger.

A circuit opens when as many calls in a row as the policy's `circuit_threshold` have failed; the
attempts of one call count once. It stays open for exactly the time that the provider gave, or else
for `circuit_cooldown`. Failures that are a request's own, and empty answers, do not count.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from weakref import WeakSet

from swink_core import Done, Error, Failure, ProviderFailure, ResponseHead, StreamErrorKind, Target
from swink_core.providers import health_of
from swink_gateway.policy.limits import Circuit, FailedAttempt, Ledger, MemoryLedger
from swink_gateway.protocols.failures import for_clients

__all__ = ["Cooldowns"]

log = logging.getLogger(__name__)

LONGEST_COOLDOWN = 86400.0
"""Seconds. A provider's quotas are daily at most; a longer wait is taken for a mistake."""


class Cooldowns:
    """The circuits of all targets, with the thresholds and cooldowns of the retry policy.

    `ledger` stores them (`None`: in memory). A ledger that fails does not stop a call: the failure
    is logged, and the attempt begins.
    """

    def __init__(self, ledger: Ledger | None = None) -> None:
        self._ledger = ledger or MemoryLedger()
        self._failing: set[str] = set()
        self._counted = WeakSet[Target]()  # a call has one target object for all its attempts
        self._writing: dict[str, asyncio.Task[None]] = {}

    async def enter(self, target: Target) -> None:
        """Let an attempt begin; after a cooldown, only the first.

        Raises ProviderFailure while the target is cooling down.
        """
        key = target.key
        if key in self._writing:
            await asyncio.wait([self._writing[key]])
        circuit = await self._circuit(key)
        if circuit is None:
            self._failing.discard(key)
            return
        self._failing.add(key)
        if circuit.rest > 0:
            why = f"{circuit.message} ({circuit.failures} requests in a row)"
            refusal = Failure("connect", code="cooldown", message=why, kind=_kind(circuit))
            refusal.retry_after = max(0.001, round(circuit.rest, 3))
            raise ProviderFailure(refusal)

    def leave(self, target: Target, terminal: Done | Error, response: ResponseHead | None) -> None:
        """Record what the end of an attempt shows about its target's health."""
        key, policy = target.key, target.options.retry
        healthy = health_of(terminal)
        if healthy:
            if key in self._failing:
                self._failing.discard(key)
                self._write(key, self._ledger.succeeded(key))
        elif healthy is False and isinstance(terminal, Error):
            self._failing.add(key)
            wait = terminal.retry_after
            failed = FailedAttempt(
                kind=str(terminal.error_kind),
                message=for_clients(terminal).error_message or "",
                is_first=target not in self._counted,
                threshold=policy.circuit_threshold,
                rest=policy.circuit_cooldown if wait is None else min(wait, LONGEST_COOLDOWN),
                probe=policy.circuit_cooldown if wait is None else 0.0,
            )
            self._counted.add(target)
            self._write(key, self._ledger.failed(key, failed))

    async def _circuit(self, key: str) -> Circuit | None:
        try:
            return await self._ledger.circuit(key)
        except Exception as error:
            log.warning("a circuit could not be read, so the request is sent: %s", error)
            return None

    def _write(self, key: str, written: Awaitable[None]) -> None:
        """Store a change after the changes before it; the next attempt waits for it."""
        before = self._writing.get(key)

        async def write() -> None:
            if before is not None:
                await asyncio.wait([before])
            try:
                await written
            except Exception as error:
                log.warning("a circuit could not be stored: %s", error)

        task = self._writing[key] = asyncio.ensure_future(write())
        task.add_done_callback(lambda task: self._written(key, task))

    def _written(self, key: str, task: asyncio.Task[None]) -> None:
        if self._writing.get(key) is task:
            del self._writing[key]


def _kind(circuit: Circuit) -> StreamErrorKind:
    """Return the kind of a circuit's last failure, which another version may have stored."""
    try:
        return StreamErrorKind(circuit.kind)
    except ValueError:
        return StreamErrorKind.OVERLOADED
