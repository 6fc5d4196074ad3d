"""Send a stream to a client with backpressure and keep-alives.

A batch of events, which is one network read of the upstream, becomes one write. By default, nothing
is read ahead: a client that reads slowly pauses its upstream. A client that stops reading for too
long is disconnected, and its upstream is closed. The headers of the response are sent together with
the first bytes of the answer, so that they can contain all facts that are known by then.
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
from swink_gateway.protocols.failures import EMPTY, told_of_shutdown
from swink_gateway.serving.access_log import SENT
from swink_gateway.serving.backpressure import read_ahead
from swink_gateway.serving.keepalive import SILENT_SECONDS, KeepAlive
from swink_gateway.serving.limits import Limits

__all__ = [
    "ABORTED",
    "BACKPRESSURE",
    "Line",
    "StreamRelay",
    "hold_little",
    "relayed",
]

log = logging.getLogger(__name__)

MOST_UNREAD_BYTES = 64 * 1024
"""The number of unread bytes above which the upstream waits for the client."""

BACKPRESSURE = "ccr_stream_backpressure_total"
"""Counts how often an upstream had to wait for its client."""

ABORTED = "ccr_stream_aborted_total"
"""Counts answers aborted because the client stopped reading."""

EXPECT_BROKEN = (
    "Agents/", "AsyncAnthropic/", "AsyncOpenAI/", "Anthropic/", "GeminiCLI", "OpenAI/", "ai-sdk-",
    "ai-sdk/", "claude-cli/", "google-genai-sdk/", "langchain-anthropic/", "litellm/",
    "ollama-js/", "ollama-python/", "opencode/", "pydantic-ai/",
)  # fmt: skip
"""The `User-Agent` prefixes of clients that handle a broken connection better than an error.

These clients have a special exception for a connection that breaks in the middle of an answer, or
they retry less often after a broken connection than after an error event in the stream. `make
clients` tests both failures with each client.
"""

BREAK_WAIT = 0.02
"""Seconds between the last data and the closed connection.

If both arrive at once, Bun's `fetch` drops the response, and its clients retry more often.
"""

NOTHING_YET = (TextStart(0), TextDelta(0, ""))
"""Events that begin an answer without text, sent if the upstream breaks before its first output.

Without these events, some SDKs would retry the request.
"""


class Line:
    """The connection to a client; `counters` count waits and aborted answers."""

    def __init__(self, limits: Limits, counters: Counter[str]) -> None:
        self.limits = limits
        self.counters = counters

    async def send(self, data: bytes, *, last: bool = False) -> None:
        """Write data, and wait for a client that reads slowly; `last` marks the end of the answer.

        Raises ConnectionResetError if the client has disconnected or stops reading.
        """
        raise NotImplementedError

    async def refuse(self, error: Error) -> bool:
        """Respond with an HTTP status instead of a stream, if nothing has been sent yet.

        Return True if the response was sent.
        """
        raise NotImplementedError

    @property
    def can_break_off(self) -> bool:
        """Whether to close the client's connection early if the connection to the vendor breaks.

        True for clients that recover better from a broken connection than from an error event, if
        the HTTP version distinguishes a broken connection from the end of the answer.
        """
        return False

    async def break_off(self, data: bytes) -> None:
        """Write the data and close the connection in the middle of the answer."""
        raise NotImplementedError

    async def _wait(
        self, read: Callable[[], Any], transport: asyncio.Transport | None, size: int = 0
    ) -> None:
        """Wait until the client has read, or disconnect it if it stops reading.

        `read` writes `size` bytes and returns when the client has read enough. If the data fits
        into the write buffer, the time is not limited.
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
            log.warning(
                "a client read nothing for %s s; the connection is closed", self.limits.patience
            )
            if transport is not None:
                transport.abort()
            raise ConnectionResetError("the client does not read") from None
        except ConnectionError as error:  # or one of aiohttp's subclasses
            raise ConnectionResetError("the client has disconnected") from error


class _Streamed(web.StreamResponse):
    """A response whose headers are sent together with the first data."""

    _send_headers_immediately = False  # as in aiohttp's `Response`


class StreamRelay(Line):
    """A streamed response. `response` is `None` until something is written.

    `refusal` creates the complete response for a call that failed before anything was written.
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
        # before HTTP/1.1, every answer ends with a closed connection
        return agent.startswith(EXPECT_BROKEN) and self._request.version >= HttpVersion11

    async def break_off(self, data: bytes) -> None:
        await self.send(data)
        await asyncio.sleep(BREAK_WAIT)
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
            self._request[SENT] = response.status
            return
        await writer.write(data, drain=False)  # type: ignore[call-arg]  # aiohttp's class has it
        if transport is not None and transport.get_write_buffer_size() > MOST_UNREAD_BYTES:
            await self._wait(writer.drain, transport)


def _written(encoder: Encoder, batch: Sequence[Any], stream: EventStream, protocol: str) -> bytes:
    """Encode a batch of events; an exception of the encoder becomes a failure of the stream."""
    try:
        return encoder.feed(batch, stream.call.attempt)
    except Exception:
        log.exception("the encoder of %s failed", protocol)
        fault = Error(error_message="the gateway failed to translate the answer")
        fault.error_kind = StreamErrorKind.INTERNAL
        return encoder.feed([fault], stream.call.attempt)


def _is_refusal(event: Any, stream: EventStream) -> bool:
    """Return True if a call failed before its provider began to answer.

    The client's SDK retries such a call, but does not retry after a failure in a stream. A call
    with an unsupported feature counts as refused, even if the provider has already answered a
    request for data about the model.
    """
    head = stream.call.attempt.response
    if type(event) is not Error or event.code == EMPTY or stream.message.content:
        return False
    is_unsent = event.error_kind is StreamErrorKind.UNSUPPORTED
    return is_unsent or head is None or head.status >= 400


def _is_broken_off(event: Any, stream: EventStream) -> bool:
    """Return True if the connection to the provider broke during the answer.

    SDKs have a separate exception for a broken connection. The result is False for the code `cut`:
    the HTTP body was complete, but the answer in it had no end. If the gateway passed such a body
    on, SDKs would treat it as a complete answer.
    """
    head = stream.call.attempt.response
    if type(event) is not Error or event.error_kind is not StreamErrorKind.NETWORK:
        return False
    return event.code == "connection" and head is not None and head.status < 400


def hold_little(transport: asyncio.Transport | None) -> None:
    """Limit the data that the system buffers for a slow client.

    By default, the system would buffer some MB per client, and the upstream would never wait.
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
    """Send a stream to its end; return whether the answer is complete.

    `heard` is called with each batch before it is sent. The first keep-alive comes after
    `head_wait` seconds without output. A client that disconnects after the end of the answer has
    received everything. Raises ConnectionResetError if the client disconnects earlier.
    """
    is_writing = False

    async def beat() -> None:
        if not (is_writing or encoder.ended):  # otherwise the client reads slowly
            with suppress(ConnectionResetError):  # the handler is cancelled as well
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
                if type(batch[-1]) is Error:
                    batch = told_of_shutdown(batch)
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
