"""Read the TOML configuration: return a `Config`, or errors with line, key and expected value.

`${NAME}` in a string is replaced by an environment variable; `$${` stands for a literal `${`. Error
messages never show a value from the environment, because it may be a secret.
"""

from __future__ import annotations

import re
import tomllib
from ast import literal_eval
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path as File
from typing import Any

from attrs import define, fields, has
from cattrs.errors import AttributeValidationNote, ForbiddenExtraKeysError, IterableValidationNote

from swink_core import UsageError
from swink_gateway.policy.config.lines import Path, line_of, written
from swink_gateway.policy.config.schema import Config
from swink_gateway.policy.config.values import converter, digest_of, unknown
from swink_gateway.policy.limits import Store

__all__ = ["KEY_ENV", "MOST_BYTES", "ConfigError", "Fault", "Source"]

MOST_BYTES = 1024 * 1024
"""The maximum size of a configuration file, in bytes."""

KEY_ENV = "SWINK_GATEWAY_KEY"
"""Environment variable with the keys that clients must send, separated by spaces."""

_VARIABLE = re.compile(r"\$\$\{|\$\{([^}]*)(\}?)")


_KEYS = re.compile(r"""\((?:(?:'[^']*'|"[^"]*"),? ?)+\)""")
"""Matches a path in an error message of cattrs."""

_KEY = re.compile(r"""\s*([\w."' -]+?)\s*=""")
"""Matches the key at the beginning of a line."""


def _as_written(path: re.Match[str]) -> str:
    return written(literal_eval(path[0]))


class ConfigError(UsageError, title="The configuration cannot be used"):
    """An invalid configuration file; the message has one line for each fault."""


@define(frozen=True)
class Fault:
    """A problem with the value at a path."""

    path: Path
    why: str


@define(frozen=True)
class Source:
    """The text of a configuration file, and the file's name."""

    name: str
    text: str

    @classmethod
    def of(cls, file: File) -> Source:
        """Read a file. Raises ConfigError if it cannot be read or is too large."""
        try:
            with file.open("rb") as opened:
                data = opened.read(MOST_BYTES + 1)
            if len(data) > MOST_BYTES:
                raise ValueError(f"it is larger than {MOST_BYTES} bytes")
            return cls(str(file), data.decode())
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise ConfigError(f"{file}: {why}", resolution="Pass a readable TOML file.") from error

    def config(self, environ: Mapping[str, str]) -> Config:
        """Parse the text. Raises ConfigError if it has faults."""
        config, faults = self.read(environ)
        self.refuse(faults)
        assert config is not None  # otherwise, `refuse` has raised
        return config

    def read(self, environ: Mapping[str, str]) -> tuple[Config | None, list[Fault]]:
        """Parse the text; return the configuration and all faults.

        An invalid optional value is left out of the configuration; if a required one is invalid,
        the configuration is `None`. Raises ConfigError for text that is not TOML.
        """
        try:
            data = tomllib.loads(self.text)
        except tomllib.TOMLDecodeError as error:
            found = re.search(r"at line ([0-9]+)", str(error))
            line = found[1] if found else len(self.text.splitlines())
            why = _KEYS.sub(_as_written, str(error))
            if "overwrite" in why and (key := _KEY.match(self.text.split("\n")[int(line) - 1])):
                why = f"the key {key[1]} occurs twice, or is a table and a value"
            raise ConfigError(
                f"{self.name}:{line}: {why}",
                resolution="Correct the TOML syntax (https://toml.io).",
            ) from error
        faults: list[Fault] = []
        data = _filled(data, (), environ, faults)
        try:
            config = converter().structure(data, Config)
        except Exception as error:
            faults += _faults(error, ())
        if not faults:
            return config, faults
        try:
            for fault in faults:
                _leave_out(data, fault.path)
            return converter().structure(data, Config), faults
        except Exception:
            return None, faults

    def store(self, environ: Mapping[str, str]) -> tuple[Store, list[str]]:
        """Return the store and the names of the keys, without reading the keys themselves.

        Raises ConfigError if the text is not TOML, or if the store is invalid.
        """
        try:
            data = tomllib.loads(self.text)
            faults: list[Fault] = []
            names = [*data.get("keys", {})]
            stored = _filled(data.get("store", {}), ("store",), environ, faults)
            self.refuse(faults)
            return converter().structure(stored, Store), names
        except ConfigError:
            raise
        except Exception as error:
            raise ConfigError(
                f"{self.name}: invalid [store]",
                resolution="Run swink gateway --check FILE to list the faults.",
            ) from error

    def variables_of_keys(self) -> set[str]:
        """Return the names of the environment variables that contain clients' keys.

        The text must be valid.
        """
        keys = tomllib.loads(self.text).get("keys", {}).values()
        said = " ".join(str(key["key"]) for key in keys)
        return {found[1] for found in _VARIABLE.finditer(said) if found[1]}

    def refuse(self, faults: Iterable[Fault]) -> None:
        """Raise ConfigError if there are faults."""
        told = sorted((line_of(self.text, f.path), written(f.path), f.why) for f in faults)
        if told:
            lines = [f"{self.name}:{line}: {key}: {why}" for line, key, why in told]
            raise ConfigError(
                "\n".join(lines),
                resolution="Correct the file, then run swink gateway --check FILE.",
            )


