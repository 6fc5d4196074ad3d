"""Store API keys, and check whether a provider has the credentials it needs.

Keys are stored in the system keyring, or in a private file if no keyring works (`key_file`). A key
of the active profile takes precedence over a key without a profile, and a key in the environment
takes precedence over both.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from swink_cli.key_file import ELSEWHERE, IN_KEYRING, changed, keys_path, read
from swink_cli.settings import read_settings
from swink_cli.terminal import say
from swink_core import ProviderInfo, UsageError

__all__ = [
    "IN_FILE", "checked_key", "describe", "forget", "has_key", "is_ready", "keep", "keep_for",
    "kept_keys", "read_key",
]  # fmt: skip

SERVICE = "swink"
"""The name of swink as a service in a keyring."""

IN_FILE = "file"


def kept_keys() -> dict[str, str]:
    """Return the providers with a stored key, and where each key is stored."""
    return {
        name: IN_FILE if isinstance(value, str) else IN_KEYRING
        for name, (_, value) in _at_hand().items()
    }


def read_key(provider: str) -> str | None:
    """Return the stored key of a provider, or `None`."""
    profile, value = _at_hand().get(provider, ("", None))
    if value is None or isinstance(value, str):
        return value
    ring = _keyring()
    found: str | None = ring.get_password(SERVICE, _user(profile, provider)) if ring else None
    if found is None:
        say(f"notice: the keyring did not return the key of {provider}: swink keys set {provider}")
    return found


def keep(provider: str, key: str) -> str:
    """Store a key for a provider in the active profile, and return its location."""
    profile = read_settings(begins=True).profile
    read()  # raises if the key file cannot be read, so that the file is not overwritten
    value = _into_keyring(_user(profile, provider), key)
    with changed() as data:
        _section(data, profile)[provider] = value
    return IN_FILE if isinstance(value, str) else IN_KEYRING


def forget(provider: str) -> bool:
    """Delete the key of a provider in the active profile; return True if there was one."""
    profile = read_settings(begins=True).profile
    value = _section(read(), profile).get(provider)
    if value is None:
        return False
    if not isinstance(value, str) and (ring := _keyring()) is not None:
        from keyring.errors import KeyringError

        try:
            ring.delete_password(SERVICE, _user(profile, provider))
        except KeyringError as error:
            say(f"notice: the keyring could not delete it: {error}")
    with changed() as data:
        _section(data, profile).pop(provider, None)
    return True


def _at_hand() -> dict[str, tuple[str, Any]]:
    """Return the keys that the active profile uses, by the names of their providers.

    Each value is a tuple: the profile to which the key belongs (or ""), and the stored value.
    """
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
    """Return the keyring module if a keyring works, otherwise None."""
    try:
        import keyring
    except ImportError:
        return None
    return keyring if keyring.get_keyring().priority > 0 else None


def _into_keyring(user: str, key: str) -> str | Mapping[str, str]:
    """Store a key in the keyring, and return the entry for the key file.

    The entry is a reference to the keyring, or the key itself if the keyring failed.
    """
    ring = _keyring()
    if ring is None:
        return key
    from keyring.errors import KeyringError

    try:
        ring.set_password(SERVICE, user, key)
    except KeyringError as error:
        say(f"notice: the keyring could not store it, so it is stored in a file: {error}")
        return key
    return ELSEWHERE


def checked_key(text: str) -> str:
    """Return the key in a text, without surrounding white space. Raises UsageError if it cannot be
    a key.

    The error message never contains the text, which may be a mistyped key.
    """
    key = text.strip()
    if not key:
        raise UsageError(
            "no key was given",
            title="Nothing was saved",
            resolution="Pipe it in: swink keys set PROVIDER < FILE",
        )
    if not key.isprintable() or " " in key:
        raise UsageError(
            "a key is one word, but the text contains spaces or control characters",
            title="Nothing was saved",
            resolution="Pass only the key, without quotes or a name before it.",
        )
    return key


def keep_for(info: ProviderInfo, key: str) -> None:
    """Store a key for a provider, and print where it is and which variable overrides it."""
    place = keep(info.name, key)
    say(f"saved in {'the keyring' if place == IN_KEYRING else keys_path()}")
    if name := _key_variable(info):
        say(f"notice: {name} is set, and takes precedence")


# -- what a provider needs -------------------------------------------------------------------------


def is_ready(info: ProviderInfo) -> bool:
    """Return whether a provider has the credentials that its catalogue entry requires."""
    return (info.auth in ("none", "optional") or has_key(info)) and not _unset(info)


def has_key(info: ProviderInfo) -> bool:
    """Return whether there is a key for a provider, in the environment or stored."""
    return _key_variable(info) is not None or info.name in kept_keys()


def describe(info: ProviderInfo) -> str:
    """Describe the variables that a provider needs and whether they are set."""
    missing = _unset(info)
    return " and ".join([_described(info), *(f"needs {name}" for name in missing)])


def _unset(info: ProviderInfo) -> list[str]:
    return [name for name in info.required_env if not os.environ.get(name)]


def _described(info: ProviderInfo) -> str:
    if found := _key_variable(info):
        return f"{found} is set"
    if place := kept_keys().get(info.name):
        return "its key is stored" + (" in the keyring" if place == IN_KEYRING else "")
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
