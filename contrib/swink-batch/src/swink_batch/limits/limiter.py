"""`Limiter`: delays each attempt of a run as the limits of the target (`Lane`) require."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from math import inf

from attrs import define, field

from swink_batch.limits.lane import Lane
from swink_batch.limits.turns import LocalTurns, Turns
from swink_core import Done, Error, ProviderFailure, ResponseHead, Target, UsageError
from swink_core.providers import Clock

__all__ = ["Limiter"]

MEMBERS_SECONDS = 5.0
"""The interval, in seconds, at which the number of processes that share the limits is queried."""


@define(eq=False)
class _Queue:
    """Calls to one target, which wait in order until the limits in `lane` allow them.

    `again` contains the waiting retries. Retries are admitted before new calls, because the time
    limits of a retried call include this wait.
    """

    lane: Lane
    waiting: deque[asyncio.Future[None]] = field(factory=deque)
    again: deque[asyncio.Future[None]] = field(factory=deque)
    cancel_timer: Callable[[], None] | None = None
    owed: float = 0.0  # tokens used by calls beyond their reservations

    @property
    def is_waited_for(self) -> bool:
        return bool(self.again or self.waiting)


class Limiter:
    """Admits calls to each target as far as its limits allow; passed in `Client(gates=[…])`.

    At most `most` calls per target run at a time. `rpm` and `tpm` are known limits in requests and
    tokens per minute for each target; `turns` shares these limits with other processes. `admit`
    waits before the call is made, so that the call's time limits do not include the wait.
    """

    def __init__(
        self,
        clock: Clock,
        most: int,
        *,
        rpm: float | None = None,
        tpm: float | None = None,
        turns: Turns | None = None,
    ) -> None:
        self.lanes: dict[str, Lane] = {}
        self._clock = clock
        self._most = most
        self._rpm, self._tpm = rpm, tpm
        self._turns = turns or LocalTurns(clock)
        self._shared = turns is not None
        self._asked_members = -inf
        self._queues: dict[str, _Queue] = {}
        self._keys: dict[tuple[object, ...], str] = {}
        self._begun: dict[Target, tuple[_Queue, float, float]] = {}
        self._admitted: set[Target] = set()

    async def join(self) -> None:
        """Connect to the server of the shared limits. Raises UsageError if this fails."""
        if self._shared:
            try:
                await self._turns.members()
            except ProviderFailure as error:
                raise UsageError(
                    error.failure.message or "",
                    title="Limits cannot be shared",
                    resolution="Start the server, or correct its address.",
                ) from error

    def held_to(self) -> float | None:
        """Return the calls per second to which rate limits restrict the run.

        Return `None` if they restrict no target, and the lowest value if they restrict several.
        """
        now = self._clock.time()
        held = (queue.lane.held_to(now) for queue in self._queues.values() if queue.is_waited_for)
        return min((rate for rate in held if rate is not None), default=None)

    async def admit(self, target: Target) -> None:
        """Wait until a call to a target may begin; the following `enter` then returns at once."""
        await self._take(target, is_retry=False)
        self._admitted.add(target)

    def give_up(self, target: Target) -> None:
        """Free the place of an admitted call that will not be made, for use by another call."""
        if target in self._admitted:
            self._admitted.discard(target)
            self._free(self._begun.pop(target)[0])

    async def enter(self, target: Target) -> None:
        """Wait until an attempt may begin."""
        if target in self._admitted:
            self._admitted.discard(target)
        else:
            await self._take(target, is_retry=True)

    def leave(self, target: Target, terminal: Done | Error, response: ResponseHead | None) -> None:
        """Update the limits after an attempt, and admit the next one."""
        now, (queue, began, tokens) = self._clock.time(), self._begun.pop(target)
        queue.lane.end(began, now, terminal)
        if self._tpm and terminal.usage is not None and terminal.usage.total is not None:
            queue.owed += terminal.usage.total - tokens
        if response is not None:
            queue.lane.heed(response.headers, now, isinstance(terminal, Done))
        self._wake(queue)

    async def _take(self, target: Target, is_retry: bool) -> None:
        key = self._key(target)
        queue = self._queue(key)
        now = self._clock.time()
        line = queue.again if is_retry else queue.waiting
        if not queue.is_waited_for and queue.lane.wait(now) <= 0.0:
            queue.lane.begin(now)
        else:
            await self._stand_in_line(queue, line)
        tokens = 0.0
        if self._rpm or self._tpm or self._shared:
            try:
                tokens = await self._keep_to_known_limits(key, queue)
            except BaseException:
                self._free(queue)
                raise
        self._begun[target] = queue, self._clock.time(), tokens

    async def _stand_in_line(self, queue: _Queue, line: deque[asyncio.Future[None]]) -> None:
        turn = asyncio.get_running_loop().create_future()
        line.append(turn)
        self._wake(queue)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                with suppress(ValueError):  # `_wake` has removed it
                    line.remove(turn)
            else:
                self._free(queue)
            raise

    async def _keep_to_known_limits(self, key: str, queue: _Queue) -> float:
        """Wait as `rpm` and `tpm` require, and return the tokens reserved for the call."""
        now, wait, tokens = self._clock.time(), 0.0, 0.0
        if self._shared and now - self._asked_members > MEMBERS_SECONDS:
            self._asked_members = now
            queue.lane.members = await self._turns.members()
        if self._rpm:
            wait = await self._turns.take(f"{key} calls", 1.0, self._rpm / 60)
        if self._tpm:
            tokens = max(1.0, queue.lane.tokens_a_call)
            taken = max(1.0, tokens + queue.owed)
            queue.owed += tokens - taken
            wait = max(wait, await self._turns.take(f"{key} tokens", taken, self._tpm / 60))
        if wait:
            await self._clock.sleep(wait)
        return tokens

    def _free(self, queue: _Queue) -> None:
        queue.lane.busy -= 1
        self._wake(queue)

    def _wake(self, queue: _Queue) -> None:
        """Admit waiting calls if possible, and schedule the next check."""
        if queue.cancel_timer is not None:
            queue.cancel_timer()
            queue.cancel_timer = None
        while line := queue.again or queue.waiting:
            now = self._clock.time()
            wait = queue.lane.wait(now)
            if wait > 0.0:
                if wait != inf:
                    queue.cancel_timer = self._clock.call_at(now + wait, lambda: self._wake(queue))
                return
            turn = line.popleft()
            if not turn.done():
                queue.lane.begin(now)
                turn.set_result(None)

    def _key(self, target: Target) -> str:
        """Return a target's key; cached, because it is slow to compute and rarely changes."""
        options, model = target.options, target.model
        own = options.base_url, options.api_key, *options.headers.items()
        known = model.provider, model.id, *own
        key = self._keys.get(known)
        if key is None:
            key = self._keys[known] = target.key
        return key

    def _queue(self, key: str) -> _Queue:
        queue = self._queues.get(key)
        if queue is None:
            lane = self.lanes[key] = Lane(self._most, self._clock.time())
            queue = self._queues[key] = _Queue(lane)
        return queue
