"""Records a live stream: an HTTP client that keeps what it carried.

http = CapturingClient(AiohttpClient())
async with Client(http=http) as client, client.stream(model, prompt) as stream:
    async for _ in stream: ...
http.recording(stream).save(folder, secrets=stream.call.secrets)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self
from urllib.parse import urlsplit

import msgspec
from attrs import define, evolve, field

from swink_core import Clock, EventStream, LoopClock, UsageError
from swink_core.providers import HTTPClient, HTTPRequest, HTTPResponse
from swink_recorder.recording import RecordedRequest, Recording

__all__ = ["CapturingClient"]

_KEPT_HEADERS = ("content-type", "retry-after", "request-id", "x-request-id")


@define
class _Exchange:
    request: HTTPRequest
    status: int = 0
    headers: dict[str, str] = field(factory=dict)
    reads: list[tuple[float, bytes]] = field(factory=list)


class CapturingClient:
    """`HTTPClient` that passes everything on to another and keeps the last exchange."""

    def __init__(self, inner: HTTPClient, clock: Clock | None = None) -> None:
        self._inner = inner
        self._clock = clock or LoopClock()
        self._last: _Exchange | None = None

    async def send(self, request: HTTPRequest, connect_timeout: float | None) -> HTTPResponse:
        """Send a request; see `HTTPClient.send`."""
        exchange = self._last = _Exchange(request)
        response = await self._inner.send(request, connect_timeout)
        exchange.status, exchange.headers = response.status, dict(response.headers)
        return _Response(response, exchange, self._clock)

    def close_idle(self) -> None:
        """Close connections that nobody uses."""
        self._inner.close_idle()

    async def aclose(self) -> None:
        """Close all connections."""
        await self._inner.aclose()

    def recording(self, stream: EventStream, note: str = "") -> Recording:
        """Return the last attempt of a finished stream, with the message it made.

        What differs from run to run and is not in the body (cost, request id) is left out of
        the message. Raises UsageError where nothing was answered.
        """
        exchange = self._last
        if exchange is None or not exchange.status:
            raise UsageError(
                f"{stream.call.model} was not answered over HTTP, so there is nothing to record",
                resolution="See the error above; check the key and the address.",
            )
        url = urlsplit(exchange.request.url)
        info = stream.call.provider_info
        return Recording(
            provider=stream.call.model.provider,
            model=stream.call.model.id,
            body=b"".join(data for _, data in exchange.reads),
            chunks=[(seconds, len(data)) for seconds, data in exchange.reads],
            wire_format=info.wire_format if info else "",
            note=note,
            request=RecordedRequest(
                exchange.request.method,
                f"{url.path}?{url.query}" if url.query else url.path,
                dict(exchange.request.headers),
                _json(exchange.request.body),
            ),
            status=exchange.status,
            headers={
                name: value
                for name, value in exchange.headers.items()
                if name.lower() in _KEPT_HEADERS
            },
            message=evolve(stream.message, cost=None, request_id=None),
        )


class _Response:
    def __init__(self, inner: HTTPResponse, exchange: _Exchange, clock: Clock) -> None:
        self.status = inner.status
        self.headers: Mapping[str, str] = inner.headers
        self._inner = inner
        self._exchange = exchange
        self._clock = clock
        self._began = clock.time()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        data = await self._inner.__anext__()
        self._exchange.reads.append((self._clock.time() - self._began, data))
        return data

    def close(self) -> None:
        self._inner.close()


def _json(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
