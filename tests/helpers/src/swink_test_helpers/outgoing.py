"""What leaves for a call of a provider's model: its request, what is said of it, who refuses it."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
from attrs import define, field

from swink_core import (
    Context,
    Host,
    ProviderFailure,
    StreamOptions,
)
from swink_core.providers import Catalog, HTTPProvider
from swink_judge import Judge, asked_of

__all__ = ["Leaving", "leaving"]


@define
class Leaving:
    """A call as it goes out, or why it does not.

    `refusal` is what the provider says instead of sending it; `refused_by` are the rules by which
    the real API would refuse what is sent.
    """

    url: str = ""
    body: dict[str, Any] = field(factory=dict)
    notices: list[str] = field(factory=list)
    refusal: str | None = None
    refused_by: list[str] = field(factory=list)


def leaving(
    provider: HTTPProvider, model: str, context: Context | str = "Hi", **options: Any
) -> Leaving:
    """Return what leaves for a call of `provider/id`, with what the catalogue says of it."""
    known = _catalog().resolve(model)
    asked = StreamOptions(**{"base_url": "https://example.com", **options})
    fit = provider.fit(known, Context.of(context), asked)
    notices = [*fit.notices, *provider.notices(known, fit.options)]
    found = Leaving(notices=[notice.detail.removeprefix(model).lstrip(": ") for notice in notices])
    if fit.failure is not None:
        found.refusal = fit.failure.message
        return found
    try:
        payload = provider.convert(known, fit.context, fit.options)
        request = provider.request(known, payload, fit.options)
    except ProviderFailure as error:
        found.refusal = error.failure.message
        return found
    found.url, found.body = request.url, msgspec.json.decode(request.body)
    if (of := asked_of(known.provider, request.url, request.body)) is not None:
        found.refused_by = [
            rule.id for rule in _judge().refusals(of.provider, of.api, of.model, of.body)
        ]
    return found


@cache
def _catalog() -> Catalog:
    return Catalog(Host(environ={}), environ={})


@cache
def _judge() -> Judge:
    return Judge()
