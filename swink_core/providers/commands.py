"""Helpers for providers that run a command: report why it did not start, and end it."""

from __future__ import annotations

import errno
import os
import signal
import sys
from contextlib import suppress

from swink_core.failures.failure import Failure
from swink_core.vocabulary.outcome import StreamErrorKind as Kind

_SCARCE = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)


def not_started(error: OSError | ValueError, program: str) -> Failure:
    """Explain why a command did not start: the system lacks resources, the command does not exist,
    or its arguments are invalid.
    """
    scarce = getattr(error, "errno", None) in _SCARCE
    kind = Kind.RESOURCE if scarce else Kind.INVALID_REQUEST
    message = f"the command {program!r} could not be started: {error}"
    return Failure("connect", kind=kind, code="command", message=message, exception=error)


def end_group(pid: int, force: bool) -> None:
    """Ask a process that leads a group, and its group, to end; or end them."""
    with suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            os.kill(pid, signal.SIGTERM)
        else:
            os.killpg(pid, signal.SIGKILL if force else signal.SIGTERM)
