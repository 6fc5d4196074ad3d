"""The faults that a `ChaosServer` can simulate.

An `Answer` is a normal response of the provider. A `Fault` damages it: `spoil` returns an answer
with other content, and `play` sends an answer in a faulty way. A position in the body is given as
the number of bytes, or of frames, that precede the position.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from typing import Any

import msgspec
from attrs import define, field

from swink_recorder.loopback import Exchange
from swink_testing.chaos_answers import Answer

__all__ = [
    "Broken",
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
]

PIECE = 64 * 1024
"""Size, in bytes, of one write of a body that is too large to build in memory."""

UNPARSABLE = b'{"broken'
"""A payload that no parser accepts."""

NOISE = b"still here"
"""Data that some gateways send instead of JSON, to keep a connection alive."""


@define(frozen=True)
class Fault:
    """The base class of all faults, which sends the answer unchanged."""

    def spoil(self, answer: Answer) -> Answer:
        """Return the response to send in place of the faultless answer."""
        return answer

    async def play(self, answer: Answer, exchange: Exchange) -> None:
        """Answer one request."""
        said = self.spoil(answer)
        await _start(said, exchange)
        await exchange.write(said.body)
        await exchange.end()


async def _start(answer: Answer, exchange: Exchange) -> None:
    await exchange.start(answer.status, {"Content-Type": answer.content_type, **answer.headers})


async def _begin(answer: Answer, exchange: Exchange, after: int | None) -> None:
    """Send the head and the first `after` bytes of the body; if `after` is `None`, send nothing."""
    if after is not None:
        await _start(answer, exchange)
        await exchange.write(answer.body[:after])


@define(frozen=True)
class Cut(Fault):
    """Closes the connection after `after` bytes of the body, normally or with a TCP reset.

    If `after` is 0, only the head is sent; if it is `None`, nothing is sent.
    """

    after: int | None = None
    reset: bool = False

    async def play(self, answer: Answer, exchange: Exchange) -> None:
        """Send a part of the answer and close the connection."""
        await _begin(answer, exchange, self.after)
        if self.reset:
            await exchange.pause()  # a reset could overtake the sent bytes
            exchange.reset()
        else:
            exchange.close()


@define(frozen=True)
class Stall(Fault):
    """Stops sending after `after` bytes of the body, and keeps the connection open."""

    after: int | None = None

    async def play(self, answer: Answer, exchange: Exchange) -> None:
        """Send a part of the answer and wait until the client disconnects."""
        await _begin(answer, exchange, self.after)
        await exchange.disconnected()


@define(frozen=True)
class Drip(Fault):
    """Sends the body in pieces of `size` bytes, one piece every `every` seconds.

    With `comments`, it sends SSE comments in place of the body, until the client disconnects.
    """

    size: int = 1
    every: float = 0.001
    comments: bool = False

    async def play(self, answer: Answer, exchange: Exchange) -> None:
        """Send the body slowly."""
        await _start(answer, exchange)
        while self.comments:
            await exchange.write(b": wait\n\n" if answer.framing == "sse" else b"\n")
            await exchange.pause(self.every)
        for start in range(0, len(answer.body), self.size):
            await exchange.write(answer.body[start : start + self.size])
            await exchange.pause(self.every)
        await exchange.end()


@define(frozen=True)
class SlowHead(Fault):
    """Sends the response's head, one byte every `every` seconds, and then the answer."""

    every: float = 0.001

    async def play(self, answer: Answer, exchange: Exchange) -> None:
        """Send the head slowly."""
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: "
        for byte in head + answer.content_type.encode() + b"\r\n\r\n":
            await exchange.raw(bytes([byte]))
            await exchange.pause(self.every)
        await exchange.write(answer.body)
        await exchange.end()


@define(frozen=True)
class Instead(Fault):
    """Sends another response, such as an HTTP error, a page of a proxy, or an empty body."""

    status: int = 200
    body: bytes = field(default=b"", repr=False)
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(factory=dict)

    def spoil(self, answer: Answer) -> Answer:
        """Return the other response."""
        return Answer(self.body, self.content_type, self.status, self.headers)


@define(frozen=True)
class Redirect(Fault):
    """Redirects the client to the URL `to`, or endlessly to the same URL."""

    status: int = 307
    to: str | None = None

    async def play(self, answer: Answer, exchange: Exchange) -> None:
        """Answer with a redirection."""
        await exchange.start(self.status, {"Location": self.to or exchange.path})
        await exchange.end()


