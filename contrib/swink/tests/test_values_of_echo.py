"""Values that `echo` makes up for types: each fits its JSON schema, and loads into the type."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import ipaddress
import uuid
from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple

import attrs
import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from typing_extensions import TypedDict

import swink
from swink.schemas import Schema
from swink_provider_echo import EchoProvider
from swink_provider_echo.sample import sample


class Side(enum.Enum):
    LEFT = "left"
    RIGHT = "right"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Pair(NamedTuple):
    x: int
    y: str


class Place(TypedDict, total=False):
    name: str
    height: float


def fits(kind: Any, text: str = "hello there") -> Any:
    """Return the value of a type that echo's data loads as, once the data fits the schema."""
    schema = Schema(kind)
    data = sample(schema.json, text)
    checker = Draft202012Validator.FORMAT_CHECKER
    Draft202012Validator(schema.json, format_checker=checker).validate(data)
    return schema.load(data)


# -- generated types -----------------------------------------------------------------------------

PLAIN: list[Any] = [
    *(str, int, float, bool, bytes, uuid.UUID, decimal.Decimal, datetime.date, datetime.datetime),
    *(datetime.time, datetime.timedelta, Side, Level, Pair, Place, Any, Literal["x", "y", 3]),
]
OF_PYDANTIC: list[Any] = [
    *(pydantic.HttpUrl, pydantic.IPvAnyAddress, pydantic.UUID4, pydantic.Base64Bytes),
    *(pydantic.Json[list[int]], pydantic.SecretStr, pydantic.AwareDatetime, pydantic.ByteSize),
    *(ipaddress.IPv4Address, ipaddress.IPv6Network, pydantic.PostgresDsn, pydantic.PastDate),
]
PATTERNS = [
    *(r"^\d{5}$", r"^[A-Z]{2,3}-\d+$", r"^(red|green)$", r"^[^@ ]+@[^@ ]+\.[a-z]{2,}$", r"^\w+$"),
    *(r"^#[0-9a-fA-F]{6}$", r"^(?:a|b)*$", r"\S", r"^v\d+\.\d+(\.\d+)?$"),
]
SIZES = st.integers(0, 12)


@st.composite
def sized(draw: Callable[..., Any], kind: Any, make: Any) -> Any:
    least = draw(SIZES)
    sizes = {"min_length": least, "max_length": least + draw(SIZES)}
    chosen = draw(st.sampled_from([{"min_length"}, {"max_length"}, {*sizes}]))
    return Annotated[kind, make(**{name: sizes[name] for name in sorted(chosen)})]


@st.composite
def bounded(draw: Callable[..., Any], kind: Any, make: Any) -> Any:
    low = draw(st.integers(-50, 50))
    high = low + draw(st.integers(2, 30))
    chosen: dict[str, Any] = {}
    if lower := draw(st.sampled_from(["", "ge", "gt"])):
        chosen[lower] = low
    if upper := draw(st.sampled_from(["", "le", "lt"])):
        chosen[upper] = high
    step = draw(st.sampled_from([0, 1, 2]))
    if step and high - low > 2 * step:
        chosen["multiple_of"] = step
    return Annotated[kind, make(**(chosen or {"ge": low}))]


def leaves(make: Any, plain: list[Any]) -> st.SearchStrategy[Any]:
    patterns = st.sampled_from(PATTERNS).map(lambda p: Annotated[str, make(pattern=p)])
    numbers = bounded(int, make) | bounded(float, make)
    return st.sampled_from(plain) | sized(str, make) | patterns | numbers


