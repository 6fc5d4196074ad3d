"""What a failure means when its provider has not said: the status, then the exception.

Providers ask `by_tables` with their own codes and wording; this module knows HTTP and nothing of
any provider.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from swink_core.failures.failure import Classification, Failure
from swink_core.failures.kinds import CORE, KINDS
from swink_core.failures.waits import retry_after_seconds
from swink_core.vocabulary.outcome import StreamErrorKind as Kind

STATUS = {status: kind for kind, row in KINDS.items() for status in row.statuses}


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
