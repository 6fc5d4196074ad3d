"""Functions as tools: schemas, arguments, results, failures."""

from __future__ import annotations

import asyncio
import base64
import functools
import json
import re
import threading
import types
from collections.abc import Generator
from dataclasses import dataclass, field
from datetime import date
from enum import Enum, StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import UUID

import attrs
import msgspec
import pytest
from pydantic import BaseModel, ConfigDict, Field
from signatures import SIGNATURES, Address, City, Colour, Level, Line, Person, Point, Size

import swink
from swink.answers import AnswerForm
from swink.schemas import Schema
from swink.tools import tools_by_name

SCHEMAS = json.loads((Path(__file__).parent / "schemas.json").read_text("utf-8"))
if tuple(map(int, msgspec.__version__.split(".")[:2])) < (0, 23):  # it omits a factory's default
    del SCHEMAS["nested_dataclass"]["properties"]["a"]["properties"]["tags"]["default"]


def call_of(arguments: dict[str, Any], name: str = "f", **facts: Any) -> swink.ToolCallBlock:
    return swink.ToolCallBlock("c1", name, arguments, json.dumps(arguments), **facts)


async def result_of(function: Any, arguments: dict[str, Any]) -> swink.ToolResultMessage:
    made = function if isinstance(function, swink.FunctionTool) else swink.tool(function)
    result: swink.ToolResultMessage = await made.carry_out(call_of(arguments))
    return result


@pytest.mark.parametrize("function", SIGNATURES, ids=lambda f: f.__name__)
def test_a_signature_has_the_schema_of_the_table(function: Any) -> None:
    made = swink.tool(function).definition.parameters
    assert _any_order(made) == _any_order(SCHEMAS[function.__name__])


