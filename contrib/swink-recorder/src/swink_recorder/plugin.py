"""The plugin of the entry-point group `swink.plugins`, and the active cassette.

Every client loads this module, so it imports only what it needs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Protocol
from weakref import WeakSet

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
"""The environment variable with the path of the store; unset, empty or `off` disables recording."""

KEEP_ENV = "SWINK_RECORD_KEEP"
"""The environment variable with the retention limits, such as `30d 500MB 10000`."""

NAME = "cassettes"
"""The name of the plugin and of the entry point."""


class Answering(Protocol):
    """The interface of a cassette, which answers calls in place of their providers."""

    def stream(self, call: swink.Call) -> Any:
        """Return the events of an attempt; `None` lets the provider make the call."""

    def observe(self, event: swink.AssistantMessageEvent, call: swink.Call) -> None:
        """Process an event of a call."""


_in: list[Answering] = []


def active() -> Answering | None:
    """Return the active cassette, or `None`."""
    return _in[-1] if _in else None


def put_in(cassette: Answering, environ: Mapping[str, str] | None = None) -> None:
    """Activate a cassette for the calls of this process.

    Raises UsageError if an environment variable disables the plugin, because then calls would reach
    the provider.
    """
    environ = os.environ if environ is None else environ
    for name, wanted in (("SWINK_PLUGINS", True), ("SWINK_DISABLE_PLUGINS", False)):
        listed = [word.strip() for word in environ.get(name, "").split(",")]
        if name in environ and (NAME in listed) is not wanted:
            raise swink.UsageError(
                f"{name} disables the plugin {NAME!r}, so calls would reach the provider",
                title="The cassette cannot be used",
                resolution=f"{'Add it to' if wanted else 'Remove it from'} {name}.",
            )
    _in.append(cassette)
    for host in [*_hosts]:
        host.add(_PLAYER, NAME)


def take_out(cassette: Answering) -> None:
    """Deactivate a cassette, and activate the previous one."""
    _in.remove(cassette)
    if not _in:
        for host in [*_hosts]:
            host.remove(_PLAYER)


class CassettePlugin:
    """A plugin that adds the hooks of cassettes to its hosts while a cassette is active."""

    api_level = 1

    def loaded(self, host: swink.Host) -> None:
        """Add the hooks to a host that has loaded this plugin, now or when they are needed."""
        _hosts.add(host)
        if _in:
            host.add(_PLAYER, NAME)


class _Player:
    """The hooks through which the active cassette answers calls in place of providers."""

    api_level = 1

    @swink.hookimpl(tryfirst=True)
    def stream(self, call: swink.Call) -> Any:
        return _in[-1].stream(call) if _in else None

    @swink.hookimpl
    def on_event(self, event: swink.AssistantMessageEvent, call: swink.Call) -> None:
        if _in:
            _in[-1].observe(event, call)


_PLAYER = _Player()

_hosts: WeakSet[swink.Host] = WeakSet()


def recorded_path(environ: Mapping[str, str] | None = None) -> str | None:
    """Return the path to which calls are recorded; `None` if recording is off."""
    path = (os.environ if environ is None else environ).get(PATH_ENV, "").strip()
    return None if path in ("", "off") else path


class RecorderPlugin:
    """A plugin that records every call if `SWINK_RECORD` enables that; else it does nothing."""

    def __new__(cls, environ: Mapping[str, str] | None = None) -> Any:
        """Create a recorder, or an object without hooks if recording is off.

        Raises UsageError for an invalid setting.
        """
        environ = os.environ if environ is None else environ
        path = recorded_path(environ)
        if path is None:
            return super().__new__(cls)
        from swink_recorder.recorder import Recorder
        from swink_recorder.store import Keep

        words = environ.get(KEEP_ENV)
        return Recorder(path, Keep.of(words) if words else None)
