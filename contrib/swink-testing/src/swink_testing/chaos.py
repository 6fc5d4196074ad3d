"""A local HTTP server that simulates a faulty provider.

    async with ChaosServer() as chaos:                                  # or `with`, in a thread
        base_url = chaos.add("flaky", answer, Cut(120), Stall(), Fault())
        async with client.stream("acme/large", "Hello", base_url=base_url, api_key="test") as s: …
    assert len(chaos.exchanges_of("flaky")) == 3

`answer` is a recorded answer without a fault. Each request gets the answer with the next of the
faults; after the last fault, all further requests get the answer with this fault. An exchange
contains the request, the number of bytes sent, and the time at which the client disconnected.

The pytest fixture `chaos` is such a server. The following command runs a server in a separate
process, which serves each of the `standard_faults` at a path with the fault's name:

    python -m swink_testing.chaos path/to/a/recording
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress

from attrs import evolve

from swink_core.providers import Clock, Decoder, NDJSONDecoder, SSEDecoder
from swink_recorder.loopback import HOST, Exchange, LoopbackServer
from swink_recorder.recording import Recording, RecordingError
from swink_testing.chaos_answers import Answer
from swink_testing.chaos_faults import (
    NOISE,
    Broken,
    Claim,
    Cut,
    Drip,
    Encore,
    Fault,
    Gzip,
    Huge,
    Insert,
    Instead,
    Late,
    Length,
    Redirect,
    Says,
    SlowHead,
    Stall,
)

__all__ = [
    "META_ONLY",
    "PAGE",
    "Answer",
    "Broken",
    "ChaosServer",
    "Claim",
    "Cut",
    "Drip",
    "Encore",
    "Fault",
    "Gzip",
    "Huge",
    "Insert",
    "Instead",
    "Late",
    "Length",
    "Redirect",
    "Says",
    "SlowHead",
    "Stall",
    "standard_faults",
]

PAGE = b"<!DOCTYPE html><html><body><h1>Bad gateway</h1></body></html>"
"""A page that a proxy sends instead of the provider's answer."""
META_ONLY = b": hello\n\nretry: 3000\n\nid: 1\n\n"
"""Server-sent events that hold no data."""
STATUSES = (400, 401, 403, 404, 408, 413, 422, 429, 500, 502, 503, 504, 529)
LATER = 3
HUGE_FRAME = 100 * 1024 * 1024


class ChaosServer(LoopbackServer):
    """Serves answers with faults.

    With `tls`, an SSL context, the server uses HTTPS, and `url` begins with `https://`. `clock`
    measures the server's pauses; use a `TurnClock` if the client runs in the same event loop.
    """

    def __init__(self, tls: ssl.SSLContext | None = None, clock: Clock | None = None) -> None:
        super().__init__(tls, clock)
        self._scripts: dict[str, tuple[Answer, list[Fault]]] = {}
        self._unheard: socket.socket | None = None
        self._closing: asyncio.Server | None = None
        self._plain: asyncio.Server | None = None

    def add(self, key: str, answer: Answer, *faults: Fault) -> str:
        """Serve `answer` with `faults` below the path `/key`, and return the base URL.

        Each request gets the next fault; after the last fault, all further requests get this fault.
        The server must have been started.
        """
        if not faults or not key or "/" in key:
            raise ValueError("add(key, answer, fault, …) wants a key without a slash and a fault")
        self._scripts[key] = (answer, list(faults))
        return f"{self.url}/{key}"

    def exchanges_of(self, key: str) -> list[Exchange]:
        """List the requests below `/key` with their responses, in the order of arrival."""
        return [exchange for exchange in self.exchanges if _key(exchange) == key]

    async def asked(self, key: str, count: int = 1, within: float = 5.0) -> Exchange:
        """Wait, from any event loop, for the `count`-th request of a key.

        Raises TimeoutError if it does not arrive within `within` seconds.
        """
        async with asyncio.timeout(within):
            while len(exchanges := self.exchanges_of(key)) < count:  # noqa: ASYNC110  # threads
                await asyncio.sleep(0.001)
        return exchanges[count - 1]

    async def left(self, exchange: Exchange) -> bool:
        """Return True if the client has closed the connection of an exchange.

        Call it from any thread and any event loop. The result is also True if the response was sent
        completely. The method does not use a timeout: it waits until the server has served `LATER`
        further connections, or fewer if the client closes earlier.
        """
        for _ in range(LATER):
            if not exchange.ended and exchange.disconnected_at is None:
                await self.caught_up()
        return exchange.ended or exchange.disconnected_at is not None

    @property
    def refused_url(self) -> str:
        """An address at which every connection is refused."""
        assert self._unheard is not None
        return f"http://{HOST}:{self._unheard.getsockname()[1]}"

    @property
    def closed_url(self) -> str:
        """An address at which every connection is closed before a request is read."""
        return f"http://{HOST}:{_port(self._closing)}"

    @property
    def not_tls_url(self) -> str:
        """An `https://` address at which the TLS handshake is answered with plain text."""
        return f"https://{HOST}:{_port(self._plain)}"

    @property
    def mute_url(self) -> str:
        """An `https://` address at which the TLS handshake is never answered."""
        return f"https://{HOST}:{self._port}"

    async def start(self) -> None:
        """Listen on free ports."""
        await super().start()
        self._unheard = socket.socket()
        self._unheard.bind((HOST, 0))  # bound, so that nobody else gets it, and never listened on
        loop = asyncio.get_running_loop()
        self._closing = await loop.create_server(_Closing, HOST, 0, start_serving=False)
        self._plain = await loop.create_server(_Plain, HOST, 0, start_serving=False)
        for server in (self._closing, self._plain):
            await server.start_serving()

    async def aclose(self) -> None:
        """Reset all connections."""
        if self._unheard is not None:
            self._unheard.close()
        for server in (self._closing, self._plain):
            if server is not None:
                server.close()
                await server.wait_closed()
        await super().aclose()

    async def respond(self, exchange: Exchange) -> None:
        """Answer with the next fault of the request's key."""
        script = self._scripts.get(_key(exchange))
        if script is None:
            reply = Instead(404, f"nothing is served below {exchange.path}".encode(), "text/plain")
            await reply.play(Answer(b""), exchange)
            return
        answer, faults = script
        fault = faults.pop(0) if len(faults) > 1 else faults[0]
        await fault.play(answer, exchange)


