"""The findings of `swink doctor`, and the checks of installed plugins.

A finding names the location of a problem, the problem and the fix.
"""

from __future__ import annotations

import difflib
import inspect
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib.metadata import Distribution, distributions
from importlib.util import find_spec
from types import FunctionType
from typing import Any, NamedTuple

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from swink_cli.extensions import (
    COMMAND_GROUP,
    TOOL_GROUP,
    added_commands,
    distribution_of,
    installed_tools,
    load_command,
    owner,
    points_of,
    version_of,
)
from swink_cli.listing import PLUGIN_GROUP, PROVIDER_GROUP
from swink_cli.tools import plugin_tools
from swink_core import Host, SwinkError
from swink_core.providers import FEATURES, TUNING, HTTPProvider

__all__ = [
    "GROUPS", "LIKENESS", "TAKEN", "Finding", "added", "examine", "failing", "instead",
]  # fmt: skip

GROUPS = (PROVIDER_GROUP, PLUGIN_GROUP, COMMAND_GROUP, TOOL_GROUP)

FILE = "models.toml"

HOOKS = ("stream", "convert_messages", "classify_error", "on_event")

TAKEN = {"features": FEATURES, "knobs": TUNING}
"""Valid names in the class attributes `features` and `knobs` of a provider."""

LIKENESS = 0.8
"""The minimum similarity, from 0 to 1, at which a name counts as misspelt."""


class Finding(NamedTuple):
    """A problem that `swink doctor` reports: where it is, what it is, and how to fix it."""

    where: str
    what: str
    advice: str

    @classmethod
    def of(cls, where: str, error: SwinkError) -> Finding:
        """Create a finding from an error."""
        return cls(where, error.message, error.resolution or "Correct it.")


def failing(checks: Mapping[str, Callable[[], object]]) -> list[Finding]:
    """Run each check, and return a finding for each failure.

    The keys of `checks` name what each function checks.
    """
    found = []
    for where, check in checks.items():
        try:
            check()
        except SwinkError as error:
            found.append(Finding.of(where, error))
    return found


def instead(word: str, known: Sequence[str]) -> str:
    """Suggest the known name that is most similar to `word`, or list all known names."""
    near = difflib.get_close_matches(word, known, 1, LIKENESS)
    return f'Write "{near[0]}".' if near else f"There are {', '.join(known)}."


def examine(host: Host, installed: Iterable[Distribution] | None = None) -> list[Finding]:
    """Check every plugin of a host, and the metadata of distributions (`None`: all installed)."""
    known = list(distributions() if installed is None else installed)
    found = [*_damaged(host), *_groups(known), *_twice(known), *_unmet(known), *_doubled(host)]
    providers = [entry for entry in host.entries() if entry.group == PROVIDER_GROUP]
    points = [point for dist in known for point in points_of(dist)]
    pointed = {point.name for point in points if point.group == PROVIDER_GROUP}
    for package, entry in {entry.package: entry for entry in providers}.items():
        names = [each.name for each in providers if each.package == package]
        found += _catalogue(entry, names, pointed)
    for entry in host.entries():
        where = f"{entry.name} ({entry.distribution} {entry.version})"
        found += _module(where, entry.value)
        found += _named(where, entry.name)
        if entry.group == PROVIDER_GROUP:
            found += _provider(where, host, entry.name)
        else:
            found += _shared(where, entry.load)
    return list(dict.fromkeys(found))


def added() -> list[Finding]:
    """Load the commands and tools that distributions add, and report those that fail."""
    loads: dict[str, Callable[[], object]] = {}
    for name, points in added_commands().items():
        loads[f"the command {name}"] = partial(load_command, name, points)
    for name in installed_tools():
        loads[f"the tool {name}"] = partial(plugin_tools, name)
    return failing(loads)


# -- metadata ------------------------------------------------------------------------------------


def _damaged(host: Host) -> Iterator[Finding]:
    """Report unreadable metadata files, whose plugins and commands are therefore not found."""
    for damage in host.damaged():
        yield Finding(
            f"{damage.file} ({damage.distribution})",
            f"the metadata cannot be read: {damage.problem}",
            f"Reinstall {damage.distribution}. If that does not help, delete the folder "
            f"{os.path.dirname(damage.file)}.",
        )


