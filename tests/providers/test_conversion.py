"""Conversations that began elsewhere, and conversations that cannot begin. Turns: another file."""

from __future__ import annotations

import base64
import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swink_core import (
    AssistantMessage,
    AudioBlock,
    Base64Source,
    Context,
    DocumentBlock,
    ExtensionBlock,
    FileIdSource,
    FileSource,
    ImageBlock,
    InvalidContext,
    MediaError,
    Message,
    StopReason,
    StreamOptions,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    Tool,
    ToolCallBlock,
    ToolResultMessage,
    UrlSource,
    UserMessage,
)
from swink_core.conversation import check_context
from swink_core.providers import (
    MessageConverter,
    arguments_object,
    folded_system,
    media_base64,
    media_type_of,
    normalise,
    required_features,
    text_of,
)
from swink_core.providers.contexts import assistant_media
from swink_core.providers.conversion import NO_RESULT
from swink_test_helpers.strategies import contexts

HI = UserMessage("Hi")
M = {"opaque": 1}
PNG = Base64Source("image/png", "AA==")
CALL_A, CALL_B = ToolCallBlock("a", "f", {"x": 1}), ToolCallBlock("b", "g")
SAME_A = ToolCallBlock("a", "g")
RESULT_A, RESULT_B = ToolResultMessage("a", "f", "1"), ToolResultMessage("b", "g", "2")
NOTHING_A = ToolResultMessage("a", "f", NO_RESULT, is_error=True)
NOTHING_B = ToolResultMessage("b", "g", NO_RESULT, is_error=True)


def said(*content: Any, provider: str | None = "toy", **facts: Any) -> AssistantMessage:
    return AssistantMessage(list(content), provider=provider, **facts)


ERROR, ABORTED = StopReason.ERROR, StopReason.ABORTED
TRUNCATED = ToolCallBlock("a", "f", {}, '{"x', "truncated")

BRIEF = UserMessage("<system>\nBe brief.\n</system>")

