"""`SwinkCache`: a plugin that answers repeated requests from a cache.

    swink.Client(plugins=[SwinkCache("answers.sqlite", ttl=86400)])

The cache key consists of the canonical form of the request, the tenant (`Call.tenant`), and a
digest of the credentials. Only complete answers (`Done`) are cached. If identical calls run at the
same time, only the first call sends a request, and the other calls wait for its answer. If the
first call fails, one of the others sends a request.

The plugin wraps the hook `stream` of the provider. If a cached answer exists, the events of the
provider are never read, and the provider sends no request. A thread accesses the SQLite file, and
encodes and decodes JSON.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import swink_core as swink
from swink_cache.source import Batch, CachedSource
from swink_core.providers import first_set
from swink_recorder.canonical import canonical_request, digest_of
from swink_recorder.plugin import active

if TYPE_CHECKING:
    from swink_cache.shelf import Shelf

__all__ = ["MOST_BYTES", "SwinkCache"]

log = logging.getLogger(__name__)

MOST_BYTES = 500_000_000

FORM = 2
"""The version of the storage format.

It is a part of the key, so entries in other formats are not found.
"""

MOST_WAITING = 256
"""The maximum number of answers that wait to be written; further answers are not cached."""

T = TypeVar("T")


class SwinkCache:
    """Caches answers in the SQLite file at `path`, which any number of processes may share.

    An answer is returned for `ttl` seconds (`None`: without limit). If all answers together exceed
    `max_bytes`, the least recently used ones are deleted. With `shared`, credentials are not part
    of the key: any caller of the same tenant gets the same answer.

    If the cache cannot be read or written, calls do not fail: the error is logged once, and calls
    are made as without a cache. The creator of the cache must close it: `await cache.aclose()`.
    """

    api_level = 1

    def __init__(
        self,
        path: str | Path,
        *,
        ttl: float | None = None,
        max_bytes: int = MOST_BYTES,
        shared: bool = False,
    ) -> None:
        if (ttl is not None and not ttl > 0) or max_bytes <= 0:
            raise swink.UsageError(
                f"a cache with ttl={ttl} and max_bytes={max_bytes} keeps nothing",
                resolution="Give seconds and bytes above 0, or leave the cache out.",
            )
        try:
            self.path = Path(path).expanduser()
        except RuntimeError as error:
            raise swink.UsageError(
                f"{path}: there is no such home folder",
                resolution="Write the path of the cache in full.",
            ) from error
        self._ttl, self._max_bytes, self._shared = ttl, max_bytes, shared
        self._shelf: Shelf | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._keeping: set[asyncio.Task[bytes | None]] = set()
        self._told = False
        self._left_out: set[str] = set()

    @swink.hookimpl(wrapper=True)
    def stream(self, call: swink.Call) -> Generator[None, Any, Any]:
        """Return the cached events, or the events of the provider."""
        events = yield
        sends_nothing = getattr(call.http, "sends_nothing", False)
        if active() is not None or sends_nothing or call.attempt.target.continues:
            # A recording answers the call, or nobody does (a batch only needs the request), or the
            # answer depends on data stored by the provider.
            return events
        if not self._shared and not _caller_is_known(call):
            self._leave_out(call.model.provider)
            return events
        try:
            key = self._key(call)
        except Exception as error:
            self._tell(error)
            return events
        return CachedSource(self, key, events, call)

    async def aclose(self) -> None:
        """Write the remaining answers, and close the file."""
        here = asyncio.get_running_loop()
        keeping = [task for task in self._keeping if task.get_loop() is here]
        await asyncio.gather(*keeping, return_exceptions=True)
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.submit(self._close)
            await asyncio.to_thread(thread.shutdown)

    def _key(self, call: swink.Call) -> str:
        options, target = call.options, call.attempt.target
        whose: Any = None
        if not self._shared:
            headers = sorted((name.lower(), value) for name, value in options.headers.items())
            whose = [target.key, options.base_url, options.api_key, headers]
        return digest_of([FORM, canonical_request(call), call.tenant, digest_of(whose)])

    def _leave_out(self, provider: str) -> None:
        """Log, once per provider, that its calls are not cached: their credentials are unknown."""
        if provider not in self._left_out:
            self._left_out.add(provider)
            log.warning(
                "calls of %s are not cached: the provider finds credentials by itself, so their "
                "owner is unknown; shared=True caches them, in a file for this account alone",
                provider,
            )

    # -- called by `CachedSource` -------------------------------------------------------------

    async def find(self, key: str) -> bytes | None:
        """Return the stored answer; `None` if the file does not contain it or cannot be read."""
        try:
            return await self._run(lambda: self._opened().get(key))
        except Exception as error:
            self._tell(error)
            return None

    async def read(self, key: str, data: bytes) -> list[Batch] | None:
        """Return the events of an answer; if it cannot be decoded, delete it and return `None`."""
        from swink_cache.answers import decode

        try:
            return await self._run(lambda: decode(data))
        except Exception as error:  # it was written by another version, or is damaged
            self._tell(error)
        with suppress(Exception):
            await self._run(lambda: self._opened().forget(key))
        return None

    def keep(self, key: str, batches: list[Batch]) -> asyncio.Task[bytes | None]:
        """Start to store an answer, and return a task whose result is the stored data.

        Return `None` without storing the answer if too many answers wait to be written.
        """
        keeping = asyncio.ensure_future(self._kept(key, batches))
        self._keeping.add(keeping)
        keeping.add_done_callback(self._keeping.discard)
        return keeping

    async def _kept(self, key: str, batches: list[Batch]) -> bytes | None:
        if len(self._keeping) > MOST_WAITING:
            return None
        return await self._run(lambda: self._keep(key, batches))

    async def _run(self, work: Callable[[], T]) -> T:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "swink-cache")
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    # -- in the thread -----------------------------------------------------------------------

    def _opened(self) -> Shelf:
        from swink_cache.shelf import Shelf

        if self._shelf is None:
            self._shelf = Shelf(self.path, self._ttl, self._max_bytes)
        return self._shelf

    def _keep(self, key: str, batches: list[Batch]) -> bytes:
        from swink_cache.answers import encode

        data = encode(batches)
        try:
            self._opened().put(key, data)
        except Exception as error:
            self._tell(error)
        else:
            self._told = False
        return data

    def _close(self) -> None:
        if self._shelf is not None:
            self._shelf.close()

    def _tell(self, error: Exception) -> None:
        """Log an error; log no further errors until the cache has worked again."""
        if not self._told:
            self._told = True
            log.error("the cache %s does not work: %s: %s", self.path, type(error).__name__, error)


def _caller_is_known(call: swink.Call) -> bool:
    """Return True if the cache knows all credentials that the provider uses for a call."""
    info, options = call.attempt.provider_info, call.options
    if info is None or info.auth in ("none", "optional") or options.api_key:
        return True
    named = getattr(call.attempt.target.binding.provider, "credential_headers", ("authorization",))
    given = any(name.lower() in named for name in options.headers)
    return given or first_set(info.api_key_env) is not None
