"""Damaged responses before both HTTP clients: `python -m lab.transports --number 100000 --seed 1`.

Each response is drawn from a seed: a valid one, damaged by a few mutations, cut into reads, and
ended by a close, a reset or silence. Both clients receive the same reads, in the same event loop,
without a network: connections are made to a server in memory. The program compares status,
headers, body, how the body ended, and whether the next request uses the same connection and gets
its own answer. Each difference needs a row in `EXPLAINED`; the program fails for any other.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import random
import re
import socket
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import aiohappyeyeballs
from attrs import define, evolve, field, frozen

from swink_core import ProviderFailure
from swink_core.providers import AiohttpClient, HTTPClient, HTTPRequest, HTTPResponse
from swink_transport_httptools import HttptoolsClient
from swink_transport_httptools.connection import MOST_LINE

Ending: TypeAlias = Literal["close", "reset", "silence"]

WAITS = "waits"
"""The end of a response that a client takes for unfinished, while the server sends nothing more."""

TURNS = 50
"""Turns of the event loop after which a client that has received everything is waiting."""

NEXT = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nright"
"""The response to the request after a damaged response."""

BROKEN_HEAD = "protocol http connect"
BROKEN_BODY = "protocol http streaming"
NOT_INFLATED = "protocol encoding streaming"
CUT = "network connection streaming"
LEAST_STATUS = 199
"""The first status for which aiohttp reads a body without a length."""

NO_HEAD = (WAITS, "network disconnected connect", "network connection connect")


# -- damaged responses ---------------------------------------------------------------------------


def _response(head: str, body: bytes = b"") -> bytes:
    return head.replace("\n", "\r\n").encode() + b"\r\n\r\n" + body


def _chunked(*pieces: bytes, end: bytes = b"0\r\n\r\n") -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + end


_EVENTS = b'data: {"text": "Hello"}\n\ndata: {"stop": "stop"}\n\n'
_JSON = b'{"error": {"message": "no", "code": 7}}'
_GZIP = gzip.compress(_EVENTS, mtime=0)
_RAW = zlib.compressobj(wbits=-15)
_DEFLATE = _RAW.compress(_EVENTS) + _RAW.flush()

VALID = (
    _response(f"HTTP/1.1 200 OK\nContent-Type: text/event-stream\nContent-Length: {len(_EVENTS)}",
              _EVENTS),
    _response("HTTP/1.1 200 OK\nContent-Type: text/event-stream\nTransfer-Encoding: chunked",
              _chunked(_EVENTS[:24], _EVENTS[24:])),
    _response("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\nTrailer: X-End",
              _chunked(b"abc", b"d" * 20, end=b"0\r\nX-End: yes\r\n\r\n")),
    _response("HTTP/1.1 200 OK\nTransfer-Encoding: chunked", b"3;name=value\r\nabc\r\n0;x\r\n\r\n"),
    _response("HTTP/1.1 200 OK\nContent-Type: text/event-stream", _EVENTS),
    _response("HTTP/1.0 200 OK\nContent-Type: text/plain", b"until the end"),
    _response("HTTP/1.0 200 OK\nConnection: keep-alive\nContent-Length: 3", b"abc"),
    _response("HTTP/1.1 200 OK\nConnection: close\nContent-Length: 3", b"abc"),
    _response("HTTP/1.1 200 OK\nKeep-Alive: timeout=5\nContent-Length: 0"),
    _response("HTTP/1.1 204 No Content\nX-Request-Id: a"),
    _response("HTTP/1.1 304 Not Modified\nETag: a"),
    _response("HTTP/1.1 100 Continue") + _response("HTTP/1.1 200 OK\nContent-Length: 2", b"ok"),
    _response("HTTP/1.1 103 Early Hints\nLink: </a>") + _response(
        "HTTP/1.1 200 OK\nTransfer-Encoding: chunked", _chunked(b"ok")),
    _response(f"HTTP/1.1 429 Too Many\nRetry-After: 3\nContent-Length: {len(_JSON)}", _JSON),
    _response("HTTP/1.1 500 Oops\nContent-Type: text/html\nConnection: close", b"<p>oops</p>"),
    _response(f"HTTP/1.1 200 OK\nContent-Encoding: gzip\nContent-Length: {len(_GZIP)}", _GZIP),
    _response("HTTP/1.1 200 OK\nContent-Encoding: gzip\nTransfer-Encoding: chunked",
              _chunked(_GZIP[:11], _GZIP[11:])),
    _response(f"HTTP/1.1 200 OK\nContent-Encoding: deflate\nContent-Length: {len(_DEFLATE)}",
              _DEFLATE),
    _response("HTTP/1.1 200 OK\nContent-Encoding: deflate\nTransfer-Encoding: chunked",
              _chunked(zlib.compress(_EVENTS))),
    _response("HTTP/1.1 101 Switching\nConnection: Upgrade\nUpgrade: websocket", b"\x81\x00"),
    _response("HTTP/1.1 200 OK\nSet-Cookie: a=b\nSet-Cookie: c=d\nX-Empty:\nContent-Length: 1",
              b"x"),
)  # fmt: skip
"""Responses before they are damaged."""

TOKENS = (
    b"\r\n", b"\n", b"\r", b"\0", b"\t", b" ", b":", b";", b",", b"0", b"ff", b"\xff", b"\xc3\xa4",
    b"\r\n\r\n", b"0\r\n\r\n", b"5\r\nabcde\r\n", b"chunked", b"HTTP/1.1 200 OK\r\n", b"HTTP/2.0",
    b"Content-Length: 3\r\n", b"Content-Length: -1\r\n", b"Content-Length: 9999999999999999999\r\n",
    b"Content-Length: 0\r\n", b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: identity\r\n",
    b"Transfer-Encoding: gzip, chunked\r\n", b"Content-Encoding: gzip\r\n",
    b"Content-Encoding: br\r\n", b"Content-Encoding: identity\r\n", b"Connection: close\r\n",
    b"Connection: keep-alive\r\n", b"Upgrade: h2c\r\n", b" folded\r\n", b"A" * 9000,
    b"X: y\r\n" * 130, NEXT,
)  # fmt: skip
"""Bytes that are inserted."""


@frozen
class Case:
    """Reads of a damaged response, and how the connection ends."""

    number: int
    reads: tuple[bytes, ...]
    ending: Ending

    @property
    def data(self) -> bytes:
        """The whole response."""
        return b"".join(self.reads)


def case_of(seed: int, number: int) -> Case:
    """Draw a case; the same arguments return the same one."""
    rng = random.Random(f"{seed} {number}")
    data = rng.choice(VALID)
    for _ in range(rng.choice((0, 1, 1, 1, 2, 2, 3, 5))):
        data = _mutated(data, rng)
    cuts = sorted(rng.randrange(len(data) + 1) for _ in range(rng.choice((0, 0, 1, 2, 4))))
    if rng.random() < 0.1:
        cuts = list(range(1, min(len(data), 400)))
    places = [0, *cuts, len(data)]
    reads = (data[start:end] for start, end in pairwise(places))
    ending: Ending = rng.choice(("close", "close", "close", "reset", "silence", "silence"))
    return Case(number, tuple(read for read in reads if read), ending)


def _mutated(data: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(data) + 1)
    length = rng.choice((1, 1, 2, 5, 20))
    kind = rng.randrange(8)
    if kind == 0:  # another byte
        return data[:place] + bytes([rng.randrange(256)]) + data[place + 1 :]
    if kind == 1:  # bytes are missing
        return data[:place] + data[place + length :]
    if kind == 2:  # bytes come twice
        return data[: place + length] + data[place:]
    if kind == 3:  # cut off
        return data[:place]
    if kind == 4:  # followed by another response
        return data + rng.choice(VALID)
    if kind == 5:  # a line goes elsewhere
        lines = data.split(b"\r\n")
        lines.insert(rng.randrange(len(lines)), lines.pop(rng.randrange(len(lines))))
        return b"\r\n".join(lines)
    token = rng.choice(TOKENS)
    if kind == 6:
        return data[:place] + token + data[place:]
    start = data.find(b"\r\n", rng.randrange(max(data.find(b"\r\n\r\n"), 1)))  # a line is added
    return data[: start + 2] + token + data[start + 2 :]


# -- a server in memory --------------------------------------------------------------------------


class _Transport(asyncio.Transport):
    """A connection to the server of a case."""

    def __init__(self, protocol: Any, server: _Server) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._protocol = protocol
        self._server = server
        self._is_paused = False
        self._is_closing = False
        self._feeding: list[bytes] = []
        self._ending: Ending = "silence"

    def play(self, reads: tuple[bytes, ...], ending: Ending) -> None:
        """Let the client receive these reads, one in each turn of the event loop."""
        self._feeding = list(reads)
        self._ending = ending
        self._loop.call_soon(self._go_on)

    @property
    def is_played(self) -> bool:
        """Whether the client has received everything that it may receive."""
        return self._is_closing or not self._feeding

    def _go_on(self) -> None:
        if self._is_closing or self._is_paused:
            return
        if self._feeding:
            self._protocol.data_received(self._feeding.pop(0))
            self._loop.call_soon(self._go_on)
        elif self._ending != "silence":
            self._lose(ConnectionResetError(104, "reset") if self._ending == "reset" else None)

    def _lose(self, error: Exception | None) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._loop.call_soon(self._protocol.connection_lost, error)

    def write(self, data: Any) -> None:
        """Receive a request, or a part of one."""
        if not self._is_closing:
            self._server.receive(self, bytes(data))

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return a socket that never has data."""
        return self._server.quiet if name == "socket" else default

    def is_closing(self) -> bool:
        """Tell whether the connection is closed."""
        return self._is_closing

    def close(self) -> None:
        """Close the connection."""
        self._lose(None)

    def abort(self) -> None:
        """Close the connection."""
        self._lose(None)

    def pause_reading(self) -> None:
        """Stop the reads."""
        self._is_paused = True

    def resume_reading(self) -> None:
        """Continue the reads."""
        if self._is_paused:
            self._is_paused = False
            self._loop.call_soon(self._go_on)


