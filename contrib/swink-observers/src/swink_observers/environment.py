"""What is loaded where swink-observers is installed; nothing heavy, unless it is configured."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from swink_observers.address import SETTING, address

if TYPE_CHECKING:
    from swink_observers.serving import SharedFeed

__all__ = ["from_environment"]


def from_environment(environ: Mapping[str, str] | None = None) -> SharedFeed | None:
    """Return an observer that serves the feed where `SWINK_FEED` says so.

    Raises UsageError where that is no address.
    """
    environ = os.environ if environ is None else environ
    if not (setting := environ.get(SETTING, "")):
        return None
    from swink_observers.serving import SharedFeed

    return SharedFeed(setting, *address(SETTING, setting))
