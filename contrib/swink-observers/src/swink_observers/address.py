"""The variable that says where a feed is served, and how an address is written there."""

from __future__ import annotations

import re

import swink_core as swink

__all__ = ["SETTING", "address"]

SETTING = "SWINK_FEED"
"""Where to serve the feed: `PORT` of this machine alone, or `HOST:PORT`."""


def address(setting: str, value: str) -> tuple[str, int]:
    """Return the host and port of a setting: `PORT` of this machine alone, or `HOST:PORT`.

    Raises UsageError where it is neither.
    """
    host, _, port = value.rpartition(":")
    if not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > 65_535:
        raise swink.UsageError(
            f"{setting} is {value!r}", resolution="Make it a port, or host:port."
        )
    return host or "127.0.0.1", int(port)
