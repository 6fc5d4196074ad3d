"""Valid HTTP responses that are damaged at random, cut into reads, and ended in three ways."""

from __future__ import annotations

import gzip
import random
import zlib
from itertools import pairwise
from typing import Literal, TypeAlias

from attrs import frozen

Ending: TypeAlias = Literal["close", "reset", "silence"]

NEXT = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nright"
"""The response to the request after a damaged response."""


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
