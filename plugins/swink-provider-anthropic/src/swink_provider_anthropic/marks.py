"""Marks that say what the API is to keep in its cache, the caller's own and a strategy's.

https://platform.claude.com/docs/en/build-with-claude/prompt-caching: each caches all before it, in
the order of tools, system prompt and conversation.
"""

from __future__ import annotations

from typing import Any

from swink_core import CacheStrategy
from swink_provider_anthropic import claude

__all__ = ["MARK", "mark_for_cache"]

MARK = "cache_control"
MOST_MARKS = 4
HOUR = "1h"


def mark_for_cache(native: dict[str, Any], cache: CacheStrategy) -> None:
    """Mark the last user turn, the system prompt and the tools.

    The caller's own marks come first, since there are four in all, and none for an hour may
    follow one for five minutes.
    """
    control = {"type": "ephemeral", **claude.cache_ttl(cache)}
    long = control.get("ttl") == HOUR
    tools, system = native.get("tools", []), native.get("system", [])
    users = [turn["content"] for turn in native["messages"] if turn["role"] == "user"]
    blocks = [*tools, *system, *(b for turn in native["messages"] for b in turn["content"])]
    own = {at: block[MARK].get("ttl") == HOUR for at, block in enumerate(blocks) if MARK in block}
    last = [*(users[-1][-1:] if users else ()), *system[-1:], *tools[-1:]]
    for block in [b for b in last if MARK not in b][: max(0, MOST_MARKS - len(own))]:
        place = next(at for at, other in enumerate(blocks) if other is block)
        if not any(theirs != long and (at < place) == long for at, theirs in own.items()):
            block[MARK] = control
