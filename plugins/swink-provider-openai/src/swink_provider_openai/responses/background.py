"""Background responses: stream or poll them, resume them after an interruption, cancel them.

Source: OpenAI's guide "Background mode". The service stores such a response, and continues it even
without a connection. Events are numbered, and a new stream can begin after any event, so no event
is lost by an interruption. Only complete events are passed on, because a resumed stream repeats an
event that was cut off. If a server does not number its events, its stream is not resumed: a new
stream would begin again, and repeat what has already been passed on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

import msgspec

from swink_core import Failure, ProviderFailure, StreamErrorKind, StreamOptions
from swink_core.providers import Exchange, FrameError, HTTPRequest, SSEDecoder

__all__ = ["followed", "is_background", "polled", "resumed"]

UNFINISHED = ("queued", "in_progress")

FAILURES = 5
"""After this many consecutive requests without a new event, the call fails."""

FIRST_WAIT = 1.0
LONGEST_WAIT = 10.0
"""The maximum number of seconds between two requests."""

Cancel = Callable[[str], HTTPRequest]
"""A function that takes the id of a response and returns the request that cancels it."""

Resume = Callable[[str, int | None], HTTPRequest]
"""A function that returns the request for the events of a response after a given event.

Its arguments are the id of the response and the number of the last event received. If the number is
`None`, the request is for all events.
"""


class _Named(msgspec.Struct):
    id: str | None = None
    status: str | None = None


class _Event(msgspec.Struct):
    sequence_number: int | float | None = None
    response: _Named | None = None


def is_background(options: StreamOptions) -> bool:
    """Return True if the call requests a background response."""
    asked = options.settings.get("background", options.extra.get("background"))
    return bool(asked)


def resumed(url: str, id: str, settings: Mapping[str, Any], streamed: bool) -> str:
    """Return the URL for resuming a response. `url` is the URL for creating responses.

    Source: "Get a model response". The setting `starting_after` is the number of the last event
    received.
    """
    after = settings.get("starting_after")
    asked = {"stream": "true"} if streamed else {}
    asked |= {} if after is None else {"starting_after": str(after)}
    return _below(url, [id], urlencode(asked))


def cancelled(url: str, id: str) -> str:
    """Return the URL for cancelling a response. `url` is the URL for creating responses.

    Source: "Cancel a response".
    """
    return _below(url, [id, "cancel"])


def _below(url: str, names: list[str], query: str = "") -> str:
    parts = urlsplit(url)
    path = "/".join([parts.path, *(quote(name, safe="") for name in names)])
    return urlunsplit(parts._replace(path=path, query="&".join(filter(None, [parts.query, query]))))


async def followed(
    x: Exchange, resume: Resume, cancel: Cancel | None, id: str | None, after: int | None
) -> AsyncIterator[bytes]:
    """Yield the events of a response, and resume it when its stream is interrupted.

    A stream whose events have no numbers is not resumed.

    `id` is the id of a response that the service has already begun (`None`: begin a new one), and
    `after` is the number of the last event received. If the caller closes the stream early, the
    request from `cancel` is sent; if `cancel` is `None`, the service continues the response. Raises
    ProviderFailure if a request fails permanently, or too often in a row.
    """
    request: HTTPRequest | None = None
    failures = 0
    received = numbered = False
    while True:
        decoder = SSEDecoder()
        body = x.stream(request)
        cut: ProviderFailure | None = None
        try:
            async for data in body:
                whole = b""
                for frame in _frames(decoder, data):
                    event = _event(frame)
                    received = True
                    if id is None and event.response is not None and event.response.id:
                        id = event.response.id
                        if cancel is not None:
                            x.on_abandon(cancel(id))
                    if event.sequence_number is not None:
                        after = int(event.sequence_number)
                        numbered, failures = True, 0
                    whole += b"data: %b\n\n" % frame.replace(b"\n", b"\ndata: ")
                yield whole
                if x.stopped:
                    return
        except ProviderFailure as error:
            if id is None or not _passes(error.failure):
                raise
            cut = error
        finally:
            await body.aclose()
        failures += 1
        if id is None or failures > FAILURES or (received and not numbered):
            if cut is not None:
                raise cut
            return
        x.call.notice("resumed", f"{x.model}: the stream of {id} was cut and is resumed")
        await x.sleep(_wait(failures))
        request = resume(id, after)


async def polled(x: Exchange, resume: Resume, cancel: Cancel | None) -> AsyncIterator[bytes]:
    """Poll a response: yield empty bytes for each poll, and the response when it is finished.

    Raises ProviderFailure if a request fails permanently, or too often in a row.
    """
    data = await x.read()
    found = _state(data)
    if found.id is not None and cancel is not None:
        x.on_abandon(cancel(found.id))
    requests = failures = 0
    while found.id is not None and found.status in UNFINISHED:
        yield b""
        requests += 1
        await x.sleep(_wait(requests))
        try:
            data = await x.read(resume(found.id, None))
        except ProviderFailure as error:
            failures += 1
            if failures > FAILURES or not _passes(error.failure):
                raise
            continue
        failures = 0
        found = _state(data)
    yield data


def _wait(number: int) -> float:
    return min(FIRST_WAIT * 2.0 ** min(number - 1, 8), LONGEST_WAIT)


def _passes(failure: Failure) -> bool:
    """Return True if a failure is temporary: no HTTP status, status 429, or 500 and above."""
    status = failure.status
    return status is None or status == 429 or status >= 500


def _frames(decoder: SSEDecoder, data: bytes) -> list[bytes]:
    try:
        return [frame for frame in decoder.feed(data) if frame]
    except FrameError as error:
        kind = StreamErrorKind.PROTOCOL
        failure = Failure("streaming", kind=kind, code="frame", message=str(error))
        raise ProviderFailure(failure) from error


def _event(frame: bytes) -> _Event:
    """Return the number of an event and, if the event contains a response, the response's id.

    For invalid JSON, return an object without these fields; the parser will report the error.
    """
    try:
        return msgspec.json.decode(frame, type=_Event)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _Event()


def _state(data: bytes) -> _Named:
    try:
        return msgspec.json.decode(data, type=_Named)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _Named()