class _Closing(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


class _Plain(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        transport.close()


def _port(server: asyncio.Server | None) -> int:
    assert server is not None, "the chaos server was not started"
    port: int = server.sockets[0].getsockname()[1]
    return port


def _key(exchange: Exchange) -> str:
    return exchange.path.lstrip("/").partition("/")[0]


def standard_faults(answer: Answer) -> dict[str, Fault]:
    """Return the faults of transport and framing that can occur in any stream, by name.

    The tests of a provider plugin add faults for the errors that its API returns. Faults that write
    frames are left out if the answer has a binary framing.
    """
    body, frames = len(answer.body), len(answer.ends)
    half = body // 2
    faults: dict[str, Fault] = {
        "good": Fault(),
        "closed-before-head": Cut(),
        "reset-before-head": Cut(reset=True),
        "closed-after-head": Cut(0),
        "reset-after-head": Cut(0, reset=True),
        "closed-halfway": Cut(half),
        "reset-halfway": Cut(half, reset=True),
        "stall-before-head": Stall(),
        "stall-after-head": Stall(0),
        "stall-halfway": Stall(half),
        "drip": Drip(size=max(1, body // 20)),
        "slow-head": SlowHead(0.0005),
        "html-page": Instead(200, PAGE, "text/html"),
        "empty-body": Instead(200, b"", answer.content_type),
        "gzip": Gzip(),
        "gzip-truncated": Gzip(0.5),
        "gzip-claimed": Claim("gzip"),
        "encoding-unknown": Claim("x-unheard-of"),
        "length-too-long": Length(+100),
        "length-too-short": Length(-(body - half)),
        "redirect-loop": Redirect(),
    }
    faults |= {f"status-{status}": Instead(status) for status in STATUSES}
    if answer.framing is not None:
        spread = tuple(range(min(11, frames)))
        faults |= {
            "huge-frame": Huge(HUGE_FRAME, at=frames // 2),
            "broken-frame": Broken((frames // 2,)),
            "broken-frames-3": Broken((frames // 2,) * 3),
            "broken-frames-4": Broken((frames // 2,) * 4),
            "broken-frames-spread": Broken(spread),
            "noise": Insert(answer.frame(NOISE), (0, frames // 2, frames // 2)),
            "terminal-twice": Encore(-1),
            "content-after-terminal": Encore(0, max(1, frames - 1)),
            "keep-alives-only": Drip(every=0.002, comments=True),
        }
    if answer.framing == "sse":
        faults |= {
            "comments-between": Insert(META_ONLY, tuple(range(frames))),
            "meta-only": Instead(200, META_ONLY, answer.content_type),
        }
    return faults


async def _serve(recording: Recording) -> None:
    framed: dict[str, Callable[[], Decoder]] = {"body.ndjson": NDJSONDecoder}
    answer = Answer.of_recording(recording, framed.get(recording.body_file, SSEDecoder))
    if not answer.ends:
        answer = evolve(answer, framing=None)  # the body has another framing, or none
    async with ChaosServer() as server:
        for name, fault in standard_faults(answer).items():
            print(server.add(name, answer, fault))
        print(server.refused_url, server.closed_url, server.not_tls_url, sep="\n", flush=True)
        await asyncio.Event().wait()


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve a recording with each of the standard faults, until the command is interrupted."""
    parser = argparse.ArgumentParser(prog="python -m swink_testing.chaos")
    parser.add_argument("recording", help="a folder that holds a recording")
    folder = parser.parse_args(arguments).recording
    try:
        recording = Recording.load(folder)
    except RecordingError as error:
        parser.error(str(error))
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve(recording))


if __name__ == "__main__":
    main()
