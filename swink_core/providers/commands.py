"""Helpers for providers that run a command: explain why it did not start, and stop it."""

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
    """Return the failure for a command that did not start.

    The reason is a lack of system resources, a missing command, or invalid arguments.
    """
    scarce = getattr(error, "errno", None) in _SCARCE
    kind = Kind.RESOURCE if scarce else Kind.INVALID_REQUEST
    message = f"the command {program!r} could not be started: {error}"
    return Failure("connect", kind=kind, code="command", message=message, exception=error)


def end_group(pid: int, force: bool) -> None:
    """Stop the process `pid`, which leads a process group, and all other processes of the group.

    The processes receive SIGTERM, or SIGKILL if `force` is true.
    """
    with suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            os.kill(pid, signal.SIGTERM)
        else:
            os.killpg(pid, signal.SIGKILL if force else signal.SIGTERM)
