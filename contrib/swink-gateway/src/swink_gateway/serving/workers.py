"""Worker processes: a parent that opens the listening socket, and forked workers that serve it.

    worker = fork_workers(4, sock)      # returns in each worker; in the parent, exits the process

All workers accept from one listening socket: if a worker dies, the other workers accept the waiting
connections. The parent serves nothing. It replaces a worker that dies, forwards
SIGTERM and SIGHUP, and exits after all workers. It kills workers that do not end in time. Workers
exit if the parent dies.
"""

from __future__ import annotations

import logging
import mmap
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress

from attrs import Factory, define, field

from swink_core import SwinkError

__all__ = ["ENDING", "TOGETHER_ENV", "TOGETHER_SECONDS", "Room", "Worker", "fork_workers", "listen"]

log = logging.getLogger(__name__)

TOGETHER_ENV = "PROMETHEUS_MULTIPROC_DIR"
"""The environment variable with the folder in which processes share prometheus_client's data."""

ENDING = (signal.SIGTERM, signal.SIGINT)
"""The signals that stop a gateway."""

MOST_WAITING = 1024
"""The backlog of connections; the system may limit it further."""

TOGETHER_SECONDS = 0.5
"""Signals that arrive within this time count as one signal."""

KILL_SECONDS = 10.0
"""How many seconds a worker may take to end after its drain, or after a second signal."""

MOST_SECONDS = 1e8
"""The maximum time of a timer: three years, about as long as systems allow."""

AGAIN_SECONDS = 1.0
"""How many seconds pass before a worker that was never ready is replaced."""


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket. Raises OSError if the address cannot be used."""
    family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    return socket.create_server((host, port), family=family, backlog=MOST_WAITING)


@define
class Room:
    """Shared memory with one byte per worker, which is 1 if the worker can serve another answer."""

    _flags: mmap.mmap
    slot: int

    def tell(self, has_room: bool) -> None:
        """Record whether this worker has room."""
        self._flags[self.slot] = has_room

    def is_elsewhere(self) -> bool:
        """Return True if another worker has room."""
        return any(flag for at, flag in enumerate(self._flags[:]) if at != self.slot)


@define
class Worker:
    """The data that a worker gets from its parent.

    `number` identifies the worker, counted from 0; the replacement of a dead worker gets a new
    number.
    """

    number: int
    _ready: int
    alive: int
    """A file descriptor that becomes readable when the parent dies."""
    room: Room

    @property
    def is_orphan(self) -> bool:
        """Whether the parent is dead.

        The worker learns this a moment before the system assigns a new parent to it.
        """
        return bool(select.select([self.alive], [], [], 0)[0])

    def ready(self) -> None:
        """Report to the parent that requests are served."""
        with suppress(BrokenPipeError):  # the parent is dead: `alive` is readable
            os.write(self._ready, b"\0")
        os.close(self._ready)


def fork_workers(
    count: int,
    sock: socket.socket,
    ended: Callable[[int], None] = lambda pid: None,
    drain: float = 0.0,
) -> Worker:
    """Fork `count` workers and return in each of them; the parent exits after all of them.

    In the parent, `ended` is called with the process id of each worker that has ended. After
    SIGTERM or SIGINT, workers have `drain` seconds to finish their requests; the parent kills a
    worker that still runs `KILL_SECONDS` later, or `KILL_SECONDS` after a second signal. The parent
    exits with 0 if all workers do. If the first worker ends before it is ready, no other worker is
    started, and the parent exits with the first worker's exit code. Raises SwinkError if processes
    cannot be forked.
    """
    if not hasattr(os, "fork"):
        raise SwinkError(
            "this system does not support several workers",
            title="The gateway was not started",
            resolution="Start without --workers, or run several gateways behind a load balancer.",
        )
    return _Parent(count, sock, ended, drain).supervise()


@define
class _Parent:
    count: int
    sock: socket.socket
    ended: Callable[[int], None]
    drain: float
    workers: dict[int, int] = field(factory=dict)
    """Maps a worker's process id to the file descriptor on which it reports that it is ready."""
    rooms: dict[int, Room] = field(factory=dict)
    flags: mmap.mmap = field(
        default=Factory(lambda self: mmap.mmap(-1, self.count), takes_self=True)
    )
    begun: int = 0
    ready: set[int] = field(factory=set)
    code: int = 0
    stops: bool = False
    stopped_at: float = 0.0
    alive: tuple[int, int] = field(factory=os.pipe)

    def supervise(self) -> Worker:
        """Supervise the workers until all have stopped; return in each worker."""
        for name in _PASSED_ON:
            signal.signal(name, self._pass_on)
        signal.signal(signal.SIGALRM, self._kill)
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
        """Fork a worker. Returns a `Worker` in the new process, and `None` in the parent."""
        heard, ready = os.pipe()
        taken = {room.slot for room in self.rooms.values()}
        room = Room(self.flags, next(at for at in range(self.count) if at not in taken))
        room.tell(True)  # the new worker soon has room; full workers wait a second for it
        sys.stdout.flush()
        sys.stderr.flush()
        signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)
        pid = os.fork()
        if pid == 0:
            for name in _PASSED_ON:
                signal.signal(name, signal.SIG_DFL if name in ENDING else signal.SIG_IGN)
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
        if pid not in self.workers:  # a child that this process had, or inherited as process 1
            return
        code = os.waitstatus_to_exitcode(status)
        self.rooms.pop(pid).tell(False)
        if self.stops:
            told = -code in ENDING  # the signal ended a worker that did not handle signals yet
            self.code = self.code or (0 if told else code if code >= 0 else 1)
        else:
            log.warning("worker %d exited with status %d; starting another one", pid, code)
            if not self._is_ready(pid):
                time.sleep(AGAIN_SECONDS)
        os.close(self.workers.pop(pid))
        self.ready.discard(pid)
        self.ended(pid)

    def _is_ready(self, pid: int) -> bool:
        """Wait until a worker is ready; return False if the worker ended before it was ready."""
        if pid not in self.ready and os.read(self.workers[pid], 1):
            self.ready.add(pid)
        return pid in self.ready

    def _pass_on(self, number: int, frame: object) -> None:
        if number in ENDING and not self.stops:
            self.stops = True
            self.stopped_at = time.monotonic()
            self.sock.close()
            patience = min(self.drain + KILL_SECONDS, MOST_SECONDS)
            signal.setitimer(signal.ITIMER_REAL, patience)
        elif number in ENDING and time.monotonic() - self.stopped_at > TOGETHER_SECONDS:
            signal.setitimer(signal.ITIMER_REAL, KILL_SECONDS)
        for pid in self.workers:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _kill(self, number: int, frame: object) -> None:
        for pid in self.workers:
            log.warning("worker %d did not end in time; it was killed", pid)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


_PASSED_ON = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP") if hasattr(signal, name)
)
"""The signals that the parent forwards to its workers."""