def _groups(installed: Sequence[Distribution]) -> Iterator[Finding]:
    """Find entry points in an unknown group whose name resembles a group that swink reads."""
    for point in (point for dist in installed for point in points_of(dist)):
        if point.group in GROUPS or point.group == "pytest11":
            continue
        plain = re.sub(r"[^a-z]+", ".", point.group.lower())
        near = difflib.get_close_matches(plain, GROUPS, 1, LIKENESS)
        if near:
            yield Finding(
                f"{point.name} ({distribution_of(point)})",
                f'its entry point is in the group "{point.group}", which swink does not read',
                f'Write [project.entry-points."{near[0]}"] in its pyproject.toml, and '
                "reinstall it.",
            )


def _twice(installed: Sequence[Distribution]) -> Iterator[Finding]:
    """Find distributions of swink that are installed in two versions."""
    versions: dict[str, list[str]] = {}
    for dist in installed:
        if any(point.group in GROUPS for point in points_of(dist)):
            versions.setdefault(canonicalize_name(owner(dist)), []).append(version_of(dist))
    for name, found in versions.items():
        if len({*found}) > 1:
            yield Finding(
                name,
                f"versions {' and '.join(found)} are both installed, and only one is used",
                f"Run `pip uninstall {name}` until none is left, then reinstall it.",
            )


def _doubled(host: Host) -> Iterator[Finding]:
    """Find shared plugins of different distributions with the same name, which all run."""
    owners: dict[str, list[str]] = {}
    for entry in host.entries():
        if entry.group != PROVIDER_GROUP:
            owners.setdefault(entry.name, []).append(f"{entry.distribution} {entry.version}")
    for name, found in owners.items():
        if len(found) > 1:
            yield Finding(
                name,
                f"{' and '.join(found)} have a plugin of this name, and each processes every call",
                "Uninstall all but one of them.",
            )


def _unmet(installed: Sequence[Distribution]) -> Iterator[Finding]:
    """Find plugins with a requirement that is not installed, or is installed in a wrong version."""
    versions = {canonicalize_name(owner(dist)): version_of(dist) for dist in installed}
    for dist in installed:
        if not any(point.group in GROUPS for point in points_of(dist)):
            continue
        for line in dist.requires or ():
            try:
                wanted = Requirement(line)
            except InvalidRequirement as error:
                yield Finding(owner(dist), f"it requires {line!r}: {error}", "Correct it.")
                continue
            if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
                continue
            version = versions.get(canonicalize_name(wanted.name))
            if version is None:
                what = f"it requires {line}, which is not installed"
            elif not wanted.specifier.contains(version, prereleases=True):
                what = f"it requires {line}, but {wanted.name} {version} is installed"
            else:
                continue
            yield Finding(
                owner(dist), what, f"Upgrade {owner(dist)}, or install the required version."
            )


def _named(where: str, name: str) -> Iterator[Finding]:
    """Find plugin names that cannot be written on a command line or in a model name."""
    if not re.fullmatch(r"[^\s/]+", name):
        yield Finding(
            where,
            (
                f'its name "{name}" contains a slash or a space, so PROVIDER/MODEL cannot refer '
                "to it"
            ),
            "Rename its entry point. Use letters, digits, - and _.",
        )


def _module(where: str, value: str) -> Iterator[Finding]:
    """Find entry points whose module is missing, for example because a checkout was moved."""
    module = value.partition(":")[0]
    try:
        there = find_spec(module) is not None
    except ImportError:
        there = False
    if not there:
        yield Finding(
            where,
            f"its entry point refers to the module {module}, which does not exist",
            "The install is stale: reinstall it, or uninstall it.",
        )


