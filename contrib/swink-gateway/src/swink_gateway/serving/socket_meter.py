"""Limit the memory and the time of each WebSocket message before the message is received.

aiohttp collects all frames of a message before the gateway sees the message, too late to reserve
memory for it. A `SocketMeter` therefore receives the data before aiohttp does. It reads the heads
of the client's frames, reserves memory for a message as soon as its size is announced, and limits
the time in which it must arrive. After a message is refused, no further message reaches aiohttp;
control frames still do, so that the connection can be closed in order.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator

from swink_gateway.protocols.bodies import least_memory
from swink_gateway.protocols.failures import Refused, of_bad_request
from swink_gateway.serving.limits import Limits

__all__ = ["SocketMeter"]

SMALL_MESSAGE_BYTES = 48 * 1024
"""For a message of up to this many bytes, no memory is reserved until it has arrived completely."""

MOST_FRAMES = 1_000
"""The maximum number of frames, control frames included, without a complete message."""

_FINAL = 0x80
_CONTROL = 0x08
_MASKED = 0x80
_LENGTH = 0x7F

_LENGTH_BYTES = {126: 2, 127: 8}
"""The size of the extended payload length, by the 7-bit length (RFC 6455, section 5.2)."""

Reserve = Callable[[int, int], int]
"""Changes a reservation of memory from the first number of bytes to the second.

The function returns the second number, or raises Refused.
"""


class SocketMeter(asyncio.Protocol):
    """A protocol that counts the data of a WebSocket and passes it on to `inner`.

    `most_bytes` is the size limit of a message; `inner` closes the connection if a message is
    larger. `refusal` is the reason why a message was refused (`None`: no message was refused); the
    caller then closes the connection. `reserve` reserves memory for an incomplete message;
    `arrived` is called with the reserved bytes when it is complete.
    """

    def __init__(
        self,
        inner: asyncio.Protocol,
        limits: Limits,
        most_bytes: int,
        reserve: Reserve,
        arrived: Callable[[int], None] = lambda size: None,
    ) -> None:
        self.refusal: Refused | None = None
        self._inner = inner
        self._limits = limits
        self._most_bytes = most_bytes
        self._reserve = reserve
        self._arrived = arrived
        self._refused: Callable[[], None] = _ignore
        self._head = bytearray()
        self._payload_left = 0
        self._is_dropped = False
        self._completes = False
        self._is_open = False
        self._size = 0
        self._reserved = 0
        self._frames = 0  # since the last complete message
        self._complete: deque[int] = deque()
        self._cancel_timer: Callable[[], None] | None = None

    def watch(self, refused: Callable[[], None]) -> None:
        """Call `refused` when a message is refused; at once if a message was already refused."""
        self._refused = refused
        if self.refusal is not None:
            refused()

    def take(self) -> int:
        """Return the memory in bytes that is reserved for the oldest complete message.

        The caller must release this memory. The result is 0 if no message is complete.
        """
        return self._complete.popleft() if self._complete else 0

    def close(self) -> None:
        """Release all memory, and pass on no further message."""
        self._refused = _ignore
        self._turn_away(Refused(of_bad_request("the connection is closed"), 400))
        self._reserved = self._reserve(self._reserved, 0)
        while self._complete:
            reserved = self._complete.popleft()
            self._arrived(-reserved)  # `reserve` takes it from the memory of incomplete messages
            self._reserve(reserved, 0)

    # -- the transport's calls ---------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Pass data on to `inner`, without the messages that are refused."""
        passed = b"".join(self._passed(bytes(data)))
        if self._is_open and self._cancel_timer is None and self.refusal is None:
            clock = self._limits.clock
            self._cancel_timer = clock.call_at(clock.time() + self._limits.patience, self._expire)
        if passed:
            self._inner.data_received(passed)

    def eof_received(self) -> bool | None:
        """Pass on the end of the data."""
        return self._inner.eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        """Pass on the loss of the connection."""
        self._stop_timer()
        self._inner.connection_lost(error)

    def pause_writing(self) -> None:
        """Tell `inner` that the client reads slowly."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Tell `inner` that the client reads again."""
        self._inner.resume_writing()

    # -- frames ------------------------------------------------------------------------------------

    def _passed(self, data: bytes) -> Iterator[bytes]:
        at = 0
        while at < len(data):
            if self._payload_left:
                piece = data[at : at + self._payload_left]
                at += len(piece)
                self._payload_left -= len(piece)
                if not self._is_dropped:
                    yield piece
                if not self._payload_left:
                    self._end_frame()
                continue
            missing = self._missing()
            self._head += data[at : at + missing]
            at += missing
            if not self._missing():
                head = bytes(self._head)
                self._head.clear()
                self._begin_frame(head)
                if not self._is_dropped:
                    yield head
                if not self._payload_left:
                    self._end_frame()

    def _missing(self) -> int:
        """Return the minimum number of bytes of a frame's head that are still missing.

        The number is exact once the first two bytes have arrived.
        """
        if len(self._head) < 2:
            return 2 - len(self._head)
        second = self._head[1]
        mask = 4 if second & _MASKED else 0
        return 2 + _LENGTH_BYTES.get(second & _LENGTH, 0) + mask - len(self._head)

    def _begin_frame(self, head: bytes) -> None:
        self._frames += 1
        if self._frames > MOST_FRAMES and self.refusal is None:
            why = f"more than {MOST_FRAMES} frames without a complete message"
            self._turn_away(Refused(of_bad_request(why), 400))
        length = head[1] & _LENGTH
        if more := _LENGTH_BYTES.get(length):
            length = int.from_bytes(head[2 : 2 + more], "big")
        self._payload_left = length
        self._is_dropped = False
        self._completes = False
        if head[0] & _CONTROL:
            return
        self._completes = bool(head[0] & _FINAL)
        if self.refusal is None:
            self._is_open = True
            self._size += length
            self._reserve_message()
        self._is_dropped = self.refusal is not None

    def _reserve_message(self) -> None:
        if not SMALL_MESSAGE_BYTES < self._size < self._most_bytes:
            return
        try:
            self._reserved = self._reserve(self._reserved, least_memory(self._size))
        except Refused as refusal:
            self._turn_away(refusal)

    def _end_frame(self) -> None:
        if not self._completes or self._is_dropped:
            return
        self._stop_timer()
        self._complete.append(self._reserved)
        self._arrived(self._reserved)
        self._is_open = False
        self._size = 0
        self._reserved = 0
        self._frames = 0

    # -- refusals ----------------------------------------------------------------------------------

    def _expire(self) -> None:
        why = f"the message was not received within {self._limits.patience:g} s"
        self._turn_away(Refused(of_bad_request(why), 408))

    def _turn_away(self, refusal: Refused) -> None:
        """Refuse all further messages.

        `inner` may already have received a part of the message that is refused first.
        """
        self._stop_timer()
        self._is_dropped = True
        if self.refusal is None:
            self.refusal = refusal
        self._refused()

    def _stop_timer(self) -> None:
        if self._cancel_timer is not None:
            self._cancel_timer()
            self._cancel_timer = None


def _ignore() -> None:
    """Do nothing."""