# (rule and case, messages, what the provider "toy" may see of them)
NORMALISED: list[tuple[str, list[Message], list[Message]]] = [
    ("nothing_to_do", [HI, said(TextBlock("Yes?"))], [HI, said(TextBlock("Yes?"))]),
    # 1: what is another provider's own
    (
        "own_thinking_stays",
        [said(ThinkingBlock("Hm", "sig", metadata=M), TextBlock("a", M))],
        [said(ThinkingBlock("Hm", "sig", metadata=M), TextBlock("a", M))],
    ),
    (
        "own_thinking_without_a_signature_stays",
        [said(ThinkingBlock("Hm"), TextBlock("a"))],
        [said(ThinkingBlock("Hm"), TextBlock("a"))],
    ),
    (
        "foreign_thinking_goes",
        [said(ThinkingBlock("Hm", "sig"), TextBlock("a"), provider="other")],
        [said(TextBlock("a"), provider="other")],
    ),
    (
        "foreign_metadata_goes",
        [
            said(
                TextBlock("a", M), ToolCallBlock("a", "f", {"x": 1}, metadata=M), provider="other"
            ),
            RESULT_A,
        ],
        [said(TextBlock("a"), CALL_A, provider="other"), RESULT_A],
    ),
    (
        "own_extension_stays",
        [said(ExtensionBlock("toy", "search", 1, M))],
        [said(ExtensionBlock("toy", "search", 1, M))],
    ),
    (
        "another_answer_is_left_out",
        [said(TextBlock("x"), ExtensionBlock("toy", ExtensionBlock.CHOICE, {}))],
        [said(TextBlock("x"))],
    ),
    (
        "an_extension_that_another_gave_in_this_ones_name_is_left_out",
        [said(TextBlock("x"), ExtensionBlock("toy", "k", 1), provider="other")],
        [said(TextBlock("x"), provider="other")],
    ),
    (
        "what_a_caller_wrote_is_anyones",
        [said(ThinkingBlock("Hm", "sig"), TextBlock("a", M), provider=None)],
        [said(ThinkingBlock("Hm", "sig"), TextBlock("a", M), provider=None)],
    ),
    (
        "generated_media_stays",
        [said(ImageBlock(PNG), provider="other")],
        [said(ImageBlock(PNG), provider="other")],
    ),
    # 2: answers cut short
    (
        "a_cut_answer_keeps_its_text_and_whole_calls",
        [said(TextBlock("a"), CALL_B, TRUNCATED, stop_reason=ERROR), RESULT_B],
        [said(TextBlock("a"), CALL_B, stop_reason=ERROR), RESULT_B],
    ),
    (
        "unsigned_thinking_of_a_cut_answer_goes",
        [said(ThinkingBlock("Hm"), TextBlock("a"), stop_reason=ABORTED)],
        [said(TextBlock("a"), stop_reason=ABORTED)],
    ),
    (
        "signed_thinking_of_a_cut_answer_stays",
        [said(ThinkingBlock("Hm", "sig"), TextBlock("a"), stop_reason=ABORTED)],
        [said(ThinkingBlock("Hm", "sig"), TextBlock("a"), stop_reason=ABORTED)],
    ),
    (
        "a_call_truncated_by_length_stays_for_the_model_to_see",
        [said(TRUNCATED, stop_reason=StopReason.LENGTH)],
        [said(TRUNCATED, stop_reason=StopReason.LENGTH), NOTHING_A],
    ),
    # 3: calls without a result
    ("an_unanswered_call_at_the_end", [said(CALL_A)], [said(CALL_A), NOTHING_A]),
    ("an_unanswered_call_before_the_user", [said(CALL_A), HI], [said(CALL_A), NOTHING_A, HI]),
    (
        "an_unanswered_call_before_another_answer",
        [said(CALL_A), said(TextBlock("b"))],
        [said(CALL_A), NOTHING_A, said(TextBlock("b"))],
    ),
    (
        "one_of_two_calls_answered",
        [said(CALL_A, CALL_B), RESULT_B, HI],
        [said(CALL_A, CALL_B), RESULT_B, NOTHING_A, HI],
    ),
    (
        "results_in_another_order",
        [said(CALL_A, CALL_B), RESULT_B, RESULT_A],
        [said(CALL_A, CALL_B), RESULT_B, RESULT_A],
    ),
    (
        "an_id_used_again_in_a_later_answer",
        [said(CALL_A), RESULT_A, said(CALL_A), RESULT_A],
        [said(CALL_A), RESULT_A, said(CALL_A), RESULT_A],
    ),
    (
        "a_result_after_the_user_spoke_comes_too_late",
        [said(CALL_A), HI, RESULT_A],
        [said(CALL_A), NOTHING_A, HI, UserMessage("[result of f] 1")],
    ),
    # 4: results without a call
    (
        "the_result_of_a_call_that_was_cut",
        [said(TextBlock("a"), TRUNCATED, stop_reason=ERROR), RESULT_A],
        [said(TextBlock("a"), stop_reason=ERROR), UserMessage("[result of f] 1")],
    ),
    (
        "a_result_given_twice",
        [said(CALL_A), RESULT_A, ToolResultMessage("a", "f", "again")],
        [said(CALL_A), RESULT_A, UserMessage("[result of f] again")],
    ),
    (
        "results_of_two_calls_with_the_same_id",
        [said(CALL_A, SAME_A), RESULT_A, ToolResultMessage("a", "", "2")],
        [said(CALL_A, SAME_A), RESULT_A, ToolResultMessage("a", "g", "2")],
    ),
    (
        "one_result_for_two_calls_with_the_same_id",
        [said(CALL_A, SAME_A), RESULT_A, HI],
        [said(CALL_A, SAME_A), RESULT_A, ToolResultMessage("a", "g", NO_RESULT, True), HI],
    ),
    (
        "a_result_without_a_call_among_others",
        [
            said(TRUNCATED, CALL_B, ToolCallBlock("c", "h"), stop_reason=ERROR),
            RESULT_B,
            RESULT_A,
            ToolResultMessage("c", "h", "3"),
        ],
        [
            said(CALL_B, ToolCallBlock("c", "h"), stop_reason=ERROR),
            RESULT_B,
            ToolResultMessage("c", "h", "3"),
            UserMessage("[result of f] 1"),
        ],
    ),
    (
        "an_image_of_a_result_without_a_call_stays",
        [
            said(TRUNCATED, stop_reason=ERROR),
            ToolResultMessage("a", "f", [TextBlock("see"), ImageBlock(PNG)]),
        ],
        [UserMessage([TextBlock("[result of f] see"), ImageBlock(PNG)])],
    ),
    (
        "texts_of_a_result_without_a_call",
        [ToolResultMessage("a", "f", [TextBlock("1"), TextBlock("2")])],
        [UserMessage("[result of f] 1\n2")],
    ),
    (
        "a_result_without_a_call_and_a_name",
        [ToolResultMessage("a", "", "1")],
        [UserMessage("[result] 1")],
    ),
    (
        "a_result_without_a_name_has_that_of_its_call",
        [said(CALL_A), ToolResultMessage("a", "", "1")],
        [said(CALL_A), RESULT_A],
    ),
    # 5: nothing left
    ("an_empty_answer", [HI, said(), HI], [HI, HI]),
    ("an_answer_of_empty_text", [said(TextBlock(""))], []),
    ("empty_text_with_own_metadata_stays", [said(TextBlock("", M))], [said(TextBlock("", M))]),
    ("an_answer_of_foreign_thinking_only", [said(ThinkingBlock("Hm"), provider="other")], []),
    ("an_empty_user_message", [UserMessage(""), UserMessage([]), HI], [HI]),
    ("a_user_message_of_empty_text", [UserMessage([TextBlock("")]), HI], [HI]),
    (
        "empty_text_beside_an_image",
        [UserMessage([TextBlock(""), ImageBlock(PNG)])],
        [UserMessage([ImageBlock(PNG)])],
    ),
    # 6: instructions
    ("an_instruction_is_a_marked_turn", [HI, SystemMessage("Be brief.")], [HI, BRIEF]),
    (
        "an_instruction_of_blocks",
        [HI, SystemMessage([TextBlock("Be"), TextBlock("brief.")]), HI],
        [HI, UserMessage("<system>\nBe\nbrief.\n</system>"), HI],
    ),
    (
        "an_instruction_with_metadata",
        [HI, SystemMessage([TextBlock("Be", M), TextBlock("brief.")])],
        [HI, UserMessage([TextBlock("<system>\nBe", M), TextBlock("brief.\n</system>")])],
    ),
    (
        "an_instruction_between_a_call_and_its_results_comes_after_them",
        [said(CALL_A, CALL_B), SystemMessage("Be brief."), RESULT_A, RESULT_B, HI],
        [said(CALL_A, CALL_B), RESULT_A, RESULT_B, BRIEF, HI],
    ),
    (
        "an_instruction_after_a_call_without_a_result",
        [said(CALL_A), SystemMessage("Be brief.")],
        [said(CALL_A), NOTHING_A, BRIEF],
    ),
    ("an_empty_instruction", [HI, SystemMessage(""), SystemMessage([])], [HI]),
]


