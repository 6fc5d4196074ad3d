"""What a user keeps for the command line, in a TOML file: the default model, and short names.

    default = ["openai/gpt-5.4-mini"]

    [aliases]
    quick = ["groq/openai/gpt-oss-20b", "openai/gpt-5.4-nano"]

A name stands for a model, or for several to fall back through. Reading takes no parser but
Python's own; what is written keeps the user's comments.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attrs import define, field

import swink_core as swink
from swink_cli.files import replace_file

__all__ = ["CONFIG_ENV", "Settings", "change", "chosen", "read_settings", "settings_path"]

CONFIG_ENV = "SWINK_CONFIG"
"""Names the file, instead of the platform's own place."""


@define
class Settings:
    """What the file says; empty where it says nothing."""

    default: list[str] = field(factory=list)
    aliases: dict[str, list[str]] = field(factory=dict)
    log: bool = True
    mcp: dict[str, Any] = field(factory=dict)


def settings_path() -> Path:
    """Return where the file is, or would be."""
    if given := os.environ.get(CONFIG_ENV):
        return Path(given).expanduser()
    from platformdirs import user_config_path

    return user_config_path("swink") / "config.toml"


def read_settings() -> Settings:
    """Read the file, if there is one. Raises UsageError, which says what is wrong with it."""
    path = settings_path()
    try:
        said = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return Settings()
    except (OSError, ValueError) as error:
        raise _wrong(path, str(getattr(error, "strerror", None) or error)) from error
    settings = Settings()
    for name, value in said.items():
        if name == "default":
            settings.default = _models(path, name, value)
        elif name == "aliases" and isinstance(value, dict):
            settings.aliases = {
                alias: _models(path, f"aliases.{alias}", models) for alias, models in value.items()
            }
        elif (name == "log" and isinstance(value, bool)) or (
            name == "mcp" and isinstance(value, dict)
        ):
            setattr(settings, name, value)
        else:
            raise _wrong(path, f"it may hold `default` and a table `aliases`, not {name!r}")
    return settings


def chosen(models: Sequence[str]) -> list[str]:
    """Return the models that are meant: those named, short names resolved, or the default."""
    settings = read_settings()
    named = models or settings.default
    return [model for name in named for model in settings.aliases.get(name, [name])]


def change(table: Sequence[str], name: str, value: list[str] | None) -> Path:
    """Write a value, or take it out if `None`, and return the file."""
    import tomlkit

    path = settings_path()
    read_settings()  # a file that cannot be read is not written over
    text = path.read_text("utf-8") if path.exists() else ""
    document = tomlkit.parse(text)
    place: Any = document
    for part in table:
        place = place.setdefault(part, tomlkit.table())
    if value is None:
        place.pop(name, None)
    else:
        place[name] = value
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, tomlkit.dumps(document).encode())
    except OSError as error:
        raise swink.UsageError(
            f"{path}: {error.strerror or error}",
            title="Nothing was kept",
            resolution=f"Set {CONFIG_ENV} to a file that may be written.",
        ) from error
    return path


def _models(path: Path, name: str, value: Any) -> list[str]:
    given = [value] if isinstance(value, str) else value
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given) or not given:
        raise _wrong(path, f"{name} is no model's name, and no list of them")
    return given


def _wrong(path: Path, why: str) -> swink.UsageError:
    return swink.UsageError(
        f"{path}: {why}",
        title="The configuration cannot be read",
        resolution="Mend the file, or move it away.",
    )
