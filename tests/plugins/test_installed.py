"""Metadata of installed distributions: whole, damaged, or twice on the path."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zipfile import ZipFile

import importlib_metadata  # noqa: F401  # the path below does not lead to it
import pytest

from swink_core import Host
from swink_core.plugins.installed import (
    Damage,
    damaged_metadata,
    installed_points,
    name_of,
    version_of,
)

POINTS = "[swink.providers]\ntoy = fakes:Toy\n[console_scripts]\ntoy = fakes:main\n"


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder in which the only distributions are installed."""
    import_module("zipp")  # which importlib_metadata imports late
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    return tmp_path


def install(
    folder: Path,
    name: str = "the_toy",
    metadata: bytes | None = b"Name: the.toy\nVersion: 2.0\n",
    points: bytes | None = POINTS.encode(),
) -> Path:
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    for file, data in (("METADATA", metadata), ("entry_points.txt", points)):
        if data is not None:
            (info / file).write_bytes(data)
    return info


def test_only_entry_points_of_swink_are_listed(alone: Path) -> None:
    install(alone)
    points, damaged = installed_points()
    assert [(point.group, point.name, point.value) for point in points] == [
        ("swink.providers", "toy", "fakes:Toy")
    ]
    assert damaged == damaged_metadata() == []
    assert (name_of(points[0].dist), version_of(points[0].dist)) == ("the.toy", "2.0")


def test_without_metadata_name_and_version_are_those_of_the_folder(alone: Path) -> None:
    info = install(alone, metadata=None)
    points, damaged = installed_points()
    assert damaged == []
    assert (name_of(points[0].dist), version_of(points[0].dist)) == ("the-toy", "1.0")
    assert damaged_metadata() == [Damage("the-toy", str(info / "METADATA"), "the file is missing")]


# (name, what the file of entry points has, why it cannot be read)
UNREADABLE = [
    ("no_line_of_an_entry_point", b"[swink.providers]\ntoy\n", "a line is not of the form"),
    (
        "not_utf_8",
        b"[swink.providers]\ntoy = \xff\n",
        "it is not UTF-8: invalid start byte at byte",
    ),
]


@pytest.mark.parametrize(
    ("data", "problem"), [r[1:] for r in UNREADABLE], ids=[r[0] for r in UNREADABLE]
)
def test_damaged_entry_points_are_reported_once_and_the_others_are_listed(
    alone: Path, data: bytes, problem: str
) -> None:
    info = install(alone, points=data)
    install(alone, "other", metadata=b"Name: other\nVersion: 1.0\n")
    points, damaged = installed_points()
    assert [point.dist.name for point in points] == ["other"]
    (damage,) = damaged
    assert (damage.distribution, damage.file) == ("the.toy", str(info / "entry_points.txt"))
    assert damage.problem.startswith(problem)
    assert str(damage) == f"{damage.file} of the.toy cannot be read: {damage.problem}"
    assert damaged_metadata() == damaged
    assert Host().damaged() == damaged
    assert Host(entry_points=[]).damaged() == []


def test_metadata_that_are_not_text_are_reported(alone: Path) -> None:
    info = install(alone, metadata=b"Name: the_toy\nSummary: \xff\n", points=None)
    (damage,) = damaged_metadata()
    assert damage.file == str(info / "METADATA")
    assert damage.problem == "it is not UTF-8: invalid start byte at byte 23"


@pytest.mark.parametrize("name", ["METADATA", "entry_points.txt"])
def test_a_folder_in_place_of_a_metadata_file_is_reported(alone: Path, name: str) -> None:
    info = install(alone, points=None)
    (info / name).unlink(missing_ok=True)
    (info / name).mkdir()
    (damage,) = damaged_metadata()
    assert (damage.file, damage.problem) == (str(info / name), "Is a directory")


# (folder of the metadata, the distribution's name and version)
UNNAMED: list[tuple[dict[str, Any], str, str]] = [
    ({}, "?", "?"),
    ({"_path": ""}, "?", "?"),
    ({"_path": "lib/the_toy-1.0.dist-info"}, "the-toy", "1.0"),
    ({"_path": "lib/the_toy.egg-info"}, "the-toy", "?"),
    ({"_path": "lib/the_toy-1.0.dist-info", "name": None, "version": ""}, "the-toy", "1.0"),
    ({"_path": "lib/the_toy-1.0.dist-info", "name": "Toy", "version": "2"}, "Toy", "2"),
]


@pytest.mark.parametrize(("facts", "name", "version"), UNNAMED)
def test_a_distribution_has_a_name_and_a_version_whatever_is_known_of_it(
    facts: dict[str, Any], name: str, version: str
) -> None:
    dist = SimpleNamespace(**facts)
    assert (name_of(dist), version_of(dist)) == (name, version)


