"""Read from /proc what processes use."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

__all__ = ["children", "megabytes", "seconds"]


def children(pid: int) -> list[int]:
    """Return the processes that a process started."""
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def megabytes(pids: Sequence[int]) -> list[int]:
    """Return the memory of each process, in MB."""
    page = os.sysconf("SC_PAGE_SIZE")
    pages = [int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids]
    return [round(each * page / 1e6) for each in pages]


def seconds(pids: Sequence[int]) -> float:
    """Return the processor time of all processes together."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")
