"""Providers, models, limits and prices, from plugins' package data, without importing a plugin.

A plugin ships `models.toml`:

    [[providers]]
    name = "acme"
    wire_format = "acme-sse"
    base_url = "https://api.acme.example/v1"
    api_key_env = ["ACME_API_KEY"]

    [[models]]
    id = "acme-large"
    context_window = 200_000
    capabilities = ["tools", "thinking"]
    prices = { input = 3.0, output = 15.0 }     # US dollars per million tokens
    as_of = "2026-11-01"

    [[rules]]                                   # see `Rule`
    match = "^acme-(large|huge)"
    takes = { temperature = false }

A file with a single provider may write `[provider]` for `[[providers]]`. A model belongs to the
first provider of the file unless the model's entry has a key `provider`. A rule applies to all
providers of the file unless the rule has a key `providers`. The top-level key `rules_of` names
packages whose rules are applied before those of this file. The environment variable `SWINK_MODELS`
may contain the path of a file of the same form. The entries of this user's file override those of
the packages' files, for calls too, and its rules are applied last. An entry of a provider overrides
only the fields that it contains.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from swink_core.failures.exceptions import InvalidModel
from swink_core.plugins.package_data import (
    USER_FILE_ENV,
    PackageCatalog,
    UserFile,
    package_catalog,
    state_of,
    user_file,
)
from swink_core.vocabulary.models import Model, ModelInfo, ProviderInfo, Rule

if TYPE_CHECKING:
    from swink_core.plugins.host import Host


class Catalog:
    """The data about providers and models, from installed plugins and the user's file.

    The attribute `catalog` of a client is its catalogue. Without a client, create a catalogue with
    `swink_core.providers.Catalog(swink_core.Host())`.
    """

    def __init__(self, host: Host, environ: Mapping[str, str] | None = None) -> None:
        self._host = host
        self._environ = os.environ if environ is None else environ
        self._read = cache(package_catalog)
        self._users: tuple[tuple[int, ...] | None, UserFile] = (None, UserFile())
        self._known = lru_cache(maxsize=4096)(self._known_by)
        self._listing = lru_cache(maxsize=4096)(self._listed_by)

    def provider(self, name: str) -> ProviderInfo | None:
        """Return the catalogue entry of an installed provider, or `None` if its package has none.

        Fields that the user's file sets override those of the package. Raises UnknownProvider, like
        the other methods, if the provider is not installed, and PluginError if the user's file
        changes a field that cannot be changed.
        """
        shipped = self._package(name).providers.get(name)
        return self._users[1].over(name, shipped) if self.users.providers else shipped

    def model(self, provider: str, model_id: str) -> ModelInfo | None:
        """Return the catalogue entry of a model, or `None` for an unknown model.

        An entry with exactly this id takes precedence over an entry whose pattern (`match`) matches
        the id. If the entry has a pattern, return a copy of the entry with `model_id` as its id.
        """
        files = (self.users, self._package(provider))
        listed = (file.models.get((provider, model_id)) for file in files)
        matching = (
            replace(row, id=model_id)
            for file in files
            for (owner, _), row in file.models.items()
            if owner == provider and row.match and re.search(row.match, model_id)
        )
        return next(filter(None, (*listed, *matching)), None)

    def models(self, provider: str) -> list[ModelInfo]:
        """List a provider's known models, including those of the user's file."""
        found = self._package(provider).models | self.users.models
        return [info for (owner, _), info in found.items() if owner == provider]

    def rules(self, provider: str, model_id: str) -> tuple[Rule, ...]:
        """Return the rules for a model id, known or not, in the order in which they are applied."""
        files = (self._package(provider), self.users)
        named = {rule.name or id(rule): rule for file in files for rule in file.rules()}
        return tuple(
            rule
            for rule in named.values()
            if (not rule.providers or provider in rule.providers)
            and re.search(rule.match, model_id)
            and not (rule.unless and re.search(rule.unless, model_id))
        )

    def resolve(self, name: str | Model) -> Model:
        """Return the model for `provider/id` or for an id alone, with its catalogue entry.

        An id alone is enough if only one installed provider lists it or, when several list it, if
        only one of these has an API key. Otherwise, raises InvalidModel, which names the providers
        that list the id. Raises UnknownProvider if the provider is not installed.
        """
        given: Any = name
        if not isinstance(given, str | Model):
            what = f"a model is a name or a Model, not {type(given).__name__}"
            raise InvalidModel(what, resolution="Write provider/id, as in acme/large.")
        try:
            model = name if isinstance(name, Model) else self._named(name)
            str(model).encode()  # a lone surrogate cannot be sent
        except InvalidModel:
            raise
        except ValueError as error:
            raise InvalidModel(str(error), resolution="swink models lists known ones.") from None
        self._host.entry(model.provider)  # raises for an unknown provider
        info, rules = self._known(self.users, model.provider, model.id)
        info = model.info or info
        rules = model.rules or rules
        known = (info, rules) == (model.info, model.rules)
        return model if known else Model(model.provider, model.id, info, rules)

    def _known_by(
        self, users: PackageCatalog, provider: str, model_id: str
    ) -> tuple[ModelInfo | None, tuple[Rule, ...]]:
        """Return a model's catalogue entry and rules; `users` is the data of the user's file."""
        return self.model(provider, model_id), self.rules(provider, model_id)

    def _named(self, name: str) -> Model:
        """Return the model for `provider/id` or a bare id. Raises ValueError for other names."""
        installed = self._host.provider_names()
        provider, _, model_id = name.partition("/")
        bare = not model_id or provider not in installed
        listing = self._listing(self.users, name) if bare else ()
        owners = [*listing] if len(listing) == 1 else [n for n in listing if self._has_key(n)]
        if listing and len(owners) != 1:
            names = " or ".join(f"{owner}/{name}" for owner in owners or listing)
            raise InvalidModel(
                f"{name!r} is listed by several providers", resolution=f"Write {names}."
            )
        return Model(owners[0], name) if owners else Model.parse(name)

    def _listed_by(self, users: PackageCatalog, model_id: str) -> tuple[str, ...]:
        """Return the providers that list a model id; `users` is the data of the user's file."""
        installed = self._host.provider_names()
        return tuple(n for n in installed if any(row.id == model_id for row in self.models(n)))

    def _has_key(self, provider: str) -> bool:
        info = self.provider(provider)
        return info is not None and any(self._environ.get(name) for name in info.api_key_env)

    def _package(self, provider: str) -> PackageCatalog:
        return self._read(self._host.entry(provider).package)

    @property
    def users(self) -> PackageCatalog:
        """The data of the user's file (`SWINK_MODELS`), or empty data if there is no such file.

        Whenever the file has changed, it is read again.
        """
        path = self._users_path
        if path:
            state = state_of(os.path.expanduser(path))
            if self._users[0] != state:
                self._users = state, user_file(self._environ)
        return self._users[1].catalog

    @cached_property
    def _users_path(self) -> str | None:
        return self._environ.get(USER_FILE_ENV)
