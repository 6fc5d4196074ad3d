"""Spending limits of a run: a call waits until other calls release enough of their reservations.

An attempt reserves its maximum expected cost when it begins, and usually costs less. If a call and
the running calls together would exceed a limit, the call waits in `admit`, before it begins, so
that its time limits do not include the wait; a retry or a correction waits in `enter`. A call that
would exceed a limit by itself is rejected.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from swink_core import (
    Call,
    Charge,
    Done,
    Error,
    LimitReached,
    Limits,
    Model,
    ResponseHead,
    Target,
    UsageError,
)
from swink_core.providers import Attempt, LimitGate, reservation

__all__ = ["Spending", "check_limits"]


def check_limits(limits: Limits) -> None:
    """Raise UsageError for limits that only apply to runs with tools."""
    for name in ("turns", "tool_calls"):
        if getattr(limits, name) is not None:
            raise UsageError(
                f"limits.{name} is set, but rows are answered without tools",
                resolution="Limit cost, tokens or requests.",
            )


class Spending:
    """Admits calls within the limits of a run; passed to the client as `Client(gates=[…])`."""

    def __init__(self, limits: Limits) -> None:
        self._gate = LimitGate(limits)
        self._under_way = 0
        self._admitted: dict[Target, Charge] = {}  # calls that have not made an attempt yet
        # A task handles one row at a time. These have made an attempt for their row.
        self._begun: set[asyncio.Task[Any] | None] = set()
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def is_idle(self) -> bool:
        """Whether no call has a reservation, so that waiting for a release would be useless."""
        return not (self._under_way or self._admitted)

    def add(self, charge: Charge, requests: int) -> None:
        """Add the spending of earlier runs, and the reservations of a vendor's batches."""
        self._gate.charge += charge
        self._gate.requests += requests

    def refusal(self, model: Model, reservation: Charge) -> LimitReached | None:
        """Return the error for a reservation that exceeds a limit; `None` if it exceeds none."""
        return self._gate.refusal(model, reservation)

    async def admit(self, call: Call) -> None:
        """Wait while a call and the running calls together would exceed a limit.

        If no other call runs, return at once.
        """
        charge = reservation(call.model.info, call.provider_info, call.context, call.options)
        while not self.is_idle:
            held = sum(self._admitted.values(), charge)
            if self._gate.refusal(call.model, held, len(self._admitted) + 1) is None:
                break
            await self.change()
        self._admitted[call.attempt.target] = charge
        self._begun.discard(asyncio.current_task())
        self._wake()

    def give_up(self, target: Target) -> None:
        """Release the reservation of an admitted call that has not begun."""
        if self._admitted.pop(target, None) is not None:
            self._wake()

    async def enter(self, target: Target, attempt: Attempt) -> None:
        """Reserve the maximum expected cost of an attempt.

        A retry or a correction waits while its cost and the other reservations together exceed a
        limit. Raises LimitReached if the first attempt for a row exceeds a limit, or if no other
        call could release a reservation. A row whose first attempt is refused does not wait here,
        because it still has its place in the limiter.
        """
        self._admitted.pop(target, None)
        row = asyncio.current_task()
        while True:
            try:
                await self._gate.enter(target, attempt)
            except LimitReached:
                if row not in self._begun or self.is_idle:
                    self._wake()
                    raise
                await self.change()
            else:
                self._begun.add(row)
                self._under_way += 1
                self._wake()
                return

    def leave(
        self,
        target: Target,
        terminal: Done | Error,
        response: ResponseHead | None,
        attempt: Attempt,
    ) -> None:
        """Replace the reservation of an attempt by its charge."""
        self._gate.leave(target, terminal, response, attempt)
        self._under_way -= 1
        self._wake()

    async def change(self) -> None:
        """Wait until a reservation is released; the call that has waited longest is woken first."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._wake()
            raise

    def _wake(self) -> None:
        """Wake the next waiting call, which in turn wakes another one."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
