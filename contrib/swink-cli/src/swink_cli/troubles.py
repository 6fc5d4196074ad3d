"""Show errors that the library only logs, such as those of a failed plugin, during an answer.

Each error is printed once, as soon as possible, but not in the middle of an answer. With `--debug`,
everything is logged instead, except errors that the command itself prints.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from swink_cli.terminal import printable, say

__all__ = ["TROUBLES", "Troubles", "is_failure_logged", "log_to_stderr"]

SHOWN = ("call %s: ", "plugin %s is disabled", "%s: a malformed frame")
"""Beginnings of log messages that repeat an error, retry or notice shown by the command line."""

SAID_OTHERWISE = (*SHOWN, "the plugin of provider ")
"""Beginnings of log messages that `Troubles` does not print.

The command line reports their content in another form.
"""

CALL_LOG = "swink_observer_log"
"""The logger that SWINK_LOG enables, which reports the failure of every call."""

MOST = 20
"""The maximum number of errors to print."""

ADVICE = "Report it with the output of `swink --debug …`, or uninstall it."


class _Printable(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """Format a record without control characters, which servers can send."""
        return printable(super().format(record))


def log_to_stderr() -> None:
    """Log everything to standard error, except warnings and errors that the command shows."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Printable("%(levelname)s %(name)s: %(message)s"))
    handler.addFilter(
        lambda record: record.levelno < logging.WARNING or not str(record.msg).startswith(SHOWN)
    )
    logging.basicConfig(level=logging.DEBUG, handlers=[handler])


def is_failure_logged() -> bool:
    """Return whether a log on standard error contains the message of every failed call."""
    return logging.getLogger(CALL_LOG).isEnabledFor(logging.ERROR) and any(
        isinstance(handler, logging.StreamHandler) and handler.stream is sys.stderr
        for handler in logging.getLogger(CALL_LOG).handlers
    )


class Troubles(logging.NullHandler):
    """Prints errors of swink that no other handler receives.

    As a `NullHandler`, it is ignored by code that checks whether logging is configured.
    """

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._known: set[str] = set()
        self._kept: list[str] = []
        self._holders = 0

    def handle(self, record: logging.LogRecord) -> bool:
        """Print a record, or hold it until the current answer has ended."""
        is_said = str(record.msg).startswith(SAID_OTHERWISE) or _is_heard(record.name)
        what, _, trace = record.getMessage().partition(":\n")
        is_ours = record.name.partition("_")[0] == "swink"
        if is_said or not is_ours or what in self._known or len(self._known) >= MOST:
            return False
        self._known.add(what)
        why = trace.rstrip().rpartition("\n")[2]
        if record.exc_info and record.exc_info[0]:
            why = record.exc_info[0].__name__  # the exception's message may contain a secret
        self._kept.append(f"notice: {what}: {why}\n{ADVICE}" if why else f"notice: {what}")
        self._say()
        return True

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold messages until the answer is complete."""
        self._holders += 1
        try:
            yield
        finally:
            self._holders -= 1
            self._say()

    def _say(self) -> None:
        while self._kept and not self._holders:
            with suppress(OSError, ValueError):  # a closed pipe is not an error of the call
                say(self._kept.pop(0))


def _is_heard(name: str) -> bool:
    """Return whether another handler receives the records of this logger."""
    logger: logging.Logger | None = logging.getLogger(name)
    while logger is not None:
        if any(not isinstance(handler, logging.NullHandler) for handler in logger.handlers):
            return True
        logger = logger.parent if logger.propagate else None
    return False


TROUBLES = Troubles()