@define(frozen=True)
class Gzip(Fault):
    """Compresses the answer, and sends the fraction `keep` (0 to 1) of the compressed body."""

    keep: float = 1.0

    async def play(self, answer: Answer, exchange: Exchange) -> None:
        """Send the compressed body, or a part of it, as a complete response."""
        packed = gzip.compress(answer.body)
        await _raw(answer, exchange, packed[: int(len(packed) * self.keep)], encoding="gzip")


@define(frozen=True)
class Claim(Fault):
    """Sends the unchanged answer with a header that names a wrong content encoding."""

    encoding: str

    async def play(self, answer: Answer, exchange: Exchange) -> None:
        """Send the body with a wrong content encoding."""
        await _raw(answer, exchange, answer.body, encoding=self.encoding)


@define(frozen=True)
class Length(Fault):
    """Sends a `Content-Length` that is wrong by a number of bytes; then closes the connection."""

    by: int

    async def play(self, answer: Answer, exchange: Exchange) -> None:
        """Send the body after a wrong `Content-Length`."""
        await _raw(answer, exchange, answer.body, len(answer.body) + self.by)
        exchange.close()


async def _raw(
    answer: Answer, exchange: Exchange, body: bytes, length: int | None = None, encoding: str = ""
) -> None:
    lines = [
        f"HTTP/1.1 {answer.status} OK",
        f"Content-Type: {answer.content_type}",
        f"Content-Length: {len(body) if length is None else length}",
    ]
    if encoding:
        lines.append(f"Content-Encoding: {encoding}")
    await exchange.raw("\r\n".join([*lines, "", ""]).encode())
    await exchange.pause()  # the head and the body are two network reads, as they mostly are
    await exchange.raw(body)
    exchange.ended = True


@define(frozen=True)
class Huge(Fault):
    """Sends the first `at` frames, then small pieces of an endless frame, `size` bytes in all."""

    size: int
    at: int = 0

    async def play(self, answer: Answer, exchange: Exchange) -> None:
        """Send the frame in pieces until all bytes are sent or the client disconnects."""
        await _start(answer, exchange)
        await exchange.write(b"".join(answer.frames[: self.at]))
        await exchange.write(b"data: " if answer.framing == "sse" else b'{"')
        for _ in range(self.size // PIECE):
            await exchange.write(b"x" * PIECE)
        await exchange.end()


@define(frozen=True)
class Late(Fault):
    """Sends the answer and, some seconds later, `body`, which no request asked for.

    The connection is idle when `body` is sent.
    """

    body: bytes = field(repr=False)
    after: float = 0.1

    async def play(self, answer: Answer, exchange: Exchange) -> None:
        """Send the answer, wait, and send `body`."""
        await super().play(answer, exchange)
        await exchange.pause(self.after)
        await _raw(answer, exchange, self.body)


@define(frozen=True)
class Insert(Fault):
    """Inserts `data` before each frame whose number is in `at`.

    For a number beyond the last frame, `data` is appended.
    """

    data: bytes
    at: tuple[int, ...] = (0,)

    def spoil(self, answer: Answer) -> Answer:
        """Return the answer with `data` inserted."""
        frames: list[bytes] = []
        for number, frame in enumerate(answer.frames):
            frames += [self.data] * self.at.count(number) + [frame]
        frames += [self.data] * sum(1 for place in self.at if place >= len(answer.ends))
        return answer.with_frames(frames)


@define(frozen=True)
class Broken(Fault):
    """Inserts frames that do not parse, one before each frame whose number is in `at`."""

    at: tuple[int, ...] = (0,)

    def spoil(self, answer: Answer) -> Answer:
        """Return the answer with broken frames."""
        return Insert(answer.frame(UNPARSABLE), self.at).spoil(answer)


@define(frozen=True)
class Says(Fault):
    """Sends `data`, such as an error object, after the first `at` frames, and ends the body.

    `data` is JSON data, or the recorded bytes of a whole frame. `event` is an SSE event's name.
    With `goes_on`, the rest of the answer follows after `data`.
    """

    data: Any
    at: int = 0
    event: str | None = None
    goes_on: bool = False

    def spoil(self, answer: Answer) -> Answer:
        """Return the first frames of the answer, and the added frame."""
        frame = self.data
        if not isinstance(frame, bytes):
            frame = answer.frame(msgspec.json.encode(frame), self.event)
        rest = answer.frames[self.at :] if self.goes_on else []
        return answer.with_frames([*answer.frames[: self.at], frame, *rest])


@define(frozen=True)
class Encore(Fault):
    """Repeats the frames `start` to `stop` after the last frame."""

    start: int = -1
    stop: int | None = None

    def spoil(self, answer: Answer) -> Answer:
        """Return the answer with the repeated frames."""
        frames = answer.frames
        return answer.with_frames(frames + frames[self.start : self.stop])