def _any_order(schema: Any) -> Any:
    """A schema whose words, of which msgspec's releases sort some otherwise, are sorted."""
    if isinstance(schema, list):
        return [_any_order(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: sorted(value, key=repr) if key == "enum" else _any_order(value)
        for key, value in schema.items()
    }


def test_the_table_is_of_these_signatures() -> None:
    assert list(SCHEMAS) == [function.__name__ for function in SIGNATURES]
    assert len(SIGNATURES) >= 40


# (annotation's owner, JSON data, what the function is given)
GIVEN: list[tuple[str, Any, Any]] = [
    ("text", "x", "x"),
    ("number", 2, 2.0),
    ("pair", [1, "a"], (1, "a")),
    ("members", [1, 2], {1, 2}),
    ("enum", "red", Colour.RED),
    ("int_enum", 2, Level.HIGH),
    ("data", base64.b64encode(b"x").decode(), b"x"),
    ("dataclass_argument", {"x": 1}, Point(1.0)),
    ("nested_dataclass", {"start": {"x": 1}, "end": {"x": 2, "y": 3}}, Line(Point(1), Point(2, 3))),
    ("typed_dict", {"name": "Oslo"}, City(name="Oslo")),
    ("named_tuple", [3, 4], Size(3, 4)),
    ("model", {"street": "1 Elm"}, Address(street="1 Elm")),
    ("nested_model", {"name": "Al", "age": 3, "home": {"street": "1 Elm"}},
     Person(name="Al", age=3, home=Address(street="1 Elm"))),
    ("mapping", {"a": 1}, {"a": 1}),
    ("optional_without_default", None, None),
]  # fmt: skip


@pytest.mark.parametrize(("name", "data", "given"), GIVEN, ids=[row[0] for row in GIVEN])
async def test_a_function_is_given_values_of_its_types(name: str, data: Any, given: Any) -> None:
    function = next(f for f in SIGNATURES if f.__name__ == name)
    got: list[Any] = []

    @functools.wraps(function)
    def noting(a: Any, b: Any = None) -> None:
        got.append(a)

    more = {"b": []} if name == "nested_model" else {}
    result = await result_of(noting, {"a": data, **more})
    assert not result.is_error, result.content
    assert got == [given]
    assert type(got[0]) is type(given)


@attrs.define
class Upper:
    text: str = attrs.field(converter=str.upper)


# annotations of parameters whose default is `None`, although the annotation does not say so
OPTIONAL: list[Any] = [
    int, list[int], Annotated[int, msgspec.Meta(ge=1)], Point, Person, Point | Line, Upper,
]  # fmt: skip


@pytest.mark.parametrize("kind", OPTIONAL, ids=str)
async def test_a_parameter_with_the_default_none_accepts_null(kind: Any) -> None:
    def f(x: Any = None) -> bool:
        return x is None

    f.__annotations__["x"] = kind
    schema = swink.tool(f).definition.parameters["properties"]["x"]
    assert schema["default"] is None
    assert schema["anyOf"][-1] == {"type": "null"}
    for arguments in ({"x": None}, {}):
        assert (await result_of(f, arguments)).content == "true"


async def test_a_missing_field_gets_the_default() -> None:
    def f(a: int, b: int = Field(2, lt=5), c: list[str] | None = None) -> list[Any]:
        return [a, b, c]

    assert (await result_of(f, {"a": 1})).content == "[1,2,null]"


@pytest.mark.parametrize(
    ("default", "shown"),
    [(Field(default_factory=lambda: ["?"]), {}), (Field(["?"]), {"default": ["?"]})],
)
async def test_each_call_gets_its_own_default_of_a_pydantic_field(
    default: Any, shown: dict[str, Any]
) -> None:
    def remember(item: str, seen: list[str] = default) -> list[str]:
        seen.append(item)
        return seen

    made = swink.tool(remember)
    assert made.definition.parameters["required"] == ["item"]
    listed = {"type": "array", "items": {"type": "string"}, **shown}
    assert made.definition.parameters["properties"]["seen"] == listed
    for name in ("ann", "ben"):
        assert (await result_of(made, {"item": name})).content == f'["?","{name}"]'
    assert (await result_of(made, {"item": "ann", "seen": []})).content == '["ann"]'


# (arguments, part of what the model is told)
MISFITS: list[tuple[dict[str, Any], str]] = [
    ({}, "a missing"),
    ({"a": "x"}, "a: Expected `int`"),
    ({"a": 1, "z": 2}, "unknown parameter z"),
    ({"a": 1, "person": {"name": "Al"}}, "person: Field required"),
    ({"a": 1, "point": {"x": "left"}}, "point: Expected `float`, got `str` - at `$.x`"),
]


@pytest.mark.parametrize(("arguments", "told"), MISFITS)
async def test_arguments_that_do_not_fit_are_reported_to_the_model(
    arguments: dict[str, Any], told: str
) -> None:
    def f(a: int, person: Person | None = None, point: Point | None = None) -> str:
        raise AssertionError("it is not called")

    result = await result_of(f, arguments)
    assert result.is_error
    assert told in str(result.content)


async def test_so_are_arguments_that_are_nested_too_deeply() -> None:
    kitten: dict[str, Any] = {}
    for _ in range(100_000):
        kitten = {"kittens": [kitten]}
    call = swink.ToolCallBlock("c1", "_count", {"cat": kitten})
    result = await swink.tool(_count).carry_out(call)
    assert result.is_error
    assert "cat: it is nested too deeply" in str(result.content)


@dataclass
class _Cat:
    kittens: list[_Cat] = field(default_factory=list)


def _count(cat: _Cat) -> str:
    raise AssertionError("it is not called")


async def test_an_exception_of_a_parameters_type_is_a_result() -> None:
    made: list[float] = []

    @dataclass
    class Ratio:
        parts: int

        def __post_init__(self) -> None:
            made.append(1 / self.parts)

    def f(ratio: Ratio) -> str:
        return "ok"

    f.__annotations__["ratio"] = Ratio
    assert not (await result_of(f, {"ratio": {"parts": 2}})).is_error
    assert made == [0.5]
    result = await result_of(f, {"ratio": {"parts": 0}})
    assert (result.is_error, result.content) == (True, "ZeroDivisionError: division by zero")


@pytest.mark.parametrize("state", ["invalid", "truncated"])
async def test_broken_arguments_are_reported_to_the_model(state: Any) -> None:
    call = swink.ToolCallBlock("c1", "text", {}, '{"a": ', state)
    result = await swink.tool(SIGNATURES[2]).carry_out(call)
    assert result.is_error
    assert '{"a": ' in str(result.content)


@dataclass
class Weather:
    degrees: int


@attrs.define
class Wind:
    speed: float


class Report(BaseModel):
    weather: str


class Sky(msgspec.Struct):
    clouds: int


class Status(StrEnum):
    OPEN = "open"


class Shade(str, Enum):  # noqa: UP042  # `str()` of a member is its name
    RED = "red"


class Markup(str):
    """A subclass of `str`, as template engines and parsers have."""


PNG = swink.ImageBlock(swink.Base64Source("image/png", "AAAA"))

# (what the function returns, what the model is shown)
RESULTS: list[tuple[Any, Any]] = [
    ("sunny", "sunny"),
    ("", ""),
    (None, "null"),
    (3, "3"),
    (True, "true"),
    ({"a": [1, None]}, '{"a":[1,null]}'),
    ((1, "x"), '[1,"x"]'),
    ({1: "x"}, '{"1":"x"}'),
    (Weather(20), '{"degrees":20}'),
    (Wind(1.5), '{"speed":1.5}'),
    (Report(weather="fine"), '{"weather":"fine"}'),
    ([Report(weather="fine")], '[{"weather":"fine"}]'),
    (Sky(8), '{"clouds":8}'),
    (Colour.RED, '"red"'),
    (Status.OPEN, "open"),
    (Shade.RED, "red"),
    (Markup("a"), "a"),
    ([Status.OPEN, Markup("a")], '["open","a"]'),
    ("thanks \ud83d", "thanks \ud83d"),
    ({"é": ["thanks \ud83d", float("nan"), 1]}, '{"é":["thanks \ud83d",null,1]}'),
    (Report(weather="\ud83d"), '{"weather":"\ud83d"}'),
    ({"\ud83d": "\ud83d\ude00 \ude00"}, '{"\ud83d":"😀 \ude00"}'),
    ([PNG, {"a": "\ud83d"}], [PNG, swink.TextBlock('{"a":"\ud83d"}')]),
    ([Markup("a"), PNG], [swink.TextBlock("a"), PNG]),
    (PNG, [PNG]),
    (["Here:", PNG, {"a": 1}], [swink.TextBlock("Here:"), PNG, swink.TextBlock('{"a":1}')]),
]


@pytest.mark.parametrize(("returned", "shown"), RESULTS, ids=lambda value: repr(value)[:30])
@pytest.mark.parametrize("is_async", [False, True])
async def test_a_result_is_shown_as_text_media_or_json(
    returned: Any, shown: Any, is_async: bool
) -> None:
    def f() -> Any:
        return returned

    async def g() -> Any:
        return returned

    result = await result_of(g if is_async else f, {})
    assert result == swink.ToolResultMessage("c1", "f", shown)
    assert type(result.content) is type(shown)


async def test_a_result_that_is_not_json_is_reported_to_the_model() -> None:
    def f() -> Any:
        return object()

    result = await result_of(f, {})
    assert result.is_error
    assert "a value of type object cannot be converted to JSON" in str(result.content)


class _Outcome(BaseException):
    """An exception outside `Exception`, as pytest's outcomes are."""


class Unwritable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


class Lowest(BaseException):
    """Derives from nothing that `except Exception` catches."""


# (what the function raises, what the model is told)
RAISED: list[tuple[BaseException, str]] = [
    (LookupError("no such city"), "LookupError: no such city"),
    (SystemExit(0), "SystemExit: 0"),
    (GeneratorExit(), "GeneratorExit"),
    (BaseExceptionGroup("all", [SystemExit(1)]), "BaseExceptionGroup: all"),
    (ExceptionGroup("some", [ValueError("a")]), "ExceptionGroup: some"),
    (Unwritable(), "Unwritable"),
    (Lowest("x"), "Lowest: x"),
    (_Outcome("over"), "_Outcome: over"),
    (StopIteration("none left"), "raised StopIteration"),
]


@pytest.mark.parametrize(("raised", "told"), RAISED, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("is_async", [False, True])
async def test_a_tool_that_raises_says_so_to_the_model(
    raised: BaseException, told: str, is_async: bool
) -> None:
    def f() -> None:
        raise raised

    async def g() -> None:
        raise raised

    result = await result_of(g if is_async else f, {})
    assert (result.is_error, told in str(result.content)) == (True, True)


@pytest.mark.parametrize("raised", [KeyboardInterrupt, asyncio.CancelledError])
async def test_an_exception_that_stops_a_tool_is_not_a_result(raised: type[BaseException]) -> None:
    async def f() -> None:
        raise raised

    with pytest.raises(raised):
        await result_of(f, {})


def test_closing_a_tools_coroutine_raises_no_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @types.coroutine
    def pause() -> Generator[None, None, None]:
        yield

    async def f() -> None:
        await pause()

    begun = result_of(f, {})

    async def begin() -> None:
        begun.send(None)

    asyncio.run(begin())
    begun.close()
    assert caplog.records == []


async def test_a_blocking_function_runs_in_a_thread_and_an_async_one_does_not() -> None:
    here = threading.get_ident()

    def blocking() -> bool:
        return threading.get_ident() == here

    async def not_blocking() -> bool:
        return threading.get_ident() == here

    assert (await result_of(blocking, {})).content == "false"
    assert (await result_of(not_blocking, {})).content == "true"


async def test_a_tool_timeout_is_reported_to_the_model() -> None:
    @swink.tool(timeout=0.01)
    async def f() -> None:
        await asyncio.get_running_loop().create_future()

    result = await f.carry_out(call_of({}))
    assert result.is_error
    assert "longer than 0.01 seconds" in str(result.content)


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), "5"])
def test_an_invalid_time_limit_is_refused_when_the_tool_is_created(timeout: Any) -> None:
    def f() -> None:
        pass

    with pytest.raises(swink.UsageError, match=f"tool 'f': timeout is {timeout!r}"):
        swink.tool(timeout=timeout)(f)


