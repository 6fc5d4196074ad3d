"""Recognise failures that affect every row of a run."""

from __future__ import annotations

from swink_core import StreamError, StreamErrorKind, SwinkError, UsageError
from swink_core.providers import KINDS

__all__ = ["BATCH_FAILED", "HOPELESS", "MOST_HOPELESS", "PASSING", "refusal_of"]

HOPELESS = frozenset(kind for kind, row in KINDS.items() if row.scope == "account")
"""Kinds of failure of the account (such as an exhausted balance), which may affect every row."""

MOST_HOPELESS = 10
"""A run ends after this many consecutive failures whose kinds are in `HOPELESS`."""

BATCH_FAILED = "batch_failed"
"""The kind of failure of each row of a batch that the vendor rejected as a whole."""

PASSING = HOPELESS.union(
    (kind for kind, row in KINDS.items() if row.scope in ("service", "machine", "caller")),
    (BATCH_FAILED,),
)
"""Kinds of failure that the row did not cause; the next run retries these rows."""

UNSENT = ("no_credentials", "token")
"""The error codes of a call that is not sent because it has no credentials or gets no token."""


def refusal_of(error: SwinkError) -> UsageError | None:
    """Return the error that ends the run if a row's failure affects all rows, or else `None`.

    Only missing credentials affect all rows; a call without credentials fails before any request is
    sent.
    """
    if not isinstance(error, StreamError) or error.kind is not StreamErrorKind.AUTH:
        return None
    if error.code not in UNSENT or error.attempts > 1:
        return None
    return UsageError(error.message, title=error.title, resolution=error.resolution)
