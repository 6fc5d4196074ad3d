"""Check the user's settings: the configuration file, the models file, environment variables.

If no installed package reads a variable `SWINK_…`, its name is misspelt, or the package that reads
it is not installed. No list of these variables exists, so the source files of the packages are
searched for them.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib.metadata import Distribution, distributions
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from swink_cli.clients import configured_options, default_options
from swink_cli.commands.doctor.plugins import (
    GROUPS,
    LIKENESS,
    Finding,
    failing,
    instead,
)
from swink_cli.commands.names import check_models
from swink_cli.extensions import points_of
from swink_cli.listing import CAPABILITIES, CHOOSING
from swink_cli.settings import read_settings, settings_path
from swink_core import Host, SwinkError
from swink_core.providers import Catalog

__all__ = ["chosen_plugins", "configuration", "models_file", "unread"]

USER_FILE_ENV = "SWINK_MODELS"
"""The environment variable with the user's models file, which has the format of models.toml."""

NAME = re.compile(r"\bSWINK_[A-Z0-9_]+")

OF_A_SERVICE = re.compile(r"SWINK_\w*?(SERVICE_HOST|SERVICE_PORT\w*|PORT(_\d+_\w+)?)")
"""Matches the variables that Kubernetes sets in every pod for a service with the name swink…."""

ALMOST = 0.9
"""The minimum similarity, from 0 to 1, at which a variable counts as misspelt."""


def configuration(host: Host) -> list[Finding]:
    """Check the configuration file with the active profile."""
    try:
        settings = read_settings()
    except SwinkError as error:
        return [Finding.of("the configuration", error)]
    file = settings_path()
    checks: dict[str, Callable[[], object]] = {}
    for name, options in settings.providers.items():
        checks[f"{file}, providers.{name}"] = partial(_usable, host, name, options)
    if settings.options:
        checks[f"{file}, options"] = partial(default_options, settings)
    for name, models in {"default": settings.default, **settings.aliases}.items():
        if models:
            key = name if name == "default" else f"aliases.{name}"
            checks[f"{file}, {key}"] = partial(check_models, models)
    return failing(checks)


def models_file(host: Host) -> list[Finding]:
    """Check the user's models file for rows of unknown providers, and for unknown values."""
    catalog = Catalog(host)
    try:
        users = catalog.users
        for name in {*users.providers}.intersection(host.provider_names()):
            catalog.provider(name)
    except SwinkError as error:
        return [Finding.of(USER_FILE_ENV, error)]
    where = f"{USER_FILE_ENV}, {os.environ.get(USER_FILE_ENV)}"
    known = Host(environ={}).provider_names()  # includes providers that cannot be loaded
    rows = {f'the provider "{name}"': name for name in users.providers}
    rows |= {f'the model "{model_id}"': name for name, model_id in users.models}
    found = [
        Finding(where, f"{row} belongs to no installed provider", _meant(name, known))
        for row, name in rows.items()
        if name not in known
    ]
    for info in users.models.values():
        for word in sorted({*(info.capabilities or ())} - {*CAPABILITIES}):
            said = f'the model "{info.id}" has "{word}", which is unknown'
            found.append(Finding(where, said, instead(word, CAPABILITIES)))
    return found


def chosen_plugins(environ: Mapping[str, str]) -> list[Finding]:
    """Find names in SWINK_PLUGINS and SWINK_DISABLE_PLUGINS that no installed plugin has."""
    known = sorted({entry.name for entry in Host(environ={}).entries()})
    return [
        Finding(variable, f'no installed plugin is named "{name}"', instead(name, known))
        for variable in CHOOSING
        for name in filter(None, map(str.strip, environ.get(variable, "").split(",")))
        if name not in known
    ]


def _meant(name: str, known: Sequence[str]) -> str:
    """Suggest a provider whose name is similar to the unknown name in a row."""
    near = difflib.get_close_matches(name, known, 1, LIKENESS) or ("NAME",)
    return f'Write provider = "{near[0]}" (see `swink providers`), or install the provider.'


def _usable(host: Host, provider: str, options: dict[str, Any]) -> None:
    host.entry(provider)
    configured_options(provider, options)


# -- variables -------------------------------------------------------------------------------------


def unread(
    environ: Mapping[str, str], installed: Iterable[Distribution] | None = None
) -> list[Finding]:
    """Find variables named `SWINK_…` that no installed package of swink reads.

    `installed` are the distributions to search (`None`: all).
    """
    names = sorted(
        name for name in environ if NAME.fullmatch(name) and not OF_A_SERVICE.fullmatch(name)
    )
    if not names:
        return []
    known = {"swink", "swink_cli", "swink_core"}
    for dist in distributions() if installed is None else installed:
        points = [point for point in points_of(dist) if point.group in GROUPS]
        known.update(re.split("[.:]", point.value)[0] for point in points)
    read = {found for package in known for found in _named(package)}
    return [_finding(name, read) for name in names if name not in read]


def _finding(name: str, read: Iterable[str]) -> Finding:
    near = difflib.get_close_matches(name, read, 1, ALMOST)
    meant = (
        f"If you meant {near[0]}, set that."
        if near
        else ("Install the package that reads it, or unset it.")
    )
    return Finding(name, "no installed package reads this variable", meant)


def _named(package: str) -> Iterator[str]:
    """Yield the names of variables in a package's files, without importing the package."""
    try:
        spec = find_spec(package)
    except (ImportError, ValueError):
        return
    places = [*(spec.submodule_search_locations or ()), spec.origin or ""] if spec else []
    for place in map(Path, places):
        for file in [place, *place.rglob("*")]:
            if file.suffix in (".py", ".toml") and file.is_file():
                yield from NAME.findall(file.read_text("utf-8", "replace"))
