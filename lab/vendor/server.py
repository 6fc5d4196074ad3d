"""The vendor behind a socket: routes, keys, pace, faults, and who hung up when.

    async with Vendor() as vendor:            # or `with Vendor() as vendor:`, in a thread
        client = openai.AsyncOpenAI(base_url=vendor.url + "/v1", api_key="key-alpha")

An API is known by its path; where paths of two vendors are the same (`/v1/models`, `/v1/files`), by
headers. A first folder in the path that is a vendor's name (`/anthropic/v1/models`) decides it.
"""

from __future__ import annotations

import asyncio
import random
import re
import socket
import struct
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import TracebackType
from typing import Any

from aiohttp import web

from lab.vendor import engine, judging, writer
from lab.vendor.answers import Step
from lab.vendor.clock import Clock
from lab.vendor.control import control
from lab.vendor.engine import Job
from lab.vendor.failures import Failure, Refused
from lab.vendor.faults import Fault, Schedule
from lab.vendor.jsons import load
from lab.vendor.protocols import openai_common
from lab.vendor.protocols.base import API, Followed, Reply, Request, Route
from lab.vendor.protocols.reading import key_of
from lab.vendor.protocols.responses import Responses
from lab.vendor.protocols.table import APIS, PROVIDERS
from lab.vendor.record import Exchange, without_keys
from lab.vendor.state import KEYLESS, State

__all__ = ["Vendor"]

_LARGEST = 64 * 1024 * 1024
_POLL = 0.005
_HTML = b"<!doctype html><html><body><h1>502 Bad Gateway</h1></body></html>"


class _Left(Exception):
    """The client disconnected."""


class _Broken(Exception):
    """A fault ended the exchange."""


