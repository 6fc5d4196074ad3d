"""Run all checks on each faulty provider of the kit's tests: the listed checks fail, no other."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from io import StringIO

from lab.mutants.providers import SOUND, TESTS


def main() -> int:
    """Print the providers that fail other checks than they should."""
    sys.path[:0] = [str(TESTS), str(SOUND)]
    from faulty_providers import BROKEN, wrongly_checked

    with redirect_stdout(StringIO()):  # one of the providers prints its key
        wrong = list(wrongly_checked())
    print("\n".join([*wrong, f"{len(BROKEN) - len(wrong)} of {len(BROKEN)} fail their own checks"]))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
