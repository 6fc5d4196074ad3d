"""Marks that say up to where a prompt is to be kept, for services that keep none by themselves.

Source: OpenRouter's guide "Prompt caching", which hands the marks on to the model's vendor.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from swink_core import Model
from swink_core.providers import rule_of

__all__ = ["caches_by_marks", "mark_for_cache"]

SHORT_CACHE = 300
"""Seconds for which a mark keeps a prompt, unless it says for an hour."""

MARK = "cache_control"
MOST_MARKS = 4


def caches_by_marks(model: Model) -> bool:
    """Tell whether a prompt is kept only up to marks in it."""
    return bool(rule_of(model).facts.get("cache_marks"))


def mark_for_cache(messages: list[dict[str, Any]], ttl: int | None) -> None:
    """Mark the instructions at the start and the last message, beside the caller's own marks."""
    control = {"type": "ephemeral", **({"ttl": "1h"} if (ttl or 0) > SHORT_CACHE else {})}
    free = MOST_MARKS - sum(MARK in p for m in messages for p in _parts_of(m))
    asked = [m for m in messages if m["role"] != "assistant" and _parts_of(m)]
    for message in [*asked[-1:], *(m for m in asked[:1] if m["role"] != "user")][: max(0, free)]:
        parts = _parts_of(message)
        if MARK not in parts[-1]:
            message["content"] = [*parts[:-1], {**parts[-1], MARK: control}]


def _parts_of(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content") or []
    return [{"type": "text", "text": content}] if isinstance(content, str) else content