@define
class _Server:
    """Answers the first request with a case, and the next one with `NEXT`."""

    quiet: socket.socket
    case: Case | None = None
    used: list[_Transport] = field(factory=list)
    """The connections, in the order of the requests."""

    _begun: bytes = b""

    def receive(self, transport: _Transport, data: bytes) -> None:
        """Answer a request, once its body has come."""
        self._begun += data
        if not self._begun.endswith(b"\r\n\r\n{}"):
            return
        self._begun = b""
        assert self.case is not None
        if self.used:
            transport.play((NEXT,), "silence")
        else:
            transport.play(self.case.reads, self.case.ending)
        self.used.append(transport)


@contextmanager
def in_memory() -> Iterator[_Server]:
    """Connect the clients of the running event loop to a server in memory."""
    loop: Any = asyncio.get_running_loop()
    quiet, other = socket.socketpair()
    server = _Server(quiet)
    start = aiohappyeyeballs.start_connection

    async def start_connection(*_: Any, **__: Any) -> socket.socket:
        return quiet

    async def create_connection(factory: Callable[[], Any], **_: Any) -> tuple[_Transport, Any]:
        protocol = factory()
        transport = _Transport(protocol, server)
        protocol.connection_made(transport)
        return transport, protocol

    vars(aiohappyeyeballs)["start_connection"] = start_connection
    loop.create_connection = create_connection
    try:
        yield server
    finally:
        vars(aiohappyeyeballs)["start_connection"] = start
        del loop.create_connection
        quiet.close()
        other.close()


