"""What the library only logs, said to a person: a plugin that fails costs the answer nothing.

Each trouble is said once, and at once, but not into the middle of an answer.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from swink_cli.terminal import say

__all__ = ["TROUBLES", "Troubles"]

SAID_OTHERWISE = ("call %s: ", "the plugin of provider ", "plugin %s is left out")
"""How messages begin whose matter is the error of a call, or a notice before it."""

MOST = 20
"""Troubles that are said; whoever has more has been told enough."""

ADVICE = "Report it with what `swink --debug …` prints, or uninstall it."


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
