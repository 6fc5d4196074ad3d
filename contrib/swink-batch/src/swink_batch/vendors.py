"""Vendors' batch APIs: rows are submitted together, answered within a day, and cost about half.

A provider package implements a batch API through an entry point of the group `swink.batches`: a
class whose constructor takes no arguments. Its methods yield requests, receive the bodies of the
responses, and return the parsed result (`BatchAPI`). The provider plugin converts rows to requests
and results to answers: `Vendor` makes a normal call with an HTTP client that only stores the
request, and later repeats the call with an HTTP client that returns the batch result as the
response.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator, Mapping, Sequence
from typing import Any, Protocol, Self

from swink import Client
from swink_batch.ledger import Intent
from swink_core import (
    Call,
    Charge,
    Cost,
    Failure,
    Host,
    ProviderFailure,
    StreamError,
    SwinkError,
    Usage,
    UsageError,
    replace,
)
from swink_core import StreamErrorKind as Kind
from swink_core.providers import AiohttpClient, HTTPRequest, cost_of, prompt_of, reservation

__all__ = ["BatchAPI", "Unsettled", "Vendor", "batch_price", "batch_reservation"]

GROUP = "swink.batches"

TERM = "batch"
"""The name of the batch prices in the catalogue."""

CONNECT_SECONDS = 30.0

EXCERPT = 300
"""The maximum length, in characters, of a vendor's rejection in an error message."""


class BatchAPI(Protocol):
    """A vendor's batch API. `like` is a row's normal request, whose URL and headers are reused.

    A batch contains at most `most_requests` requests, whose bodies have at most `most_bytes` bytes
    in total. If the catalogue has no batch prices, a batch costs `share` of the normal price
    (`None`: unknown).
    """

    most_requests: int
    most_bytes: int
    share: float | None

    def submit(
        self, like: HTTPRequest, rows: Sequence[tuple[str, bytes]], token: str
    ) -> Generator[HTTPRequest, bytes, str]:
        """Submit a batch of ids and request bodies, and return the id of the batch.

        The vendor stores `token` (24 hexadecimal digits) in the batch's metadata or name. If a
        batch has neither, each row's id contains the token, and `results` removes it from the ids.
        """

    def find(
        self, like: HTTPRequest, intent: Intent
    ) -> Generator[HTTPRequest, bytes, Sequence[str] | None]:
        """Look for the batch of a submission in the vendor's list of batches.

        Returns a list with the batch's id, or an empty list if the vendor has no such batch, or
        `None` if the batch may exist, but the vendor's list shows it only after it has ended.
        """

    def poll(
        self, like: HTTPRequest, id: str
    ) -> Generator[HTTPRequest, bytes, Sequence[str] | None]:
        """Check a batch; return the argument `sources` of `results`, or `None` while it runs.

        Raises ProviderFailure if the whole batch failed; its message is the vendor's reason.
        """

    def results(
        self, like: HTTPRequest, id: str, sources: Sequence[str]
    ) -> Generator[HTTPRequest, bytes, Sequence[tuple[str, int, bytes]]]:
        """Return a tuple for each row: its id, the HTTP status, and the body of the answer."""

    def cancel(self, like: HTTPRequest, id: str) -> Generator[HTTPRequest, bytes, None]:
        """Cancel a batch. Answers received by then are kept."""


class Vendor:
    """The batch API for one model, used with the credentials of a client."""

    def __init__(self, provider: str, client: Mapping[str, Any]) -> None:
        self._wire = _Wire()
        self._alone = asyncio.Lock()  # held during requests
        given = {**client, "http": self._wire, "retry": False, "breaker": False}
        self.client = Client(**given)
        self.api = _api_of(provider, self.client.host)
        self._http = client.get("http") or AiohttpClient()
        self._call: Call | None = None
        self._like: HTTPRequest | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.client.aclose()
        await self._http.aclose()

    async def request(self, stream: Any) -> bytes:
        """Return the request body that a stream's call would send.

        Raises SwinkError for an invalid call, and for a call that a plugin answers.
        """
        async with self._alone:
            self._wire.begin(None)
            try:
                await stream.result()
            except SwinkError:
                if self._wire.request is None:
                    raise
            like = self._wire.request
        if like is None:
            raise ProviderFailure(_ANSWERED)
        self._call, self._like = stream.call, like
        return like.body

    async def answer(self, stream: Any, status: int, body: bytes) -> Any:
        """Return a call's answer, parsed from a batch result.

        Raises SwinkError if the row failed; the error is an `Unsettled` if the result could not be
        parsed because the call has no credentials at the moment.
        """
        async with self._alone:
            self._wire.begin((status, body))
            try:
                return await stream.result()
            except StreamError as error:
                if self._wire.request is not None or error.kind not in (Kind.AUTH, *_PASSING):
                    raise
                advice = error.resolution or _AGAIN
                raise Unsettled(error.message, title=error.title, resolution=advice) from error

    async def submit(self, rows: Sequence[tuple[str, bytes]], token: str) -> str:
        """Submit a batch and return its id.

        Raises SwinkError if the submission fails; the error is an `Unsettled` if the vendor may
        have accepted the batch.
        """
        id: str = await self._carry_out("submit", rows, token)
        return id

    async def find(self, intent: Intent) -> Sequence[str] | None:
        """Look for the batch of a submission, as `BatchAPI.find` does.

        Also returns `None` if the vendor does not answer at the moment. Raises SwinkError for any
        other failure.
        """
        try:
            found: Sequence[str] | None = await self._carry_out("find", intent)
        except Unsettled:
            return None
        return found

    async def poll(self, id: str) -> Sequence[str] | None:
        """Return the argument `sources` of `results`, or `None` while the batch is running.

        Raises ProviderFailure if the whole batch failed, and SwinkError if the vendor rejects the
        request.
        """
        try:
            found: Sequence[str] | None = await self._carry_out("poll", id)
        except Unsettled:
            return None
        return found

    async def results(self, id: str, sources: Sequence[str]) -> Sequence[tuple[str, int, bytes]]:
        """Fetch the results of a batch that has ended. Raises SwinkError if this fails."""
        found: Sequence[tuple[str, int, bytes]] = await self._carry_out("results", id, sources)
        return found

    async def cancel(self, id: str) -> None:
        """Cancel a batch; answers received by then are kept. Raises SwinkError if this fails."""
        await self._carry_out("cancel", id)

    async def _carry_out(self, what: str, *arguments: Any) -> Any:
        steps = getattr(self.api, what)(self._like, *arguments)
        try:
            request = next(steps)
            while True:
                request = steps.send(await self._send(what, request))
        except StopIteration as end:
            return end.value

    async def _send(self, what: str, request: HTTPRequest) -> bytes:
        call = self._call
        assert call is not None
        try:
            await call.attempt.target.binding.provider.authorize(request, call.options, call)
        except ProviderFailure as error:  # it says nothing about the batch
            kind = Unsettled if error.failure.kind in _PASSING else SwinkError
            advice = error.resolution or _AGAIN
            raise kind(error.message, title=error.title, resolution=advice) from error
        try:
            response = await self._http.send(request, CONNECT_SECONDS)
            body = b"".join([piece async for piece in response])
        except ProviderFailure as error:
            raise Unsettled(str(error), title=_REFUSED, resolution=_AGAIN) from error
        if response.status < 300:
            return body
        kind = Unsettled if response.status in (408, 429) or response.status >= 500 else SwinkError
        said = body[:EXCERPT].decode("utf-8", "replace")
        why = f"to {what} a batch failed: HTTP {response.status}: {said}"
        raise kind(why, title=_REFUSED, resolution=_AGAIN)


