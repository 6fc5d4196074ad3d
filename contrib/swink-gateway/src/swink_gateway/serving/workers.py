"""Several processes behind one port: a parent that listens, and workers that it forks.

    worker = fork_workers(4, sock)      # returns in each worker; the parent ends in it

All accept from one listening socket: connections that a worker had not accepted when it died wait
for the others. The parent serves nothing. It begins a worker anew that died, passes SIGTERM and
SIGHUP on, and ends when all have ended. Workers whose parent is gone end, too.
"""

from __future__ import annotations

import logging
import mmap
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress

from attrs import Factory, define, field

from swink_core import SwinkError

__all__ = ["TOGETHER_ENV", "Room", "Worker", "fork_workers", "listen"]

log = logging.getLogger(__name__)

TOGETHER_ENV = "PROMETHEUS_MULTIPROC_DIR"
"""Names the folder in which prometheus_client, and feeds, have several processes tell together."""

MOST_WAITING = 1024
"""Connections that wait to be accepted, as far as the system allows."""

AGAIN_SECONDS = 1.0
"""Between the ends of a worker that never was ready and the beginning of the next."""


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens. Raises OSError."""
    family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    return socket.create_server((host, port), family=family, backlog=MOST_WAITING)


@define
class Room:
    """Which workers have room for another answer: a byte each in memory that they share."""

    _flags: mmap.mmap
    slot: int

    def tell(self, has_room: bool) -> None:
        """Tell the others whether this worker has room."""
        self._flags[self.slot] = has_room

    def is_elsewhere(self) -> bool:
        """Tell whether another worker has room."""
        return any(flag for at, flag in enumerate(self._flags[:]) if at != self.slot)


@define
class Worker:
    """What a worker has of its parent: `number` counts all that were begun, from 0."""

    number: int
    _ready: int
    alive: int
    """A file descriptor that can be read from when the parent is gone."""
    room: Room

    def ready(self) -> None:
        """Tell the parent that requests are answered."""
        os.write(self._ready, b"\0")
        os.close(self._ready)


def fork_workers(
    count: int, sock: socket.socket, ended: Callable[[int], None] = lambda pid: None
) -> Worker:
    """Begin `count` workers and return in each of them; the parent exits when all have ended.

    `ended` is told the process id of each that has, in the parent, whose exit code is 0 where
    theirs are. When the very first worker ends before it was ready, all
    is over, with its exit code. Raises SwinkError where processes cannot be forked.
    """
    if not hasattr(os, "fork"):
        raise SwinkError(
            "this system cannot serve with several workers",
            title="The gateway was not started",
            resolution="Start one without --workers, or several behind a load balancer.",
        )
    return _Parent(count, sock, ended).supervise()


@define
class _Parent:
    count: int
    sock: socket.socket
    ended: Callable[[int], None]
    workers: dict[int, int] = field(factory=dict)
    """By process id, the descriptor by which each says that it is ready."""
    rooms: dict[int, Room] = field(factory=dict)
    flags: mmap.mmap = field(
        default=Factory(lambda self: mmap.mmap(-1, self.count), takes_self=True)
    )
    begun: int = 0
    ready: set[int] = field(factory=set)
    code: int = 0
    stops: bool = False
    alive: tuple[int, int] = field(factory=os.pipe)

    def supervise(self) -> Worker:
        """Look after the workers until they are to stop, and have; return in each of them."""
        for name in _PASSED_ON:
            signal.signal(name, self._pass_on)
        while True:
            while len(self.workers) < self.count and not self.stops:
                if (worker := self._fork()) is not None:
                    return worker
                if self.begun == 1 and not self._is_ready(*self.workers):
                    self.stops = True
            if not self.workers:
                sys.exit(self.code)
            self._bury(*os.wait())

    def _fork(self) -> Worker | None:
        """Begin a worker; return it in the worker, and `None` in the parent."""
        heard, ready = os.pipe()
        taken = {room.slot for room in self.rooms.values()}
        room = Room(self.flags, next(at for at in range(self.count) if at not in taken))
        sys.stdout.flush()
        sys.stderr.flush()
        signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)
        pid = os.fork()
        if pid == 0:
            for name in _PASSED_ON:
                signal.signal(name, signal.SIG_DFL if name in _ENDING else signal.SIG_IGN)
            for descriptor in (heard, self.alive[1], *self.workers.values()):
                os.close(descriptor)
        else:
            os.close(ready)
            self.workers[pid] = heard
            self.rooms[pid] = room
            self.begun += 1
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _PASSED_ON)
        return Worker(self.begun, ready, self.alive[0], room) if pid == 0 else None

    def _bury(self, pid: int, status: int) -> None:
        code = os.waitstatus_to_exitcode(status)
        self.rooms.pop(pid).tell(False)
        if self.stops:
            told = -code in _ENDING  # before it could heed it
            self.code = self.code or (0 if told else code if code >= 0 else 1)
        else:
            log.warning("worker %d ended with %d; another one begins", pid, code)
            if not self._is_ready(pid):
                time.sleep(AGAIN_SECONDS)
        os.close(self.workers.pop(pid))
        self.ready.discard(pid)
        self.ended(pid)

    def _is_ready(self, pid: int) -> bool:
        """Wait until a worker is ready, or has ended before it was."""
        if pid not in self.ready and os.read(self.workers[pid], 1):
            self.ready.add(pid)
        return pid in self.ready

    def _pass_on(self, number: int, frame: object) -> None:
        if number in _ENDING:
            self.stops = True
            self.sock.close()
        for pid in self.workers:
            with suppress(ProcessLookupError):
                os.kill(pid, number)


_ENDING = (signal.SIGTERM, signal.SIGINT)
_PASSED_ON = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP") if hasattr(signal, name)
)
"""Windows, where nothing is forked but this is imported, has no SIGHUP."""
