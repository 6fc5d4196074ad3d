"""The files of each wheel: what people install, and nothing that only this repository needs.

`WRITE_WHEEL_FILES=1 pytest tests/test_wheels.py` writes the listing anew.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).resolve().parent.parent
LISTING = ROOT / "tests" / "wheel_files.txt"

FOLDERS = [ROOT, *(path.parent for path in sorted(ROOT.glob("*/swink*/pyproject.toml")))]


def _files(folder: Path) -> set[str]:
    """Return the paths in a wheel; a folder of data files counts as one."""
    found = set()
    for file in WheelBuilder(str(folder)).recurse_included_files():
        path = PurePosixPath(Path(file.distribution_path).as_posix())
        if path.suffix != ".py" and len(path.parts) > 2:
            path = PurePosixPath(*path.parts[:2], "**")
        found.add(str(path))
    return found


def _listed() -> Iterator[str]:
    for folder in FOLDERS:
        yield f"{folder.name if folder != ROOT else 'swink-core'}:"
        yield from (f"    {path}" for path in sorted(_files(folder)))


def test_each_wheel_has_the_files_that_are_listed() -> None:
    """A file is added to the listing by a change that says who needs it."""
    found = "".join(f"{line}\n" for line in _listed())
    if os.environ.get("WRITE_WHEEL_FILES"):
        LISTING.write_text(found, "utf-8")
    assert found.splitlines() == LISTING.read_text("utf-8").splitlines()


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_each_wheel_is_typed(folder: Path) -> None:
    files = _files(folder)
    packages = {path.partition("/")[0] for path in files}
    assert files >= {f"{package}/py.typed" for package in packages}
