"""An answer on its way to a client that reads it as it comes, and signs of life meanwhile.

A batch of events, which is one network read of the upstream, becomes one write. By default nothing
is read ahead: a client that reads slowly stops the reading of its upstream, and one that reads
nothing for too long is left, its upstream too. The response begins with the first bytes that the
answer makes, so that its headers can say what is known by then.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any

from aiohttp import HttpVersion11, web

from swink_core import Done, Error, EventStream, StreamErrorKind, TextDelta, TextStart
from swink_gateway.protocols import Encoder
from swink_gateway.protocols.encoding import cut_short
from swink_gateway.protocols.failures import EMPTY
from swink_gateway.serving.backpressure import read_ahead
from swink_gateway.serving.keepalive import SILENT_SECONDS, KeepAlive
from swink_gateway.serving.limits import Limits

__all__ = [
    "ABORTED",
    "BACKPRESSURE",
    "MOST_UNREAD_BYTES",
    "Line",
    "StreamRelay",
    "hold_little",
    "relayed",
]

log = logging.getLogger(__name__)

MOST_UNREAD_BYTES = 64 * 1024
"""That a client has not read, before its upstream has to wait for it."""

BACKPRESSURE = "ccr_stream_backpressure_total"
"""Counts how often an upstream had to wait for its client."""

ABORTED = "ccr_stream_aborted_total"
"""Counts answers whose client did not read."""

EXPECT_BROKEN = (
    "Agents/", "AsyncAnthropic/", "AsyncOpenAI/", "Anthropic/", "GeminiCLI", "OpenAI/", "ai-sdk-",
    "google-genai-sdk/", "langchain-anthropic/", "litellm/", "ollama-js/", "ollama-python/",
    "pydantic-ai/",
)  # fmt: skip
"""How `User-Agent` begins of clients that have an exception for a connection that breaks in the
middle of an answer, or repeat such a request less often than one that an error in the stream ended.
`make clients` plays both with each of them."""

ENDED_EARLY = "the response ended before its end"
"""The core's words for a body that breaks off. A body that is complete and lacks only what ends an
answer has the same code, and other words: SDKs would take it for a whole answer."""


NOTHING_YET = (TextStart(0), TextDelta(0, ""))
"""An answer that began without words. Some SDKs repeat a request whose answer did not begin."""


class Line:
    """What a client is written to; `counters` count what it makes others wait for."""

    def __init__(self, limits: Limits, counters: Counter[str]) -> None:
        self.limits = limits
        self.counters = counters

    async def send(self, data: bytes, *, last: bool = False) -> None:
        """Write, and wait for a client that reads more slowly; `last` is the end of the answer.

        Raises ConnectionResetError for one that has left, or is left.
        """
        raise NotImplementedError

    async def refuse(self, error: Error) -> bool:
        """Answer with a status in place of a stream; tell whether that is possible."""
        raise NotImplementedError

    @property
    def can_break_off(self) -> bool:
        """Whether the client tells a closed connection from the end of an answer, and expects it
        of a vendor's that breaks."""
        return False

    async def break_off(self, data: bytes) -> None:
        """Write the data and close the connection in the middle of the answer."""
        raise NotImplementedError

    async def _wait(
        self, read: Callable[[], Any], transport: asyncio.Transport | None, size: int = 0
    ) -> None:
        """Wait until the client has read, or leave one that reads nothing.

        `size` is how many bytes are written by `read`, which waits for nobody where they are few.
        """
        unread = 0 if transport is None else transport.get_write_buffer_size()
        if unread > MOST_UNREAD_BYTES:
            self.counters[BACKPRESSURE] += 1
        try:
            if unread + 2 * size < MOST_UNREAD_BYTES and size:
                await read()
                return
            async with asyncio.timeout(self.limits.patience):
                await read()
        except TimeoutError:
            self.counters[ABORTED] += 1
            log.warning("a client read nothing for %s s; it is left", self.limits.patience)
            if transport is not None:
                transport.abort()
            raise ConnectionResetError("the client does not read") from None
        except ConnectionError as error:  # of which aiohttp has several kinds
            raise ConnectionResetError("the client has left") from error


class _Streamed(web.StreamResponse):
    """A response whose head is sent with what is written first."""

    _send_headers_immediately = False  # aiohttp's own `Response` says so, too


