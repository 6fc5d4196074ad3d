"""Why a command did not start, and how it and what it started is ended."""

from __future__ import annotations

import errno
import signal
import subprocess

import pytest

from swink_core import StreamErrorKind as Kind
from swink_core.providers import end_group, not_started

NOT_STARTED = [
    ("a word with a null", ValueError("embedded null byte"), Kind.INVALID_REQUEST),
    ("half a character", UnicodeEncodeError("utf-8", "\ud800", 0, 1, "no"), Kind.INVALID_REQUEST),
    ("too long a line", OSError(errno.E2BIG, "Argument list too long"), Kind.INVALID_REQUEST),
    ("no such file", FileNotFoundError(errno.ENOENT, "No such file"), Kind.INVALID_REQUEST),
    ("not a program", PermissionError(errno.EACCES, "Permission denied"), Kind.INVALID_REQUEST),
    ("of another machine", OSError(errno.ENOEXEC, "Exec format error"), Kind.INVALID_REQUEST),
    ("no descriptors", OSError(errno.EMFILE, "Too many open files"), Kind.RESOURCE),
    ("no descriptors in the system", OSError(errno.ENFILE, "Too many open"), Kind.RESOURCE),
    ("no processes", BlockingIOError(errno.EAGAIN, "Try again"), Kind.RESOURCE),
    ("no memory", OSError(errno.ENOMEM, "Cannot allocate memory"), Kind.RESOURCE),
]  # fmt: skip


@pytest.mark.parametrize(
    ("error", "kind"), [row[1:] for row in NOT_STARTED], ids=[row[0] for row in NOT_STARTED]
)
def test_what_is_not_started_is_the_callers_or_the_machines_mistake(
    error: OSError | ValueError, kind: Kind
) -> None:
    failure = not_started(error, "acme")
    assert (failure.phase, failure.kind, failure.code) == ("connect", kind, "command")
    assert failure.exception is error
    assert "acme" in (failure.message or "")
    assert str(error) in (failure.message or "")


def test_a_group_that_is_gone_may_be_ended() -> None:
    process = subprocess.Popen(["/bin/sh", "-c", "exit 0"], start_new_session=True)
    process.wait()
    end_group(process.pid, force=True)


@pytest.mark.parametrize(("force", "by"), [(False, signal.SIGTERM), (True, signal.SIGKILL)])
def test_a_group_is_asked_to_end_or_ended(force: bool, by: signal.Signals) -> None:
    process = subprocess.Popen(["/bin/sh", "-c", "sleep 600 & wait"], start_new_session=True)
    end_group(process.pid, force=force)
    assert process.wait() == -by
