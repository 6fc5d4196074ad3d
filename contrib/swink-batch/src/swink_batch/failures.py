"""Failures that concern the run rather than a row: those that end it, are retried, or prevent it
from starting.
"""

from __future__ import annotations

from swink_core import StreamError, SwinkError, UsageError
from swink_core.providers import KINDS

__all__ = ["HOPELESS", "MOST_HOPELESS", "PASSING", "refusal_of"]

HOPELESS = frozenset(kind for kind, row in KINDS.items() if row.scope == "account")
"""Failures that the next row will have, too."""

MOST_HOPELESS = 10
"""Number of consecutive failures that ends a run."""

PASSING = HOPELESS | frozenset(
    kind for kind, row in KINDS.items() if row.scope in ("service", "machine", "caller")
)
"""Failures not caused by the row, which the next run retries."""

NO_CREDENTIALS = "no_credentials"
"""The code of a call with an empty request."""


def refusal_of(error: SwinkError) -> UsageError | None:
    """Return the reason why no row can be sent, if a row's failure shows one: missing credentials,
    detected before any request.
    """
    if not isinstance(error, StreamError) or error.code != NO_CREDENTIALS or error.attempts > 1:
        return None
    return UsageError(error.message, title=error.title, resolution=error.resolution)
