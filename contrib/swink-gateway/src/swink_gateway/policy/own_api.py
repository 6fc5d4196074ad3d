"""Select the API whose format the client uses, if the request needs it and the provider has it.

For a provider with several APIs, the catalogue's rules for a model prefer one API. Fields of the
body that the preferred API lacks would be dropped, although the provider also serves the client's
API.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from swink_core import Client, Model
from swink_core.providers import Fitted
from swink_gateway.policy.passthrough import SHARED, own_api
from swink_gateway.protocols import Asked

__all__ = ["with_own_api"]

_OF_ALL = frozenset({*SHARED, "tools", "thread"})
"""Fields that do not need the client's API: the preferred API treats them in the same way."""


def with_own_api(
    client: Client, model: Model, asked: Asked, wire_format: str, own: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a target's options; select the client's API if fields of the request need it.

    The client's API is selected only if the model's rules prefer another API, but allow the
    client's API for some calls. An API that the operator, the model's catalog entry or a rule for
    this call requires is not replaced.
    """
    options = dict(own)
    if _OF_ALL.issuperset(asked.own) or "settings" in asked.options:
        return options
    api = own_api(client.catalog.provider(model.provider), wire_format)
    if api is None:
        return options
    set_options = client.target(model, **{**asked.options, **own}).options
    if set_options.settings.get("api") or (model.info and model.info.api):
        return options
    rules = [rule for rule in model.rules if rule.api and not rule.apis]
    call = Fitted(model, asked.context, set_options)
    others = [rule for rule in rules if rule.api != api]
    is_needed = any(rule.when and call.meets(rule) for rule in others)
    is_preferred = any(not rule.when for rule in others)
    if is_preferred and not is_needed and any(rule.api == api for rule in rules):
        options["settings"] = {**set_options.settings, "api": api}
    return options
