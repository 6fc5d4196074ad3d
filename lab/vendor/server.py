"""The vendor behind a port: started, stopped and killed, in this event loop or in a thread.

    async with Vendor() as vendor:            # or `with Vendor() as vendor:`, in a thread
        client = openai.AsyncOpenAI(base_url=vendor.url + "/v1", api_key="key-alpha")

`handler` serves each request, by the route that `routes` finds; `delivery` sends answers.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import TracebackType

from aiohttp import web

from lab.vendor.clock import Clock
from lab.vendor.connections import reset
from lab.vendor.faults import Schedule
from lab.vendor.handler import LARGEST, Handler
from lab.vendor.state import State

__all__ = ["Vendor"]


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
        self._handler = Handler(self.state, on_kill or self.kill)
        self._runner: web.AppRunner | None = None
        self._site: web.TCPSite | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """Return the address, without a path."""
        return f"http://{self._host}:{self._port}"

    async def start(self) -> None:
        """Listen. The port that was chosen is kept for a restart."""
        app = web.Application(client_max_size=LARGEST)
        app.router.add_route("*", "/{tail:.*}", self._handler.handle)
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
        await self._handler.idle()

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
            reset(connection.transport)
