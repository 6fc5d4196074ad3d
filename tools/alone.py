"""Run each test file in a separate process: `alone.py [FILE …]` prints those that fail alone.

Without arguments: all files. This shows dependencies between test files. One file at a time; a file
without tests for this machine passes.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

NO_TESTS = 5
"""The exit code of pytest if it collected nothing."""


def test_files() -> list[Path]:
    """Return all test files of the repository, sorted."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    folders = project["tool"]["pytest"]["ini_options"]["testpaths"]
    found = (path for folder in folders for path in ROOT.glob(f"{folder}/**/test_*.py"))
    return sorted(path for path in found if "fixtures" not in path.parts)


def fails(path: Path) -> str:
    """Return the last output line of pytest for a file that fails alone; empty if it passes."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode in (0, NO_TESTS):
        return ""
    return (done.stdout.strip() or done.stderr.strip()).rpartition("\n")[2]


def main(arguments: Sequence[str]) -> int:
    """Print each file that fails alone; return 1 if one does."""
    paths = [Path(name).resolve() for name in arguments] or test_files()
    failed = 0
    for path in paths:
        if said := fails(path):
            failed += 1
            print(f"{path.relative_to(ROOT)}: {said}", flush=True)
    print(f"{failed} of {len(paths)} files fail alone")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
