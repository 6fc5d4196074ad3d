"""Keys that a user keeps, and whether a provider has what it needs.

Keys are kept in the system's keyring where there is one, else in a file of the user's (`key_file`).
A profile's keys go before the others, and a key in the environment before any.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from swink_cli.key_file import ELSEWHERE, IN_KEYRING, changed, keys_path, read
from swink_cli.settings import profile_at_hand, read_settings
from swink_cli.terminal import say
from swink_core import ProviderInfo, UsageError

__all__ = [
    "IN_FILE", "checked_key", "describe", "forget", "has_key", "is_ready", "keep", "keep_for",
    "kept_keys", "read_key",
]  # fmt: skip

SERVICE = "swink"
"""What a keyring files our keys under."""

IN_FILE = "file"


def kept_keys() -> dict[str, str]:
    """Return the providers for which a key is kept, each with its place."""
    return {
        name: IN_FILE if isinstance(value, str) else IN_KEYRING
        for name, (_, value) in _at_hand().items()
    }


def read_key(provider: str) -> str | None:
    """Return the key that is kept for a provider; `None` where there is none."""
    profile, value = _at_hand().get(provider, ("", None))
    if value is None or isinstance(value, str):
        return value
    ring = _keyring()
    found: str | None = ring.get_password(SERVICE, _user(profile, provider)) if ring else None
    if found is None:
        say(f"notice: the keyring does not give the key of {provider}: swink keys set {provider}")
    return found


def keep(provider: str, key: str) -> str:
    """Keep a key for a provider, of the profile at hand, and return its place."""
    profile = profile_at_hand()
    read()  # a file that cannot be read is not written over
    value = _into_keyring(_user(profile, provider), key)
    with changed() as data:
        _section(data, profile)[provider] = value
    return IN_FILE if isinstance(value, str) else IN_KEYRING


def forget(provider: str) -> bool:
    """Forget the key of a provider, of the profile at hand, and tell whether there was one."""
    profile = profile_at_hand()
    value = _section(read(), profile).get(provider)
    if value is None:
        return False
    if not isinstance(value, str) and (ring := _keyring()) is not None:
        from keyring.errors import KeyringError

        try:
            ring.delete_password(SERVICE, _user(profile, provider))
        except KeyringError as error:
            say(f"notice: the keyring keeps it all the same: {error}")
    with changed() as data:
        _section(data, profile).pop(provider, None)
    return True


def _at_hand() -> dict[str, tuple[str, Any]]:
    """Return what is kept by provider, each with its profile."""
    data = read()
    found = {name: ("", value) for name, value in data.get("keys", {}).items()}
    profile = read_settings().profile if data else ""
    own = data.get("profiles", {}).get(profile, {})
    return found | {name: (profile, value) for name, value in own.items()}


def _section(data: dict[str, Any], profile: str) -> dict[str, Any]:
    owner, name = (data.setdefault("profiles", {}), profile) if profile else (data, "keys")
    section: dict[str, Any] = owner.setdefault(name, {})
    return section


def _user(profile: str, provider: str) -> str:
    return f"{profile}/{provider}" if profile else provider


def _keyring() -> Any:
    """Return the module of a keyring that works, and None where there is none."""
    try:
        import keyring
    except ImportError:
        return None
    return keyring if keyring.get_keyring().priority > 0 else None


def _into_keyring(user: str, key: str) -> str | Mapping[str, str]:
    """Return what the file is to hold: where the keyring took the key, and otherwise the key."""
    ring = _keyring()
    if ring is None:
        return key
    from keyring.errors import KeyringError

    try:
        ring.set_password(SERVICE, user, key)
    except KeyringError as error:
        say(f"notice: the keyring does not take it, so a file does: {error}")
        return key
    return ELSEWHERE


def checked_key(text: str) -> str:
    """Return the key in a text, without the space around it. Raises UsageError for anything else.

    The message never shows the text.
    """
    key = text.strip()
    if not key:
        raise UsageError(
            "there is no key",
            title="Nothing was kept",
            resolution="Pipe one in: swink keys set PROVIDER < FILE",
        )
    if not key.isprintable() or " " in key:
        raise UsageError(
            "a key is one word, and the text has spaces or control characters",
            title="Nothing was kept",
            resolution="Give the key alone, without quotes or a name before it.",
        )
    return key


def keep_for(info: ProviderInfo, key: str) -> None:
    """Keep a key for a provider, and tell the user where it is and which variable replaces it."""
    place = keep(info.name, key)
    say(f"kept in {'the keyring' if place == IN_KEYRING else keys_path()}")
    if name := _key_variable(info):
        say(f"notice: {name} is set, and goes before it")


# -- what a provider needs -------------------------------------------------------------------------


def is_ready(info: ProviderInfo) -> bool:
    """Tell whether what a provider needs is there, as far as known."""
    return (info.auth in ("none", "optional") or has_key(info)) and not _unset(info)


def has_key(info: ProviderInfo) -> bool:
    """Tell whether there is a key for a provider, in the environment or kept."""
    return _key_variable(info) is not None or info.name in kept_keys()


def describe(info: ProviderInfo) -> str:
    """Say which variables hold what a provider needs and whether they are set."""
    missing = _unset(info)
    return " and ".join([_described(info), *(f"needs {name}" for name in missing)])


def _unset(info: ProviderInfo) -> list[str]:
    return [name for name in info.required_env if not os.environ.get(name)]


def _described(info: ProviderInfo) -> str:
    if found := _key_variable(info):
        return f"{found} is set"
    if place := kept_keys().get(info.name):
        return "its key is kept" + (" in the keyring" if place == IN_KEYRING else "")
    names = " or ".join(info.api_key_env)
    match info.auth:
        case "none":
            return "needs no key"
        case "optional":
            return f"{names} is optional" if names else "needs no key"
        case "key":
            return f"needs {names or 'a key'}"
    return f"needs {names} or {info.auth}" if names else f"needs {info.auth}"


def _key_variable(info: ProviderInfo) -> str | None:
    return next((name for name in info.api_key_env if os.environ.get(name)), None)