class Vendor:
    """A simulated vendor on a port of loopback. `url` is its address.

    `keys` are the API keys of each account, `alpha` with `key-alpha` and `beta` with `key-beta`
    unless given. For the other arguments see `State`; `state` is all that the vendor knows.
    `on_kill` replaces what the fault `kill` does, with the seconds to be away.
    """

    def __init__(
        self,
        keys: Mapping[str, Iterable[str]] | None = None,
        *,
        clock: Clock | None = None,
        seed: int = 0,
        tokens_per_second: float | None = None,
        first_token: float = 0.0,
        batch_seconds: float = 0.0,
        schedule: Schedule | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        on_kill: Callable[[float], Awaitable[None]] | None = None,
    ) -> None:
        self.state = State(
            keys,
            clock=clock,
            seed=seed,
            tokens_per_second=tokens_per_second,
            first_token=first_token,
            batch_seconds=batch_seconds,
            schedule=schedule,
        )
        self._host = host
        self._port = port
        self._on_kill = on_kill or self.kill
        self._runner: web.AppRunner | None = None
        self._site: web.TCPSite | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._open = 0
        self._closed = asyncio.Event()

    @property
    def url(self) -> str:
        """Return the address, without a path."""
        return f"http://{self._host}:{self._port}"

    async def start(self) -> None:
        """Listen. The port that was chosen is kept for a restart."""
        app = web.Application(client_max_size=_LARGEST)
        app.router.add_route("*", "/{tail:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await self._listen()

    async def stop(self) -> None:
        """Close all connections and the port."""
        for task in list(self._tasks):
            task.cancel()
        if self._runner is not None:
            self._abort_all()
            await self._runner.cleanup()
        self._runner = None

    async def kill(self, seconds: float) -> None:
        """Reset all connections and refuse new ones for `seconds`, as a killed server does."""
        assert self._site is not None
        await self._site.stop()
        self._abort_all()
        task = asyncio.create_task(self._return_after(seconds))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def idle(self) -> None:
        """Wait until no request is under way: the record is complete then."""
        while self._open:
            await self._closed.wait()
            self._closed.clear()

    async def __aenter__(self) -> Vendor:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    def __enter__(self) -> Vendor:
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,), daemon=True)
        self._thread.start()
        ready.wait()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._loop is not None
        assert self._stop is not None
        assert self._thread is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _run(self, ready: threading.Event) -> None:
        asyncio.run(self._serve(ready))

    async def _serve(self, ready: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        async with self:
            ready.set()
            await self._stop.wait()

    async def _listen(self) -> None:
        assert self._runner is not None
        self._site = web.TCPSite(self._runner, self._host, self._port, reuse_address=True)
        await self._site.start()
        self._port = self._runner.addresses[0][1]

    async def _return_after(self, seconds: float) -> None:
        await self.state.clock.sleep(seconds)
        await self._listen()

    def _abort_all(self) -> None:
        assert self._runner is not None
        server = self._runner.server
        assert server is not None
        for connection in list(server.connections):
            _reset(connection.transport)

    # -- one request -----------------------------------------------------------------------------

    async def _handle(self, http: web.Request) -> web.StreamResponse:
        if http.path.startswith("/control/"):
            body = await http.read()
            reply = await control(self.state, http.method, http.path, dict(http.query), body)
            return _response(reply)
        state = self.state
        exchange = state.record.open(state.clock.now(), http.method, http.path)
        self._open += 1
        exchange.headers = without_keys(http.headers)
        exchange.query = {name: value for name, value in http.query.items() if name != "key"}
        try:
            return await self._answer(http, exchange)
        except (_Left, ConnectionError):
            exchange.ended = "hung up"
            exchange.hung_up_after = exchange.sent_tokens
            return _nothing()
        except _Broken:
            exchange.ended = "broken"
            return _nothing()
        finally:
            exchange.until = state.clock.now()
            self._open -= 1
            self._closed.set()

    async def _answer(self, http: web.Request, exchange: Exchange) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in http.headers.items()}
        found = _route(http.method, http.raw_path, headers)
        if found is not None and headers.get("upgrade", "").lower() == "websocket":
            return await self._socket(http, exchange, found[0], headers)
        if found is None:
            exchange.status = 404
            exchange.ended = "refused"
            message = f"Invalid URL ({http.method} {http.path})"
            return _response(openai_common.failure(Failure("not_found", message), ""))
        api, route, provider, match = found
        exchange.provider = provider
        exchange.api = api.name
        exchange.request_id = self.state.ids.make("req_")
        try:
            exchange.body = await http.read()
            account = self._account(api, key_of(headers, dict(http.query)))
            exchange.account = account
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
                return await self._generate(http, exchange, api, request)
            return await self._act(http, exchange, api, request, route)
        except web.HTTPRequestEntityTooLarge:
            failure = Failure("too_large", "Request exceeds the maximum size")
            return self._refuse(exchange, api, failure)
        except Refused as refused:
            return self._refuse(exchange, api, refused.failure)

    async def _socket(
        self, http: web.Request, exchange: Exchange, api: API, headers: dict[str, str]
    ) -> web.StreamResponse:
        """Serve a WebSocket; each request on it is an exchange."""
        kept: dict[str, Any] = {}
        try:
            account = self._account(api, key_of(headers, dict(http.query)))
            if not isinstance(api, Responses):
                raise Refused(Failure("invalid", "This endpoint accepts no WebSocket.", 426))
        except Refused as refused:
            return self._refuse(exchange, api, refused.failure)
        exchange.account = account
        exchange.status = 101
        opened = web.WebSocketResponse(max_msg_size=_LARGEST)
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
                await self._turn(http, turn, api, request, opened)
            except Refused as refused:
                turn.status = api.failure(refused.failure, turn.request_id).status
                turn.message = refused.failure.message
                turn.ended = "refused"
                error = openai_common.error_body(refused.failure)
                await opened.send_json({"type": "error", "status": turn.status, "error": error})
            except (_Left, ConnectionError):
                turn.ended = "hung up"
                turn.hung_up_after = turn.sent_tokens
                break
            except _Broken:
                turn.ended = "broken"
                break
            finally:
                turn.until = self.state.clock.now()
        exchange.ended = "complete"
        return opened

    async def _turn(
        self,
        http: web.Request,
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
                    await self.silence(http, fault.seconds)
                elif fault.kind not in ("slow", "damaged"):
                    await self.disconnect(http, fault)
                    raise _Broken
        if job.ask.own["prewarm"]:
            exchange.status = 200
            exchange.ended = "complete"
            for event in messages_of(api.prewarmed(job)):
                await opened.send_str(event)
            return
        await _SocketStream(self, http, exchange, job, fault, opened).stream()

    def _account(self, api: API, key: str | None) -> str:
        account = self.state.accounts.of(key)
        if account is not None:
            return account
        if key is None and api.provider == "ollama":
            return KEYLESS
        shown = "" if key is None else f"{key[:3]}***{key[-2:]}"
        message = f"Incorrect API key provided: {shown}." if key else "Missing API key."
        raise Refused(Failure("auth", message))

    def _refuse(self, exchange: Exchange, api: API, failure: Failure) -> web.StreamResponse:
        reply = api.failure(failure, exchange.request_id)
        exchange.status = reply.status
        exchange.message = failure.message
        exchange.ended = "refused"
        reply.headers = {**api.headers(self.state, exchange.request_id), **reply.headers}
        return _response(reply)

    async def _act(
        self, http: web.Request, exchange: Exchange, api: API, request: Request, route: Route
    ) -> web.StreamResponse:
        """Serve a route that generates nothing."""
        assert route.action is not None
        fault = self._fault(exchange, request, "")
        done = None
        if fault is not None:
            exchange.fault = fault.as_json()
            if fault.after is not None:
                done = await route.action(self.state, request)
            reply = await self._before(http, exchange, api, fault, "application/json")
            if reply is not None:
                return reply
        if done is None:
            done = await route.action(self.state, request)
        exchange.ended = "complete"
        return await self._send(http, exchange, api, done)

    async def _send(
        self, http: web.Request, exchange: Exchange, api: API, reply: Reply | Followed
    ) -> web.StreamResponse:
        """Send a response that is not an answer under way here."""
        headers = api.headers(self.state, exchange.request_id)
        if isinstance(reply, Reply):
            exchange.status = reply.status
            exchange.charge = reply.charge
            reply.headers = {**headers, **reply.headers}
            return _response(reply)
        exchange.status = 200
        response = web.StreamResponse(status=200, headers=headers)
        response.content_type = reply.content_type
        await response.prepare(http)
        async for frame in reply.frames:
            _check(http)
            await response.write(frame)
        await response.write_eof()
        return response

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
        self, http: web.Request, exchange: Exchange, api: API, request: Request
    ) -> web.StreamResponse:
        job = engine.prepare(self.state, exchange, request, api)
        fault = self._fault(exchange, request, job.ask.user_text)
        if fault is not None:
            exchange.fault = fault.as_json()
            if fault.after is None:
                encoder = job.encoder
                media = encoder.media_type if exchange.streamed else encoder.whole_media_type()
                reply = await self._before(http, exchange, api, fault, media)
                if reply is not None:
                    return reply
        if isinstance(api, Responses) and job.ask.own["background"]:
            job.fault = fault
            return await self._send(http, exchange, api, await api.serve(self.state, job))
        headers = api.headers(self.state, exchange.request_id)
        answer = _Stream(self, http, exchange, job, fault, headers)
        if exchange.streamed:
            return await answer.stream()
        return await answer.whole(api)

    async def _before(
        self, http: web.Request, exchange: Exchange, api: API, fault: Fault, media_type: str
    ) -> web.StreamResponse | None:
        """Break before the head; return the answer, or `None` where it goes on."""
        failure = fault.failure
        if failure is not None:
            return self._refuse(exchange, api, failure)
        seconds = fault.seconds
        if fault.kind == "silence":
            await self.silence(http, seconds)
            return None
        if fault.kind in ("slow", "damaged"):
            return None
        exchange.ended = "broken"
        if fault.kind in ("empty", "garbage", "content_type"):
            exchange.status = 200
            body = {"garbage": _garbage(exchange.number), "content_type": _HTML}.get(
                fault.kind, b""
            )
            html = fault.kind == "content_type"
            return _response(Reply(200, body, {}, "text/html" if html else media_type))
        await self.disconnect(http, fault)
        raise _Broken

    async def disconnect(self, http: web.Request, fault: Fault) -> None:
        """Cut or reset the connection, or kill the vendor."""
        if fault.kind == "kill":
            await self._on_kill(fault.seconds or 0.0)
        elif fault.kind == "reset":
            _reset(http.transport)
        elif http.transport is not None:
            http.transport.close()

    async def _pause(self, seconds: float | None) -> None:
        if seconds is None:
            await asyncio.Event().wait()
        else:
            await self.state.clock.sleep(seconds)

    async def silence(self, http: web.Request, seconds: float | None) -> None:
        """Say nothing for `seconds`, or until the client leaves. Raises _Left when it does."""
        waiting = asyncio.ensure_future(self._pause(seconds))
        try:
            while not waiting.done():
                _check(http)
                await asyncio.wait([waiting], timeout=_POLL)
        finally:
            waiting.cancel()


