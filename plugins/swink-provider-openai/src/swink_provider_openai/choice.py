"""Determine which API, Chat Completions or Responses, a model's rules require for a call."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from swink_core import Context, Model, StreamOptions
from swink_core.providers import Fitted
from swink_provider_openai.several import answers_of

__all__ = ["api_of"]

_NOTHING_SAID = Context([])


def api_of(model: Model, options: StreamOptions, context: Context = _NOTHING_SAID) -> str | None:
    """Return the API that the rules require for a call; `None` if they require none.

    A request for several answers (`n`) uses Chat Completions even if the rules require Responses,
    because only Chat Completions supports several answers.
    """
    wanted = Fitted(model, context, options).wanted_api if _choose(model.rules) else None
    return "chat" if wanted == "responses" and answers_of(options) > 1 else wanted


@lru_cache(maxsize=4096)
def _choose(rules: tuple[Any, ...]) -> bool:
    """Return True if any of the rules names an API."""
    return any(rule.api for rule in rules)
