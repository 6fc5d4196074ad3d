"""`Cooldowns`: share the circuit breakers of failing models between clients and processes.

    ledger = MemoryLedger()
    async with swink.Client(breaker=False, gates=[Cooldowns(ledger)]) as client: ...

While the circuit of a model is open, calls skip the model if their chain has another one. The last
model of a chain still gets requests, as it would without a gateway. But if the provider stated how
long to wait, all clients in every process that shares the ledger are refused at once, with the
remaining time. The refusal states the kind of the last failure. The provider's message, which may
quote another client's request, is only in the log.

A circuit opens after a number of consecutive failed calls (`circuit_threshold` in the retry
policy); the attempts of one call count once. It stays open for exactly the time that the provider
stated, or else for `circuit_cooldown`. Some failures do not count: failures that the request itself
caused, empty answers, and timeouts after a very short time limit that a client chose.

Rate limits can concern one client only, for example its long prompts or its service tier. While all
clients that reached a model's rate limits have the same key, the circuit is open for this key only,
and in this process only. The refusal then contains the provider's message.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from datetime import datetime, timedelta
from weakref import WeakSet

from attrs import define

from swink_core import (
    Done,
    Error,
    Failure,
    ProviderFailure,
    ResponseHead,
    StreamErrorKind,
    Target,
    Timeouts,
)
from swink_core.providers import Clock, LoopClock, health_of
from swink_gateway.policy.limits import Circuit, FailedAttempt, Ledger, MemoryLedger
from swink_gateway.protocols.failures import RESTS, for_clients

__all__ = ["CALLER", "Cooldowns", "ImpatientTimeouts", "OpenCircuit"]

log = logging.getLogger(__name__)

CALLER: ContextVar[str] = ContextVar("caller", default="")
"""The owner of the key of the current request (`""`: a key without a name)."""

MOST_LIMITED = 1_000
"""How many models are remembered at most, as failing or with the keys that reached rate limits."""

LONGEST_COOLDOWN = 86400.0
"""The longest cooldown in seconds.

Quotas last a day at most, so a longer wait in a response is probably an error.
"""

SAME_END = timedelta(seconds=1)
"""If the ends of two cooldowns differ by less than this, they are the same cooldown.