class StreamRelay(Line):
    """A response that is streamed. `response` is `None` until something is written.

    `refusal` makes the whole response to a call that failed before that.
    """

    def __init__(
        self,
        request: web.Request,
        content_type: str,
        headers: Callable[[], Mapping[str, str]],
        refusal: Callable[[Error], web.Response],
        limits: Limits,
        counters: Counter[str],
    ) -> None:
        super().__init__(limits, counters)
        self.response: web.StreamResponse | None = None
        self._request = request
        self._content_type = content_type
        self._headers = headers
        self._refusal = refusal

    async def refuse(self, error: Error) -> bool:
        if self.response is None:
            self.response = self._refusal(error)
            return True
        return False

    @property
    def can_break_off(self) -> bool:
        agent = self._request.headers.get("User-Agent", "")
        # before HTTP/1.1, closing ends an answer
        return agent.startswith(EXPECT_BROKEN) and self._request.version >= HttpVersion11

    async def break_off(self, data: bytes) -> None:
        await self.send(data)
        if (transport := self._request.transport) is not None:
            transport.close()

    async def send(self, data: bytes, *, last: bool = False) -> None:
        response = self.response
        if response is None:
            hold_little(self._request.transport)
            response = self.response = _Streamed(headers=self._headers())
            response.content_type = self._content_type
            response.headers["Cache-Control"] = "no-cache"
            await response.prepare(self._request)
        writer, transport = self._request.writer, self._request.transport
        if last:
            await self._wait(lambda: response.write_eof(data), transport, len(data))
            return
        await writer.write(data, drain=False)  # type: ignore[call-arg]  # aiohttp's own has it
        if transport is not None and transport.get_write_buffer_size() > MOST_UNREAD_BYTES:
            await self._wait(writer.drain, transport)


def _written(encoder: Encoder, batch: Sequence[Any], stream: EventStream, protocol: str) -> bytes:
    """Encode a batch; an exception in the encoder becomes an error in the stream."""
    try:
        return encoder.feed(batch, stream.call.attempt)
    except Exception:
        log.exception("the encoder of %s failed", protocol)
        fault = Error(error_message="the gateway failed to translate the answer")
        fault.error_kind = StreamErrorKind.INTERNAL
        return encoder.feed([fault], stream.call.attempt)


def _is_refusal(event: Any, stream: EventStream) -> bool:
    """Tell whether a call failed before its provider began to answer.

    SDKs read a failure after the head of an answer from the stream, and do not repeat the request.
    """
    head = stream.call.attempt.response
    if type(event) is not Error or event.code == EMPTY or stream.message.content:
        return False
    return head is None or head.status >= 400


def _is_broken_off(event: Any, stream: EventStream) -> bool:
    """Tell whether the connection to the provider broke in the middle of its answer.

    SDKs have an exception of their own for this.
    """
    head = stream.call.attempt.response
    if type(event) is not Error or event.error_kind is not StreamErrorKind.NETWORK:
        return False
    is_broken = event.code == "connection" or event.error_message == ENDED_EARLY
    return is_broken and head is not None and head.status < 400


def hold_little(transport: asyncio.Transport | None) -> None:
    """Let the system keep little of what a client has not read.

    By itself it would keep some MB for each, and the upstream would not wait for anybody.
    """
    held = None if transport is None else transport.get_extra_info("socket")
    if held is not None:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MOST_UNREAD_BYTES)


async def relayed(
    stream: EventStream,
    encoder: Encoder,
    line: Line,
    protocol: str,
    heard: Callable[[Sequence[Any]], None],
    head_wait: float = SILENT_SECONDS,
) -> bool:
    """Write a stream to its end; tell whether the answer is complete.

    `heard` is shown each batch first, before the call goes on. The first sign of life comes after
    `head_wait` seconds of silence. A client that leaves after the end has had all there was. Raises
    ConnectionResetError for one that leaves earlier.
    """
    is_writing = False

    async def beat() -> None:
        if not (is_writing or encoder.ended):  # or it is the client that is waited for
            with suppress(ConnectionResetError):  # the handler is told, too
                await line.send(encoder.alive(stream.call.attempt))

    def on_full() -> None:
        line.counters[BACKPRESSURE] += 1

    batches: Any = stream.batches()
    ahead = line.limits.coalesce
    if ahead:
        batches = read_ahead(batches, heard, on_full)
    with KeepAlive(line.limits.clock, beat, head_wait) as pulse:
        async with aclosing(batches):
            async for batch in batches:
                is_writing = True
                if pulse.is_beating:
                    await pulse.beaten()
                if not ahead:
                    heard(batch)
                failed = encoder.has_statuses and _is_refusal(batch[-1], stream)
                if failed and await line.refuse(batch[-1]):
                    return False
                is_broken = encoder.has_statuses and _is_broken_off(batch[-1], stream)
                if is_broken and line.can_break_off:
                    said: Sequence[Any] = cut_short(batch)[:-1]
                    if stream.call.attempt.response_id is not None and not stream.message.content:
                        said = NOTHING_YET
                    await line.break_off(_written(encoder, said, stream, protocol))
                    return False
                data = _written(encoder, batch, stream, protocol)
                if data:
                    pulse.touch()
                    try:
                        await line.send(data, last=encoder.ended)
                    except ConnectionResetError:
                        if not encoder.ended:
                            raise
                is_writing = False
                if encoder.ended:
                    return isinstance(batch[-1], Done)
    return False
