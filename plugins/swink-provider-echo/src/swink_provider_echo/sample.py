"""Generate JSON data for a JSON schema from a text. The data are the same every time.

A node is merged with the nodes that it refers to (`$ref`, `allOf`), and a value of the resulting
type is generated. Optional parts are included near the root of the data. Deeper in the data, or if
the data is already large, only required parts are included, and the alternative with the least
depth is chosen. Therefore recursion ends for every schema that allows a finite value.

https://json-schema.org/draft/2020-12/json-schema-validation
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from swink_provider_echo.effort import MOST_STEPS, Effort, TooMuch
from swink_provider_echo.formats import FORMATS, encoded
from swink_provider_echo.nodes import (
    Node,
    NoSample,
    is_of,
    item,
    joined,
    kind_of,
    listed,
    nothing,
    property_of,
    resolved,
    size,
)
from swink_provider_echo.patterns import matching
from swink_provider_echo.sizes import is_within, number_of, text_of

__all__ = ["NoSample", "sample"]

DEEPEST = 6
"""The number of levels, counted from the root of the data, that contain optional parts."""

PLENTY = 1_000
"""The number of values after which optional parts are left out."""

MOST = 100_000
"""The maximum number of items in an array, and of characters in a string."""

LONGEST_SCHEMA = 200_000
"""The maximum length of a schema in characters of JSON."""

LISTED = 10
"""The number of values of an `enum` that are compared in one step."""

NUMBER = 5
"""The number of steps to compute a number within bounds, with fractions."""

HIGHEST = 64
"""The maximum depth of the data in levels, including all required parts."""


def sample(schema: Node, text: str) -> Any:
    """Generate data for a schema.

    Strings are `text` and numbers are its word count, if bounds, lengths, formats and patterns
    allow it. `not`, `if`, `contains`, `dependentRequired` and `dependentSchemas` are ignored: the
    data may violate them. Raises NoSample if a pattern cannot be satisfied, bounds exclude each
    other, every value of the schema would be infinitely deep, the schema is too long, or the work
    takes too many steps.
    """
    try:
        if len(json.dumps(schema)) > LONGEST_SCHEMA:
            raise nothing("$", f"the schema has more than {LONGEST_SCHEMA:,} characters of JSON")
        return _Sampler(schema, text).value(schema, 0, 0, "$")
    except TooMuch as error:
        raise nothing("$", f"it takes more than {MOST_STEPS:,} steps") from error
    except RecursionError as error:
        raise nothing("$", "alternatives refer to each other without end") from error


class _Sampler:
    """Generates data for one schema; merged nodes are cached."""

    def __init__(self, root: Node, text: str) -> None:
        self._root = root
        self._text = text
        self._words = len(text.split())
        self._made = 0
        self._effort = Effort()
        # The key is the id() of a node. The node is stored too, so that its id() is not reused.
        self._merged: dict[int, tuple[Node, Any]] = {}
        self._choices: dict[int, list[Any]] = {}
        self._within: dict[tuple[int, int], bool] = {}
        self._enums: dict[int, list[Any]] = {}
        self._sizes: dict[int, int] = {}

    # -- nodes ---------------------------------------------------------------------------------

    def _plain(self, node: Any, within: tuple[int, ...] = ()) -> Any:
        """Return a node merged with the nodes that it refers to.

        The result is a mapping without `$ref` and `allOf`, or a boolean.
        """
        if not isinstance(node, Mapping):
            return node is not False
        key = id(node)
        if key not in self._merged:
            if key in within:
                return False  # it refers only to itself
            inner = (*within, key)
            self._effort.spend(1 + len(node) + len(within))
            parts = [{k: v for k, v in node.items() if k not in ("$ref", "allOf")}]
            if isinstance(reference := node.get("$ref"), str):
                parts.append(self._plain(resolved(reference, self._root), inner))
            parts += [self._plain(part, inner) for part in listed(node, "allOf")]
            self._merged[key] = (node, joined(parts))
        return self._merged[key][1]

    def _alternatives(self, node: Node) -> list[Any]:
        """Return the alternatives of a merged node; an empty list if it has none.

        The alternatives come from `anyOf`, `oneOf` or a list of types. Each alternative is merged
        with the node's other keywords.
        """
        key = id(node)
        if key not in self._choices:
            self._effort.spend()
            keyword = next((k for k in ("anyOf", "oneOf") if listed(node, k)), None)
            kinds = node.get("type")
            if keyword is not None:
                beside = {k: v for k, v in node.items() if k not in (keyword, "default")}
                found = [joined([beside, self._plain(p)]) for p in listed(node, keyword)]
            elif isinstance(kinds, list):
                found = [{**node, "type": kind} for kind in kinds]
            else:
                found = []
            self._choices[key] = [each for each in found if each is not False]
        return self._choices[key]

    def _allowed(self, node: Node) -> list[Any]:
        """Return the values of a merged node's `enum` that have the node's type, or else all."""
        key = id(node)
        if key not in self._enums:
            enum = listed(node, "enum")
            kinds = len(listed(node, "type")) or 1
            self._effort.spend(len(enum) * kinds // LISTED)
            self._enums[key] = [one for one in enum if is_of(node.get("type"), one)] or enum
        return self._enums[key]

    def _fits(self, node: Any, height: int) -> bool:
        """Return True if a node allows a value that is at most `height` levels deep."""
        plain = self._plain(node)
        if not isinstance(plain, Mapping):
            return bool(plain)
        if height < 0:
            return False
        key = (id(plain), height)
        if key not in self._within:
            self._effort.spend()
            self._within[key] = False
            self._within[key] = self._has_value(plain, height)
        return self._within[key]

    def _has_value(self, node: Node, height: int) -> bool:
        if "const" in node or node.get("enum"):
            return True
        if alternatives := self._alternatives(node):
            return any(self._fits(each, height) for each in alternatives)
        kind = kind_of(node)
        if kind == "object":
            parts = [property_of(node, name, self._has) for name in listed(node, "required")]
        elif kind == "array":
            parts = [item(node, at) for at in range(min(size(node, "minItems"), HIGHEST))]
        else:
            return True
        return all(self._fits(part, height - 1) for part in parts)

    def _height(self, node: Any) -> int:
        """Return the depth, in levels, of the least deep value that a node allows."""
        return next((h for h in range(HIGHEST) if self._fits(node, h)), HIGHEST)

    # -- values --------------------------------------------------------------------------------

    def value(self, node: Any, depth: int, number: int, place: str) -> Any:
        """Return a value that a node allows; `number`, from 0, selects among different values."""
        self._made += 1
        self._effort.spend()
        if not self._fits(node, HIGHEST - 1):
            raise nothing(
                place, "a required part has no value, or the type contains itself without end"
            )
        plain = self._plain(node)
        if plain is True or not plain:
            return self._string({}, number, place)
        if "const" in plain:
            return self._given(plain["const"])
        if number == 0 and "default" in plain and self._takes(plain, plain["default"]):
            return self._given(plain["default"])
        if listed(plain, "enum"):
            allowed = self._allowed(plain)
            return self._given(allowed[number % len(allowed)])
        if alternatives := self._alternatives(plain):
            return self._chosen(alternatives, depth, number, place)
        return self._typed(plain, depth, number, place)

    def _given(self, value: Any) -> Any:
        """Return a value of the schema, and count its characters."""
        key = id(value)
        if key not in self._sizes:
            self._sizes[key] = len(json.dumps(value))
        self._effort.spend(characters=self._sizes[key])
        return value

    def _is_full(self, depth: int) -> bool:
        return depth > DEEPEST or self._made > PLENTY

    def _chosen(self, alternatives: list[Any], depth: int, number: int, place: str) -> Any:
        """Return the value with the index `number` in the list of the values of all alternatives.

        Deep in the data, the value comes from the alternative with the least depth.
        """
        if self._is_full(depth):
            alternatives = sorted(alternatives, key=self._height)
        refused = nothing(place, "no alternative has a value")
        for each in alternatives:
            count = self._count(each)
            if number >= count:
                number -= int(count)
                continue
            made = self._made
            try:
                return self.value(each, depth, number, place)
            except NoSample as error:
                self._made = made
                refused = error
        raise refused

    def _count(self, node: Any) -> float:
        """Count the different values that a node allows; infinity if their number is unknown."""
        self._effort.spend()
        if not isinstance(node, Mapping) or "const" in node:
            return 1 if isinstance(node, Mapping) else math.inf
        if enum := listed(node, "enum"):
            return len(enum)
        if alternatives := self._alternatives(node):
            return sum(map(self._count, alternatives))
        return {"null": 1, "boolean": 2}.get(kind_of(node), math.inf)

    def _typed(self, node: Node, depth: int, number: int, place: str) -> Any:
        kind = kind_of(node)
        if kind == "object":
            return self._object(node, depth, number, place)
        if kind == "array":
            return self._array(node, depth, number, place)
        if kind in ("integer", "number"):
            self._effort.spend(NUMBER)
            return number_of(node, self._words, number, place)
        if kind == "boolean":
            return number % 2 == 0
        return None if kind == "null" else self._string(node, number, place)

    def _object(self, node: Node, depth: int, number: int, place: str) -> dict[str, Any]:
        required = dict.fromkeys(map(str, listed(node, "required")))
        is_full = self._is_full(depth + 1)
        data: dict[str, Any] = {}
        for name in dict.fromkeys((*node.get("properties", {}), *required)):
            part = property_of(node, name, self._has)
            if name in required or (not is_full and self._fits(part, HIGHEST - 1)):
                data[name] = self.value(part, depth + 1, number, f"{place}.{name}")
        most = size(node, "maxProperties", MOST)
        for name in [name for name in data if name not in required][max(0, most - len(required)) :]:
            del data[name]
        least = size(node, "minProperties")
        is_described = "patternProperties" in node or "propertyNames" in node
        wanted = least or int(is_described and not data and most > 0)
        for at in range(2 * wanted):
            if len(data) < wanted:
                name = self._new_name(node, at, place)
                part = property_of(node, name, self._has)
                data.setdefault(name, self.value(part, depth + 1, number, f"{place}.{name}"))
        self._effort.spend(characters=sum(map(len, data)))
        if not least <= len(data) <= most:
            raise nothing(place, f"no object has {least} to {most} properties here")
        return data

    def _new_name(self, node: Node, number: int, place: str) -> str:
        """Return a name that matches `propertyNames` and the first of the `patternProperties`."""
        names = [self._plain(node.get("propertyNames", True))]
        names += [{"pattern": pattern} for pattern in node.get("patternProperties", {})][:1]
        described = joined(names)
        if not described:
            return str(number + 1)  # a number is also valid in maps whose keys are numbers
        named: str = self.value({**described, "type": "string"}, 0, number, f"{place}.*")
        return named

    def _array(self, node: Node, depth: int, number: int, place: str) -> list[Any]:
        prefix = listed(node, "prefixItems")
        least = size(node, "minItems")
        most = size(node, "maxItems", MOST)
        if node.get("items") is False:
            most = min(most, len(prefix))
        if least > min(most, MOST):
            raise nothing(place, f"no array has {least} to {most} items here")
        wanted = least
        if not self._is_full(depth + 1) and self._fits(item(node, least), HIGHEST - 1):
            wanted = max(least, min(most, len(prefix) or 1))
        if node.get("uniqueItems") and wanted > 1:
            return self._different(node, wanted, depth, place)
        return [
            self.value(item(node, at), depth + 1, number, f"{place}[{at}]") for at in range(wanted)
        ]

    def _different(self, node: Node, wanted: int, depth: int, place: str) -> list[Any]:
        items: list[Any] = []
        for number in range(4 * wanted + 16):
            at = len(items)
            made = self.value(item(node, at), depth + 1, number, f"{place}[{at}]")
            self._effort.spend(1 + len(items) // 10)
            if made not in items:
                items.append(made)
            if len(items) == wanted:
                return items
        raise nothing(place, f"`uniqueItems` requires {wanted} different items")

    def _string(self, node: Node, number: int, place: str) -> str:
        text = self._text_of(node, number, place)
        self._effort.spend(characters=len(text))
        return text

    def _text_of(self, node: Node, number: int, place: str) -> str:
        shortest = size(node, "minLength")
        longest = size(node, "maxLength", MOST)
        if shortest > min(longest, MOST):
            raise nothing(place, f"no string has {shortest} to {longest} characters here")
        text = self._text if number == 0 else f"{self._text} {number}"
        format = node.get("format", "")
        encoding = node.get("contentEncoding", format)
        pattern = node.get("pattern")
        if encoding in ("base64", "base64url"):
            return text_of(
                text, shortest, longest, lambda part: self._encoded(encoding, part), place
            )
        if node.get("contentMediaType") == "application/json" and "contentSchema" in node:
            text = json.dumps(self.value(node["contentSchema"], 1, number, place))
        elif format in FORMATS:
            text = FORMATS[format](number)
            if format in ("uri", "iri"):
                text += "a" * (shortest - len(text))
        elif pattern is None:
            return text_of(text, shortest, longest, str, place)
        if shortest <= len(text) <= longest and (pattern is None or self._has(pattern, text)):
            return text
        if pattern is None:
            raise nothing(place, f"format {format!r} has no string of {shortest} to {longest}")
        return self._matching(pattern, shortest, longest, number, place)

    def _matching(self, pattern: str, shortest: int, longest: int, number: int, place: str) -> str:
        why: ValueError | None = None
        # An empty string is used only if no other text matches.
        for least in dict.fromkeys((max(shortest, 1), shortest)):
            try:
                return matching(pattern, least, longest, number, self._effort)
            except ValueError as error:
                why = error
        raise nothing(place, f"pattern {pattern!r}: {why}") from why

    def _takes(self, node: Node, value: Any) -> bool:
        """Return True if a default value has the node's type and is within the node's bounds."""
        if alternatives := self._alternatives(node):
            return any(self._takes(a, value) for a in alternatives if isinstance(a, Mapping))
        if not is_of(node.get("type"), value):
            return False
        if enum := listed(node, "enum"):
            self._effort.spend(len(enum) // LISTED)
            return value in enum
        if isinstance(value, str):
            is_long_enough = size(node, "minLength") <= len(value)
            is_short_enough = len(value) <= size(node, "maxLength", MOST)
            pattern = node.get("pattern")
            is_like = not pattern or self._has(pattern, value, otherwise=True)
            return is_long_enough and is_short_enough and is_like
        if isinstance(value, int | float) and not isinstance(value, bool):
            self._effort.spend(NUMBER)
            return is_within(node, value)
        if isinstance(value, list):
            return size(node, "minItems") <= len(value) <= size(node, "maxItems", MOST)
        return True

    def _has(self, pattern: str, text: str, otherwise: bool = False) -> bool:
        """Return True if a pattern matches somewhere in a text.

        Return `otherwise` if the search might take too long, and False for a pattern that Python
        cannot parse.
        """
        try:
            return self._effort.matches(pattern, text)
        except (re.error, OverflowError):
            return False
        except ValueError:
            return otherwise

    def _encoded(self, encoding: str, text: str) -> str:
        self._effort.spend(1, len(text))
        return encoded(encoding, text)
