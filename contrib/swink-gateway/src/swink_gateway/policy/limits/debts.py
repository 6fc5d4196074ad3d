"""Debts: charges that a process could not send to the shared store yet, stored in a file.

The file preserves the debts if the process ends suddenly. The processes of one machine share a
folder, and each process also sends the debts of processes that have died. Each debt has an id, so
that it is counted once even if several processes send it.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from errno import ENOSPC
from functools import lru_cache
from pathlib import Path
from secrets import token_hex

from msgspec import json

__all__ = ["Debt", "Debts", "is_running", "process_name"]

log = logging.getLogger(__name__)

Debt = tuple[str, str, int, int, int, float]
"""A debt: its id, the key, the second of the attempt, requests, tokens and dollars."""

_SYNCHRONIZE, _WAIT_TIMEOUT, _ACCESS_DENIED = 0x100000, 0x102, 5
"""Constants of Windows.

See https://learn.microsoft.com/windows/win32/procthread/process-security-and-access-rights. They
are the access right to wait for a process, the result of `WaitForSingleObject` for a running
process, and the error code `ERROR_ACCESS_DENIED`.
"""


class Debts:
    """The debts of this process, and of dead processes with the same `folder`.

    If `folder` is `None`, debts are kept in memory, as are debts that cannot be written to it.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._file = folder and folder / f"owed-{process_name()}"
        self._owed: list[Debt] = []
        self._failed = False

    def add(
        self, key: str, at: float, requests: int, tokens: int, dollars: float, id: str | None = None
    ) -> None:
        """Record a debt.

        `id` is the id of a charge that the store may already have received (`None`: a new id).
        """
        debt = (id or token_hex(8), key, int(at), requests, tokens, dollars)
        self._owed.append(debt)
        if self._file is not None:
            try:
                _append(self._file, json.encode(debt) + b"\n")
                self._failed = False
            except OSError as error:
                if not self._failed:
                    log.error(
                        "charges cannot be written to %s (%s); they are lost if this process ends "
                        "before the store can be reached",
                        self._file,
                        error.strerror,
                    )
                self._failed = True

    async def pay(self, pays: Callable[[Debt], Awaitable[object]]) -> None:
        """Call `pays` with each debt, and keep the debts for which `pays` raises an exception."""
        for file in self._of_the_dead():
            with suppress(FileNotFoundError):  # another process was faster
                for line in file.read_bytes().splitlines(keepends=True):
                    if line.endswith(b"\n"):
                        await pays(json.decode(line, type=Debt))
                file.unlink()
        while self._owed:
            await pays(self._owed[0])
            del self._owed[0]
        if self._file is not None:
            self._file.unlink(missing_ok=True)

    def _of_the_dead(self) -> Iterator[Path]:
        for file in () if self._folder is None else self._folder.glob("owed-*"):
            if not is_running(file.name.removeprefix("owed-")):
                yield file


def _append(path: Path, line: bytes) -> None:
    """Append a line, or nothing. Raises OSError if the disk is full."""
    with path.open("ab", buffering=0) as file:
        size = file.tell()
        if file.write(line) < len(line):
            file.truncate(size)
            raise OSError(ENOSPC, os.strerror(ENOSPC))


def process_name() -> str:
    """Return a name of this process that no later one has, although it may have the same id.

    In a container, each start gives out the same few ids. Where the system does not show when a
    process started, the name is its id.
    """
    id = os.getpid()
    return f"{id}-{start}" if (start := _start_of(id)) else str(id)


def _start_of(id: int) -> str:
    """Return when a process started, in clock ticks since the boot; an empty string if unknown.

    Source: `starttime` in proc_pid_stat(5).
    """
    try:
        facts = Path(f"/proc/{id}/stat").read_bytes()
    except OSError:
        return ""
    _, _, after_its_name = facts.rpartition(b")")
    return after_its_name.split()[19].decode()


def is_running(process: str) -> bool:
    """Return True if the process of this machine with this name still runs."""
    id, _, start = process.partition("-")
    return _has_process(int(id)) and (not start or _began(int(id), start))


@lru_cache(1024)  # each admission asks for each process
def _began(id: int, start: str) -> bool:
    """Return True if the process with this id started at this time, as far as the system shows."""
    return _start_of(id) in (start, "")


def _has_process(id: int) -> bool:
    if sys.platform == "win32":  # on Windows, os.kill ends a process or sends it a Ctrl-C
        import ctypes

        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        handle = kernel.OpenProcess(_SYNCHRONIZE, False, id)
        if not handle:
            return ctypes.get_last_error() == _ACCESS_DENIED
        waits = kernel.WaitForSingleObject(handle, 0) == _WAIT_TIMEOUT
        kernel.CloseHandle(handle)
        return waits
    try:
        os.kill(id, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
