"""JSON forms: tagged, and silent about what is default. Round trips: test_testing_strategies.py."""

from __future__ import annotations

from typing import Any

import pytest

from swink_core import (
    AssistantMessage,
    CodecError,
    Context,
    Cost,
    Done,
    Error,
    ImageBlock,
    Message,
    StopReason,
    StreamErrorKind,
    TextBlock,
    TextEnd,
    Tool,
    UrlSource,
    Usage,
    UserMessage,
    dump,
    load,
    load_event,
)

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
        (Message, {"role": "critic"}, "unknown role 'critic'; known: user, assistant"),
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
        load_event({"type": "applause"})
