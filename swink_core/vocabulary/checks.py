"""Check values against the annotations of their class, with msgspec."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import cache
from math import isfinite
from types import NoneType, UnionType
from typing import Any, ClassVar, Union, get_args, get_origin, get_type_hints

import msgspec
from attrs import define, fields, has


@cache
def annotations_of(kind: Any) -> dict[str, Any]:
    """Return the type annotation of each field of a struct or an attrs class, by field name."""
    hints = get_type_hints(kind, include_extras=True)
    is_struct = isinstance(kind, msgspec.StructMeta)
    names = kind.__struct_fields__ if is_struct else [field.name for field in fields(kind)]
    return {name: hints[name] for name in names}


class LayeredExtra(dict[str, Any]):
    """The `extra` of a client and of a call, merged after both have been checked.

    `own` is the call's `extra` alone. `inherited` contains the names of the options that only the
    client sets. `over` contains those fields of `own` that replace the request fields of these
    options.
    """

    def __init__(
        self,
        merged: Mapping[str, Any],
        over: Mapping[str, Any],
        own: Mapping[str, Any],
        inherited: frozenset[str],
    ) -> None:
        super().__init__(merged)
        self.over = over
        self.own = own
        self.inherited = inherited


def held_to(annotation: Any, value: Any) -> Any:
    """Check a value against an annotation, and convert strings to enum members, lists to tuples.

    Raises ValueError, whose message lists the expected values and quotes at most one word of the
    actual value.
    """
    classes, kept = _known(annotation)
    if classes and not isinstance(value, annotation):  # msgspec would accept mappings for them
        raise ValueError(f"expected {' or '.join(classes)}, got `{type(value).__name__}`")
    if classes or type(value) in kept or isinstance(value, LayeredExtra):
        return value
    # msgspec does not support subclasses of float, such as numpy's
    if isinstance(value, float) and not isfinite(value := float(value)):
        raise ValueError("expected a finite number")
    try:
        return msgspec.convert(value, annotation)
    except AttributeError:  # an object with `[]`, which msgspec takes for a mapping
        raise ValueError(f"expected `dict`, got `{type(value).__name__}`") from None
    except msgspec.ValidationError as error:
        said = str(error).replace("null`", "None`").replace("`object`", "`dict`")
        said = f"expected {meant}" if (meant := _meant(annotation)) else said
        said = f"{said}; one of: {', '.join(_words(annotation))}".removesuffix("; one of: ")
        raise ValueError(said[0].lower() + said[1:]) from None


@cache
def _known(annotation: Any) -> tuple[list[str], set[Any]]:
    """Inspect an annotation for `held_to`.

    The first result is a list of the names of the structs and attrs classes that the annotation
    allows. The second result is the set of those types among `str`, `bool` and `NoneType` that
    the annotation allows. The results are cached, because msgspec would inspect the annotation
    again for each value, which takes ten times as long.
    """
    is_union = get_origin(annotation) in (Union, UnionType)
    parts = get_args(annotation) if is_union else (annotation,)
    classes = [part.__name__ for part in parts if isinstance(part, msgspec.StructMeta) or has(part)]
    return classes, {str, bool, NoneType}.intersection(parts)


def _meant(annotation: Any) -> str | None:
    """Return the description in an annotation's `msgspec.Meta`; `None` without a description."""
    if isinstance(annotation, msgspec.Meta):
        return annotation.description
    return next(filter(None, map(_meant, get_args(annotation))), None)


def _words(annotation: Any) -> Iterator[str]:
    """Yield the strings that an annotation accepts."""
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        yield from annotation
    elif isinstance(annotation, str):
        yield annotation
    for part in get_args(annotation):
        yield from _words(part)


@cache
def _held(kind: Any) -> list[tuple[Any, ...]]:
    return [(each, each.default, annotations_of(kind)[each.name]) for each in fields(kind)]


@define(frozen=True)
class Checked:
    """A base class that checks the fields of a new object against their annotations.

    Raises ValueError for a field whose value does not match. The message does not quote the value
    if the field has `repr=False`.
    """

    none_is_default: ClassVar[bool] = False
    """Whether a field that may not be `None` gets its default value if `None` is passed."""

    def __attrs_post_init__(self) -> None:
        kind: Any = type(self)
        for field, default, annotation in _held(kind):
            value = getattr(self, field.name)
            if value is default:
                continue
            if value is None and self.none_is_default and NoneType not in get_args(annotation):
                value = default.factory() if hasattr(default, "factory") else default
            try:
                object.__setattr__(self, field.name, held_to(annotation, value))
            except ValueError as error:
                show: Any = field.repr if callable(field.repr) else repr
                shown = f"={show(value):.80}" if field.repr else ""
                raise ValueError(f"{field.name}{shown}: {error}") from None
