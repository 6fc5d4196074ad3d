"""Check subclasses of `OpenAIProvider`, and environment variables that a provider requires."""

from __future__ import annotations

from collections.abc import Mapping

from swink_core import Failure, ProviderFailure, ProviderInfo
from swink_core import StreamErrorKind as Kind
from swink_core.providers import first_set
from swink_provider_openai.dialect import Dialect

__all__ = ["headers_of", "refuse_idle_overrides"]

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


def headers_of(
    info: ProviderInfo, dialect: Dialect, environ: Mapping[str, str] | None
) -> dict[str, str]:
    """Return the headers whose values a dialect reads from the environment.

    Raises ProviderFailure if a required variable is not set.
    """
    found: dict[str, str] = {}
    for name, variable in dialect.headers.items():
        if (value := first_set([variable], environ)) is not None:
            found[name] = value
        elif variable in info.required_env:
            raise ProviderFailure(
                Failure(
                    "request",
                    kind=Kind.AUTH,
                    code="no_header",
                    message=f"no {name} for {info.name}: {variable} is not set",
                    resolution=f"Set {variable} in the environment.",
                )
            )
    return found
