"""Match requests with the rules of a configuration, and model names with its patterns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from swink_core import StreamOptions, SystemMessage, UserMessage
from swink_core.providers import prompt_of, text_of
from swink_gateway.policy.config import When
from swink_gateway.protocols import Asked

__all__ = ["fits", "is_like", "is_named"]

_SEARCHES = (
    "web_search",
    "googleSearch",
    "google_search",
    "web_search_options",
    "search_parameters",
)
"""Vendors' names for web search, as the type or the only field of a tool, or as an option."""

_INSTRUCTED = re.compile(
    r"\btitle generator\b"
    r"|\b(generate|write|create|extract)\b.{0,40}\btitle\b"
    r"|\bindicates a new conversation topic\b"
    r"|\bsummari[sz]e th(is|e)\b.{0,20}\bconversation\b",
    re.IGNORECASE,
)
_SAID = re.compile(
    r"\btitle for (this|the following) conversation\b|\b[0-9-]+ words? title\b", re.IGNORECASE
)
"""Wording with which agents request a title, in instructions or in a user message.

Sources: opencode, Crush, Claude Code and agents that copied one of their prompts, in November 2026.
A person's request for a title may match, too.
"""

MOST_READ = 4000
"""The maximum number of characters searched in instructions; the wording is at the beginning."""

MOST_ASKED = 10
"""The maximum number of instruction messages that are searched."""


def is_named(name: str, patterns: Iterable[str]) -> bool:
    """Return True if a model's name matches a pattern, in which `*` matches any text.

    A pattern with a slash matches only full names (`provider/model`). A pattern without a slash
    matches only bare names.
    """
    return any(_fits_pattern(name, pattern) for pattern in patterns)


def _fits_pattern(name: str, pattern: str) -> bool:
    provider, slash, model = name.partition("/")
    parts = pattern.partition("/")
    return slash == parts[1] and is_like(provider, parts[0]) and is_like(model, parts[2])


def is_like(text: str, pattern: str) -> bool:
    """Return True if a text matches a pattern, in which `*` matches any text."""
    first, *parts = pattern.split("*")
    if not parts or not text.startswith(first):
        return text == pattern
    at, last = len(first), parts.pop()
    for part in parts:
        found = text.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return text.endswith(last) and len(text) - at >= len(last)


def fits(asked: Asked, when: When) -> bool:
    """Return True if a request meets the conditions of a rule."""
    if when.models and not is_named(asked.model, when.models):
        return False
    wanted: dict[str, Callable[[], bool]] = {
        "thinking": lambda: asked.options.get("thinking") not in (None, "off", 0),
        "tools": lambda: bool(asked.context.tools),
        "web_search": lambda: _searches(asked),
        "background": lambda: _is_background(asked),
    }
    for name, is_so in wanted.items():
        said = getattr(when, name)
        if said is not None and said is not is_so():
            return False
    if when.longer_than is None:
        return True
    return prompt_of(None, asked.context, StreamOptions()).tokens > when.longer_than


def _searches(asked: Asked) -> bool:
    tools = [tool for tool in asked.own.get("tools") or () if isinstance(tool, dict)]
    named = [name for tool in tools for name in (str(tool.get("type", "")), *tool)]
    return any(name.startswith(_SEARCHES) for name in (*named, *asked.own))


def _is_background(asked: Asked) -> bool:
    if asked.context.tools or asked.own.get("tools"):
        return False
    messages = asked.context.messages
    systems = [one for one in messages if isinstance(one, SystemMessage)]
    # an assistant message to be continued may follow
    users = [one for one in messages[-2:] if isinstance(one, UserMessage)]
    prompt = text_of(asked.context.system_prompt or "")
    instructions = "\n".join([prompt, *(text_of(one.content) for one in systems[:MOST_ASKED])])
    return bool(
        _INSTRUCTED.search(instructions[:MOST_READ])
        or any(_SAID.search(text_of(one.content)[:MOST_READ]) for one in users)
    )
