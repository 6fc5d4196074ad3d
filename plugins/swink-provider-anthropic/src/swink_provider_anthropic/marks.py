"""Set cache marks (`cache_control`): the API caches the prompt up to each marked block.

Cache marks come from the caller or from a cache strategy.
https://platform.claude.com/docs/en/build-with-claude/prompt-caching: each mark caches everything
before it, in the order of tools, system prompt and conversation.
"""

from __future__ import annotations

from typing import Any

from swink_core import CacheStrategy, Context
from swink_core.providers import Fitted
from swink_provider_anthropic import claude

__all__ = [
    "CROWDED",
    "MARK",
    "ends_marked",
    "mark_for_cache",
    "mark_paths",
    "own_marks",
    "tell_crowded",
]

MARK = "cache_control"
MOST_MARKS = 4
HOUR = "1h"
CROWDED = ": the conversation has the maximum number of cache marks, so none was added at the end"


def mark_for_cache(native: dict[str, Any], cache: CacheStrategy) -> None:
    """Add cache marks to the last user turn, the system prompt and the last tool.

    The API refuses a mark on a tool with `defer_loading`, so such tools are skipped.
    The caller's own marks take precedence. The API allows four marks in a request. A mark requests
    a cache of five minutes or of an hour. A prompt begins with the tools and the system prompt,
    followed by the turns. In this order, all marks for an hour must precede those for five minutes.
    """
    control = {"type": "ephemeral", **claude.cache_ttl(cache)}
    long = control.get("ttl") == HOUR
    tools, system = native.get("tools", []), native.get("system", [])
    users = [turn["content"] for turn in native["messages"] if turn["role"] == "user"]
    blocks = [*tools, *system, *(b for turn in native["messages"] for b in turn["content"])]
    own = {at: block[MARK].get("ttl") == HOUR for at, block in enumerate(blocks) if MARK in block}
    loaded = [tool for tool in tools if tool.get("defer_loading") is not True]
    last = [*(users[-1][-1:] if users else ()), *system[-1:], *loaded[-1:]]
    for block in [b for b in last if MARK not in b][: max(0, MOST_MARKS - len(own))]:
        place = next(at for at, other in enumerate(blocks) if other is block)
        if not any(theirs != long and (at < place) == long for at, theirs in own.items()):
            block[MARK] = control


def own_marks(context: Context, provider: str, name: str = MARK) -> list[Any]:
    """Return the cache marks that the caller set on blocks and tools."""
    contents = [m.content for m in context.messages if not isinstance(m.content, str)]
    said = [block.metadata or {} for content in contents for block in content]
    said += [(tool.metadata or {}).get(provider, {}) for tool in context.tools]
    return [each[name] for each in said if name in each]


def mark_paths(context: Context, provider: str, name: str = MARK) -> list[str]:
    """Return the paths of the blocks and tools on which the caller set a cache mark."""
    paths = [
        f"messages[{at}].content[{place}].metadata.{name}"
        for at, message in enumerate(context.messages)
        if not isinstance(message.content, str)
        for place, block in enumerate(message.content)
        if name in (block.metadata or {})
    ]
    return paths + [
        f"tools[{at}].metadata.{provider}.{name}"
        for at, tool in enumerate(context.tools)
        if name in (tool.metadata or {}).get(provider, {})
    ]


def ends_marked(context: Context, name: str = MARK) -> bool:
    """Return True if the caller has marked the last block of the conversation."""
    last = [block for message in context.messages[-1:] for block in message.content[-1:]]
    return any(name in (getattr(block, "metadata", None) or {}) for block in last)


def tell_crowded(call: Fitted, provider: str) -> None:
    """Add a notice if the caller's cache marks leave no room for a mark at the prompt's end."""
    cache = call.options.cache
    if cache is None or cache.mode == "none" or ends_marked(call.context):
        return
    own = own_marks(call.context, provider)
    long = claude.cache_ttl(cache).get("ttl") == HOUR
    if len(own) >= MOST_MARKS or (long and any(mark.get("ttl") != HOUR for mark in own)):
        call.tell(CROWDED, "option_ignored", "options.cache")
