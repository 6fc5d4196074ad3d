"""`Exchange`: the HTTP requests of one attempt, made by a provider one after another.

A provider that sends a single request does not need this module. A provider that sends several
requests overrides the method `exchange` as an async generator, whose local variables hold the state
of the call. Each request is sent in the same way as a single one, with the same credentials,
headers, limits and proxies. An error response becomes a failure that the provider classifies.

If the caller closes a stream early, the server may continue to work on the answer. The provider's
generator is then closed, too, but cannot find out why. Therefore it calls `on_abandon` in advance
with a request that stops the work, and the core sends this request if necessary. The first request
of a generator may start work that can be stopped only after the response has arrived. Therefore the
generator's first step runs in a task: if the caller closes the stream during this step, the step
continues in the background until it has called `on_abandon`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
)
from typing import Any, Protocol, Self, TypeVar, overload
from urllib.parse import urlsplit

import msgspec

from swink_core.failures.exceptions import PluginError, ProviderFailure
from swink_core.failures.failure import Failure
from swink_core.failures.faults import not_json
from swink_core.plugins.attempt import Leg, LegKind
from swink_core.plugins.call import Call
from swink_core.plugins.changes import notice_of
from swink_core.plugins.time_limits import time_limit
from swink_core.providers.answers import (
    decoded,
    failure_of_answer,
    is_answer,
    override,
    read_whole,
    request_id_of,
)
from swink_core.providers.intact import (
    LONE_SURROGATE,
    REPAIRED,
    RepairedRequest,
    paths_of_halves,
)
from swink_core.providers.media import MOST_ENCODED_AT_ONCE
from swink_core.providers.writer import EventWriter
from swink_core.vocabulary.http import HTTPRequest, HTTPResponse, ResponseHead
from swink_core.vocabulary.models import Model
from swink_core.vocabulary.options import StreamOptions

log = logging.getLogger(__name__)

T = TypeVar("T")

Dial = Callable[[HTTPRequest, float | None], Awaitable[HTTPResponse]]

WHOLE = ("application/json",)
"""The content type of a response that is not a stream."""

WHOLE_BYTES = 8 * 1024 * 1024
"""The maximum size of a response for `read`, in bytes."""

ABANDON_SECONDS = 5.0
"""The maximum time for requests that stop abandoned work on a server, in seconds."""

WAIT_SECONDS = 0.05
"""At its end, a call waits at most this many seconds for requests that stop abandoned work."""

_NOT_CONVERTED = object()

_UNENCODABLE = (TypeError, ValueError, OverflowError, RecursionError)
"""Exceptions of msgspec for data that cannot be converted to JSON."""

_CREATES_NOTHING = ("GET", "HEAD", "OPTIONS")


class Provider(Protocol):
    """The methods of a provider that `Exchange` calls."""

    content_types: tuple[str, ...]

    def request(self, model: Model, payload: Any, options: StreamOptions) -> HTTPRequest:
        """Return the HTTP request with the body `payload`."""

    def exchange(self, x: Exchange) -> AsyncIterator[bytes]:
        """Yield the bytes of the answer."""

    def failure_facts(self, model: Model) -> Callable[[Failure], None]:
        """Return the function that parses the error bodies of a model."""

    async def authorize(
        self, request: HTTPRequest, options: StreamOptions, call: Call
    ) -> Callable[[Failure], bool] | None:
        """Sign a request.

        Return a function that discards the token if the server refuses it, or `None` if the request
        was signed without a token.
        """


class Body:
    """The body of a response; the first read sends the request.

    `__anext__` returns the awaitable of the response itself, because a coroutine in between would
    slow down each read. If a provider's code reads the body, `exchange` is set, and this class
    passes the data to the taps of the call. Otherwise, the event source does this.
    """

    def __init__(self, respond: Callable[[], Awaitable[HTTPResponse]]) -> None:
        self._respond = respond
        self._response: HTTPResponse | None = None
        self._leg: Leg | None = None
        self.exchange: Exchange | None = None

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Awaitable[bytes]:
        if self._response is None:
            return self._first()
        if self.exchange is None:
            return self._response.__anext__()
        return self._tapped(self._response, self.exchange.call)

    async def _first(self) -> bytes:
        response = await self._respond()
        self._response = response
        if self.exchange is None:
            return await response.__anext__()
        self._leg = self.exchange.attempt.leg
        return await self._tapped(response, self.exchange.call)

    async def _tapped(self, response: HTTPResponse, call: Call) -> bytes:
        data = await response.__anext__()
        if call.taps:
            call.tap(data, self._leg)
        return data

    @property
    def at_end(self) -> bool:
        """Whether the body is known to have been read completely."""
        return getattr(self._response, "at_end", False)

    async def aclose(self) -> None:
        """Close the response, if there is one."""
        if self._response is not None:
            self._response.close()


class Exchange:
    """The requests of one attempt, with methods for a provider that sends several requests.

    `model` and `options` are those of the call, adapted to the API. `payload` is the result of the
    hook `convert_messages`; the hook is called when `payload` is first read. A provider may replace
    `model`, `options` and `payload` before it builds a request.
    """

    __slots__ = (
        "_abandons", "_bodies", "_creates", "_feed_frame", "_home", "_is_over", "_out", "_payload",
        "_provider", "_rest", "_steps", "attempt", "call", "is_left", "is_stopped", "model",
        "options",
    )  # fmt: skip

    def __init__(
        self, provider: Provider, model: Model, options: StreamOptions, call: Call
    ) -> None:
        self.model = model
        self.options = options
        self.call = call
        self.attempt = call.attempt
        self._provider = provider
        self._payload: Any = _NOT_CONVERTED
        self._home = ""
        self._out: EventWriter | None = None
        self._feed_frame: Callable[[bytes], None] | None = None
        self._steps: AsyncIterator[bytes] | None = None
        self._bodies: tuple[Body, ...] = ()
        self._abandons: tuple[HTTPRequest, ...] = ()
        self._creates = False
        self._is_over = False
        self.is_left = False
        self.is_stopped = False
        self._rest: Coroutine[Any, Any, None] | None = None

    # -- requests ----------------------------------------------------------------------------

    @property
    def payload(self) -> Any:
        """The conversation in the provider's format."""
        if self._payload is _NOT_CONVERTED:
            self._payload = self.call.convert()
        return self._payload

    @payload.setter
    def payload(self, payload: Any) -> None:
        self._payload = payload

    async def convert(self) -> None:
        """Convert the conversation now, instead of when `payload` is first read.

        The conversion runs in a thread if the conversation is large, or if a function in `guards`
        of the call, which checks the request body, may take long.
        """
        if self._payload is not _NOT_CONVERTED:
            return
        call = self.call
        is_quick = call.size <= MOST_ENCODED_AT_ONCE
        if is_quick and all(getattr(guard, "is_quick", False) for guard in call.guards):
            self._payload = call.convert()
        else:
            self._payload = await asyncio.to_thread(call.convert)

    def request(self) -> HTTPRequest:
        """Return the request that the provider's `request` builds, without credentials.

        Text that the request cannot represent is reported to observers. Raises ProviderFailure
        (`internal`) if the payload cannot be converted to JSON. Other exceptions of the provider
        are passed on.
        """
        try:
            built = self._provider.request(self.model, self.payload, self.options)
        except _UNENCODABLE:
            self._check_payload()
            raise
        if isinstance(built, RepairedRequest):
            paths = [*paths_of_halves(self.call.context)] or ["options"]
            told = notice_of(self.model, LONE_SURROGATE, REPAIRED, paths)
            self.attempt.tell_changes([told])
        return built

    def _check_payload(self) -> None:
        """Raise ProviderFailure if the payload cannot be converted to JSON."""
        try:
            msgspec.json.encode(self.payload)
        except UnicodeEncodeError:
            return  # `json_request` sends such text
        except _UNENCODABLE as error:
            binding = self.attempt.target.binding
            names = dict.fromkeys([*binding.converters().split('" or "'), binding.name])
            raise ProviderFailure(not_json('" or "'.join(names), error)) from error

    @overload
    async def read(self, request: HTTPRequest | None = None) -> bytes: ...

    @overload
    async def read(self, request: HTTPRequest | None, into: type[T]) -> T: ...

    async def read(self, request: HTTPRequest | None = None, into: Any = bytes) -> Any:
        """Send a request and return the body of the response, decoded as the type `into`.

        If `request` is `None`, the provider's usual request is sent. `into` is a type to which
        msgspec decodes JSON, or `bytes`, for the body itself. Raises ProviderFailure if the request
        fails or the status is not 2xx.
        """
        try:
            response = await self.send(request, kind="whole")
            try:
                leg = self.attempt.leg
                data = await read_whole(response, WHOLE_BYTES)
            finally:
                response.close()
        finally:
            self._creates = False
        self.call.tap(data, leg)
        return decoded(data, into)

    def stream(
        self,
        request: HTTPRequest | None = None,
        respond: Callable[[], Awaitable[HTTPResponse]] | None = None,
    ) -> Body:
        """Return the body of a streamed response; its first read sends the request.

        If `request` is `None`, the provider's usual request is sent. A provider
        that tries several ways to send the request passes the function `respond`, which is called
        instead of `send`. If the body is not read to its end,
        the core closes the response.
        """
        body = Body(respond or (self.send if request is None else lambda: self.send(request)))
        if self._steps is not None:
            body.exchange = self
        self._bodies += (body,)
        return body

    async def send(
        self,
        request: HTTPRequest | None = None,
        types: Collection[str] | None = None,
        dial: Dial | None = None,
        *,
        kind: LegKind = "stream",
    ) -> HTTPResponse:
        """Send a request and return the response, whose body has not been read yet.

        If `request` is `None`, the provider's usual request is sent. The response must have one of
        the content types in `types` (`None`: the provider's `content_types`), or be a WebSocket.
        `dial` replaces the HTTP client: a function that is called with the request and the connect
        timeout in seconds, and sends the request. `kind` is the `Leg.kind` of the request. For all
        kinds except `stream`, the response must be JSON and may have any status 2xx.

        Credentials and the caller's headers are sent only to the origin of the first request.
        Raises ProviderFailure, with the status, for a response of another status or type.
        """
        provider = self._provider
        call = self.call
        options = self.options
        attempt = self.attempt
        is_whole = kind != "stream"
        buffered = options.transport == "buffered" and not is_whole
        if types is None:
            types = provider.content_types
            types = WHOLE if is_whole else (*types, *WHOLE) if buffered else types
        built = request
        if built is None:
            await self.convert()
            if call.size > MOST_ENCODED_AT_ONCE:
                built = await asyncio.to_thread(self.request)
            else:
                built = self.request()
            attempt.build(built)
        refused: Failure | None = None
        while True:
            sent = HTTPRequest(built.url, built.body, {**built.headers}, built.method)
            if buffered:
                sent.headers["Accept"] = WHOLE[0]
            elif request is not None or is_whole:
                accept = sent.headers.get("Accept")
                if accept is None or (is_whole and accept == ", ".join(provider.content_types)):
                    sent.headers["Accept"] = ", ".join(types)
            drop = None
            if not self._home:
                self._home = sent.url
            if sent.url is self._home or _origin(sent.url) == _origin(self._home):
                sent.headers.update(call.headers)
                override(sent.headers, options.headers)
                try:
                    drop = await provider.authorize(sent, options, call)
                except ProviderFailure as error:
                    if refused is None:
                        raise
                    why = refused.message or f"HTTP {refused.status}"
                    refused.message = f"{why} (the token was not renewed: {error})"
                    raise ProviderFailure(refused) from error
                override(sent.headers, options.headers)
            call.hide(sent.headers, sent.url)
            if (self.is_left or self._is_over) and kind != "abandon":
                self._check()
            leg = attempt.ask(sent, kind, call.clock.time())
            if is_whole and sent.method not in _CREATES_NOTHING:
                self._creates = True
            if dial is not None:
                response = await dial(sent, call.options.timeouts.connect)
            elif call.http is not None:
                response = await call.http.send(sent, call.options.timeouts.connect)
            else:
                raise PluginError("the call has no HTTP client")
            head = ResponseHead(response.status, response.headers, call.clock.time())
            id = None if kind == "abandon" else call.redact(request_id_of(response))
            attempt.answer(head, id, leg)
            try:
                if is_answer(response, types) or (is_whole and 200 <= response.status < 300):
                    return response
                facts = provider.failure_facts(self.model)
                failure = await failure_of_answer(response, call.secrets, facts)
            except BaseException:
                response.close()
                raise
            response.close()
            call.tap(failure.body, leg)
            if drop is None or refused is not None or not drop(failure):
                raise ProviderFailure(failure)
            refused = failure

    def _check(self) -> None:
        """Raise CancelledError if the provider's code may not send any more requests.

        This exception stops the code.
        """
        if self.is_left or self._is_over:
            self.is_stopped = True
            raise asyncio.CancelledError

    # -- between requests --------------------------------------------------------------------

    @property
    def stopped(self) -> bool:
        """Whether the parser has read the finish reason or an error."""
        return self._out is not None and self._out.stopped

    def frame(self, data: bytes) -> bytes:
        """Pass a frame directly to the parser, and return bytes that `exchange` must yield.

        Use this for data that is not in the stream, such as token counts from a later request.
        """
        assert self._feed_frame is not None
        self._feed_frame(data)
        return b""

    async def sleep(self, seconds: float) -> None:
        """Wait, using the call's clock. The call's time limits keep running."""
        self._check()
        await self.call.clock.sleep(seconds)

    def on_abandon(self, request: HTTPRequest) -> None:
        """Set a request to send if the attempt ends before its answer is complete.

        The request is sent if the caller leaves the stream, a time limit passes or the attempt
        fails; a retry begins after this request. The call waits at most 50 ms for the request, and
        a closing client waits at most 5 s.
        """
        self._abandons += (request,)


