"""A provider with its hooks, and one model of a fallback chain, ready to be called."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from typing import Any

import pluggy
from attrs import define, field

from swink_core.failures.redaction import public_url
from swink_core.vocabulary.models import Model, ProviderInfo
from swink_core.vocabulary.options import StreamOptions


@define(eq=False)
class Binding:
    """A provider, loaded, and the hooks of it and of the shared plugins."""

    name: str
    provider: Any
    manager: pluggy.PluginManager = field(repr=False)

    @property
    def hook(self) -> Any:
        """The hook relay."""
        return self.manager.hook


@define(eq=False)
class Target:
    """One model of a fallback chain with the options that are for it.

    `info` is what the catalogue knows of the provider; `is_last`: no other model of the chain
    follows.
    """

    model: Model
    options: StreamOptions = field(repr=False)
    binding: Binding = field(repr=False)
    info: ProviderInfo | None = field(default=None, repr=False)
    is_last: bool = True

    @property
    def key(self) -> str:
        """What limits and breakers go by: the model, its address, and a digest of the credentials.

        Equal in every process, and tells nobody a credential.
        """
        options, info = self.options, self.info or ProviderInfo(self.model.provider)
        address = options.base_url or first_set(info.base_url_env) or info.base_url or ""
        secret = f"{options.api_key or first_set(info.api_key_env)} {address}"
        digest = hashlib.blake2b(secret.encode("utf-8", "replace"), digest_size=8).hexdigest()
        return f"{self.model} {public_url(address)} {digest}"


def first_set(variables: Iterable[str], environ: Mapping[str, str] | None = None) -> str | None:
    """Return the value of the first of these variables that has one."""
    environ = os.environ if environ is None else environ
    return next((value for name in variables if (value := environ.get(name))), None)