def _catalogue(entry: Any, names: Sequence[str], pointed: set[str]) -> Iterator[Finding]:
    """Find rows of a package's catalogue without an entry point, and entry points without a row.

    `entry` is the entry of one of the package's providers (see `Host.entries`). `names` are the
    package's providers that SWINK_PLUGINS does not exclude; `pointed` contains the names of the
    provider entry points of all packages.
    """
    package = entry.package
    try:
        rows = entry.catalog().providers
    except SwinkError as error:
        yield Finding.of(f"{FILE} of {package}", error)
        return
    without = [name for name in names if name not in rows]
    spare = [name for name in rows if name not in pointed.union(names)]
    for name in without:
        had = f"; it has {', '.join(spare)}" if spare else ""
        yield Finding(
            f"{FILE} of {package}",
            f'the provider "{name}" has no row{had}',
            f'Give a row name = "{name}", the name of the entry point.',
        )
    for name in spare if not without else ():
        yield Finding(
            f"{FILE} of {package}",
            f'the provider "{name}" has no entry point, so no model can use it',
            f'Add it under [project.entry-points."{PROVIDER_GROUP}"], and reinstall the package.',
        )


# -- what is loaded ------------------------------------------------------------------------------


def _provider(where: str, host: Host, name: str) -> Iterator[Finding]:
    try:
        provider = host.bind(name).provider
    except SwinkError as error:
        yield Finding.of(where, error)
        return
    yield from _unmarked(where, provider)
    if isinstance(provider, HTTPProvider):
        promised = [name for name in dir(HTTPProvider) if not name.startswith("_")]
        yield from _misspelt(where, type(provider), promised)
        yield from _unknown_words(where, type(provider))


def _shared(where: str, load: Callable[[], Any]) -> Iterator[Finding]:
    try:
        loaded = load()
        # A class or function is called, and its result is the plugin; None: it is not configured.
        if isinstance(loaded, type | FunctionType):
            loaded = loaded()
    except SwinkError as error:  # its configuration is invalid
        yield Finding.of(where, error)
        return
    except (Exception, SystemExit) as error:
        yield Finding(
            where,
            f"{type(error).__name__}: {error}",
            "Reinstall or upgrade it, or correct it if you maintain it.",
        )
        return
    unmarked = [*_unmarked(where, loaded), *_misspelt(where, type(loaded), HOOKS)]
    yield from unmarked
    if not unmarked and any(hasattr(loaded, name) for name in HOOKS):
        try:
            Host([loaded], entry_points=[], environ={})
        except SwinkError as error:
            yield Finding.of(where, error)


def _unmarked(where: str, plugin: Any) -> Iterator[Finding]:
    """Find hooks that are never called because they lack `@hookimpl`."""
    for name in HOOKS:
        found = inspect.getattr_static(plugin, name, None)
        function = getattr(found, "__func__", found)
        if found is not None and not hasattr(function, "swink_impl"):
            yield Finding(
                f"{where}, {_place(function)}",
                f"{name} has no @hookimpl, so it is never called",
                "Write @swink_core.hookimpl above it.",
            )


def _misspelt(where: str, made: type, promised: Sequence[str]) -> Iterator[Finding]:
    """Find methods that should probably override another method, but have a misspelt name."""
    bases = [base for base in made.__mro__ if base not in HTTPProvider.__mro__]
    for base in bases:
        for name, value in vars(base).items():
            own = not name.startswith("_") and name not in promised
            if not (own and inspect.isfunction(value)):
                continue
            if near := difflib.get_close_matches(name, promised, 1, LIKENESS):
                yield Finding(
                    f"{where}, {_place(value)}",
                    f"{base.__name__}.{name} overrides nothing",
                    f'If you meant "{near[0]}", rename it.',
                )


def _unknown_words(where: str, made: type[HTTPProvider]) -> Iterator[Finding]:
    """Find unknown capabilities that a provider class declares."""
    for name, known in TAKEN.items():
        said = getattr(made, name)
        for word in sorted({*said} - {*known}) if isinstance(said, Collection) else ():
            what = f'{made.__name__}.{name} has "{word}", which is unknown'
            yield Finding(where, what, instead(word, known))


def _place(function: Any) -> str:
    code = getattr(function, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(function)