class _Stream:
    """One answer on its way to the client."""

    def __init__(
        self,
        vendor: Vendor,
        http: web.Request,
        exchange: Exchange,
        job: Job,
        fault: Fault | None,
        headers: Mapping[str, str],
    ) -> None:
        self.vendor = vendor
        self.http = http
        self.exchange = exchange
        self.job = job
        self.fault = fault
        self.headers = dict(headers)
        self.state = vendor.state
        self.began = self.state.clock.now()
        self.extra = 0.0
        self.damage = False
        self.response = web.StreamResponse(status=200)
        if fault is not None and fault.after is None:
            self._enter(fault)

    def _enter(self, fault: Fault) -> None:
        """Begin a fault that goes on beside the answer."""
        if fault.kind == "slow":
            self.extra = fault.seconds or 0.1
        self.damage = fault.kind == "damaged"
        self.fault = None

    async def stream(self) -> web.StreamResponse:
        """Send the answer while it is produced."""
        exchange = self.exchange
        job = self.job
        exchange.status = 200
        await self._open()
        await self._write(job.begin())
        for step in job.steps():
            if step.kind == "delta":
                await self._pace(step)
                if await self._break_at(job.usage.output):
                    return await self._end()
            job.produce(step)
            await self._write(job.encoder.step(step, job.usage))
            exchange.sent_tokens = job.usage.output
        if self.fault is not None and await self._break():
            return await self._end()
        await self._write(job.encoder.finish(job.usage))
        if exchange.ended == "open":
            exchange.ended = "complete"
        return await self._end()

    async def _open(self) -> None:
        media_type = self.job.encoder.media_type
        self.response.headers.update(self.headers)
        self.response.content_type = media_type
        if media_type == "text/event-stream":
            self.response.charset = "utf-8"
            self.response.headers["cache-control"] = "no-cache"
        await self.response.prepare(self.http)

    async def whole(self, api: API) -> web.StreamResponse:
        """Produce the answer, then send it."""
        exchange = self.exchange
        job = self.job
        job.begin()
        for step in job.steps():
            if step.kind == "delta":
                await self._pace(step)
                stopped = await self._broken_whole(api, job.usage.output)
                if stopped is not None:
                    return stopped
            job.produce(step)
        if self.fault is not None:
            stopped = await self._broken_whole(api, None)
            if stopped is not None:
                return stopped
        _check(self.http)
        body = job.encoder.whole(job.usage)
        if self.damage:
            body = _damaged(body)
            exchange.ended = "broken"
        exchange.status = 200
        exchange.sent_tokens = job.usage.output
        if exchange.ended == "open":
            exchange.ended = "complete"
        reply = Reply(200, body, self.headers, job.encoder.whole_media_type())
        return _response(reply)

    async def _broken_whole(self, api: API, produced: int | None) -> web.StreamResponse | None:
        """Break an answer that is not streamed; return the replacement, if there is one."""
        fault = self.fault
        if fault is None or (produced is not None and not _is_due(fault, produced)):
            return None
        self.fault = None
        exchange = self.exchange
        failure = fault.failure
        if failure is not None and fault.kind != "filter":
            return self.vendor._refuse(exchange, api, failure)
        if fault.kind == "silence":
            await self.vendor.silence(self.http, fault.seconds)
            return None
        if fault.kind in ("slow", "damaged"):
            self._enter(fault)
            return None
        if fault.kind == "filter":
            self._filter()
            return _response(Reply(200, self.job.encoder.whole(self.job.usage), self.headers))
        exchange.status = 200
        exchange.ended = "broken"
        media_type = self.job.encoder.whole_media_type()
        if fault.kind == "content_type":
            return _response(Reply(200, _HTML, {}, "text/html"))
        if fault.kind == "garbage":
            return _response(Reply(200, _garbage(exchange.number), {}, media_type))
        body = self.job.encoder.whole(self.job.usage)
        if fault.kind == "empty":
            return _response(Reply(200, b"", self.headers, media_type))
        self.response.content_length = len(body)
        self.response.content_type = media_type
        await self.response.prepare(self.http)
        await self.response.write(body[: len(body) // 2])
        await self.vendor.disconnect(self.http, fault)
        raise _Broken

    async def _pace(self, step: Step) -> None:
        """Wait until a token is due, and notice a client that has left."""
        rate = self.state.tokens_per_second
        if self.extra or rate:
            due = self.began + self.state.first_token
            due += 0 if not rate else (self.job.usage.output + step.tokens) / rate
            wait = max(due - self.state.clock.now(), 0.0) + self.extra
            await self.vendor.silence(self.http, wait)
        elif self.state.first_token and not self.job.usage.output:
            await self.vendor.silence(self.http, self.state.first_token)
        else:
            await asyncio.sleep(0)
        _check(self.http)

    async def _break_at(self, produced: int) -> bool:
        if self.fault is None or not _is_due(self.fault, produced):
            return False
        return await self._break()

    async def _break(self) -> bool:
        """Break the stream where it is; return whether it ends with that."""
        fault = self.fault
        assert fault is not None
        self.fault = None
        exchange = self.exchange
        if fault.kind == "filter":
            await self._write(self._filter())
            await self._write(self.job.encoder.finish(self.job.usage))
            return True
        failure = fault.failure
        if failure is not None:
            await self._write(self.job.encoder.broken(failure))
            exchange.ended = "failed"
            exchange.message = failure.message
            return True
        if fault.kind == "silence":
            await self.vendor.silence(self.http, fault.seconds)
            return False
        if fault.kind in ("slow", "damaged"):
            self._enter(fault)
            return False
        exchange.ended = "broken"
        if fault.kind in ("garbage", "content_type"):
            await self._write(_garbage(exchange.number))
            return False
        if fault.kind == "empty":
            return True
        await self.vendor.disconnect(self.http, fault)
        raise _Broken

    def _filter(self) -> bytes:
        """End the answer by the content filter."""
        job = self.job
        frames = b""
        for choice, parts in enumerate(job.encoder.parts):
            for index, each in parts.items():
                if not each.closed:
                    step = Step("close", choice, index, each.part)
                    job.produce(step)
                    frames += job.encoder.step(step, job.usage)
            if job.encoder.stops[choice] is None:
                end = Step("end", choice, len(parts), stop="filter")
                job.produce(end)
                frames += job.encoder.step(end, job.usage)
        self.exchange.ended = "complete"
        return frames

    async def _write(self, frame: bytes) -> None:
        if not frame:
            return
        if self.damage:
            frame = _damaged(frame)
            self.damage = False
            self.exchange.ended = "broken"
        _check(self.http)
        await self._send(frame)

    async def _send(self, frame: bytes) -> None:
        await self.response.write(frame)

    async def _end(self) -> web.StreamResponse:
        await self.response.write_eof()
        return self.response


class _SocketStream(_Stream):
    """One answer on its way through a WebSocket: an event is a message."""

    def __init__(
        self,
        vendor: Vendor,
        http: web.Request,
        exchange: Exchange,
        job: Job,
        fault: Fault | None,
        opened: web.WebSocketResponse,
    ) -> None:
        super().__init__(vendor, http, exchange, job, fault, {})
        self.opened = opened

    async def _open(self) -> None:
        return

    async def _send(self, frame: bytes) -> None:
        for message in messages_of(frame):
            await self.opened.send_str(message)

    async def _end(self) -> web.StreamResponse:
        if self.exchange.ended == "broken" and self.fault is None and not self.damage:
            await self.opened.close()
        return self.response


def _is_due(fault: Fault, produced: int) -> bool:
    return isinstance(fault.after, int) and produced >= fault.after


def _check(http: web.Request) -> None:
    if http.transport is None or http.transport.is_closing():
        raise _Left


def _reset(transport: Any) -> None:
    """Close a connection so that the other side sees a reset."""
    if transport is None:
        return
    connection = transport.get_extra_info("socket")
    if connection is not None:
        linger = struct.pack("ii", 1, 0)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    transport.abort()


def messages_of(frames: bytes) -> list[str]:
    """Return the data of SSE events, each as a text."""
    events = frames.decode("utf-8", "replace").split("\n\n")
    data = [event.partition("data: ")[2] or event for event in events]
    return [each for each in data if each.strip()]


def _garbage(number: int) -> bytes:
    return random.Random(number).randbytes(64) + b"\n\n"


def _damaged(frame: bytes) -> bytes:
    """Change the highest bit in the middle of a frame: no longer UTF-8."""
    middle = len(frame) // 2
    return frame[:middle] + bytes([frame[middle] ^ 0x80]) + frame[middle + 1 :]


def _response(reply: Reply) -> web.Response:
    headers = {**reply.headers, "content-type": reply.content_type}
    return web.Response(status=reply.status, body=reply.body, headers=headers)


def _nothing() -> web.Response:
    """Return a response for a closed connection, which aiohttp drops."""
    return web.Response(status=499)


def _route(
    method: str, raw_path: str, headers: Mapping[str, str]
) -> tuple[API, Route, str, dict[str, str]] | None:
    """Return the API at a path, its route, the provider and what the path names."""
    path = raw_path.partition("?")[0]
    first = path.split("/")[1]
    named = first if first in PROVIDERS or first in judging.providers() else None
    rest = path[len(first) + 1 :] if named else path
    candidates = []
    for api in APIS:
        for route in api.routes:
            match = re.search(route.pattern, rest)
            if match is not None and route.method in (method, "*"):
                candidates.append((api, route, match.groupdict()))
    if not candidates:
        return None
    wanted = PROVIDERS.get(named, named) if named else _guess(path, headers)
    chosen = next((each for each in candidates if each[0].provider == wanted), candidates[0])
    api, route, found = chosen
    on_vertex = "vertex" if "/publishers/" in path else api.provider
    return api, route, named or on_vertex, found


def _guess(path: str, headers: Mapping[str, str]) -> str:
    """Return whose client it is, by what only that vendor's clients send."""
    if path.startswith(("/v1beta", "/upload/")):
        return "gemini"
    if "anthropic-version" in headers:
        return "anthropic"
    if "x-goog-api-key" in headers or "x-goog-api-client" in headers:
        return "gemini"
    if "x-fern-sdk-name" in headers or "cohere" in headers.get("user-agent", ""):
        return "cohere"
    return "openai"
