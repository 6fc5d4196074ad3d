"""A feed that all workers tell together: whichever of them is asked, all calls are in it.

Each worker has a socket in a folder that they share, and sends what it publishes to those of the
others, which put it into their own rings. What finds no room in a socket is left out there; a
worker that has died is forgotten when it is sent something.
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
"""Of what is sent in one piece: several times what any record of a feed has."""


class SharedFeed(Feed):
    """A feed in `folder`, for as long as `join` and `leave` say; before and after it is its own."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self._path = folder / f"feed-{os.getpid()}"
        self._socket: socket.socket | None = None

    async def join(self, app: object) -> None:
        """Begin to hear of the others; for an application's `on_startup`."""
        made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        made.setblocking(False)
        try:
            self._path.unlink(missing_ok=True)
            made.bind(str(self._path))
        except OSError as error:
            made.close()
            log.warning("the calls of other workers are not told, %s: %s", self._path, error)
            return
        self._socket = made
        asyncio.get_running_loop().add_reader(made, self._hear, made)

    async def leave(self, app: object) -> None:
        """Hear no more; for an application's `on_cleanup`."""
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            self._socket = None
            self._path.unlink(missing_ok=True)

    def publish(self, name: str, data: dict[str, Any]) -> None:
        """Add a record here and, as far as they keep up, at the others."""
        super().publish(name, data)
        if self._socket is None:
            return
        message = msgspec.json.encode((name, data))
        for other in self._others():
            try:
                self._socket.sendto(message, str(other))
            except ConnectionRefusedError:
                other.unlink(missing_ok=True)  # nobody holds it any more
            except OSError:
                continue  # it is full, or has just gone

    def _others(self) -> Iterator[Path]:
        with suppress(OSError):
            yield from (one for one in self._folder.glob("feed-*") if one != self._path)

    def _hear(self, of: socket.socket) -> None:
        with suppress(OSError):
            name, data = msgspec.json.decode(of.recv(MOST_BYTES))
            super().publish(name, data)