class DrivenExchange(Exchange):
    """An `Exchange` with the methods by which the core runs it."""

    __slots__ = ()

    def begin(self) -> AsyncIterator[bytes]:
        """Call the provider's `exchange`, and return an iterator over the bytes of the answer."""
        made = self._provider.exchange(self)
        if type(made) is Body:  # the source reads and closes it, and calls the taps
            self._bodies = ()
            return made
        for body in self._bodies:
            body.exchange = self
        self._steps = made
        return self._read_steps(made)

    async def _read_steps(self, steps: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of the answer; the provider's first step runs in a task."""
        step = asyncio.get_running_loop().create_task(_step(steps))
        try:
            await asyncio.wait((step,))
        except asyncio.CancelledError:
            if self._leave(step):
                raise
            step.cancel()
            await asyncio.wait((step,))
        try:
            yield step.result()
        except StopAsyncIteration:
            return
        async for data in steps:
            yield data

    def attach(self, out: EventWriter, feed_frame: Callable[[bytes], None]) -> bool:
        """Give the provider's code access to the state of the parser, and return True.

        Do nothing and return False if the provider's `exchange` only returned a response body.
        `out` is the parser's writer, and `feed_frame` passes a frame directly to the parser,
        without the decoder.
        """
        if self._steps is None:
            return False
        self._out = out
        self._feed_frame = feed_frame
        return True

    def stop(self) -> None:
        """Prevent further requests, because the parser has read everything that it needs."""
        self._is_over = True

    @property
    def is_plain(self) -> bool:
        """Whether closing one response body is all that is needed to end the exchange."""
        return self._steps is None and not self._abandons

    async def end(self, complete: bool) -> None:
        """Close open responses, and send the requests that end abandoned work on the server."""
        self._feed_frame = None  # breaks a reference cycle
        if self._rest is not None:
            await self._outlive(self._rest)
            return
        await self._close_steps()
        await self._close_bodies()
        if self._abandons and not complete:
            await self._outlive(self._send_abandons())

    async def _close_steps(self) -> None:
        close = getattr(self._steps, "aclose", None)
        self._steps = None
        if close is not None:
            await close()

    async def _close_bodies(self) -> None:
        bodies = self._bodies
        self._bodies = ()
        for body in bodies:
            await body.aclose()

    async def _outlive(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.call.tasks.start(work, finish=True)
        await asyncio.wait((task,), timeout=WAIT_SECONDS)  # cancellation does not reach the task

    def _leave(self, step: asyncio.Task[bytes]) -> bool:
        """Return True if a provider's first step must continue in the background.

        It must continue if its request starts work on the server that can be stopped only later.
        """
        if self._creates and not self._abandons:
            self.is_left = True
            self._rest = self._finish_step(step)
        return self.is_left

    async def _finish_step(self, step: asyncio.Task[bytes]) -> None:
        await asyncio.wait((step,), timeout=ABANDON_SECONDS)
        step.cancel()
        await asyncio.gather(step, return_exceptions=True)
        await self._close_steps()
        await self._close_bodies()
        await self._send_abandons()

    async def _send_abandons(self) -> None:
        for request in self._abandons:
            try:
                async with time_limit(ABANDON_SECONDS):
                    (await self.send(request, kind="abandon")).close()
            except (ProviderFailure, TimeoutError) as error:
                why = self.call.redact(str(error) or type(error).__name__)
                log.warning(
                    "%s: an abandoned request may still run on the server: %s", self.model, why
                )


async def _step(steps: AsyncIterator[bytes]) -> bytes:
    return await steps.__anext__()


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme.replace("ws", "http", 1), parts.netloc