def containers(make: Any) -> Callable[[st.SearchStrategy[Any]], st.SearchStrategy[Any]]:
    hashable = st.sampled_from([int, str, datetime.date, uuid.UUID, Side])

    def extended(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        lists = inner.map(lambda kind: list[kind])
        return st.one_of(
            lists,
            lists.flatmap(lambda kind: sized(kind, make)),
            hashable.map(lambda kind: set[kind]),
            hashable.map(lambda kind: Annotated[frozenset[kind], make(max_length=3)]),
            inner.map(lambda kind: dict[str, kind]),
            inner.map(lambda kind: Annotated[dict[str, kind], make(min_length=2)]),
            inner.map(lambda kind: kind | None),
            st.lists(inner, min_size=1, max_size=3).map(lambda kinds: tuple[*kinds]),
        )

    return extended


def types(make: Any, plain: list[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(leaves(make, plain), containers(make), max_leaves=4)


def records(
    make: Any, plain: list[Any], build: Callable[[list[Any]], Any]
) -> st.SearchStrategy[Any]:
    return st.lists(types(make, plain), min_size=1, max_size=4).map(build)


def named(kinds: list[Any]) -> list[tuple[str, Any]]:
    return [(f"field_{number}", kind) for number, kind in enumerate(kinds)]


OF_MSGSPEC = types(msgspec.Meta, PLAIN)

RECORDS: dict[str, st.SearchStrategy[Any]] = {
    "pydantic": records(
        pydantic.Field,
        [*PLAIN, *OF_PYDANTIC],
        lambda kinds: pydantic.create_model(
            "Record", **{name: (kind, ...) for name, kind in named(kinds)}
        ),
    ),
    "msgspec": records(
        msgspec.Meta, PLAIN, lambda kinds: msgspec.defstruct("Record", named(kinds))
    ),
    "dataclasses": records(
        msgspec.Meta, PLAIN, lambda kinds: dataclasses.make_dataclass("Record", named(kinds))
    ),
    "attrs": records(
        msgspec.Meta,
        PLAIN,
        lambda kinds: attrs.make_class(
            "Record", {name: attrs.field(type=kind) for name, kind in named(kinds)}
        ),
    ),
}


@pytest.mark.parametrize("library", sorted(RECORDS))
@given(data=st.data(), text=st.sampled_from(["hello there", "a", "one two three four " * 20]))
def test_values_of_echo_fit_generated_types(library: str, data: st.DataObject, text: str) -> None:
    fits(data.draw(RECORDS[library]), text)


# -- types that hold themselves, or choose -------------------------------------------------------


class Tree(pydantic.BaseModel):
    name: Annotated[str, pydantic.Field(max_length=5)]
    children: list[Tree] = []
    parent: Tree | None = None


class Leaf(pydantic.BaseModel):
    kind: Literal["leaf"]
    value: Annotated[float, pydantic.Field(gt=0, lt=1)]


class Branch(pydantic.BaseModel):
    kind: Literal["branch"]
    left: Expression
    right: Expression


Expression = Annotated[Branch | Leaf, pydantic.Field(discriminator="kind")]


class Formula(pydantic.BaseModel):
    whole: Expression
    parts: Annotated[list[Expression], pydantic.Field(min_length=2)]


class Circle(msgspec.Struct, tag=True):
    radius: Annotated[float, msgspec.Meta(gt=0, multiple_of=0.25)]
    within: Circle | Square | None = None


class Square(msgspec.Struct, tag=True, array_like=False):
    side: float
    seen: datetime.datetime | None = None


@dataclasses.dataclass
class Person:
    name: str
    born: datetime.date
    friends: list[Person]
    met: dict[str, list[datetime.time | None]]
    boss: Person | None = None


@attrs.define
class Shelf:
    books: tuple[str, datetime.datetime, int]
    above: Shelf | None = None
    sides: set[Side] = attrs.field(factory=set)


class Wrong(pydantic.BaseModel):
    """Its defaults fit neither their types nor their bounds."""

    a: int = None  # type: ignore[assignment]  # on purpose
    b: Annotated[int, pydantic.Field(gt=0)] = 0
    c: Annotated[str, pydantic.Field(min_length=3)] = ""
    d: Side = "top"  # type: ignore[assignment]  # on purpose


class Crowd(pydantic.BaseModel):
    levels: Annotated[set[Level], pydantic.Field(min_length=2)]
    flags: Annotated[set[bool | None], pydantic.Field(min_length=3)]
    days: Annotated[set[datetime.date], pydantic.Field(min_length=40)]
    codes: Annotated[
        set[Annotated[str, pydantic.Field(pattern="^[A-Z]$")]], pydantic.Field(min_length=26)
    ]
    few: Annotated[set[Annotated[int, pydantic.Field(ge=3, le=6)]], pydantic.Field(min_length=4)]
    parts: Annotated[
        set[Annotated[float, pydantic.Field(gt=0, lt=1)]], pydantic.Field(min_length=9)
    ]
    by_day: Annotated[dict[datetime.date, int], pydantic.Field(min_length=3)]
    by_code: dict[Annotated[str, pydantic.Field(pattern="^[a-z]{3}$")], int]


@pytest.mark.parametrize(
    "kind",
    [
        *(Tree, Formula, Circle | Square, list[Circle | Square], Person, Shelf, Wrong, Crowd),
        *(Circle, Expression, Person | None, dict[str, Tree]),
    ],
    ids=str,
)
def test_values_of_echo_fit_recursive_and_union_types(kind: Any) -> None:
    fits(kind)


def test_optional_parts_are_filled_in() -> None:
    person = fits(Person)

    assert person.friends[0].friends[0].born == person.born
    assert fits(Tree).children == []  # the default


def test_types_that_hold_each_other_in_many_ways_stay_small() -> None:
    """Twenty classes, each of which requires two of a choice of all of them."""
    names = [f"Node{number}" for number in range(20)]
    fields = {"left": {"$ref": "#/$defs/any"}, "right": {"$ref": "#/$defs/any"}}
    node = {"type": "object", "properties": fields, "required": ["left", "right"]}
    nodes = {name: {**node, "title": name} for name in names}
    leaf = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    choice = {"anyOf": [*({"$ref": f"#/$defs/{name}"} for name in names), leaf]}

    data = sample({"$ref": "#/$defs/any", "$defs": {**nodes, "any": choice}}, "a b")

    assert len(str(data)) < 30_000


@pytest.mark.parametrize("has_structured_output", [True, False])
@pytest.mark.parametrize("kind", [Person, Formula, list[datetime.date], Shelf | Person])
def test_typed_answers_fit_by_structured_output_and_by_the_answering_tool(
    kind: Any, has_structured_output: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_structured_output:
        features = EchoProvider.features - {"structured_output"}
        monkeypatch.setattr(EchoProvider, "features", features)
    with swink.SyncClient() as client:
        answer = client.answer("echo/echo", "hello there", type=kind)
        with client.stream_answer("echo/echo", "hello there", type=kind) as stream:
            assert list(stream.partials)
            assert stream.result().parsed == answer.parsed
        batch = client.gather_answers("echo/echo", ["hello there"], type=kind)

    assert bool(answer.message.tool_calls) is not has_structured_output
    assert [each.parsed for each in batch] == [answer.parsed]


def test_a_type_without_a_value_is_refused_with_place_and_advice() -> None:
    class Never(pydantic.BaseModel):
        code: Annotated[str, pydantic.Field(pattern="^a$", min_length=5)]

    with swink.SyncClient() as client, pytest.raises(swink.InvalidRequest) as caught:
        client.answer("echo/echo", "Hi", type=Never)

    assert "no value for `$.code`: pattern '^a$'" in str(caught.value)
    assert 'settings={"script": {"reply": …}}' in str(caught.value)
