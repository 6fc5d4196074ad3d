"""The differences between the clients that have a reason."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise

from attrs import evolve, frozen

from lab.transports.damaged import Case
from lab.transports.readings import WAITS, Outcome
from swink_transport_httptools.connection import MOST_LINE

BROKEN_HEAD = "protocol http connect"
BROKEN_BODY = "protocol http streaming"
NOT_INFLATED = "protocol encoding streaming"
CUT = "network connection streaming"
LEAST_STATUS = 199
"""The first status for which aiohttp reads a body without a length."""

NO_HEAD = (WAITS, "network disconnected connect", "network connection connect")


@frozen
class Explained:
    """A kind of difference between the clients, and its reason."""

    name: str
    reason: str
    applies: Callable[[Case, Outcome, Outcome, Outcome], bool]
    """Takes the case, the outcomes with aiohttp and with httptools, and the outcome with aiohttp if
    each read is a byte."""


def _is_reset_at_end(case: Case, theirs: Outcome, ours: Outcome, _: Outcome) -> bool:
    same = (theirs.status, theirs.headers, theirs.body) == (ours.status, ours.headers, ours.body)
    ends = ("complete", NOT_INFLATED)
    return case.ending == "reset" and same and theirs.end in ends and ours.end == CUT


def _is_dropped(case: Case, theirs: Outcome, ours: Outcome, bytewise: Outcome) -> bool:
    same = (bytewise.status, bytewise.headers) == (ours.status, ours.headers)
    if theirs.end != BROKEN_HEAD or not same:
        return False
    if ours.end == "complete":
        return (bytewise.end, bytewise.body) == (ours.end, ours.body)
    return ours.end in (BROKEN_BODY, NOT_INFLATED) and ours.body.startswith(bytewise.body)


def _is_hanging(case: Case, theirs: Outcome, ours: Outcome, _: Outcome) -> bool:
    same = (theirs.status, theirs.headers) == (ours.status, ours.headers)
    return same and theirs.end == WAITS and ours.has_failed and ours.body.startswith(theirs.body)


def _has_more(case: Case, theirs: Outcome, ours: Outcome, _: Outcome) -> bool:
    same = (theirs.status, theirs.headers, theirs.end) == (ours.status, ours.headers, ours.end)
    return same and ours.end == NOT_INFLATED and ours.body.startswith(theirs.body)


def _is_surplus(case: Case, theirs: Outcome, ours: Outcome, _: Outcome) -> bool:
    return theirs.next == "reused" and ours.next == "new" and evolve(theirs, next="new") == ours


def _is_unfinished(case: Case, theirs: Outcome, ours: Outcome, _: Outcome) -> bool:
    is_long = len(case.data) > MOST_LINE
    return is_long and theirs.end == BROKEN_HEAD and ours.status == 0 and ours.end in NO_HEAD


_EMPTY_CODING = re.compile(rb"(?i)transfer-encoding:[ \t]*\r?\n")


def _is_stricter(case: Case, theirs: Outcome, ours: Outcome, _: Outcome) -> bool:
    has_coding = _EMPTY_CODING.search(case.data) is not None
    return has_coding and theirs.status > 0 and ours.end == BROKEN_HEAD


_INFORMATIONAL = re.compile(rb"(?is)^HTTP/\d\.\d 1\d\d.*?content-encoding:[ \t]*(br|zstd)")


def _is_of_informational(case: Case, theirs: Outcome, ours: Outcome, _: Outcome) -> bool:
    return theirs.end == BROKEN_HEAD and _INFORMATIONAL.search(case.data) is not None


def _has_low_status(case: Case, theirs: Outcome, ours: Outcome, _: Outcome) -> bool:
    is_low = theirs.status < LEAST_STATUS and ours.status < LEAST_STATUS
    return is_low and theirs.end == "complete" and theirs.body == b""


def _has_long_names(case: Case, theirs: Outcome, ours: Outcome, _: Outcome) -> bool:
    names = [len(name) for name, _ in ours.headers]
    are_long = any(sum(pair) > MOST_LINE for pair in pairwise([0, *names]))
    return theirs.end == BROKEN_HEAD and are_long


EXPLAINED = (
    Explained(
        "a reset is not an end",
        "a body without a length ends with its connection; aiohttp takes a reset for that end, "
        "httptools reports that the body was cut",
        _is_reset_at_end,
    ),
    Explained(
        "the rest of a read",
        "aiohttp drops everything in a read that contains malformed bytes, even a whole response "
        "before them; httptools returns what came before them, however the network cuts",
        _is_dropped,
    ),
    Explained(
        "no end to a broken body",
        "aiohttp reports some broken bodies only by waiting for more, until a time limit; "
        "httptools reports the failure at once",
        _is_hanging,
    ),
    Explained(
        "more before the failure",
        "aiohttp drops what it has decompressed of a read in which it finds an error; httptools "
        "returns it before it reports the failure",
        _has_more,
    ),
    Explained(
        "bytes after the end",
        "a server that sends more than a response, in the same read, may be out of step; httptools "
        "closes the connection, aiohttp does so only for a whole line or response",
        _is_surplus,
    ),
    Explained(
        "an unfinished header",
        "the limit of 8,190 bytes applies to whole headers with httptools, which limits unfinished "
        "ones to four times that; aiohttp applies it to unfinished headers too",
        _is_unfinished,
    ),
    Explained(
        "an empty Transfer-Encoding",
        "httptools contains a newer release of the parser that both use (llhttp 9.4 and 9.3); it "
        "rejects this header",
        _is_stricter,
    ),
    Explained(
        "a coding of an informational response",
        "aiohttp refuses a content coding that it does not know even in a response (1xx) that it "
        "then ignores",
        _is_of_informational,
    ),
    Explained(
        "a status below 199",
        "aiohttp reads no body without a length for such a status; HTTP defines none below 100",
        _has_low_status,
    ),
    Explained(
        "two long names",
        "aiohttp adds the name of a header to that of the next one when it applies its limit",
        _has_long_names,
    ),
)


def explanation_of(
    case: Case, theirs: Outcome, ours: Outcome, bytewise: Outcome
) -> Explained | None:
    """Return the row that explains a difference, or `None`; see `Explained.applies`."""
    return next((row for row in EXPLAINED if row.applies(case, theirs, ours, bytewise)), None)
