"""Make the helpers of these tests importable, in a checkout and in an unpacked sdist."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.append(str(Path(__file__).parent))

if TYPE_CHECKING:
    from swink_test_helpers.postgres_server import PostgresServer

_schemas = itertools.count()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A Postgres server that all tests share."""
    from swink_test_helpers.postgres_server import PostgresServer

    server = PostgresServer()
    server.start()
    yield server
    server.remove()


@pytest.fixture
def postgres(postgres_server: PostgresServer) -> str:
    """The address of an empty schema of the server."""
    return postgres_server.schema(f"test{next(_schemas)}")
