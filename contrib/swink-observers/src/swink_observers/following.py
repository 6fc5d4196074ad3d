"""Follow a feed over HTTP, through lost connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

import msgspec
from aiohttp import ClientError, ClientSession, ClientTimeout
from aiohttp_sse_client2.client import EventSource
from multidict import MultiDict
from yarl import URL

import swink_core as swink
from swink_observers.environment import SETTING
from swink_observers.serving import HEARTBEAT_SECONDS

__all__ = ["DEFAULT_URL", "following"]

DEFAULT_URL = "http://127.0.0.1:8765/events"

AGAIN_SECONDS = 1.0
"""Between two tries to find a feed again that was there."""


async def following(
    url: str, last: int, lost: Callable[[], None]
) -> AsyncGenerator[tuple[str, dict[str, Any]], None]:
    """Yield the records of a feed, by name and data, for ever; begin with the `last` ones.

    A connection that is lost is made again, and what came meanwhile is read; `lost` is called.
    Raises SwinkError where there is no feed to begin with.
    """
    place = ""  # the last id, which a new connection resumes from
    is_new = True
    # the library's own session would end every stream after five minutes
    limits = ClientTimeout(total=None, sock_connect=10, sock_read=3 * HEARTBEAT_SECONDS)
    async with ClientSession(timeout=limits) as session:
        while True:
            headers = MultiDict({"Last-Event-ID": place} if place else {})
            source = EventSource(
                str(URL(url).update_query(last=last)), session=session, headers=headers
            )
            try:
                await source.connect()
                is_new = False
                async with aclosing(_events(source)) as records:
                    async for event in records:
                        place = event.last_event_id
                        yield event.type or "message", msgspec.json.decode(event.data)
            except (ClientError, OSError, TimeoutError, ValueError) as error:
                if is_new:
                    raise _none(url, error) from error
            finally:
                await source.close()
            lost()
            await asyncio.sleep(AGAIN_SECONDS)


async def _events(source: EventSource) -> AsyncGenerator[Any, None]:
    async for event in source:  # the library connects again where the feed merely ended
        yield event


def _none(url: str, error: Exception) -> swink.SwinkError:
    why = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return swink.SwinkError(
        f"there is no feed of calls at {url} ({why})",
        title="No feed",
        resolution=f"Start a program with {SETTING}=8765 in its environment, or name another URL.",
    )
