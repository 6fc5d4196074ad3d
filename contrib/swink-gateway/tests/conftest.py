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
    from swink_test_helpers.redis_server import RedisServer

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


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A Redis server that all tests share."""
    from swink_test_helpers.redis_server import RedisServer

    with RedisServer(tmp_path_factory.mktemp("redis"), keeps=False) as server:
        yield server


@pytest.fixture
def server(redis_server: RedisServer) -> RedisServer:
    """The server, without data.

    After a test has flushed it, ledgers would refuse new keys for some seconds.
    """
    redis_server.clear()
    return redis_server
