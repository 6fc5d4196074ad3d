"""What a user keeps for the command line, in a TOML file: models, short names, addresses.

    default = ["openai/gpt-5.4-mini"]

    [aliases]
    quick = ["groq/openai/gpt-oss-20b", "openai/gpt-5.4-nano"]

    [providers.openai]
    base_url = "https://gateway.example/v1"

    [profiles.work]
    default = ["azure/gpt-5.4"]

A name stands for a model, or for several to fall back through. A profile has what the file itself
has, and goes before it; `swink --profile`, SWINK_PROFILE or `profile` names the one that holds.
Reading takes no parser but Python's own; what is written keeps the user's comments.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from attrs import define, field

import swink_core as swink
from swink_cli.files import changing, replace_file, user_folder, user_path

__all__ = [
    "CONFIG_ENV", "MODEL_ENV", "PROFILE", "PROFILE_ENV", "Settings", "change", "configured",
    "profile_at_hand", "read_settings", "settings_path",
]  # fmt: skip

CONFIG_ENV = "SWINK_CONFIG"
"""Names the file, instead of the platform's own place."""

PROFILE = "swink_cli.profile"
"""Where `--profile` leaves its value: a key of click's `Context.meta`."""

PROFILE_ENV = "SWINK_PROFILE"

MODEL_ENV = "SWINK_MODEL"
"""Names the models of calls that name none."""

_Data = Mapping[str, Any]


@define
class Settings:
    """What the file says, the profile's words before its own; empty where it says nothing.

    `system` is the system prompt of calls that give none, as it stands or `@FILE`; `options` are
    options of every call, whichever model it asks, and `providers` those of one provider, as
    `Client` takes them. `log` says whether calls are kept, and `mcp` has servers of tools by their
    names.
    """

    default: list[str] = field(factory=list)
    system: str | None = None
    options: dict[str, Any] = field(factory=dict)
    aliases: dict[str, list[str]] = field(factory=dict)
    providers: dict[str, dict[str, Any]] = field(factory=dict)
    log: bool = True
    mcp: dict[str, Any] = field(factory=dict)
    profile: str = ""
    profiles: list[str] = field(factory=list)


def settings_path() -> Path:
    """Return where the file is, or would be."""
    if given := os.environ.get(CONFIG_ENV):
        return user_path(given)
    return user_folder() / "config.toml"


def read_settings(*, begins: bool = False) -> Settings:
    """Read the file, if there is one; what `begins` a profile may name a new one.

    Raises UsageError, which says what is wrong with it.
    """
    path = settings_path()
    return _settings(path, _read(path), begins)


def configured() -> dict[str, Any]:
    """Return what the file says, as it says it."""
    return _read(settings_path())


def profile_at_hand() -> str:
    """Return the profile that was named for this run; empty for none, or the file's own."""
    context = click.get_current_context(silent=True)
    return (context and context.meta.get(PROFILE)) or os.environ.get(PROFILE_ENV, "")


def change(table: Sequence[str], name: str, value: Any) -> Path:
    """Write a value, or take it out if `None`, and return the file.

    Of a profile it is the profile's. Raises UsageError for what the file may not hold.
    """
    path = settings_path()
    file = path.resolve()
    try:
        with changing(file):
            replace_file(file, _changed(path, table, name, value).encode())
    except OSError as error:
        raise swink.UsageError(
            f"{path}: {error.strerror or error}",
            title="Nothing was kept",
            resolution=f"Set {CONFIG_ENV} to a file that may be written.",
        ) from error
    return path


def _changed(path: Path, table: Sequence[str], name: str, value: Any) -> str:
    """Return the text of a file with another value, or without it."""
    import tomlkit

    said = _read(path)
    _settings(path, said, begins=True)  # a file that cannot be read is not written over
    profile = profile_at_hand() or said.get("profile")
    document = tomlkit.parse(path.read_text("utf-8") if path.exists() else "")
    place: Any = document
    try:
        for part in [*(["profiles", profile] if profile and name != "profile" else []), *table]:
            place = place.setdefault(part, tomlkit.table())
            if not isinstance(place, dict):
                raise _wrong(path, f"{part} is a value, and has no parts")
        if value is None:
            place.pop(name, None)
        else:
            place[name] = value
        text = tomlkit.dumps(document)
        _settings(path, tomllib.loads(text), begins=True)
    except swink.UsageError as error:  # it is not the file that is wrong
        raise swink.UsageError(
            error.message,
            title="Nothing was kept",
            resolution="Name another key, or give it another value; the file is as it was.",
        ) from error
    return text


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise _wrong(path, str(getattr(error, "strerror", None) or error)) from error


def _settings(path: Path, said: _Data, begins: bool) -> Settings:
    """Make settings of a file's content; unless it `begins`, the profile has to exist."""
    settings = Settings()
    profiles = _table(path, "profiles", said.get("profiles", {}))
    settings.profiles = sorted(profiles)
    settings.profile = profile_at_hand() or _text(path, "profile", said.get("profile", ""))
    own = {name: value for name, value in said.items() if name not in ("profile", "profiles")}
    _apply(path, settings, own, "")
    for name, content in profiles.items():
        applied = settings if name == settings.profile else Settings()
        _apply(path, applied, _table(path, f"profiles.{name}", content), f"profiles.{name}.")
    if settings.profile and settings.profile not in profiles and not begins:
        from swink_cli.key_file import profiles_with_keys

        if settings.profile not in profiles_with_keys():
            raise swink.UsageError(
                f"there is no profile {settings.profile!r}",
                resolution=f"Profiles are {', '.join(profiles) or 'none'}. Another one begins with "
                f"what is kept for it: swink --profile {settings.profile} default MODEL",
            )
    return settings


def _apply(path: Path, settings: Settings, said: _Data, where: str) -> None:
    for name, value in said.items():
        read = _READERS.get(name)
        if read is None:
            allowed = ", ".join(_READERS)
            raise _wrong(path, f"it may hold {allowed}, profile and profiles, not {where + name!r}")
        made = read(path, where + name, value)
        held = getattr(settings, name)
        setattr(settings, name, {**held, **made} if isinstance(held, dict) else made)


def _models(path: Path, name: str, value: Any) -> list[str]:
    given = [value] if isinstance(value, str) else value
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given) or not given:
        raise _wrong(path, f"{name} is no model's name, and no list of them")
    return given


def _aliases(path: Path, name: str, value: Any) -> dict[str, list[str]]:
    return {
        alias: _models(path, f"{name}.{alias}", models)
        for alias, models in _table(path, name, value).items()
    }


def _providers(path: Path, name: str, value: Any) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for provider, options in _table(path, name, value).items():
        found[provider] = dict(_table(path, f"{name}.{provider}", options))
        if "api_key" in found[provider]:
            raise _wrong(path, f"{name}.{provider}: keys are kept by `swink keys set {provider}`")
    return found


def _table(path: Path, name: str, value: Any) -> _Data:
    if not isinstance(value, dict):
        raise _wrong(path, f"{name} is no table")
    return value


def _flag(path: Path, name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _wrong(path, f"{name} is neither true nor false")
    return value


def _text(path: Path, name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _wrong(path, f"{name}: expected text")
    return value


_READERS: dict[str, Callable[[Path, str, Any], Any]] = {
    "default": _models,
    "system": _text,
    "options": lambda path, name, value: dict(_table(path, name, value)),
    "aliases": _aliases,
    "providers": _providers,
    "log": _flag,
    "mcp": lambda path, name, value: dict(_table(path, name, value)),
}
"""What a file, and a profile, may say, and how each is read."""


def _wrong(path: Path, why: str) -> swink.UsageError:
    return swink.UsageError(
        f"{path}: {why}",
        title="The configuration cannot be read",
        resolution="Mend the file, or move it away.",
    )
