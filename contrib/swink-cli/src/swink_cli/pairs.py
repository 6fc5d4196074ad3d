"""Parse options of a call in the form KEY=VALUE, from the command line and the configuration.

A value is JSON or a plain word; a dot in the key addresses a part of an option, such as
`timeouts.idle`.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from attrs import fields_dict

import swink_core as swink
from swink_core.providers import OPTIONS

__all__ = ["parse_pairs", "with_parts"]

_NESTED: dict[str, type[Any]] = {
    "timeouts": swink.Timeouts,
    "retry": swink.RetryPolicy,
    "cache": swink.CacheStrategy,
}
_WITH_PARTS = {
    "timeouts": "timeouts.idle=60",
    "retry": "retry.budget=30, or -o retry=false to turn retries off",
    "headers": "headers.X-Team=a",
    "settings": "settings.api=responses",
    "extra": "extra.top_k=40",
}
"""Options with parts, with an example for each."""
_DEEP = ("settings", "extra")
"""Options whose parts the provider defines, and which may be nested to any depth."""
_WHOLE: dict[str, Any] = {"settings": dict, "extra": dict, "retry": bool}
"""Options with parts that may also be set as a whole, with the type of the whole value."""
_WORDS = frozenset(name for name, each in OPTIONS.items() if each.types == {str}) | {"headers"}
"""Options whose value is text even if it looks like a number."""

WRITTEN = 'A value is JSON, such as true, 0.5 or ["a", "b"], or a word.'


def parse_pairs(pairs: Sequence[str], defaults: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the options in the pairs, merged with `defaults`.

    An option with parts, such as `timeouts`, is merged part by part. Raises InvalidOption for an
    invalid pair.
    """
    options: dict[str, Any] = deepcopy(dict(defaults or {}))
    named = {pair.partition("=")[0] for pair in pairs}
    for name, value in [*options.items()]:
        parts = any(key.startswith(f"{name}.") for key in named)
        if name in named or (parts and not isinstance(value, dict)):
            del options[name]
    # Whole values are merged before parts, whatever their order on the command line.
    for pair in sorted(pairs, key=_is_of_part):
        key, equals, text = pair.partition("=")
        if not (key and equals):
            raise swink.InvalidOption(
                f"{pair!r} is not KEY=VALUE", resolution="For example: -o top_p=0.9"
            )
        name, _, part = key.partition(".")
        if name not in swink.StreamOptions.names():
            raise _unknown(key)
        value = _value(name, text)
        if part:
            _set_part(options, name, part, value)
        elif name in _WITH_PARTS and not isinstance(value, _WHOLE.get(name, ())):
            raise swink.InvalidOption(
                f"{name} has parts", resolution=f"For example: -o {_WITH_PARTS[name]}"
            )
        else:
            options[name] = value
    options = with_parts(options)
    try:
        swink.StreamOptions(**options)
    except ValueError as error:
        raise swink.InvalidOption(str(error), resolution=WRITTEN) from error
    return options


def _is_of_part(pair: str) -> bool:
    return "." in pair.partition("=")[0]


def with_parts(options: dict[str, Any], where: str = "") -> dict[str, Any]:
    """Convert each option that is given as a table of parts, such as `timeouts`, to one object.

    Raises InvalidOption for an unknown or invalid part; the message begins with `where`.
    """
    for name, kind in _NESTED.items():
        if isinstance(options.get(name), dict):
            for part in options[name]:
                _check_part(name, part, where)
            try:
                options[name] = kind(**options[name])
            except ValueError as error:
                advice = "" if where else WRITTEN
                raise swink.InvalidOption(f"{where}{name}.{error}", resolution=advice) from error
    return options


def _value(name: str, text: str) -> Any:
    if name in _WORDS:
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def _set_part(options: dict[str, Any], name: str, part: str, value: Any) -> None:
    if name not in {*_WITH_PARTS, *_NESTED}:
        raise swink.InvalidOption(f"{name} has no parts: {name}.{part}")
    values = options.setdefault(name, {})
    if not isinstance(values, dict):
        raise swink.InvalidOption(
            f"{name} has both a value and parts: {name}.{part}",
            resolution="Set the value or its parts, not both.",
        )
    if name in _DEEP or part.startswith("retries."):
        *path, part = part.split(".")
        for step in path:
            values = values.setdefault(step, {})
            if not isinstance(values, dict):
                raise swink.InvalidOption(f"{step} has both a value and parts in -o {name}")
    values[part] = value


def _check_part(name: str, part: str, where: str) -> None:
    known = fields_dict(_NESTED[name])
    if part not in known:
        near = difflib.get_close_matches(part, known, 1)
        raise swink.InvalidOption(
            f"{where}{name} has no part {part!r}"
            + (f"; did you mean {near[0]!r}?" if near else ""),
            resolution=f"Its parts are {', '.join(known)}.",
        )


def _unknown(key: str) -> swink.InvalidOption:
    known = sorted(swink.StreamOptions.names())
    near = difflib.get_close_matches(key, known, 1)
    return swink.InvalidOption(
        f"no option {key!r}" + (f"; did you mean {near[0]!r}?" if near else ""),
        resolution=f"Options are {', '.join(known)}. To send it to the provider unchanged: "
        f"--option extra.{key}=…",
    )