Each end is computed from the remaining time, which is not exact.
"""


@define(frozen=True, kw_only=True)
class ImpatientTimeouts(Timeouts):
    """Time limits of a client that are so short that a healthy provider may exceed them."""


@define(frozen=True)
class OpenCircuit:
    """A failing model, the kind of the last failure, and the end of the cooldown.

    `place` is the position of the model in the configuration file (empty: not in the file).
    """

    model: str
    kind: str
    until: datetime
    place: str = ""


class Cooldowns:
    """The circuits of all targets, with the thresholds and cooldowns of the retry policy.

    `ledger` stores the circuits (`None`: in memory). If the ledger fails, the failure is logged,
    and the attempt is admitted. `clock` returns the current time, from which the end of a cooldown
    is computed. `heard` is called with each circuit that this process finds open, and, if the model
    has answered, with the current time as the end of the cooldown. `place_of` returns the position
    in the configuration file of a target, given its `key`.
    """

    def __init__(self, ledger: Ledger | None = None, clock: Clock | None = None) -> None:
        self._ledger = ledger or MemoryLedger()
        self._clock = clock or LoopClock()
        self.heard: Callable[[OpenCircuit], None] = lambda circuit: None
        self.place_of: Callable[[str], str] = lambda key: ""
        self._open: dict[str, OpenCircuit] = {}
        self._failing: dict[str, str] = {}  # the kinds of the last failures
        self._counted = WeakSet[Target]()  # a call has one object per target
        self._writing: dict[str, asyncio.Task[None]] = {}
        self._limited: dict[str, set[str]] = {}  # the owners that reached rate limits, by target
        self._own = MemoryLedger(self._clock)  # the circuits of single owners
        self._own_failing: set[str] = set()

    async def enter(self, target: Target) -> None:
        """Admit an attempt. Raises ProviderFailure while the target is cooling down.

        The last target of a chain is admitted nevertheless if the provider did not state how long
        to wait. After a cooldown, one attempt is admitted every few seconds (see
        `FailedAttempt.probe`).
        """
        key = target.key
        if key in self._writing:
            await asyncio.wait([self._writing[key]])
        circuit = await self._circuit(key)
        if circuit is not None:
            self._fails(key, circuit.kind)
            said = f"the model is failing: {circuit.kind}"
            if circuit.rest > 0:
                self._opened(target, circuit)
        else:
            self._failing.pop(key, None)
            if (own := _own(key)) not in self._own_failing:
                return
            circuit = await self._own.circuit(own)
            if circuit is None:
                return
            said = circuit.message
        if circuit.rest > 0 and (circuit.is_stated or not target.is_last):
            why = f"{said} ({circuit.failures} requests in a row)"
            refusal = Failure("connect", code=RESTS, message=why, kind=_kind(circuit))
            refusal.retry_after = max(0.001, round(circuit.rest, 3))
            raise ProviderFailure(refusal)

    def leave(self, target: Target, terminal: Done | Error, response: ResponseHead | None) -> None:
        """Update the circuit after an attempt has ended."""
        key, policy = target.key, target.options.retry
        healthy = health_of(terminal)
        if healthy:
            self._open.pop(key, None)
            self._limited.pop(key, None)
            if (own := _own(key)) in self._own_failing:
                self._own_failing.discard(own)
                self._write(key, self._own.succeeded(own))
            if key in self._failing:
                kind, place = self._failing.pop(key), self.place_of(key)
                self.heard(OpenCircuit(str(target.model), kind, self._clock.now(), place))
                self._write(key, self._ledger.succeeded(key))
        elif (
            healthy is False and isinstance(terminal, Error) and not _is_impatient(target, terminal)
        ):
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
            if self._is_of_one(key, terminal):
                if len(self._own_failing) >= MOST_LIMITED:
                    self._own_failing.clear()
                self._own_failing.add(own := _own(key))
                self._write(key, self._own.failed(own, failed))
            else:
                self._fails(key, failed.kind)
                self._write(key, self._failed(target, failed))

    def _fails(self, key: str, kind: str) -> None:
        """Remember that a target fails. One that is forgotten is learned again from the ledger."""
        if len(self._failing) >= MOST_LIMITED:
            self._failing.clear()
        self._failing[key] = kind

    def _is_of_one(self, key: str, terminal: Error) -> bool:
        """Return True if a rate limit was reached that may concern only the current owner."""
        if terminal.error_kind is not StreamErrorKind.THROTTLED or not CALLER.get():
            return False
        if len(self._limited) >= MOST_LIMITED:
            self._limited.clear()
        owners = self._limited.setdefault(key, set())
        owners.add(CALLER.get())
        return len(owners) == 1

    async def _failed(self, target: Target, failed: FailedAttempt) -> None:
        await self._ledger.failed(target.key, failed)
        circuit = await self._ledger.circuit(target.key)
        if circuit is not None and circuit.rest > 0:
            self._opened(target, circuit)

    def _opened(self, target: Target, circuit: Circuit) -> None:
        """Log that a circuit was opened, or stays open for longer."""
        now = self._clock.now()
        until = now + timedelta(seconds=circuit.rest)
        known = self._open.get(target.key)
        if known is not None and until - known.until < SAME_END:
            return
        self._open = {key: one for key, one in self._open.items() if one.until > now}
        place = self.place_of(target.key)
        one = self._open[target.key] = OpenCircuit(str(target.model), circuit.kind, until, place)
        self.heard(one)
        log.warning(
            "%s%s failed %d requests in a row; its circuit is open for %.3g s, until %s: %s: %s",
            f"{place}: " if place else "", target.model, circuit.failures, circuit.rest,
            until.isoformat(timespec="seconds"), circuit.kind, circuit.message,
        )  # fmt: skip

    async def _circuit(self, key: str) -> Circuit | None:
        try:
            return await self._ledger.circuit(key)
        except Exception as error:
            log.warning("a circuit could not be read, so the request is sent: %s", error)
            return None

    def _write(self, key: str, written: Awaitable[None]) -> None:
        """Store a change after the earlier changes; the next attempt waits until it is stored."""
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


def _own(key: str) -> str:
    """Return the name of the circuit of a target for the current owner alone."""
    return f"{key} {CALLER.get()}"


def _is_impatient(target: Target, terminal: Error) -> bool:
    """Return True if an attempt timed out only because its client chose a very short limit."""
    is_late = terminal.error_kind is StreamErrorKind.TIMEOUT
    return is_late and isinstance(target.options.timeouts, ImpatientTimeouts)


def _kind(circuit: Circuit) -> StreamErrorKind:
    """Return the kind of a circuit's last failure, which the ledger stores as a string.

    Another process with a newer version of swink may have stored a kind that this version does not
    define. Such a kind becomes OVERLOADED.
    """
    try:
        return StreamErrorKind(circuit.kind)
    except ValueError:
        return StreamErrorKind.OVERLOADED
