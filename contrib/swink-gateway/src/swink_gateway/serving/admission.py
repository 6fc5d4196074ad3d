"""Admit requests while slots and memory are free, and reserve both until they are answered.

A request takes a slot before its body is read. Its memory is reserved as its body arrives, and once
more when the size of the parsed body is known.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import Protocol
from weakref import WeakValueDictionary

from attrs import define, field

from swink_core import Error, StreamErrorKind
from swink_gateway.protocols.bodies import COPIES, least_memory
from swink_gateway.protocols.failures import Refused, of_bad_request
from swink_gateway.serving.descriptors import affordable_streams
from swink_gateway.serving.limits import Limits

__all__ = ["ACTIVE", "PEAK", "REJECTED", "UNAVAILABLE", "Admission", "Holding"]

UNAVAILABLE = 503


class Holding(Protocol):
    """A function that reserves the memory in bytes that a request takes. Raises Refused.

    `is_whole` is true if the complete body has arrived.
    """

    def __call__(self, memory: int, /, is_whole: bool = False) -> None: ...


ACTIVE = "ccr_active_streams"
"""The number of concurrent answers."""

PEAK = "ccr_peak_active_streams"
"""The highest number of concurrent answers."""

REJECTED = "ccr_rejected_streams_total"
"""Counts requests refused for lack of slots or memory."""

COME_AGAIN_SECONDS = 1.0
"""The Retry-After in seconds for lack of slots or memory; short, because answers end often."""

FREE_SHARE = 1 / 8
"""The share of the slots and of the memory that is kept for owners with few incomplete requests.

An incomplete request takes its slot and its memory as long as its client likes, so some are left
for other owners. A burst of complete requests of one owner may take all of them.
"""

FEW_SHARE = FREE_SHARE / 2
"""An owner's incomplete requests are few if they take at most this share."""

LARGE_BYTES = 2 * 1024 * 1024
"""The least memory of a request that waits for the other large requests of the same owner."""

LOGPROBS_BYTES = 16
"""The bytes of memory for each character of log probabilities, which are many small objects.

Measured with 20 alternatives for each token, from the frames to the client's response.
"""

FREE_BYTES = 128 * 1024
"""The memory of an answer with log probabilities that is not reserved."""


def _too_much(memory: int, most: int) -> Refused:
    why = (
        f"the body takes about {_megabytes(memory)} MB of memory once it is parsed; the limit is "
        f"{_megabytes(most)} MB (swink gateway --memory)"
    )
    return Refused(of_bad_request(why), 413)


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f}"


