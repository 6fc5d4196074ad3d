"""`ReplayServer`: answers real requests with recordings, write for write and in their time.

    async with ReplayServer() as server:
        base_url = server.add("case", recording)
        async with client.stream("acme/large", "Hello", base_url=base_url, api_key="test") as s: …
    assert server.exchanges[0].json["stream"] is True

Whatever follows the key in a request's path is the provider's own business and is not looked at.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from swink_core import providers
from swink_core.providers import Clock, HTTPProvider, LoopClock
from swink_recorder.loopback import Exchange, LoopbackServer
from swink_recorder.recording import Recording

__all__ = ["ReplayServer"]


class ReplayServer(LoopbackServer):
    """Replays recordings over loopback HTTP.

    `speed` is how many times faster than recorded; 0 sends all at once, where the client's
    reads no longer match the writes. `clock` tells the time that the recorded times mean.
    """

    def __init__(self, speed: float = 0.0, clock: Clock | None = None) -> None:
        super().__init__()
        self.speed = speed
        self._clock = clock or LoopClock()
        self._recordings: dict[str, list[Recording]] = {}

    def add(self, key: str, *recordings: Recording) -> str:
        """Serve recordings below `/key`, one to a request, and return the base URL.

        The last one answers all further requests. The server must have been started.
        """
        if not recordings or not key or "/" in key:
            raise ValueError("add(key, recording, …) wants a key without a slash and a recording")
        self._recordings[key] = list(recordings)
        return f"{self.url}/{key}"

    def play(self, provider: Any, key: str, *recordings: Recording) -> str:
        """Serve recordings to a provider and return the base URL.

        One that asks no server, but a child process or what else it reads, reads them instead of
        that whenever it is given this address.
        """
        is_elsewhere = isinstance(provider, HTTPProvider) and not provider.speaks_http
        if is_elsewhere:
            provider.exchange = self._chunks
        return self.add(key, *recordings)

    def exchanges_of(self, key: str) -> list[Exchange]:
        """List the exchanges of one key, in order."""
        return [exchange for exchange in self.exchanges if _key(exchange) == key]

    async def respond(self, exchange: Exchange) -> None:
        """Replay the recording that is next for the request's key."""
        waiting = self._recordings.get(_key(exchange))
        if waiting is None:
            await exchange.start(404, {"Content-Type": "text/plain"})
            await exchange.write(f"no recording is served below /{_key(exchange)}".encode())
            await exchange.end()
            return
        recording = _next(waiting)
        await exchange.start(recording.status, recording.headers)
        async for piece in self._in_time(recording):
            await exchange.write(piece)
        await exchange.end()

    async def _chunks(self, x: providers.Exchange) -> AsyncIterator[bytes]:
        """Yield what a request would be answered; stands in for `HTTPProvider.exchange`."""
        key = (x.options.base_url or "").rpartition("/")[2]
        async for piece in self._in_time(_next(self._recordings[key])):
            yield piece

    async def _in_time(self, recording: Recording) -> AsyncIterator[bytes]:
        began = self._clock.time()
        for seconds, piece in recording.pieces():
            if self.speed > 0:
                await self._clock.sleep(began + seconds / self.speed - self._clock.time())
            yield piece


def _next(waiting: list[Recording]) -> Recording:
    return waiting.pop(0) if len(waiting) > 1 else waiting[0]


def _key(exchange: Exchange) -> str:
    return exchange.path.lstrip("/").partition("/")[0]
