"""Let child processes of tests receive interrupts, and show where a test hangs."""

from __future__ import annotations

import signal
from importlib import import_module
from importlib.util import find_spec

import pytest
from hang_watch import Watch

from swink_core.providers import AiohttpClient

# A shell passes an ignored interrupt on to what it runs in the background, and Python leaves it
# ignored; the programs that these tests start and interrupt would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


TRANSPORTS = [AiohttpClient]
if find_spec("swink_transport_httptools"):  # which the sdist of the core is tested without
    TRANSPORTS.append(import_module("swink_transport_httptools").HttptoolsClient)


@pytest.fixture(params=TRANSPORTS, ids=lambda transport: transport.__name__)
def transport(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> type[AiohttpClient]:
    """Each installed HTTP client, as the default of `Client`."""
    chosen: type[AiohttpClient] = request.param
    monkeypatch.setattr("swink_core.client.AiohttpClient", chosen)
    return chosen


def pytest_configure(config: pytest.Config) -> None:
    """Watch all tests of the run, those beside this folder too.

    The tests of `make fuzz` take minutes, and a report about a running process may crash it.
    """
    if config.getoption("--hypothesis-profile", None) != "swink-fuzz":
        config.pluginmanager.register(Watch())
