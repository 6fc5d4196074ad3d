"""Exit codes."""

from collections.abc import Collection

__all__ = [
    "EXIT_BROKEN_PIPE",
    "EXIT_FAILURE",
    "EXIT_INCOMPLETE",
    "EXIT_INTERRUPTED",
    "EXIT_USAGE",
    "worst",
]

EXIT_FAILURE = 1
EXIT_USAGE = 2
"""The call could not be made as it was asked for; the code that click uses too."""
EXIT_INCOMPLETE = 3
"""The answer ended before its end: at the token limit, by a filter, or paused; or it is not the
JSON that was asked for."""
EXIT_INTERRUPTED = 130
"""128 + SIGINT, what shells report for a program stopped by Ctrl-C."""
EXIT_BROKEN_PIPE = 141
"""128 + SIGPIPE, what shells report for a program whose reader went away."""


def worst(codes: Collection[int]) -> int:
    """Return the code of several answers, each with its own."""
    grave = (EXIT_INTERRUPTED, EXIT_FAILURE, EXIT_INCOMPLETE)
    return next((code for code in grave if code in codes), 0)
