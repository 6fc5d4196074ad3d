"""Read the address at which a feed is served from an environment variable."""

from __future__ import annotations

import re

import swink_core as swink

__all__ = ["SETTING", "address"]

SETTING = "SWINK_FEED"
"""The environment variable with the feed's address: `PORT` (this machine only) or `HOST:PORT`."""


def address(setting: str, value: str) -> tuple[str, int]:
    """Return the host and port in the value of a setting.

    The value is `PORT`, for this machine only, or `HOST:PORT`. Raises UsageError for any other
    value.
    """
    host, _, port = value.rpartition(":")
    if not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > 65_535:
        raise swink.UsageError(
            f"{setting} is {value!r}", resolution="Make it a port, or host:port."
        )
    return host or "127.0.0.1", int(port)