@pytest.mark.parametrize(
    ("messages", "seen"), [case[1:] for case in NORMALISED], ids=[case[0] for case in NORMALISED]
)
def test_a_provider_sees_what_the_rules_leave(messages: list[Message], seen: list[Message]) -> None:
    before = copy.deepcopy(messages)
    assert normalise(Context(messages), "toy") == seen
    assert messages == before


@pytest.mark.parametrize("name", ["f", ""])
def test_a_result_without_a_call_stays_where_it_has_a_place(name: str) -> None:
    result = ToolResultMessage("a", name, "1")
    asked: list[ToolResultMessage] = []

    def has_place(message: ToolResultMessage) -> bool:
        asked.append(message)
        return True

    messages: list[Message] = [HI, result, said(CALL_B), RESULT_B]
    assert normalise(Context(messages), "toy", has_place=has_place) == messages
    assert asked == [result]


def test_an_instruction_stays_where_it_has_a_place() -> None:
    rules = SystemMessage([TextBlock("Be brief.", M)])
    messages: list[Message] = [said(CALL_A), rules, RESULT_A, SystemMessage("")]
    found = normalise(Context(messages), "toy", system=True)
    assert found == [said(CALL_A), RESULT_A, rules]


@pytest.mark.parametrize(
    ("prompt", "leading", "folded"),
    [
        (None, [SystemMessage("a")], "a"),
        (
            "a",
            [SystemMessage([TextBlock("b")]), SystemMessage(""), SystemMessage("c")],
            "a\n\nb\n\nc",
        ),
        ("a", [], "a"),
        (None, [SystemMessage("")], None),
        ([TextBlock("a"), ExtensionBlock("toy", "k", {}), TextBlock("b")], [], "a\nb"),
        ([TextBlock("a")], [SystemMessage("b")], "a\n\nb"),
        ([], [], None),
    ],
)
def test_leading_instructions_join_the_system_prompt(
    prompt: Any, leading: list[Message], folded: str | None
) -> None:
    later: list[Message] = [HI, SystemMessage("later"), HI]
    context = Context([*leading, *later], prompt)
    before = copy.deepcopy(context)
    assert folded_system(context) == Context(later, folded)
    assert context == before


