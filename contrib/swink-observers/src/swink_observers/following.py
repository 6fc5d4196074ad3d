"""Follow a feed over HTTP, and reconnect when the connection is lost."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from typing import Any

import msgspec
from aiohttp import BasicAuth, ClientError, ClientSession, ClientTimeout
from aiohttp.http_exceptions import LineTooLong
from aiohttp_sse_client2.client import EventSource
from attrs import define, field
from multidict import MultiDict
from yarl import URL

import swink_core as swink
from swink_observers.address import SETTING
from swink_observers.serving import HEARTBEAT_SECONDS

__all__ = ["DEFAULT_GATEWAY", "DEFAULT_URL", "Place", "following", "spending", "told_by"]

DEFAULT_URL = "http://127.0.0.1:8765/events"

DEFAULT_GATEWAY = "http://127.0.0.1:8117"

GATEWAY_KEY = "SWINK_GATEWAY_KEY"
"""The environment variable with the key of an operator of the gateway."""

_STATUS = re.compile(r"\bfetch \S+ failed[^:]*: (\d{3}): ")
"""Finds the HTTP status in the text of the client library's error, which has no status field."""

_OBJECT = msgspec.json.Decoder(dict[str, Any])


class _Spent(msgspec.Struct):
    """The fields of a gateway's spending report that `spent_cells` uses, for one key owner."""

    key: str
    requests: float
    tokens: float
    streams: float
    dollars_today: float
    dollars_this_month: float
    limits: dict[str, float | None]


AGAIN_SECONDS = 1.0
"""The number of seconds between two attempts to reconnect to a feed."""


@define(frozen=True)
class Place:
    """The address of a feed, and advice for a user if the feed does not respond.

    `spending` is the URL of a gateway's spending report. `headers` contain the gateway key, or the
    user name and password that were in the address.
    """

    url: str
    spending: str | None = None
    headers: Mapping[str, str] = field(factory=dict, repr=False)
    advice: str = f"Start a program with {SETTING}=8765 in its environment, or name another URL."

    @classmethod
    def of(cls, url: str, gateway: str | None, environ: Mapping[str, str] | None = None) -> Place:
        """Parse the URL of a feed, or of a gateway if `gateway` is given.

        Raises UsageError for an invalid URL.
        """
        url, headers = _address(url if gateway is None else gateway)
        if gateway is None:
            return cls(url, headers=headers)
        key = next(
            iter((os.environ if environ is None else environ).get(GATEWAY_KEY, "").split()), ""
        )
        base = url.rstrip("/")
        if key:
            headers = {"Authorization": f"Bearer {key}"}
        advice = f"Start swink gateway there; {GATEWAY_KEY} has to hold the key of an operator."
        return cls(f"{base}/v1/events", f"{base}/v1/spending", headers, advice)

    @property
    def shown(self) -> str:
        """The address for display, without its query, which may contain a credential."""
        return self.url.partition("?")[0]


def _address(given: str) -> tuple[str, dict[str, str]]:
    """Return an address without user name and password, and a header that contains both."""
    shown = given.rpartition("@")[2].partition("?")[0]
    try:
        url = URL(given)
        if url.scheme not in ("http", "https"):
            raise ValueError("it does not begin with http:// or https://")
        if not url.host:
            raise ValueError("it names no host")
    except ValueError as error:
        raise swink.UsageError(
            f"{shown!r} is not a valid URL: {error}",
            title="No feed",
            resolution=f"Write it in full, as in {DEFAULT_URL}",
        ) from None
    user = BasicAuth.from_url(url, encoding="utf-8")
    headers = {"Authorization": user.encode()} if user else {}
    return (str(url.with_user(None)) if user else given), headers


async def spending(place: Place) -> list[dict[str, Any]]:
    """Return the spending of a gateway's keys; empty if the server does not report it."""
    if place.spending is None:
        return []
    limits = ClientTimeout(total=10)
    async with ClientSession(timeout=limits, headers=place.headers) as session:
        try:
            async with session.get(place.spending, raise_for_status=True) as response:
                rows: list[dict[str, Any]] = (await response.json())["data"]
                msgspec.convert(rows, list[_Spent])
                return rows
        except (ClientError, OSError, TimeoutError, LookupError, TypeError, ValueError):
            return []  # a failure of the server is reported by the reader of the feed


async def following(
    place: Place, last: int, lost: Callable[[], None]
) -> AsyncGenerator[tuple[str, dict[str, Any]], None]:
    """Yield the name and data of each record of a feed, forever.

    The first records are the newest stored ones, at most `last`. After a lost connection, reconnect
    and read the missed records. `lost` is called once for each lost connection, not for each failed
    attempt to reconnect. Raises SwinkError if the feed is not available at the start.
    """
    read = ""  # the id of the last record that was read; a new connection resumes after it
    is_new, is_lost = True, False
    # the default session of the client library would end every stream after five minutes
    limits = ClientTimeout(total=None, sock_connect=10, sock_read=3 * HEARTBEAT_SECONDS)
    async with ClientSession(timeout=limits) as session:
        while True:
            headers = MultiDict({**place.headers, **({"Last-Event-ID": read} if read else {})})
            source = EventSource(
                str(URL(place.url).update_query(last=last)), session=session, headers=headers
            )
            try:
                await source.connect()
                is_new = is_lost = False
                async with aclosing(_events(source)) as records:
                    async for event in records:
                        read = event.last_event_id
                        with told_by(place):
                            data = _OBJECT.decode(event.data)
                        yield event.type or "message", data
            except (ClientError, OSError, TimeoutError, ValueError) as error:
                if is_new:
                    raise _none(place, error) from error
            except LineTooLong as error:
                raise _none(place, ValueError("a line of it is too long")) from error
            finally:
                await source.close()
            if not is_lost:
                is_lost = True
                lost()
            await asyncio.sleep(AGAIN_SECONDS)


@contextmanager
def told_by(place: Place) -> Iterator[None]:
    """Raise SwinkError for an invalid record in the `with` block.

    The message says that the server does not serve a feed.
    """
    try:
        yield
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise _none(place, error) from error


async def _events(source: EventSource) -> AsyncGenerator[Any, None]:
    async for event in source:  # the library reconnects if the feed merely ended
        yield event


def _none(place: Place, error: Exception) -> swink.SwinkError:
    why = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if refused := _STATUS.search(why):
        why = f"HTTP {refused[1]}"
    why = re.sub(rf"{re.escape(place.shown)}\S*", place.shown, why)
    return swink.SwinkError(
        f"there is no feed of calls at {place.shown} ({why})",
        title="No feed",
        resolution=place.advice,
    )
