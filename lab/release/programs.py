"""Programs that a tool runs, which end with it: at Ctrl-C and SIGTERM nothing of them is left."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import RLock, Timer
from types import FrameType
from typing import Any

PATIENCE_SECONDS = 10.0
"""For which a program that is stopped may put away what it made."""

WAKE_SECONDS = 0.5
"""The time after which the main thread looks for signals again."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM)

_lock = RLock()  # a signal finds the main thread anywhere
_running: set[subprocess.Popen[str]] = set()
_stopped_by: list[int] = []


class Stopped(BaseException):
    """The tool received a signal, and has stopped its programs."""

    @property
    def exit_code(self) -> int:
        """The exit code that a shell reports for a process ended by a signal."""
        return 128 + _stopped_by[0]


def run(command: Sequence[str | Path], **options: Any) -> tuple[int, str]:
    """Return a program's exit code, and what it said. Raises Stopped where it is not begun."""
    with _lock:
        if _stopped_by:
            raise Stopped
        program = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, start_new_session=True, **options,
        )  # fmt: skip
        _running.add(program)
    try:
        said, _ = program.communicate()
    finally:
        program.wait()
        if _stopped_by:
            _kill(program)  # what it has begun, and left
        _running.discard(program)
    return program.returncode, said


@contextmanager
def stopping() -> Iterator[None]:
    """Raise Stopped in the main thread at the first signal, and ignore later ones.

    A signal that arrives just before the main thread waits for a lock would be handled only when
    the lock is free. A timer therefore interrupts such waits twice a second, where there is one.
    """
    before = {number: signal.signal(number, _stop) for number in _SIGNALS}
    if hasattr(signal, "setitimer"):
        before[signal.SIGALRM] = signal.signal(signal.SIGALRM, _ignore)
        signal.setitimer(signal.ITIMER_REAL, WAKE_SECONDS, WAKE_SECONDS)
    try:
        yield
    finally:
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def _ignore(number: int, frame: FrameType | None) -> None:
    """Do nothing."""


def _stop(number: int, frame: FrameType | None) -> None:
    for each in _SIGNALS:
        signal.signal(each, _ignore)  # a program would inherit SIG_IGN
    with _lock:
        _stopped_by.append(number)
    _tell_all(_interrupt)
    killing = Timer(PATIENCE_SECONDS, _tell_all, [_kill])
    killing.daemon = True
    killing.start()
    raise Stopped


def _tell_all(tell: Callable[[subprocess.Popen[str]], None]) -> None:
    for program in [*_running]:
        tell(program)


if hasattr(os, "killpg"):

    def _interrupt(program: subprocess.Popen[str]) -> None:
        with suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGINT)

    def _kill(program: subprocess.Popen[str]) -> None:
        with suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)

else:  # Windows has no groups, and one way to end a program

    def _interrupt(program: subprocess.Popen[str]) -> None:
        program.terminate()

    _kill = _interrupt