@given(contexts(), st.sampled_from(["toy", "other"]))
def test_normalising_a_normal_conversation_changes_nothing_and_the_context_never_changes(
    context: Context, provider: str
) -> None:
    before = copy.deepcopy(context)
    once = normalise(context, provider)
    assert normalise(Context(once), provider) == once
    assert context == before


@given(contexts())
def test_every_call_is_followed_by_its_one_result(context: Context) -> None:
    messages = normalise(context, "toy")
    waiting: list[str] = []
    for message in messages:
        if isinstance(message, ToolResultMessage):
            waiting.remove(message.tool_call_id)
            continue
        assert waiting == []
        if isinstance(message, AssistantMessage):
            waiting = [call.id for call in message.tool_calls]
    assert waiting == []


def test_a_result_whose_call_is_gone_stays_where_the_api_has_a_place_for_it() -> None:
    context = Context([RESULT_A, said(CALL_B), RESULT_B, ToolResultMessage("c", "h", "3")])
    seen = normalise(context, "toy", has_place=lambda result: result.tool_call_id == "a")
    assert seen == [RESULT_A, said(CALL_B), RESULT_B, UserMessage("[result of h] 3")]


class Plain(MessageConverter):
    def user(self, message: UserMessage) -> list[Any]:
        return [("user", message.content)]

    def assistant(self, message: AssistantMessage) -> list[Any]:
        self.take(message, ToolCallBlock)
        text = self.text(message)
        return [("assistant", text)] if text else []

    def tool_results(self, messages: list[ToolResultMessage]) -> list[Any]:
        return [("results", [m.content for m in messages])]


def test_a_converter_gets_each_message_in_order_and_results_that_follow_one_another_together() -> (
    None
):
    messages: list[Message] = [
        HI,
        said(TextBlock("a"), CALL_A, CALL_B),
        RESULT_A,
        RESULT_B,
        said(CALL_A),
        RESULT_A,
    ]
    assert Plain("toy").messages(Context(messages)) == [
        ("user", "Hi"),
        ("assistant", "a"),
        ("results", ["1", "2"]),
        ("results", ["1"]),
    ]


# -- conversations that no provider accepts ------------------------------------------------------