async def test_a_timeout_raised_by_the_tool_is_a_tool_error() -> None:
    @swink.tool(timeout=60)
    async def f() -> None:
        raise TimeoutError("the server is slow")

    assert (await f.carry_out(call_of({}))).content == "TimeoutError: the server is slow"


class Thermometer:
    """An object whose method and whose call are tools."""

    def degrees(self, city: str) -> str:
        """Tell how warm it is."""
        return f"18 in {city}"

    async def __call__(self, city: str) -> str:
        return f"19 in {city}"

    def add(self, a: int) -> int:
        """Add."""
        return a


def add(a: int, b: int, /, *, scale: int = 1) -> int:
    """Add."""
    return (a + b) * scale


KINDS: list[tuple[Any, str, dict[str, Any], str]] = [
    (Thermometer().degrees, "degrees", {"city": "Oslo"}, "18 in Oslo"),
    (Thermometer(), "Thermometer", {"city": "Oslo"}, "19 in Oslo"),
    (add, "add", {"a": 1, "b": 2, "scale": 2}, "6"),
    (swink.tool(functools.partial(add, 1), name="add_one"), "add_one", {"b": 2}, "3"),
    (swink.tool(name="x")(lambda: "x"), "x", {}, "x"),
    (functools.partial(add, 1), "add", {"b": 2}, "3"),
    (swink.tool(name="minus")(lambda a=5, b=1, /: a - b), "minus", {"b": 2}, "3"),
]


