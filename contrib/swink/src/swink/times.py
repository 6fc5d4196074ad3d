"""Create msgspec's JSON schemas with a `format` for every date and time.

msgspec omits `format` for a datetime or time whose time zone is optional. Without the format, a
model may write the time in words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import inspect, json

__all__ = ["msgspec_schemas"]

_REFERENCE = "#/$defs/{name}"

_RECORDS = (
    inspect.StructType,
    inspect.TypedDictType,
    inspect.DataclassType,
    inspect.NamedTupleType,
)


def msgspec_schemas(kinds: Sequence[Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return msgspec's JSON schemas of types, with a `format` for every date and time.

    Also returns the definitions to which the schemas refer. Raises TypeError for a type that
    msgspec does not support.
    """
    infos = inspect.multi_type_info(kinds)
    records: dict[Any, Any] = {}
    for info in infos:
        _collect(info, records)
    schemas, parts = json.schema_components([*kinds, *records], ref_template=_REFERENCE)
    found = [*schemas[: len(infos)]]
    for info, schema in zip(infos, found, strict=True):
        _describe(info, schema)
    for record, reference in zip(records.values(), schemas[len(infos) :], strict=True):
        _describe_fields(record, parts[reference["$ref"].rpartition("/")[2]])
    return found, parts


def _collect(info: Any, records: dict[Any, Any]) -> None:
    """Add each record (a class with named fields) inside a type to `records`, under its class."""
    info = _bare(info)
    if isinstance(info, _RECORDS):
        if info.cls not in records:
            records[info.cls] = info
            for field in info.fields:
                _collect(field.type, records)
    else:
        for part in _parts(info):
            _collect(part, records)


def _bare(info: Any) -> Any:
    while isinstance(info, inspect.Metadata):
        info = info.type
    return info


def _parts(info: Any) -> tuple[Any, ...]:
    if isinstance(info, inspect.CollectionType):
        return (info.item_type,)
    if isinstance(info, inspect.TupleType):
        return info.item_types
    if isinstance(info, inspect.DictType):
        return (info.value_type,)
    return info.types if isinstance(info, inspect.UnionType) else ()


def _describe(info: Any, schema: dict[str, Any]) -> None:
    """Add `format` to the schemas of dates and times in a type, but not to those inside records."""
    info = _bare(info)
    if isinstance(info, inspect.DateTimeType | inspect.TimeType):
        is_time = isinstance(info, inspect.TimeType)
        schema.setdefault("format", "time" if is_time else "date-time")
    elif isinstance(info, inspect.TupleType):
        for part, node in zip(info.item_types, schema.get("prefixItems", ()), strict=True):
            _describe(part, node)
    elif isinstance(info, inspect.UnionType):
        # records and None come last in the schema; the others keep their order
        left_out = (*_RECORDS, inspect.NoneType)
        others = [part for part in info.types if not isinstance(_bare(part), left_out)]
        for part, node in zip(others, schema["anyOf"], strict=False):
            _describe(part, node)
    else:
        for part in _parts(info):
            node = schema.get("items", schema.get("additionalProperties"))
            if isinstance(node, dict):
                _describe(part, node)


def _describe_fields(record: Any, schema: dict[str, Any]) -> None:
    if "properties" in schema:
        for field in record.fields:
            _describe(field.type, schema["properties"][field.encode_name])
    else:  # in an array, a tag may come first
        nodes = schema.get("prefixItems", [])
        for field, node in zip(reversed(record.fields), reversed(nodes), strict=False):
            _describe(field.type, node)