# -- what a client makes of a case ---------------------------------------------------------------


@frozen
class Outcome:
    """How a client reads a response.

    `status` is 0 without a head. `headers` have lower-case names, because lookups ignore the case.
    `end` is `complete`, the kind, code and phase of a failure, or `WAITS`. `next` says how the next
    request went: on the same connection (`reused`) or a `new` one; it contains the body unless that
    is the right one. It is empty without a next request.
    """

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    end: str
    next: str

    @property
    def has_failed(self) -> bool:
        """Whether the client reported a failure."""
        return self.end not in ("complete", WAITS)


@define
class _Reading:
    response: HTTPResponse | None = None
    body: bytes = b""
    end: str = WAITS

    async def read(self, client: HTTPClient) -> None:
        """Send a request and read the whole response."""
        try:
            request = HTTPRequest("http://127.0.0.1:9/", b"{}", {"Content-Type": "a/b"})
            self.response = await client.send(request, None)
            async for data in self.response:
                self.body += data
            self.end = "complete"
        except ProviderFailure as error:
            failure = error.failure
            self.end = f"{failure.kind} {failure.code} {failure.phase}"


async def outcome_of(client: HTTPClient, server: _Server, case: Case) -> Outcome:
    """Let a client read a case."""
    server.case = case
    server.used = []
    reading = await _read(client, server)
    following = ""
    if reading.end == "complete":
        again = await _read(client, server)
        following = "reused" if server.used[0] is server.used[-1] else "new"
        if (again.body, again.end) != (b"right", "complete"):
            following += f" {again.body!r} {again.end}"
    client.close_idle()
    response = reading.response
    return Outcome(
        status=0 if response is None else response.status,
        headers=() if response is None else _lower(response.headers.items()),
        body=reading.body,
        end=reading.end,
        next=following,
    )


