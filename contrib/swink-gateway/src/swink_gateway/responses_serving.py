"""The Responses API's own ways: conversations by the id of an answer, and WebSockets.

Over a WebSocket (https://developers.openai.com/api/docs/guides/websocket-mode) each text frame of
the client's is a request of the type `response.create`, and each of ours an event. A request with
`generate: false` warms a cache up: it is answered without asking a model. Ids are those of the same
connection; over HTTP they are those of answers that were to be stored. Events name the `stream_id`
of their request; requests of all lanes are answered one after the other. Input that would steer an
answer on its way (`response.steer`) is given back.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Any

import msgspec
from aiohttp import WSMsgType, web
from attrs import evolve

from swink_core import Done, Error, StreamErrorKind, SwinkError
from swink_gateway.calls import Calls, read_request, respond, written
from swink_gateway.failures import of_exception, status_of
from swink_gateway.kept import Kept
from swink_gateway.protocols import Asked, BadRequest, Facts
from swink_gateway.protocols.frames import encode
from swink_gateway.protocols.openai_errors import error_data
from swink_gateway.protocols.responses import PREFIX, ResponsesProtocol

__all__ = ["ResponsesRoutes"]

UPGRADE = 426
"""What a client that asks for a WebSocket takes for: use HTTP."""

MOST_WAITING = 16
"""Requests of one connection that wait for the one before them."""

LANE = "stream_id"
"""The field by which a client tells apart what it asks on one connection."""

STEER = "response.steer"

MOST_PER_CONNECTION = 100
"""Answers that one connection may go on from."""


class ResponsesRoutes:
    """Serves `/v1/responses`; `most_bytes` bounds a frame."""

    def __init__(self, calls: Calls, most_bytes: int) -> None:
        self._calls = calls
        self._most_bytes = most_bytes
        self._protocol = ResponsesProtocol()
        self._kept = Kept()

    async def post(self, request: web.Request) -> web.StreamResponse:
        """Answer one request over HTTP."""
        try:
            asked = await read_request(request, self._protocol)
            _go_on(asked, self._kept)
        except BadRequest as error:
            return respond(self._protocol.failure(_wrong(error), 400))
        size = request.content_length or 0

        def done(message: Any, facts: Facts) -> None:
            if asked.said["store"]:
                _keep(self._kept, asked, message, facts, size)

        return await self._calls.answer_to(request, self._protocol, asked, done)

    async def get(self, request: web.Request) -> web.StreamResponse:
        """Open a WebSocket; anything else is told to."""
        socket = web.WebSocketResponse(max_msg_size=self._most_bytes)
        if not socket.can_prepare(request).ok:
            return web.json_response(
                {"error": {"message": "this is for WebSockets; ask by POST", "type": "upgrade"}},
                status=UPGRADE,
                headers={"Upgrade": "websocket", "Connection": "Upgrade"},
            )
        await socket.prepare(request)
        connection = _Connection(socket, self._calls)
        answering = asyncio.ensure_future(connection.answer())
        try:
            async for frame in socket:
                if frame.type is WSMsgType.TEXT:
                    await connection.take(frame.data)
        except ConnectionResetError:
            pass  # it closed while it was told something
        finally:
            answering.cancel()
            with suppress(asyncio.CancelledError):
                await answering
        return socket


class _Connection:
    """One WebSocket, whose requests are answered one after the other."""

    def __init__(self, socket: web.WebSocketResponse, calls: Calls) -> None:
        self._socket = socket
        self._calls = calls
        self._protocol = ResponsesProtocol()
        self._kept = Kept(MOST_PER_CONNECTION)
        self._waiting: asyncio.Queue[tuple[Any, int]] = asyncio.Queue(MOST_WAITING)
        self._sending = asyncio.Lock()

    async def take(self, frame: str) -> None:
        """Have a request wait for its turn; reading goes on, so that a close is seen."""
        try:
            body: Any = msgspec.json.decode(frame)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            body = BadRequest(f"the frame is no JSON: {error}")
        lane = _lane(body)
        if isinstance(body, dict) and body.get("type") == STEER:
            await self._say(_given_back(body), lane)
        elif self._waiting.full():
            busy = Error(error_message=f"{MOST_WAITING} requests of this connection wait already")
            busy.error_kind = StreamErrorKind.THROTTLED
            await self._refuse(busy, status_of(busy), lane)
        else:
            self._waiting.put_nowait((body, len(frame)))

    async def answer(self) -> None:
        """Answer what waits, for as long as the connection is there."""
        while True:
            body, size = await self._waiting.get()
            lane = _lane(body)
            try:
                asked = self._read(body)
                _go_on(asked, self._kept)
                await self._create(asked, size, lane)
            except BadRequest as error:
                await self._refuse(_wrong(error), 400, lane, getattr(error, "code", None))
            except SwinkError as error:
                wrong = of_exception(error)
                await self._refuse(wrong, status_of(wrong), lane)
            except ConnectionResetError:
                return

    def _read(self, body: Any) -> Asked:
        if isinstance(body, BadRequest):
            raise body
        if not isinstance(body, dict) or body.get("type") != "response.create":
            raise BadRequest("the frame is not of the type response.create")
        return self._protocol.read({**body, LANE: None}, {}, {})

    async def _create(self, asked: Asked, size: int, lane: str | None) -> None:
        asked.stream = True
        if not asked.said["generate"]:
            await self._warm_up(asked, size, lane)
            return
        stream, facts, _ = self._calls.begin(self._protocol, asked)
        encoder = self._protocol.encoder(asked, facts)
        async with stream:
            async for batch in stream.batches():
                await self._send(written(encoder, batch, stream, self._protocol.name), lane)
                if encoder.ended:
                    if isinstance(batch[-1], Done):
                        _keep(self._kept, asked, stream.message, facts, size)
                    break

    async def _warm_up(self, asked: Asked, size: int, lane: str | None) -> None:
        """Answer with nothing, under an id to go on from."""
        facts = Facts(self._calls.new_id(), int(time.time()))
        for event in self._protocol.nothing(asked, facts):
            await self._say(event, lane)
        self._kept.keep(PREFIX + facts.id, asked.context.messages, size)

    async def _send(self, data: bytes, lane: str | None) -> None:
        end = b"}" if lane is None else b',"%b":%b}' % (LANE.encode(), encode(lane))
        for event in data.split(b"\n\n")[:-1]:
            frame = event.partition(b"\ndata: ")[2][:-1] + end
            async with self._sending:
                await self._socket.send_str(frame.decode())

    async def _refuse(
        self, error: Error, status: int, lane: str | None, code: str | None = None
    ) -> None:
        said = {**error_data(error), **({"code": code} if code else {})}
        await self._say({"type": "error", "status": status, "error": said}, lane)

    async def _say(self, event: dict[str, Any], lane: str | None) -> None:
        named = {} if lane is None else {LANE: lane}
        async with self._sending:
            await self._socket.send_str(encode({**event, **named}).decode())


def _lane(body: Any) -> str | None:
    lane = body.get(LANE) if isinstance(body, dict) else None
    return lane if isinstance(lane, str) else None


def _given_back(steer: dict[str, Any]) -> dict[str, Any]:
    """Return the event by which input goes back that was to steer an answer."""
    why = "no provider is steered here: send it as the input of a request"
    error = {"type": "invalid_request_error", "code": "steering_not_supported", "message": why}
    given = {name: steer.get(name) for name in ("input", "previous_response_id")}
    return {"type": f"{STEER}.failed", "sequence_number": 0, "error": error, "steer": given}


class _UnknownAnswer(BadRequest):
    code = "previous_response_not_found"


def _go_on(asked: Asked, kept: Kept) -> None:
    """Put what came before in front of what is asked. Raises BadRequest for an unknown id."""
    previous = asked.said["previous"]
    if previous is None:
        return
    messages = kept.messages(previous)
    if messages is None:
        raise _UnknownAnswer(f"previous_response_id: no answer {previous!r:.100} is kept here")
    asked.context = evolve(asked.context, messages=[*messages, *asked.context.messages])


def _keep(kept: Kept, asked: Asked, message: Any, facts: Facts, size: int) -> None:
    messages = [*asked.context.messages, message]
    for id in {message.response_id, PREFIX + facts.id} - {None}:
        kept.keep(id, messages, size)


def _wrong(error: BadRequest) -> Error:
    return Error(error_message=str(error), error_kind=StreamErrorKind.INVALID_REQUEST)
