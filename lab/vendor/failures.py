"""Why the vendor refuses or breaks off, before a protocol gives it its own words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Failure", "FailureKind", "Refused"]

FailureKind = Literal[
    "invalid", "auth", "permission", "not_found", "too_large", "rate_limit", "quota", "overloaded",
    "server", "timeout", "overflow", "filter", "signature",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Failure:
    """A refusal or a breakdown.

    `status` is the HTTP status, `None` for the one that the API uses for this kind. `code` and
    `param` are the structured parts of APIs that have them. `retry_after` is in seconds.
    """

    kind: FailureKind
    message: str
    status: int | None = None
    code: str | None = None
    param: str | None = None
    retry_after: float | None = None


class Refused(Exception):
    """A request that is answered with an error."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure
