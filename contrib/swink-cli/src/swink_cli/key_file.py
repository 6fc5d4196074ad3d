"""Read and write the file of stored API keys, which only its owner may read.

The file lists every stored key, so that listing keys does not need the keyring:

    [keys]
    anthropic = "sk-…"
    openai = { place = "keyring" }

    [profiles.work]
    openai = "sk-…"
"""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import swink_core as swink
from swink_cli.files import changing, replace_file, user_folder
from swink_cli.terminal import say

__all__ = ["ELSEWHERE", "IN_KEYRING", "changed", "keys_path", "profiles_with_keys", "read"]

IN_KEYRING = "keyring"
ELSEWHERE = {"place": IN_KEYRING}
"""The entry for a key that the keyring stores."""

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def keys_path() -> Path:
    """Return the path of the key file, which may not exist."""
    return user_folder() / "keys.toml"


def profiles_with_keys() -> list[str]:
    """Return the profiles that have keys."""
    return sorted(read().get("profiles", {}))


def read() -> dict[str, Any]:
    """Return the content of the key file; empty if it does not exist.

    Raises UsageError if the file cannot be read or is invalid.
    """
    path = keys_path()
    try:
        with path.open("rb") as file:
            if os.name != "nt" and os.fstat(file.fileno()).st_mode & _OTHERS:
                say(f"notice: other users may read {path}: chmod 600 '{path}'")
            data = tomllib.load(file)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        said = str(
            getattr(error, "strerror", None) or ("the file is not valid TOML")
        )  # the message must not contain the content
        raise _unusable(path, said) from None
    sections = {"keys": data.get("keys", {})}
    for name, section in _table(path, "profiles", data.get("profiles", {})).items():
        sections[f"profiles.{name}"] = section
    for name, section in sections.items():
        for provider, value in _table(path, name, section).items():
            if not (isinstance(value, str) or value == ELSEWHERE):
                why = 'expected a key, or { place = "keyring" }'
                raise _unusable(path, f"{name}.{provider}: {why}")
    return data


def _table(path: Path, name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _unusable(path, f"{name}: expected a table")
    return value


@contextmanager
def changed() -> Iterator[dict[str, Any]]:
    """Yield the content of the key file, and write it back with the changes when the block ends."""
    import tomlkit

    path = keys_path()
    try:
        with changing(path):
            data = read()
            yield data
            replace_file(path, tomlkit.dumps(data).encode())  # only the user may read the file
    except OSError as error:
        raise swink.UsageError(
            f"{path}: {error.strerror or error}",
            title="Nothing was saved",
            resolution="Set the provider's environment variable instead; `swink providers` "
            "lists it.",
        ) from error


def _unusable(path: Path, why: str) -> swink.UsageError:
    return swink.UsageError(
        f"{path}: {why}",
        title="The stored keys cannot be read",
        resolution="Correct the file, or delete it and set the keys again.",
    )
