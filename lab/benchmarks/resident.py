"""How much memory this process takes: for benchmarks, those in the environments of peers too."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["resident"]


def resident() -> float:
    """Return the megabytes that are resident."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
