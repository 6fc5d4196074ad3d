"""The record of all requests: the truth that others are compared with."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from lab.vendor.bill import Charge

__all__ = ["Ended", "Exchange", "Record", "without_keys"]

Ended = Literal["open", "complete", "refused", "hung up", "broken", "failed", "cancelled"]

_SECRET = {
    "authorization", "x-api-key", "x-goog-api-key", "api-key", "cookie", "x-amz-security-token",
    "proxy-authorization",
}  # fmt: skip


def without_keys(headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers in lower case, without those that carry a key."""
    lowered = {name.lower(): value for name, value in headers.items()}
    return {name: value for name, value in lowered.items() if name not in _SECRET}


@dataclass(slots=True)
class Exchange:
    """One request and what became of it.

    `ended` is `complete` when everything was sent, `refused` for an API error before the head,
    `failed` for one within the stream, `broken` for a fault of the connection or of the bytes,
    `hung up` when the client left first, `cancelled` for a background answer. `produced` lists the
    parts of each choice, cut where production stopped; `sent_tokens` the output tokens that were
    written to the client. `hung_up_after` is the number of output tokens at which the
    disconnect was noticed. `rule` is the id of the broken rule, `batch` that of the batch which
    contained the request.
    """

    number: int
    at: float
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    provider: str = ""
    api: str = ""
    account: str | None = None
    model: str = ""
    streamed: bool = False
    request_id: str = ""
    status: int | None = None
    message: str | None = None
    rule: str | None = None
    fault: dict[str, Any] | None = None
    produced: list[list[dict[str, Any]]] = field(default_factory=list)
    stops: list[str] = field(default_factory=list)
    sent_tokens: int = 0
    hung_up_after: int | None = None
    ended: Ended = "open"
    until: float | None = None
    charge: Charge | None = None
    batch: str | None = None

    @property
    def texts(self) -> list[str]:
        """Return the text of each choice."""
        return [
            "".join(part["text"] for part in parts if part["type"] == "text")
            for parts in self.produced
        ]

    def as_json(self) -> dict[str, Any]:
        """Return the exchange as JSON data; the body is text, or base64 where it is not UTF-8."""
        try:
            body: dict[str, str] = {"body": self.body.decode()}
        except UnicodeDecodeError:
            body = {"body_base64": base64.b64encode(self.body).decode()}
        return {
            "number": self.number,
            "at": self.at,
            "until": self.until,
            "method": self.method,
            "path": self.path,
            "query": self.query,
            "headers": self.headers,
            **body,
            "provider": self.provider,
            "api": self.api,
            "account": self.account,
            "model": self.model,
            "streamed": self.streamed,
            "request_id": self.request_id,
            "status": self.status,
            "message": self.message,
            "rule": self.rule,
            "fault": self.fault,
            "produced": self.produced,
            "stops": self.stops,
            "sent_tokens": self.sent_tokens,
            "hung_up_after": self.hung_up_after,
            "ended": self.ended,
            "batch": self.batch,
            "charge": None if self.charge is None else self.charge.as_json(),
        }


class Record:
    """All exchanges, in the order of their arrival."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []
        self._number = 0

    def open(self, exchange_at: float, method: str, path: str) -> Exchange:
        """Begin an exchange."""
        self._number += 1
        exchange = Exchange(self._number, exchange_at, method, path, {}, {}, b"")
        self.exchanges.append(exchange)
        return exchange

    def clear(self) -> None:
        """Forget all exchanges; numbers go on."""
        self.exchanges.clear()

    def of(self, account: str | None = None, since: int = 0) -> list[Exchange]:
        """Return the exchanges of an account (`None`: of all) after number `since`."""
        return [
            each
            for each in self.exchanges
            if each.number > since and account in (None, each.account)
        ]

    def charges(self, account: str | None = None, since: int = 0) -> list[Charge]:
        """Return the charges of those exchanges."""
        return [each.charge for each in self.of(account, since) if each.charge is not None]
