"""Keys that a user keeps: in the system's keyring where there is one, else in a file of theirs.

The file, which nobody else may read, names every key that is kept, so that none has to be asked
of a keyring to be listed:

    [keys]
    anthropic = "sk-…"
    openai = { place = "keyring" }

    [profiles.work]
    openai = "sk-…"

A profile's keys go before the others. A key in the environment goes before any that is kept.
"""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import swink_core as swink
from swink_cli.files import changing, replace_file
from swink_cli.settings import profile_at_hand, read_settings, user_folder
from swink_cli.terminal import say

__all__ = [
    "IN_FILE", "IN_KEYRING", "forget", "keep", "kept_keys", "keys_path", "profiles_with_keys",
    "read_key",
]  # fmt: skip

SERVICE = "swink"
"""What a keyring files our keys under."""

IN_FILE, IN_KEYRING = "file", "keyring"
_ELSEWHERE = {"place": IN_KEYRING}
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def keys_path() -> Path:
    """Return where the file is, or would be."""
    return user_folder() / "keys.toml"


def kept_keys() -> dict[str, str]:
    """Return the providers for which a key is kept, each with its place."""
    return {
        name: IN_FILE if isinstance(value, str) else IN_KEYRING
        for name, (_, value) in _at_hand().items()
    }


def profiles_with_keys() -> list[str]:
    """Return the profiles that have keys of their own."""
    return sorted(_read().get("profiles", {}))


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
    _read()  # a file that cannot be read is not written over
    value = _into_keyring(_user(profile, provider), key)
    with _changed() as data:
        _section(data, profile)[provider] = value
    return IN_FILE if isinstance(value, str) else IN_KEYRING


def forget(provider: str) -> bool:
    """Forget the key of a provider, of the profile at hand, and tell whether there was one."""
    profile = profile_at_hand()
    value = _section(_read(), profile).get(provider)
    if value is None:
        return False
    if not isinstance(value, str) and (ring := _keyring()) is not None:
        from keyring.errors import KeyringError

        try:
            ring.delete_password(SERVICE, _user(profile, provider))
        except KeyringError as error:
            say(f"notice: the keyring keeps it all the same: {error}")
    with _changed() as data:
        _section(data, profile).pop(provider, None)
    return True


def _at_hand() -> dict[str, tuple[str, Any]]:
    """Return what is kept by provider, each with its profile."""
    data = _read()
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
    return _ELSEWHERE


def _read() -> dict[str, Any]:
    path = keys_path()
    try:
        with path.open("rb") as file:
            if os.name != "nt" and os.fstat(file.fileno()).st_mode & _OTHERS:
                say(f"notice: others may read {path}: chmod 600 '{path}'")
            data = tomllib.load(file)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        said = str(getattr(error, "strerror", None) or "it is not TOML")  # no word of its content
        raise _unusable(path, said) from None
    sections = {"keys": data.get("keys", {})}
    for name, section in _table(path, "profiles", data.get("profiles", {})).items():
        sections[f"profiles.{name}"] = section
    for name, section in sections.items():
        for provider, value in _table(path, name, section).items():
            if not (isinstance(value, str) or value == _ELSEWHERE):
                why = 'a key, or { place = "keyring" }, was expected'
                raise _unusable(path, f"{name}.{provider}: {why}")
    return data


def _table(path: Path, name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _unusable(path, f"{name}: a table was expected")
    return value


@contextmanager
def _changed() -> Iterator[dict[str, Any]]:
    """Hold what the file says, to be written when it was changed."""
    import tomlkit

    path = keys_path()
    try:
        with changing(path):
            data = _read()
            yield data
            replace_file(path, tomlkit.dumps(data).encode())  # a file that is the user's alone
    except OSError as error:
        raise swink.UsageError(
            f"{path}: {error.strerror or error}",
            title="Nothing was kept",
            resolution="Put the key into the provider's variable instead; `swink providers` "
            "names it.",
        ) from error


def _unusable(path: Path, why: str) -> swink.UsageError:
    return swink.UsageError(
        f"{path}: {why}",
        title="The kept keys cannot be read",
        resolution="Mend the file, or remove it and set the keys anew.",
    )
