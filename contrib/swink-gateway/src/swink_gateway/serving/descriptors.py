"""Ensure that the process may open enough file descriptors for the concurrent answers."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from swink_gateway.serving.limits import Limits

__all__ = ["RESERVED", "affordable_streams", "descriptors_left", "raise_limit"]

resource: Any = import_module("resource") if find_spec("resource") else None
"""The module with the limits of a process; `None` on Windows, which lacks it."""

PER_STREAM = 2

RESERVED = 64
"""The number of descriptors that are reserved for files, the store and libraries."""


def _limit() -> int | None:
    """Return the descriptor limit of this process; `None` without a limit."""
    if resource is None:
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def affordable_streams(streams: int) -> int:
    """Return the number of concurrent answers that the descriptor limit allows, up to `streams`."""
    limit = _limit()
    return streams if limit is None else max(1, min(streams, (limit - RESERVED) // PER_STREAM))


def descriptors_left(connections: int, streams: int) -> bool:
    """Return True if the descriptor limit allows one more connection.

    `connections` are open already, and `streams` answers need one descriptor each. A reserve for
    the process's other files is kept free.
    """
    limit = _limit()
    return limit is None or connections + streams < limit - RESERVED


def raise_limit(limits: Limits) -> str | None:
    """Raise the descriptor limit as far as needed and allowed; return a warning if it is too low.

    `limits` are the limits on the clients of one process.
    """
    limit = _limit()
    wanted = limits.connections + limits.streams + RESERVED
    if resource is None or limit is None or limit >= wanted:
        return None
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    raised = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(raised, limit), hard))
    found = affordable_streams(limits.streams)
    if found == limits.streams:
        return None
    return (
        f"{raised} file descriptors are enough for {found} concurrent answers instead of "
        f"{limits.streams}: raise the limit to {wanted} (ulimit -n, LimitNOFILE) or lower --streams"
    )
