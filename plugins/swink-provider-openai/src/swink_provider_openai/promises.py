"""Check subclasses of `OpenAIProvider`."""

from __future__ import annotations

__all__ = ["refuse_idle_overrides"]

_RULES = "set it in [[rules]] of models.toml, for example takes = { audio = false }"


def refuse_idle_overrides(made: type) -> None:
    """Raise TypeError if a subclass of `OpenAIProvider` overrides an attribute that is not used.

    These attributes have an effect in other subclasses of `HTTPProvider`. `OpenAIProvider` instead
    uses the values of the API that it selects for a call.
    """
    not_asked = {
        "parser": "set chat_parser to the class that parses answers",
        "features": _RULES,
        "knobs": _RULES,
    }
    for name, instead in not_asked.items():
        if name in vars(made):
            raise TypeError(f"{made.__name__}.{name} would have no effect: {instead}")
