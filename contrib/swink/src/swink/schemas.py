"""Convert types to JSON schemas, and JSON data to values of these types.

One of three libraries handles a type. msgspec handles plain annotations, dataclasses, attrs classes
and TypedDicts. cattrs handles unions of classes and attrs classes with converters, which msgspec
does not support. pydantic handles any type that contains a pydantic type; swink imports pydantic
only for such a type, when the caller has already imported it.
"""

from __future__ import annotations

import inspect
import json
import sys
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache, partial
from traceback import walk_tb
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Generic,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)
from uuid import UUID

import attrs
import msgspec

from swink.times import msgspec_schemas
from swink_core import UsageError
from swink_core.providers import inlined_schema, plain_union

if TYPE_CHECKING:
    from cattrs import Converter
    from typing_extensions import TypeForm

__all__ = ["Schema", "plain_data"]

T = TypeVar("T")

_NAMED = ("properties", "$defs", "definitions", "patternProperties")
"""Keywords of JSON schemas whose value maps names to schemas."""

_DATA = ("default", "const", "enum", "examples")
"""Keywords of JSON schemas whose values are data, not schemas."""

_WRITTEN = (bytes, date, datetime, time, timedelta, Decimal, UUID)
"""Types that JSON represents as text; msgspec converts them, because cattrs does not."""

_JSON_TYPES: dict[type, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}


class Schema(Generic[T]):
    """A type's JSON schema, and the conversion of JSON data to values of the type.

    Raises UsageError for a type without a JSON schema.
    """

    def __init__(self, kind: TypeForm[T]) -> None:
        self.kind: Any = kind
        self.json, self._load = _made(kind)

    def load(self, data: Any) -> T:
        """Convert JSON data to a value of the type.

        Raises ValueError if the data does not match the type.
        """
        try:
            value: T = self._load(data)
        except RecursionError as error:
            raise ValueError("it is nested too deeply") from error
        return value


def plain_data(value: Any) -> Any:
    """Convert a value to JSON data. Raises TypeError if JSON cannot represent the value."""
    return msgspec.to_builtins(value, enc_hook=_plain, str_keys=True)


def _plain(value: Any) -> Any:
    """Convert a value of a class that msgspec does not know."""
    if isinstance(value, str):
        return str.__str__(value)
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError(f"a value of type {type(value).__name__} cannot be converted to JSON")


def _made(kind: Any) -> tuple[dict[str, Any], Callable[[Any], Any]]:
    if isinstance(kind, str):
        raise UsageError(
            f"{kind!r} is the name of a type", resolution="Pass the type itself, without quotes."
        )
    if isinstance(kind, Mapping):
        raise UsageError(
            "type is a dictionary", resolution="Pass a JSON schema as response_format={…}."
        )
    if not isinstance(kind, type) and (inspect.isroutine(kind) or _holds_values(type(kind))):
        raise _no_schema(kind, TypeError("it is not a type"))
    parts = list(_parts(kind))
    if any(map(_is_pydantics, parts)):
        return _by_pydantic(kind)
    if _is_choice_of_classes(kind) or any(map(_converts, parts)):
        return _by_cattrs(kind)
    try:
        schemas, definitions = msgspec_schemas((kind,))
        return _tidy({**schemas[0], "$defs": definitions}), partial(_by_msgspec, kind)
    except (TypeError, NameError) as error:
        if "pydantic" in sys.modules:
            return _by_pydantic(kind)
        raise _no_schema(kind, error) from error


def _by_msgspec(kind: Any, data: Any) -> Any:
    try:
        return _fitting(data, kind)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error


def _fitting(data: Any, kind: Any) -> Any:
    return msgspec.convert(data, kind, str_keys=True)  # the keys of a JSON object are texts


def _by_pydantic(kind: Any) -> tuple[dict[str, Any], Callable[[Any], Any]]:
    from pydantic import TypeAdapter, ValidationError
    from pydantic.errors import PydanticUserError

    try:
        adapter: Any = TypeAdapter(kind)
        schema = _tidy(adapter.json_schema())
    except (PydanticUserError, TypeError) as error:
        raise _no_schema(kind, error) from error

    def load(data: Any) -> Any:
        try:
            # A strict model accepts a date or a tuple only from JSON.
            return adapter.validate_json(json.dumps(data))
        except ValidationError as error:
            told = (f"{each['msg']} - at `{_place(each['loc'])}`" for each in error.errors())
            raise ValueError("; ".join(told)) from error

    return schema, load


def _place(steps: Iterable[Any]) -> str:
    return ".".join(("$", *map(str, steps)))


