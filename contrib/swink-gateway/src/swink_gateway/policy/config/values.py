"""Convert configuration values strictly with cattrs, with error messages in TOML's terms."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import cache, partial
from pathlib import Path
from types import GenericAlias
from typing import Any, get_args, get_origin

from attrs import fields_dict, has
from cattrs import Converter
from cattrs.errors import AttributeValidationNote, ClassValidationError
from cattrs.gen import make_dict_structure_fn

from swink_core import RetryPolicy, StreamOptions, Timeouts
from swink_gateway.policy.config.schema import (
    OPTION_NAMES,
    Amount,
    Count,
    Digest,
    Dollars,
    OptionName,
    Options,
    Pattern,
    Settings,
    Tag,
    Upstream,
)  # fmt: skip

__all__ = ["TAG", "converter", "digest_of", "key_digest", "similar", "unknown"]

TAG = re.compile(r"[\w.:/@-]{1,64}")
"""Matches a tag. A tag has no comma, because commas separate tags in a list."""

_DIGEST = re.compile("sha256:[0-9a-f]{64}")

BESIDE = {"timeouts": "time_limits", "timeout": "time_limits"}
"""Options that a route sets in a separate field, with the name of that field."""

SECRET = frozenset({"api_key", "base_url", "headers"})
"""Options whose values are secret: messages never show them."""

_EXPECTED = {"base_url": "expected an address that begins with http:// or https://"}


def digest_of(key: str) -> str:
    """Return the digest of a key, in the form that `key` has in a configuration file."""
    return f"sha256:{key_digest(key).hex()}"


def key_digest(key: str) -> bytes:
    """Return the SHA-256 digest of a key."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


def unknown(name: str, known: Iterable[str]) -> str:
    """Format a message about an unknown name, with a suggestion or the known names."""
    hint = similar(name, known) or f"; known: {', '.join(sorted(known))}"
    return f"unknown name {name!r}{hint}"


def similar(name: str, known: Iterable[str]) -> str:
    """Suggest the most similar known name; return an empty string if all differ."""
    near = get_close_matches(name, known, 1)
    return f"; did you mean {near[0]}?" if near else ""


@cache
def converter() -> Converter:
    """Return the converter of configurations."""
    made = Converter(forbid_extra_keys=True)

    def lists(kind: Any) -> Any:  # a single value becomes a list with one item
        of: Any = get_args(kind)[0]
        listed: Any = list[of]
        one, many = made.get_structure_hook(of), made.get_structure_hook(listed)
        return lambda data, _: tuple(
            many(data, listed) if isinstance(data, list) else [one(data, of)]
        )

    def tables(kind: Any) -> Any:
        plain: Any = make_dict_structure_fn(kind, made, _cattrs_forbid_extra_keys=True)
        return lambda data, _: plain(_table(data), kind)

    def mappings(kind: Any) -> Any:
        named: Any = GenericAlias(dict, get_args(kind))
        plain = made.get_structure_hook(named)
        return lambda data, _: plain(_table(data), named)

    made.register_structure_hook_factory(has, tables)
    made.register_structure_hook_factory(partial(_is, tuple), lists)
    made.register_structure_hook_factory(partial(_is, Mapping), mappings)
    hooks: dict[Any, Callable[[Any, Any], Any]] = {
        str: partial(_plain, str),
        bool: partial(_plain, bool),
        Amount: _amount,
        Count: _count,
        Dollars: _dollars,
        Tag: _tag,
        Digest: _digest,
        Pattern: _pattern,
        Settings: lambda data, _: _table(data),
        Path: lambda data, _: Path(_plain(str, data, None)),
        OptionName: partial(_one_of, OPTION_NAMES),
        Options: _options,
        Timeouts: _time_limits,
    }
    for kind, hook in hooks.items():
        made.register_structure_hook(kind, hook)
    upstream: Any = tables(Upstream)  # after the hooks for the types of its fields

    def model(data: Any, _: Any) -> Any:
        return upstream({"model": data} if isinstance(data, str) else data, Upstream)

    made.register_structure_hook(Upstream, model)
    return made


def _is(origin: Any, kind: Any) -> bool:
    return get_origin(kind) is origin


def _table(data: Any) -> Any:
    if not isinstance(data, dict):
        raise ValueError(_expected("a table", data))
    return data


_TYPES = re.compile(r"`([a-z |]+|None)+`")
_WORDS = {
    "int": "a whole number", "float": "a number", "str": "a string", "bool": "true or false",
    "array": "a list", "dict": "a table", "object": "a table",
}  # fmt: skip


