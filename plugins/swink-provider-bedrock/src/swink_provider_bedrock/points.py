"""Set cache points: the API caches the part of the prompt before each cache point.

https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from swink_core import CacheStrategy, Model, StreamOptions
from swink_core.providers import rule_of
from swink_provider_anthropic import claude

__all__ = ["before_documents", "is_crowded", "mark", "takes_points"]

EVERYWHERE = ("messages", "system", "tools")
MOST_POINTS = 4


def takes_points(model: Model, options: StreamOptions) -> bool:
    """Return whether a model supports cache points. Always true with `rules=False`."""
    return not options.rules or rule_of(model).takes.get("cache") is not False


def is_crowded(
    own: list[dict[str, Any]], cache: CacheStrategy | None, facts: Mapping[str, Any]
) -> bool:
    """Return True if no cache points may be added to the caller's cache points.

    No cache point may be added if the request already has the maximum number. The same applies if
    the caller's cache points and the strategy have different lifetimes, because the API accepts
    different lifetimes only in a certain order.
    """
    if cache is None or cache.mode == "none":
        return False
    ttl = _point(cache, facts).get("ttl")
    return len(own) >= MOST_POINTS or any(point.get("ttl") != ttl for point in own)


def _point(cache: CacheStrategy, facts: Mapping[str, Any]) -> dict[str, str]:
    ttl = {} if facts.get("cache_ttl") is False else claude.cache_ttl(cache)
    return {"type": "default", **ttl}


def mark(native: dict[str, Any], cache: CacheStrategy, facts: Mapping[str, Any]) -> None:
    """Add a strategy's cache points to the caller's cache points, up to the maximum number."""
    point, tools = _point(cache, facts), native.get("toolConfig", {}).get("tools", [])
    system = native.get("system", [])
    blocks = [*tools, *system, *(block for turn in native["messages"] for block in turn["content"])]
    own = [block["cachePoint"] for block in blocks if "cachePoint" in block]
    if is_crowded(own, cache, facts):
        return
    users = [turn["content"] for turn in native["messages"] if turn["role"] == "user"]
    places = {
        "messages": users[-1] if users else None,
        "system": native.get("system"),
        "tools": tools,
    }
    free = [
        place for name, place in places.items() if place and name in facts.get("cache", EVERYWHERE)
    ]
    ends = [(place, before_documents(place)) for place in free]
    unmarked = [(place, at) for place, at in ends if at and "cachePoint" not in place[at - 1]]
    for place, at in unmarked[: MOST_POINTS - len(own)]:
        place.insert(at, {"cachePoint": point})


def before_documents(blocks: Sequence[Mapping[str, Any]]) -> int:
    """Return the last index at which the API accepts a cache point, or 0 if it accepts none.

    The API refuses a cache point directly after a document that is not a PDF file
    (https://github.com/aws/aws-sdk-java-v2/issues/6277).
    """
    at = len(blocks)
    while at and blocks[at - 1].get("document", {}).get("format", "pdf") != "pdf":
        at -= 1
    return at
