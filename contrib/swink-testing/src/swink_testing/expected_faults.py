"""The expected result of a call for each of the `standard_faults`, and for each HTTP status."""

from __future__ import annotations

from swink_core import StreamErrorKind as Kind
from swink_testing.chaos import STATUSES

__all__ = ["AFTER_THE_END", "FAILS", "FULL_STREAM", "HALFWAY", "STATUS_KINDS", "TOO_DAMAGED"]

STATUS_KINDS = {
    400: Kind.INVALID_REQUEST,
    401: Kind.AUTH,
    402: Kind.QUOTA_EXHAUSTED,
    403: Kind.AUTH,
    404: Kind.MODEL_NOT_FOUND,
    408: Kind.NETWORK,
    413: Kind.INVALID_REQUEST,
    422: Kind.INVALID_REQUEST,
    429: Kind.THROTTLED,
    500: Kind.NETWORK,
    502: Kind.NETWORK,
    503: Kind.OVERLOADED,
    504: Kind.NETWORK,
    529: Kind.OVERLOADED,
}
"""The error kind of an HTTP status if the body gives no reason (RFC 9110; 529: overloaded)."""

FULL_STREAM = {
    "good", "drip", "slow-head", "gzip", "length-too-long", "broken-frame", "broken-frames-3",
    "noise", "terminal-twice", "content-after-terminal", "comments-between",
}  # fmt: skip
"""Faults after which the answer is complete, if the parser skips damaged additional frames."""

AFTER_THE_END = {"terminal-twice", "content-after-terminal"}
"""Faults that send frames after the last frame of an answer, if one frame marks the end."""

FAILS = {
    "closed-before-head": Kind.NETWORK,
    "reset-before-head": Kind.NETWORK,
    "closed-after-head": Kind.NETWORK,
    "reset-after-head": Kind.NETWORK,
    "html-page": Kind.PROTOCOL,
    "empty-body": Kind.NETWORK,
    "gzip-claimed": Kind.PROTOCOL,
    "encoding-unknown": Kind.PROTOCOL,
    "redirect-loop": Kind.PROTOCOL,
    "meta-only": Kind.NETWORK,
    **{f"status-{status}": STATUS_KINDS[status] for status in STATUSES},
}
"""Faults before any content of the answer, and the expected error kinds."""

HALFWAY = {
    "closed-halfway": Kind.NETWORK,
    "reset-halfway": Kind.NETWORK,
    "length-too-short": Kind.NETWORK,
}
"""Faults in the middle of the body, and the expected error kinds."""

TOO_DAMAGED = {"gzip-truncated": Kind.NETWORK, "broken-frames-4": Kind.PROTOCOL}
"""Faults before which an unknown part of the answer is received, and the expected error kinds."""
