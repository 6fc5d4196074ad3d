"""The expected result of each fault that the kit's checks do not inject."""

from __future__ import annotations

from swink_core import StreamErrorKind as Kind
from swink_testing.expected_faults import FAILS, FULL_STREAM, HALFWAY

__all__ = ["KNOWN", "MALFORMED", "NOTICES", "SAYS_NOTHING", "STALLS", "retries_of"]

NOTICES = {
    "broken-frame": ["malformed_frame"], "broken-frames-3": ["malformed_frame"] * 3,
    "noise": ["noise"] * 3,
}  # fmt: skip

_RETRIES = {Kind.NETWORK: 3, Kind.PROTOCOL: 1, Kind.THROTTLED: 5, Kind.OVERLOADED: 5}


def retries_of(name: str) -> int:
    """Return the number of retries of a call with a fault before any output."""
    return 0 if name == "redirect-loop" else _RETRIES.get(FAILS[name], 0)


STALLS = {"stall-before-head": None, "stall-after-head": 0, "stall-halfway": -1}

ELSEWHERE = {
    "gzip-truncated", "huge-frame", "broken-frames-4", "broken-frames-spread", "keep-alives-only",
}  # fmt: skip
"""Faults with a separate test."""


KNOWN = FULL_STREAM | FAILS.keys() | HALFWAY.keys() | STALLS.keys() | ELSEWHERE
"""All faults that have an expectation."""

MALFORMED = [
    ("skip", (0,), None),
    ("skip", (0, 0, 0), None),
    ("skip", (0, 0, 0, 0), Kind.PROTOCOL),
    ("skip", tuple(range(10)), None),
    ("skip", tuple(range(11)), Kind.PROTOCOL),
    ("read_on", (0,), Kind.PROTOCOL),
    ("read_on", tuple(range(10)), Kind.PROTOCOL),
    ("read_on", tuple(range(11)), Kind.PROTOCOL),
    ("fail", (0,), Kind.PROTOCOL),
    ("fail", (3,), Kind.PROTOCOL),
]

SAYS_NOTHING = [b"<html>oops</html>", b'{"strange": [1]}', b"[" * 9999, b"\xff\xfe", b"null"]
