"""`ReplayServer`: an HTTP server that answers requests with recorded responses.

    async with ReplayServer() as server:
        base_url = server.add("case", recording)
        async with client.stream("acme/large", "Hello", base_url=base_url, api_key="test") as s: …
    assert server.exchanges[0].json["stream"] is True

If a recording contains one request, its response answers any request. If it contains several, each
request is answered with the next leg (a recorded request and its answer) that has the same method
and path. The legs may have been sent to several origins (scheme, host and port); each further
origin gets a loopback address, which replaces the recorded address in answers.

    server.problems("case") == []       # every leg was requested as recorded, and nothing else was
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlencode, urlsplit

from attrs import define, evolve, field

from swink_core import providers
from swink_core.providers import (
    Clock,
    HTTPClient,
    HTTPProvider,
    HTTPRequest,
    HTTPResponse,
)
from swink_recorder.comparison import request_differences
from swink_recorder.legs import RecordedLeg, RecordedRequest, recorded_request
from swink_recorder.loopback import Exchange, LoopbackServer
from swink_recorder.recording import Recording

__all__ = ["ReplayServer", "Rerouted"]


class _Played:
    """A recording that is being replayed."""

    def __init__(self, recording: Recording) -> None:
        self._left = recording.legs
        self._is_one = len(self._left) == 1
        self._callers = [name.lower() for name in (recording.asked or {}).get("headers", ())]

    def next(self, sent: RecordedRequest) -> RecordedLeg | None:
        """Remove and return the recorded request and response (leg) for the request `sent`.

        Among several candidates, choose the leg with the fewest differences. Return `None` if all
        legs have been used.
        """
        found = [leg for leg in self._left if self._is_one or _is_of(leg.request, sent)]
        if not found:
            return None
        best = min(found, key=lambda leg: len(self.differences(leg, sent)))
        self._left = [leg for leg in self._left if leg is not best]
        return best

    def differences(self, leg: RecordedLeg, sent: RecordedRequest) -> list[str]:
        """Return the differences between a request and the request of a leg."""
        return request_differences(sent, leg.request, self._callers) if leg.request.method else []

    def unasked(self) -> list[str]:
        """Return a line for each recorded request that the client has not sent."""
        return [
            f"not asked for: {leg.kind} {leg.request.method} {leg.request.path}"
            for leg in self._left
        ]

    def has(self, sent: RecordedRequest) -> bool:
        """Return True if a leg that was not requested yet has the path of this request."""
        return any(urlsplit(leg.request.path).path == _path(sent) for leg in self._left)


def _is_of(recorded: RecordedRequest, sent: RecordedRequest) -> bool:
    """Return True if a sent request has the origin, method and path of a recorded one.

    The recorded path may begin with the path of the base URL that was used for the recording; this
    beginning is ignored.
    """
    is_same = (recorded.origin, recorded.method) == (sent.origin, sent.method)
    path = urlsplit(recorded.path).path
    return is_same and f"/{path}".endswith(f"/{_path(sent).lstrip('/')}")


def _path(request: RecordedRequest) -> str:
    return urlsplit(request.path).path


@define
class _Key:
    """The recordings that are replayed for requests whose URL path begins with one key.

    `missing` and `different` are the problems found so far. `addresses` maps recorded origins to
    loopback addresses.
    """

    waiting: list[Recording]
    now: _Played
    addresses: dict[str, str] = field(factory=dict)
    missing: list[str] = field(factory=list)
    different: list[str] = field(factory=list)

    def next(self, sent: RecordedRequest) -> RecordedLeg | None:
        """Remove and return the leg that answers a request; `None` if it is not recorded."""
        leg = self.now.next(sent)
        if leg is None:
            following = _Played(self.waiting[min(1, len(self.waiting) - 1)])
            leg = following.next(sent)
            if leg is None:
                self.missing.append(f"not recorded: {sent.method} {_path(sent)}")
                return None
            self.missing += self.now.unasked()
            self.now = following
            if len(self.waiting) > 1:
                del self.waiting[0]
        if found := self.now.differences(leg, sent):
            what = f"{sent.method} {_path(sent)} differs from the recorded request"
            self.different.append(f"{what}: {'; '.join(found)}")
        return leg

    def request(self, exchange: Exchange, origin: int, path: str) -> RecordedRequest:
        """Return a received request in the format of recordings.

        The addresses of this server are replaced by those of the recorded servers.
        """
        query = self._there(urlencode(exchange.query))
        headers = {name: self._there(value) for name, value in exchange.headers.items()}
        body = self._there(exchange.body.decode("latin-1")).encode("latin-1")
        url = f"{path}?{query}" if query else path
        return recorded_request(HTTPRequest(url, body, headers, exchange.method), origin)

    def _there(self, text: str) -> str:
        for origin, address in self.addresses.items():
            text = text.replace(address, origin)
        return text


class _Origin(LoopbackServer):
    """A loopback server that answers the requests to one recorded origin, other than the first."""

    def __init__(self, server: ReplayServer, key: str, number: int) -> None:
        super().__init__()
        self._replay = server
        self._key = key
        self._number = number

    async def respond(self, exchange: Exchange) -> None:
        await self._replay.answer(exchange, self._key, self._number, exchange.path)


class ReplayServer(LoopbackServer):
    """Replays recordings over loopback HTTP.

    `speed` is the playback speed relative to the recording. If it is 0, the whole answer is sent at
    once, and the client may receive it in other network reads than those recorded. `clock` measures
    the recorded pauses.
    """

    def __init__(self, speed: float = 0.0, clock: Clock | None = None) -> None:
        super().__init__(clock=clock)
        self.speed = speed
        self._keys: dict[str, _Key] = {}
        self._origins: list[_Origin] = []

    def add(self, key: str, *recordings: Recording) -> str:
        """Serve recordings below `/key`, one per call, and return the base URL.

        The last recording answers all further calls. The server must be running.
        """
        if not recordings or not key or "/" in key:
            raise ValueError(
                "add(key, recording, …) requires a key without a slash and a recording"
            )
        url = f"{self.url}/{key}"
        served = self._keys[key] = _Key([*recordings], _Played(recordings[0]))
        for recording in recordings:
            for number, origin in enumerate(recording.origins):
                if number and origin not in served.addresses and len(recording.legs) > 1:
                    further = _Origin(self, key, number)
                    further.listen(self)
                    self._origins.append(further)
                    served.addresses[origin] = further.url
            if recording.origins:
                served.addresses.setdefault(recording.origins[0], url)
        return url

    def address(self, key: str, origin: str) -> str:
        """Return the address at which requests to a recorded origin are answered."""
        return self._keys[key].addresses[origin]

    def through(self, http: HTTPClient, key: str) -> Rerouted:
        """Return an HTTP client that sends requests for recorded origins to this server.

        Use this client for addresses that are hard-coded in a provider, such as that of a token
        service.
        """
        return Rerouted(http, {**self._keys[key].addresses})

    def problems(self, key: str) -> list[str]:
        """Describe requests that were not recorded, were not sent, or differ from the recording.

        Query, headers, forms and bodies are compared if the recorded request contains them; see
        `request_differences`.
        """
        return [*self._keys[key].different, *self.missing(key)]

    def missing(self, key: str) -> list[str]:
        """Describe unrecorded requests, and recorded requests that were not sent."""
        served = self._keys[key]
        return [*served.missing, *served.now.unasked()]

    async def aclose(self) -> None:
        """Reset all connections. Raises the exceptions that `respond` has raised."""
        for origin in self._origins:
            await origin.aclose()
        await super().aclose()

    def play(self, provider: Any, key: str, *recordings: Recording) -> str:
        """Serve recordings to a provider and return the base URL.

        A provider that does not use HTTP, for example because it runs a child process, reads the
        recordings directly if this URL is its `base_url`.
        """
        self.stand_in(provider)
        return self.add(key, *recordings)

    def stand_in(self, provider: Any) -> None:
        """Let a provider read recordings directly if it does not use HTTP; see `play`."""
        is_elsewhere = isinstance(provider, HTTPProvider) and not provider.speaks_http
        if is_elsewhere:
            provider.exchange = self._chunks

    def exchanges_of(self, key: str) -> list[Exchange]:
        """List the requests below `/key` with their responses, in the order of arrival."""
        return [exchange for exchange in self.exchanges if _key(exchange) == key]

    async def respond(self, exchange: Exchange) -> None:
        """Replay the next leg for the request's key."""
        key = _key(exchange)
        path = exchange.path.removeprefix(f"/{key}")
        if key not in self._keys:  # a service returned a URL without the origin
            path = exchange.path
            sent = RecordedRequest(exchange.method, path)
            keys = [each for each, served in self._keys.items() if served.now.has(sent)]
            if len(keys) != 1:
                await _refuse(exchange, f"no recording is served below /{key}")
                return
            [key] = keys
        await self.answer(exchange, key, 0, path)

    async def answer(self, exchange: Exchange, key: str, origin: int, path: str) -> None:
        """Answer a request to an origin of a key's recordings."""
        served = self._keys[key]
        leg = served.next(served.request(exchange, origin, path))
        if leg is None:
            await _refuse(exchange, served.missing[-1])
            return
        if not leg.status and not leg.body:
            exchange.reset()  # the recorded request had no answer
            return
        await exchange.start(leg.status, leg.headers)
        async for piece in self._in_time(_here(leg, served.addresses)):
            await exchange.write(piece)
        await exchange.end()

    async def _chunks(self, x: providers.Exchange) -> AsyncIterator[bytes]:
        """Yield the answer to a request; replaces `HTTPProvider.exchange`."""
        key = (x.options.base_url or "").rpartition("/")[2]
        waiting = self._keys[key].waiting
        recording = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        async for piece in self._in_time(recording.pieces()):
            yield piece

    async def _in_time(self, pieces: list[tuple[float, bytes]]) -> AsyncIterator[bytes]:
        began = self.clock.time()
        for seconds, piece in pieces:
            if self.speed > 0:
                await self.clock.sleep(began + seconds / self.speed - self.clock.time())
            yield piece


