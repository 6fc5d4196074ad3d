"""Print a dependency group of the root pyproject.toml, one requirement a line.

For `pip install -r`: the pip that comes with Python 3.11 does not know `--group`.
"""

import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def requirements(groups: dict[str, list[Any]], name: str) -> Iterator[str]:
    for entry in groups[name]:
        if isinstance(entry, dict):
            yield from requirements(groups, entry["include-group"])
        else:
            yield entry


def main() -> None:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["dependency-groups"]
    name = sys.argv[1] if len(sys.argv) == 2 else ""
    if name not in groups:
        sys.exit(f"usage: dependency_group.py GROUP, one of: {', '.join(sorted(groups))}")
    print("\n".join(requirements(groups, name)))


if __name__ == "__main__":
    main()
