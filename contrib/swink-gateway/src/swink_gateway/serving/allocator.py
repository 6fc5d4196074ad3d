"""Return the memory of large requests to the system when they end."""

from __future__ import annotations

import ctypes

__all__ = ["return_large_blocks"]

LARGE_BYTES = 131_072
"""Blocks of this size and above are mapped from the system, and unmapped when they are freed."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""Options of glibc's `mallopt`. Source: https://man7.org/linux/man-pages/man3/mallopt.3.html"""


def return_large_blocks() -> bool:
    """Make the allocator return freed blocks to the system; return False if it is not glibc's.

    Without this call, glibc keeps freed blocks of up to 32 MB for each thread, and a process that
    has served some large requests keeps hundreds of megabytes.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # musl, macOS or Windows
        return False
    options = {_ARENA_MAX: 1, _MMAP_THRESHOLD: LARGE_BYTES, _TRIM_THRESHOLD: LARGE_BYTES}
    return all(mallopt(option, value) for option, value in options.items())
