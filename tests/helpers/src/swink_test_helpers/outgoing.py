"""The request for a call of a provider's model, its notices, and the rules that reject it."""

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
    """A call as it is sent, or the reason why it is not.

    `refusal` is the provider's error instead of a request; `refused_by` are the rules by which the
    real API would reject the request.
    """

    url: str = ""
    body: dict[str, Any] = field(factory=dict)
    notices: list[str] = field(factory=list)
    refusal: str | None = None
    refused_by: list[str] = field(factory=list)


def leaving(
    provider: HTTPProvider, model: str, context: Context | str = "Hi", **options: Any
) -> Leaving:
    """Return the request for a call of `provider/id`, with the catalogue's facts on the model."""
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
