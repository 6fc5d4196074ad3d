"""Helpers beside these tests can be imported, in the checkout and in an unpacked sdist."""

import signal
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))

# A shell passes an ignored interrupt on to what it runs in the background, and Python leaves it
# ignored; the programs that these tests start and interrupt would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def engine_loads() -> None:
    """Skip the test on a system without a library of the engine: slim images lack libgomp."""
    pytest.importorskip("xllamacpp", exc_type=ImportError)
