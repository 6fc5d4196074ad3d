"""`Response`: an HTTP response whose body is read from a connection."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Mapping
from typing import Self

from swink_core import ProviderFailure
from swink_transport_httptools import faults
from swink_transport_httptools.connection import MOST_AT_ONCE, Connection
from swink_transport_httptools.inflate import Inflater
from swink_transport_httptools.pool import Origin, Pool


class Response:
    """An `HTTPResponse`; its connection returns to the pool after the whole body has been read."""

    __slots__ = (
        "_at_once", "_connection", "_inflater", "_is_closed", "_origin", "_pool", "headers",
        "status",
    )  # fmt: skip

    def __init__(self, connection: Connection, pool: Pool, origin: Origin) -> None:
        self._connection: Connection | None = connection
        self._pool = pool
        self._origin = origin
        self._inflater = None if connection.coding is None else Inflater(connection.coding)
        self._at_once = 0  # bytes
        self._is_closed = False
        self.status = connection.status
        self.headers: Mapping[str, str] = connection.headers

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        connection = self._connection
        if connection is None:
            if self._is_closed:
                raise ProviderFailure(faults.left())
            raise StopAsyncIteration
        if self._at_once > MOST_AT_ONCE:
            self._at_once = 0
            await asyncio.sleep(0)
        if self._inflater is not None:
            return await self._inflated(connection, self._inflater)
        while not connection.has_data:
            if connection.is_complete:
                self._give_back(connection)
                raise StopAsyncIteration
            connection.check()
            await connection.wait()
        data = connection.take()
        if connection.is_complete:
            self._give_back(connection)
        self._at_once += len(data)
        return data

    async def _inflated(self, connection: Connection, inflater: Inflater) -> bytes:
        try:
            while not (data := inflater.read()):
                if connection.has_data:
                    inflater.feed(connection.take())
                elif connection.is_complete:
                    inflater.finish()
                    self._give_back(connection)
                    raise StopAsyncIteration
                else:
                    connection.check()
                    await connection.wait()
        except zlib.error as error:
            raise ProviderFailure(faults.not_inflated(error)) from error
        self._at_once += len(data)
        return data

    @property
    def at_end(self) -> bool:
        """Whether the body is known to have been read to its end."""
        return self._connection is None and not self._is_closed

    def _give_back(self, connection: Connection) -> None:
        self._connection = None
        self._pool.put(self._origin, connection)

    def close(self) -> None:
        """Close the connection at once, unless the body was read to its end."""
        connection = self._connection
        if connection is not None:
            if connection.is_complete and not connection.has_data and self._inflater is None:
                self._give_back(connection)
            else:
                self._connection = None
                self._is_closed = True
                connection.abort()

    def __del__(self) -> None:
        if self._connection is not None and not self._pool.closed:
            self.close()
