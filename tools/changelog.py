"""Move the fragments of `changelog.d/` to `CHANGELOG.md`, or show what that would be.

It rejects an invalid version, one that differs from that of the distributions, and a release
without fragments, and then changes nothing:

    python tools/changelog.py 0.2.0
    python tools/changelog.py --draft
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tomllib
from pathlib import Path

from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).resolve().parent.parent

PLACES = ("", "plugins/*/", "contrib/*/")
"""Where distributions are."""

TOWNCRIER = (sys.executable, "-m", "towncrier", "build")


class ChangelogError(Exception):
    """The reason why the change log is unchanged."""


def released(text: str, root: Path) -> str:
    """Return a release's version. Raises ChangelogError for an invalid or non-canonical version, or
    one that differs from the distributions'.
    """
    try:
        written = str(Version(text))
    except InvalidVersion:
        raise ChangelogError(f"{text!r} is no version: make changelog VERSION=0.2.0") from None
    if written != text:
        raise ChangelogError(f"{text!r} is written {written}: make changelog VERSION={written}")
    files = [path for place in PLACES for path in root.glob(f"{place}pyproject.toml")]
    theirs = {tomllib.loads(path.read_text("utf-8"))["project"]["version"] for path in files}
    if theirs != {written}:
        said = ", ".join(sorted(theirs))
        raise ChangelogError(
            f"the distributions are {said}, not {written}: change each pyproject.toml first "
            "(docs/explanation/plugin-api-level.md)"
        )
    return written


def fragments(root: Path) -> list[Path]:
    """Return the fragments of a release. Raises ChangelogError if there are no fragments."""
    folder = root / "changelog.d"
    found = sorted(path for path in folder.glob("*.md") if path.name != "README.md")
    if not found:
        raise ChangelogError(f"{folder.name}/ has no fragments: nothing changed for users")
    return found


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Do what the command line says; return 1, and change nothing, where that cannot be."""
    parser = argparse.ArgumentParser(prog="tools/changelog.py", description=__doc__)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("version", nargs="?", metavar="VERSION")
    which.add_argument("--draft", action="store_true", help="show it, and change nothing")
    options = parser.parse_args(arguments)
    try:
        how = ["--draft", "--version", "draft"]
        if not options.draft:
            how = ["--yes", "--version", released(options.version, root)]
        fragments(root)
    except ChangelogError as error:
        print(error, file=sys.stderr)
        return 1
    return subprocess.run([*TOWNCRIER, *how], cwd=root).returncode


if __name__ == "__main__":
    sys.exit(main())
