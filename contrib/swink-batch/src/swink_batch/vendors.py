"""Vendors' batch APIs: rows are handed over together, answered within a day, and cost about half.

A provider's package has a part of its own for it, an entry point of the group `swink.batches`: a
class without arguments whose methods yield requests, are sent the bodies of their answers, and
return what those say (`BatchAPI`). Rows become requests, and results become answers, by the
provider's own adapter: a client asks with a wire that keeps the request, and later with one that
has the answer already.
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
"""What prices call a batch's."""

CONNECT_SECONDS = 30.0

EXCERPT = 300
"""Characters of a refusal that are told."""


class BatchAPI(Protocol):
    """How a vendor takes batches. `like` is a request that would ask for a row by itself.

    A batch takes `most_requests` of `most_bytes` together, and costs `share` of what the answers
    would by themselves where the catalogue has no prices of batches (`None`: nobody knows).
    """

    most_requests: int
    most_bytes: int
    share: float | None

    def submit(
        self, like: HTTPRequest, rows: Sequence[tuple[str, bytes]], token: str
    ) -> Generator[HTTPRequest, bytes, str]:
        """Begin a batch of ids and requests' bodies; returns its id.

        The vendor keeps `token`, 24 hexadecimal digits, with the batch: in its metadata or name,
        or else in each row's id, which `results` then removes.
        """

    def find(
        self, like: HTTPRequest, intent: Intent
    ) -> Generator[HTTPRequest, bytes, Sequence[str] | None]:
        """Look for the batch that was submitted with a token, in the vendor's list of batches.

        Returns its id in a list, an empty list if there is no such batch, and `None` if a batch
        has to end before it can be known.
        """

    def poll(
        self, like: HTTPRequest, id: str
    ) -> Generator[HTTPRequest, bytes, Sequence[str] | None]:
        """Look at a batch; returns where its results are, and `None` while it has not ended."""

    def results(
        self, like: HTTPRequest, id: str, sources: Sequence[str]
    ) -> Generator[HTTPRequest, bytes, Sequence[tuple[str, int, bytes]]]:
        """Fetch ids with the status and the body of their answers."""

    def cancel(self, like: HTTPRequest, id: str) -> Generator[HTTPRequest, bytes, None]:
        """End a batch; what was answered by then stays."""


class Vendor:
    """One model's batch API, reached with the credentials of a client."""

    def __init__(self, provider: str, client: Mapping[str, Any]) -> None:
        self._wire = _Wire()
        self._alone = asyncio.Lock()  # on the wire
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
        """Return the body of the request that a stream's call would send. Raises SwinkError."""
        async with self._alone:
            self._wire.begin(None)
            try:
                await stream.result()
            except SwinkError:
                if self._wire.request is None:
                    raise
            like = self._wire.request
        assert like is not None
        self._call, self._like = stream.call, like
        return like.body

    async def answer(self, stream: Any, status: int, body: bytes) -> Any:
        """Return a call's result as its answer says it. Raises SwinkError."""
        async with self._alone:
            self._wire.begin((status, body))
            return await stream.result()

    async def submit(self, rows: Sequence[tuple[str, bytes]], token: str) -> str:
        """Begin a batch and return its id. Raises SwinkError: `Unsettled` where the vendor may
        have taken it."""
        id: str = await self._carry_out("submit", rows, token)
        return id

    async def find(self, intent: Intent) -> Sequence[str] | None:
        """Look for the batch of a submission, as `BatchAPI.find`; `None` also where the vendor
        does not answer at the moment. Raises SwinkError."""
        try:
            found: Sequence[str] | None = await self._carry_out("find", intent)
        except Unsettled:
            return None
        return found

    async def poll(self, id: str) -> Sequence[str] | None:
        """Return where a batch's results are; `None` while it has not ended."""
        try:
            found: Sequence[str] | None = await self._carry_out("poll", id)
        except Unsettled:
            return None
        return found

    async def results(self, id: str, sources: Sequence[str]) -> Sequence[tuple[str, int, bytes]]:
        """Fetch the results of a batch that has ended. Raises SwinkError."""
        found: Sequence[tuple[str, int, bytes]] = await self._carry_out("results", id, sources)
        return found

    async def cancel(self, id: str) -> None:
        """End a batch; what was answered by then stays. Raises SwinkError."""
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
        await call.attempt.target.binding.provider.authorize(request, call.options, call)
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


_REFUSED = "The vendor's batch API did not do it"

_AGAIN = "Correct what the message names and start the run again: it goes on where it is."


class Unsettled(SwinkError):
    """A failure that may pass by itself, and does not tell whether the vendor did it."""


def batch_price(call: Call, usage: Usage | None, share: float | None) -> float | None:
    """Return what an answer of a batch cost, in US dollars; `None` where nobody knows.

    `share` is that of an ordinary price, for a model without one of batches (`None`: not known).
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
    """Return the most that a row of a batch is expected to cost; `share` as in `batch_price`."""
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
            f"nothing here knows a batch API of {provider}",
            resolution=f"Those known are of: {known}. Leave --via batch out to make calls.",
        )
    api: BatchAPI = points[provider].load()()
    return api


class _Answer:
    """A response that is here already."""

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
    """Where a network would be: keeps what is sent, and answers with what it was given."""

    def __init__(self) -> None:
        self.request: HTTPRequest | None = None
        self._answer: tuple[int, bytes] | None = None

    def begin(self, answer: tuple[int, bytes] | None) -> None:
        """Have the next request answered so, or kept."""
        self.request, self._answer = None, answer

    async def send(self, request: HTTPRequest, connect_timeout: float | None) -> _Answer:
        if self._answer is not None:
            return _Answer(*self._answer)
        self.request = request
        why = "it is sent with its batch"
        raise ProviderFailure(Failure("request", kind=Kind.CANCELLED, code="kept", message=why))

    def close_idle(self) -> None:
        """Do nothing."""

    async def aclose(self) -> None:
        """Do nothing."""
