"""Failures that concern a run and not a row: what ends one, what is asked again, what keeps one
from beginning."""

from __future__ import annotations

from swink_core import StreamError, SwinkError, UsageError
from swink_core.providers import KINDS

__all__ = ["HOPELESS", "MOST_HOPELESS", "PASSING", "refusal_of"]

HOPELESS = frozenset(kind for kind, row in KINDS.items() if row.scope == "account")
"""Failures that the next row has as well."""

MOST_HOPELESS = 10
"""So many of them in a row end a run."""

PASSING = HOPELESS | frozenset(
    kind for kind, row in KINDS.items() if row.scope in ("service", "machine", "caller")
)
"""Failures that say nothing of the row: the next run asks it again."""

NO_CREDENTIALS = "no_credentials"
"""The code of a call for which there was nothing to send."""


def refusal_of(error: SwinkError) -> UsageError | None:
    """Return why no row can be asked, where a row's failure says so: no credentials are here, which
    showed before a request was made."""
    if not isinstance(error, StreamError) or error.code != NO_CREDENTIALS or error.attempts > 1:
        return None
    return UsageError(error.message, title=error.title, resolution=error.resolution)