def _by_cattrs(kind: Any) -> tuple[dict[str, Any], Callable[[Any], Any]]:
    from cattrs import transform_error
    from cattrs.errors import StructureHandlerNotFoundError

    choices = get_args(kind) if _is_union(kind) else (kind,)
    try:
        schemas, parts = msgspec_schemas(choices)
        structure = _strict_converter().get_structure_hook(kind)
    except (TypeError, NameError, StructureHandlerNotFoundError) as error:
        raise _no_schema(kind, error) from error
    marks = _marks([each for each in choices if each is not types.NoneType])
    if marks:
        schemas = [_requiring(marks, each, parts) for each in schemas]
    schema: dict[str, Any] = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}

    def load(data: Any) -> Any:
        try:
            return structure(data, kind)
        except Exception as error:
            raise ValueError("; ".join(transform_error(error, "$", _misfit))) from error

    return _tidy({**schema, "$defs": parts}), load


def _marks(classes: list[Any]) -> list[str]:
    """Return the names of the literal fields by which cattrs tells the classes of a union apart.

    cattrs needs one of them in the data, even if it has a default value.
    """
    hints = [_fields(get_origin(each) or each) for each in classes]
    marks = []
    for name in hints[0]:
        kinds = [each.get(name) for each in hints]
        values = [set(get_args(each)) for each in kinds if get_origin(each) is Literal]
        if len(values) == len(classes) and not set.intersection(*values):
            marks.append(name)
    return marks


