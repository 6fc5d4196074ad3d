"""Installing from a checkout: what uv and `make demo` read from each pyproject.toml."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent

MEMBERS: dict[str, dict[str, Any]] = {
    data["project"]["name"]: data
    for pattern in (".", "plugins/*", "contrib/*", "tests/helpers")
    for path in sorted(ROOT.glob(f"{pattern}/pyproject.toml"))
    for data in [tomllib.loads(path.read_text("utf-8"))]
}

UNRELEASED = {"swink-test-helpers"}
"""Members for the tests of this repository alone."""

REQUIREMENT = re.compile(r"([\w.-]+)(?:\[([\w,-]+)\])?")


def _named(requirements: list[Any]) -> Iterator[tuple[str, list[str]]]:
    """Yield the members that requirements name, each with the extras."""
    for requirement in requirements:
        found = REQUIREMENT.match(requirement) if isinstance(requirement, str) else None
        if found and found[1] in MEMBERS:
            yield found[1], (found[2] or "").split(",")


@pytest.mark.parametrize("name", sorted(MEMBERS))
def test_a_distribution_declares_the_members_that_it_names_as_sources_for_uv(name: str) -> None:
    data = MEMBERS[name]
    groups: list[list[Any]] = [
        data["project"]["dependencies"],
        *data["project"].get("optional-dependencies", {}).values(),
        *data.get("dependency-groups", {}).values(),
    ]
    used = {member for group in groups for member, _ in _named(group)}
    assert data["tool"]["uv"]["sources"] == {member: {"workspace": True} for member in used}


def test_a_fresh_checkout_installs_every_distribution_with_its_commands() -> None:
    installed: set[str] = {"swink-core"}
    pending = list(_named(MEMBERS["swink-core"]["dependency-groups"]["run"]))
    extras_of: dict[str, set[str]] = {}
    while pending:
        name, extras = pending.pop()
        new = {"", *extras} - extras_of.setdefault(name, set())
        extras_of[name] |= new
        installed.add(name)
        project = MEMBERS[name]["project"]
        for extra in new:
            requirements = (
                project["optional-dependencies"][extra] if extra else project["dependencies"]
            )
            pending += _named(requirements)
    assert installed == MEMBERS.keys() - UNRELEASED
    without = [
        name
        for name, data in MEMBERS.items()
        if "swink.commands" in data["project"].get("entry-points", {})
        and "cli" not in extras_of[name]
    ]
    assert without == []
