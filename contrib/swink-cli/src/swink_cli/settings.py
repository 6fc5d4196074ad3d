"""Read and write the command line's settings, a TOML file: models, aliases, addresses.

    default = ["openai/gpt-5.4-mini"]

    [aliases]
    quick = ["groq/openai/gpt-oss-20b", "openai/gpt-5.4-nano"]

    [providers.openai]
    base_url = "https://gateway.example/v1"

    [profiles.work]
    default = ["azure/gpt-5.4"]

An alias stands for a model or a fallback chain. A profile can contain the same settings as the
file, and its settings take precedence; `swink --profile`, SWINK_PROFILE or `profile` selects the
active one. The file is read with the standard library's parser; writing keeps the user's comments.
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
"""The environment variable with the path of the settings file; unset: the platform's default."""

PROFILE = "swink_cli.profile"
"""The key of click's `Context.meta` under which `--profile` stores its value."""

PROFILE_ENV = "SWINK_PROFILE"

MODEL_ENV = "SWINK_MODEL"
"""The environment variable with the default models."""

_Data = Mapping[str, Any]


@define
class Settings:
    """The settings of the file, overridden by those of the profile; unset settings are empty.

    `system` is the default system prompt, as text or `@FILE`; `options` are default options for
    every model, and `providers` contains the options of each provider, in the form that `Client`
    accepts. `log` states whether calls are stored, and `mcp` contains tool servers by name.
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
    """Return the path of the file, which may not exist."""
    if given := os.environ.get(CONFIG_ENV):
        return user_path(given)
    return user_folder() / "config.toml"


def read_settings(*, begins: bool = False) -> Settings:
    """Read the settings file, if any; with `begins`, the selected profile need not exist yet.

    Raises UsageError if the file is invalid.
    """
    path = settings_path()
    return _settings(path, _read(path), begins)


def configured() -> dict[str, Any]:
    """Return the raw content of the file."""
    return _read(settings_path())


def profile_at_hand() -> str:
    """Return the profile that `--profile` or SWINK_PROFILE selects; empty if neither is set."""
    context = click.get_current_context(silent=True)
    return (context and context.meta.get(PROFILE)) or os.environ.get(PROFILE_ENV, "")


def change(table: Sequence[str], name: str, value: Any) -> Path:
    """Set a value, or remove it if `value` is `None`, and return the path of the file.

    With a profile, the value is set in the profile. Raises UsageError for an unknown key or invalid
    value.
    """
    path = settings_path()
    file = path.resolve()
    try:
        with changing(file):
            replace_file(file, _changed(path, table, name, value).encode())
    except OSError as error:
        raise swink.UsageError(
            f"{path}: {error.strerror or error}",
            title="Nothing was saved",
            resolution=f"Set {CONFIG_ENV} to a file that you can write.",
        ) from error
    return path


def _changed(path: Path, table: Sequence[str], name: str, value: Any) -> str:
    """Return the text of a file with a value changed or removed."""
    import tomlkit

    said = _read(path)
    _settings(path, said, begins=True)  # an invalid file raises here, so that it is not overwritten
    profile = profile_at_hand() or said.get("profile")
    document = tomlkit.parse(path.read_text("utf-8-sig") if path.exists() else "")
    place: Any = document
    try:
        for part in [*(["profiles", profile] if profile and name != "profile" else []), *table]:
            place = place.setdefault(part, tomlkit.table())
            if not isinstance(place, dict):
                raise _wrong(path, f"{part} is a value, not a table")
        if value is None:
            place.pop(name, None)
        else:
            place[name] = value
        text = tomlkit.dumps(document)
        _settings(path, tomllib.loads(text), begins=True)
    except swink.UsageError as error:  # the new value is wrong, not the file
        raise swink.UsageError(
            error.message,
            title="Nothing was saved",
            resolution="Use another key or value; the file was not changed.",
        ) from error
    return text


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8-sig"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise _wrong(path, str(getattr(error, "strerror", None) or error)) from error


def _settings(path: Path, said: _Data, begins: bool) -> Settings:
    """Create settings from a file's content; unless `begins` is true, the profile must exist."""
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
                f"unknown profile {settings.profile!r}",
                resolution=f"Profiles: {', '.join(profiles) or 'none yet'}. To create one, set a "
                f"value: swink --profile {settings.profile} default MODEL",
            )
    return settings


def _apply(path: Path, settings: Settings, said: _Data, where: str) -> None:
    for name, value in said.items():
        read = _READERS.get(name)
        if read is None:
            allowed = ", ".join(_READERS)
            raise _wrong(
                path, f"unknown key {where + name!r}; allowed: {allowed}, profile and profiles"
            )
        made = read(path, where + name, value)
        held = getattr(settings, name)
        setattr(settings, name, {**held, **made} if isinstance(held, dict) else made)


def _models(path: Path, name: str, value: Any) -> list[str]:
    given = [value] if isinstance(value, str) else value
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given) or not given:
        raise _wrong(path, f"{name} is not a model name or a list of them")
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
            raise _wrong(path, f"{name}.{provider}: store keys with `swink keys set {provider}`")
    return found


def _table(path: Path, name: str, value: Any) -> _Data:
    if not isinstance(value, dict):
        raise _wrong(path, f"{name} is not a table")
    return value


def _flag(path: Path, name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _wrong(path, f"{name} must be true or false")
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
"""The settings of a file or profile, and how each is parsed."""


def _wrong(path: Path, why: str) -> swink.UsageError:
    return swink.UsageError(
        f"{path}: {why}",
        title="The configuration cannot be read",
        resolution="Correct the file, or move it away.",
    )
