"""Compiled code refuses every conversation that the reader of single fields refuses.

The reader (`_check_message` and `_check_tools`) knows each annotation and words the refusals, but
it reads a conversation field by field. It runs only where compiled code refuses. So compiled code
must accept nothing that the reader would refuse, with the exceptions of `TOLERATED`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import pytest
from attrs import define
from hypothesis import example, given, settings
from hypothesis import strategies as st

from swink_core import (
    AssistantMessage,
    AudioBlock,
    Base64Source,
    Context,
    Cost,
    DocumentBlock,
    ExtensionBlock,
    FileIdSource,
    ImageBlock,
    StopReason,
    StreamErrorKind,
    SwinkError,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    Tool,
    ToolCallBlock,
    ToolResultMessage,
    UrlSource,
    Usage,
    UserMessage,
    conversation,
    replace,
)

# -- a conversation with one of everything, and the places in it -----------------------------------


def whole() -> Context:
    """Make a conversation in which every field of every class is set."""
    image = ImageBlock(Base64Source("image/png", "AA=="), {"detail": "low"})
    document = DocumentBlock(UrlSource("https://a.example/b", "application/pdf"), "b", {"p": 1})
    parts: list[Any] = [
        TextBlock("x", {"k": 1}),
        image,
        document,
        AudioBlock(FileIdSource("acme", "f")),
    ]
    said: list[Any] = [
        TextBlock("x", {"k": 1}),
        ThinkingBlock("why", "sig", True, {"k": 1}),
        ToolCallBlock("c", "look", {"q": 1}, '{"q": 1}', "complete", {"k": 1}),
        ExtensionBlock("acme", "search", [1], {"k": 1}),
    ]
    sums: Any = (Usage(1, 2, extra={"a": 1}), Cost(0.1), StopReason.TOOL_USE)
    kind, totals = StreamErrorKind.NETWORK, {"total_usage": Usage(3), "total_cost": Cost(0.2)}
    answer = AssistantMessage(said, "acme", "large", "r", "q", *sums)
    answer = replace(answer, error_kind=kind, error_message="no", metadata={"k": 1}, **totals)
    return Context(
        [
            SystemMessage([TextBlock("be brief", {"k": 1})]),
            UserMessage([*parts, ExtensionBlock("acme", "part", {"a": 1})]),
            answer,
            ToolResultMessage("c", "look", [TextBlock("found")], True),
            UserMessage("thanks"),
        ],
        "be kind",
        [Tool("look", "looks", {"type": "object"}, True, {"acme": {"a": 1}})],
    )


def structs_of(value: Any) -> Iterator[Any]:
    """Yield a value and all structs in it, in order."""
    if isinstance(value, list):
        for each in value:
            yield from structs_of(each)
    elif hasattr(value, "__struct_fields__"):
        yield value
        for name in value.__struct_fields__:
            yield from structs_of(getattr(value, name))


PLACES = [
    (number, name)
    for number, struct in enumerate(structs_of(whole()))
    for name in struct.__struct_fields__
]


def with_value(place: tuple[int, str], value: Any) -> Context:
    """Return the conversation with another value in one place."""
    context = whole()
    number, name = place
    setattr(list(structs_of(context))[number], name, value)
    return context


# -- values ----------------------------------------------------------------------------------------


class Word(Enum):
    """An enumeration whose members are not strings themselves."""

    STOP = "stop"


class Text(str):
    """A subclass of text."""


class Mapped(dict[str, Any]):
    """A subclass of dict."""


@dataclass
class Data:
    """An object that msgspec writes as a JSON object."""

    text: str = "x"


@define
class Defined:
    """Another."""

    text: str = "x"


class Block(TextBlock):
    """A subclass of a block."""


LEAVES: list[Any] = [
    None, True, 0, -1, 10**30, 1.0, 1.5, float("nan"), float("inf"), "", "x", "stop", "error",
    "\ud800", b"x", bytearray(b"x"), memoryview(b"x"), date(2026, 1, 1), Decimal(1),
    UUID(int=1), Word.STOP, StopReason.STOP, StreamErrorKind.AUTH, Text("x"), object(), int, ...,
    range(3), Data(), Defined(), Usage(1), Usage(1.5), Cost(1.0), Cost(float("nan")),  # type: ignore[arg-type]  # wrong on purpose
    TextBlock("x"), Block("x"), UserMessage("x"), AssistantMessage("x"), Tool("x"), UrlSource("x"),
    UrlSource("x", "png"), ImageBlock(UrlSource("x")), ExtensionBlock("a", "b", None),
    Context([]),
]  # fmt: skip
KEYS: list[Any] = ["a", "type", "text", "\ud800", Text("k"), 1, 1.5, None, b"x", (1,), Word.STOP]

leaves = st.sampled_from(LEAVES)
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.tuples(inner)
        | st.dictionaries(st.sampled_from(KEYS), inner, max_size=2)
        | st.dictionaries(st.just("a"), inner, max_size=1).map(Mapped)
    ),
    max_leaves=4,
)


# -- what is tolerated -----------------------------------------------------------------------------


def _has(value: Any, found: Callable[[Any], bool]) -> bool:
    if isinstance(value, dict):
        return any(_has(each, found) for each in (*value, *value.values()))
    return found(value)


TOLERATED: list[tuple[str, Callable[[Any], bool]]] = [
    ("an enumeration's member is written as its value, which is one that the field takes",
     lambda value: _has(value, lambda each: type(each) is Word)),
    ("a number that is a key is written as text, as in all JSON",
     lambda value: _has(value, lambda each: isinstance(each, int | float))),
    ("an extension's data may be such a number, or such a source, alone as well as in a list",
     lambda value: value != value or value == float("inf") or isinstance(value, UrlSource)),
]  # fmt: skip


def _verdict(context: Context) -> tuple[type, str] | None:
    try:
        conversation.check_context(context)
    except SwinkError as error:
        return type(error), str(error)
    return None


def _close_verdict(context: Context) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conversation, "_is_sound", lambda context: False)
        return _verdict(context)


def _require_alike(place: tuple[int, str], value: Any) -> None:
    wanted = _close_verdict(with_value(place, value))
    found = _verdict(with_value(place, value))
    if not any(holds(value) for reason, holds in TOLERATED):
        assert found == wanted


def test_the_conversation_of_these_tests_is_accepted_by_both() -> None:
    assert conversation._is_sound(whole())
    assert _verdict(whole()) is None
    assert _close_verdict(whole()) is None


OBJECTS = [place for place in PLACES if place[1] in {"arguments", "metadata", "parameters"}]


@pytest.mark.parametrize("key", [b"x", date(2026, 1, 1), UUID(int=1), Decimal(1)])
@pytest.mark.parametrize("place", OBJECTS, ids=str)
def test_the_keys_of_an_object_are_text_or_numbers(place: tuple[int, str], key: Any) -> None:
    """msgspec 0.23 writes other keys as text as well."""
    assert _verdict(with_value(place, {key: {}})) is not None


# (name, an ordinary conversation)
ORDINARY: list[tuple[str, Context]] = [
    ("text", Context([UserMessage("x")])),
    ("text_and_a_system_prompt", Context([UserMessage("x")], "x")),
    ("text_and_blocks_of_a_system_prompt", Context([UserMessage("x")], [TextBlock("x")])),
    ("text_and_tools", Context([UserMessage("x")], tools=[Tool("f", "F.", {"type": "object"})])),
    ("blocks", Context([UserMessage([TextBlock("x"), ImageBlock(UrlSource("x"))])])),
    ("an_answer", Context([UserMessage("x"), AssistantMessage([TextBlock("x")], usage=Usage(1))])),
    ("a_result", Context([UserMessage("x"), ToolResultMessage("1", "f", "x")])),
    ("an_extension", Context([UserMessage([ExtensionBlock("a", "b", {})])])),
]


@pytest.mark.parametrize("context", [row[1] for row in ORDINARY], ids=[row[0] for row in ORDINARY])
def test_an_ordinary_conversation_needs_the_compiled_check_alone(context: Context) -> None:
    assert conversation._is_sound(context)


@given(st.sampled_from(PLACES), values)
@example((0, "messages"), [Block("x")])
@settings(max_examples=1500)
def test_compiled_code_accepts_nothing_that_the_reader_refuses(
    place: tuple[int, str], value: Any
) -> None:
    _require_alike(place, value)


@pytest.mark.parametrize("place", PLACES, ids=lambda place: f"{place[0]}_{place[1]}")
def test_each_place_is_checked_against_each_single_value(place: tuple[int, str]) -> None:
    for value in LEAVES:
        _require_alike(place, value)


def test_tolerated_deviations_are_accepted() -> None:
    text = with_value(PLACES[[name for _, name in PLACES].index("text")], Word.STOP)
    keys = Context([UserMessage([TextBlock("x", {1: 2})])])  # type: ignore[dict-item]  # on purpose
    for context in (text, keys):
        assert _close_verdict(context) is not None
        assert _verdict(context) is None
