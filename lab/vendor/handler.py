"""Serve one request: its route, its key, its fault, and its entry in the record."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from lab.vendor import engine, writer
from lab.vendor.connections import Broken, Connection, Left
from lab.vendor.control import control
from lab.vendor.delivery import (
    HTML,
    Delivery,
    SocketDelivery,
    garbage,
    messages_of,
    refusal,
    response_of,
)
from lab.vendor.failures import Failure, Refused
from lab.vendor.faults import Fault
from lab.vendor.jsons import load
from lab.vendor.protocols import openai_common
from lab.vendor.protocols.base import API, Followed, Reply, Request, Route
from lab.vendor.protocols.reading import key_of
from lab.vendor.protocols.responses import Responses
from lab.vendor.record import Exchange, without_keys
from lab.vendor.routes import route_of
from lab.vendor.state import KEYLESS, State

__all__ = ["LARGEST", "Handler"]

LARGEST = 64 * 1024 * 1024
"""The bytes that a request or a message may have."""


class Handler:
    """Serves the requests to a vendor. `on_kill` carries out the fault `kill`."""

    def __init__(self, state: State, on_kill: Callable[[float], Awaitable[None]]) -> None:
        self.state = state
        self._on_kill = on_kill
        self._open = 0
        self._closed = asyncio.Event()

    async def idle(self) -> None:
        """Wait until no request is under way."""
        while self._open:
            await self._closed.wait()
            self._closed.clear()

    async def handle(self, http: web.Request) -> web.StreamResponse:
        """Serve a request, and note how it ended."""
        if http.path.startswith("/control/"):
            body = await http.read()
            reply = await control(self.state, http.method, http.path, dict(http.query), body)
            return response_of(reply)
        state = self.state
        exchange = state.record.open(state.clock.now(), http.method, http.path)
        self._open += 1
        exchange.headers = without_keys(http.headers)
        exchange.query = {name: value for name, value in http.query.items() if name != "key"}
        try:
            return await self._answer(Connection(http, state.clock, self._on_kill), exchange)
        except (Left, ConnectionError):
            exchange.ended = "hung up"
            exchange.hung_up_after = exchange.sent_tokens
            return _nothing()
        except Broken:
            exchange.ended = "broken"
            return _nothing()
        finally:
            exchange.until = state.clock.now()
            self._open -= 1
            self._closed.set()

    async def _answer(self, connection: Connection, exchange: Exchange) -> web.StreamResponse:
        http = connection.http
        headers = {name.lower(): value for name, value in http.headers.items()}
        found = route_of(http.method, http.raw_path, headers)
        if found is not None and headers.get("upgrade", "").lower() == "websocket":
            return await self._socket(connection, exchange, found[0], headers)
        if found is None:
            exchange.status = 404
            exchange.ended = "refused"
            message = f"Invalid URL ({http.method} {http.path})"
            return response_of(openai_common.failure(Failure("not_found", message), ""))
        api, route, provider, match = found
        exchange.provider = provider
        exchange.api = api.name
        exchange.request_id = self.state.ids.make("req_")
        try:
            key = key_of(headers, dict(http.query))
            exchange.account = self.state.accounts.of(key)  # of a client that hangs up now, too
            exchange.body = await http.read()
            exchange.account = account = self._account(api, key)
            request = Request(
                http.method,
                http.path,
                dict(http.query),
                headers,
                exchange.body,
                provider,
                account,
                exchange.request_id,
                match,
            )
            if route.action is None:
                return await self._generate(connection, exchange, api, request)
            return await self._act(connection, exchange, api, request, route)
        except web.HTTPRequestEntityTooLarge:
            failure = Failure("too_large", "Request exceeds the maximum size")
            return refusal(self.state, exchange, api, failure)
        except Refused as refused:
            return refusal(self.state, exchange, api, refused.failure)

    def _account(self, api: API, key: str | None) -> str:
        account = self.state.accounts.of(key)
        if account is not None:
            return account
        if key is None and api.provider == "ollama":
            return KEYLESS
        shown = "" if key is None else f"{key[:3]}***{key[-2:]}"
        message = f"Incorrect API key provided: {shown}." if key else "Missing API key."
        raise Refused(Failure("auth", message))

    def _fault(self, exchange: Exchange, request: Request, prompt: str) -> Fault | None:
        try:
            if "x-vendor-fault" in request.headers:
                return Fault.of(load(request.headers["x-vendor-fault"]))
            marked = writer.marked(prompt)
            if "fault" in marked:
                return Fault.of(marked["fault"])
        except ValueError as error:
            raise Refused(Failure("invalid", f"invalid fault: {error}")) from None
        return self.state.fault_of(
            exchange.number, request.account, exchange.api, exchange.model, request.path
        )

    async def _generate(
        self, connection: Connection, exchange: Exchange, api: API, request: Request
    ) -> web.StreamResponse:
        job = engine.prepare(self.state, exchange, request, api)
        fault = self._fault(exchange, request, job.ask.user_text)
        if fault is not None:
            exchange.fault = fault.as_json()
            if fault.after is None:
                encoder = job.encoder
                media = encoder.media_type if exchange.streamed else encoder.whole_media_type()
                reply = await self._before(connection, exchange, api, fault, media)
                if reply is not None:
                    return reply
        if isinstance(api, Responses) and job.ask.own["background"]:
            job.fault = fault
            return await self._send(connection, exchange, api, await api.serve(self.state, job))
        headers = api.headers(self.state, exchange.request_id)
        answer = Delivery(self.state, connection, exchange, job, fault, headers)
        if exchange.streamed:
            return await answer.stream()
        return await answer.whole(api)

    async def _act(
        self, connection: Connection, exchange: Exchange, api: API, request: Request, route: Route
    ) -> web.StreamResponse:
        """Serve a route that generates nothing."""
        assert route.action is not None
        fault = self._fault(exchange, request, "")
        done = None
        if fault is not None:
            exchange.fault = fault.as_json()
            if fault.after is not None:
                done = await route.action(self.state, request)
            reply = await self._before(connection, exchange, api, fault, "application/json")
            if reply is not None:
                return reply
        if done is None:
            done = await route.action(self.state, request)
        exchange.ended = "complete"
        return await self._send(connection, exchange, api, done)

    async def _before(
        self, connection: Connection, exchange: Exchange, api: API, fault: Fault, media_type: str
    ) -> web.StreamResponse | None:
        """Break before the head; return the answer, or `None` where it goes on."""
        failure = fault.failure
        if failure is not None:
            return refusal(self.state, exchange, api, failure)
        if fault.kind == "silence":
            await connection.silence(fault.seconds)
            return None
        if fault.kind in ("slow", "damaged"):
            return None
        exchange.ended = "broken"
        if fault.kind in ("empty", "garbage", "content_type"):
            exchange.status = 200
            body = {"garbage": garbage(exchange.number), "content_type": HTML}.get(fault.kind, b"")
            html = fault.kind == "content_type"
            return response_of(Reply(200, body, {}, "text/html" if html else media_type))
        await connection.disconnect(fault)
        raise Broken

    async def _send(
        self, connection: Connection, exchange: Exchange, api: API, reply: Reply | Followed
    ) -> web.StreamResponse:
        """Send a response that is not an answer under way here."""
        headers = api.headers(self.state, exchange.request_id)
        if isinstance(reply, Reply):
            exchange.status = reply.status
            exchange.charge = reply.charge
            reply.headers = {**headers, **reply.headers}
            return response_of(reply)
        exchange.status = 200
        response = web.StreamResponse(status=200, headers=headers)
        response.content_type = reply.content_type
        await response.prepare(connection.http)
        async for frame in reply.frames:
            connection.check()
            await response.write(frame)
        await response.write_eof()
        return response

    async def _socket(
        self,
        connection: Connection,
        exchange: Exchange,
        api: API,
        headers: dict[str, str],
    ) -> web.StreamResponse:
        """Serve a WebSocket; each request on it is an exchange."""
        http = connection.http
        kept: dict[str, Any] = {}
        try:
            account = self._account(api, key_of(headers, dict(http.query)))
            if not isinstance(api, Responses):
                raise Refused(Failure("invalid", "This endpoint accepts no WebSocket.", 426))
        except Refused as refused:
            return refusal(self.state, exchange, api, refused.failure)
        exchange.account = account
        exchange.status = 101
        opened = web.WebSocketResponse(max_msg_size=LARGEST)
        await opened.prepare(http)
        async for message in opened:
            turn = self.state.record.open(self.state.clock.now(), "WEBSOCKET", http.path)
            turn.headers = without_keys(http.headers)
            turn.request_id = self.state.ids.make("req_")
            body = message.data.encode() if isinstance(message.data, str) else message.data
            request = Request(
                "POST", http.path, {}, headers, body, api.provider, account, turn.request_id
            )
            request.kept = kept
            try:
                await self._turn(connection, turn, api, request, opened)
            except Refused as refused:
                turn.status = api.failure(refused.failure, turn.request_id).status
                turn.message = refused.failure.message
                turn.ended = "refused"
                error = openai_common.error_body(refused.failure)
                await opened.send_json({"type": "error", "status": turn.status, "error": error})
            except (Left, ConnectionError):
                turn.ended = "hung up"
                turn.hung_up_after = turn.sent_tokens
                break
            except Broken:
                turn.ended = "broken"
                break
            finally:
                turn.until = self.state.clock.now()
        exchange.ended = "complete"
        return opened

    async def _turn(
        self,
        connection: Connection,
        exchange: Exchange,
        api: Responses,
        request: Request,
        opened: web.WebSocketResponse,
    ) -> None:
        """Answer one request of a WebSocket."""
        request.body = api.unwrapped(request.body)
        job = engine.prepare(self.state, exchange, request, api)
        exchange.streamed = True
        fault = self._fault(exchange, request, job.ask.user_text)
        if fault is not None:
            exchange.fault = fault.as_json()
            if fault.after is None:
                if fault.failure is not None:
                    raise Refused(fault.failure)
                if fault.kind == "silence":
                    await connection.silence(fault.seconds)
                elif fault.kind not in ("slow", "damaged"):
                    await connection.disconnect(fault)
                    raise Broken
        if job.ask.own["prewarm"]:
            exchange.status = 200
            exchange.ended = "complete"
            for event in messages_of(api.prewarmed(job)):
                await opened.send_str(event)
            return
        await SocketDelivery(self.state, connection, exchange, job, fault, opened).stream()


def _nothing() -> web.Response:
    """Return a response for a closed connection, which aiohttp drops."""
    return web.Response(status=499)
