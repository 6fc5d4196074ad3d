"""Conversion reports each value that it leaves out or changes, with the path."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from swink_core import (
    AssistantMessage,
    Block,
    Context,
    Event,
    ExtensionBlock,
    Message,
    Model,
    Notice,
    PluginError,
    StopReason,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
    dump,
    load,
)
from swink_core.plugins.changes import gather_changes, gathered_notices
from swink_core.providers import (
    SENT_ELSEWHERE,
    LeftOut,
    MessageConverter,
    folded_system,
    normalise,
    report_change,
    without_leading,
)
from swink_core.providers.contexts import FittedContext

MODEL = Model("toy", "one")
WORDS = TextBlock("words")
CALL = ToolCallBlock("call_1", "look")
SOUND = ExtensionBlock("toy", "sound", {})
NO_SOUND = LeftOut("sound has no place", "content_left_out")


@contextmanager
def gathered_changes(model: Model) -> Iterator[list[Notice]]:
    """Gather what is reported within the block; the list holds the notices after it."""
    notices: list[Notice] = []
    gathering = gather_changes()
    try:
        yield notices
    finally:
        notices += gathered_notices(gathering, model)


def told(context: Context, provider: str = "toy") -> list[tuple[str, str]]:
    """Return code and path of each change that `normalise` makes."""
    with gathered_changes(MODEL) as notices:
        normalise(context, provider)
    return [(notice.code, path) for notice in notices for path in notice.paths]


def answer(*blocks: Block, provider: str | None = None, **more: Any) -> AssistantMessage:
    return AssistantMessage([*blocks], provider, **more)


@pytest.mark.parametrize(
    ("messages", "changes"),
    [
        ([answer(WORDS)], []),
        ([answer(TextBlock("")), UserMessage([TextBlock(""), WORDS])], []),
        ([UserMessage(""), UserMessage("words")], [("content_left_out", "messages[0]")]),
        ([UserMessage([TextBlock("")])], [("content_left_out", "messages[0]")]),
        (
            [answer(ThinkingBlock("hm"), WORDS, provider="other")],
            [("thinking_left_out", "messages[0].content[0]")],
        ),
        (
            [answer(WORDS, ExtensionBlock("other", "search", {}), provider="other")],
            [("content_left_out", "messages[0].content[1]")],
        ),
        (
            [answer(ExtensionBlock("other", "search", {}), provider="toy")],
            [("content_left_out", "messages[0].content[0]")],
        ),
        (
            [answer(TextBlock("words", {"sources": [1]}), provider="other")],
            [("metadata_left_out", "messages[0].content[0].metadata")],
        ),
        (
            [
                answer(
                    ThinkingBlock("hm"),
                    ToolCallBlock("call_1", "look", {}, "{", "truncated"),
                    WORDS,
                    stop_reason=StopReason.ERROR,
                )
            ],
            [
                ("thinking_left_out", "messages[0].content[0]"),
                ("content_left_out", "messages[0].content[1]"),
            ],
        ),
        (
            [answer(TextBlock(""), CALL), UserMessage("words")],
            [("content_changed", "messages[0].content[1]")],
        ),
        ([ToolResultMessage("gone", "look", "x")], [("content_changed", "messages[0]")]),
    ],
)
def test_each_change_has_a_code_and_the_path_in_the_given_conversation(
    messages: list[Message], changes: list[tuple[str, str]]
) -> None:
    assert told(Context(messages)) == changes


def test_paths_count_leading_messages_that_were_folded_or_left_to_the_service() -> None:
    thought = answer(ThinkingBlock("hm"), WORDS, provider="other")
    context = Context([SystemMessage("a"), UserMessage("b"), UserMessage("c"), thought])
    fitted = folded_system(FittedContext.keep(context))
    assert fitted.system_prompt == "a"

    for shortened in (fitted, without_leading(fitted, 1), without_leading(context, 3)):
        assert told(shortened) == [("thinking_left_out", "messages[3].content[0]")]


def test_values_with_the_same_fate_are_one_notice_with_all_their_paths() -> None:
    thoughts = [answer(ThinkingBlock("hm"), WORDS, provider="other") for _ in range(3)]
    with gathered_changes(MODEL) as notices:
        normalise(Context([*thoughts]), "toy")

    [notice] = notices
    paths = tuple(f"messages[{at}].content[0]" for at in range(3))
    assert notice.paths == paths
    detail = "reasoning of another provider was not sent (messages[0].content[0] and 2 more)"
    assert notice.detail == f"toy/one: {detail}"


def test_a_change_outside_a_conversion_is_not_reported() -> None:
    report_change("messages[0]", "lost")
    with gathered_changes(MODEL) as notices:
        pass
    assert notices == []


# -- converters ----------------------------------------------------------------------------------


class Careful(MessageConverter):
    """Sends text, and reports everything else."""

    block_fields = ("mark",)

    def user(self, message: UserMessage) -> list[Any]:
        return [("user", self.blocks(message, self.said))]

    def assistant(self, message: AssistantMessage) -> list[Any]:
        for block in self.take(message, ThinkingBlock):
            self.leave_out(block, "reasoning has no place", "thinking_left_out")
        calls = [call.name for call in self.take(message, ToolCallBlock)]
        return [("assistant", self.text(message), *calls)]

    def tool_results(self, messages: list[ToolResultMessage]) -> list[Any]:
        return [("result", self.blocks(message, self.said)) for message in messages]

    def said(self, block: Block) -> str | LeftOut:
        return block.text if isinstance(block, TextBlock) else NO_SOUND


def test_text_that_a_converter_omits_is_reported_as_the_content_of_its_message() -> None:
    class Wordless(Careful):
        def said(self, block: Block) -> str | LeftOut:
            return NO_SOUND

    results: list[Message] = [
        ToolResultMessage("call_1", "look", "seen"),
        ToolResultMessage("call_2", "look", ""),
    ]
    calls = answer(CALL, ToolCallBlock("call_2", "look"))
    with gathered_changes(MODEL) as notices:
        Wordless("toy").messages(Context([UserMessage([WORDS]), calls, *results]))
    assert [(notice.code, notice.paths) for notice in notices] == [
        ("content_left_out", ("messages[0].content[0]", "messages[2].content"))
    ]


def test_content_that_a_converter_omits_is_reported_with_its_path() -> None:
    sound = ExtensionBlock("toy", "sound", {})
    context = Context(
        [
            UserMessage([WORDS, sound]),
            answer(TextBlock(""), ThinkingBlock("hm"), CALL),
            ToolResultMessage("call_1", "look", [sound, TextBlock("seen", {"mark": 1, "odd": 2})]),
        ]
    )
    with gathered_changes(MODEL) as notices:
        native = Careful("toy").messages(context)

    assert native == [("user", ["words"]), ("assistant", "", "look"), ("result", ["seen"])]
    assert [(notice.code, notice.paths) for notice in notices] == [
        ("content_left_out", ("messages[0].content[1]", "messages[2].content[0]")),
        ("thinking_left_out", ("messages[1].content[1]",)),
        ("metadata_left_out", ("messages[2].content[1].metadata.odd",)),
    ]


@pytest.mark.parametrize(("code", "reported"), [((), "content_changed"), (("odd",), "odd")])
def test_content_that_a_converter_changes_is_reported_with_its_path(
    code: tuple[str, ...], reported: str
) -> None:
    class Shouting(Careful):
        def user(self, message: UserMessage) -> list[Any]:
            (block,) = self.take(message, TextBlock)
            self.report(block, "the text was shouted", *code)
            self.report(message, "the message was shouted", *code)
            return [block.text.upper()]

    with gathered_changes(MODEL) as notices:
        native = Shouting("toy").messages(Context([UserMessage([WORDS])]))
    assert native == ["WORDS"]
    assert [(notice.code, notice.paths) for notice in notices] == [
        (reported, ("messages[0].content[0]",)),
        (reported, ("messages[0]",)),
    ]
    assert [notice.detail for notice in notices] == [
        "toy/one: the text was shouted (messages[0].content[0])",
        "toy/one: the message was shouted (messages[0])",
    ]


@pytest.mark.parametrize(
    ("name", "names_users", "paths"),
    [
        ("Ann", None, ("messages[1].name",)),
        ("Ann", False, ("messages[1].name",)),
        ("Ann", True, ()),
        (None, None, ()),
    ],
)
def test_the_name_of_a_user_is_reported_unless_a_converter_sends_it(
    name: str | None, names_users: bool | None, paths: tuple[str, ...]
) -> None:
    converter = Careful("toy")
    if names_users is not None:
        converter.names_users = names_users
    with gathered_changes(MODEL) as notices:
        converter.messages(Context([UserMessage("Hi"), UserMessage("Hello", name=name)]))
    found = [(notice.code, notice.paths) for notice in notices]
    assert found == ([("metadata_left_out", paths)] if paths else [])


@pytest.mark.parametrize("blocks", [[WORDS, SOUND], [SOUND, WORDS], [SOUND]])
def test_content_of_a_result_without_a_call_is_reported_with_its_own_path(
    blocks: list[Block],
) -> None:
    with gathered_changes(MODEL) as notices:
        Careful("toy").messages(Context([ToolResultMessage("gone", "look", blocks)]))
    assert [(notice.code, notice.paths) for notice in notices] == [
        ("content_changed", ("messages[0]",)),
        ("content_left_out", (f"messages[0].content[{blocks.index(SOUND)}]",)),
    ]


class Forgetful(Careful):
    """Looks at text alone."""

    def user(self, message: UserMessage) -> list[Any]:
        return [("user", self.text(message))]


class Silent(Careful):
    """Returns nothing for what it does not know."""

    def said(self, block: Block) -> Any:
        return block.text if isinstance(block, TextBlock) else None


@pytest.mark.parametrize(
    ("converter", "what"),
    [
        (Forgetful, "Forgetful neither converted nor left out messages[1].content[1]"),
        (Silent, "Silent returned nothing for messages[1].content[1]"),
    ],
)
def test_a_converter_cannot_drop_a_block_without_a_report(
    converter: type[MessageConverter], what: str
) -> None:
    sound = ExtensionBlock("toy", "sound", {})
    context = Context([UserMessage("words"), UserMessage([WORDS, sound])])
    with pytest.raises(PluginError, match="call leave_out") as caught:
        converter("toy").messages(context)
    assert what in str(caught.value)


def test_a_block_of_two_messages_is_accounted_for_in_each() -> None:
    sound = ExtensionBlock("toy", "sound", {})
    context = Context(
        [answer(WORDS, CALL), ToolResultMessage("call_1", "look", [sound]), UserMessage([sound])]
    )
    with pytest.raises(PluginError, match="neither converted nor left out") as caught:
        Forgetful("toy").messages(context)
    assert "messages[2].content[0]" in str(caught.value)


def test_the_blocks_of_results_that_come_together_are_accounted_for_one_by_one() -> None:
    class Hasty(Careful):
        def tool_results(self, messages: list[ToolResultMessage]) -> list[Any]:
            return super().tool_results(messages[:1])

    calls = answer(CALL, ToolCallBlock("call_2", "look"))
    first = ToolResultMessage("call_1", "look", [WORDS])
    second = ToolResultMessage("call_2", "look", [TextBlock("others"), TextBlock("more")])
    with pytest.raises(PluginError, match=r"left out messages\[2\]\.content\[0\]"):
        Hasty("toy").messages(Context([calls, first, second]))


def test_a_block_that_goes_out_at_another_place_makes_no_notice() -> None:
    class Beside(Careful):
        def said(self, block: Block) -> str | LeftOut:
            return SENT_ELSEWHERE if isinstance(block, ExtensionBlock) else super().said(block)

    context = Context([UserMessage([WORDS, ExtensionBlock("toy", "sound", {})])])
    with gathered_changes(MODEL) as notices:
        assert Beside("toy").messages(context) == [("user", ["words"])]
    assert notices == []


# -- the JSON form -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "notice"),
    [
        (
            {"type": "notice", "code": "option_ignored", "detail": "no seed"},
            Notice("option_ignored", "no seed"),
        ),
        (
            {"type": "notice", "code": "option_ignored", "detail": "x", "paths": ["options.seed"]},
            Notice("option_ignored", "x", ("options.seed",)),
        ),
    ],
)
def test_a_notice_is_stored_with_its_paths_and_read_without_them(
    data: dict[str, Any], notice: Notice
) -> None:
    assert load(Event, data) == notice
    assert json.loads(json.dumps(dump(notice))) == data
