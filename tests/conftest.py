"""Let child processes of tests receive interrupts, and show where a test hangs."""

from __future__ import annotations

import signal

import pytest
from hang_watch import Watch

# A shell passes an ignored interrupt on to what it runs in the background, and Python leaves it
# ignored; the programs that these tests start and interrupt would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Watch all tests of the run, those beside this folder too."""
    config.pluginmanager.register(Watch())
