"""The faults of a server before calls that are sent by this client.

`make transports` runs them with every installed provider.
"""

from __future__ import annotations

import os
import sys

import pytest

from swink_test_helpers.fault_matrix import FaultMatrix
from swink_transport_httptools import HttptoolsClient

CALLS = sys.modules["swink_test_helpers.fault_matrix.call"]
"""The module, whose name in the package is that of a function."""


@pytest.fixture(autouse=True)
def _as_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CALLS, "AiohttpClient", HttptoolsClient)


class TestFaults(FaultMatrix):
    """Every fault before one provider, or before all of them."""

    provider = None if os.environ.get("SWINK_TRANSPORT_FAULTS") == "all" else "anthropic"