# (name, conversation, what is said of it)
REFUSED: list[tuple[str, Any, str]] = [
    ("empty", Context([]), "the conversation is empty"),
    ("a_message_as_a_dict", Context([{"role": "user"}]), "message 0 is of type dict"),  # type: ignore[list-item]  # on purpose
    ("a_message_as_text", Context(["Hi"]), "message 0 is of type str"),  # type: ignore[list-item]  # on purpose
    ("a_block_as_text", Context([SystemMessage(["Hi"])]), "a block of message 0 is of type str"),  # type: ignore[list-item]  # on purpose
    ("a_block_as_5", Context([UserMessage(["Hi", 5])]), "message 0 is of type int"),  # type: ignore[list-item]  # on purpose
    ("a_block_as_a_dict", Context([HI, said({"type": "text"})]), "message 1 is of type dict"),
    ("no_content", Context([UserMessage(None)]), "content is of type NoneType"),  # type: ignore[arg-type]  # on purpose
    ("an_answer_of_nothing", Context([AssistantMessage(None)]), "of type NoneType"),  # type: ignore[arg-type]  # on purpose
    ("content_as_a_block", Context([SystemMessage(TextBlock("Hi"))]), "is of type TextBlock"),  # type: ignore[arg-type]  # on purpose
    ("text_that_is_none", Context([UserMessage([TextBlock(None)])]), "text: expected `str`"),  # type: ignore[arg-type]  # on purpose
    ("a_result_without_a_call", Context([HI, RESULT_A]), "1 is the result of tool call 'a'"),
    ("a_result_before_its_call", Context([RESULT_A, said(CALL_A)]), "message 0 is the result of"),
    ("a_tool_as_a_dict", Context([HI], tools=[{"name": "f"}]), "tool 0 is of type dict"),  # type: ignore[list-item]  # on purpose
    ("a_tool_without_a_name", Context([HI], tools=[Tool("")]), "tool 0 has no name"),
    ("two_tools_of_one_name", Context([HI], tools=[Tool("f"), Tool("f")]),
     "two tools have the name"),
    ("a_system_prompt_of_media", Context([HI], [ImageBlock(PNG)]), "prompt[0] is of type Image"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("context", "what"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_a_conversation_that_no_provider_accepts_is_refused_by_message_and_fault(
    context: Any, what: str
) -> None:
    with pytest.raises(InvalidContext) as caught:
        check_context(context)
    assert what in caught.value.message
    assert caught.value.resolution


@given(contexts())
def test_other_conversations_are_accepted(context: Context) -> None:
    check_context(context)


def test_a_file_that_cannot_be_read_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    missing = FileSource(str(tmp_path / "missing.png"))
    with pytest.raises(MediaError, match=r"missing\.png: No such file"):
        check_context(Context([UserMessage([ImageBlock(missing)])]))


# -- media ---------------------------------------------------------------------------------------


def test_a_file_becomes_base64_of_its_suffixs_type(tmp_path: Path) -> None:
    file = tmp_path / "a.png"
    file.write_bytes(b"\x89PNG")
    data = base64.b64encode(b"\x89PNG").decode()
    assert media_base64(FileSource(str(file))) == Base64Source("image/png", data)


def test_a_files_type_may_be_stated(tmp_path: Path) -> None:
    file = tmp_path / "a.unheard-of"
    file.write_bytes(b"x")
    assert media_base64(FileSource(str(file), "audio/wav")) == Base64Source("audio/wav", "eA==")
    with pytest.raises(MediaError, match="does not determine the media type") as caught:
        media_base64(FileSource(str(file)))
    assert "media_type=" in caught.value.resolution


def test_an_address_is_left_to_the_provider() -> None:
    assert media_base64(UrlSource("https://a/b.png")) is None


# (source, type)
TYPES = [
    (PNG, "image/png"),
    (UrlSource("https://a/b.jpg"), "image/jpeg"),
    (UrlSource("https://a/b.jpg?size=1"), "image/jpeg"),
    (UrlSource("https://a/b", "image/webp"), "image/webp"),
    (UrlSource("https://a/b"), None),
    (FileSource("x/y.pdf"), "application/pdf"),
    (FileSource("x/y.webp"), "image/webp"),
    (FileSource("x/y"), None),
]


@pytest.mark.parametrize(("source", "media_type"), TYPES)
def test_a_media_type_is_that_stated_or_that_of_the_suffix(
    source: Any, media_type: str | None
) -> None:
    assert media_type_of(source) == media_type


def test_the_text_of_content_leaves_everything_else_out() -> None:
    blocks = [TextBlock("a"), ImageBlock(PNG), TextBlock("b")]
    assert (text_of("x"), text_of(blocks)) == ("x", "a\nb")


# -- features ------------------------------------------------------------------------------------

# (name, context, options, features)
FEATURES: list[tuple[str, Context, dict[str, Any], set[str]]] = [
    ("none", Context([HI]), {}, set()),
    ("tuning_is_no_feature", Context([HI]), {"temperature": 1, "thinking": "high"}, set()),
    ("tools", Context([HI], tools=[Tool("f")]), {}, {"tools"}),
    ("a_choice_of_tools", Context([HI]), {"tool_choice": "required"}, {"tool_choice"}),
    ("the_usual_choice", Context([HI]), {"tool_choice": "auto"}, set()),
    ("stop", Context([HI]), {"stop": "x"}, {"stop"}),
    ("json", Context([HI]), {"response_format": "json"}, {"json"}),
    ("a_schema", Context([HI]), {"response_format": {}}, {"structured_output"}),
    ("images", Context([UserMessage([ImageBlock(PNG)])]), {}, {"images"}),
    ("documents", Context([UserMessage([DocumentBlock(PNG)])]), {}, {"documents"}),
    ("audio", Context([UserMessage([AudioBlock(PNG)])]), {}, {"audio"}),
    (
        "an_image_in_a_tools_result",
        Context([said(CALL_A), ToolResultMessage("a", "f", [ImageBlock(PNG)])]),
        {},
        {"images"},
    ),
    (
        "an_uploaded_file",
        Context([UserMessage([DocumentBlock(FileIdSource("toy", "f"))])]),
        {},
        {"documents", "file_ids"},
    ),
    (
        "a_file_of_others",
        Context([UserMessage([DocumentBlock(FileIdSource("other", "f"))])]),
        {},
        {"documents", "file_ids_of_others"},
    ),
    ("an_extension", Context([UserMessage([ExtensionBlock("toy", "k", {})])]), {}, {"extensions"}),
    (
        "an_extension_of_others_in_a_tools_result",
        Context([said(CALL_A), ToolResultMessage("a", "f", [ExtensionBlock("other", "k", {})])]),
        {},
        {"extensions_of_others"},
    ),
    ("an_answers_extension_of_others", Context([said(ExtensionBlock("other", "k", 1))]), {}, set()),
    (
        "an_answers_image_and_sound",
        Context([said(ImageBlock(PNG), AudioBlock(PNG))]),
        {},
        {"images", "assistant_images", "audio", "assistant_audio"},
    ),
    ("a_system_prompt_of_blocks", Context([HI], [TextBlock("Be brief.")]), {}, set()),
    (
        "an_extension_in_the_system_prompt",
        Context([HI], [ExtensionBlock("toy", "k", {})]),
        {},
        {"extensions", "system_extensions"},
    ),
    (
        "an_extension_of_others_in_a_system_message",
        Context([HI, SystemMessage([ExtensionBlock("other", "k", {})])]),
        {},
        {"extensions_of_others", "system_extensions"},
    ),
]


@pytest.mark.parametrize(
    ("context", "options", "features"),
    [case[1:] for case in FEATURES],
    ids=[case[0] for case in FEATURES],
)
def test_features_are_what_a_call_would_lose_its_meaning_without(
    context: Context, options: dict[str, Any], features: set[str]
) -> None:
    assert required_features(context, StreamOptions(**options), "toy") == features


def test_media_of_answers_are_those_of_the_model_alone() -> None:
    context = Context([UserMessage([ImageBlock(PNG)]), said(TextBlock("a"), AudioBlock(PNG))])
    assert [*assistant_media(context)] == [("assistant_audio", "messages[1].content[1]")]


# (name, call, the object in which its arguments travel)
OBJECTS: list[tuple[str, ToolCallBlock, dict[str, Any]]] = [
    ("whole", ToolCallBlock("a", "f", {"x": 1}), {"x": 1}),
    ("cut", ToolCallBlock("a", "f", None, '{"x', "partial"), {"INVALID_JSON": '{"x'}),
    ("no_json", ToolCallBlock("a", "f", None, "x=1", "invalid"), {"INVALID_JSON": "x=1"}),
    ("nothing", ToolCallBlock("a", "f", None, None, "partial"), {"INVALID_JSON": ""}),
]


@pytest.mark.parametrize(
    ("call", "sent"), [case[1:] for case in OBJECTS], ids=[case[0] for case in OBJECTS]
)
def test_arguments_that_are_none_travel_as_they_came(
    call: ToolCallBlock, sent: dict[str, Any]
) -> None:
    assert arguments_object(call) == sent


class Turns(MessageConverter):
    """Identifies the kind of each message."""

    native_system = True

    def user(self, message: UserMessage) -> list[Any]:
        return ["user"]

    def assistant(self, message: AssistantMessage) -> list[Any]:
        self.take(message, ToolCallBlock)
        return ["assistant"]

    def tool_results(self, messages: list[ToolResultMessage]) -> list[Any]:
        return [[result.tool_call_id for result in messages]]


def test_results_come_together_also_at_the_end_and_none_has_a_place_without_its_call() -> None:
    stray = ToolResultMessage("z", "h", "3")
    calls = said(CALL_A, CALL_B)
    native = Turns("toy").messages(Context([HI, calls, RESULT_A, RESULT_B, stray]))
    assert native == ["user", "assistant", ["a", "b"], *native[3:]]
    assert ["z"] not in native


def test_an_instruction_inside_a_conversation_has_to_be_written_where_it_is_native() -> None:
    with pytest.raises(NotImplementedError, match="system"):
        Turns("toy").messages(Context([HI, SystemMessage("Be brief.")]))