_ANSWERED = Failure(
    "request",
    kind=Kind.CANCELLED,
    title="The row has no request to submit",
    message="a plugin answered the call of this row in place of the provider",
    resolution="Remove the plugin from the client, or omit --via batch to make calls.",
)

_PASSING = (Kind.NETWORK, Kind.TIMEOUT, Kind.OVERLOADED)
"""Failures of a token service that may pass while a batch runs."""

_REFUSED = "The vendor's batch API rejected the request"

_AGAIN = "Correct the problem in the message and start the run again: it resumes."


class Unsettled(SwinkError):
    """A failure, perhaps temporary, after which the vendor may nevertheless have the batch."""


def batch_price(call: Call, usage: Usage | None, share: float | None) -> float | None:
    """Return the cost of a batch answer in US dollars; `None` if unknown.

    If the catalogue has no batch prices, the cost is `share` of the normal price (`None`: unknown).
    """
    info = call.model.info
    prices = info.prices if info else None
    if usage is None or prices is None:
        return None
    if any(TERM in case.terms for case in prices.cases):
        usage, share = replace(usage, extra={**usage.extra, "terms": TERM}), 1.0
    cost: Cost | None = cost_of(usage, prices, call.clock.now())
    return cost.total * share if cost and cost.total is not None and share else None


def batch_reservation(call: Call, share: float | None) -> Charge:
    """Return the maximum expected charge of a row in a batch; for `share`, see `batch_price`."""
    info, context, options = call.model.info, call.context, call.options
    ordinary = reservation(info, call.provider_info, context, options)
    prompt = int(prompt_of(call.provider_info, context, options, info).most)
    price = batch_price(call, Usage(prompt, ordinary.tokens - prompt), share)
    return Charge(ordinary.tokens, ordinary.cost if price is None else price, True)


def _api_of(provider: str, host: Host) -> BatchAPI:
    dists = {id(entry.dist): entry.dist for entry in host.entries() if entry.dist is not None}
    found = (point for dist in dists.values() for point in dist.entry_points)
    points = {point.name: point for point in found if point.group == GROUP}
    if provider not in points:
        known = ", ".join(sorted(points)) or "none"
        raise UsageError(
            f"no batch API is available for {provider}",
            resolution=f"Available: {known}. Omit --via batch to make calls.",
        )
    api: BatchAPI = points[provider].load()()
    return api


class _Answer:
    """A response that is complete from the start."""

    def __init__(self, status: int, body: bytes) -> None:
        self.status = status
        self.headers = {"Content-Type": "application/json"}
        self._rest = [body] if body else []

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if not self._rest:
            raise StopAsyncIteration
        return self._rest.pop()

    def close(self) -> None:
        """Do nothing."""


class _Wire:
    """An HTTP client that stores the request, and returns a given answer."""

    sends_nothing = True  # no cache may answer its calls, which differ in nothing but the answer

    def __init__(self) -> None:
        self.request: HTTPRequest | None = None
        self._answer: tuple[int, bytes] | None = None

    def begin(self, answer: tuple[int, bytes] | None) -> None:
        """Set the answer to the next request; with `None`, only store the request."""
        self.request, self._answer = None, answer

    async def send(self, request: HTTPRequest, connect_timeout: float | None) -> _Answer:
        self.request = request
        if self._answer is not None:
            return _Answer(*self._answer)
        why = "it is sent with its batch"
        raise ProviderFailure(Failure("request", kind=Kind.CANCELLED, code="kept", message=why))

    def close_idle(self) -> None:
        """Do nothing."""

    async def aclose(self) -> None:
        """Do nothing."""