@pytest.mark.parametrize(("given", "name", "arguments", "content"), KINDS)
async def test_any_callable_can_be_a_tool(
    given: Any, name: str, arguments: dict[str, Any], content: str
) -> None:
    [(named, made)] = tools_by_name([given]).items()
    assert named == name
    assert (await made.carry_out(call_of(arguments))).content == content


def search(query: str, *, api_key: str, tenant: str = "none", limit: int = 5) -> str:
    """Search."""
    return f"{query} for {tenant} with {api_key}, {limit} at most"


class Inner(functools.partial[str]):
    """A class whose objects the outer `partial` does not merge with itself."""


@functools.wraps(functools.partial(search, api_key="sk-1", tenant="ann"))
def wrapped(query: str, limit: int = 5) -> str:
    return search(query, api_key="sk-1", tenant="ann", limit=limit)


@pytest.mark.parametrize(
    "given",
    [
        functools.partial(search, api_key="sk-1", tenant="ann"),
        functools.partial(Inner(search, api_key="sk-1"), tenant="ann"),
        swink.tool(name="search")(wrapped),
    ],
    ids=["one partial", "a partial of a partial", "a wrapper of a partial"],
)
async def test_a_keyword_that_partial_binds_is_no_parameter_of_the_tool(given: Any) -> None:
    [made] = tools_by_name([given]).values()
    assert made.definition.parameters == {
        "type": "object",
        "properties": {"query": {"type": "string"}, "limit": {"type": "integer", "default": 5}},
        "required": ["query"],
        "additionalProperties": False,
    }
    told = (await made.carry_out(call_of({"query": "q", "limit": 2}))).content
    assert told == "q for ann with sk-1, 2 at most"
    refused = await made.carry_out(call_of({"query": "q", "tenant": "ben"}))
    assert (refused.is_error, "unknown parameter tenant" in str(refused.content)) == (True, True)


