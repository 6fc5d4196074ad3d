"""A connection to a Redis server, with its scripts, and a record of whether it is reachable."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any
from urllib.parse import urlsplit

from swink_core.providers import Clock
from swink_gateway.policy.limits.ledger import IS_LOST, LOST, StoreError

__all__ = ["ANSWER_SECONDS", "Connection"]

log = logging.getLogger(__name__)

ANSWER_SECONDS = 1.0
"""After this time in seconds without a reply, the server counts as lost."""

MOST_CONNECTIONS = 16

_ADDRESS = re.compile(r"unix://.+|rediss?://[^/?\s]*(/[0-9]*)?(\?\S*)?")


class Connection:
    """A pool of connections to the Redis server at `url`, with methods that run Lua scripts.

    `clock` replaces the server's clock in tests. In `counters`, `LOST` counts how often the
    server was lost, and `IS_LOST` is 1 while it is lost. `on_loss` is called each time with the
    error. `redis` is the client, and `failures` are the exceptions that are raised if the server is
    unreachable. Raises StoreError if the extra `redis` is not installed, and for an invalid
    address.
    """

    def __init__(
        self,
        url: str,
        scripts: Collection[str],
        clock: Clock | None,
        counters: Counter[str],
        on_loss: Callable[[Exception], None],
    ) -> None:
        try:
            from redis import RedisError
            from redis import asyncio as redis
            from redis.asyncio.retry import Retry
            from redis.backoff import NoBackoff
        except ImportError as error:
            raise StoreError(
                "limits cannot be shared: redis is not installed",
                resolution="pip install 'swink-gateway[redis]'",
            ) from error
        try:
            if not _ADDRESS.fullmatch(url):  # redis would connect to another address for such a URL
                raise ValueError(url)
            pool = redis.BlockingConnectionPool.from_url(
                url, max_connections=MOST_CONNECTIONS, timeout=ANSWER_SECONDS,
                socket_timeout=ANSWER_SECONDS, socket_connect_timeout=ANSWER_SECONDS,
                retry=Retry(NoBackoff(), 0),
            )  # fmt: skip
            pool.connection_class(**pool.connection_kwargs)  # checks the parameters of the URL
        except (ValueError, TypeError):  # its message may contain a part of the password
            raise StoreError(
                "limits cannot be shared: the store's url is not the address of a Redis server",
                resolution="Give an address such as redis://localhost:6379.",
            ) from None
        self.failures = (RedisError, OSError)
        self.redis: Any = redis.Redis.from_pool(pool)
        self.where = urlsplit(url).hostname or "its socket"
        self.is_lost = False
        self._losses = 0
        self._counters = counters
        self._on_loss = on_loss
        self._now = None if clock is None else clock.now
        self._scripts = {text: self.redis.register_script(text) for text in scripts}

    async def ask(self, script: str, keys: Sequence[str], *arguments: Any) -> Any:
        """Run a script and return its reply; `None` while the server is lost."""
        if self.is_lost:
            return None
        losses = self._losses
        try:
            reply = await self.run(script, keys, *arguments)
        except self.failures as error:
            if losses == self._losses:  # otherwise, the request was sent before the last loss
                self.lose(error)
        return reply if losses == self._losses else None  # ignore replies after a loss

    async def run(self, script: str, keys: Sequence[str], *arguments: Any) -> Any:
        """Run a script and return its reply.

        Raises one of `failures` if the server is unreachable.
        """
        now = "" if self._now is None else self._now().timestamp()
        reply = await self._scripts[script](keys=keys, args=[now, *arguments])
        return reply if reply is not None else []

    async def reconnect(self) -> None:
        """Close all connections, and open a new one.

        The server may have closed connections that wait in the pool, and the client would only
        notice this when it uses them. Raises one of `failures` if the server is unreachable.
        """
        await self.redis.connection_pool.disconnect()
        await self.redis.ping()

    def lose(self, error: Exception) -> None:
        """Mark the server as unreachable, until `regain` is called."""
        if self.is_lost:
            return
        self.set_aside()
        self._counters[LOST] += 1
        self._counters[IS_LOST] = 1
        self._on_loss(error)

    def regain(self) -> None:
        """Use the server again."""
        self.is_lost = False
        self._counters[IS_LOST] = 0

    def set_aside(self) -> None:
        """Send no scripts, and ignore the replies to earlier ones, until `regain`."""
        self.is_lost = True
        self._losses += 1

    async def check_eviction(self) -> None:
        """Log a warning if the server may delete budgets when its memory is full."""
        try:
            found = await self.redis.config_get("maxmemory*")
        except self.failures:
            return  # the server cannot be reached (`lose` logs it), or does not show its settings
        policy, most = found.get("maxmemory-policy", "noeviction"), found.get("maxmemory", "0")
        if policy != "noeviction" and int(most):
            log.warning(
                "Redis at %s deletes keys when its memory is full (maxmemory-policy %s), budgets "
                "among them: set maxmemory-policy noeviction",
                self.where, policy,
            )  # fmt: skip
