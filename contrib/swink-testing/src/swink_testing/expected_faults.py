"""The expected result of each standard fault."""

from __future__ import annotations

from swink_core import StreamErrorKind as Kind

__all__ = ["AFTER_THE_END", "FAILS", "FULL_STREAM", "HALFWAY", "KNOWN", "MALFORMED", "NOTICES"]
__all__ += ["SAYS_NOTHING", "STALLS"]

FULL_STREAM = {
    "good", "drip", "slow-head", "gzip", "length-too-long", "broken-frame", "broken-frames-3",
    "noise", "terminal-twice", "content-after-terminal", "comments-between",
}  # fmt: skip
"""Faults through which the whole answer comes, where a frame more that is damaged is skipped."""

AFTER_THE_END = {"terminal-twice", "content-after-terminal"}
"""Those that say more after an answer's end, where there is an end before that of the bytes."""

NOTICES = {
    "broken-frame": ["malformed_frame"], "broken-frames-3": ["malformed_frame"] * 3,
    "noise": ["noise"] * 3,
}  # fmt: skip

FAILS = {
    "closed-before-head": (Kind.NETWORK, 3),
    "reset-before-head": (Kind.NETWORK, 3),
    "closed-after-head": (Kind.NETWORK, 3),
    "reset-after-head": (Kind.NETWORK, 3),
    "html-page": (Kind.PROTOCOL, 1),
    "empty-body": (Kind.NETWORK, 3),
    "gzip-claimed": (Kind.PROTOCOL, 1),
    "encoding-unknown": (Kind.PROTOCOL, 1),
    "redirect-loop": (Kind.PROTOCOL, 0),
    "meta-only": (Kind.NETWORK, 3),
    "status-400": (Kind.INVALID_REQUEST, 0),
    "status-401": (Kind.AUTH, 0),
    "status-403": (Kind.AUTH, 0),
    "status-404": (Kind.MODEL_NOT_FOUND, 0),
    "status-408": (Kind.NETWORK, 3),
    "status-413": (Kind.INVALID_REQUEST, 0),
    "status-422": (Kind.INVALID_REQUEST, 0),
    "status-429": (Kind.THROTTLED, 5),
    "status-500": (Kind.NETWORK, 3),
    "status-502": (Kind.NETWORK, 3),
    "status-503": (Kind.OVERLOADED, 5),
    "status-504": (Kind.NETWORK, 3),
    "status-529": (Kind.OVERLOADED, 5),
}
"""Faults before anything of an answer: the kind, and how often the call is made again."""

HALFWAY = {
    "closed-halfway": Kind.NETWORK,
    "reset-halfway": Kind.NETWORK,
    "length-too-short": Kind.NETWORK,
}
"""Faults in the middle of the body."""

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