class Rerouted:
    """An HTTP client that redirects requests for some origins to other addresses."""

    def __init__(self, http: HTTPClient, addresses: dict[str, str]) -> None:
        self._http = http
        self._addresses = addresses

    async def send(self, request: HTTPRequest, connect_timeout: float | None) -> HTTPResponse:
        """Send a request to its redirected address."""
        for origin, address in self._addresses.items():
            if request.url.startswith(f"{origin}/"):
                request = evolve(request, url=address + request.url.removeprefix(origin))
                break
        return await self._http.send(request, connect_timeout)

    def close_idle(self) -> None:
        """Close idle connections."""
        self._http.close_idle()

    async def aclose(self) -> None:
        """Close all connections."""
        await self._http.aclose()


def _here(leg: RecordedLeg, addresses: dict[str, str]) -> list[tuple[float, bytes]]:
    """Return the network reads of a leg's answer; local addresses replace recorded origins."""
    body = leg.body
    for origin, address in addresses.items():
        body = body.replace(origin.encode(), address.encode())
    if body == leg.body:
        return leg.pieces()
    return [(leg.chunks[-1][0], body)]


async def _refuse(exchange: Exchange, why: str) -> None:
    await exchange.start(404, {"Content-Type": "text/plain"})
    await exchange.write(why.encode())
    await exchange.end()


def _key(exchange: Exchange) -> str:
    return exchange.path.lstrip("/").partition("/")[0]
