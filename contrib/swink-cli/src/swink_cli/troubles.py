"""Errors that the library only logs, shown to a person: a plugin that fails stops no answer.

Each is shown once, and at once, but not in the middle of an answer. `--debug` turns on the log
instead, and leaves out of it the errors that the command shows.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from swink_cli.terminal import printable, say

__all__ = ["TROUBLES", "Troubles", "is_failure_logged", "log_to_stderr"]

SHOWN = ("call %s: ", "plugin %s is left out", "%s: a malformed frame")
"""How messages begin that repeat an error, a retry or a notice that the command line shows."""

SAID_OTHERWISE = (*SHOWN, "the plugin of provider ")
"""How messages begin whose matter is the error of a call, or a notice before it."""

CALL_LOG = "swink_observer_log"
"""The logger of the observer that SWINK_LOG turns on: it reports the failure of every call."""

MOST = 20
"""Troubles that are said; whoever has more has been told enough."""

ADVICE = "Report it with what `swink --debug …` prints, or uninstall it."


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
    """Tell whether a log on standard error has the message of every failed call."""
    return logging.getLogger(CALL_LOG).isEnabledFor(logging.ERROR) and any(
        isinstance(handler, logging.StreamHandler) and handler.stream is sys.stderr
        for handler in logging.getLogger(CALL_LOG).handlers
    )


class Troubles(logging.NullHandler):
    """Says errors of swink that no other handler hears.

    It counts as no handler, for those who look whether there is one.
    """

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._known: set[str] = set()
        self._kept: list[str] = []
        self._holders = 0

    def handle(self, record: logging.LogRecord) -> bool:
        """Say what is logged, or keep it until it disturbs nobody."""
        is_said = str(record.msg).startswith(SAID_OTHERWISE) or _is_heard(record.name)
        what, _, trace = record.getMessage().partition(":\n")
        is_ours = record.name.partition("_")[0] == "swink"
        if is_said or not is_ours or what in self._known or len(self._known) >= MOST:
            return False
        self._known.add(what)
        why = trace.rstrip().rpartition("\n")[2]
        if record.exc_info and record.exc_info[0]:
            why = record.exc_info[0].__name__  # its words may hold a secret
        self._kept.append(f"notice: {what}: {why}\n{ADVICE}" if why else f"notice: {what}")
        self._say()
        return True

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep what there is to say until an answer has been shown."""
        self._holders += 1
        try:
            yield
        finally:
            self._holders -= 1
            self._say()

    def _say(self) -> None:
        while self._kept and not self._holders:
            with suppress(OSError, ValueError):  # nobody reads, which is no fault of the call's
                say(self._kept.pop(0))


def _is_heard(name: str) -> bool:
    """Tell whether something is done with what this logger is told."""
    logger: logging.Logger | None = logging.getLogger(name)
    while logger is not None:
        if any(not isinstance(handler, logging.NullHandler) for handler in logger.handlers):
            return True
        logger = logger.parent if logger.propagate else None
    return False


TROUBLES = Troubles()
