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

`[provider]` may stand for the only `[[providers]]`. A model belongs to the first provider of the
file unless it says `provider`. A user's own file of the same form (`SWINK_MODELS`) overrides.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from swink_core.failures.exceptions import SwinkError
from swink_core.plugins.package_data import PackageCatalog, package_catalog
from swink_core.vocabulary.models import Model, ModelInfo, ProviderInfo

if TYPE_CHECKING:
    from swink_core.plugins.host import Host


USER_FILE_ENV = "SWINK_MODELS"


class Catalog:
    """All that installed plugins and the user's file say about providers and models."""

    def __init__(self, host: Host, environ: Mapping[str, str] | None = None) -> None:
        self._host = host
        self._environ = os.environ if environ is None else environ
        self._packages: dict[str, PackageCatalog | None] = {}
        self._user: PackageCatalog | None = None
        self._user_read = False

    def provider(self, name: str) -> ProviderInfo | None:
        """Return what is known of an installed provider; `None` if its plugin is mute."""
        user = self._overrides()
        if user and name in user.providers:
            return user.providers[name]
        package = self._package(name)
        return package.providers.get(name) if package else None

    def model(self, provider: str, model_id: str) -> ModelInfo | None:
        """Return what is known of a model; `None` for an unknown one."""
        user = self._overrides()
        if user and (provider, model_id) in user.models:
            return user.models[provider, model_id]
        package = self._package(provider)
        return package.models.get((provider, model_id)) if package else None

    def models(self, provider: str) -> list[ModelInfo]:
        """List a provider's known models, the user's among them."""
        package = self._package(provider)
        found = dict(package.models) if package else {}
        found.update(user.models if (user := self._overrides()) else {})
        return [info for (owner, _), info in found.items() if owner == provider]

    def resolve(self, name: str | Model) -> Model:
        """Parse a model's name and add what is known. Raises ValueError."""
        model = name if isinstance(name, Model) else Model.parse(name)
        if model.info is not None:
            return model
        return Model(model.provider, model.id, self.model(model.provider, model.id))

    def _package(self, provider: str) -> PackageCatalog | None:
        package = self._host.entry(provider).package
        if package not in self._packages:
            self._packages[package] = package_catalog(package)
        return self._packages[package]

    def _overrides(self) -> PackageCatalog | None:
        if not self._user_read:
            self._user_read = True
            if path := self._environ.get(USER_FILE_ENV):
                try:
                    self._user = PackageCatalog(Path(path).expanduser().read_bytes(), path)
                except OSError as error:
                    raise SwinkError(
                        f"{path}: {error.strerror}",
                        title="Cannot read the model file",
                        resolution=f"Correct or unset {USER_FILE_ENV}.",
                    ) from error
        return self._user
