"""`Exchange`: the requests of one attempt, which a provider makes one after another.

A provider with one request never sees it. A provider with several writes `exchange` as straight
code, an async generator, whose local variables are the state of the call. Each request goes out
with credentials, headers, limits and proxies as a single one would, and an answer that is an error
becomes a failure that the provider's own tables classify.

A stream that is left may leave work behind on a server. A generator cannot tell why it is closed,
so it states the request that ends the work (`on_abandon`), and the core sends it. The first step of
a generator runs in a task, because a request that creates something cannot be taken back while it
is sent: where a call is left at that moment, the step goes on in the background until it has stated
how to end what it has created.
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

from swink_core.failures.exceptions import PluginError, ProviderFailure
from swink_core.failures.failure import Failure
from swink_core.failures.redaction import redact
from swink_core.plugins.attempt import Leg, LegKind
from swink_core.plugins.call import Call
from swink_core.providers.answers import (
    decoded,
    failure_of_answer,
    is_answer,
    override,
    read_whole,
    request_id_of,
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
"""The content type of an answer that is not a stream."""

WHOLE_BYTES = 8 * 1024 * 1024
"""Bytes of an answer that `read` returns."""

ABANDON_SECONDS = 5.0
"""How long the requests that end abandoned work may take."""

WAIT_SECONDS = 0.05
"""How long the end of a call waits for those requests."""

_NOT_CONVERTED = object()

_CREATES_NOTHING = ("GET", "HEAD", "OPTIONS")


class Provider(Protocol):
    """A provider, for the requests that are made in its name."""

    content_types: tuple[str, ...]

    def request(self, model: Model, payload: Any, options: StreamOptions) -> HTTPRequest:
        """Return the request that carries `payload`."""

    def exchange(self, x: Exchange) -> AsyncIterator[bytes]:
        """Return the bytes of the answer."""

    def failure_facts(self, model: Model) -> Callable[[Failure], None]:
        """Return the function that reads the error bodies of a model."""

    async def authorize(
        self, request: HTTPRequest, options: StreamOptions, call: Call
    ) -> Callable[[Failure], bool] | None:
        """Sign a request, and return a function that drops a refused token."""


class Body:
    """The body of a response that is requested by the first read.

    No coroutine stands between a reader and the response's own: that would cost at each read.
    `exchange` is set if a provider's code reads the body, whose pieces are then shown to taps here.
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
        """Whether the body is known to have been read to its end."""
        return getattr(self._response, "at_end", False)

    async def aclose(self) -> None:
        """Close the response, if there is one."""
        if self._response is not None:
            self._response.close()