def _filled(data: Any, path: Path, environ: Mapping[str, str], faults: list[Fault]) -> Any:
    """Replace environment variables in the strings of `data`, and hash clients' keys.

    The variable of a client's key becomes a list, because `KEY_ENV` may contain several keys.
    """
    if isinstance(data, dict):
        return {key: _filled(v, (*path, key), environ, faults) for key, v in data.items()}
    if isinstance(data, list):
        items: list[Any] = []
        for at, v in enumerate(data):
            one = _filled(v, (*path, at), environ, faults)
            items += one if isinstance(v, str) and isinstance(one, list) else [one]
        return items
    if not isinstance(data, str):
        return data

    def value(found: re.Match[str]) -> str:
        name, held = found[1], environ.get(found[1] or "", "")
        if name is None:
            return "${"
        if not found[2]:
            faults.append(Fault(path, "'${' without '}'; write '$${' for a literal '${'"))
        elif name not in environ:
            faults.append(Fault(path, f"the environment variable {name!r} is not set"))
        elif not held.strip() and (path[0] == "keys" or path[-1] == "api_key"):
            faults.append(Fault(path, f"the environment variable {name!r} is empty"))
        return held

    filled = _VARIABLE.sub(value, data)
    if path[:1] == ("keys",) and path[2:3] == ("key",):
        if (found := _VARIABLE.fullmatch(data)) is None:
            return filled
        keys = filled.split()
        if len(keys) > 1 and found[1] != KEY_ENV:
            why = f"the environment variable {found[1]!r} contains a space; expected a single key"
            faults.append(Fault(path, why))
        return [*map(digest_of, dict.fromkeys(keys))]
    return filled


def _faults(error: BaseException, path: Path) -> Iterator[Fault]:
    """Yield a fault for each error that cattrs reports; the path comes from the error's notes."""
    if isinstance(error, ForbiddenExtraKeysError):
        known = [one.name for one in fields(error.cl)] if has(error.cl) else []
        for name in sorted(error.extra_fields):
            yield Fault((*path, name), unknown(name, known))
    elif isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from _faults(one, (*path, *_step(one)))
    elif isinstance(error, KeyError):
        yield Fault(path, "is missing")
    else:
        yield Fault(path, str(error))


def _leave_out(data: Any, path: Path) -> None:
    """Remove the value at a path from its table.

    Raises TypeError for an item of a list, because its removal would change later items' indices.
    """
    for step in path[:-1]:
        data = data[step]
    if not isinstance(data, dict):
        raise TypeError(path)
    data.pop(path[-1], None)


def _step(error: BaseException) -> Path:
    for note in getattr(error, "__notes__", ()):
        if isinstance(note, AttributeValidationNote):
            return (note.name,)
        if isinstance(note, IterableValidationNote):
            return (note.index,)
    return ()
