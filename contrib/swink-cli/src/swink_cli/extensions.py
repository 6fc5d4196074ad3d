"""Find the commands and tools that other distributions add, and load commands.

Distributions declare commands and tools in the entry-point groups `swink.commands` and
`swink.tools`. Commands and tools are listed from metadata alone; a command is imported when it is
called. A broken command or tool does not affect the others. This module imports only modules that
load quickly, because `swink --help` and completion use it.
"""

from __future__ import annotations

import os
from collections.abc import Container
from functools import cache
from typing import TYPE_CHECKING

import click

from swink_cli.terminal import printable

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint

__all__ = [
    "COMMAND_GROUP", "TOOL_GROUP", "added_commands", "describe_commands", "distribution_of",
    "installed_tools", "load_command", "owner", "points_of", "version_of",
]  # fmt: skip

COMMAND_GROUP, TOOL_GROUP = "swink.commands", "swink.tools"


def added_commands() -> dict[str, list[EntryPoint]]:
    """Map command names to entry points; a name with several entry points cannot be run."""
    return _claims(COMMAND_GROUP)


def installed_tools() -> dict[str, list[EntryPoint]]:
    """Map tool names to entry points; a name with several entry points cannot be used."""
    return _claims(TOOL_GROUP)


def points_of(dist: Distribution) -> list[EntryPoint]:
    """Return a distribution's entry points; none if they cannot be parsed (see `swink doctor`)."""
    try:
        return [*dist.entry_points]
    except Exception:  # a line that cannot be parsed raises TypeError
        return []


def _claims(group: str) -> dict[str, list[EntryPoint]]:
    claims: dict[str, list[EntryPoint]] = {}
    for point in _points():
        if point.group == group:
            claims.setdefault(point.name, []).append(point)
    return claims


@cache
def _points() -> list[EntryPoint]:
    """Read the entry points of commands and tools, once per distribution."""
    from importlib.metadata import distributions

    first: dict[str, Distribution] = {}
    for dist in distributions():
        folder = str(getattr(dist, "_path", "")) or owner(dist)
        first.setdefault(folder.rpartition(os.sep)[2].partition("-")[0].lower(), dist)
    groups = (COMMAND_GROUP, TOOL_GROUP)
    found = [p for dist in first.values() for p in points_of(dist) if p.group in groups]
    return sorted(found, key=lambda point: (point.name, _owner(point)))


def owner(dist: Distribution) -> str:
    """Return a distribution's name, taken from its folder if its metadata is unusable."""
    return _fact(dist, "Name") or _stem(dist)[0] or "an unnamed distribution"


def version_of(dist: Distribution) -> str:
    """Return a distribution's version, taken from its folder if its metadata is unusable."""
    return _fact(dist, "Version") or _stem(dist)[2]


def _stem(dist: Distribution) -> tuple[str, str, str]:
    stem, _ = os.path.splitext(os.path.basename(str(getattr(dist, "_path", ""))))
    name, dash, version = stem.partition("-")
    return name.replace("_", "-"), dash, version


def _fact(dist: Distribution | None, name: str) -> str:
    try:
        found = dist.metadata.get_all(name) if dist else None
    except Exception:  # missing or damaged metadata
        return ""
    return found[0] if found else ""


def distribution_of(point: EntryPoint) -> str:
    """Return the name and version of the distribution that declares an entry point."""
    return " ".join(filter(None, (_owner(point), version_of(point.dist) if point.dist else "")))


def describe_commands(
    claims: dict[str, list[EntryPoint]], taken: Container[str]
) -> list[tuple[str, str]]:
    """List commands for the help text, one row per distribution, with its summary.

    `taken` are the names of swink's own commands, which cannot be replaced.
    """
    names: dict[str, list[str]] = {}
    texts: dict[str, str] = {}
    faults = []
    for name, points in claims.items():
        owners = _listed(points)
        if name in taken:
            faults.append((name, f"skipped, from {owners}: swink has a command with this name"))
        elif len(points) > 1:
            faults.append((name, f"claimed by {owners}"))
        else:
            summary = _summary(points[0])
            names.setdefault(owners, []).append(name)
            texts[owners] = f"{summary} ({owners})" if summary else owners
    rows = [(", ".join(listed), texts[owners]) for owners, listed in names.items()]
    return [(_line(name), _line(text)) for name, text in [*rows, *faults]]


def load_command(name: str, points: list[EntryPoint]) -> click.Command:
    """Import a command. Raises PluginError, which names the distribution, if the import fails."""
    from swink_core import PluginError

    owners = _listed(points)
    if len(points) > 1:
        raise PluginError(
            f'two distributions define the command "{name}": {owners}',
            title="Duplicate command",
            resolution="Uninstall one of them.",
        )
    try:
        command = points[0].load()
    except (Exception, SystemExit) as error:
        raise PluginError(
            f"`swink {name}` of {owners} cannot be imported: {type(error).__name__}: {error}",
            title="Broken command",
            resolution=_repair(points[0], error),
        ) from error
    if not isinstance(command, click.Command):
        raise PluginError(
            f"`swink {name}` of {owners} is not a click command but {type(command).__name__}",
            title="Broken command",
            resolution=f"Its entry point, {points[0].value}, must refer to a click command.",
        )
    return command


def _repair(point: EntryPoint, error: BaseException) -> str:
    """Return the advice for a command that cannot be imported.

    The advice may name the distribution's extra `cli`, which contains the dependencies of commands.
    """
    try:
        extras = point.dist.metadata.get_all("Provides-Extra") if point.dist else None
    except Exception:  # missing or damaged metadata
        extras = None
    absent = (getattr(error, "name", None) or "").partition(".")[0]
    is_needed = isinstance(error, ModuleNotFoundError) and absent != point.module.partition(".")[0]
    if is_needed and "cli" in (extras or ()):
        return f"Install its dependencies: pip install '{_owner(point)}[cli]'"
    return "Update or uninstall that distribution. All other commands still work."


def _owner(point: EntryPoint) -> str:
    return owner(point.dist) if point.dist else "an unnamed distribution"


def _summary(point: EntryPoint) -> str:
    return _fact(point.dist, "Summary")


def _listed(points: list[EntryPoint]) -> str:
    return " and ".join(map(distribution_of, points))


def _line(text: str) -> str:
    """Return text from a distribution's metadata as one line."""
    return printable(" ".join(text.split()))