class Exchange:
    """The requests of one attempt, and what a provider may do between them.

    `model` and `options` are the call's, as they fit; `payload` is the result of the
    `convert_messages` hook, which is called when it is first needed. All three may be replaced,
    before a request is built of them.
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
        """The conversation in the provider's form."""
        if self._payload is _NOT_CONVERTED:
            self._payload = self.call.convert()
        return self._payload

    @payload.setter
    def payload(self, payload: Any) -> None:
        self._payload = payload

    async def convert(self) -> None:
        """Convert the conversation now, in a thread if it is large or guards look at it."""
        if self._payload is not _NOT_CONVERTED:
            return
        if self.call.guards or self.call.size > MOST_ENCODED_AT_ONCE:
            self._payload = await asyncio.to_thread(self.call.convert)
        else:
            self._payload = self.call.convert()

    def request(self) -> HTTPRequest:
        """Return the request that the provider's `request` builds, without credentials."""
        return self._provider.request(self.model, self.payload, self.options)

    @overload
    async def read(self, request: HTTPRequest | None = None) -> bytes: ...

    @overload
    async def read(self, request: HTTPRequest | None, into: type[T]) -> T: ...

    async def read(self, request: HTTPRequest | None = None, into: Any = bytes) -> Any:
        """Send a request and return its whole answer, of any status 2xx.

        `request` is the provider's own unless one is given. `into` is a type that msgspec decodes
        from JSON, or `bytes`. Raises ProviderFailure.
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
        """Return the body of an answer that is a stream; its first read sends the request.

        `request` is the provider's own unless one is given. `respond` takes the place of `send`,
        for a provider that tries several ways. The core closes what is not read to its end.
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
        """Send a request and return the response, whose body is still to be read.

        `request` is the provider's own unless one is given. The response has one of these content
        types (`None`: the provider's `content_types`), or is a WebSocket. `dial` sends the request
        instead of the call's HTTP client; it gets the request and the seconds to connect. `kind` is
        that of the leg; an answer to any but a `stream` is JSON, and may have any status 2xx.

        Credentials and the caller's headers go to the origin of the first request, and to no
        other. Raises ProviderFailure for any other answer, with its status.
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
            id = None if kind == "abandon" else redact(request_id_of(response), call.secrets)
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
        """End the provider's code where nothing is to be sent any more."""
        if self.is_left or self._is_over:
            self.is_stopped = True
            raise asyncio.CancelledError

    # -- between requests --------------------------------------------------------------------

    @property
    def stopped(self) -> bool:
        """Whether the parser has read why the answer stopped, or that it failed."""
        return self._out is not None and self._out.stopped

    def frame(self, data: bytes) -> bytes:
        """Feed the parser a frame that no decoder has made; yield the result.

        For facts that come outside the stream, such as counts from a request after it.
        """
        assert self._feed_frame is not None
        self._feed_frame(data)
        return b""

    async def sleep(self, seconds: float) -> None:
        """Wait by the call's clock. The call's time limits go on."""
        self._check()
        await self.call.clock.sleep(seconds)

    def on_abandon(self, request: HTTPRequest) -> None:
        """Have a request sent if the attempt ends before its answer is complete.

        The caller has left, a time limit has passed, or the attempt has failed; a retry begins
        after it. The call waits 50 ms for it, and a client that closes 5 s.
        """
        self._abandons += (request,)


class DrivenExchange(Exchange):
    """An exchange as the core drives it, from its first bytes to its end."""

    __slots__ = ()

    def begin(self) -> AsyncIterator[bytes]:
        """Return the bytes of the answer as the provider yields them."""
        made = self._provider.exchange(self)
        if type(made) is Body:  # which the source reads, taps and closes
            self._bodies = ()
            return made
        for body in self._bodies:
            body.exchange = self
        self._steps = made
        return self._read_steps(made)

    async def _read_steps(self, steps: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of the answer; the first step runs in a task."""
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
        """Show the provider's code how far the parser is; tell whether there is such code.

        `out` is the parser's writer, and `feed_frame` feeds it a frame that no decoder has made.
        """
        if self._steps is None:
            return False
        self._out = out
        self._feed_frame = feed_frame
        return True

    def stop(self) -> None:
        """Send nothing more: the parser has read all that it wants."""
        self._is_over = True

    @property
    def is_plain(self) -> bool:
        """Whether nothing is left to do at the end but to close the one body."""
        return self._steps is None and not self._abandons

    async def end(self, complete: bool) -> None:
        """Close what is open, and end the abandoned work."""
        self._out = None
        self._feed_frame = None  # or else only the garbage collector would free both
        rest = self._rest
        self._rest = None
        if rest is not None:
            await self._outlive(rest)
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
        await asyncio.wait((task,), timeout=WAIT_SECONDS)  # cancelling this leaves the task alone

    def _leave(self, step: asyncio.Task[bytes]) -> bool:
        """Tell whether a step is to go on alone, because a request of it creates something."""
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
                async with asyncio.timeout(ABANDON_SECONDS):
                    (await self.send(request, kind="abandon")).close()
            except (ProviderFailure, TimeoutError) as error:
                why = redact(str(error) or type(error).__name__, self.call.secrets)
                log.warning(
                    "%s: an abandoned request may still run on the server: %s", self.model, why
                )


async def _step(steps: AsyncIterator[bytes]) -> bytes:
    return await steps.__anext__()


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme.replace("ws", "http", 1), parts.netloc
