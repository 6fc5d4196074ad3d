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
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from swink_core.errors import PluginError, SwinkError
from swink_core.level import FIRST_API_LEVEL, check_level
from swink_core.model import Model, ModelInfo, Prices, ProviderInfo
from swink_core.outcome import Cost, Usage

if TYPE_CHECKING:
    from swink_core.host import Host

__all__ = ["Catalog", "cost_of", "package_catalog"]

FILE = "models.toml"
USER_FILE_ENV = "SWINK_MODELS"


class _ProviderRow(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    title: str = ""
    wire_format: str = ""
    base_url: str | None = None
    api_key_env: list[str] = []
    base_url_env: list[str] = []
    auth: str = "key"
    api_level: int = FIRST_API_LEVEL
    docs: str | None = None
    portal: str | None = None
    dialect: dict[str, Any] = {}


class _PriceRow(msgspec.Struct, forbid_unknown_fields=True):
    input: float | None = None
    output: float | None = None
    cache_read: float | None = None
    cache_write: float | None = None


class _ModelRow(msgspec.Struct, forbid_unknown_fields=True):
    id: str
    provider: str | None = None
    name: str | None = None
    context_window: int | None = None
    max_output: int | None = None
    capabilities: list[str] | None = None
    status: str = "active"
    prices: _PriceRow | None = None
    api: str | None = None
    as_of: str | None = None
    extra: dict[str, Any] = {}


class _File(msgspec.Struct, forbid_unknown_fields=True):
    provider: _ProviderRow | None = None
    providers: list[_ProviderRow] = []
    models: list[_ModelRow] = []


class PackageCatalog:
    """One file's providers and models by name."""

    def __init__(self, data: bytes, where: str) -> None:
        try:
            rows = msgspec.toml.decode(data, type=_File)
        except msgspec.DecodeError as error:
            _check_levels(data, where)
            raise PluginError(
                f"{where}: {error}", title="Broken catalogue", resolution="Correct the file."
            ) from error
        providers = [rows.provider, *rows.providers] if rows.provider else rows.providers
        self.providers = {
            row.name: ProviderInfo(
                row.name, row.title or row.name, row.wire_format, row.base_url,
                tuple(row.api_key_env), tuple(row.base_url_env), row.auth, row.api_level,
                row.docs, row.portal, row.dialect,
            )
            for row in providers
        }  # fmt: skip
        first = providers[0].name if providers else ""
        self.models = {
            (row.provider or first, row.id): ModelInfo(
                row.id, row.provider or first, row.name, row.context_window, row.max_output,
                None if row.capabilities is None else frozenset(row.capabilities), row.status,
                Prices(*msgspec.structs.astuple(row.prices)) if row.prices else None,
                row.api, row.as_of, row.extra,
            )
            for row in rows.models
        }  # fmt: skip


def _check_levels(data: bytes, where: str) -> None:
    """Refuse a file of a newer level, which may have what this one forbids."""
    try:
        rows = msgspec.toml.decode(data)
    except msgspec.DecodeError:
        return
    for row in [rows.get("provider"), *_rows(rows.get("providers"))]:
        if isinstance(row, dict) and "api_level" in row:
            check_level(row["api_level"], where)


def _rows(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def package_catalog(package: str) -> PackageCatalog | None:
    """Read a package's `models.toml` without importing it; `None` where it has none."""
    try:
        spec = find_spec(package)
    except (ImportError, ValueError):
        return None
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        file = Path(folder) / FILE
        if file.is_file():
            return PackageCatalog(file.read_bytes(), f"{package}/{FILE}")
    return None


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


def cost_of(usage: Usage | None, prices: Prices | None) -> Cost | None:
    """Price an answer in US dollars; `None` where nothing can be said.

    Parts without a price or a count are `None`; `total` is the sum, `None` if a part that was
    used has no price. Cache reads and writes without a price of their own cost as input.
    """
    if usage is None or prices is None:
        return None
    read, write = usage.cache_read or 0, usage.cache_write or 0
    fresh = None if usage.input is None else max(0, usage.input - read - write)
    cost = Cost(
        _price(fresh, prices.input),
        _price(usage.output, prices.output),
        _price(usage.cache_read, prices.input if prices.cache_read is None else prices.cache_read),
        _price(
            usage.cache_write, prices.input if prices.cache_write is None else prices.cache_write
        ),
    )
    if cost.input is not None and cost.output is not None:
        cost.total = cost.input + cost.output + (cost.cache_read or 0.0) + (cost.cache_write or 0.0)
    return cost


def _price(tokens: int | None, per_million: float | None) -> float | None:
    return None if tokens is None or per_million is None else tokens * per_million / 1e6
