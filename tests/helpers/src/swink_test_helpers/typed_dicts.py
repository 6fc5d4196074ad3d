"""Checks JSON data against declared types, such as the parameters that a vendor's SDK declares.

Only types that JSON can represent are checked: in a union, classes other than typed dictionaries
(an SDK's response models among its parameters) are ignored.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Literal, NotRequired, Required, Union, get_args, get_origin

from typing_extensions import get_type_hints, is_typeddict

__all__ = ["misfits"]

_PLAIN: dict[Any, tuple[type, ...]] = {
    str: (str,), int: (int,), float: (int, float), bool: (bool,), type(None): (type(None),),
    object: (object,), Any: (object,),
}  # fmt: skip


def misfits(value: Any, declared: Any, path: str = "") -> list[str]:
    """List what does not fit, each with its path: nothing for data that fits."""
    origin, arguments = get_origin(declared), get_args(declared)
    if origin in (Required, NotRequired):
        return misfits(value, arguments[0], path)
    if origin in (Union, types.UnionType):
        return _of_union(value, arguments, path)
    if origin is Literal:
        return [] if value in arguments else [f"{path}: {value!r} is none of {arguments}"]
    if is_typeddict(declared):
        return _of_object(value, declared, path)
    if declared in _PLAIN:
        return [] if _is_plain(value, declared) else [f"{path}: {value!r} is no {declared}"]
    if isinstance(origin, type) and issubclass(origin, Mapping) and isinstance(value, Mapping):
        return [m for k, v in value.items() for m in misfits(v, arguments[1], f"{path}.{k}")]
    if isinstance(origin, type) and issubclass(origin, Iterable) and isinstance(value, list):
        return [m for n, v in enumerate(value) for m in misfits(v, arguments[0], f"{path}.{n}")]
    if "Sequence" in getattr(origin, "__name__", "") and isinstance(value, list):
        return [m for n, v in enumerate(value) for m in misfits(v, arguments[0], f"{path}.{n}")]
    return [f"{path}: {value!r:.60} does not fit {declared}"]


def _is_plain(value: Any, declared: Any) -> bool:
    if declared in (int, float) and isinstance(value, bool):
        return False
    return isinstance(value, _PLAIN[declared])


def _of_union(value: Any, choices: tuple[Any, ...], path: str) -> list[str]:
    """Return the result of the alternative that matched furthest, with the fewest mismatches."""
    tried = [misfits(value, choice, path) for choice in choices]
    return [] if [] in tried else min(tried, key=lambda found: (-_depth(found), len(found)))


def _depth(found: list[str]) -> int:
    return max(line.partition(":")[0].count(".") for line in found)


@cache
def _fields(declared: Any) -> Mapping[str, Any]:
    """Return the fields of a typed dictionary: to resolve them takes longer than all the rest."""
    return get_type_hints(declared, include_extras=True)


def _of_object(value: Any, declared: Any, path: str) -> list[str]:
    if not isinstance(value, Mapping):
        return [f"{path}: {value!r:.60} is no object"]
    fields = _fields(declared)
    missing = sorted(declared.__required_keys__ - value.keys())
    found = [f"{path}.{name} is missing" for name in missing]
    for name, item in value.items():
        if name in fields:
            found += misfits(item, fields[name], f"{path}.{name}")
        else:
            found.append(f"{path}.{name} is not declared by {declared.__name__}")
    return found
