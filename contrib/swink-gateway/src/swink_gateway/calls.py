"""One request of a client's: read, asked of a provider, and written as it comes.

A batch of events, which is one network read of the upstream, becomes one write. Nothing is read
ahead: a client that reads slowly stops the reading of the upstream. The response begins with the
first bytes that the answer makes, so that its headers can say what is known by then. An upstream
that fails is told in the client's own protocol: inside the stream where one was asked for, as an
HTTP status where not.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from secrets import token_hex
from typing import Any

import msgspec
from aiohttp import web
from attrs import define, evolve, field

from swink_core import (
    AssistantMessage,
    Client,
    Done,
    Error,
    EventStream,
    InvalidModel,
    Model,
    Notice,
    RetryPolicy,
    StreamErrorKind,
    SwinkError,
)
from swink_gateway.addressing import addressed, answerable, spoken_by
from swink_gateway.counting import ESTIMATED, estimated_tokens
from swink_gateway.failures import of_exception, status_of
from swink_gateway.protocols import Asked, BadRequest, ClientProtocol, Encoder, Facts, Reply
from swink_gateway.protocols.frames import JSON

__all__ = ["Calls", "read_json", "read_request", "respond", "written"]

log = logging.getLogger(__name__)

DROPPED = "x-swink-dropped"
"""The response header that names, as paths into the request, what was not carried further."""

NOTICES = "x-swink-notices"
"""The response header with what the adapter of the provider says of the request."""

PATIENCE_SECONDS = 60.0

MOST_UNREAD_BYTES = 64 * 1024
"""That a client has not read, before its upstream has to wait for it."""

BACKPRESSURE = "ccr_stream_backpressure_total"
"""Counts writes that had to wait for their client."""

ABORTED = "ccr_stream_aborted_total"
"""Counts answers whose client did not read."""

_PATHS = ("/", "\\", "~", ".")
"""How paths begin, which some providers take for models."""

MOST_HEADER = 2000
"""Characters of a header of ours."""


async def read_json(request: web.Request) -> Any:
    """Return a request's JSON data, whatever its type is called. Raises BadRequest."""
    try:
        return msgspec.json.decode(await request.read())
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"the body is no JSON: {error}") from error


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
    `patience` is for how many seconds a client may read nothing; `counters` count by name.
    """

    client: Client
    routes: Mapping[str, Sequence[str]]
    retry: RetryPolicy
    patience: float = PATIENCE_SECONDS
    counters: Counter[str] = field(factory=Counter)

    async def answer(self, request: web.Request, protocol: ClientProtocol) -> web.StreamResponse:
        """Answer a request that has been let in."""
        try:
            asked = await read_request(request, protocol)
        except BadRequest as error:
            return respond(_refusal(protocol, error))
        return await self.answer_to(request, protocol, asked)

    async def answer_to(
        self,
        request: web.Request,
        protocol: ClientProtocol,
        asked: Asked,
        done: Callable[[AssistantMessage, Facts], None] | None = None,
    ) -> web.StreamResponse:
        """Answer what is asked; `done` is told of an answer that was completed."""
        try:
            if asked.idle is not None:
                return self._idle(protocol, asked)
            stream, facts, models = self.begin(protocol, asked)
        except SwinkError as error:
            wrong = of_exception(error)
            return respond(protocol.failure(wrong, status_of(wrong)))
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
        try:
            asked = await read_request(request, protocol)
        except BadRequest as error:
            return respond(_refusal(protocol, error))
        counted = {name: estimated_tokens(asked.context)}
        return web.json_response(counted, headers={ESTIMATED: name})

    def begin(self, protocol: ClientProtocol, asked: Asked) -> tuple[EventStream, Facts, int]:
        """Return the stream of a call, and how many models may answer it.

        Raises SwinkError for a call that cannot be made.
        """
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
        if name not in self.routes and targets[0].id.startswith(_PATHS):
            raise InvalidModel(
                f"{name!r} is a path, and clients name no files of this machine",
                resolution="Have its owner give it a name: swink gateway --route NAME=MODEL.",
            )
        return targets

    def _idle(self, protocol: ClientProtocol, asked: Asked) -> web.Response:
        """Answer who wants nothing said; the model has to be one that could."""
        self._targets(asked.model)
        nothing = AssistantMessage([], model=asked.model)
        encoder = protocol.encoder(asked, Facts(self.new_id(), int(time.time())))
        return web.Response(body=encoder.whole(nothing), content_type=JSON)

    def new_id(self) -> str:
        """Return an id for an answer that no call makes."""
        return token_hex(6)


async def read_request(request: web.Request, protocol: ClientProtocol) -> Asked:
    """Return what a request asks for. Raises BadRequest."""
    path = {**request.query, **request.match_info}
    return protocol.read(await read_json(request), path, request.headers)


def written(encoder: Encoder, batch: Sequence[Any], stream: EventStream, protocol: str) -> bytes:
    """Return what the encoder makes of a batch; a fault of its own is a failure in words."""
    try:
        return encoder.feed(batch, stream.call.attempt)
    except Exception:
        log.exception("the encoder of %s failed", protocol)
        fault = Error(error_message="the gateway failed to translate the answer")
        fault.error_kind = StreamErrorKind.INTERNAL
        return encoder.feed([fault], stream.call.attempt)


def _refusal(protocol: ClientProtocol, error: BadRequest) -> Reply:
    wrong = Error(error_message=str(error), error_kind=StreamErrorKind.INVALID_REQUEST)
    return protocol.failure(wrong, 400)


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
        encoder = self._encoder
        response: web.StreamResponse | None = None
        async for batch in stream.batches():
            data = written(encoder, batch, stream, self._protocol.name)
            if response is None:
                self._listen(batch)
            if data:
                if response is None:
                    response = web.StreamResponse(headers=self._headers(stream))
                    response.content_type = encoder.content_type
                    response.headers["Cache-Control"] = "no-cache"
                    await response.prepare(self._request)
                try:
                    await self._write(data)
                except ConnectionResetError:
                    if not encoder.ended:  # who leaves after the end has had all there was
                        return response
            if encoder.ended:
                self.completed = isinstance(batch[-1], Done)
                break
        assert response is not None  # the last event always says something
        return response

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

    async def _write(self, data: bytes) -> None:
        """Write, and wait for a client that reads more slowly; one that does not read is left."""
        writer, transport = self._request.writer, self._request.transport
        await writer.write(data, drain=False)  # type: ignore[call-arg]  # aiohttp's own has it
        if transport is None or transport.get_write_buffer_size() <= MOST_UNREAD_BYTES:
            return
        self._calls.counters[BACKPRESSURE] += 1
        try:
            async with asyncio.timeout(self._calls.patience):
                await writer.drain()
        except TimeoutError:
            self._calls.counters[ABORTED] += 1
            log.warning("a client read nothing for %s s; it is left", self._calls.patience)
            transport.abort()
            raise ConnectionResetError("the client does not read") from None

    def _listen(self, batch: Sequence[Any]) -> None:
        self._notices += [event.detail for event in batch if isinstance(event, Notice)]

    def _headers(self, stream: EventStream) -> dict[str, str]:
        """Return headers with what is known before the first byte of the answer."""
        headers = {"x-swink-model": str(stream.call.model)}
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
