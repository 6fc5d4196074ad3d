"""The Responses API's own ways: conversations by the id of an answer, and WebSockets.

Over a WebSocket (https://developers.openai.com/api/docs/guides/websocket-mode) each text frame of
the client's is a request of the type `response.create`, and each of ours an event. A request with
`generate: false` warms a cache up: it is answered without asking a model. Ids are those of the same
connection; over HTTP they are those of answers that were to be stored.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from aiohttp import WSMsgType, web
from attrs import evolve

from swink_gateway.calls import Calls
from swink_gateway.failures import of_bad_request
from swink_gateway.kept import Kept
from swink_gateway.protocols import Asked, BadRequest, Facts
from swink_gateway.protocols.frames import named_frame
from swink_gateway.protocols.openai_errors import error_data
from swink_gateway.protocols.responses import PREFIX, ResponsesProtocol
from swink_gateway.reading import Refused, read_body
from swink_gateway.relay import Line, hold_little, relayed

__all__ = ["ResponsesRoutes"]

UPGRADE = 426
"""What a client that asks for a WebSocket takes for: use HTTP."""

HEARTBEAT_SECONDS = 30.0
"""After which a connection is looked after that may have vanished."""

MOST_WAITING = 1
"""Requests of one connection that wait for the one before them: each may be large."""

MOST_OF_SOCKETS = 10_000
"""Answers that all connections together may go on from."""


class ResponsesRoutes:
    """Serves `/v1/responses`; `most_bytes` bounds a frame."""

    def __init__(self, calls: Calls, most_bytes: int) -> None:
        self._calls = calls
        self._most_bytes = most_bytes
        self._protocol = ResponsesProtocol()
        self._kept = Kept()
        self._of_sockets = Kept(MOST_OF_SOCKETS)

    async def post(self, request: web.Request) -> web.StreamResponse:
        """Answer one request over HTTP."""
        return await self._calls.answer(request, self._protocol, self._answer)

    async def _answer(self, request: web.Request, asked: Asked) -> web.StreamResponse:
        _go_on(asked, self._kept)
        size = len(await request.read())

        def done(message: Any, facts: Facts) -> None:
            if asked.said["store"]:
                _keep(self._kept, asked, message, facts, size)

        return await self._calls.answer_to(request, self._protocol, asked, done)

    async def get(self, request: web.Request) -> web.StreamResponse:
        """Open a WebSocket; anything else is told to."""
        socket = web.WebSocketResponse(max_msg_size=self._most_bytes, heartbeat=HEARTBEAT_SECONDS)
        if not socket.can_prepare(request).ok:
            return web.json_response(
                {"error": {"message": "this is for WebSockets; ask by POST", "type": "upgrade"}},
                status=UPGRADE,
                headers={"Upgrade": "websocket", "Connection": "Upgrade"},
            )
        await socket.prepare(request)
        waiting: asyncio.Queue[str] = asyncio.Queue(MOST_WAITING)
        connection = _Connection(_SocketLine(socket, request, self._calls), self._of_sockets)
        answering = asyncio.ensure_future(connection.answer(waiting))
        try:
            async for frame in socket:
                if frame.type is WSMsgType.TEXT:
                    await waiting.put(frame.data)
        finally:
            answering.cancel()
            with suppress(asyncio.CancelledError):
                await answering
            self._of_sockets.forget(connection)
        return socket


class _SocketLine(Line):
    """A WebSocket, each frame of which is an event."""

    def __init__(self, socket: web.WebSocketResponse, request: web.Request, calls: Calls) -> None:
        super().__init__(calls.limits, calls.counters)
        self.calls = calls
        self._socket = socket
        self._transport = request.transport
        hold_little(self._transport)

    async def send(self, data: bytes) -> None:
        events = [event.partition(b"\ndata: ")[2] for event in data.split(b"\n\n")[:-1]]

        async def sent() -> None:
            for event in events:
                await self._socket.send_str(event.decode())

        await self._wait(sent, self._transport)


class _FrameProtocol(ResponsesProtocol):
    """Requests as frames, which say what they are."""

    def read(self, body: Any, path: Mapping[str, str], headers: Mapping[str, str]) -> Asked:
        if not isinstance(body, dict) or body.get("type") != "response.create":
            raise BadRequest("the frame is not of the type response.create")
        return super().read(body, path, headers)


class _Connection:
    """One WebSocket, whose requests are answered one after the other."""

    def __init__(self, line: _SocketLine, kept: Kept) -> None:
        self._line = line
        self._calls = line.calls
        self._protocol = _FrameProtocol()
        self._kept = kept

    async def answer(self, waiting: asyncio.Queue[str]) -> None:
        while True:
            frame = await waiting.get()
            try:
                with self._calls.place():
                    asked = await read_body(self._protocol, frame.encode(), {}, {})
                    _go_on(asked, self._kept, self)
                    await self._create(asked, len(frame))
            except Refused as refusal:
                await self._refuse(refusal)
            except ConnectionResetError:
                return

    async def _create(self, asked: Asked, size: int) -> None:
        asked.stream = True
        if not asked.said["generate"]:
            await self._warm_up(asked, size)
            return
        stream, facts, _ = self._calls.begin(self._protocol, asked)
        encoder = self._protocol.encoder(asked, facts)
        async with stream:
            if await relayed(stream, encoder, self._line, self._protocol.name):
                _keep(self._kept, asked, stream.message, facts, size, self)

    async def _warm_up(self, asked: Asked, size: int) -> None:
        """Answer with nothing, under an id to go on from."""
        facts = Facts(self._calls.new_id(), int(time.time()))
        frames = self._protocol.nothing(asked, facts)
        await self._line.send(b"".join(map(named_frame, frames)))
        self._kept.keep(PREFIX + facts.id, asked.context.messages, size, self)

    async def _refuse(self, refusal: Refused) -> None:
        said = error_data(refusal.error)
        said["code"] = refusal.code or said["code"]
        frame = {"type": "error", "status": refusal.status, "error": said}
        await self._line.send(named_frame(frame))


def _go_on(asked: Asked, kept: Kept, owner: object = None) -> None:
    """Put what came before in front of what is asked. Raises Refused for an unknown id."""
    previous = asked.said["previous"]
    if previous is None:
        return
    messages = kept.messages(previous, owner)
    if messages is None:
        why = f"previous_response_id: no answer {previous!r:.100} is kept here"
        raise Refused(of_bad_request(why), 400, "previous_response_not_found")
    asked.context = evolve(asked.context, messages=[*messages, *asked.context.messages])


def _keep(
    kept: Kept, asked: Asked, message: Any, facts: Facts, size: int, owner: object = None
) -> None:
    messages = [*asked.context.messages, message]
    for id in {message.response_id, PREFIX + facts.id} - {None}:
        kept.keep(id, messages, size, owner)