def _node(name: str, kind: Any) -> Any:
    """Return a class that contains objects of itself, as in another module with the same name."""
    made = attrs.make_class("Node", {"parts": attrs.field(type=Any), name: attrs.field(type=kind)})
    made.__annotations__ = {"parts": list[made], name: kind}  # type: ignore[valid-type]
    return made


def test_classes_with_the_same_name_have_a_schema_each() -> None:
    def compare(one: Any, other: Any, third: Any) -> str:
        """Compare."""
        return ""

    price, colour = _node("price", int), _node("colour", str)
    compare.__annotations__ |= {"one": price, "other": list[colour], "third": price}
    schema = swink.tool(compare).definition.parameters
    held, properties = schema["$defs"], schema["properties"]
    other = properties["other"]["items"]
    assert properties["one"]["properties"]["parts"]["items"] == {"$ref": "#/$defs/Node"}
    assert properties["third"] == properties["one"]
    assert other == {"$ref": "#/$defs/Node_other"}
    assert {name: {*each["properties"]} for name, each in held.items()} == {
        "Node": {"parts", "price"},
        "Node_other": {"parts", "colour"},
    }
    assert held["Node_other"]["properties"]["parts"]["items"] == other


def test_a_class_with_the_same_fields_is_another_one_if_it_contains_another_class() -> None:
    def compare(one: Any, other: Any) -> str:
        """Compare."""
        return ""

    def outer(kind: Any) -> Any:
        made = attrs.make_class("Outer", ["leaf", "parts"])
        made.__annotations__ = {"leaf": _node("size", kind), "parts": list[made]}  # type: ignore[valid-type]
        return made

    compare.__annotations__ |= {"one": outer(int), "other": outer(str)}
    held = swink.tool(compare).definition.parameters["$defs"]
    assert held.keys() == {"Outer", "Node", "Outer_other", "Node_other"}
    assert held["Outer_other"]["properties"] == {
        "leaf": {"$ref": "#/$defs/Node_other"},
        "parts": {"type": "array", "items": {"$ref": "#/$defs/Outer_other"}},
    }


def test_a_tool_is_still_the_function() -> None:
    @swink.tool(name="sum", description="Sum up.", strict=True)
    def add_up(a: int, b: int = 2) -> int:
        """Not this."""
        return a + b

    assert add_up(1) == 3
    told = add_up.definition
    assert (told.name, told.description, told.strict) == ("sum", "Sum up.", True)


def stars(*a: int) -> None: ...


