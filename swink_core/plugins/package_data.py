"""What `models.toml` in a plugin package says, read without importing the plugin."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import date
from functools import lru_cache
from importlib.util import find_spec
from itertools import chain

import msgspec
from msgspec.structs import replace

from swink_core.failures.exceptions import PluginError
from swink_core.plugins.level import check_level
from swink_core.vocabulary.models import ModelInfo, ProviderInfo, Rule

FILE = "models.toml"


class _File(msgspec.Struct, forbid_unknown_fields=True):
    provider: ProviderInfo | None = None
    providers: list[ProviderInfo] = []
    models: list[ModelInfo] = []
    rules: list[Rule] = []
    rules_of: list[str] = []
    rules_as_of: date | None = None


class PackageCatalog:
    """One file's providers and models by name, and its rules.

    `own_rules` are those of the file alone. `rules_as_of` is the day on which those of them were
    checked that have no `as_of`; `None` if the file does not say.
    """

    def __init__(self, data: bytes = b"", where: str = "") -> None:
        try:
            file = msgspec.toml.decode(data, type=_File)
            # a rule reads its expression
            [Rule(name=row.id, match=row.match or "") for row in file.models]
        except (msgspec.DecodeError, ValueError) as error:
            _check_levels(data, where)
            raise PluginError(
                f"{where}: {error}", title="Broken catalogue", resolution="Correct the file."
            ) from error
        providers = [file.provider, *file.providers] if file.provider else file.providers
        titled = (row if row.title else replace(row, title=row.name) for row in providers)
        self.providers = {row.name: row for row in titled}
        first = providers[0].name if providers else ""
        rows = (row if row.provider else replace(row, provider=first) for row in file.models)
        self.models = {(row.provider, row.id): row for row in rows}
        self.own_rules = file.rules
        self._rules_of = file.rules_of
        self.rules_as_of = file.rules_as_of

    def rules(self, within: tuple[str, ...] = ()) -> list[Rule]:
        """Return its rules after those of the packages that it names, but for those `within`."""
        names = [name for name in self._rules_of if name not in within]
        inherited = (package_catalog(name).rules((*within, name)) for name in names)
        return [*chain.from_iterable(inherited), *self.own_rules]


def _check_levels(data: bytes, where: str) -> None:
    """Refuse a file of a newer level, which may have what this one forbids."""
    with suppress(msgspec.DecodeError, ValueError):
        rows = msgspec.toml.decode(data)
        listed = rows.get("providers")
        for row in [rows.get("provider"), *(listed if isinstance(listed, list) else ())]:
            if isinstance(row, dict) and "api_level" in row:
                check_level(row["api_level"], where)


def package_catalog(package: str) -> PackageCatalog:
    """Read a package's `models.toml` without importing it; where it has none, it says nothing."""
    try:
        spec = find_spec(package)
    except (ImportError, ValueError):
        return PackageCatalog()
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        if state := state_of(file := os.path.join(folder, FILE)):
            return _catalog(file, state, f"{package}/{FILE}")
    return PackageCatalog()


@lru_cache(maxsize=128)
def _catalog(file: str, state: tuple[int, ...], where: str) -> PackageCatalog:
    """Read a file once: host, provider and catalogue ask for the same, and so do other clients."""
    with open(file, "rb") as opened:
        return PackageCatalog(opened.read(), where)


def state_of(path: str) -> tuple[int, ...]:
    """Return what is another once a file was written, or a folder changed; `()` for neither."""
    with suppress(OSError):
        found = os.stat(path or ".")  # as the path has it, an empty name is this folder
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
    return ()
