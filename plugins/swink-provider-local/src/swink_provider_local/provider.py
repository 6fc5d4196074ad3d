"""`local/<model>`: Chat Completions from an engine in a child process.

A call first downloads the model file if necessary, and starts an engine with this file unless it is
already running. Then the package swink-provider-openai sends the request to the engine's URL. A
crash of the engine is reported as `internal`, not as a network error, and the next call starts a
new engine.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

from attrs import evolve

from swink_core import Call, ProviderFailure
from swink_core.providers import Exchange
from swink_provider_local.choice import cache_type, engine_numbers, file_of
from swink_provider_local.engine import Settings
from swink_provider_local.hub import Hub, HubFile, size_text
from swink_provider_local.pool import EnginePool, in_thread, shared_pool
from swink_provider_openai import OpenAIProvider

__all__ = ["LocalProvider"]


class LocalProvider(OpenAIProvider):
    """Runs models on this machine, with llama.cpp.

    `engines` is a pool of engines (default: the pool that the whole process shares). `hub` is the
    hub from which models are downloaded (default: configured by environment variables).
    """

    def __init__(
        self, name: str, engines: EnginePool | None = None, hub: Hub | None = None
    ) -> None:
        super().__init__(name)
        self._engines = engines
        self._hub = hub

    async def exchange(self, x: Exchange) -> AsyncGenerator[bytes, None]:
        """Yield the answer of the model's engine, which is started if necessary.

        If a user has set a base URL, the server at that URL is used and no engine is started.
        """
        settings = x.options.settings
        if self.given_url(x.options):
            async for piece in super().exchange(x):
                yield piece
            return
        numbers = engine_numbers(x.model, settings, os.environ)
        kept_as = cache_type(settings, os.environ)
        file = file_of(x.model, os.environ)
        if isinstance(file, Path):
            path = file
        else:
            hub = self._hub or Hub.of(os.environ)
            path = hub.path(file)
            if not path.is_file():
                async with aclosing(_download(hub, file, x.call)) as signs:
                    async for sign in signs:
                        yield sign
        async with (self._engines or shared_pool()).lease(
            _settings(path, numbers, kept_as)
        ) as engine:
            x.options = evolve(x.options, base_url=engine.url, api_key=engine.key)
            try:
                async for piece in super().exchange(x):
                    yield piece
            except ProviderFailure as error:
                if await engine.lost():
                    raise ProviderFailure(engine.failure()) from error
                raise


def _settings(path: Path, numbers: dict[str, int | None], kept_as: str) -> Settings:
    return Settings(
        path.resolve(),
        numbers["context"] or 0,
        numbers["gpu_layers"],
        numbers["threads"],
        kept_as,
        numbers["cache_ram"] or 0,
    )


async def _download(hub: Hub, file: HubFile, call: Call) -> AsyncGenerator[bytes, None]:
    """Download a file in a thread.

    Yield empty bytes whenever data has arrived, so that the call does not time out. Add a notice to
    the call whenever the text of `_progress` has changed.
    """
    loop, moved, stopped = asyncio.get_running_loop(), asyncio.Event(), threading.Event()
    latest: list[tuple[int, int | None]] = []

    def tell(done: int, total: int | None) -> None:
        if not stopped.is_set():
            latest[:] = [(done, total)]
            loop.call_soon_threadsafe(moved.set)

    future = asyncio.wrap_future(in_thread(lambda: hub.download(file, tell, stopped)))
    future.add_done_callback(lambda _: moved.set())
    told = ""
    try:
        while not future.done():
            await moved.wait()
            moved.clear()
            if latest and (text := _progress(*latest[0])) != told:
                told = text
                call.notice("download", f"{file}: {text}")
            yield b""
        future.result()
    finally:
        stopped.set()


def _progress(done: int, total: int | None) -> str:
    """Return a download's progress as text, in steps of 5 % (100 MB if the total is unknown)."""
    if not total:
        return f"{done // 100_000_000 * 100} MB"
    return f"{20 * done // total * 5} % of {size_text(total)}"
