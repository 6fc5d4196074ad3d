"""Fixtures for the tests of providers; pytest finds them by itself where swink-core is installed.

Everything else is imported by the test that asks for a fixture.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from swink_core.testing.chaos import ChaosServer


@pytest.fixture
def chaos() -> Iterator[ChaosServer]:
    """A hostile provider on loopback, in a thread of its own; see `swink_core.testing.chaos`."""
    from swink_core.testing.chaos import ChaosServer

    with ChaosServer() as server:
        yield server
