"""JSON forms: tagged, and silent about what is default. Round trips: with the strategies."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from types import MappingProxyType
from typing import Any, get_args

import pytest

from swink_core import (
    AssistantMessage,
    AssistantMessageEvent,
    AudioBlock,
    Base64Source,
    Block,
    CodecError,
    Context,
    Cost,
    DocumentBlock,
    Done,
    Error,
    Event,
    Extension,
    ExtensionBlock,
    FileIdSource,
    FileSource,
    ImageBlock,
    Message,
    Notice,
    Retry,
    Start,
    StopReason,
    StreamErrorKind,
    SystemMessage,
    TextBlock,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingBlock,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    Tool,
    ToolCallBlock,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    ToolResultMessage,
    UrlSource,
    Usage,
    UserMessage,
    dump,
    load,
)
from swink_core.providers import Source
from swink_core.vocabulary.grammar import RULES

FORMS: list[tuple[str, Any, Any]] = [
    ("an event", TextEnd(0), {"type": "text_end", "content_index": 0}),
    (
        "nothing is said of unknown numbers",
        Done(StopReason.STOP, Usage(1, reported=True), Cost(total=0.0)),
        {
            "type": "done",
            "stop_reason": "stop",
            "usage": {"input": 1, "reported": True},
            "cost": {"total": 0.0},
        },
    ),
    (
        "an error",
        Error(error_message="no", error_kind=StreamErrorKind.AUTH),
        {"type": "error", "error_message": "no", "error_kind": "auth"},
    ),
    (
        "a message",
        AssistantMessage([TextBlock("a")], usage=Usage(output=2)),
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "a"}],
            "usage": {"output": 2},
        },
    ),
    (
        "a conversation",
        Context([UserMessage([ImageBlock(UrlSource("https://a"))])], tools=[Tool("add")]),
        {
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "image", "source": {"type": "url", "url": "https://a"}}],
                }
            ],
            "tools": [{"name": "add"}],
        },
    ),
    ("a list", [UserMessage("a")], [{"role": "user", "content": "a"}]),
]


@pytest.mark.parametrize(
    ("value", "data"), [row[1:] for row in FORMS], ids=[row[0] for row in FORMS]
)
def test_the_json_form(value: Any, data: Any) -> None:
    assert dump(value) == data


@pytest.mark.parametrize(
    ("kind", "data", "said"),
    [
        (Message, {"role": "critic"}, "unknown role 'critic'; known: system, user, assistant"),
        (Message, "hello", "an object with 'role' was expected, not 'hello'"),
        (Context, {"messages": [{"role": "user"}]}, "content"),
        (Tool, {}, "name"),
    ],
)
def test_data_of_another_form_is_refused_with_the_place(kind: Any, data: Any, said: str) -> None:
    with pytest.raises(CodecError) as caught:
        load(kind, data)

    assert said in str(caught.value)


def test_an_unknown_event_is_refused() -> None:
    with pytest.raises(CodecError, match="unknown type 'applause'"):
        load(Event, {"type": "applause"})


# -- the normative forms, one of everything ------------------------------------------------------

WHOLE_USAGE = Usage(1, 2, 3, 4, 5, 6, {"tier": "x"}, True)
WHOLE_COST = Cost(0.1, 0.2, 0.3, 0.4, 1.0)
USAGE_DATA = {
    "input": 1,
    "output": 2,
    "cache_read": 3,
    "cache_write": 4,
    "reasoning": 5,
    "total": 6,
    "extra": {"tier": "x"},
    "reported": True,
}
COST_DATA = {"input": 0.1, "output": 0.2, "cache_read": 0.3, "cache_write": 0.4, "total": 1.0}
PNG, PNG_DATA = (
    Base64Source("image/png", "AA=="),
    {
        "type": "base64",
        "media_type": "image/png",
        "data": "AA==",
    },
)
M = {"opaque": [1, None]}

# (value with every field set, its JSON, value with only what is required, its JSON)
NORMATIVE: list[tuple[Any, dict[str, Any], Any, dict[str, Any]]] = [
    (Start(), {"type": "start"}, Start(), {"type": "start"}),
    *(
        (cls(1), {"type": tag, "content_index": 1}, cls(0), {"type": tag, "content_index": 0})
        for cls, tag in [(TextStart, "text_start"), (ThinkingStart, "thinking_start")]
    ),
    *(
        (
            cls(1, "x"),
            {"type": tag, "content_index": 1, "delta": "x"},
            cls(0, ""),
            {"type": tag, "content_index": 0, "delta": ""},
        )
        for cls, tag in [
            (TextDelta, "text_delta"),
            (ThinkingDelta, "thinking_delta"),
            (ToolCallDelta, "tool_call_delta"),
        ]
    ),
    *(
        (
            cls(1, M),
            {"type": tag, "content_index": 1, "metadata": M},
            cls(0),
            {"type": tag, "content_index": 0},
        )
        for cls, tag in [(TextEnd, "text_end"), (ToolCallEnd, "tool_call_end")]
    ),
    (
        ThinkingEnd(1, "sig", True, M),
        {
            "type": "thinking_end",
            "content_index": 1,
            "signature": "sig",
            "redacted": True,
            "metadata": M,
        },
        ThinkingEnd(0),
        {"type": "thinking_end", "content_index": 0},
    ),
    (
        ToolCallStart(1, "a", "f"),
        {"type": "tool_call_start", "content_index": 1, "id": "a", "name": "f"},
        ToolCallStart(0, "", ""),
        {"type": "tool_call_start", "content_index": 0, "id": "", "name": ""},
    ),
    (
        Extension(1, "acme", "search", {"q": 1}, M),
        {
            "type": "extension",
            "content_index": 1,
            "provider": "acme",
            "kind": "search",
            "data": {"q": 1},
            "metadata": M,
        },
        Extension(0, "acme", "search", None),
        {
            "type": "extension",
            "content_index": 0,
            "provider": "acme",
            "kind": "search",
            "data": None,
        },
    ),
    (
        Notice("buffered", "why"),
        {"type": "notice", "code": "buffered", "detail": "why"},
        Notice("buffered"),
        {"type": "notice", "code": "buffered"},
    ),
    (
        Retry(2, 3, 0.5, "so", "acme/large", StreamErrorKind.NETWORK),
        {
            "type": "retry",
            "attempt": 2,
            "max_attempts": 3,
            "delay": 0.5,
            "error": "so",
            "model": "acme/large",
            "error_kind": "network",
        },
        Retry(2, 3, 0.0, "so", "acme/large"),
        {
            "type": "retry",
            "attempt": 2,
            "max_attempts": 3,
            "delay": 0.0,
            "error": "so",
            "model": "acme/large",
        },
    ),
    (
        Done(StopReason.PAUSE, WHOLE_USAGE, WHOLE_COST, "r", "m", "q", M),
        {
            "type": "done",
            "stop_reason": "pause",
            "usage": USAGE_DATA,
            "cost": COST_DATA,
            "response_id": "r",
            "model": "m",
            "request_id": "q",
            "metadata": M,
        },
        Done(StopReason.STOP),
        {"type": "done", "stop_reason": "stop"},
    ),
    (
        Error(
            StopReason.ABORTED, "so", WHOLE_USAGE, StreamErrorKind.CANCELLED, 1.5, WHOLE_COST,
            "r", "m", "q", 429, "streaming", "title", "do this", "slow_down", M,
        ),
        {
            "type": "error",
            "stop_reason": "aborted",
            "error_message": "so",
            "usage": USAGE_DATA,
            "error_kind": "cancelled",
            "retry_after": 1.5,
            "cost": COST_DATA,
            "response_id": "r",
            "model": "m",
            "request_id": "q",
            "status": 429,
            "phase": "streaming",
            "title": "title",
            "resolution": "do this",
            "code": "slow_down",
            "metadata": M,
        },
        Error(),
        {"type": "error"},
    ),
    (PNG, PNG_DATA, PNG, PNG_DATA),
    (
        UrlSource("https://a", "image/png"),
        {"type": "url", "url": "https://a", "media_type": "image/png"},
        UrlSource("https://a"),
        {"type": "url", "url": "https://a"},
    ),
    (
        FileIdSource("acme", "file-1"),
        {"type": "file_id", "provider": "acme", "id": "file-1"},
        FileIdSource("", ""),
        {"type": "file_id", "provider": "", "id": ""},
    ),
    (
        FileSource("a.png", "image/png"),
        {"type": "file", "path": "a.png", "media_type": "image/png"},
        FileSource("a.png"),
        {"type": "file", "path": "a.png"},
    ),
    (
        TextBlock("x", M),
        {"type": "text", "text": "x", "metadata": M},
        TextBlock("x"),
        {"type": "text", "text": "x"},
    ),
    (
        ThinkingBlock("x", "sig", True, M),
        {
            "type": "thinking",
            "thinking": "x",
            "signature": "sig",
            "redacted": True,
            "metadata": M,
        },
        ThinkingBlock("x"),
        {"type": "thinking", "thinking": "x"},
    ),
    (
        ToolCallBlock("a", "f", {"x": 1}, '{"x": 1}', "truncated", M),
        {
            "type": "tool_call",
            "id": "a",
            "name": "f",
            "arguments": {"x": 1},
            "raw_arguments": '{"x": 1}',
            "state": "truncated",
            "metadata": M,
        },
        ToolCallBlock("a", "f"),
        {"type": "tool_call", "id": "a", "name": "f"},
    ),
    *(
        (
            cls(PNG, metadata=M),
            {"type": tag, "source": PNG_DATA, "metadata": M},
            cls(PNG),
            {"type": tag, "source": PNG_DATA},
        )
        for cls, tag in [(ImageBlock, "image"), (AudioBlock, "audio")]
    ),
    (
        DocumentBlock(PNG, "a.pdf", M),
        {"type": "document", "source": PNG_DATA, "name": "a.pdf", "metadata": M},
        DocumentBlock(PNG),
        {"type": "document", "source": PNG_DATA},
    ),
    (
        ExtensionBlock("acme", "search", [1], M),
        {"type": "extension", "provider": "acme", "kind": "search", "data": [1], "metadata": M},
        ExtensionBlock("acme", "search", None),
        {"type": "extension", "provider": "acme", "kind": "search", "data": None},
    ),
    (
        UserMessage([TextBlock("x")]),
        {"role": "user", "content": [{"type": "text", "text": "x"}]},
        UserMessage("x"),
        {"role": "user", "content": "x"},
    ),
    (
        SystemMessage([TextBlock("x")]),
        {"role": "system", "content": [{"type": "text", "text": "x"}]},
        SystemMessage("x"),
        {"role": "system", "content": "x"},
    ),
    (
        AssistantMessage(
            [TextBlock("x")], "acme", "m", "r", "q", WHOLE_USAGE, WHOLE_COST,
            StopReason.ERROR, StreamErrorKind.NETWORK, "so", M,
        ),
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "x"}],
            "provider": "acme",
            "model": "m",
            "response_id": "r",
            "request_id": "q",
            "usage": USAGE_DATA,
            "cost": COST_DATA,
            "stop_reason": "error",
            "error_kind": "network",
            "error_message": "so",
            "metadata": M,
        },
        AssistantMessage([]),
        {"role": "assistant", "content": []},
    ),
    (
        ToolResultMessage("a", "f", [ImageBlock(PNG)], True),
        {
            "role": "tool_result",
            "tool_call_id": "a",
            "tool_name": "f",
            "content": [{"type": "image", "source": PNG_DATA}],
            "is_error": True,
        },
        ToolResultMessage("a", "f", "x"),
        {"role": "tool_result", "tool_call_id": "a", "tool_name": "f", "content": "x"},
    ),
    (
        Tool("f", "does", {"type": "object"}, False, {"acme": {"x": 1}}),
        {
            "name": "f",
            "description": "does",
            "parameters": {"type": "object"},
            "strict": False,
            "metadata": {"acme": {"x": 1}},
        },
        Tool("f"),
        {"name": "f"},
    ),
    (
        Context([UserMessage("x")], "be brief", [Tool("f")]),
        {
            "messages": [{"role": "user", "content": "x"}],
            "system_prompt": "be brief",
            "tools": [{"name": "f"}],
        },
        Context([]),
        {"messages": []},
    ),
]  # fmt: skip


def union_of(value: Any) -> Any:
    """The type by which a value is read where its tag alone says what it is."""
    if isinstance(value, AssistantMessageEvent):
        return Event
    return next((u for u in (Block, Source, Message) if isinstance(value, u)), type(value))


@pytest.mark.parametrize("row", NORMATIVE, ids=lambda row: type(row[0]).__name__)
def test_each_class_has_exactly_its_normative_form(
    row: tuple[Any, dict[str, Any], Any, dict[str, Any]],
) -> None:
    for value, data in (row[:2], row[2:]):
        assert dump(value) == data
        assert list(dump(value)) == list(data)
        loaded = load(union_of(value), data, allow_files=True)
        assert loaded == value
        assert type(loaded) is type(value)


def test_the_normative_table_leaves_no_class_out() -> None:
    shown = {type(row[0]) for row in NORMATIVE}
    tagged = {*RULES, *get_args(Block), *get_args(Source), *get_args(Message)}
    assert shown == tagged | {Tool, Context}


def test_an_answer_as_a_string_is_one_of_a_text() -> None:
    said = load(Message, {"role": "assistant", "content": "Hello."})
    assert said == AssistantMessage("Hello.") == AssistantMessage([TextBlock("Hello.")])


def test_keys_that_this_version_does_not_know_are_ignored() -> None:
    assert load(Event, {"type": "text_delta", "content_index": 0, "delta": "x", "new": 1}) == (
        TextDelta(0, "x")
    )


def test_loaded_values_share_nothing_with_the_data() -> None:
    data = {"type": "tool_call", "id": "a", "name": "f", "arguments": {"x": 1}}
    block = load(Block, data)
    block.arguments["y"] = 2
    assert data["arguments"] == {"x": 1}


USER: dict[str, Any] = {"role": "user", "content": "x"}

# (name, what is read, data, the place, part of the reason)
FAULTS: list[tuple[str, Any, Any, str, str]] = [
    ("text_as_number", Block, {"type": "text", "text": 5}, "$.text", "got `int`: 5"),
    ("text_as_null", Block, {"type": "text", "text": None}, "$.text", "got `None`: None"),
    ("number_as_text", Event, {"type": "text_start", "content_index": "0"},
     "$.content_index", "expected `int`, got `str`: '0'"),
    ("number_as_truth", Event, {"type": "text_start", "content_index": True},
     "$.content_index", "expected `int`, got `bool`: True"),
    ("truth_as_text", Message,
     {"role": "tool_result", "tool_call_id": "", "tool_name": "", "content": "", "is_error": "no"},
     "$.is_error", "expected `bool`, got `str`: 'no'"),
    ("seconds_as_text", Event, {"type": "error", "retry_after": "5"},
     "$.retry_after", "expected `float`, got `str`: '5'"),
    ("list_as_text", Context, {"messages": "hello"}, "$.messages", "expected `array`, got"),
    ("list_as_object", Context, {"messages": {}}, "$.messages", "expected `array`, got"),
    ("list_as_empty_text", Context, {"messages": ""}, "$.messages", "expected `array`, got"),
    ("object_as_list", Block, {"type": "tool_call", "id": "a", "name": "f", "arguments": []},
     "$.arguments", "expected `dict`, got `array`: []"),
    ("usage_as_number", Event, {"type": "done", "stop_reason": "stop", "usage": 1},
     "$.usage", "expected `dict`, got `int`: 1"),
    ("context_as_text", Context, "hello", "$", "expected `dict`, got `str`: 'hello'"),
    ("unknown_stop_reason", Event, {"type": "done", "stop_reason": "tired"},
     "$.stop_reason", "tired"),
    ("unknown_state", Block, {"type": "tool_call", "id": "a", "name": "f", "state": "new"},
     "$.state", "new"),
    ("no_tag", Block, {"text": "x"}, "$", "unknown type None"),
    ("a_tag_that_is_no_text", Block, {"type": ["text"]}, "$", "unknown type ['text']"),
    ("missing", Block, {"type": "image"}, "$.source", "required field missing"),
    ("deep", Context, {"messages": [USER, {"role": "user", "content": [{"type": "image", "source":
     {"type": "ftp"}}]}]}, "$.messages[1].content[0].source", "unknown type 'ftp'"),
    ("two_at_once", Context, {"messages": [{"role": "user", "content": 5}, {"role": "critic"}]},
     "$.messages[0].content", "got `int`: 5"),
    ("the_second_of_two", Context, {"messages": [{"role": "user", "content": 5},
     {"role": "critic"}]}, "$.messages[1]", "unknown role 'critic'"),
    ("a_file", Block, {"type": "image", "source": {"type": "file", "path": "a.png"}},
     "$.source", "only with allow_files=True"),
    ("a_url_of_a_file", Block, {"type": "image", "source": {"type": "url", "url": " FILE:///a"}},
     "$.source", "only with allow_files=True"),
    ("a_url_that_is_no_text", Block, {"type": "image", "source": {"type": "url", "url": 5}},
     "$.source.url", "expected `str`, got `int`: 5"),
    ("a_tag_of_another_class", TextBlock, {"type": "image", "text": "x"},
     "$", "unknown type 'image'; known: text"),
    ("no_tag_of_two_classes", UserMessage | SystemMessage, {"content": "x"},
     "$", "unknown role None; known: user, system"),
    ("no_object_of_two_classes", UserMessage | SystemMessage, ["x"],
     "$", "an object with 'role' was expected, not ['x']"),
    ("an_unfit_mapping", Block, MappingProxyType({"type": "text", "text": 5}),
     "$.text", "got `int`: 5"),
    ("a_value_of_a_dict", dict[str, Tool], {"a": {"name": "a"}, "b": {"name": 5}},
     "$['b'].name", "got `int`: 5"),
    ("a_file_in_a_dict", dict[str, Block], {"a": {"type": "image", "source": {"type": "file",
     "path": "a.png"}}}, "$['a'].source", "only with allow_files=True"),
    ("no_dict", dict[str, Tool], [{"name": "a"}], "$", "expected `dict`, got `array`"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "data", "place", "reason"), [c[1:] for c in FAULTS], ids=[c[0] for c in FAULTS]
)
def test_data_of_the_wrong_form_is_refused_by_place_and_reason(
    kind: Any, data: Any, place: str, reason: str
) -> None:
    with pytest.raises(CodecError) as caught:
        load(kind, data)
    fault = rf"{re.escape(reason)}.* @ {re.escape(place)}(;|$)"
    assert re.search(fault, str(caught.value))


def test_unknown_keys_are_faults_only_of_data_that_must_be_exact() -> None:
    data = {"type": "text", "text": 5, "new": 1}
    with pytest.raises(CodecError) as caught:
        load(Block, data)
    assert str(caught.value) == "expected `str`, got `int`: 5 @ $.text"
    with pytest.raises(CodecError) as caught:
        load(Block, data, exact=True)
    fault = "extra fields found (new) @ $; expected `str`, got `int`: 5 @ $.text"
    assert str(caught.value) == fault
    with pytest.raises(CodecError) as caught:
        load(Block, {"type": "text", "text": 5}, exact=True)
    assert str(caught.value) == "expected `str`, got `int`: 5 @ $.text"


# (a source without a file, or with one that is allowed; whether files are)
ALLOWED: list[tuple[dict[str, Any], bool]] = [
    ({"type": "file", "path": "a.png"}, True),
    ({"type": "url", "url": "file:///a.png"}, True),
    ({"type": "url", "url": "https://a.example/file:"}, False),
]


@pytest.mark.parametrize(("source", "allow_files"), ALLOWED)
def test_a_source_that_names_no_file_or_an_allowed_one_is_no_fault(
    source: dict[str, Any], allow_files: bool
) -> None:
    with pytest.raises(CodecError) as caught:
        load(
            Block, {"type": "image", "source": {**source, "media_type": 5}}, allow_files=allow_files
        )
    fault = "expected a media type, for example image/png: 5 @ $.source.media_type"
    assert str(caught.value) == fault
    image: Any = load(Block, {"type": "image", "source": source}, allow_files=allow_files)
    assert dump(image.source) == source


@pytest.mark.parametrize("form", [dict, MappingProxyType])
def test_a_mapping_is_read_as_a_dict_is(form: Callable[[dict[str, Any]], Any]) -> None:
    usage = form({"input": 1.0, "extra": {"tier": "x"}, "reported": True})
    message = form({"role": "assistant", "content": "x", "usage": usage})
    read = Usage(1, extra={"tier": "x"}, reported=True)
    assert load(Message, message) == AssistantMessage("x", usage=read)
    unknown = form({"messages": [], "colour": "red", "age": 5})
    assert load(Context, unknown) == Context([])
    with pytest.raises(CodecError) as caught:
        load(Context, unknown, exact=True)
    assert str(caught.value) == "extra fields found (age, colour) @ $"


# (what is read, data with an unknown key, its place)
INEXACT: list[tuple[Any, Any, str]] = [
    (Event, {"type": "start", "new": 1}, "$"),
    (Message, {"role": "user", "content": [{"type": "text", "text": "x", "new": 1}]},
     "$.content[0]"),
    (Message, {"role": "user", "content": ({"type": "text", "text": "x", "new": 1},)},
     "$.content[0]"),
    (Message, {"role": "assistant", "content": "x", "usage": {"input": 1, "new": 1}}, "$.usage"),
    (Context, {"messages": [USER, {**USER, "new": 1}]}, "$.messages[1]"),
    (Context, {"messages": [], "tools": [{"name": "f", "new": 1}]}, "$.tools[0]"),
    (list[Message], [USER, {**USER, "new": 1}], "$[1]"),
    (dict[str, Tool], {"a": {"name": "a"}, "b": {"name": "b", "new": 1}}, "$['b']"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "data", "place"), INEXACT)
def test_an_unknown_key_at_any_depth_is_a_fault_of_data_that_must_be_exact(
    kind: Any, data: Any, place: str
) -> None:
    load(kind, data)
    with pytest.raises(CodecError) as caught:
        load(kind, data, exact=True)
    assert str(caught.value) == f"extra fields found (new) @ {place}"


def test_exact_data_of_any_depth_is_read() -> None:
    tool = {"name": "f", "parameters": {"new": 1}, "metadata": {"acme": {"new": 1}}}
    message = {"role": "assistant", "content": [{"type": "text", "text": "x"}], "usage": {}}
    context = load(Context, {"messages": [message], "tools": [tool]}, exact=True)
    assert context == Context(
        [AssistantMessage("x", usage=Usage())],
        tools=[Tool("f", parameters={"new": 1}, metadata={"acme": {"new": 1}})],
    )


def test_data_without_a_tag_is_read_as_the_only_class_that_it_may_be() -> None:
    read = load(AssistantMessage, {"content": "x", "usage": {"input": 1.0}})
    assert read == AssistantMessage("x", usage=Usage(1))


def test_data_that_is_too_deep_is_refused() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(CodecError):
        load(Message, {"role": "user", "content": deep})


def test_files_may_be_named_again_after_data_was_read() -> None:
    for data in (USER, {"role": "critic"}):
        with suppress(CodecError):
            load(Message, data)
        assert FileSource("a.png").path == "a.png"
        assert UrlSource("file:///a.png").url == "file:///a.png"


def test_a_whole_number_may_be_written_as_a_float_and_seconds_as_a_whole_number() -> None:
    event = load(Event, {"type": "text_start", "content_index": 1.0})
    assert event == TextStart(1)
    assert load(dict[str, Usage], {"a": {"input": 1.0}}) == {"a": Usage(1)}
    assert load(Event, {"type": "error", "retry_after": 5}) == Error(retry_after=5.0)
