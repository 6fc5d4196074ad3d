"""Look up values of JSON data by path, and evaluate the conditions of rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, TypeAlias

import msgspec

__all__ = ["Holds", "condition", "values"]

Holds = Callable[[Any], bool]

Steps: TypeAlias = tuple[str | int | None, ...]

_STEP = re.compile(r"([^.\[\]]+)|\[([^\]]*)\]")

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "null": (type(None),),
}


@cache
def steps_of(path: str) -> Steps:
    """Return a path's steps: a name, an index in a list, or `None` for all items of a list."""
    return tuple(
        name or (None if place == "*" else int(place)) for name, place in _STEP.findall(path)
    )


def values(data: Any, steps: Steps) -> list[Any]:
    """Return all values at a path."""
    found = [data]
    for step in steps:
        if isinstance(step, str):
            found = [each[step] for each in found if isinstance(each, dict) and step in each]
        else:
            lists = [each for each in found if isinstance(each, list)]
            if step is None:
                found = [item for each in lists for item in each]
            else:
                found = [each[step] for each in lists if -len(each) <= step < len(each)]
    return found


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _of_types(names: list[str]) -> Holds:
    types = tuple(kind for name in names if name != "number" for kind in _TYPES[name])
    numbers = "number" in names
    return lambda value: isinstance(value, types) or (numbers and _number(value))


def _pattern(pattern: str, found: bool) -> Holds:
    search = re.compile(pattern).search
    return lambda value: isinstance(value, str) and (search(value) is not None) is found


def _holds(conditions: list[list[Any]]) -> Holds:
    tests = [condition(*row) for row in conditions]
    return lambda value: all(test(value) for test in tests)


def _json(conditions: list[list[Any]]) -> Holds:
    holds = _holds(conditions)

    def written(value: Any) -> bool:
        try:
            return isinstance(value, str) and holds(msgspec.json.decode(value))
        except msgspec.DecodeError:
            return False

    return written


def _more_than(want: tuple[int, list[list[Any]]]) -> Holds:
    most, holds = want[0], _holds(want[1])
    return lambda value: isinstance(value, list) and sum(map(holds, value)) > most


def _says(keywords: list[str]) -> Holds:
    return lambda schema: any(not each.keys().isdisjoint(keywords) for each in _schemas(schema))


def _lacks(keywords: list[str]) -> Holds:
    def has_untyped(schema: dict[str, Any]) -> bool:
        properties = schema.get("properties")
        parts = [*properties.values()] if isinstance(properties, dict) else []
        for part in (schema.get("items"), schema.get("anyOf")):
            parts += part if isinstance(part, list) else [part]
        return any(isinstance(part, dict) and part.keys().isdisjoint(keywords) for part in parts)

    return lambda schema: any(map(has_untyped, _schemas(schema)))


def _itemless(_: Any) -> Holds:
    return lambda schema: any(
        each.get("type") == "array" and "items" not in each for each in _schemas(schema)
    )


def _open(_: Any) -> Holds:
    def is_open(schema: dict[str, Any]) -> bool:
        kind = schema.get("type")
        is_object = kind == "object" or (isinstance(kind, list) and "object" in kind)
        return is_object and schema.get("additionalProperties") is not False

    return lambda schema: any(map(is_open, _schemas(schema)))


def _unrequired(_: Any) -> Holds:
    def has_optional(schema: dict[str, Any]) -> bool:
        properties = schema.get("properties")
        required = schema.get("required")
        known = set(required) if isinstance(required, list) else set()
        return isinstance(properties, dict) and not properties.keys() <= known

    return lambda schema: any(map(has_optional, _schemas(schema)))


def _recursive(_: Any) -> Holds:
    def is_recursive(schema: Any) -> bool:
        followed = {"#": False}  # maps a reference to whether all below it was checked

        def leads_back(node: Any) -> bool:
            return any(
                isinstance(name := part.get("$ref"), str) and follow(name)
                for part in _schemas(node)
            )

        def follow(name: str) -> bool:
            if name in followed:
                return not followed[name]
            followed[name] = False
            found = any(map(leads_back, values(schema, tuple(name.split("/")[1:]))))
            followed[name] = True
            return found

        return leads_back(schema)

    return is_recursive


