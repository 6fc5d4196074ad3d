"""Limit the total call rate of processes on several machines, with turns assigned by Redis."""

from __future__ import annotations

import secrets
from contextlib import suppress
from typing import Any

from swink_batch.limits.turns import ALIVE_SECONDS, BURST
from swink_core import Failure, ProviderFailure, StreamErrorKind, UsageError

__all__ = ["RedisTurns"]

PREFIX = "swink:batch:"

SCHEMES = ("redis://", "rediss://", "unix://")

# The same algorithm as `turn` in limits/turns.py, with Redis's clock, which all processes share.
_TAKE = f"""
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local due = math.max(tonumber(redis.call('GET', KEYS[1]) or '0'), now - {BURST})
local after = due + ARGV[1] / ARGV[2]
local life = math.ceil((after - now) * 1000) + 1000
redis.call('SET', KEYS[1], string.format('%.6f', after), 'PX', life)
return string.format('%.6f', math.max(0, due - now))
"""

_MEMBERS = f"""
local now = tonumber(redis.call('TIME')[1])
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, now - {ALIVE_SECONDS})
redis.call('EXPIRE', KEYS[1], {ALIVE_SECONDS})
return redis.call('ZCARD', KEYS[1])
"""


class RedisTurns:
    """Assigns start times (turns) to the calls of all processes, with a Redis server.

    The address of the server is, for example, `redis://localhost:6379`. The Redis keys begin with
    `swink:batch:`, contain no credentials, and expire.
    """

    def __init__(self, url: str) -> None:
        if not url.startswith(SCHEMES):
            raise _no_address(url, f"the address must begin with one of {', '.join(SCHEMES)}")
        try:
            from redis import RedisError
            from redis import asyncio as redis
        except ImportError as error:
            raise UsageError(
                "limits cannot be shared: redis is not installed",
                resolution="pip install 'swink-batch[redis]'",
            ) from error
        self._error = RedisError
        try:
            pool: Any = redis.ConnectionPool.from_url(url)
            pool.make_connection()  # raises an error for an invalid query in the URL
        except (ValueError, TypeError, RedisError) as error:
            raise _no_address(url, str(error)) from error
        self._redis: Any = redis.Redis.from_pool(pool)
        self._take = self._redis.register_script(_TAKE)
        self._members = self._redis.register_script(_MEMBERS)
        self._name = secrets.token_hex(8)

    async def take(self, key: str, amount: float, rate: float) -> float:
        """Take a turn and return the seconds to wait for it."""
        return float(await self._ask(self._take, key, amount, rate))

    async def members(self) -> int:
        """Return the number of processes that recently called this method, including this one."""
        return int(await self._ask(self._members, "members", self._name))

    async def aclose(self) -> None:
        """Stop counting as a member, and close the connection."""
        with suppress(self._error):
            await self._redis.zrem(PREFIX + "members", self._name)
        await self._redis.aclose()

    async def _ask(self, script: Any, key: str, *arguments: Any) -> Any:
        try:
            return await script(keys=[PREFIX + key], args=arguments)
        except self._error as error:
            why = f"the server of shared limits did not answer: {error}"
            kind = StreamErrorKind.RESOURCE
            raise ProviderFailure(
                Failure("connect", kind=kind, code="limits", message=why)
            ) from error


def _no_address(url: str, why: str) -> UsageError:
    user, _, server = url.rpartition("@")  # the reason may contain part of a password
    given, why = ("…@", "") if user else ("", f": {why}")
    given += server.partition("?")[0]
    return UsageError(
        f"limits cannot be shared at {given!r}{why}",
        resolution="Pass the address of a Redis server: redis://HOST:6379, rediss://HOST, or "
        "unix:///PATH.",
    )
