"""Parse rate-limit headers of any provider.

For each header with a remaining quota, a second header contains the time of the quota's reset:
`x-ratelimit-remaining-requests` and `x-ratelimit-reset-requests` (OpenAI, Groq),
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
"""The maximum length of a number in a header, in characters; longer numbers are ignored."""


class Allowance(NamedTuple):
    """A remaining quota, in calls or tokens, and the seconds until its reset."""

    tokens: bool
    remaining: float
    seconds: float


def allowances(headers: Mapping[str, str]) -> Iterator[Allowance]:
    """Yield the quotas in a response's headers, ignoring invalid headers."""
    for remaining, reset, tokens in _pairs(tuple(headers)):
        left = _count(headers[remaining])
        seconds = wait_seconds(headers[reset])
        if left is not None and seconds is not None:
            yield Allowance(tokens, left, seconds)


@lru_cache(maxsize=256)
def _pairs(names: tuple[str, ...]) -> tuple[tuple[str, str, bool], ...]:
    """Return the pairs of header names for a quota and its reset.

    The result is cached, because a server's header names rarely change.
    """
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