def unknown_name(a: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821  # on purpose


def no_schema(a: threading.Lock) -> None: ...  # type: ignore[valid-type]  # a function in the stubs


MISTAKES: list[tuple[Any, str]] = [
    (3, "tools are of type int"),
    ([3], "a tool must be a function, not a value of type int"),
    ([swink.Tool("f")], "tool 'f' has no function"),
    ([add, Thermometer().add], "two tools have the name 'add': "),
    ([lambda: "x"], "has no name"),
    ([{"type": "function"}], "run(…) accepts functions as tools, not dictionaries"),
    ({"add": add}, "tools are of type dict"),
    ([stars], "tool 'stars': *a cannot be passed by a model"),
    ([unknown_name], "tool 'unknown_name': name 'Nowhere' is not defined"),
    ([no_schema], "tool 'no_schema': a: "),
]


@pytest.mark.parametrize(("tools", "said"), MISTAKES)
def test_a_mistake_is_reported_before_anything_is_sent(tools: Any, said: str) -> None:
    with pytest.raises(swink.UsageError) as caught:
        swink.Client().run("echo/tool", "Hi", tools=tools)
    assert said in str(caught.value)
    assert caught.value.resolution


@attrs.define
class Shouted:
    word: str = attrs.field(converter=str.upper)


@dataclass
class Cat:
    lives: int


@dataclass
class Dog:
    tricks: list[str]


# (type, its data, the value, data that does not fit)
TYPES: list[tuple[Any, Any, Any, Any]] = [
    (Shouted, {"word": "hi"}, Shouted("HI"), {}),
    (Cat | Dog, {"tricks": ["sit"]}, Dog(["sit"]), {"wings": 2}),
    (Person | None, None, None, 5),
    (list[Sky], [{"clouds": 1}], [Sky(1)], {"clouds": 1}),
    (int | str, "x", "x", 1.5),
]


@dataclass
class Notes:
    bare: dict  # type: ignore[type-arg]  # what is tested
    free: dict[str, Any]
    rows: list[dict[str, Any]]
    either: dict[str, Any] | None


class NotesOfPydantic(BaseModel):
    bare: dict  # type: ignore[type-arg]  # what is tested
    free: dict[str, Any]
    rows: list[dict[str, Any]]
    either: dict[str, Any] | None


def test_a_free_form_object_has_the_same_open_schema_with_and_without_pydantic() -> None:
    free = {"type": "object", "additionalProperties": True}
    for kind in (Notes, NotesOfPydantic):
        assert AnswerForm(Schema(kind)).json["properties"] == {
            "bare": free,
            "free": free,
            "rows": {"type": "array", "items": free},
            "either": {"anyOf": [free, {"type": "null"}]},
        }
    assert AnswerForm(Schema(dict)).json == AnswerForm(Schema(dict[str, Any])).json == free


@pytest.mark.parametrize(("kind", "data", "value", "misfit"), TYPES, ids=str)
def test_a_type_has_a_schema_and_a_way_from_json(
    kind: Any, data: Any, value: Any, misfit: Any
) -> None:
    schema: Schema[Any] = Schema(kind)
    assert schema.json
    assert schema.load(data) == value
    with pytest.raises(ValueError, match=r"."):
        schema.load(misfit)


@dataclass
class Payment:
    approved: bool
    cents: Annotated[int, msgspec.Meta(ge=0)]
    to: str
    tags: list[str]
    rate: float = 1.0


@dataclass
class Refusal:
    reason: str


@attrs.define
class Label:
    text: str = attrs.field(converter=str.upper)
    weight: int = attrs.field(default=1, converter=int)
    parts: list[Label] = attrs.field(factory=list)
    places: dict[int, Label] = attrs.field(factory=dict)


PAYMENT = {"approved": True, "cents": 3, "to": "Al", "tags": ["a"]}

# (type, data that fits it, a field, the value that does not fit it)
CHANGED_BY_CATTRS: list[tuple[Any, dict[str, Any], str, Any]] = [
    (Payment | Refusal, PAYMENT, "approved", "false"),
    (Payment | Refusal, PAYMENT, "cents", 3.99),
    (Payment | Refusal, PAYMENT, "cents", -1),
    (Payment | Refusal, PAYMENT, "to", None),
    (Payment | Refusal, PAYMENT, "tags", "abc"),
    (Payment | Refusal, PAYMENT, "rate", "1.5"),
    (Label, {"text": "a"}, "text", 7),
    (Label, {"text": "a"}, "weight", "3"),
    (Label, {"text": "a", "parts": [{"text": "b"}]}, "parts", ""),
    (Label, {"text": "a", "places": {"1": {"text": "b"}}}, "places", {"one": {"text": "b"}}),
]


@pytest.mark.parametrize(("kind", "data", "name", "misfit"), CHANGED_BY_CATTRS)
def test_a_value_of_another_type_in_a_union_or_beside_a_converter_does_not_fit(
    kind: Any, data: dict[str, Any], name: str, misfit: Any
) -> None:
    schema: Schema[Any] = Schema(kind)
    schema.load(data)
    with pytest.raises(ValueError, match=rf"Expected .+ {re.escape(f'$.{name}')}$"):
        schema.load(data | {name: misfit})


@dataclass
class Cash:
    kind: Literal["cash"] = "cash"
    version: Literal[1] = 1
    cents: int = 0


@attrs.define
class Card:
    number: str
    kind: Literal["card", "giro"] = "card"
    version: Literal[1] = 1


# (type, the required fields of each class)
MARKED: list[tuple[Any, list[list[str]]]] = [
    (Cash | Card, [["kind"], ["number", "kind"]]),
    (Cash | Card | None, [["kind"], ["number", "kind"]]),
    (Payment | Refusal, [["approved", "cents", "to", "tags"], ["reason"]]),
]


@pytest.mark.parametrize(("kind", "required"), MARKED, ids=str)
def test_a_field_that_tells_the_classes_of_a_union_apart_is_required(
    kind: Any, required: list[list[str]]
) -> None:
    schema: Schema[Any] = Schema(kind)
    assert [each["required"] for each in schema.json["anyOf"][:2]] == required


@dataclass
class Seat:
    row: int

    def __post_init__(self) -> None:
        if self.row == 13:
            raise ValueError("row 13 does not exist")
        if self.row == 14:
            raise TypeError("row 14 is a number of another plan")
        if self.row == 15:
            raise KeyError("no plan")


@attrs.define
class Place:
    seats: list[Seat] = attrs.field(factory=list)
    code: int = attrs.field(default=0, converter=lambda code: 1 // code)


# (type, data, the error and its text)
OF_THE_TYPE: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
    (Seat, {"row": 13}, ValueError, "row 13 does not exist"),
    (Seat | Refusal, {"row": 13}, ValueError, "row 13 does not exist @ $"),
    (Seat | Refusal, {"row": 14}, ValueError, "row 14 is a number of another plan @ $"),
    (Seat | Refusal, {"row": 15}, KeyError, "'no plan'"),
    (Seat | Refusal, {"row": "x"}, ValueError, "Expected `int`, got `str` @ $.row"),
    (Seat | Refusal, {"row": 1, "x": 1}, ValueError, "extra fields found (x) @ $"),
    (Seat | Refusal, {}, ValueError, "invalid value @ $"),
    (Label, {"weight": 1}, ValueError, "required field missing @ $.text"),
    (
        Place,
        {"seats": [{"row": 13}], "code": 1},
        ValueError,
        "does not exist - at `$[0]` @ $.seats",
    ),
    (Place, {"seats": [{"row": 15}], "code": 1}, KeyError, "'no plan'"),
    (Place, {"code": 0}, ZeroDivisionError, "division"),
]


@pytest.mark.parametrize(("kind", "data", "error", "text"), OF_THE_TYPE)
def test_an_error_of_a_types_own_code_is_as_for_a_single_class(
    kind: Any, data: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error) as raised:
        Schema(kind).load(data)
    assert type(raised.value) is error
    assert text in str(raised.value)


def test_an_integer_that_is_a_key_of_an_object_fits() -> None:
    assert Schema(dict[int, str]).load({"1": "x"}) == {1: "x"}
    label: Label = Schema(Label).load({"text": "a", "places": {"1": {"text": "b"}}})
    assert label.places == {1: Label("B")}


class Booking(BaseModel):
    model_config = ConfigDict(strict=True)

    day: date
    seats: tuple[int, int]
    id: UUID


def test_a_strict_model_of_pydantic_is_read_as_json() -> None:
    schema: Schema[Booking] = Schema(Booking)
    data = {"day": "2026-11-30", "seats": [1, 2], "id": str(UUID(int=1))}
    assert schema.load(data) == Booking(day=date(2026, 11, 30), seats=(1, 2), id=UUID(int=1))
    with pytest.raises(ValueError, match=r"valid integer - at `\$\.seats\.0`"):
        schema.load({**data, "seats": ["1", 2]})
