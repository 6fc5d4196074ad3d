"""What `models.toml` in a plugin package says, read without importing the plugin."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from swink_core.failures.exceptions import PluginError
from swink_core.plugins.level import FIRST_API_LEVEL, check_level
from swink_core.vocabulary.models import ModelInfo, Prices, ProviderInfo

FILE = "models.toml"


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
