"""How long a server asks its callers to wait, in every form that one is said in.

What is read here comes from strangers and is read on the event loop: a text longer than any wait
is not looked at, a form matches from where the last one ended, and no wait is above a year.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime

LONGEST_TEXT = 64
"""Characters: twice those of the longest date that HTTP allows."""

LONGEST_WAIT = 366 * 86400.0

_match_part = re.compile(r"([0-9]++(?:\.[0-9]++)?)\s*+(ms|h|m|s|d)\s*+").match

_UNIT = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def duration_seconds(text: str) -> float | None:
    """Read `46s`, `6m0s`, `2ms` or `1h30m` as seconds; `None` for anything else."""
    if len(text) > LONGEST_TEXT:
        return None
    text = text.strip()
    seconds = 0.0
    at = 0
    while part := _match_part(text, at):
        seconds += float(part[1]) * _UNIT[part[2]]
        at = part.end()
    return min(seconds, LONGEST_WAIT) if at and at == len(text) else None


def retry_after_seconds(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Read how long to wait from response headers, in seconds; `None` if not said.

    `retry-after-ms`, then `Retry-After` as seconds or as an HTTP date (RFC 9110 section
    10.2.3), then the reset of an exhausted `x-ratelimit-*` allowance as a duration, seconds or
    an RFC 3339 time.
    """
    lower = {name.lower(): value.strip() for name, value in headers.items()}
    now = now or datetime.now(UTC)
    if (milliseconds := _number(lower.get("retry-after-ms"))) is not None:
        return min(milliseconds / 1000, LONGEST_WAIT)
    if (after := lower.get("retry-after")) is not None:
        return wait_seconds(after, now)
    resets = [
        wait_seconds(value, now)
        for name, value in lower.items()
        if "ratelimit" in name
        and "reset" in name
        and _number(lower.get(name.replace("reset", "remaining"))) == 0
    ]
    return max((wait for wait in resets if wait is not None), default=None)


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text and len(text) <= LONGEST_TEXT else -1.0
    except ValueError:
        return None
    return value if 0 <= value < float("inf") else None


def wait_seconds(text: str, now: datetime | None = None) -> float | None:
    """Read a text as a wait in seconds; return `None` for any other text.

    It may be a number of seconds, a duration (`46s`, `6m0s`, `2ms`), a date of HTTP or RFC 3339, or
    a Unix time in seconds or milliseconds. `now` is the current time. A wait is at most a year.
    """
    if len(text) > LONGEST_TEXT:
        return None
    now = now or datetime.now(UTC)
    wait = _number(text)
    if wait is None:
        wait = duration_seconds(text)
    elif wait > 1e9:  # an epoch time, being too large for a wait, perhaps in milliseconds
        wait = (wait / 1000 if wait > 1e11 else wait) - now.timestamp()
    if wait is None and (moment := _date(text)) is not None:
        wait = (moment - now).total_seconds()
    return None if wait is None else min(max(0.0, wait), LONGEST_WAIT)


def _date(text: str) -> datetime | None:
    from email.utils import parsedate_to_datetime

    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            moment = read(text)
        except (ValueError, OverflowError):
            continue
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return None
