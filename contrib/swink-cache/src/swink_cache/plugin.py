"""The plugin that caches the calls of all clients (entry-point group `swink.plugins`)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from swink_cache.cache import MOST_BYTES, SwinkCache
from swink_core import UsageError

__all__ = ["CachePlugin"]

PATH_ENV = "SWINK_CACHE"
"""The environment variable with the path of the SQLite file; unset, empty or `off`: no cache."""

TTL_ENV = "SWINK_CACHE_TTL"
"""The variable with the lifetime of answers, such as `90s`, `12h` or `7d`; unset: no limit."""

SIZE_ENV = "SWINK_CACHE_MB"
"""The variable with the maximum size of all cached answers in megabytes."""

SHARED_ENV = "SWINK_CACHE_SHARED"
"""The variable that makes callers with different credentials share answers, if it is `1`."""

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class CachePlugin:
    """A plugin that caches answers if the environment variables enable the cache."""

    def __new__(cls, environ: Mapping[str, str] | None = None) -> Any:
        """Create a cache, or an object without hooks if the variables enable no cache.

        Raises UsageError for an invalid setting.
        """
        environ = os.environ if environ is None else environ
        path = environ.get(PATH_ENV, "").strip()
        if path in ("", "off"):
            return super().__new__(cls)
        return SwinkCache(
            path,
            ttl=_seconds(environ.get(TTL_ENV, "")),
            max_bytes=_bytes(environ.get(SIZE_ENV, "")),
            shared=environ.get(SHARED_ENV, "") == "1",
        )


def _seconds(words: str) -> float | None:
    if not words.strip():
        return None
    try:
        return float(words.strip()[:-1]) * _UNITS[words.strip()[-1]]
    except (KeyError, ValueError):
        raise UsageError(
            f"{TTL_ENV} is {words!r}, which is no time", resolution="Write 90s, 30m, 12h or 7d."
        ) from None


def _bytes(words: str) -> int:
    try:
        return int(float(words) * 1e6) if words.strip() else MOST_BYTES
    except (ValueError, OverflowError):
        raise UsageError(
            f"{SIZE_ENV} is {words!r}, which is no number", resolution="Write megabytes, as in 500."
        ) from None
