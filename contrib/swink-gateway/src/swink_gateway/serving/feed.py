"""A live feed of calls that all workers share: each worker delivers the records of all workers.

Each worker has a socket in a shared folder, and sends its records to the sockets of the other
workers, which add the records to their own buffers. If a worker's socket is full, the record is
dropped for that worker. A dead worker's socket is removed at the next send.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from swink_observers.feed import Feed

__all__ = ["SharedFeed"]

log = logging.getLogger(__name__)

MOST_BYTES = 64 * 1024
"""The size limit of one datagram: several times the size of any record."""


class SharedFeed(Feed):
    """A feed that the workers share through sockets in `folder`.

    After `join` and before `leave`, a worker sends and receives records. At other times, the feed
    contains only the worker's own records.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self._path = folder / f"feed-{os.getpid()}"
        self._socket: socket.socket | None = None

    async def join(self, app: object) -> None:
        """Start receiving from the other workers; for an application's `on_startup`."""
        made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        made.setblocking(False)
        try:
            self._path.unlink(missing_ok=True)
            made.bind(str(self._path))
        except OSError as error:
            made.close()
            log.warning("the feed does not include other workers' calls, %s: %s", self._path, error)
            return
        self._socket = made
        asyncio.get_running_loop().add_reader(made, self._hear, made)

    async def leave(self, app: object) -> None:
        """Stop receiving; for an application's `on_cleanup`."""
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            self._socket = None
            self._path.unlink(missing_ok=True)

    def publish(self, name: str, data: dict[str, Any]) -> None:
        """Add a record to this worker's feed and send the record to the other workers."""
        super().publish(name, data)
        if self._socket is None:
            return
        message = msgspec.json.encode((name, data))
        for other in self._others():
            try:
                self._socket.sendto(message, str(other))
            except ConnectionRefusedError:
                other.unlink(missing_ok=True)  # the worker has died
            except OSError:
                continue  # the socket is full or has just closed

    def _others(self) -> Iterator[Path]:
        with suppress(OSError):
            yield from (one for one in self._folder.glob("feed-*") if one != self._path)

    def _hear(self, of: socket.socket) -> None:
        with suppress(OSError):
            name, data = msgspec.json.decode(of.recv(MOST_BYTES))
            super().publish(name, data)
