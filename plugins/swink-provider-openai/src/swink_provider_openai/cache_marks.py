"""Add `cache_control` marks, for services that cache a prompt only up to such a mark.

Source: OpenRouter's guide "Prompt caching"; OpenRouter passes the marks on to the model's vendor.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from swink_core import CacheStrategy, Context, Model
from swink_core.providers import rule_of

__all__ = ["caches_by_marks", "is_crowded", "mark_for_cache"]

SHORT_CACHE = 300
"""The lifetime, in seconds, that an ordinary cache mark requests; other marks request an hour."""

MARK = "cache_control"
MOST_MARKS = 4
HOUR = "1h"


def caches_by_marks(model: Model) -> bool:
    """Return True if the service caches the model's prompts only up to cache marks."""
    return bool(rule_of(model).facts.get("cache_marks"))


def is_crowded(context: Context, cache: CacheStrategy | None, provider: str) -> bool:
    """Return True if no cache mark can be added at the end of the prompt.

    This is so if the caller has set the maximum number of marks. It is also so if the new mark
    would request a cache of an hour and the caller has set a mark for five minutes, because the
    new mark would follow the caller's mark (see `mark_for_cache`).
    """
    if cache is None or cache.mode == "none":
        return False
    contents = [[] if isinstance(m.content, str) else m.content for m in context.messages]
    blocks = [block for content in contents for block in content]
    ends_marked = any(MARK in (b.metadata or {}) for content in contents[-1:] for b in content[-1:])
    if ends_marked:
        return False
    said = [b.metadata for b in blocks] + [(t.metadata or {}).get(provider) for t in context.tools]
    own = [each for each in said if each and MARK in each]
    is_long = (cache.ttl or 0) > SHORT_CACHE
    return len(own) >= MOST_MARKS or (is_long and not all(map(_is_long, own)))


def mark_for_cache(native: Mapping[str, Any], ttl: int | None) -> None:
    """Mark the leading system messages and the last message, in addition to the caller's marks.

    A request may have four marks in all. A mark requests a cache of five minutes or of an hour. A
    prompt begins with the tools and the system messages, followed by the other messages. In this
    order, all marks for an hour must precede those for five minutes (platform.claude.com, "Prompt
    caching").
    """
    messages = native["messages"]
    long = (ttl or 0) > SHORT_CACHE
    control = {"type": "ephemeral", **({"ttl": HOUR} if long else {})}
    marks = [(-1, _is_long(tool)) for tool in native.get("tools", ()) if MARK in tool]
    marks += [(at, _is_long(p)) for at, m in enumerate(messages) for p in _parts_of(m) if MARK in p]
    asked = [at for at, m in enumerate(messages) if m["role"] != "assistant" and _parts_of(m)]
    start = [at for at in asked[:1] if messages[at]["role"] != "user"]
    for at in [*asked[-1:], *start][: max(0, MOST_MARKS - len(marks))]:
        parts = _parts_of(messages[at])
        if any(theirs != long and (place <= at) == long for place, theirs in marks):
            continue
        if MARK not in parts[-1]:
            messages[at]["content"] = [*parts[:-1], {**parts[-1], MARK: control}]


def _is_long(part: Mapping[str, Any]) -> bool:
    return bool(part[MARK].get("ttl") == HOUR)


def _parts_of(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content") or []
    return [{"type": "text", "text": content}] if isinstance(content, str) else content