@define
class Admission:
    """Slots and memory for requests, within `limits`; `counters` count events by name."""

    limits: Limits
    counters: Counter[str]
    _ended: asyncio.Event = field(factory=asyncio.Event, init=False)
    _memory: int = field(default=0, init=False)
    _arriving: Counter[str] = field(factory=Counter, init=False)
    _incomplete: Counter[str] = field(factory=Counter, init=False)
    _turns: WeakValueDictionary[str, asyncio.Lock] = field(factory=WeakValueDictionary, init=False)

    async def all_ended(self) -> None:
        """Wait until no answer is in progress."""
        while self.counters[ACTIVE]:
            self._ended.clear()
            await self._ended.wait()

    @property
    def is_scarce(self) -> bool:
        """Whether the free slots are kept for owners with few incomplete requests."""
        most = affordable_streams(self.limits.streams)
        return most - self.counters[ACTIVE] <= most * FREE_SHARE

    @contextmanager
    def place(self, size: int, owner: str, is_whole: bool) -> Iterator[Holding]:
        """Take a slot for a request of `size` bytes, and yield a function that reserves memory.

        `is_whole` says whether the complete body has arrived. The slot is free again at the end of
        the `with` block. Raises Refused if no slot is free, or if active requests take too much
        memory.
        """
        counters, most, held = self.counters, affordable_streams(self.limits.streams), 0
        is_arriving = not is_whole

        def hold(memory: int, is_whole: bool = False) -> None:
            nonlocal held, is_arriving
            if is_whole and is_arriving:
                is_arriving = False
                self.arrived(owner, held, 1)
            held = self.hold(held, memory) if is_whole else self.arriving(owner, held, memory)

        if counters[ACTIVE] >= most:
            raise self._refusal(f"too many concurrent requests (limit: {most})")
        if is_arriving and self.is_scarce and self._incomplete[owner] >= max(1, most * FEW_SHARE):
            raise self._refusal("too many incomplete requests of this key")
        hold(least_memory(size), is_whole)
        self._incomplete[owner] += is_arriving
        counters[ACTIVE] += 1
        counters[PEAK] = max(counters[PEAK], counters[ACTIVE])
        try:
            yield hold
        finally:
            counters[ACTIVE] -= 1
            if is_arriving:
                self.arrived(owner, held, 1)
            self.hold(held, 0)
            self._ended.set()

    def arriving(self, owner: str, held: int, memory: int) -> int:
        """Reserve memory for an incomplete body instead of the `held` bytes, and return its size.

        The complete request takes at least `memory` bytes; only its body is reserved yet. Raises
        Refused if the complete request would take too much at present, or if the incomplete
        bodies of the owner take more than half of the memory, or more than a small part of it
        while memory is scarce: they arrive as slowly as their client likes, and must leave room
        for the requests of others.
        """
        size = memory // (COPIES + 1)
        self._check(held, memory)
        if size > held:
            most = self.limits.memory
            is_scarce = most - self._memory - (size - held) <= most * FREE_SHARE
            if self._arriving[owner] + size - held > most * (FEW_SHARE if is_scarce else 1 / 2):
                raise self._refusal("the incomplete requests of this key take too much memory")
        self._arriving[owner] += size - held
        return self.hold(held, size)

    def arrived(self, owner: str, size: int, requests: int = 0) -> None:
        """Count `size` bytes and a number of requests of an owner as complete."""
        self._arriving[owner] -= size
        self._incomplete[owner] -= requests
        for counted in (self._arriving, self._incomplete):
            if not counted[owner]:
                del counted[owner]

    def hold(self, held: int, memory: int) -> int:
        """Reserve `memory` bytes for a request instead of the `held` bytes, and return `memory`.

        Raises Refused if the request, or all requests together, would take too much.
        """
        self._check(held, memory)
        self._memory += memory - held
        return memory

    @asynccontextmanager
    async def turn(self, owner: str, memory: int) -> AsyncIterator[Callable[[], None]]:
        """Wait until no other large request of an owner is being prepared.

        Preparing a request of many messages takes up to half a second of CPU time, and many at a
        time would stop all clients for as long as they take together. Yields a function that ends
        the turn before the end of the block. A request that takes little `memory` does not wait.
        """
        with ExitStack() as stack:
            if memory > LARGE_BYTES:
                lock = self._turns.setdefault(owner, asyncio.Lock())
                await lock.acquire()
                stack.callback(lock.release)
            yield lambda: stack.pop_all().close()

    def _check(self, held: int, memory: int) -> None:
        if memory > self.limits.memory:
            raise _too_much(memory, self.limits.memory)
        if memory > held and not self._fits(held, memory):
            raise self._refusal(
                f"active requests take too much memory ({_megabytes(self._memory)} MB)"
            )

    def _fits(self, held: int, memory: int) -> bool:
        """Return True if `memory` bytes can be reserved instead of the `held` bytes."""
        return self._memory + memory - held <= self.limits.memory

    @contextmanager
    def growing(self) -> Iterator[Callable[[int], float]]:
        """Yield a function that reserves memory for an answer with log probabilities as it grows.

        The function takes the size of the answer in characters, and returns the size up to which
        memory is reserved, which is smaller if no memory is left. The memory is free again at the
        end of the block.
        """
        held = 0

        def room(chars: int) -> float:
            nonlocal held
            memory = LOGPROBS_BYTES * (chars + chars // 4) + FREE_BYTES
            if chars > FREE_BYTES / LOGPROBS_BYTES and self._fits(held, memory):
                held = self.hold(held, memory)
            return max(held, FREE_BYTES) / LOGPROBS_BYTES

        try:
            yield room
        finally:
            self.hold(held, 0)

    @contextmanager
    def holding(self, memory: int) -> Iterator[None]:
        """Reserve `memory` bytes for a `with` block. Raises Refused if that is too much."""
        held = self.hold(0, memory)
        try:
            yield
        finally:
            self.hold(held, 0)

    def _refusal(self, why: str) -> Refused:
        self.counters[REJECTED] += 1
        full = Error(error_message=why)
        full.error_kind, full.retry_after = StreamErrorKind.THROTTLED, COME_AGAIN_SECONDS
        return Refused(full, UNAVAILABLE)
