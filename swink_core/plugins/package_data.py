"""Read `models.toml` of a plugin package, and the user's file, without importing the plugin."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import date
from functools import cached_property, lru_cache
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any, Self

import msgspec
from attrs import define, field
from msgspec.structs import replace

from swink_core.failures.exceptions import PluginError
from swink_core.plugins.level import check_level
from swink_core.vocabulary.errors import SwinkError
from swink_core.vocabulary.models import ModelInfo, ProviderInfo, Rule

FILE = "models.toml"

USER_FILE_ENV = "SWINK_MODELS"
"""The environment variable with the path of the user's file."""

FIXED = ("wire_format", "api_level")
"""The fields of a provider's entry that describe the plugin's code: a user cannot change them."""

_decoding = threading.Lock()
"""Held while a file is decoded.

When msgspec decodes a class for the first time, it stores what it needs to know of the class. The
interpreter crashes if two threads do this at the same time (msgspec 0.22).
"""


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
            with _decoding:
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


@define(frozen=True, eq=False)
class UserFile:
    """The user's file, whose entries override those of the packages.

    `given` contains the names of the fields that each entry of a provider sets, by the provider's
    name.
    """

    path: str = ""
    catalog: PackageCatalog = field(factory=PackageCatalog)
    given: Mapping[str, Iterable[str]] = field(factory=dict)

    @classmethod
    def read(cls, path: str) -> Self:
        """Read the file. Raises SwinkError if it cannot be read."""
        try:
            data = Path(path).expanduser().read_bytes()
        except (OSError, RuntimeError) as error:  # RuntimeError: `~` with an unknown user name
            raise SwinkError(
                f"{path}: {getattr(error, 'strerror', error)}",
                title="Cannot read the model file",
                resolution=f"Correct or unset {USER_FILE_ENV}.",
            ) from error
        catalog = PackageCatalog.read(data, path)
        return cls(path, catalog, {row["name"]: [*row] for row in _provider_rows(data)})

    def over(self, name: str, shipped: ProviderInfo | None) -> ProviderInfo | None:
        """Return a provider's entry, with the fields of the user's entry over the package's.

        In a table, such as `dialect`, keys of the user's table override those of the package's.
        Raises PluginError if the user's entry changes a field that describes the plugin's code.
        """
        users = self.catalog.providers.get(name)
        if users is None or shipped is None:
            return users or shipped
        changes: dict[str, Any] = {}
        for key in self.given[name]:
            value = getattr(users, key)
            before = getattr(shipped, key)
            if key in FIXED and value != before:
                raise PluginError(
                    f'{self.path}: the {key} of the provider "{name}" is {before!r}, and cannot '
                    f"be changed to {value!r}",
                    title="Broken catalogue",
                    resolution=f"Remove {key}: it describes the code of the provider's package.",
                )
            changes[key] = {**before, **value} if isinstance(value, dict) else value
        return replace(shipped, **changes)


def _provider_rows(data: bytes) -> list[dict[str, Any]]:
    """Return the entries of providers in a file's text, without default values."""
    rows = msgspec.toml.decode(data)
    listed = rows.get("providers")
    found = [rows.get("provider"), *(listed if isinstance(listed, list) else ())]
    return [row for row in found if isinstance(row, dict)]


def _check_levels(data: bytes, where: str) -> None:
    """Raise PluginError for a file of a newer API level, which may contain unknown keys."""
    with suppress(msgspec.DecodeError, ValueError):
        for row in _provider_rows(data):
            if "api_level" in row:
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


def user_file(environ: Mapping[str, str] | None = None) -> UserFile:
    """Return the user's file (`SWINK_MODELS`), which is empty if the variable is not set.

    Whenever the file has changed, it is read again. Raises SwinkError if it cannot be read.
    """
    path = (os.environ if environ is None else environ).get(USER_FILE_ENV)
    return _user_file(path, state_of(os.path.expanduser(path))) if path else NO_USER_FILE


NO_USER_FILE = UserFile()


@lru_cache(maxsize=8)
def _user_file(path: str, state: tuple[int, ...]) -> UserFile:
    return UserFile.read(path)


def user_entry(name: str, shipped: ProviderInfo | None = None) -> ProviderInfo | None:
    """Return the entry of a provider that calls use: the package's, with the user's fields.

    A user's file with an error is ignored here: `Catalog`, which every call uses, reports it.
    """
    with suppress(SwinkError):
        return user_file().over(name, shipped)
    return shipped


def state_of(path: str) -> tuple[int, ...]:
    """Return a value that changes when a file or folder changes; `()` if `path` does not exist."""
    with suppress(OSError):
        found = os.stat(path or ".")  # for the import system, an empty name is the current folder
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
    return ()
