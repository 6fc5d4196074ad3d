"""Read `models.toml` of a plugin package without importing the plugin."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from datetime import date
from functools import cached_property, lru_cache
from importlib.util import find_spec
from itertools import chain
from typing import Self

import msgspec
from msgspec.structs import replace

from swink_core.failures.exceptions import PluginError
from swink_core.plugins.level import check_level
from swink_core.vocabulary.models import ModelInfo, ProviderInfo, Rule

FILE = "models.toml"


class PackageCatalog(msgspec.Struct, forbid_unknown_fields=True, eq=False, dict=True):
    """The contents of one `models.toml`: its providers, models and rules.

    `own_rules` are the rules in the file itself. `rules_as_of` is the day on which these rules were
    last checked, unless a rule has its own `as_of`; `None` if the file does not state the day.
    """

    provider: ProviderInfo | None = None
    listed_providers: list[ProviderInfo] = msgspec.field(default_factory=list, name="providers")
    listed_models: list[ModelInfo] = msgspec.field(default_factory=list, name="models")
    own_rules: list[Rule] = msgspec.field(default_factory=list, name="rules")
    rules_of: list[str] = []
    rules_as_of: date | None = None

    @classmethod
    def read(cls, data: bytes, where: str) -> Self:
        """Parse a file's text; raise PluginError, with the file name `where`, if it is invalid."""
        try:
            file = msgspec.toml.decode(data, type=cls)
            # creating a rule compiles its regular expression
            [Rule(name=row.id, match=row.match or "") for row in file.listed_models]
        except (msgspec.DecodeError, ValueError) as error:
            _check_levels(data, where)
            raise PluginError(
                f"{where}: {error}", title="Broken catalogue", resolution="Correct the file."
            ) from error
        return file

    @cached_property
    def providers(self) -> Mapping[str, ProviderInfo]:
        """The entries of providers, by name."""
        rows = self.listed_providers
        if self.provider is not None:
            rows = [self.provider, *rows]
        titled = (row if row.title else replace(row, title=row.name) for row in rows)
        return {row.name: row for row in titled}

    @cached_property
    def models(self) -> dict[tuple[str, str], ModelInfo]:
        """The entries of models, by (provider, id).

        A model without a provider belongs to the first provider of the file.
        """
        first = next(iter(self.providers), "")
        rows = self.listed_models
        named = (row if row.provider else replace(row, provider=first) for row in rows)
        return {(row.provider, row.id): row for row in named}

    def rules(self, within: tuple[str, ...] = ()) -> list[Rule]:
        """Return the rules of the packages that `rules_of` names, followed by the file's own rules.

        `within` contains the packages that are already being read. They are skipped, so that
        packages that name each other do not cause an endless loop.
        """
        names = [name for name in self.rules_of if name not in within]
        inherited = (package_catalog(name).rules((*within, name)) for name in names)
        return [*chain.from_iterable(inherited), *self.own_rules]


def _check_levels(data: bytes, where: str) -> None:
    """Raise PluginError for a file of a newer API level, which may contain unknown keys."""
    with suppress(msgspec.DecodeError, ValueError):
        rows = msgspec.toml.decode(data)
        listed = rows.get("providers")
        for row in [rows.get("provider"), *(listed if isinstance(listed, list) else ())]:
            if isinstance(row, dict) and "api_level" in row:
                check_level(row["api_level"], where)


def package_catalog(package: str) -> PackageCatalog:
    """Read a package's `models.toml` without importing the package.

    If the package has no such file, the result is empty.
    """
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
    """Read a `models.toml`, and cache the result until the file changes (`state`)."""
    with open(file, "rb") as opened:
        return PackageCatalog.read(opened.read(), where)


def state_of(path: str) -> tuple[int, ...]:
    """Return a value that changes when a file or folder changes; `()` if `path` does not exist."""
    with suppress(OSError):
        found = os.stat(path or ".")  # for the import system, an empty name is the current folder
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
    return ()
