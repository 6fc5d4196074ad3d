"""Frames in each of the forms that recordings contain."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swink_core import (
    AssistantMessage,
    AssistantMessageEvent,
    Done,
    Error,
    Extension,
    Notice,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    Usage,
)
from swink_core import StreamErrorKind as Kind
from swink_core.providers import is_synthetic_id
from swink_provider_openai import Dialect, OpenAIProvider
from swink_provider_openai.wire import Delta
from swink_testing.calls import client_with
from swink_testing.driver import drive_bytes, fold

Frame = dict[str, Any]

DONE = b"data: [DONE]\n\n"


def says(finish: str | None = None, **delta: Any) -> Frame:
    """A chunk of choice 0."""
    return {"id": "r1", "model": "m1", "choices": [{"delta": delta, "finish_reason": finish}]}


def body_of(*frames: Frame) -> bytes:
    return b"".join(b"data: %s\n\n" % json.dumps(frame).encode() for frame in frames)


async def events_of(
    *frames: Frame, dialect: Dialect | None = None, end: bytes = DONE
) -> list[AssistantMessageEvent]:
    provider = OpenAIProvider("openai", dialect)
    return await drive_bytes(provider, "m", [body_of(*frames) + end])


async def message_of(*frames: Frame, dialect: Dialect | None = None) -> AssistantMessage:
    return fold(await events_of(*frames, dialect=dialect))


def notices(events: list[AssistantMessageEvent]) -> list[str]:
    return [event.code for event in events if isinstance(event, Notice)]


STOP = says("stop")
COUNTED: Frame = {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}

TEXT: list[tuple[str, list[Frame], str]] = [
    ("a string", [says(content="Hel"), says(content="lo")], "Hello"),
    ("beside the finish reason", [says("stop", content="Hello")], "Hello"),
    ("null and empty pieces", [says(content=None), says(content=""), says(content="Hello")],
     "Hello"),
    ("no delta", [{"choices": [{"delta": None}]}, says(content="Hello")], "Hello"),
    ("no choices", [{"id": "", "choices": []}, {"choices": None}, says(content="Hello")], "Hello"),
    ("an unknown frame", [{"type": "ping"}, says(content="Hello")], "Hello"),
    ("an array", [says(content=[{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}])],
     "Hello"),
    ("an array with things unknown",
     [says(content=[{"type": "reference", "ids": [1]}, {"type": "text", "text": "Hello"}])],
     "Hello"),
    ("an index of null, 0 or 0.0",
     [{"choices": [{"index": index, "delta": {"content": "a"}}]} for index in (None, 0, 0.0)],
     "aaa"),
    ("fields of no interest",
     [{**says(content="Hello"), "obfuscation": "x", "p": 1, "object": None, "created": 1.5}],
     "Hello"),
    ("everything else null",
     [{**says(content="Hello", tool_calls=None, function_call=None, reasoning=None, refusal=None,
              reasoning_content=None, reasoning_details=None, annotations=None, thinking=None),
       "usage": None, "error": None, "x_groq": None, "citations": None}], "Hello"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "frames", "text"), TEXT)
async def test_text_comes_in_any_shape(name: str, frames: list[Frame], text: str) -> None:
    message = await message_of(*frames, STOP)

    assert message.text == text
    assert len(message.content) == 1
    assert message.stop_reason is StopReason.STOP


BESIDE_TEXT: dict[str, Any] = {
    "tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}],
    "function_call": {"name": "f", "arguments": "{}"},
    "reasoning_content": "Hm.",
    "reasoning": "Hm.",
    "reasoning_details": [{"type": "reasoning.text", "text": "Hm."}],
    "thinking": "Hm.",
    "refusal": "No.",
    "annotations": [{"type": "url_citation"}],
    "executed_tools": [{"index": 0}],
    "audio": {"id": "audio_1", "data": "QUJD"},
    "images": [{"type": "image_url", "image_url": {"url": "https://a.example/b.png"}}],
    "provider_metadata": {"x": 1},
}


@pytest.mark.parametrize("field", sorted({*Delta.__struct_fields__} - {"content"}))
async def test_no_field_beside_a_piece_of_text_is_lost(field: str) -> None:
    start, delta = says(content="A"), says(content="B", **{field: BESIDE_TEXT[field]})
    alone = await message_of(start, says(content="B"), STOP)
    message = await message_of(start, delta, STOP)

    assert (message.content, message.metadata) != (alone.content, alone.metadata)


THINKING: list[tuple[str, Frame]] = [
    ("reasoning_content", {"reasoning_content": "Hm."}),
    ("reasoning", {"reasoning": "Hm."}),
    ("thinking", {"thinking": "Hm."}),
    ("reasoning twice", {"reasoning": "Hm.", "reasoning_content": "Hm."}),
    ("details alone", {"reasoning_details": [{"type": "reasoning.text", "text": "Hm."}]}),
    ("a summary", {"reasoning_details": [{"type": "reasoning.summary", "summary": "Hm."}]}),
    (
        "both",
        {"reasoning": "Hm.", "reasoning_details": [{"type": "reasoning.text", "text": "Hm."}]},
    ),
    ("content parts", {"content": [{"type": "thinking", "thinking": [{"text": "Hm."}]}]}),
    ("a content part of text", {"content": [{"type": "thinking", "thinking": "Hm."}]}),
]


@pytest.mark.parametrize(("name", "delta"), THINKING)
async def test_reasoning_is_found_under_all_its_names(name: str, delta: Frame) -> None:
    message = await message_of(says(**delta), says(content="Yes."), STOP)

    assert (message.thinking, message.text) == ("Hm.", "Yes.")
    assert [type(block) for block in message.content] == [ThinkingBlock, TextBlock]


def detail(text: str | None = None, **more: Any) -> Frame:
    return {"type": "reasoning.text", "text": text, "index": 0, "format": "f", **more}


DETAILS: list[tuple[str, list[list[Frame]], list[Frame]]] = [
    ("pieces are joined", [[detail("a")], [detail("b")]], [detail("ab")]),
    ("a signature comes last", [[detail("a")], [{**detail(), "signature": "s"}]],
     [{**detail("a"), "signature": "s"}]),
    ("signed entries are whole", [[detail("a", signature="s")], [detail("b", signature="t")]],
     [detail("a", signature="s"), detail("b", signature="t")]),
    ("another index is another entry", [[detail("a"), detail("b", index=1)]],
     [detail("a"), detail("b", index=1)]),
    ("another id is another entry", [[detail("a", id="1"), detail("b", id="2")]],
     [detail("a", id="1"), detail("b", id="2")]),
    ("encrypted data is unchanged",
     [[{"type": "reasoning.encrypted", "data": "x==", "index": 0}] * 2],
     [{"type": "reasoning.encrypted", "data": "x==", "index": 0}] * 2),
    ("unknown data is unchanged", [[{"type": "new", "index": 0}] * 2],
     [{"type": "new", "index": 0}] * 2),
    ("without an index nothing is joined", [[detail("a", index=None), detail("b", index=None)]],
     [detail("a", index=None), detail("b", index=None)]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "pieces", "entries"), DETAILS)
async def test_reasoning_details_become_the_entries_to_send_back(
    name: str, pieces: list[list[Frame]], entries: list[Frame]
) -> None:
    frames = [says(reasoning_details=piece) for piece in pieces]

    message = await message_of(*frames, says(content="Yes."), STOP)

    block = message.content[0]
    assert isinstance(block, ThinkingBlock)
    assert block.metadata == {"reasoning_details": entries}


async def test_details_after_the_text_are_a_thinking_block_of_their_own() -> None:
    late = {"type": "reasoning.encrypted", "data": "x=="}

    message = await message_of(says(content="Yes."), says("stop", reasoning_details=[late]))

    assert message.content == [
        TextBlock("Yes."),
        ThinkingBlock("", metadata={"reasoning_details": [late]}),
    ]


TAGS: list[tuple[list[str], str, str]] = [
    (["<think>Hm.</think>Yes."], "Hm.", "Yes."),
    (["<th", "ink>H", "m.</thi", "nk>Ye", "s."], "Hm.", "Yes."),
    (list("<think>a < b</think>Yes."), "a < b", "Yes."),
    (["\n", "<think>", "Hm.", "</think>", "Yes."], "Hm.", "Yes."),
    (["Say <think>no</think>."], "", "Say <think>no</think>."),
    (["<thin", " ice"], "", "<thin ice"),
    (["<think>Hm."], "Hm.", ""),
    (["<think>Hm.</thi"], "Hm.</thi", ""),
    (["<think></think>Yes."], "", "Yes."),
    (["<think>a</think>b<think>c</think>"], "a", "b<think>c</think>"),
    (["<thi"], "", "<thi"),
    (["  ", "Yes."], "", "  Yes."),
]


@pytest.mark.parametrize(("pieces", "thinking", "text"), TAGS)
async def test_think_tags_open_the_content_where_the_dialect_says_so(
    pieces: list[str], thinking: str, text: str
) -> None:
    frames = [says(content=piece) for piece in pieces]

    message = await message_of(*frames, says("length"), dialect=Dialect(think_tags=True))

    assert (message.thinking, message.text) == (thinking, text)


async def test_think_tags_are_text_in_other_dialects() -> None:
    message = await message_of(says(content="<think>Hm.</think>Yes."), STOP)

    assert message.text == "<think>Hm.</think>Yes."


def call(
    index: int | float | None = None,
    id: str | int | None = None,
    name: str | None = None,
    arguments: Any = None,
) -> Frame:
    return {"index": index, "id": id, "function": {"name": name, "arguments": arguments}}


TOOLS: list[tuple[str, list[list[Frame]], list[tuple[str | None, str, str]]]] = [
    ("in pieces", [[call(0, "a", "f", "")], [call(0, arguments='{"x"')],
                   [call(0, arguments=":1}")]],
     [("a", "f", '{"x":1}')]),
    ("whole, in parallel", [[call(0, "a", "f", "{}"), call(1, "b", "f", '{"y":2}')]],
     [("a", "f", "{}"), ("b", "f", '{"y":2}')]),
    ("interleaved", [[call(0, "a", "f")], [call(1, "b", "g")], [call(0, arguments='{"x":')],
                     [call(1, arguments='{"y":')], [call(0, arguments="1}")],
                     [call(1, arguments="2}")]],
     [("a", "f", '{"x":1}'), ("b", "g", '{"y":2}')]),
    ("without indexes", [[call(None, "a", "f", "{}")], [call(None, "b", "g", "{}")]],
     [("a", "f", "{}"), ("b", "g", "{}")]),
    ("without indexes, in pieces", [[call(None, "a", "f", '{"x"')], [call(arguments=":1}")]],
     [("a", "f", '{"x":1}')]),
    ("without ids", [[call(0, None, "f", '{"x":1}')], [call(1, None, "f", '{"x":2}')]],
     [(None, "f", '{"x":1}'), (None, "f", '{"x":2}')]),
    ("without ids and indexes", [[call(None, None, "f", "{}"), call(None, None, "f", "{}")]],
     [(None, "f", "{}"), (None, "f", "{}")]),
    ("one index for two", [[call(0, "a", "f", "{}")], [call(0, "b", "g", "{}")]],
     [("a", "f", "{}"), ("b", "g", "{}")]),
    ("a drifting index", [[call(0, "a", "f", '{"x"')], [call(1, arguments=":1}")]],
     [("a", "f", '{"x":1}')]),
    ("all arguments under another index", [[call(0, "a", "f", "")], [call(1, arguments='{"x"')],
                                           [call(1, arguments=":1}")]],
     [("a", "f", '{"x":1}')]),
    ("the id repeated", [[call(0, "a", "f", "")], [call(0, "a", "f", '{"x":1}')]],
     [("a", "f", '{"x":1}')]),
    ("an id that comes late", [[call(0, None, "f", "")], [call(0, "a", None, "{}")]],
     [("a", "f", "{}")]),
    ("an object for arguments", [[call(0, "a", "f", {"x": [1]})]], [("a", "f", '{"x":[1]}')]),
    ("an index of 0.0", [[call(0.0, "a", "f", "")], [call(0, arguments="{}")]], [("a", "f", "{}")]),
    ("an id that is a number", [[call(0, 7, "f", "{}")]], [("7", "f", "{}")]),
    ("no arguments at all", [[call(0, "a", "f")]], [("a", "f", "")]),
    ("an empty entry", [[{"index": 0}], [call(0, "a", "f", "{}")]], [("a", "f", "{}")]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "fragments", "calls"), TOOLS)
async def test_fragments_go_to_the_call_that_they_belong_to(
    name: str, fragments: list[list[Frame]], calls: list[tuple[str | None, str, str]]
) -> None:
    frames = [says(tool_calls=fragment) for fragment in fragments]

    message = await message_of(*frames, says("tool_calls"))

    found = [
        (None if is_synthetic_id(c.id) else c.id, c.name, c.raw_arguments)
        for c in message.tool_calls
    ]
    assert found == calls
    assert len({c.id for c in message.tool_calls}) == len(calls)
    assert message.stop_reason is StopReason.TOOL_USE


@given(st.data())
async def test_no_interleaving_mixes_calls_up(data: st.DataObject) -> None:
    wanted = [json.dumps({"n": n, "text": "é" * n}) for n in range(data.draw(st.integers(1, 4)))]
    rests = dict(enumerate(wanted))
    fragments = [call(n, f"c{n}", "f", "") for n in rests]
    while rests:
        index = data.draw(st.sampled_from(sorted(rests)))
        size = data.draw(st.integers(1, len(rests[index])))
        fragments.append(call(index, arguments=rests[index][:size]))
        rests[index] = rests[index][size:]
        if not rests[index]:
            del rests[index]

    message = await message_of(*(says(tool_calls=[f]) for f in fragments), says("tool_calls"))

    assert [(c.id, c.raw_arguments) for c in message.tool_calls] == [
        (f"c{n}", text) for n, text in enumerate(wanted)
    ]


async def test_the_field_before_tool_calls_is_read_too() -> None:
    message = await message_of(
        says(function_call={"name": "f", "arguments": '{"x"'}),
        says(function_call={"arguments": ":1}"}),
        says("function_call"),
    )

    [found] = message.tool_calls
    assert (found.name, found.arguments) == ("f", {"x": 1})
    assert is_synthetic_id(found.id)
    assert message.stop_reason is StopReason.TOOL_USE


async def test_arguments_cut_by_the_length_limit_are_marked_and_kept() -> None:
    message = await message_of(says(tool_calls=[call(0, "a", "f", '{"x":')]), says("length"))

    [found] = message.tool_calls
    assert (found.raw_arguments, found.state) == ('{"x":', "truncated")


def custom(index: int, id: str | None = None, **more: str) -> dict[str, Any]:
    named = {"id": id, "type": "custom"} if id else {}
    return {"index": index, **named, "custom": more}


# (name, fragments, id and text of each call)
CUSTOM: list[tuple[str, list[list[dict[str, Any]]], list[tuple[str, str]]]] = [
    ("whole", [[custom(0, "a", name="sql", input="SELECT 1")]], [("a", "SELECT 1")]),
    (
        "in pieces that JSON writes otherwise",
        [[custom(0, "a", name="sql", input="")], [custom(0, input='"\n')], [custom(0, input="é")]],
        [("a", '"\né')],
    ),
    ("without a word", [[custom(0, "a", name="sql")]], [("a", "")]),
    (
        "two at a time",
        [[custom(0, "a", name="sql", input="x"), custom(1, "b", name="sql", input="y")],
         [custom(0, input="1"), custom(1, input="2")]],
        [("a", "x1"), ("b", "y2")],
    ),
    (
        "another at the same place",
        [[custom(0, "a", name="sql", input="x")], [custom(0, "b", name="sql", input="y")],
         [custom(0, input="2")]],
        [("a", "x"), ("b", "y2")],
    ),
    (
        "without places",
        [[{**custom(0, "a", name="sql", input="x"), "index": None}],
         [{**custom(0, "b", name="sql", input="y"), "index": None}]],
        [("a", "x"), ("b", "y")],
    ),
    (
        "a first that says nothing",
        [[custom(0, "a", name="sql")], [custom(0, "b", name="sql", input="y")]],
        [("a", ""), ("b", "y")],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "fragments", "calls"), CUSTOM)
async def test_free_text_is_the_input_of_its_call(
    name: str, fragments: list[list[dict[str, Any]]], calls: list[tuple[str, str]]
) -> None:
    message = await message_of(
        *(says(tool_calls=fragment) for fragment in fragments), says("tool_calls")
    )

    assert [(c.id, c.arguments) for c in message.tool_calls] == [
        (id, {"input": text}) for id, text in calls
    ]
    assert {c.name for c in message.tool_calls} == {"sql"}
    assert message.stop_reason is StopReason.TOOL_USE


async def test_free_text_that_was_cut_short_is_marked_and_kept() -> None:
    message = await message_of(
        says(tool_calls=[custom(0, "a", name="sql", input="SEL")]), says("length")
    )

    [found] = message.tool_calls
    assert (found.state, found.raw_arguments) == ("truncated", '{"input": "SEL')


async def test_opaque_data_of_a_call_is_its_metadata() -> None:
    extra = {"google": {"thought_signature": "x=="}}

    message = await message_of(
        says(tool_calls=[{**call(0, "a", "f", "{}"), "extra_content": extra}]), says("tool_calls")
    )

    [found] = message.content
    assert isinstance(found, ToolCallBlock)
    assert found.metadata == {"extra_content": extra}


FINISH: list[tuple[str, StopReason]] = [
    ("stop", StopReason.STOP),
    ("eos", StopReason.STOP),
    ("length", StopReason.LENGTH),
    ("model_length", StopReason.LENGTH),
    ("max_tokens", StopReason.LENGTH),
    ("content_filter", StopReason.CONTENT_FILTER),
    ("SAFETY", StopReason.CONTENT_FILTER),
    ("tool_calls", StopReason.TOOL_USE),
    ("function_call", StopReason.TOOL_USE),
]


@pytest.mark.parametrize(("word", "reason"), FINISH)
async def test_every_finish_reason_is_mapped(word: str, reason: StopReason) -> None:
    events = await events_of(says(content="Hi"), says(word))

    terminal = events[-1]
    assert isinstance(terminal, Done)
    assert terminal.stop_reason is reason
    assert notices(events) == []


@pytest.mark.parametrize(
    ("native", "reason"),
    [
        ("length", StopReason.LENGTH),
        ("max_output_tokens", StopReason.LENGTH),
        ("MAX_TOKENS", StopReason.LENGTH),
        ("tool_use", StopReason.TOOL_USE),
        ("end_turn", StopReason.TOOL_USE),
        (None, StopReason.TOOL_USE),
    ],
)
async def test_a_call_that_the_upstream_cut_off_is_truncated(
    native: str | None, reason: StopReason
) -> None:
    end = says("tool_calls")
    end["choices"][0]["native_finish_reason"] = native
    message = await message_of(says(tool_calls=[call(0, "a", "f", '{"x":')]), end)

    cut = reason is StopReason.LENGTH
    assert message.stop_reason is reason
    assert message.tool_calls[0].state == ("truncated" if cut else "invalid")


async def test_an_unknown_finish_reason_is_a_stop_that_says_what_it_was() -> None:
    events = await events_of(says(content="Hi"), says("tired"))

    [notice] = [event for event in events if isinstance(event, Notice)]
    assert (notice.code, "tired" in notice.detail) == ("stop_reason", True)
    assert isinstance(events[-1], Done)
    assert events[-1].stop_reason is StopReason.STOP


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("insufficient_system_resource", Kind.OVERLOADED),
        ("error", Kind.NETWORK),
        ("ERROR", Kind.NETWORK),
        ("abort", Kind.NETWORK),
    ],
)
async def test_a_finish_reason_may_be_a_failure(word: str, kind: Kind) -> None:
    terminal = (await events_of(says(content="Hi"), says(word)))[-1]

    assert isinstance(terminal, Error)
    assert terminal.error_kind is kind


async def test_tool_calls_that_stop_plainly_are_a_stop_for_tool_use() -> None:
    message = await message_of(says(tool_calls=[call(0, "a", "f", "{}")]), STOP)

    assert message.stop_reason is StopReason.TOOL_USE


async def test_a_refusal_is_the_text_of_an_answer_that_a_filter_stopped() -> None:
    events = await events_of(says(refusal="I can"), says(refusal="not."), STOP)

    message = fold(events)
    assert message.content == [TextBlock("I cannot.", {"refusal": True})]
    assert message.stop_reason is StopReason.CONTENT_FILTER
    assert notices(events) == ["refusal"]


async def test_words_before_a_refusal_are_another_text() -> None:
    message = await message_of(says(content="Sure."), says(refusal="No."), STOP)

    assert message.content == [TextBlock("Sure."), TextBlock("No.", {"refusal": True})]


USED: Frame = {"usage": COUNTED["usage"]}
NO_OUTPUT: Frame = {"usage": {"prompt_tokens": 1, "completion_tokens": None}}

COMPLETED: list[tuple[str, list[Frame]]] = [
    ("usage without choices", [says(content="Hi"), COUNTED]),
    ("usage and choices of null", [says(content="Hi"), {**COUNTED, "choices": None}]),
    ("usage in every chunk and at the end", [{**says(content="Hi"), **USED}, COUNTED]),
    ("usage with an empty piece",
     [says(content="Hi"), {**says(role="assistant", content=""), **USED}]),
    ("usage twice", [says(content="Hi"), COUNTED, {**says(content=""), **USED}]),
    ("more pieces after the usage", [says(content="H"), COUNTED, says(content="i"), COUNTED]),
]  # fmt: skip


@pytest.mark.parametrize("frames", [row[1] for row in COMPLETED], ids=[row[0] for row in COMPLETED])
async def test_the_end_marker_and_the_usage_after_the_content_complete_an_answer(
    frames: list[Frame],
) -> None:
    events = await events_of(*frames)

    assert fold(events).text == "Hi"
    assert isinstance(events[-1], Done)
    assert notices(events) == ["stop_reason"]


MARKED: list[tuple[str, list[Frame]]] = [
    ("text", [says(content="Do NOT ")]),
    ("a tool call", [says(tool_calls=[call(0, "a", "f", '{"x":')])]),
    ("a whole tool call", [says(tool_calls=[call(0, "a", "f", "{}")])]),
    ("reasoning", [says(reasoning_content="Hm.")]),
    ("nothing", []),
    ("a usage of nothing", [says(content="Do NOT "), {"choices": [], "usage": None}]),
    ("a usage without output", [says(content="Do NOT "), {"choices": [], **NO_OUTPUT}]),
    ("usage with every piece", [{**says(content=text), **USED} for text in ("Do ", "NOT ")]),
    ("usage without output with every piece", [{**says(content="Do NOT "), **NO_OUTPUT}]),
    (
        "usage with every piece, of which the last is empty",
        [{**says(content=text), **USED} for text in ("Do ", "NOT ", "")],
    ),
    (
        "usage with the first piece, which is empty",
        [{**says(role="assistant", content=""), **USED}, says(content="Do NOT ")],
    ),
    ("usage before the last piece", [says(content="Do "), COUNTED, says(content="NOT ")]),
    (
        "usage before a piece of a tool call",
        [
            says(tool_calls=[call(0, "a", "f", "")]),
            COUNTED,
            says(tool_calls=[call(0, None, None, '{"x":')]),
        ],
    ),
    ("usage before reasoning", [COUNTED, says(reasoning_content="Hm.")]),
]


@pytest.mark.parametrize("frames", [row[1] for row in MARKED], ids=[row[0] for row in MARKED])
async def test_the_end_marker_without_usage_at_the_end_is_no_end(
    frames: list[Frame],
) -> None:
    terminal = (await events_of(*frames))[-1]

    assert isinstance(terminal, Error)
    assert terminal.error_kind is Kind.NETWORK


async def test_a_finish_reason_and_a_clean_end_complete_an_answer() -> None:
    events = await events_of(says(content="Hi"), STOP, end=b"")

    assert isinstance(events[-1], Done)
    assert notices(events) == []


async def test_an_end_without_either_is_a_cut() -> None:
    terminal = (await events_of(says(content="Hi"), end=b""))[-1]

    assert isinstance(terminal, Error)
    assert terminal.error_kind is Kind.NETWORK


@pytest.mark.parametrize("end", [b"data: [DONE]", b"data: [DONE] \n\n", b"data:[DONE]\r\n\r\n"])
async def test_the_end_marker_is_recognised_in_any_dress(end: bytes) -> None:
    events = await events_of(says(content="Hi"), COUNTED, end=end)

    assert isinstance(events[-1], Done)


async def test_of_several_answers_the_first_is_used_and_the_rest_reported_once() -> None:
    def choice(index: int, text: str, finish: str | None = None) -> Frame:
        delta = {"content": text, "tool_calls": [call(0, "a", "f", "{}")] if index else None}
        return {"index": index, "delta": delta, "finish_reason": finish}

    events = await events_of(
        {"id": "r", "model": "m", "choices": [choice(1, "no"), choice(0, "yes")]},
        {"choices": [choice(1, "no", "length")]},
        {"choices": [choice(0, "!", "stop")]},
    )

    message = fold(events)
    assert (message.text, message.tool_calls) == ("yes!", [])
    assert message.stop_reason is StopReason.STOP
    assert notices(events) == ["other_choices"]


USAGE: list[tuple[str, Frame, Usage]] = [
    ("plain", {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7},
     Usage(3, 4, total=7)),
    ("details", {"prompt_tokens": 9, "completion_tokens": 8, "total_tokens": 17,
                 "prompt_tokens_details": {"cached_tokens": 5, "audio_tokens": 2},
                 "completion_tokens_details": {"reasoning_tokens": 6, "audio_tokens": None}},
     Usage(9, 8, cache_read=5, reasoning=6, total=17,
           extra={"prompt_tokens_details.audio_tokens": 2, "input_audio": 2})),
    ("DeepSeek's cache", {"prompt_tokens": 9, "completion_tokens": 1, "prompt_cache_hit_tokens": 5},
     Usage(9, 1, cache_read=5, total=10)),
    ("OpenRouter's cache", {"prompt_tokens": 9, "completion_tokens": 1,
                            "prompt_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 4}},
     Usage(9, 1, cache_read=2, cache_write=4, total=10)),
    ("reasoning beside the completion", {"prompt_tokens": 9, "completion_tokens": 1,
     "total_tokens": 15, "completion_tokens_details": {"reasoning_tokens": 5}},
     Usage(9, 6, reasoning=5, total=15)),
    ("floats and nulls", {"prompt_tokens": 9.0, "completion_tokens": None, "total_tokens": None,
                          "prompt_tokens_details": None}, Usage(9)),
    ("times", {"prompt_tokens": 1, "completion_tokens": 1, "queue_time": 0.5},
     Usage(1, 1, total=2, extra={"queue_time": 0.5})),
]  # fmt: skip


@pytest.mark.parametrize("place", ["after the finish", "with the finish", "x_groq", "every chunk"])
@pytest.mark.parametrize(("name", "reported", "usage"), USAGE)
async def test_usage_is_read_in_every_shape_and_place(
    name: str, reported: Frame, usage: Usage, place: str
) -> None:
    hi = says(content="Hi")
    frames = {
        "after the finish": [hi, STOP, {"choices": [], "usage": reported}],
        "with the finish": [hi, {**STOP, "usage": reported}],
        "x_groq": [hi, {**STOP, "x_groq": {"usage": reported}}],
        "every chunk": [{**hi, "usage": {"completion_tokens": 0}}, {**STOP, "usage": reported}],
    }[place]

    found = (await message_of(*frames)).usage

    usage.reported = True
    if place == "every chunk" and usage.output is None:
        usage = Usage(9, 0, total=9, reported=True)  # the last known value of each wins
    assert found == usage


@pytest.mark.parametrize(
    ("reported", "dollars"),
    [
        ({"cost": 0.25}, 0.25),
        ({"cost": 0}, 0.0),
        ({"cost": {"total_cost": 0.5}}, 0.5),
        ({"cost_in_usd_ticks": 1721250}, 0.000172125),
        # OpenRouter: the vendor bills the owner of its key
        ({"cost": 0, "is_byok": True, "cost_details": {"upstream_inference_cost": 3.0}}, 3.0),
        ({"cost": 0.25, "is_byok": True, "cost_details": {"upstream_inference_cost": 5}}, 5.25),
        ({"cost": 0.5, "is_byok": False, "cost_details": {"upstream_inference_cost": 0.5}}, 0.5),
        ({"cost": 0.5, "cost_details": {"upstream_inference_cost": 0.5}}, 0.5),
        ({"cost": 0, "is_byok": True, "cost_details": {"upstream_inference_cost": None}}, None),
        ({"cost": 0.25, "is_byok": True}, None),
        # figures that are no cost
        ({"cost_in_usd_ticks": 0}, None),
        ({"cost_in_usd_ticks": 10**400}, None),
        ({"cost": 10**400}, None),
        ({"cost": -1}, None),
    ],
)
async def test_a_cost_that_is_reported_is_the_cost(reported: Frame, dollars: float | None) -> None:
    from swink_testing.driver import MemoryHTTPClient, MemoryResponse

    body = body_of(says(content="Hi"), {**STOP, "usage": {"prompt_tokens": 1, **reported}}) + DONE
    http = MemoryHTTPClient(MemoryResponse([body], headers={"Content-Type": "text/event-stream"}))
    async with client_with(http=http, api_key="test") as client:
        message = await client.complete("openrouter/any", "Hello")

    found = message.cost.total if message.cost else None
    assert found == (dollars if dollars is None else pytest.approx(dollars))


async def test_a_cost_without_the_vendors_bill_is_replaced_by_the_prices_of_the_catalogue() -> None:
    """OpenRouter may omit the price of an answer for which the vendor bills the user."""
    from swink_testing.driver import MemoryHTTPClient, MemoryResponse

    costs = []
    for byok in ({}, {"cost": 0, "is_byok": True}):
        usage = {"prompt_tokens": 1000, "completion_tokens": 10, **byok}
        body = body_of(says(content="Hi"), {**STOP, "usage": usage}) + DONE
        http = MemoryHTTPClient(MemoryResponse([body]))
        async with client_with(http=http, api_key="test") as client:
            message = await client.complete("openrouter/anthropic/claude-sonnet-4.5", "Hello")
        assert message.cost is not None
        costs.append(message.cost.total)

    assert costs[0] == costs[1] > 0


async def test_no_usage_is_unknown_usage() -> None:
    assert (await message_of(says(content="Hi"), STOP)).usage is None


CITED = {"type": "url_citation", "url_citation": {"url": "https://x.example"}}

SOURCES: list[tuple[str, list[Frame], Frame]] = [
    ("annotations, in pieces",
     [says(content="Hi"), says(content="", annotations=[CITED]), says(annotations=[CITED])],
     {"annotations": [CITED, CITED]}),
    ("annotations before the text", [says(annotations=[CITED]), says(content="Hi")],
     {"annotations": [CITED]}),
    ("on every chunk", [{**says(content="H"), "citations": ["a"]},
                        {**says(content="i"), "citations": ["a", "b"]}], {"citations": ["a", "b"]}),
    ("search results", [says(content="Hi"), {**says(content=""), "search_results": [{"url": "a"}]}],
     {"search_results": [{"url": "a"}]}),
    ("tools that the server ran", [says(executed_tools=[{"index": 0}]), says(content="Hi")],
     {"executed_tools": [{"index": 0}]}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "frames", "metadata"), SOURCES)
async def test_sources_are_metadata_of_the_text(
    name: str, frames: list[Frame], metadata: Frame
) -> None:
    message = await message_of(*frames, STOP)

    assert message.content == [TextBlock("Hi", metadata)]


async def test_sources_stay_with_the_text_before_a_tool_call() -> None:
    message = await message_of(
        says(content="Hi", annotations=[CITED]),
        says(tool_calls=[call(0, "a", "f", "{}")]),
        says("tool_calls"),
    )

    assert message.content[0] == TextBlock("Hi", {"annotations": [CITED]})
    assert len(message.content) == 2


async def test_id_and_model_may_come_late() -> None:
    message = await message_of(
        {"id": "", "model": "", "choices": []},
        {"id": None, "model": "m1", "choices": [{"delta": {"content": "Hi"}}]},
        {"id": "r1", "model": "m1", "choices": [{"delta": {}, "finish_reason": "stop"}]},
    )

    assert (message.response_id, message.model) == ("r1", "m1")


@pytest.mark.parametrize("frame", [b"{", b'{"choices": 5}', b'{"choices": [{"delta": "Hi"}]}'])
async def test_a_known_frame_that_does_not_parse_is_malformed(frame: bytes) -> None:
    broken = b"data: " + frame + b"\n\n" + body_of(STOP)
    events = await events_of(says(content="Hi"), end=broken + DONE)

    assert "malformed_frame" in notices(events)
    assert isinstance(events[-1], Error)
    assert events[-1].code == "damaged_frame"


async def test_lone_surrogates_do_not_lose_a_frame() -> None:
    broken = b'data: {"choices": [{"delta": {"content": "a\\ud83d"}}]}\n\n'

    events = await events_of(says(content="H"), end=broken + body_of(STOP) + DONE)

    assert fold(events).text == "Ha\ufffd"
    assert notices(events) == ["lone_surrogate"]


WHOLE: Frame = {
    "id": "r1", "model": "m1", "object": "chat.completion",
    "choices": [
        {"index": 0, "finish_reason": "tool_calls", "message": {
            "role": "assistant", "reasoning_content": "Hm.", "content": "Yes.",
            "annotations": [CITED],
            "tool_calls": [call(None, "a", "f", '{"x":1}'), call(None, "b", "f", "{}")]}},
        {"index": 1, "finish_reason": "stop", "message": {"content": "No."}},
    ],
    "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7},
}  # fmt: skip


async def whole(data: Any) -> list[AssistantMessageEvent]:
    """Parse a response that is not streamed."""
    from swink_core import RetryPolicy
    from swink_testing.driver import MemoryHTTPClient, MemoryResponse

    http = MemoryHTTPClient(MemoryResponse.of_json(data))
    async with client_with(http=http, api_key="test", retry=RetryPolicy.none()) as client:
        stream = client.stream("openai/any", "Hello", transport="buffered")
        events = [event async for event in stream]
    [sent] = http.bodies
    assert (sent["stream"], "stream_options" in sent) == (False, False)
    return events


async def test_an_answer_that_is_not_streamed_says_the_same() -> None:
    events = await whole(WHOLE)

    message = fold(events)
    assert message.content[:2] == [
        ThinkingBlock("Hm."),
        TextBlock("Yes.", {"annotations": [CITED]}),
    ]
    assert [(c.id, c.arguments) for c in message.tool_calls] == [("a", {"x": 1}), ("b", {})]
    assert message.stop_reason is StopReason.TOOL_USE
    assert (message.response_id, message.model) == ("r1", "m1")
    assert message.usage == Usage(3, 4, total=7, reported=True)
    assert notices(events) == ["other_choices"]
    assert not any(isinstance(event, Extension) for event in events)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ({"error": {"message": "No", "code": "rate_limit_exceeded"}}, Kind.THROTTLED),
        ({"id": "r", "choices": [], "error": {"message": "No", "code": 502}}, Kind.NETWORK),
    ],
)
async def test_an_error_in_place_of_an_answer_is_one(data: Frame, kind: Kind) -> None:
    terminal = (await whole(data))[-1]

    assert isinstance(terminal, Error)
    assert terminal.error_kind is kind


async def test_an_error_as_the_finish_reason_of_a_whole_answer_is_one() -> None:
    message = {"role": "assistant", "content": "Internal error"}
    events = await whole({"choices": [{"finish_reason": "error_finish", "message": message}]})

    terminal = events[-1]
    assert isinstance(terminal, Error)
    assert (terminal.code, terminal.error_message) == ("error_finish", "Internal error")
    assert fold(events).text == ""


async def test_an_answer_without_choices_is_a_failure() -> None:
    assert isinstance((await whole({"id": "r"}))[-1], Error)