def _in_a_row(want: list[list[list[Any]]]) -> Holds:
    tests = [_holds(conditions) for conditions in want]

    def met(value: Any) -> bool:
        if not isinstance(value, list):
            return False
        runs = (value[at : at + len(tests)] for at in range(len(value) - len(tests) + 1))
        return any(all(map(_met, tests, run)) for run in runs)

    return met


def _met(holds: Holds, value: Any) -> bool:
    return holds(value)


def _schemas(schema: Any, named: bool = False) -> Iterator[dict[str, Any]]:
    """Yield a JSON schema and all schemas in it.

    `named` means that `schema` maps names to schemas.
    """
    if isinstance(schema, list):
        for item in schema:
            yield from _schemas(item)
    elif isinstance(schema, dict):
        if not named:
            yield schema
        for name, value in schema.items():
            yield from _schemas(value, not named and name in _OF_NAMES)


_OF_NAMES = ("properties", "$defs", "definitions")
"""Keywords of JSON schemas whose value maps names to schemas."""

OPERATORS: dict[str, Callable[[Any], Holds]] = {
    "present": lambda _: lambda value: value is not None,
    "eq": lambda want: lambda value: bool(value == want),
    "ne": lambda want: lambda value: bool(value != want),
    "in": lambda want: lambda value: value in want,
    "not_in": lambda want: lambda value: value not in want,
    "gt": lambda want: lambda value: _number(value) and value > want,
    "lt": lambda want: lambda value: _number(value) and value < want,
    "len_gt": lambda want: lambda value: hasattr(value, "__len__") and len(value) > want,
    "type_in": _of_types,
    "matches": lambda want: _pattern(want, True),
    "not_matches": lambda want: _pattern(want, False),
    "holds": _holds,
    "json": _json,
    "more_than": _more_than,
    "says": _says,
    "lacks": _lacks,
    "itemless": _itemless,
    "open": _open,
    "unrequired": _unrequired,
    "recursive": _recursive,
    "in_a_row": _in_a_row,
}
"""For each operator, a function that takes the operand in a rule, and returns a test of a value.

`holds`: the given conditions hold for the value. `json`: the value is JSON text, and the conditions
hold for its data. `more_than`: the conditions hold for more than the given number of items of a
list. The next six operators test a JSON schema and the schemas inside it. `says`: one of these
schemas has one of the given keywords. `lacks`: a property, the items or an alternative of one of
these schemas has none of the given keywords. `itemless`: one of these schemas is for arrays and has
no `items`. `open`: one of these schemas is for objects and allows
additional properties. `unrequired`: one of these schemas has a property that is not required.
`recursive`: a reference leads back to a schema that contains the reference. `in_a_row`: consecutive
items of a list meet the given lists of conditions, one list for each item.
"""


def _unlisted(path: Steps, lists: list[Steps]) -> Holds:
    """Return a function that checks if a value at `path` occurs at none of the paths in `lists`."""

    def met(body: Any) -> bool:
        known = [value for steps in lists for value in values(body, steps)]
        return any(value not in known for value in values(body, path) if value is not None)

    return met


def condition(path: str, op: str, want: Any = None, absent: bool = False) -> Holds:
    """Return a function that checks a condition on a request's body.

    `path` may have several values in the body: `[*]` selects all items of a list. The condition is
    true if at least one of them passes the test of the operator `op` with the operand `want` (`gt`:
    the value is greater than `want`). If the argument `absent` is True, the condition is also true
    if all values are null or missing. The operator `absent` tests that all values are null or
    missing. `unlisted` tests that a value occurs at none of the paths in `want`, and `count_gt`
    tests that `path` has more than `want` values. Raises KeyError for an unknown operator.
    """
    steps = steps_of(path)
    if op == "absent":
        return lambda body: all(value is None for value in values(body, steps))
    if op == "count_gt":
        return lambda body: len(values(body, steps)) > want
    if op == "unlisted":
        return _unlisted(steps, [steps_of(each) for each in want])
    holds, needs_one = OPERATORS[op](want), op == "present"

    def met(body: Any) -> bool:
        found = values(body, steps)
        if all(value is None for value in found) and (absent or needs_one):
            return absent
        return any(map(holds, found))

    return met
