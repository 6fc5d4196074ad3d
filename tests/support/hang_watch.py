"""A test that hangs says where.

pytest's own `faulthandler_timeout` makes a thread for each test, which takes longer than most
tests do.
"""

from __future__ import annotations

import faulthandler
import os
import time

import pytest

HANGS_AFTER = 180
"""Seconds after which a test that still runs shows what all threads do, once."""

ARMED_FOR = 5
"""Seconds within which the timer must be restarted by another test, before a report."""


class Watch:
    """Shows where a test hangs, on what was the standard error before it was captured."""

    def __init__(self) -> None:
        self._stderr = os.dup(2)
        self._armed = -float(ARMED_FOR)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        """Arm it where that was not just done; a test that follows one in time puts it off."""
        if (now := time.monotonic()) - self._armed >= ARMED_FOR:
            faulthandler.dump_traceback_later(HANGS_AFTER, file=self._stderr)
            self._armed = now

    def pytest_exception_interact(self) -> None:
        """Restart the timer for the next test: pytest cancels it here, in case of debugging."""
        self._armed = -float(ARMED_FOR)

    def pytest_enter_pdb(self) -> None:
        """Arm it for the next test."""
        self.pytest_exception_interact()

    def pytest_sessionfinish(self) -> None:
        """Disarm it."""
        faulthandler.cancel_dump_traceback_later()
