"""Ends checks that hang, and finds blocking calls in the thread of an event loop.

Blocking calls are found without measuring time, so that the load of the machine does not change the
result. Most of them raise audit events (https://docs.python.org/3/library/audit_events.html).
Before Python 3.13, `time.sleep` raises no audit event, so a profile function detects calls of
`sleep`, even under another name.
"""

from __future__ import annotations

import ctypes
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

__all__ = ["TookTooLong", "time_limit", "waits"]


class TookTooLong(BaseException):
    """Raised in a check that does not end.

    This is not a subclass of `Exception`, so that `except Exception` in the hanging code does not
    catch it.
    """


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TookTooLong in the body of the `with` statement after `seconds`.

    In the main thread, a signal interrupts blocking calls too. In other threads, and on systems
    without such signals, only Python code is interrupted.
    """
    sentence = f"it did not end within {seconds:.2g} s"
    main = threading.current_thread() is threading.main_thread()
    if not (main and hasattr(signal, "setitimer")):
        with _watched(threading.get_ident(), seconds, sentence):
            yield
        return

    def end(number: int, frame: FrameType | None) -> None:
        raise TookTooLong(sentence if frame is None else f"{sentence}: {_place(frame)}")

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _watched(thread: int, seconds: float, sentence: str) -> Iterator[None]:
    raising = ctypes.pythonapi.PyThreadState_SetAsyncExc
    end = ctypes.py_object(type("TookTooLong", (TookTooLong,), {"__str__": lambda _: sentence}))
    timer = threading.Timer(seconds, raising, (ctypes.c_ulong(thread), end))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


_waits: list[str] | None = None
_thread = 0
_listening = False


@contextmanager
def waits() -> Iterator[list[str]]:
    """Collect the blocking calls in this thread, each with the line of code that makes the call."""
    global _waits, _thread, _listening
    if not _listening:
        sys.addaudithook(_heard)  # which cannot be removed
        _listening = True
    found: list[str] = []
    _waits, _thread = found, threading.get_ident()
    before = sys.getprofile()
    sys.setprofile(_profiled)
    try:
        yield found
    finally:
        sys.setprofile(before)
        _waits = None


_SLEEP = time.sleep


def _profiled(frame: FrameType, event: str, argument: Any) -> None:
    if argument is _SLEEP and event == "c_call" and _waits is not None:
        _waits.append(f"time.sleep(), {_place(frame)}")


def _heard(event: str, arguments: tuple[Any, ...]) -> None:
    if _waits is None or threading.get_ident() != _thread:
        return
    if (call := _CALLS.get(event)) is None:
        return
    frame = sys._getframe(1)
    if event == "socket.connect" and arguments[0].gettimeout() == 0.0:
        return
    if event == "subprocess.Popen" and _asked_by_asyncio(frame):
        return
    _waits.append(f"{call}, {_place(frame)}")


_CALLS = {
    "builtins.input": "input()",
    "os.system": "os.system()",
    "socket.connect": "a socket that blocks",
    "socket.getaddrinfo": "socket.getaddrinfo()",
    "socket.gethostbyname": "socket.gethostbyname()",
    "subprocess.Popen": "subprocess.Popen()",
    "urllib.Request": "urllib.request",
}


def _asked_by_asyncio(frame: FrameType | None) -> bool:
    """Return True if a stack frame belongs to asyncio's code that starts a child process.

    asyncio does not block while it waits for the process.
    """
    while frame is not None:
        where = frame.f_globals.get("__name__", "")
        if where.startswith("asyncio.") and frame.f_code.co_name == "_start":
            return True
        frame = frame.f_back
    return False


def _place(frame: FrameType) -> str:
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
