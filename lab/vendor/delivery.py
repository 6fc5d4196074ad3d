"""One answer on its way to the client: streamed or whole, at its pace, with its fault."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping

from aiohttp import web

from lab.vendor.answers import Step
from lab.vendor.connections import Broken, Connection
from lab.vendor.engine import Job
from lab.vendor.failures import Failure
from lab.vendor.faults import Fault
from lab.vendor.protocols.base import API, Reply
from lab.vendor.record import Exchange
from lab.vendor.state import State

__all__ = [
    "HTML",
    "Delivery",
    "SocketDelivery",
    "garbage",
    "messages_of",
    "refusal",
    "response_of",
]

HTML = b"<!doctype html><html><body><h1>502 Bad Gateway</h1></body></html>"
"""The page of a proxy in place of an answer."""


def response_of(reply: Reply) -> web.Response:
    """Return a reply as a response of the server."""
    headers = {**reply.headers, "content-type": reply.content_type}
    return web.Response(status=reply.status, body=reply.body, headers=headers)


def refusal(state: State, exchange: Exchange, api: API, failure: Failure) -> web.StreamResponse:
    """Note a failure in the record, and return the API's response for it."""
    reply = api.failure(failure, exchange.request_id)
    exchange.status = reply.status
    exchange.message = failure.message
    exchange.ended = "refused"
    reply.headers = {**api.headers(state, exchange.request_id), **reply.headers}
    return response_of(reply)


def garbage(number: int) -> bytes:
    """Return bytes that no API sends, drawn by the number of the exchange."""
    return random.Random(number).randbytes(64) + b"\n\n"


def messages_of(frames: bytes) -> list[str]:
    """Return the data of SSE events, each as a text."""
    events = frames.decode("utf-8", "replace").split("\n\n")
    data = [event.partition("data: ")[2] or event for event in events]
    return [each for each in data if each.strip()]


class Delivery:
    """One answer on its way to the client."""

    def __init__(
        self,
        state: State,
        connection: Connection,
        exchange: Exchange,
        job: Job,
        fault: Fault | None,
        headers: Mapping[str, str],
    ) -> None:
        self.state = state
        self.connection = connection
        self.exchange = exchange
        self.job = job
        self.fault = fault
        self.headers = dict(headers)
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
        await self.response.prepare(self.connection.http)

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
        self.connection.check()
        body = job.encoder.whole(job.usage)
        if self.damage:
            body = _damaged(body)
            exchange.ended = "broken"
        exchange.status = 200
        exchange.sent_tokens = job.usage.output
        if exchange.ended == "open":
            exchange.ended = "complete"
        reply = Reply(200, body, self.headers, job.encoder.whole_media_type())
        return response_of(reply)

    async def _broken_whole(self, api: API, produced: int | None) -> web.StreamResponse | None:
        """Break an answer that is not streamed; return the replacement, if there is one."""
        fault = self.fault
        if fault is None or (produced is not None and not _is_due(fault, produced)):
            return None
        self.fault = None
        exchange = self.exchange
        failure = fault.failure
        if failure is not None and fault.kind != "filter":
            exchange.charge = None  # a whole answer that fails is refused, and costs nothing
            return refusal(self.state, exchange, api, failure)
        if fault.kind == "silence":
            await self.connection.silence(fault.seconds)
            return None
        if fault.kind in ("slow", "damaged"):
            self._enter(fault)
            return None
        if fault.kind == "filter":
            self._filter()
            return response_of(Reply(200, self.job.encoder.whole(self.job.usage), self.headers))
        exchange.status = 200
        exchange.ended = "broken"
        media_type = self.job.encoder.whole_media_type()
        if fault.kind == "content_type":
            return response_of(Reply(200, HTML, {}, "text/html"))
        if fault.kind == "garbage":
            return response_of(Reply(200, garbage(exchange.number), {}, media_type))
        body = self.job.encoder.whole(self.job.usage)
        if fault.kind == "empty":
            return response_of(Reply(200, b"", self.headers, media_type))
        self.response.content_length = len(body)
        self.response.content_type = media_type
        await self.response.prepare(self.connection.http)
        await self.response.write(body[: len(body) // 2])
        await self.connection.disconnect(fault)
        raise Broken

    async def _pace(self, step: Step) -> None:
        """Wait until a token is due, and notice a client that has left."""
        rate = self.state.tokens_per_second
        if self.extra or rate:
            due = self.began + self.state.first_token
            due += 0 if not rate else (self.job.usage.output + step.tokens) / rate
            wait = max(due - self.state.clock.now(), 0.0) + self.extra
            await self.connection.silence(wait)
        elif self.state.first_token and not self.job.usage.output:
            await self.connection.silence(self.state.first_token)
        else:
            await asyncio.sleep(0)
        self.connection.check()

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
            await self.connection.silence(fault.seconds)
            return False
        if fault.kind in ("slow", "damaged"):
            self._enter(fault)
            return False
        exchange.ended = "broken"
        if fault.kind in ("garbage", "content_type"):
            await self._write(garbage(exchange.number))
            return False
        if fault.kind == "empty":
            return True
        await self.connection.disconnect(fault)
        raise Broken

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
        self.connection.check()
        await self._send(frame)

    async def _send(self, frame: bytes) -> None:
        await self.response.write(frame)

    async def _end(self) -> web.StreamResponse:
        await self.response.write_eof()
        return self.response


class SocketDelivery(Delivery):
    """One answer on its way through a WebSocket: an event is a message."""

    def __init__(
        self,
        state: State,
        connection: Connection,
        exchange: Exchange,
        job: Job,
        fault: Fault | None,
        opened: web.WebSocketResponse,
    ) -> None:
        super().__init__(state, connection, exchange, job, fault, {})
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


def _damaged(frame: bytes) -> bytes:
    """Change the highest bit in the middle of a frame: no longer UTF-8."""
    middle = len(frame) // 2
    return frame[:middle] + bytes([frame[middle] ^ 0x80]) + frame[middle + 1 :]