def install_egg(folder: Path, name: str = "the_toy", metadata: bytes | None = b"Name: x\n") -> None:
    """Install a distribution in the older form, whose metadata are in `PKG-INFO`."""
    info = folder / f"{name}.egg-info"
    info.mkdir(parents=True)
    (info / "entry_points.txt").write_text(f"[swink.providers]\n{folder.name} = a:A\n", "utf-8")
    if metadata is not None:
        (info / "PKG-INFO").write_bytes(metadata)


def install_file(folder: Path) -> None:
    """Install a distribution in the oldest form, a single file, which has no entry points."""
    folder.mkdir()
    (folder / "the_toy-1.0.egg-info").write_text("Name: the_toy\nVersion: 3.0\n", "utf-8")


def install_point(
    folder: Path, name: str = "the_toy", metadata: bytes | None = b"Name: x\n"
) -> None:
    install(folder, name, metadata, f"[swink.providers]\n{folder.name} = a:A\n".encode())


def install_zip(folder: Path, name: str = "The_Toy") -> None:
    """Install a distribution in a zip file."""
    with ZipFile(folder, "w") as packed:
        packed.writestr("x-1.0.dist-info/METADATA", f"Name: {name}\nVersion: 1.0\n")
        points = f"[swink.providers]\n{folder.name} = a:A\n"
        packed.writestr("x-1.0.dist-info/entry_points.txt", points)


bare = partial(install_point, metadata=None)
bare_egg = partial(install_egg, metadata=None)
dotted = partial(install_point, name="The.Toy")
other = partial(install_point, name="thetoy")
dashed_zip = partial(install_zip, name="the-toy")

# (name, how it is installed in each folder of the path, the folders whose entry points are listed)
TWICE: list[tuple[str, list[Callable[[Path], None]], list[str]]] = [
    ("without_metadata", [bare, dotted, install_point], ["folder1"]),
    ("with_a_dot", [install_point, dotted], ["folder0"]),
    ("another_name", [install_point, other], ["folder0", "folder1"]),
    ("an_older_form", [install_egg, install_point], ["folder0"]),
    ("an_older_form_without_metadata", [bare_egg, install_point], ["folder1"]),
    ("a_single_file", [install_file, install_point], []),
    ("zipped", [install_zip, install_point], ["folder0"]),
    ("zipped_with_a_dash", [dashed_zip, install_zip, dotted], ["folder0"]),
    ("none_with_metadata", [bare_egg, bare], ["folder0"]),
]


@pytest.mark.parametrize(
    ("installs", "listed"), [row[1:] for row in TWICE], ids=[row[0] for row in TWICE]
)
def test_a_distribution_is_the_first_on_the_path_that_has_metadata(
    installs: list[Callable[[Path], None]],
    listed: list[str],
    alone: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folders = [alone / f"folder{number}" for number in range(len(installs))]
    for folder, made in zip(folders, installs, strict=True):
        made(folder)
    monkeypatch.setattr(sys, "path", [str(folder) for folder in folders])
    assert [point.name for point in installed_points()[0]] == listed


def test_a_left_over_folder_of_an_older_form_has_no_metadata(
    alone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [alone / name for name in ("left_over", "whole")]
    left_over = folders[0] / "the_toy.egg-info"
    left_over.mkdir(parents=True)
    (left_over / "entry_points.txt").write_text("[swink.providers]\na = a:A\n", "utf-8")
    install(folders[1], points=b"[swink.providers]\nb = b:B\n")
    monkeypatch.setattr(sys, "path", [str(folder) for folder in folders])
    assert [point.name for point in installed_points()[0]] == ["b"]
    (left_over / "PKG-INFO").write_text("Name: the_toy\nVersion: 3.0\n", "utf-8")
    os.utime(folders[0], (1, 1))
    assert [point.name for point in installed_points()[0]] == ["a"]


def test_metadata_in_a_single_file_are_whole(alone: Path) -> None:
    (alone / "the_toy-1.0.egg-info").write_text("Name: the_toy\nVersion: 3.0\n", "utf-8")
    assert damaged_metadata() == []


def test_metadata_of_an_older_form_are_in_another_file(alone: Path) -> None:
    info = alone / "the_toy.egg-info"
    info.mkdir()
    (info / "entry_points.txt").write_text(POINTS, "utf-8")
    assert [damage.file for damage in damaged_metadata()] == [str(info / "PKG-INFO")]
    (info / "PKG-INFO").write_text("Name: the_toy\nVersion: 3.0\n", "utf-8")
    assert damaged_metadata() == []
