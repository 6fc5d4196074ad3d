"""The API that a model's rules want a call asked over: one of this package's has a choice."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from swink_core import Context, Model, StreamOptions
from swink_core.providers import Fitted

__all__ = ["api_of"]

_NOTHING_SAID = Context([])


def api_of(model: Model, options: StreamOptions, context: Context = _NOTHING_SAID) -> str | None:
    """Return the API that rules want a call asked over; `None` where they say nothing."""
    if not (rules := _that_choose(model.rules)):
        return None
    call = Fitted(model, context, options)
    return next((rule.api for rule in rules if call.meets(rule)), None)


@lru_cache(maxsize=4096)
def _that_choose(rules: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the rules that name an API to ask over, the last one first."""
    return tuple(rule for rule in reversed(rules) if rule.api and not rule.apis)
