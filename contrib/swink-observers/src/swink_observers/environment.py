"""The entry point of the package. It imports heavy modules only if the feed is configured."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from swink_observers.address import SETTING, address

if TYPE_CHECKING:
    from swink_observers.serving import SharedFeed

__all__ = ["from_environment"]


def from_environment(environ: Mapping[str, str] | None = None) -> SharedFeed | None:
    """Return an observer that serves the feed if `SWINK_FEED` is set.

    Raises UsageError if its value is not a valid address.
    """
    environ = os.environ if environ is None else environ
    if not (setting := environ.get(SETTING, "")):
        return None
    from swink_observers.serving import SharedFeed

    return SharedFeed(setting, *address(SETTING, setting))
