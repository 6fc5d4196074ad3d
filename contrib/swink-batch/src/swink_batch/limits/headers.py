"""What a response's headers say of rate limits, whatever the provider calls them.

A header that is about a rate limit and says what `remaining` there is, has a sibling that says
when it is back: `x-ratelimit-remaining-requests` and `x-ratelimit-reset-requests` (OpenAI, Groq),
`anthropic-ratelimit-tokens-remaining` and `anthropic-ratelimit-tokens-reset`, `ratelimit-remaining`
and `ratelimit-reset` (IETF draft-ietf-httpapi-ratelimit-headers-06).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from swink_core.providers import wait_seconds

__all__ = ["Allowance", "allowances"]

LONGEST_NUMBER = 15
"""Characters of a number that is looked at."""


class Allowance(NamedTuple):
    """How much is left of what is counted, in calls or in tokens, for how many seconds."""

    tokens: bool
    remaining: float
    seconds: float


def allowances(headers: Mapping[str, str]) -> Iterator[Allowance]:
    """Yield what a response's headers say is left; what makes no sense is passed over."""
    for remaining, reset, tokens in _pairs(tuple(headers)):
        left = _count(headers[remaining])
        seconds = wait_seconds(headers[reset])
        if left is not None and seconds is not None:
            yield Allowance(tokens, left, seconds)


@lru_cache(maxsize=256)
def _pairs(names: tuple[str, ...]) -> tuple[tuple[str, str, bool], ...]:
    """Return the names of the headers that belong together; a server's rarely differ."""
    lower = {name.lower(): name for name in names}
    found = []
    for low, name in lower.items():
        if "ratelimit" in low and "remaining" in low:
            sibling = lower.get(low.replace("remaining", "reset"))
            if sibling is not None:
                found.append((name, sibling, "token" in low))
    return tuple(found)


def _count(text: str) -> float | None:
    if len(text) > LONGEST_NUMBER:
        return None
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None
