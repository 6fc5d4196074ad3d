"""What swink finds here through the entry-point group `swink.plugins`, and which cassette is in.

Every client loads this, so it imports nothing that it may not need.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any, Protocol

import swink_core as swink

__all__ = [
    "KEEP_ENV",
    "PATH_ENV",
    "CassettePlugin",
    "RecorderPlugin",
    "active",
    "put_in",
    "recorded_path",
    "take_out",
]

PATH_ENV = "SWINK_RECORD"
"""Names the folder or the SQLite file of calls; unset, empty or `off`: nothing is recorded."""

KEEP_ENV = "SWINK_RECORD_KEEP"
"""Says what is kept at most, as in `30d 500MB 10000`."""

NAME = "cassettes"
"""The plugin's name, that of its entry point."""

_USERS = ("swink_recorder.cassette", "swink_recorder.pytest_plugin")
"""Modules without which there is no cassette."""


class Answering(Protocol):
    """What may be in: a cassette."""

    def stream(self, call: swink.Call) -> Any:
        """Return the events of an attempt; `None` to have it made."""

    def observe(self, event: swink.AssistantMessageEvent, call: swink.Call) -> None:
        """Take note of an event of a call."""


_in: list[Answering] = []


def active() -> Answering | None:
    """Return the cassette that answers calls now, if one does."""
    return _in[-1] if _in else None


def put_in(cassette: Answering, environ: Mapping[str, str] | None = None) -> None:
    """Have a cassette answer the calls of this process.

    Raises UsageError where the environment keeps its plugin out: calls would be made for real.
    """
    environ = os.environ if environ is None else environ
    for name, wanted in (("SWINK_PLUGINS", True), ("SWINK_DISABLE_PLUGINS", False)):
        listed = [word.strip() for word in environ.get(name, "").split(",")]
        if name in environ and (NAME in listed) is not wanted:
            raise swink.UsageError(
                f"{name} keeps the plugin {NAME!r} out, so calls would be made for real",
                title="No cassette can be put in",
                resolution=f"{'Add it to' if wanted else 'Take it out of'} {name}.",
            )
    _in.append(cassette)


def take_out(cassette: Answering) -> None:
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


def recorded_path(environ: Mapping[str, str] | None = None) -> str | None:
    """Return where calls are recorded; `None` where they are not."""
    path = (os.environ if environ is None else environ).get(PATH_ENV, "").strip()
    return None if path in ("", "off") else path


class RecorderPlugin:
    """Records every call where the environment says so, and is nothing where it does not."""

    def __new__(cls, environ: Mapping[str, str] | None = None) -> Any:
        """Make a recorder, or an object without hooks. Raises UsageError for a wrong setting."""
        environ = os.environ if environ is None else environ
        path = recorded_path(environ)
        if path is None:
            return super().__new__(cls)
        from swink_recorder.recorder import Recorder
        from swink_recorder.store import Keep

        words = environ.get(KEEP_ENV)
        return Recorder(path, Keep.of(words) if words else None)
