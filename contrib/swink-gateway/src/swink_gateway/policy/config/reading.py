"""From a TOML file to a `Config`, or to all that is wrong with it: line, key and what was expected.

`${NAME}` in a text is a variable of the environment; `$${` is `${` itself. No message shows a value
that came from there: it may be a secret.
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

__all__ = ["MOST_BYTES", "ConfigError", "Fault", "Source"]

MOST_BYTES = 1024 * 1024
"""The size limit of a configuration file."""

_VARIABLE = re.compile(r"\$\$\{|\$\{([^}]*)(\}?)")


_KEYS = re.compile(r"""\((?:(?:'[^']*'|"[^"]*"),? ?)+\)""")
"""A path, as the parser says it."""


def _as_written(path: re.Match[str]) -> str:
    return written(literal_eval(path[0]))


class ConfigError(UsageError, title="The configuration cannot be used"):
    """A file that is no configuration; its message has a line for each fault."""


@define(frozen=True)
class Fault:
    """What is wrong with the value at a path."""

    path: Path
    why: str


@define(frozen=True)
class Source:
    """A file's text, and where it is from."""

    name: str
    text: str

    @classmethod
    def of(cls, file: File) -> Source:
        """Return what a file says now. Raises ConfigError."""
        try:
            with file.open("rb") as opened:
                data = opened.read(MOST_BYTES + 1)
            if len(data) > MOST_BYTES:
                raise ValueError(f"it is larger than {MOST_BYTES} bytes")
            return cls(str(file), data.decode())
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise ConfigError(f"{file}: {why}", resolution="Name a TOML file.") from error

    def config(self, environ: Mapping[str, str]) -> Config:
        """Return what the text says. Raises ConfigError."""
        config, faults = self.read(environ)
        self.refuse(faults)
        assert config is not None  # or there is a fault
        return config

    def read(self, environ: Mapping[str, str]) -> tuple[Config | None, list[Fault]]:
        """Return what the text says, and all that is wrong with it.

        Where a value has a fault that may be left out, it is; where one may not, there is no
        configuration. Raises ConfigError for what is not TOML.
        """
        try:
            data = tomllib.loads(self.text)
        except tomllib.TOMLDecodeError as error:
            found = re.search(r"at line ([0-9]+)", str(error))
            line = found[1] if found else len(self.text.splitlines())
            raise ConfigError(
                f"{self.name}:{line}: {_KEYS.sub(_as_written, str(error))}",
                resolution="Write it as TOML (https://toml.io).",
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

        Raises ConfigError.
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
                f"{self.name}: its [store] cannot be read",
                resolution="swink gateway --check says what is wrong with it.",
            ) from error

    def variables_of_keys(self) -> set[str]:
        """Return the names of the variables that hold clients' keys, of a text that can be read."""
        keys = tomllib.loads(self.text).get("keys", {}).values()
        said = " ".join(str(key["key"]) for key in keys)
        return {found[1] for found in _VARIABLE.finditer(said) if found[1]}

    def refuse(self, faults: Iterable[Fault]) -> None:
        """Raise ConfigError where there is a fault."""
        told = sorted((line_of(self.text, f.path), written(f.path), f.why) for f in faults)
        if told:
            lines = [f"{self.name}:{line}: {key}: {why}" for line, key, why in told]
            raise ConfigError(
                "\n".join(lines), resolution="Mend the file; swink gateway --check reads it again."
            )


def _filled(data: Any, path: Path, environ: Mapping[str, str], faults: list[Fault]) -> Any:
    """Return data with the environment's values in its texts, and clients' keys hashed."""
    if isinstance(data, dict):
        return {key: _filled(v, (*path, key), environ, faults) for key, v in data.items()}
    if isinstance(data, list):
        return [_filled(v, (*path, at), environ, faults) for at, v in enumerate(data)]
    if not isinstance(data, str):
        return data

    def value(found: re.Match[str]) -> str:
        name, held = found[1], environ.get(found[1] or "", "")
        if name is None:
            return "${"
        if not found[2]:
            faults.append(Fault(path, "'${' has no '}' after it; '${' itself is written '$${'"))
        elif name not in environ:
            faults.append(Fault(path, f"there is no variable {name!r} in the environment"))
        elif not held.strip() and (path[0] == "keys" or path[-1] == "api_key"):
            faults.append(Fault(path, f"the variable {name!r} is empty"))
        return held

    filled = _VARIABLE.sub(value, data)
    if path[:1] == ("keys",) and path[2:3] == ("key",):
        return digest_of(filled) if _VARIABLE.fullmatch(data) else filled
    return filled


def _faults(error: BaseException, path: Path) -> Iterator[Fault]:
    """Yield what cattrs found, with the paths that are in its notes."""
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
    """Take a value of a table out. Raises TypeError for one of a list, whose others would move."""
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