def _in_words(types: re.Match[str]) -> str:
    """Replace names of Python types with TOML's terms."""
    named = [name for name in types[0].strip("`").split(" | ") if name != "None"]
    if "float" in named and "int" in named:
        named.remove("int")
    return " or ".join(_WORDS.get(name, name) for name in named)


_KINDS = {str: "a string", bool: "true or false", list: "a list", dict: "a table"}


def _expected(what: str, data: Any) -> str:
    is_number = type(data) in (int, float)
    return f"expected {what}, not {'a number' if is_number else _KINDS.get(type(data), 'a date')}"


def _plain(kind: type, data: Any, _: Any) -> Any:
    if type(data) is not kind:
        raise ValueError(_expected(_KINDS[kind], data))
    return data


def _amount(data: Any, _: Any) -> Any:
    if type(data) not in (int, float):
        raise ValueError(_expected("a number above 0", data))
    if not 0 < data < float("inf"):
        raise ValueError(f"expected a number above 0, not {data}")
    return float(data)


def _dollars(data: Any, _: Any) -> Any:
    if type(data) not in (int, float):
        raise ValueError(_expected("a number of at least 0", data))
    if not 0 <= data < float("inf"):
        raise ValueError(f"expected a number of at least 0, not {data}")
    return float(data)


def _tag(data: Any, _: Any) -> Any:
    if not TAG.fullmatch(_plain(str, data, None)):
        raise ValueError(f"expected 1 to 64 letters, digits and -_.:/@, not {data!r:.100}")
    return data


def _count(data: Any, _: Any) -> Any:
    if type(data) not in (int, float):
        raise ValueError(_expected("a whole number above 0", data))
    if type(data) is float or data < 1:
        raise ValueError(f"expected a whole number above 0, not {data}")
    return data


def _digest(data: Any, _: Any) -> Any:
    if not _DIGEST.fullmatch(_plain(str, data, None)):
        raise ValueError('expected "sha256:" and 64 hexadecimal digits, or "${NAME}"')
    return bytes.fromhex(data.removeprefix("sha256:"))


def _pattern(data: Any, _: Any) -> Any:
    try:
        pattern = re.compile(_plain(str, data, None))
    except re.error as error:
        raise ValueError(f"it is not a regular expression: {error}") from None
    if pattern.match(""):
        raise ValueError("it matches an empty text, and so every text")
    return data


def _one_of(known: Iterable[str], data: Any, _: Any) -> Any:
    if _plain(str, data, None) not in known:
        raise ValueError(unknown(data, known))
    return data


def _options(data: Any, _: Any) -> Any:
    """Convert options one by one, so that an error names its option."""

    def read(name: str, value: Any) -> Any:
        if name in BESIDE:
            raise ValueError(f"set {BESIDE[name]} of the route instead")
        if name == "retry":
            value = _each(_table(value), partial(_field, RetryPolicy), RetryPolicy)
            retries = {**RetryPolicy.none().retries, **value.pop("retries", {})}
            return RetryPolicy(retries=retries, **value)
        try:
            return _field(StreamOptions, name, value)
        except ValueError:
            if name not in SECRET:
                raise
            raise ValueError(_EXPECTED.get(name, "invalid value")) from None

    return _each(_table(data), read, StreamOptions)


def _time_limits(data: Any, _: Any) -> Any:
    def read(name: str, value: Any) -> Any:
        return _field(Timeouts, name, None if value is False else value)

    return Timeouts(**_each(_table(data), read, Timeouts))


def _field(kind: Any, name: str, value: Any) -> Any:
    """Convert a value to a class of the core, which validates it."""
    known = fields_dict(kind)
    if name not in known:
        raise ValueError(unknown(name, known))
    try:
        return getattr(kind(**{name: value}), name)
    except ValueError as error:
        raise ValueError(_TYPES.sub(_in_words, str(error))) from None


def _each(data: Mapping[str, Any], read: Callable[[str, Any], Any], kind: Any) -> dict[str, Any]:
    """Convert the values of a table, and raise all their errors together, as cattrs does."""
    values, errors = {}, []
    for name, value in data.items():
        try:
            values[name] = read(name, value)
        except Exception as error:
            error.add_note(AttributeValidationNote(f"the key {name}", name, kind))
            errors.append(error)
    if errors:
        raise ClassValidationError("wrong values", errors, kind)
    return values
