"""What is loaded where swink-observers is installed; nothing heavy, unless it is configured."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import swink_core as swink

if TYPE_CHECKING:
    from swink_observers.serving import SharedFeed

__all__ = ["SETTING", "address", "from_environment"]

SETTING = "SWINK_FEED"
"""Where to serve the feed: `PORT` of this machine alone, or `HOST:PORT`."""


def from_environment(environ: Mapping[str, str] | None = None) -> SharedFeed | None:
    """Return an observer that serves the feed where `SWINK_FEED` says so.

    Raises UsageError where that is no address.
    """
    environ = os.environ if environ is None else environ
    if not (setting := environ.get(SETTING, "")):
        return None
    from swink_observers.serving import SharedFeed

    return SharedFeed(setting, *address(SETTING, setting))


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
