"""The exit codes of the command line."""

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
"""The call could not be made: invalid arguments or options. click uses the same code."""
EXIT_INCOMPLETE = 3
"""The answer is incomplete (token limit, content filter, or paused), or it is not the JSON that was
requested.
"""
EXIT_INTERRUPTED = 130
"""128 + SIGINT, as shells report for a program stopped by Ctrl-C."""
EXIT_BROKEN_PIPE = 141
"""128 + SIGPIPE, as shells report for a program whose reader has closed the pipe."""


def worst(codes: Collection[int]) -> int:
    """Return the gravest of several exit codes: interrupted, then failed, then incomplete."""
    grave = (EXIT_INTERRUPTED, EXIT_FAILURE, EXIT_INCOMPLETE)
    return next((code for code in grave if code in codes), 0)
