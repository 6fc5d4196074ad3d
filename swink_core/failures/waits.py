"""Parse the waiting time that a server requests, in every known form.

The input is untrusted, and parsing must not block the event loop. Therefore texts beyond a maximum
length are ignored, all patterns take linear time, and the result is at most a year.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime

LONGEST_TEXT = 64
"""The longest text that is parsed, in characters: twice the longest HTTP date."""

LONGEST_WAIT = 366 * 86400.0

_match_part = re.compile(r"([0-9]++(?:\.[0-9]++)?)\s*+(ms|h|m|s|d)\s*+").match

_UNIT = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def duration_seconds(text: str) -> float | None:
    """Return a duration such as `46s` or `1h30m` in seconds; `None` for any other text."""
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
    """Return the waiting time that response headers request, in seconds; `None` without one.

    The first of these headers decides: `retry-after-ms`; `Retry-After`, in seconds or as an HTTP
    date (RFC 9110 section 10.2.3); the `x-ratelimit-*` header with the reset time of an exhausted
    limit, as a duration, in seconds or as an RFC 3339 time.
    """
    lower = {name.lower(): value.strip() for name, value in headers.items()}
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
    """Parse a text as a waiting time and return it in seconds; return `None` for any other text.

    It may be a number of seconds, a duration (`46s`, `6m0s`, `2ms`), an HTTP or RFC 3339 date, or a
    Unix time in seconds or milliseconds. `now` is the current time (`None`: the system's). The
    result is at most a year.
    """
    if len(text) > LONGEST_TEXT:
        return None
    now = now or datetime.now(UTC)
    wait = _number(text)
    if wait is None:
        wait = duration_seconds(text)
    elif wait > 1e9:  # too large for a duration, so it is a Unix time, perhaps in milliseconds
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
