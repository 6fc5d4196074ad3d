"""What a failure means when its provider has not said: the status, then the exception.

Providers ask `by_tables` with their own codes and wording; this module knows HTTP and nothing of
any provider.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from swink_core.failures.failure import Classification, Failure
from swink_core.failures.kinds import CORE, KINDS
from swink_core.vocabulary.outcome import StreamErrorKind as Kind

STATUS = {status: kind for kind, row in KINDS.items() for status in row.statuses}

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|h|m|s|d)")

_UNIT = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def duration_seconds(text: str) -> float | None:
    """Read `46s`, `6m0s`, `2ms` or `1h30m` as seconds; `None` for anything else."""
    text = text.strip()
    parts = _DURATION.findall(text)
    if not parts or _DURATION.sub("", text).strip():
        return None
    return sum(float(number) * _UNIT[unit] for number, unit in parts)


def retry_after_seconds(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Read how long to wait from response headers, in seconds; `None` if not said.

    `retry-after-ms`, then `Retry-After` as seconds or as an HTTP date (RFC 9110 section
    10.2.3), then the reset of an exhausted `x-ratelimit-*` allowance as a duration, seconds or
    an RFC 3339 time.
    """
    lower = {name.lower(): value.strip() for name, value in headers.items()}
    now = now or datetime.now(UTC)
    if (milliseconds := _number(lower.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    if (after := lower.get("retry-after")) is not None:
        return _moment(after, now)
    resets = [
        _moment(value, now)
        for name, value in lower.items()
        if "ratelimit" in name
        and "reset" in name
        and _number(lower.get(name.replace("reset", "remaining"))) == 0
    ]
    return max((wait for wait in resets if wait is not None), default=None)


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0 <= value < float("inf") else None


def _moment(text: str, now: datetime) -> float | None:
    number = _number(text)
    if number is not None:  # an epoch time where it is too large for a wait, perhaps in ms
        if number > 1e11:
            number /= 1000
        return max(0.0, number - now.timestamp()) if number > 1e9 else number
    if (seconds := duration_seconds(text)) is not None:
        return seconds
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            moment = read(text)
        except ValueError:
            continue
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return max(0.0, (moment - now).total_seconds())
    return None


def by_tables(
    failure: Failure,
    codes: Mapping[str, Kind],
    wordings: Sequence[tuple[str, Kind]] = (),
    statuses: Mapping[int, Kind] = {},
) -> Classification | None:
    """Classify by a provider's own tables; `None` where nothing in them matches.

    `codes` maps structured codes and types, `wordings` pairs a lower-case piece of the message
    with a kind, `statuses` holds the statuses that mean something special to the provider. A
    code outranks a wording, and a wording outranks a status: they are more specific.
    """
    wait = failure.retry_after
    if wait is None:
        wait = retry_after_seconds(failure.headers)
    for code in (failure.code, failure.type):
        if code and code in codes:
            return Classification(codes[code], wait, f"code:{code}")
    text = (failure.message or "").lower()
    for wording, kind in wordings:
        if wording in text:
            return Classification(kind, wait, f"wording:{wording}")
    if failure.status is not None and failure.status in statuses:
        return Classification(statuses[failure.status], wait, f"status:{failure.status}")
    return None


def classify_default(failure: Failure) -> Classification:
    """Classify by what the core knows; `unknown` where nothing matches."""
    wait = failure.retry_after
    if wait is None:
        wait = retry_after_seconds(failure.headers)
    if failure.kind is not None:
        return Classification(failure.kind, wait, f"{CORE}{failure.code or failure.kind}")
    status = failure.status
    if status is not None and status >= 300:
        kind = STATUS.get(status)
        if kind is None and status >= 500:
            kind = Kind.NETWORK
        if kind is None and status < 400:
            kind = Kind.PROTOCOL
        if kind is not None:
            return Classification(kind, wait, f"status:{status}")
    return Classification(Kind.UNKNOWN, wait, "none")
