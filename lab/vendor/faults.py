"""How the vendor breaks on demand.

A fault is chosen for a request by a header (`x-vendor-fault`, JSON), by a script in the prompt
(its key `fault`), by the control API's queue, or by a schedule drawn from a seed, in that order.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from lab.vendor.failures import Failure, FailureKind

__all__ = ["Fault", "FaultKind", "FaultQueue", "Schedule"]

FaultKind = Literal[
    "status", "rate_limit", "quota", "overload", "overflow", "filter", "server", "auth",
    "cut", "reset", "silence", "slow", "garbage", "damaged", "content_type", "empty", "kill",
]  # fmt: skip

_FAILURES: dict[str, FailureKind] = {
    "rate_limit": "rate_limit",
    "quota": "quota",
    "overload": "overloaded",
    "overflow": "overflow",
    "filter": "filter",
    "server": "server",
    "auth": "auth",
}
_BY_STATUS: dict[int, FailureKind] = {
    400: "invalid",
    401: "auth",
    403: "permission",
    404: "not_found",
    408: "timeout",
    413: "too_large",
    429: "rate_limit",
    503: "overloaded",
    504: "timeout",
    529: "overloaded",
}
_MESSAGES: dict[FailureKind, str] = {
    "auth": "Invalid API key.",
    "permission": "Your API key does not have permission to use the specified resource.",
    "not_found": "The requested resource was not found.",
    "too_large": "Request exceeds the maximum size.",
    "rate_limit": "Rate limit reached. Please try again later.",
    "quota": "You exceeded your current quota, please check your plan and billing details.",
    "overloaded": "Overloaded",
    "server": "The server had an error while processing your request.",
    "timeout": "The request timed out.",
    "overflow": "Your input exceeds the context window of this model.",
    "filter": "The response was filtered due to the prompt triggering our content policy.",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One way of breaking.

    `after` is the place: `None` before the answer's head, a number after so many output tokens (0:
    after the head, before content), `end` before what ends the stream. The kinds:

    * `status` (with `status`), `rate_limit`, `quota`, `overload`, `overflow`, `server`, `auth`: the
      API's own error, within the stream where the head is out; `retry_after` in seconds;
    * `filter`: the content filter, of the prompt before the head, of the output after it;
    * `cut` closes the connection, `reset` resets it, `empty` ends the answer where it is;
    * `silence` waits for `seconds` (`None`: until the client leaves), then goes on;
    * `slow` takes `seconds` more for each token;
    * `garbage` sends bytes that mean nothing, then goes on; `damaged` changes a bit of the
      next frame;
    * `content_type`: a page of HTML with status 200;
    * `kill`: the vendor dies, all connections are reset, and it is back after `seconds`.

    For a request that generates nothing, such as one that creates a batch, any number in `after`
    means: it was carried out, and the response breaks.

    It holds for `times` requests of those that `account`, `api`, `model` and `path` match (`None`:
    all of them; `path` is searched in the request's path).
    """

    kind: FaultKind
    after: int | Literal["end"] | None = None
    seconds: float | None = None
    status: int | None = None
    retry_after: float | None = None
    message: str | None = None
    code: str | None = None
    times: int = 1
    account: str | None = None
    api: str | None = None
    model: str | None = None
    path: str | None = None

    @classmethod
    def of(cls, data: Any) -> Fault:
        """Read a fault from JSON data. Raises ValueError for one that cannot be read."""
        if not isinstance(data, dict):
            raise ValueError(f"a fault is an object, not {data!r}")
        unknown = data.keys() - {field.name for field in fields(cls)}
        if unknown:
            raise ValueError(f"unknown fields of a fault: {', '.join(sorted(unknown))}")
        if data.get("kind") not in get_args(FaultKind):
            kinds = ", ".join(get_args(FaultKind))
            raise ValueError(f"unknown kind of fault {data.get('kind')!r}; one of {kinds}")
        if data["kind"] == "status" and not isinstance(data.get("status"), int):
            raise ValueError("a fault of kind `status` needs a `status`")
        return cls(**data)

    def as_json(self) -> dict[str, Any]:
        """Return the fault as JSON data, without what is not set."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @property
    def failure(self) -> Failure | None:
        """Return the API error that the fault is, or `None` for other kinds."""
        if self.kind == "status":
            status = self.status or 500
            kind = _BY_STATUS.get(status, "invalid" if status < 500 else "server")
        elif self.kind in _FAILURES:
            kind = _FAILURES[self.kind]
        else:
            return None
        message = self.message or _MESSAGES.get(kind, "Bad request.")
        return Failure(
            kind, message, status=self.status, code=self.code, retry_after=self.retry_after
        )

    def matches(self, account: str, api: str, model: str, path: str) -> bool:
        """Return whether the fault applies to such a request."""
        return (
            self.account in (None, account)
            and self.api in (None, api)
            and self.model in (None, model)
            and (self.path is None or self.path in path)
        )


class FaultQueue:
    """Faults that wait for a request that they match."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Fault, int]] = []

    def add(self, fault: Fault) -> None:
        """Add a fault behind those that wait."""
        self._waiting.append((fault, fault.times))

    def clear(self) -> None:
        """Drop the faults that wait."""
        self._waiting.clear()

    def waiting(self) -> list[Fault]:
        """Return the faults that wait."""
        return [fault for fault, _ in self._waiting]

    def take(self, account: str, api: str, model: str, path: str) -> Fault | None:
        """Return the first fault for a request, and count it."""
        for at, (fault, left) in enumerate(self._waiting):
            if fault.matches(account, api, model, path):
                if left <= 1:
                    del self._waiting[at]
                else:
                    self._waiting[at] = (fault, left - 1)
                return fault
        return None


@dataclass(frozen=True, slots=True)
class Schedule:
    """Faults for a part of all requests, drawn from a seed and the request's number.

    `rate` is the part that breaks, from 0 to 1. `most_tokens` bounds the place within an answer.
    """

    seed: int
    rate: float
    kinds: Sequence[FaultKind] = (
        "rate_limit", "overload", "server", "cut", "reset", "empty", "damaged", "garbage",
    )  # fmt: skip
    most_tokens: int = 40
    seconds: float = 0.05

    def fault(self, number: int) -> Fault | None:
        """Return the fault of a request, or `None` where it is served."""
        chance = random.Random(f"{self.seed} {number}")
        if chance.random() >= self.rate:
            return None
        place = chance.randint(-1, self.most_tokens)
        kind = chance.choice(list(self.kinds))
        after = None if place < 0 else place
        retry_after = chance.choice([None, 0.01])
        return Fault(kind, after=after, seconds=self.seconds, retry_after=retry_after)
