"""Forty functions as people annotate them, to compare the schemas that are made of them.

It needs nothing of swink's, so that a peer's environment can read it too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, Optional, TypedDict, Union
from uuid import UUID

from annotated_types import Ge, Le, MaxLen
from pydantic import BaseModel, Field


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


@dataclass
class Point:
    """Where something is."""

    x: float
    y: float = 0.0


@dataclass
class Line:
    start: Point
    end: Point
    tags: list[str] = field(default_factory=list)


class City(TypedDict):
    name: str
    country: NotRequired[str]


class Size(NamedTuple):
    width: int
    height: int = 1


class Address(BaseModel):
    """Where somebody lives."""

    street: str = Field(description="With the number.")
    zip: str | None = None


class Person(BaseModel):
    name: str
    age: int = Field(ge=0, le=150)
    home: Address
    tags: list[str] = []


class Node(BaseModel):
    value: int
    children: list["Node"] = []


def nothing() -> None: ...
def unannotated(a, b=1): ...
def text(a: str): ...
def whole(a: int): ...
def number(a: float): ...
def truth(a: bool): ...
def anything(a: Any): ...
def two(a: int, b: str): ...
def default_text(a: str = "x"): ...
def default_number(a: int = 3): ...
def default_none(a: str | None = None): ...
def optional_without_default(a: Optional[int]): ...  # noqa: UP045  # as many write it
def old_union(a: Union[int, str]): ...  # noqa: UP007
def new_union(a: int | str | None): ...
def texts(a: list[str]): ...
def bare_list(a: list): ...
def sequence(a: Sequence[int]): ...
def members(a: set[int]): ...
def pair(a: tuple[int, str]): ...
def many(a: tuple[int, ...]): ...
def mapping(a: dict[str, int]): ...
def bare_dict(a: dict): ...
def abstract_mapping(a: Mapping[str, float]): ...
def literal(a: Literal["a", "b"]): ...
def mixed_literal(a: Literal["a", 1]): ...
def enum(a: Colour): ...
def int_enum(a: Level = Level.LOW): ...
def day(a: date, b: datetime): ...
def duration(a: timedelta): ...
def identifier(a: UUID): ...
def decimal(a: Decimal): ...
def data(a: bytes): ...
def dataclass_argument(a: Point): ...
def nested_dataclass(a: Line): ...
def typed_dict(a: City): ...
def named_tuple(a: Size): ...
def model(a: Address): ...
def nested_model(a: Person, b: list[Address]): ...
def recursive(a: Node): ...
def bounded(a: Annotated[int, Ge(1), Le(9)], b: Annotated[str, MaxLen(3)] = "x"): ...
def described(a: Annotated[int, Field(description="How many.", gt=0)], b: int = Field(2, lt=5)): ...


def google(city: str, days: int = 1) -> str:
    """Tell the weather.

    It may be wrong.

    Args:
        city: Where it is asked for.
        days: How far ahead.

    Returns:
        What it will be.
    """
    return ""


def numpy_style(city: str, days: int = 1) -> str:
    """Tell the weather.

    Parameters
    ----------
    city : str
        Where it is asked for.
    days : int
        How far ahead.
    """
    return ""


def sphinx(city: str, days: int = 1) -> str:
    """Tell the weather.

    :param city: Where it is asked for.
    :param days: How far ahead.
    """
    return ""


async def keyword_only(*, city: str, days: int = 1) -> str:
    """Tell the weather."""
    return ""


SIGNATURES = [
    nothing, unannotated, text, whole, number, truth, anything, two, default_text, default_number,
    default_none, optional_without_default, old_union, new_union, texts, bare_list, sequence,
    members, pair, many, mapping, bare_dict, abstract_mapping, literal, mixed_literal, enum,
    int_enum, day, duration, identifier, decimal, data, dataclass_argument, nested_dataclass,
    typed_dict, named_tuple, model, nested_model, recursive, bounded, described, google,
    numpy_style, sphinx, keyword_only,
]  # fmt: skip
