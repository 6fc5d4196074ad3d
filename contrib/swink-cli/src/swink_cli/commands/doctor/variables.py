"""Variables that are called as swink's settings are, and that nothing installed reads: what does is
not installed, or the name is misspelt.

Who reads which is written nowhere but in the packages themselves, whose files are looked through.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import Distribution, distributions
from importlib.util import find_spec
from pathlib import Path

from swink_cli.commands.doctor.findings import Finding
from swink_cli.commands.doctor.plugins import GROUPS
from swink_cli.extensions import points_of

__all__ = ["unread"]

NAME = re.compile(r"\bSWINK_[A-Z0-9_]+")

OF_A_SERVICE = re.compile(r"SWINK_\w*?(SERVICE_HOST|SERVICE_PORT\w*|PORT(_\d+_\w+)?)")
"""What Kubernetes gives every pod beside a service that is called swink, or begins so."""

LIKENESS = 0.9
"""How like a name must be to one that is read to be meant as it, from 0 to 1."""


def unread(
    environ: Mapping[str, str], installed: Iterable[Distribution] | None = None
) -> list[Finding]:
    """Find variables that neither swink nor a distribution (`None`: of those here) names."""
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
    near = difflib.get_close_matches(name, read, 1, LIKENESS)
    meant = f"If {near[0]} is meant, set that." if near else "Install what does, or unset it."
    return Finding(name, "nothing that is installed reads this variable", meant)


def _named(package: str) -> Iterator[str]:
    """Give the variables that the files of a package have, without importing it."""
    try:
        spec = find_spec(package)
    except (ImportError, ValueError):
        return
    places = [*(spec.submodule_search_locations or ()), spec.origin or ""] if spec else []
    for place in map(Path, places):
        for file in [place, *place.rglob("*")]:
            if file.suffix in (".py", ".toml") and file.is_file():
                yield from NAME.findall(file.read_text("utf-8", "replace"))
