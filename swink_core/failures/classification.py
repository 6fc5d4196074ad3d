"""Classify failures by the tables of a provider, or by the rules of the core.

Providers call `by_tables` with tables of error codes and wordings. The core's rules, which are the
same for all providers, classify HTTP statuses and failures that the core itself detected.
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
    """Classify a failure by a provider's own tables; return `None` if nothing in them matches.

    `codes` maps error codes and types to kinds. Each entry of `wordings` is a part of an error
    message, in lower case, and a kind. `statuses` maps HTTP statuses that have a special meaning at
    the provider to kinds. The first match decides, in this order: codes, wordings, statuses. The
    code of the classification is the code or type found in `codes`, or else the failure's code or
    type.
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
    """Classify a failure by the core's rules; the kind is `unknown` if no rule matches."""
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
