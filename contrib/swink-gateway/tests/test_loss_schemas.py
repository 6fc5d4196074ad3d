"""Each row of the table of losses, checked against the vendor's published schema in its SDK.

A row claims that a type, or a field of it, has no room for some data. The SDK's types are
generated from the vendor's schema, so the type must exist, and none of its names, values or forms
may be able to hold the data. If a vendor adds such a field, a test fails, and the row must be
removed.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, Literal, get_args, get_origin

import pytest
from attrs import define
from sdks import CLIENTS

from swink_gateway.protocols.losses import (
    ANSWER_METADATA,
    BORDERS,
    BROKEN_CALLS,
    COST_PARTS,
    COUNTS,
    CUT_CALLS,
    EXTENSIONS,
    EXTENSIONS_AND_IMAGES,
    GENERATED,
    IDS,
    LAST_TEXT_METADATA,
    ORDER,
    PAUSE,
    RAW_ARGUMENTS,
    RETRY,
    SIGNATURES,
    TEXT_METADATA,
    Loss,
)
from swink_gateway.protocols.table import PROTOCOLS

BaseModel: Any = pytest.importorskip("pydantic", reason="no SDK is installed").BaseModel

SCHEMAS = {
    "chat": ("openai.types.chat", "openai.types.chat.chat_completion", "openai.types"),
    "responses": ("openai.types.responses",),
    "messages": ("anthropic.types",),
    "gemini": ("google.genai.types",),
    "ollama": ("ollama",),
}
"""The modules with the SDKs' types."""

ANY = r"^(metadata|extra|extensions?|properties|additional.*|details)$"
"""Names of fields that could hold any data."""

ROOM: dict[str, str] = {
    SIGNATURES: r"signature|encrypted|opaque|" + ANY,
    EXTENSIONS: r"server_tool|opaque|extension|" + ANY,
    EXTENSIONS_AND_IMAGES: r"server_tool|opaque|extension|" + ANY,
    GENERATED: r"image|media",
    TEXT_METADATA: ANY,
    LAST_TEXT_METADATA: ANY,
    ANSWER_METADATA: r"^(extra|extensions?|properties|additional.*|provider.*)$",
    COST_PARTS: r"cost|price|dollar|usd|amount",
    COUNTS: ANY,
    CUT_CALLS: r"status|state|complete|" + ANY,
    PAUSE: r"pause|continu|again",
    RETRY: r"retr(y|ie)|restart|reset|replace|discard",
    BORDERS: r"index|position|^ids?$",
    IDS: r"^(.*_)?id$",
}
"""The names of fields, values or events that could hold the data of a row."""

TEXT_FIELDS = {ORDER: str, RAW_ARGUMENTS: dict, BROKEN_CALLS: dict}
"""Rows about the form of a field: one text without an order, an object instead of text."""


@define
class Section:
    """A type of a published schema, with an optional field."""

    type: Any
    field: str | None

    @classmethod
    def of(cls, protocol: str, loss: Loss) -> Section:
        """Find the section of a row. Fails if the schema does not have it."""
        first, *path = loss.section.split(".")
        modules = [pytest.importorskip(name) for name in SCHEMAS[protocol]]
        found: Any = next(getattr(m, first) for m in modules if hasattr(m, first))
        while path and path[0] not in getattr(found, "model_fields", {}):
            found = getattr(found, path.pop(0))
        assert len(path) <= 1, f"{loss.section} is not in the schema"
        return cls(found, path[0] if path else None)

    def names(self) -> Iterator[str]:
        """Yield the names in the section: fields of a type, types of a union, values of a field."""
        if self.field is not None:
            yield from _values(self.type.model_fields[self.field].annotation)
        else:
            for one in _members(self.type):
                yield from one.model_fields
                yield from _values(one.model_fields.get("type", _NONE).annotation)


class _Without(BaseModel):  # type: ignore[misc]  # it is not there without an SDK
    type: None = None


_NONE = _Without.model_fields["type"]


def _members(kind: Any) -> Iterator[Any]:
    if isinstance(kind, type):
        yield kind
    for one in get_args(kind):
        if (isinstance(one, type) and issubclass(one, BaseModel)) or get_args(one):
            yield from _members(one)


def _values(kind: Any) -> Iterator[str]:
    if get_origin(kind) is Literal:
        yield from map(str, get_args(kind))
    for one in get_args(kind):
        yield from _values(one)


ROWS = [
    (row.name, loss) for row in PROTOCOLS.values() if row.name in CLIENTS for loss in row.losses
]


@pytest.mark.parametrize(("protocol", "loss"), ROWS, ids=[f"{p}-{x.what}" for p, x in ROWS])
def test_the_schema_has_no_room_for_what_is_lost(protocol: str, loss: Loss) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ignore deprecations of the SDKs
        section = Section.of(protocol, loss)
        if loss.what in TEXT_FIELDS:
            assert section.field is not None
            assert _forms(section) == {TEXT_FIELDS[loss.what]}
            return
        names = list(section.names())
    room = re.compile(ROOM[loss.what])
    assert [name for name in names if room.search(name)] == []
    assert names or section.field is not None


def _forms(section: Section) -> set[Any]:
    annotation = section.type.model_fields[section.field].annotation
    kinds = [one for one in get_args(annotation) if one is not type(None)] or [annotation]
    if get_origin(annotation) is not None and type(None) not in get_args(annotation):
        kinds = [annotation]
    return {_form(kind) for kind in kinds}


def _form(kind: Any) -> Any:
    origin = get_origin(kind) or kind
    return dict if isinstance(origin, type) and issubclass(origin, Mapping) else origin
