"""Run all checks on each faulty provider of the kit's tests: the listed checks fail, no other."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from importlib import import_module
from io import StringIO

from lab.mutants.providers import SOUND, TESTS


def main() -> int:
    """Print the providers that fail other checks than they should."""
    sys.path[:0] = [str(TESTS), str(SOUND)]
    faulty = import_module("faulty_providers")
    with redirect_stdout(StringIO()):  # one of the providers prints its key
        wrong = list(faulty.wrongly_checked())
    made = len(faulty.BROKEN)
    print("\n".join([*wrong, f"{made - len(wrong)} of {made} fail their own checks, and no other"]))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
