"""One request of a client's: read, asked of a provider, and written as it comes.

There is a place for each answer under way, taken before the body is read, and no more than so many
places. An upstream that fails is told in the client's own protocol: inside the stream where one was
asked for, as an HTTP status where not.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from secrets import token_hex
from typing import Any

from aiohttp import web
from attrs import define, evolve, field

from swink_core import (
    AssistantMessage,
    Client,
    Done,
    Error,
    EventStream,
    Model,
    Notice,
    RetryPolicy,
    StreamErrorKind,
    SwinkError,
)
from swink_gateway.addressing import (
    addressed,
    answerable,
    check_named_by_client,
    spoken_by,
)
from swink_gateway.counting import ESTIMATED, estimated_tokens
from swink_gateway.deadlines import time_limit
from swink_gateway.failures import of_bad_request, of_exception, passed_on, status_of
from swink_gateway.protocols import Asked, ClientProtocol, Facts, Reply
from swink_gateway.protocols.frames import JSON
from swink_gateway.reading import MOST_BYTES, Refused, read_body, size_of
from swink_gateway.relay import Limits, StreamRelay, relayed

__all__ = ["Calls", "respond"]

Answering = Callable[[web.Request, Asked], Awaitable[web.StreamResponse]]
"""What makes an answer to a request that was read."""

DROPPED = "x-swink-dropped"
"""The response header that names, as paths into the request, what was not carried further."""

NOTICES = "x-swink-notices"
"""The response header with what the adapter of the provider says of the request."""

REQUESTS = "ccr_requests_total"
"""Counts calls that were asked for."""

ACTIVE = "ccr_active_streams"
"""How many answers are under way."""

PEAK = "ccr_peak_active_streams"
"""How many were at most."""

REJECTED = "ccr_rejected_streams_total"
"""Counts requests that found as many answers under way as there may be."""

COME_AGAIN_SECONDS = 1.0
"""After which who found no place may ask again: answers end all the time."""

UNAVAILABLE = 503

MOST_HEADER = 2000
"""Characters of a header of ours."""


@contextmanager
def refusing() -> Iterator[None]:
    """Have a call that cannot be made refused. Raises Refused."""
    try:
        yield
    except SwinkError as error:
        wrong = of_exception(error)
        raise Refused(wrong, status_of(wrong)) from error


def respond(reply: Reply) -> web.Response:
    """Make a response of a whole reply."""
    return web.Response(
        body=reply.body,
        status=reply.status,
        headers=dict(reply.headers),
        content_type=reply.content_type,
    )


@define
class Calls:
    """Asks what clients ask for.

    `routes` are names of the gateway's own and the models that they stand for, a chain each.
    `counters` count by name.
    """

    client: Client
    routes: Mapping[str, Sequence[str]]
    retry: RetryPolicy
    limits: Limits = field(factory=Limits)
    counters: Counter[str] = field(factory=Counter)
    _bytes: int = field(default=0, init=False)

    async def answer(
        self, request: web.Request, protocol: ClientProtocol, go_on: Answering | None = None
    ) -> web.StreamResponse:
        """Answer a request that has been let in; `go_on` does, where it is not all the same."""
        try:
            with self.place(size_of(request)):
                asked = await self.read_request(request, protocol)
                if go_on is not None:
                    return await go_on(request, asked)
                return await self.answer_to(request, protocol, asked)
        except Refused as refusal:
            return respond(protocol.failure(refusal.error, refusal.status))

    @contextmanager
    def place(self, size: int) -> Iterator[None]:
        """Hold one of the places for answers, to a request of `size` bytes.

        Raises Refused where there is none, or requests that are being answered are too much.
        """
        counters, most = self.counters, self.limits.streams
        if counters[ACTIVE] >= most or self._bytes + size > MOST_BYTES:
            counters[REJECTED] += 1
            what = f"{most} answers are" if counters[ACTIVE] >= most else f"{self._bytes} bytes are"
            full = Error(error_message=f"{what} under way here, as many as there may be")
            full.error_kind, full.retry_after = StreamErrorKind.THROTTLED, COME_AGAIN_SECONDS
            raise Refused(full, UNAVAILABLE)
        self._bytes += size
        counters[ACTIVE] += 1
        counters[PEAK] = max(counters[PEAK], counters[ACTIVE])
        try:
            yield
        finally:
            counters[ACTIVE] -= 1
            self._bytes -= size

    async def answer_to(
        self,
        request: web.Request,
        protocol: ClientProtocol,
        asked: Asked,
        done: Callable[[AssistantMessage, Facts], None] | None = None,
    ) -> web.StreamResponse:
        """Answer what is asked; `done` is told of an answer that was completed."""
        if asked.idle is not None:
            return self._idle(protocol, asked)
        stream, facts, models = self.begin(protocol, asked)
        answer = _Answer(self, request, protocol, asked, facts, models)
        async with stream:
            response = await (answer.streamed(stream) if asked.stream else answer.whole(stream))
            if done is not None and answer.completed:
                done(stream.message, facts)
            return response

    async def count(
        self, request: web.Request, protocol: ClientProtocol, name: str
    ) -> web.StreamResponse:
        """Answer how long a conversation is, in the field `name`."""

        async def counted(request: web.Request, asked: Asked) -> web.StreamResponse:
            found = {name: estimated_tokens(asked.context)}
            return web.json_response(found, headers={ESTIMATED: name})

        return await self.answer(request, protocol, counted)

    def begin(self, protocol: ClientProtocol, asked: Asked) -> tuple[EventStream, Facts, int]:
        """Return the stream of a call, and how many models may answer it.

        Raises Refused for a call that cannot be made.
        """
        self.counters[REQUESTS] += 1
        with refusing():
            return self._begin(protocol, asked)

    def _begin(self, protocol: ClientProtocol, asked: Asked) -> tuple[EventStream, Facts, int]:
        targets = self._targets(asked.model)
        asked.context = answerable(asked)
        wire_formats: dict[str, str] = {}
        for one in targets:
            spoken = spoken_by(self.client, one, asked, protocol.wire_format)
            if wire_formats.setdefault(one.provider, spoken) != spoken:
                wire_formats[one.provider] = ""  # what is sealed is right for both
        first = targets[0].provider
        found = addressed(asked, protocol.wire_format, first, wire_formats[first])
        asked.dropped = found.dropped
        retry = self.retry if asked.stream else evolve(self.retry, restart_after_output=True)
        options = {"retry": retry, **found.options}
        stream = self.client.stream(targets, found.context, **options)
        if asked.inherited:
            target = stream.call.attempt.target
            target.extra, target.inherited = asked.extra, target.inherited | asked.inherited
        return stream, Facts(stream.call.id, int(time.time()), wire_formats), len(targets)

    def _targets(self, name: str) -> list[Model]:
        targets = [self.client.catalog.resolve(one) for one in self.routes.get(name, (name,))]
        if name not in self.routes:
            check_named_by_client(self.client, targets[0])
        return targets

    def _idle(self, protocol: ClientProtocol, asked: Asked) -> web.Response:
        """Answer who wants nothing said; the model has to be one that could."""
        with refusing():
            self._targets(asked.model)
        nothing = AssistantMessage([], model=asked.model)
        encoder = protocol.encoder(asked, Facts(self.new_id(), int(time.time())))
        return web.Response(body=encoder.whole(nothing), content_type=JSON)

    async def read_request(self, request: web.Request, protocol: ClientProtocol) -> Asked:
        """Return what a request asks for. Raises Refused."""
        body = await self.read(request)
        path = {**request.query, **request.match_info}
        return await read_body(protocol, body, path, request.headers)

    async def read(self, request: web.Request) -> bytes:
        """Return the body of a request. Raises Refused where it does not come in time."""
        try:
            async with time_limit(self.limits.clock, self.limits.patience):
                return await request.read()
        except TimeoutError as error:
            why = f"the body did not come within {self.limits.patience:g} s"
            raise Refused(of_bad_request(why), 408) from error

    def new_id(self) -> str:
        """Return an id for an answer that no call makes."""
        return token_hex(6)


class _Answer:
    """One answer on its way to a client."""

    def __init__(
        self,
        calls: Calls,
        request: web.Request,
        protocol: ClientProtocol,
        asked: Asked,
        facts: Facts,
        models: int,
    ) -> None:
        self._calls = calls
        self._request = request
        self._protocol = protocol
        self._asked = asked
        self._models = models
        self._encoder = protocol.encoder(asked, facts)
        self._notices: list[str] = []
        self.completed = False

    async def streamed(self, stream: EventStream) -> web.StreamResponse:
        encoder, calls = self._encoder, self._calls
        kind, name = encoder.content_type, self._protocol.name

        def headers() -> dict[str, str]:
            return self._headers(stream)

        line = StreamRelay(self._request, kind, headers, calls.limits, calls.counters)

        def heard(batch: Sequence[Any]) -> None:
            if line.response is None:
                self._listen(batch)

        with suppress(ConnectionResetError):
            self.completed = await relayed(stream, encoder, line, name, heard)
        assert line.response is not None  # the last event always says something
        return line.response

    async def whole(self, stream: EventStream) -> web.Response:
        terminal: Any = None
        async for batch in stream.batches():
            self._listen(batch)
            terminal = batch[-1]
        headers = self._headers(stream)
        if isinstance(terminal, Done):
            self.completed = True
            body = self._encoder.whole(stream.message)
            return web.Response(body=body, headers=headers, content_type=JSON)
        reply = self._protocol.failure(terminal, status_of(terminal, self._models))
        return respond(evolve(reply, headers={**headers, **reply.headers}))

    def _listen(self, batch: Sequence[Any]) -> None:
        self._notices += [event.detail for event in batch if isinstance(event, Notice)]

    def _headers(self, stream: EventStream) -> dict[str, str]:
        """Return headers with what is known before the first byte of the answer."""
        headers = {"x-swink-model": str(stream.call.model)}
        headers |= passed_on(stream.call.attempt.response)
        if request_id := stream.call.request_id:
            headers["x-request-id"] = request_id
        if self._asked.dropped:
            headers[DROPPED] = ", ".join(self._asked.dropped)
        if self._notices:
            headers[NOTICES] = "; ".join(self._notices)
        return {name: _header(value) for name, value in headers.items()}


def _header(value: str) -> str:
    """Return text as a header may hold it (RFC 9110 section 5.5)."""
    plain = value.encode("ascii", "replace").decode()
    return "".join(c if " " <= c <= "~" else " " for c in plain)[:MOST_HEADER]
