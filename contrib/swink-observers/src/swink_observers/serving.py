"""Serve a feed over HTTP, as server-sent events (WHATWG HTML, section 9.2).

    app.add_subapp("/calls", application(feed))          # in your aiohttp application

If the environment variable `SWINK_FEED` is `8765`, a program serves a feed at
http://127.0.0.1:8765/events, without changes to the program. Ids, `Last-Event-ID` and `retry`
follow the standard, so that clients such as browsers resume automatically after a lost connection.
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import Callable
from contextlib import aclosing, suppress
from ipaddress import ip_address
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler
from yarl import URL

from swink_core.providers import LoopClock
from swink_observers.address import SETTING
from swink_observers.feed import KEPT, Feed, Record

__all__ = ["HEARTBEAT_SECONDS", "FeedHandler", "SharedFeed", "application"]

log = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 15.0
"""The number of seconds between two heartbeats, which are sent to detect dead connections."""

RETRY_MILLISECONDS = 1_000
"""How many milliseconds readers wait before they reconnect."""

LAST_SECONDS = 1.0
"""How many seconds readers may take to read the remaining records when the feed ends."""


class FeedHandler:
    """Answers HTTP requests with the records of a feed.

    With the query `?last=N`, the response begins with the last N records. After `heartbeat` seconds
    without a record, a comment is sent, to detect dead connections.
    """

    def __init__(self, feed: Feed, *, heartbeat: float = HEARTBEAT_SECONDS) -> None:
        self._feed = feed
        self._heartbeat = heartbeat
        self._answers: set[asyncio.Task[Any]] = set()

    async def hang_up(self, app: web.Application) -> None:
        """End all responses, which would never end otherwise.

        Add this to an application's `on_shutdown`.
        """
        for answer in self._answers:
            answer.cancel()

    async def answer(
        self, request: web.Request, may_read: Callable[[], bool] = lambda: True
    ) -> web.StreamResponse:
        """Send records until the reader disconnects or the feed ends.

        `may_read` is called before each record and heartbeat; the response ends if it returns
        False.
        """
        last = request.query.get("last", "0")
        if not re.fullmatch(r"[0-9]{1,4}", last) or int(last) > KEPT:
            raise web.HTTPBadRequest(text=f"last is a number up to {KEPT}\n")
        headers = {"Content-Type": "text/event-stream", "Cache-Control": "no-store"}
        response = web.StreamResponse(headers=headers)
        after = request.headers.get("Last-Event-ID")
        # before the headers are sent, so that a client with the headers misses no later record
        records = self._feed.follow(after=after, last=int(last), idle=self._heartbeat)
        await response.prepare(request)
        task: Any = asyncio.current_task()
        self._answers.add(task)
        try:
            await response.write(b"retry: %d\n\n" % RETRY_MILLISECONDS)
            async with aclosing(records):
                async for record in records:
                    if not may_read():
                        break
                    await response.write(b":\n\n" if record is None else _frame(record))
            await response.write_eof()
        except ConnectionError:
            pass  # the reader has disconnected
        finally:
            self._answers.discard(task)
        return response


def application(feed: Feed, *, heartbeat: float = HEARTBEAT_SECONDS) -> web.Application:
    """Return an application whose `/events` is the feed; see `FeedHandler`."""
    app, handler = web.Application(), FeedHandler(feed, heartbeat=heartbeat)
    app.router.add_get("/events", handler.answer)
    app.on_shutdown.append(handler.hang_up)
    return app


def _frame(record: Record) -> bytes:
    name = b"event: %s\ndata: %s\n\n" % (record.name.encode(), record.data)
    return name if record.id is None else b"id: %s\n%s" % (record.id.encode(), name)


@web.middleware
async def _by_address(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse a request whose Host header contains a host name other than those of this machine.

    A web page could let its own host name point to this machine (DNS rebinding).
    """
    try:
        name = URL.build(authority=request.host).host or ""
    except ValueError:
        name = ""
    if not _is_here(name):
        raise web.HTTPForbidden(text="ask for this machine by its address\n")
    return await handler(request)


def _is_here(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class _Server:
    """Serves one feed in a separate thread, for all clients of the process.

    The server runs as long as clients use it. `join` and `leave` count these clients.
    """

    def __init__(self, host: str, port: int) -> None:
        self.feed = Feed()
        self.port = port
        self._address = (host, port)
        self._users = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._leaving: asyncio.Event | None = None
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name="swink-feed", daemon=True)

    def join(self) -> None:
        """Add a client; the first one starts the server."""
        self._users += 1
        if self._users == 1:
            self._thread.start()
            self._started.wait()

    def leave(self) -> bool:
        """Remove a client. If it was the last one, end the feed and the server, and return True."""
        self._users -= 1
        if self._users:
            return False
        self.feed.end()
        if self._loop is not None and self._leaving is not None:
            self._loop.call_soon_threadsafe(self._leaving.set)
        self._thread.join(2 * LAST_SECONDS)
        return True

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except OSError as error:
            host, port = self._address
            log.error("the feed is not served at %s:%d (%s): %s", host, port, SETTING, error)
        finally:
            self._started.set()

    async def _serve(self) -> None:
        leaving = asyncio.Event()
        app = application(self.feed)
        if _is_here(self._address[0]):
            app.middlewares.append(_by_address)
        runner = web.AppRunner(app, handler_cancellation=True, access_log=None)
        await runner.setup()
        try:
            site = web.TCPSite(runner, *self._address)
            await site.start()
            self.port = runner.addresses[0][1]
            self._loop, self._leaving = asyncio.get_running_loop(), leaving
            self._started.set()
            await leaving.wait()
            with suppress(TimeoutError):
                async with LoopClock.limit(LAST_SECONDS):
                    await self.feed.drained()
        finally:
            await runner.cleanup()


_servers: dict[str, _Server] = {}
_lock = threading.Lock()


class SharedFeed:
    """The observer that a client uses to publish its calls at the feed server of the process."""

    name = "feed"

    def __init__(self, setting: str, host: str, port: int) -> None:
        self._setting = setting
        with _lock:
            self._server = _servers.get(setting) or _Server(host, port)
            _servers[setting] = self._server
            self._server.join()
        # The method is assigned directly, because it is called for every delta.
        self.on_event = self._server.feed.on_event

    @property
    def port(self) -> int:
        """The port at which the feed is served."""
        return self._server.port

    async def aclose(self) -> None:
        """Release the server, which ends if no other client uses it.

        The last client first waits until readers have read all records, at most `LAST_SECONDS`.
        """
        await asyncio.to_thread(self._leave)

    def _leave(self) -> None:
        with _lock:
            if self._server.leave():
                _servers.pop(self._setting, None)
