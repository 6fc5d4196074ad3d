"""What swink finds here through the entry-point group `swink.plugins`, and which cassette is in.

Every client loads this, so it imports nothing that it may not need.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import swink_core as swink

if TYPE_CHECKING:
    from swink_recorder.cassette import Cassette

__all__ = ["CassettePlugin", "active", "put_in", "take_out"]

_USERS = ("swink_recorder.cassette", "swink_recorder.pytest_plugin")
"""Modules without which there is no cassette."""

_in: list[Cassette] = []


def active() -> Cassette | None:
    """Return the cassette that answers calls now, if one does."""
    return _in[-1] if _in else None


def put_in(cassette: Cassette) -> None:
    """Have a cassette answer the calls of this process."""
    _in.append(cassette)


def take_out(cassette: Cassette) -> None:
    """Have the one answer again that was in before."""
    _in.remove(cassette)


class CassettePlugin:
    """Asks the cassette that is in, if one is, before any provider."""

    api_level = 1

    def __new__(cls) -> Any:
        """Make one that sees events where there may be a cassette: nobody else pays for it."""
        return super().__new__(_Watching if any(name in sys.modules for name in _USERS) else cls)

    @swink.hookimpl(tryfirst=True)
    def stream(self, call: swink.Call) -> Any:
        """Return the recorded events of an attempt, or `None`."""
        return _in[-1].stream(call) if _in else None


class _Watching(CassettePlugin):
    @swink.hookimpl
    def on_event(self, event: swink.AssistantMessageEvent, call: swink.Call) -> None:
        if _in:
            _in[-1].observe(event, call)
