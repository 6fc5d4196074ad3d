"""Convert events and messages to JSON data and back, with msgspec.

The JSON form of an object follows from its class (see the module `structs`): a tag, then the fields
whose values differ from their defaults. msgspec's compiled code reads and writes this form. If it
rejects data, `_Reading` reads the data again and lists every fault with its location.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, TypeVar, Union, get_args, get_origin

import msgspec

from swink_core.vocabulary import messages as ms
from swink_core.vocabulary.checks import annotations_of, held_to
from swink_core.vocabulary.errors import SwinkError

if TYPE_CHECKING:
    from typing_extensions import TypeForm


T = TypeVar("T")


class CodecError(SwinkError, ValueError, title="Invalid data"):
    """JSON data is invalid; the message says where and why."""


def dump(value: Any) -> Any:
    """Return the JSON data for an event, message, block, context or a list of these."""
    data = msgspec.to_builtins(value)
    _leave_out_parameters(value, data)
    return data


def _leave_out_parameters(value: Any, data: Any) -> None:
    """Remove the field `parameters` of tools from `data` if it has the default value.

    msgspec does not do this itself, because it does not compare mutable defaults.
    """
    if isinstance(value, ms.Context):
        value = value.tools
        data = data.get("tools", ())
    if isinstance(value, ms.Tool):
        if value.parameters == _NO_PARAMETERS:
            del data["parameters"]
    elif isinstance(value, list | tuple):
        for one, its_data in zip(value, data, strict=True):
            _leave_out_parameters(one, its_data)


_NO_PARAMETERS = ms.Tool("").parameters


def load(kind: TypeForm[T], data: Any, *, allow_files: bool = False, exact: bool = False) -> T:
    """Return an object of `kind` (`Context`, `AssistantMessage`, `Message`, …).

    `allow_files` permits data that names files on this machine, as a saved conversation may do.
    With `exact`, data with keys that the classes do not have is rejected. Raises CodecError for
    invalid data; its message says where the data is wrong.
    """
    before = ms.no_files.set(not allow_files)
    try:
        try:
            loaded: T = _convert(kind, data)
        except msgspec.ValidationError:
            data = _mended(kind, data, allow_files, exact)
            loaded = _convert(kind, data)
    except (msgspec.ValidationError, RecursionError) as error:
        raise CodecError(str(error)) from error
    finally:
        ms.no_files.reset(before)
    if exact and not _is_exact(loaded, data):
        _mended(kind, data, allow_files, exact)
    return loaded


def _convert(kind: Any, data: Any) -> Any:
    return msgspec.convert({"value": data}, _holder(kind)).value


@cache
def _holder(kind: Any) -> Any:
    """Return a struct class with one field of the type `kind`, for faster decoding.

    msgspec caches the decoder of a struct class, but not the decoders of other types.
    """
    return msgspec.defstruct("Held", [("value", kind)])


def _mended(kind: Any, data: Any, allow_files: bool, exact: bool) -> Any:
    """Return a copy of data that msgspec has rejected, with floats converted to integers.

    Only floats in fields of integers are converted. Raises CodecError for any other fault.
    """
    reading = _Reading(allow_files, exact)
    mended = reading.read(kind, data)
    if reading.faults:
        raise CodecError("; ".join(reading.faults))
    return mended


class _Reading:
    """Reads data field by field; `faults` are the errors found, each with its location."""

    def __init__(self, allow_files: bool, exact: bool) -> None:
        self.allow_files = allow_files
        self.exact = exact
        self.faults: list[str] = []

    def read(self, kind: Any, data: Any, place: str = "$") -> Any:
        """Convert data to the type `kind`, and add errors to `faults`."""
        parts = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
        if (data is None and NoneType in parts) or (isinstance(data, str) and str in parts):
            return data
        if structs := [part for part in parts if isinstance(part, msgspec.StructMeta)]:
            return self._struct(structs, data, place)
        lists = [part for part in parts if get_origin(part) is list]
        if lists and isinstance(data, list | tuple):
            (item,) = get_args(lists[0])
            return [self.read(item, each, f"{place}[{n}]") for n, each in enumerate(data)]
        dicts = [part for part in parts if get_origin(part) is dict and _has_structs(part)]
        if dicts and isinstance(data, Mapping):
            _, item = get_args(dicts[0])
            return {key: self.read(item, each, f"{place}[{key!r}]") for key, each in data.items()}
        if int in parts and isinstance(data, float) and data.is_integer():
            return int(data)
        plain = [part for part in parts if part is not NoneType]
        self._hold(list if lists else plain[0] if len(plain) == 1 else kind, data, place)
        return data

    def _struct(self, structs: list[Any], data: Any, place: str) -> Any:
        kind = structs[0]
        tag = structs[0].__struct_config__.tag_field
        if not isinstance(data, Mapping):
            if len(structs) == 1:
                self._hold(dict, data, place)
            else:
                self._note(f"an object with {tag!r} was expected, not {data!r:.80}", place)
            return data
        if tag is not None and (len(structs) > 1 or tag in data):
            by_tag = {each.__struct_config__.tag: each for each in structs}
            found = data.get(tag)
            kind = by_tag.get(found) if isinstance(found, str) else None
            if kind is None:
                self._note(f"unknown {tag} {found!r:.80}; known: {', '.join(by_tag)}", place)
                return data
        names_file = kind is ms.FileSource or (
            kind is ms.UrlSource and ms.is_file_url(data.get("url"))
        )
        if names_file and not self.allow_files:
            self._note(ms.FILES_REFUSED, place)
        unknown = ", ".join(sorted(map(str, data.keys() - _shape(kind)[0])))
        if unknown and self.exact:
            self._note(f"extra fields found ({unknown})", place)
        return {**data, **self._fields(kind, data, place)}

    def _fields(self, kind: Any, data: Mapping[str, Any], place: str) -> dict[str, Any]:
        read: dict[str, Any] = {}
        annotations = annotations_of(kind)
        for field in msgspec.structs.fields(kind):
            name = field.name
            where = f"{place}.{field.name}"
            if name in data:
                read[name] = self.read(annotations[name], data[name], where)
            elif field.required:
                self._note("required field missing", where)
        return read

    def _hold(self, kind: Any, data: Any, place: str) -> None:
        try:
            held_to(kind, data)
        except ValueError as error:
            self._note(f"{error}: {data!r:.80}", place)

    def _note(self, fault: str, place: str) -> None:
        self.faults.append(f"{fault} @ {place}")


def _is_exact(made: Any, data: Any) -> bool:
    """Return True if `data`, from which `made` was created, has no unknown keys at any depth."""
    if isinstance(made, msgspec.Struct):
        known, holding = _shape(type(made))
        return data.keys() <= known and all(
            _is_exact(getattr(made, name), data[name]) for name in holding if name in data
        )
    if type(made) is list and isinstance(data, list | tuple):
        return all(map(_is_exact, made, data))
    if type(made) is dict:
        return all(map(_is_exact, made.values(), data.values()))
    return True


@cache
def _shape(kind: Any) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the keys of a class's JSON form, and the fields that may contain structs."""
    tag = {kind.__struct_config__.tag_field} - {None}
    holding = [name for name, held in annotations_of(kind).items() if _has_structs(held)]
    return frozenset({*kind.__struct_fields__, *tag}), tuple(holding)


def _has_structs(annotation: Any) -> bool:
    is_struct = isinstance(annotation, msgspec.StructMeta)
    return is_struct or any(map(_has_structs, get_args(annotation)))
