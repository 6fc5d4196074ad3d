"""A conversation and what callers read from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swink_core import (
    AssistantMessage,
    Base64Source,
    Context,
    Cost,
    ExtensionBlock,
    FileSource,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UrlSource,
    Usage,
    UserMessage,
)
from swink_core.providers import is_synthetic_id, parse_arguments, synthetic_id

# (name, text of arguments, arguments; None: no object)
ARGUMENTS: list[tuple[str, str, dict[str, Any] | None]] = [
    ("empty", "", {}),
    ("blank", " \t\r\n", {}),
    ("an_object", '{"a": [1, 2.5, null, true]}', {"a": [1, 2.5, None, True]}),
    ("space_around_it", ' {"a": 1} ', {"a": 1}),
    ("a_large_number", '{"a": 12345678901234567890123}', {"a": 12345678901234567890123}),
    ("a_lone_surrogate_escaped", r'{"a": "\ud83e"}', {"a": "\ud83e"}),
    ("a_lone_surrogate_itself", '{"a": "\ud83e"}', {"a": "\ud83e"}),
    ("a_list", "[]", None),
    ("a_string", '"{}"', None),
    ("a_number", "1", None),
    ("null", "null", None),
    ("cut", '{"a": 1', None),
    ("two", "{} {}", None),
    ("a_trailing_comma", '{"a": 1,}', None),
    ("prose", "none", None),
    ("not_a_number", '{"a": NaN}', None),
    ("infinity", '{"a": -Infinity}', None),
    ("a_number_that_no_float_can_represent", '{"a": [1e999]}', None),
    ("half_a_character", '{"a": "\\ud83d", "b": 1.5}', {"a": "\ud83d", "b": 1.5}),
    ("half_a_character_and_not_a_number", '{"a": "\\ud83d", "b": NaN}', None),
    ("a_space_that_json_does_not_know", "\x85", None),
    ("a_no_break_space", "\xa0", None),
    ("nested_too_deep", "[" * 100_000, None),
    ("an_object_nested_too_deep", '{"a":' * 100_000, None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("raw", "arguments"), [case[1:] for case in ARGUMENTS], ids=[case[0] for case in ARGUMENTS]
)
def test_arguments_are_an_object_or_nothing(raw: str, arguments: dict[str, Any] | None) -> None:
    assert parse_arguments(raw) == arguments


@given(st.text())
def test_no_text_of_arguments_raises(raw: str) -> None:
    assert parse_arguments(raw) is None or isinstance(parse_arguments(raw), dict)


def test_ids_made_up_by_the_core_are_recognised_and_others_are_not() -> None:
    assert is_synthetic_id(synthetic_id("7f_1", 0))
    assert synthetic_id("7f_1", 0) == "swink_call_7f_1_0"  # as in conversations stored before
    assert not any(map(is_synthetic_id, ["", "call_1", "toolu_01", "swink"]))
    assert synthetic_id("7f_1", 0) != synthetic_id("7f_1", 1) != synthetic_id("7f_2", 1)


def test_a_result_is_an_error_only_where_it_says_so() -> None:
    assert not ToolResultMessage("a", "f", "21 °C").is_error


def test_what_a_block_does_not_say_is_as_the_reference_says() -> None:
    call, thinking = ToolCallBlock("a", "f"), ThinkingBlock("Hm")
    assert (call.state, call.arguments, call.raw_arguments) == ("complete", {}, None)
    assert (thinking.redacted, thinking.signature) == (False, None)
    assert ExtensionBlock.CHOICE == "choice"


def test_an_answers_parts_are_read_by_kind() -> None:
    call = ToolCallBlock("a", "f")
    message = AssistantMessage(
        [
            ThinkingBlock("H"),
            TextBlock("a"),
            ExtensionBlock("toy", "k", 1),
            call,
            ThinkingBlock("m"),
            TextBlock("b"),
        ]
    )
    assert (message.text, message.thinking, message.tool_calls) == ("ab", "Hm", [call])


HI = [UserMessage("Hi")]

PICTURE = ImageBlock(UrlSource("https://a.example/b.png"))


@pytest.mark.parametrize(
    ("given_context", "context"),
    [
        ("Hi", Context(HI)),
        (HI, Context(HI)),
        (tuple(HI), Context(HI)),
        (Context(HI), Context(HI)),
        (HI[0], Context(HI)),
        (["Look", PICTURE], Context([UserMessage([TextBlock("Look"), PICTURE])])),
        (PICTURE, Context([UserMessage([PICTURE])])),
        (
            ["Hi", AssistantMessage("Yes?"), "Look", PICTURE],
            Context(
                [
                    UserMessage([TextBlock("Hi")]),
                    AssistantMessage("Yes?"),
                    UserMessage([TextBlock("Look"), PICTURE]),
                ]
            ),
        ),
        ([], Context([])),
    ],
)
def test_a_conversation_may_be_given_in_short(given_context: Any, context: Context) -> None:
    assert Context.of(given_context) == context


@pytest.mark.parametrize(
    ("content", "blocks"),
    [
        (["Look", PICTURE], [TextBlock("Look"), PICTURE]),
        (("Look", PICTURE), [TextBlock("Look"), PICTURE]),
        (PICTURE, [PICTURE]),
        ([PICTURE], [PICTURE]),
        ((PICTURE,), [PICTURE]),
        ([], []),
        ("Look", "Look"),
    ],
)
def test_strings_among_the_blocks_of_a_user_are_blocks(content: Any, blocks: Any) -> None:
    assert UserMessage(content).content == blocks
    assert Context([], content).system_prompt == blocks
    assert Context([]).system_prompt is None


@pytest.mark.parametrize("value", [None, 5, {"messages": []}, b"Hi"])
def test_an_invalid_conversation_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match=type(value).__name__):
        Context.of(value)


def test_a_list_that_was_given_is_not_the_contexts_own() -> None:
    messages = list(HI)
    context = Context.of(messages)
    messages.append(UserMessage("more"))
    assert context.messages == HI


# (system prompt, as it is kept)
SYSTEM_PROMPTS: list[tuple[Any, Any]] = [
    (None, None),
    ("Be brief.", "Be brief."),
    (["Be brief.", TextBlock("Be kind.")], [TextBlock("Be brief."), TextBlock("Be kind.")]),
    (("Be brief.",), [TextBlock("Be brief.")]),
    (TextBlock("Be brief."), [TextBlock("Be brief.")]),
]


@pytest.mark.parametrize(("prompt", "kept"), SYSTEM_PROMPTS)
def test_strings_in_a_list_of_a_system_prompt_are_blocks(prompt: Any, kept: Any) -> None:
    assert Context([], prompt).system_prompt == kept


def test_a_list_of_blocks_alone_is_kept_as_it_is() -> None:
    blocks: Any = [TextBlock("Hi")]
    assert UserMessage(blocks).content is blocks
    assert Context([], blocks).system_prompt is blocks


def test_media_do_not_fill_a_repr() -> None:
    source = Base64Source("image/png", "AAAA")
    assert repr(source) == "Base64Source(media_type='image/png')"
    assert source.__rich_repr__() == [("media_type", "image/png")]


def test_a_file_may_be_named_by_its_path() -> None:
    assert FileSource(Path("a") / "b.png") == FileSource(str(Path("a") / "b.png"))


def test_totals_of_a_call_do_not_change_its_message() -> None:
    one = AssistantMessage([TextBlock("a")], total_usage=Usage(1), total_cost=Cost(total=1.0))
    assert one == AssistantMessage([TextBlock("a")], total_usage=Usage(2))
    assert one != AssistantMessage([TextBlock("b")], total_usage=Usage(1))


def test_a_message_equals_another_with_the_same_fields_only() -> None:
    one = AssistantMessage("a")
    assert one == AssistantMessage([TextBlock("a")])
    assert one != AssistantMessage("a", metadata={"acme": {"b": 1}})
    assert (one == "a") is False
    assert one == ANY  # an object that compares itself is asked