def _requiring(names: list[str], schema: dict[str, Any], parts: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a class with these fields required; another schema is unchanged."""
    if "$ref" not in schema:
        return schema
    whole = parts[schema["$ref"].rpartition("/")[2]]
    required = whole.get("required", [])
    return {**whole, "required": [*required, *(each for each in names if each not in required)]}


def _strict_converter() -> Converter:
    """Return a converter that raises an error for data that does not fit, as msgspec does.

    cattrs changes such data: it makes `True` of `"false"`, and a list of a text. Therefore, cattrs
    only makes the objects of classes and their containers, and msgspec converts everything else.
    """
    from cattrs import Converter
    from cattrs.cols import list_structure_factory
    from cattrs.gen import make_dict_structure_fn, make_mapping_structure_fn, override

    converter = Converter(forbid_extra_keys=True)

    def dataclass_hook(kind: Any) -> Any:
        # Of annotations that are texts, cattrs ignores the limits of msgspec.Meta.
        hints = _fields(kind)
        hooks: dict[str, Any] = {
            name: override(struct_hook=field_hook(hint)) for name, hint in hints.items()
        }
        return make_dict_structure_fn(kind, converter, _cattrs_forbid_extra_keys=True, **hooks)

    def field_hook(hint: Any) -> Callable[[Any, Any], Any]:
        return lambda data, _: converter.structure(data, hint)

    def array_hook(kind: Any) -> Callable[[Any, Any], Any]:
        array: Any = types.GenericAlias(list, get_args(kind)[:1])
        items = list_structure_factory(array, converter)
        return lambda data, kind: _fitting(items(_fitting(data, list), kind), get_origin(kind))

    def mapping_hook(kind: Any) -> Callable[[Any, Any], Any]:
        key, value = get_args(kind)
        read: Any = types.GenericAlias(dict, (key, Any))
        held: Any = types.GenericAlias(dict, (Any, value))
        items: Any = make_mapping_structure_fn(held, converter)
        return lambda data, kind: items(_fitting(data, read), kind)

    converter.register_structure_hook_factory(_is_dataclass, dataclass_hook)
    converter.register_structure_hook_factory(_is_array, array_hook)
    converter.register_structure_hook_factory(_is_mapping, mapping_hook)
    converter.register_structure_hook_func(_is_msgspecs, _fitting)
    for plain in (*_JSON_TYPES, *_WRITTEN):
        converter.register_structure_hook(plain, _fitting)
    return converter


def _misfit(error: BaseException, kind: Any) -> str:
    """Return the text of an error in data.

    As in msgspec, a ValueError or TypeError of the code of a class describes the data. Other errors
    of this code are raised.
    """
    from cattrs.v import format_exception

    if isinstance(error, msgspec.ValidationError):
        return str(error)
    if _is_of_cattrs(error):
        return format_exception(error, kind)
    if isinstance(error, ValueError | TypeError):
        return str(error)
    raise error


def _is_of_cattrs(error: BaseException) -> bool:
    """Return True if cattrs or a hook of this module raised the error, not the code of a class."""
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    if not frames:
        return True
    module = str(frames[-1].f_globals.get("__name__"))
    is_generated = frames[-1].f_code.co_filename.startswith("<cattrs ")
    return is_generated or module.startswith(("cattrs.", __name__))


def _no_schema(kind: Any, error: Exception) -> UsageError:
    said = str(error).partition("\n")[0]
    if said.endswith(":"):  # the rest of the message is advice for users of msgspec
        said = "it is a class without annotated fields, and not a pydantic model"
    return UsageError(
        f"{_name(kind)} has no JSON schema: {said}",
        resolution="Use types that msgspec, cattrs or pydantic know; a union of classes inside "
        "another type requires pydantic models.",
    )


def _name(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)


def _tidy(schema: dict[str, Any]) -> dict[str, Any]:
    """Convert a library's JSON schema to the form that swink sends.

    Each `$ref` is replaced by the schema it refers to, `oneOf` by `anyOf`, and all titles except
    the root's are removed. An object whose fields are not listed may have any fields.
    """
    whole = inlined_schema(schema)
    reference = whole.get("$ref")
    if isinstance(reference, str):  # a recursive type
        whole = {**whole["$defs"][reference.rpartition("/")[2]], **whole}
        del whole["$ref"]
    title = whole.get("title")
    plain: dict[str, Any] = _tidied(whole)
    return {"title": title, **plain} if title else plain


def _tidied(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_tidied(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    plain: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _NAMED:
            plain[key] = {name: _tidied(each) for name, each in value.items()}
        elif key != "title":
            plain[key] = value if key in _DATA else _tidied(value)
    plain = plain_union(plain)
    if plain.get("type") == "object" and "properties" not in plain:
        plain.setdefault("additionalProperties", True)
    kinds = {_JSON_TYPES.get(type(each)) for each in plain.get("enum", ())}
    if len(kinds) == 1 and None not in kinds and "type" not in plain:
        plain["type"] = kinds.pop()  # some APIs require a type beside an enum
    return plain


# -- the parts of a type -------------------------------------------------------------------------


def _is_union(kind: Any) -> bool:
    return get_origin(kind) in (Union, types.UnionType)


def _is_choice_of_classes(kind: Any) -> bool:
    classes = [
        part for part in get_args(kind) if hasattr(part, "__dataclass_fields__") or attrs.has(part)
    ]
    return _is_union(kind) and len(classes) > 1


def _is_record(kind: Any) -> bool:
    """Return True if a class has named fields."""
    marks = ("__dataclass_fields__", "__attrs_attrs__", "__struct_fields__", "_fields")
    return is_typeddict(kind) or any(hasattr(kind, mark) for mark in marks)


def _holds_values(kind: type) -> bool:
    """Return True if the class has fields, so that an instance of it contains data."""
    return _is_record(kind) or hasattr(kind, "__pydantic_core_schema__")


@lru_cache(maxsize=1024)
def _fields(kind: Any) -> dict[str, Any]:
    """Return the annotations of a class's fields; empty for a class without fields."""
    if not _is_record(kind):
        return {}
    try:
        return get_type_hints(kind, include_extras=True)
    except NameError:
        return {}


def _parts(kind: Any, known: set[int] | None = None) -> Iterator[Any]:
    """Yield an annotation and all annotations that it contains."""
    known = set() if known is None else known
    if id(kind) in known:
        return
    known.add(id(kind))
    yield kind
    if get_origin(kind) is Annotated:
        yield from kind.__metadata__
    held = [*get_args(kind), get_origin(kind)]
    if isinstance(kind, type) and get_origin(kind) is None:
        held += _fields(kind).values()
    for part in held:
        if part is not None:
            yield from _parts(part, known)


def _is_pydantics(part: Any) -> bool:
    owner = part if isinstance(part, type) else type(part)
    return (
        hasattr(part, "__get_pydantic_core_schema__")
        or hasattr(part, "__pydantic_core_schema__")
        or owner.__module__.partition(".")[0] in ("annotated_types", "pydantic")
    )


def _is_dataclass(kind: Any) -> bool:
    return isinstance(kind, type) and hasattr(kind, "__dataclass_fields__")


def _is_array(kind: Any) -> bool:
    """Return True if JSON represents the type as an array of items of one type."""
    held, origin = get_args(kind), get_origin(kind)
    is_array = isinstance(origin, type) and issubclass(origin, Collection)
    return is_array and (len(held) == 1 or held[1:] == (...,))


def _is_mapping(kind: Any) -> bool:
    origin = get_origin(kind)
    return isinstance(origin, type) and issubclass(origin, Mapping)


def _is_msgspecs(kind: Any) -> bool:
    """Return True for a type inside a class of cattrs that msgspec converts."""
    if hasattr(kind, "__dataclass_fields__") or attrs.has(kind) or _is_choice_of_classes(kind):
        return False
    return not any(map(_converts, _parts(kind)))


def _converts(part: Any) -> bool:
    if not (isinstance(part, type) and attrs.has(part)):
        return False
    return any(each.converter for each in attrs.fields(part))
