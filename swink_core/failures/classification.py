"""Classify failures by the tables of a provider, or by the rules of the core.

Providers ask `by_tables` with their own codes and wording; this module knows the core's own checks,
the statuses of HTTP, and nothing of any provider.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from swink_core.failures.failure import Classification, Failure
from swink_core.failures.kinds import KINDS
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
    code outranks a wording, and a wording outranks a status: they are more specific. The
    classification has the provider's code: the one in `codes`, or else whichever there is.
    """
    wait = _wait(failure)
    for code in (failure.code, failure.type):
        if code and code in codes:
            return Classification(codes[code], wait, code)
    given = failure.code or failure.type
    text = (failure.message or "").lower()
    for wording, kind in wordings:
        if wording in text:
            return Classification(kind, wait, given)
    if failure.status is not None and failure.status in statuses:
        return Classification(statuses[failure.status], wait, given)
    return None


def classify_default(failure: Failure) -> Classification:
    """Classify by what the core knows; `unknown` where nothing matches."""
    wait = _wait(failure)
    if failure.kind is not None:
        return Classification(failure.kind, wait, failure.code)
    kind = Kind.UNKNOWN
    status = failure.status
    if status is not None and status >= 300:
        other = Kind.PROTOCOL if status < 400 else Kind.NETWORK if status >= 500 else Kind.UNKNOWN
        kind = STATUS.get(status, other)
    return Classification(kind, wait, failure.code or failure.type)


def _wait(failure: Failure) -> float | None:
    given = failure.retry_after
    return retry_after_seconds(failure.headers) if given is None else given