def _lower(headers: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    return tuple((name.lower(), value) for name, value in headers)


async def _read(client: HTTPClient, server: _Server) -> _Reading:
    reading = _Reading()
    asked = len(server.used)
    task = asyncio.create_task(reading.read(client))
    left = TURNS
    while left and not (task.done() and server.used[-1].is_played):
        await asyncio.sleep(0)
        if len(server.used) > asked and server.used[-1].is_played:
            left -= 1
    if not task.done():
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    else:
        task.result()  # raises what is a fault of the client
    for _ in range(3):  # what comes late is received before the next request
        await asyncio.sleep(0)
    if reading.response is not None:
        reading.response.close()
    return reading


# -- differences ---------------------------------------------------------------------------------


@frozen
class Explained:
    """A kind of difference between the clients, and its reason."""

    name: str
    reason: str
    applies: Callable[[Case, Outcome, Outcome, Outcome], bool]
    """Takes the case, the outcomes with aiohttp and with httptools, and the outcome with aiohttp if
    each read is a byte."""


def _is_reset_at_end(case: Case, theirs: Outcome, ours: Outcome, _: Outcome) -> bool:
    same = (theirs.status, theirs.headers, theirs.body) == (ours.status, ours.headers, ours.body)
    ends = ("complete", NOT_INFLATED)
    return case.ending == "reset" and same and theirs.end in ends and ours.end == CUT


def _is_dropped(case: Case, theirs: Outcome, ours: Outcome, bytewise: Outcome) -> bool:
    same = (bytewise.status, bytewise.headers) == (ours.status, ours.headers)
    if theirs.end != BROKEN_HEAD or not same:
        return False
    if ours.end == "complete":
        return (bytewise.end, bytewise.body) == (ours.end, ours.body)
    return ours.end in (BROKEN_BODY, NOT_INFLATED) and ours.body.startswith(bytewise.body)


def _is_hanging(case: Case, theirs: Outcome, ours: Outcome, _: Outcome) -> bool:
    same = (theirs.status, theirs.headers) == (ours.status, ours.headers)
    return same and theirs.end == WAITS and ours.has_failed and ours.body.startswith(theirs.body)


def _has_more(case: Case, theirs: Outcome, ours: Outcome, _: Outcome) -> bool:
    same = (theirs.status, theirs.headers, theirs.end) == (ours.status, ours.headers, ours.end)
    return same and ours.end == NOT_INFLATED and ours.body.startswith(theirs.body)


def _is_surplus(case: Case, theirs: Outcome, ours: Outcome, _: Outcome) -> bool:
    return theirs.next == "reused" and ours.next == "new" and evolve(theirs, next="new") == ours


def _is_unfinished(case: Case, theirs: Outcome, ours: Outcome, _: Outcome) -> bool:
    is_long = len(case.data) > MOST_LINE
    return is_long and theirs.end == BROKEN_HEAD and ours.status == 0 and ours.end in NO_HEAD


_EMPTY_CODING = re.compile(rb"(?i)transfer-encoding:[ \t]*\r?\n")


def _is_stricter(case: Case, theirs: Outcome, ours: Outcome, _: Outcome) -> bool:
    has_coding = _EMPTY_CODING.search(case.data) is not None
    return has_coding and theirs.status > 0 and ours.end == BROKEN_HEAD


_INFORMATIONAL = re.compile(rb"(?is)^HTTP/\d\.\d 1\d\d.*?content-encoding:[ \t]*(br|zstd)")


def _is_of_informational(case: Case, theirs: Outcome, ours: Outcome, _: Outcome) -> bool:
    return theirs.end == BROKEN_HEAD and _INFORMATIONAL.search(case.data) is not None


def _has_low_status(case: Case, theirs: Outcome, ours: Outcome, _: Outcome) -> bool:
    is_low = theirs.status < LEAST_STATUS and ours.status < LEAST_STATUS
    return is_low and theirs.end == "complete" and theirs.body == b""


def _has_long_names(case: Case, theirs: Outcome, ours: Outcome, _: Outcome) -> bool:
    names = [len(name) for name, _ in ours.headers]
    are_long = any(sum(pair) > MOST_LINE for pair in pairwise([0, *names]))
    return theirs.end == BROKEN_HEAD and are_long


EXPLAINED = (
    Explained(
        "a reset is not an end",
        "a body without a length ends with its connection; aiohttp takes a reset for that end, "
        "httptools reports that the body was cut",
        _is_reset_at_end,
    ),
    Explained(
        "the rest of a read",
        "aiohttp drops everything in a read that contains malformed bytes, even a whole response "
        "before them; httptools returns what came before them, however the network cuts",
        _is_dropped,
    ),
    Explained(
        "no end to a broken body",
        "aiohttp reports some broken bodies only by waiting for more, until a time limit; "
        "httptools reports the failure at once",
        _is_hanging,
    ),
    Explained(
        "more before the failure",
        "aiohttp drops what it has decompressed of a read in which it finds an error; httptools "
        "returns it before it reports the failure",
        _has_more,
    ),
    Explained(
        "bytes after the end",
        "a server that sends more than a response, in the same read, may be out of step; httptools "
        "closes the connection, aiohttp does so only for a whole line or response",
        _is_surplus,
    ),
    Explained(
        "an unfinished header",
        "the limit of 8,190 bytes applies to whole headers with httptools, which limits unfinished "
        "ones to four times that; aiohttp applies it to unfinished headers too",
        _is_unfinished,
    ),
    Explained(
        "an empty Transfer-Encoding",
        "httptools contains a newer release of the parser that both use (llhttp 9.4 and 9.3); it "
        "rejects this header",
        _is_stricter,
    ),
    Explained(
        "a coding of an informational response",
        "aiohttp refuses a content coding that it does not know even in a response (1xx) that it "
        "then ignores",
        _is_of_informational,
    ),
    Explained(
        "a status below 199",
        "aiohttp reads no body without a length for such a status; HTTP defines none below 100",
        _has_low_status,
    ),
    Explained(
        "two long names",
        "aiohttp adds the name of a header to that of the next one when it applies its limit",
        _has_long_names,
    ),
)


def explanation_of(
    case: Case, theirs: Outcome, ours: Outcome, bytewise: Outcome
) -> Explained | None:
    """Return the row that explains a difference, or `None`; see `Explained.applies`."""
    return next((row for row in EXPLAINED if row.applies(case, theirs, ours, bytewise)), None)


@define
class Comparison:
    """Counts of equal outcomes and explained differences, and the unexplained differences."""

    equal: int = 0
    explained: Counter[str] = field(factory=Counter)
    ends: Counter[str] = field(factory=Counter)
    unexplained: list[tuple[Case, Outcome, Outcome]] = field(factory=list)


async def compare(number: int, seed: int) -> Comparison:
    """Compare the clients with this many responses drawn from a seed."""
    found = Comparison()
    with in_memory() as server:
        theirs, ours = AiohttpClient(), HttptoolsClient()
        for each in range(number):
            case = case_of(seed, each)
            one = await outcome_of(theirs, server, case)
            other = await outcome_of(ours, server, case)
            found.ends[one.end] += 1
            if one == other:
                found.equal += 1
                continue
            cut = evolve(case, reads=tuple(bytes([byte]) for byte in case.data))
            bytewise = await outcome_of(theirs, server, cut)
            row = explanation_of(case, one, other, bytewise)
            if row is not None:
                found.explained[row.name] += 1
            else:
                found.unexplained.append((case, one, other))
        await theirs.aclose()
        await ours.aclose()
    return found


def main() -> int:
    """Compare, print the counts, and fail for an unexplained difference."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--number", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=5, help="unexplained differences to print")
    given = parser.parse_args()
    found = asyncio.run(compare(given.number, given.seed))
    print(f"{given.number:,} responses, seed {given.seed}: {found.equal:,} with equal outcomes")
    print("ends with aiohttp:")
    for end, count in found.ends.most_common():
        print(f"{count:9,}  {end}")
    print("explained differences:")
    reasons = {row.name: row.reason for row in EXPLAINED}
    for name, count in found.explained.most_common():
        print(f"{count:9,}  {name}: {reasons[name]}")
    print(f"unexplained differences: {len(found.unexplained)}")
    for case, theirs, ours in found.unexplained[: given.show]:
        print(f"\ncase {case.number}, {len(case.reads)} reads, {case.ending}: {case.data!r}")
        print(f"  aiohttp   {theirs}\n  httptools {ours}")
    return 1 if found.unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
