"""Reads the entry points of installed distributions, and reports metadata that is damaged.

If one distribution has an `entry_points.txt` that cannot be parsed,
`importlib.metadata.entry_points()` raises an exception and returns no entry points at all. This
module reads each distribution separately, so that damaged metadata affect only their own
distribution.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from swink_core.plugins.package_data import state_of

ENTRY_POINTS = "entry_points.txt"

PREFIX = "swink."
"""The prefix of all entry-point groups that swink reads."""

_names: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
"""The names of distributions that were read, because parsing a metadata file takes long."""


class Damage(NamedTuple):
    """An unreadable metadata file of a distribution, and the reason."""

    distribution: str
    file: str
    problem: str

    def __str__(self) -> str:
        return f"{self.file} of {self.distribution} cannot be read: {self.problem}"


def installed_points() -> tuple[list[Any], list[Damage]]:
    """List swink's entry points, and the `entry_points.txt` files that cannot be parsed.

    The result is cached until a folder of `sys.path` changes.
    """
    return _read(tuple((folder, state_of(folder)) for folder in sys.path))


def damaged_metadata() -> list[Damage]:
    """Check all installed distributions, and list their unreadable metadata files.

    This check is slower than `installed_points`.
    """
    found = [*installed_points()[1]]
    parsed = {damage.file for damage in found}
    for dist in _distributions():
        folder = getattr(dist, "_path", None)
        if not isinstance(folder, Path):
            continue  # a zip file, or found by another kind of finder
        for file in (folder / name for name in (ENTRY_POINTS, *_facts(folder))):
            if str(file) not in parsed and (problem := _problem(file)):
                found.append(Damage(name_of(dist), str(file), problem))
    return found


def name_of(dist: Any) -> str:
    """Return a distribution's name.

    If the metadata is missing or damaged, take the name from the name of the metadata folder.
    """
    with suppress(TypeError):  # an object that is no key of a weak dictionary
        if dist in _names:
            return _names[dist]
    name = _fact(dist, "name") or _stem(dist)[0]
    with suppress(TypeError):
        _names[dist] = name
    return name


def version_of(dist: Any) -> str:
    """Return a distribution's version.

    If the metadata is missing or damaged, take the version from the name of the metadata folder.
    """
    return _fact(dist, "version") or _stem(dist)[1]


@lru_cache(maxsize=1)
def _read(path: tuple[tuple[str, tuple[int, ...]], ...]) -> tuple[list[Any], list[Damage]]:
    points: list[Any] = []
    damaged: list[Damage] = []
    for dist in _distributions():
        try:
            points += [point for point in dist.entry_points if point.group.startswith(PREFIX)]
        except Exception as error:
            file = os.path.join(str(getattr(dist, "_path", "")), ENTRY_POINTS)
            damaged.append(Damage(name_of(dist), file, _reason(error)))
    return points, damaged


def _distributions() -> list[Any]:
    """List the installed distributions.

    If `sys.path` contains several distributions with one name, list only the first that has
    metadata.
    """
    from importlib_metadata import distributions

    found: dict[str, Any] = {}
    without: dict[str, Any] = {}
    for dist in distributions():
        folder = getattr(dist, "_path", None)
        whole = not isinstance(folder, Path) or any(map(os.path.exists, _named(folder)))
        (found if whole else without).setdefault(_key(dist), dist)
    return [*found.values(), *(dist for key, dist in without.items() if key not in found)]


def _key(dist: Any) -> str:
    name = _stem(dist)[0] if isinstance(getattr(dist, "_path", None), Path) else name_of(dist)
    return name.lower().replace("_", "-").replace(".", "-")


def _named(folder: Path) -> tuple[str, ...]:
    """Return the paths of the files in which a distribution's name and version may be stored."""
    base = str(folder)
    own = (base,) if base.endswith(".egg-info") and folder.is_file() else ()
    return os.path.join(base, "METADATA"), os.path.join(base, "PKG-INFO"), *own


def _facts(folder: Path) -> tuple[str, ...]:
    """Return the name of the metadata file that `folder` must contain.

    The result is empty if `folder` is not a folder but an `.egg-info` file.
    """
    if folder.suffix == ".egg-info":
        return () if folder.is_file() else ("PKG-INFO",)
    return ("METADATA",)


def _problem(file: Path) -> str | None:
    """Return the reason why a metadata file cannot be read, or `None` if it can be read."""
    try:
        file.read_text("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None if file.name == ENTRY_POINTS else "the file is missing"
    except (OSError, UnicodeDecodeError) as error:
        return _reason(error)
    return None


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    if isinstance(error, UnicodeDecodeError):
        return f"it is not UTF-8: {error.reason} at byte {error.start}"
    return f"a line is not of the form `name = package.module:object` ({error})"


def _fact(dist: Any, name: str) -> str | None:
    with suppress(Exception):  # missing metadata raises different exceptions in different versions
        return str(getattr(dist, name) or "")
    return None


def _stem(dist: Any) -> tuple[str, str]:
    name, _, version = Path(str(getattr(dist, "_path", "?"))).stem.partition("-")
    return name.replace("_", "-") or "?", version or "?"
