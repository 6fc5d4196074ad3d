"""Common behavior of messages, blocks, events and counts: copies, pickles, comparison."""

from __future__ import annotations

import copy
import pickle
import weakref
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest

from swink_core import (
    AssistantMessage,
    Base64Source,
    Context,
    Cost,
    Done,
    FileSource,
    ImageBlock,
    Start,
    StopReason,
    TextBlock,
    TextDelta,
    Tool,
    ToolCallBlock,
    Usage,
    UserMessage,
    replace,
)

ANSWER = AssistantMessage([TextBlock("x", {"a": [1]}), ToolCallBlock("c", "f", {"q": 1})], "acme")
VALUES: list[Any] = [
    Start(), TextDelta(0, "x"), Done(StopReason.STOP, Usage(1), Cost(0.1)), ANSWER,
    UserMessage([ImageBlock(Base64Source("image/png", "AA=="))]), Tool("f"),
    Usage(1, extra={"a": 1}),
    Context([UserMessage("x"), ANSWER], "be brief", [Tool("f")]), FileSource("a.png"),
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_can_be_pickled_copied_and_referred_to_weakly(value: Any) -> None:
    for other in (pickle.loads(pickle.dumps(value)), copy.copy(value), copy.deepcopy(value)):
        assert other == value
        assert type(other) is type(value)
        assert other is not value
    assert weakref.ref(value)() is value


def test_values_of_different_classes_differ() -> None:
    class Quoted(TextBlock):
        pass

    empty: list[object] = [Usage(), Cost(), TextBlock("x"), Quoted("x")]
    assert [one == other for one in empty for other in empty].count(True) == len(empty)


def test_replace_returns_a_copy_with_new_values() -> None:
    block = TextBlock("x", {"a": 1})
    changed = replace(block, text="y")
    assert (changed, block) == (TextBlock("y", {"a": 1}), TextBlock("x", {"a": 1}))
    assert changed.metadata is block.metadata
    assert replace(AssistantMessage([]), content="Hi").content == [TextBlock("Hi")]
    with pytest.raises(TypeError):
        replace(block, words="y")


def test_defaults_are_made_anew_for_each_value() -> None:
    first, second = ToolCallBlock("a", "f"), ToolCallBlock("b", "f")
    first.arguments["x"] = 1
    assert second.arguments == {}
    Tool("a").parameters["properties"]["x"] = {}
    assert Tool("b").parameters == {"type": "object", "properties": {}}


def test_totals_do_not_make_answers_different() -> None:
    assert replace(ANSWER, total_usage=Usage(1), total_cost=Cost(1.0)) == ANSWER
    assert replace(ANSWER, provider="other") != ANSWER
    assert ANSWER == ANY
    assert (ANSWER == "x") is False


def test_a_tag_can_be_read_on_class_and_instance() -> None:
    assert (TextDelta.type, TextDelta(0, "").type) == ("text_delta", "text_delta")
    assert (UserMessage.role, UserMessage("").role) == ("user", "user")
    assert (TextBlock.type, Base64Source.type) == ("text", "base64")


def test_a_path_becomes_text() -> None:
    assert FileSource(Path("a.png")) == FileSource("a.png")


def test_a_representation_leaves_out_the_data_of_media() -> None:
    source = Base64Source("image/png", "SECRET==")
    for shown in (
        repr(source),
        repr(UserMessage([ImageBlock(source)])),
    ):
        assert "Base64Source(media_type='image/png')" in shown
    assert source.__rich_repr__() == [("media_type", "image/png")]
