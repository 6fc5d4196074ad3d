"""Notices for parts of a conversation that an API accepts only in another form, or not at all."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import pytest

from swink_core import (
    Context,
    ExtensionBlock,
    Model,
    SystemMessage,
    TextBlock,
    Tool,
    UserMessage,
)
from swink_core.providers.features import context_notices

HI = UserMessage("Hi")
JOINED = "acme/m accepts system text only as one string; the blocks were joined"
MOVED = "acme/m: system messages inside the conversation were sent as marked user messages"
STRICT = "acme/m does not support strict schemas of tools; strict was not sent"
MARKED = TextBlock("a", metadata={"cache": 1, "ttl": 2})
BLANK = TextBlock(" ", metadata={"cache": 1})
OWN = ExtensionBlock("acme", "x", {"a": 1}, metadata={"cache": 1})


def _left_out(path: str, *names: str) -> tuple[str, str, tuple[str, ...]]:
    said = f"{path}.metadata: acme/m does not support {', '.join(names)}; it was not sent"
    return "option_ignored", said, tuple(f"{path}.metadata.{name}" for name in names)


# (what, the features of the API, its marks, the conversation, the notices)
ROWS: list[tuple[str, set[str], Container[str] | None, Context, list[Any]]] = [
    ("no system text", set(), None, Context([HI]), []),
    ("a text", set(), None, Context([SystemMessage("a"), HI], system_prompt="b"), []),
    ("one block", set(), None, Context([HI], system_prompt=[TextBlock("a")]), []),
    (
        "blocks of the prompt",
        set(),
        None,
        Context([HI], system_prompt=[TextBlock("a"), TextBlock("b")]),
        [("system_blocks_joined", f"system_prompt: {JOINED}", ("system_prompt",))],
    ),
    (
        "blocks of a message after a text",
        {"system_messages"},
        None,
        Context([SystemMessage("a"), HI, SystemMessage([TextBlock("b"), TextBlock("c")])]),
        [("system_blocks_joined", f"messages[2].content: {JOINED}", ("messages[2].content",))],
    ),
    (
        "blocks for an API that accepts blocks",
        set(),
        (),
        Context([HI], system_prompt=[TextBlock("a"), TextBlock("b")]),
        [],
    ),
    (
        "metadata for an API that accepts a string",
        set(),
        None,
        Context([HI], system_prompt=[MARKED]),
        [_left_out("system_prompt[0]", "cache", "ttl")],
    ),
    (
        "metadata for an API that accepts blocks without metadata",
        set(),
        (),
        Context([SystemMessage([TextBlock("b"), MARKED]), HI]),
        [_left_out("messages[0].content[1]", "cache", "ttl")],
    ),
    (
        "metadata for an API that accepts one of the fields",
        set(),
        {"cache"},
        Context([HI], system_prompt=[MARKED, TextBlock("b"), MARKED]),
        [_left_out("system_prompt[0]", "ttl"), _left_out("system_prompt[2]", "ttl")],
    ),
    (
        "metadata for an API that accepts the fields",
        set(),
        {"cache", "ttl"},
        Context([HI], system_prompt=[MARKED]),
        [],
    ),
    (
        "metadata of a blank text",  # which is not sent
        set(),
        {"cache"},
        Context([HI], system_prompt=[TextBlock("a"), BLANK]),
        [_left_out("system_prompt[1]", "cache")],
    ),
    (
        "metadata of an extension",
        set(),
        {"cache"},
        Context([HI], system_prompt=[OWN]),
        [_left_out("system_prompt[0]", "cache")],
    ),
    (
        "messages inside the conversation",
        set(),
        None,
        Context([SystemMessage("a"), HI, SystemMessage("b"), SystemMessage("c")]),
        [("system_message_moved", MOVED, ("messages[2]", "messages[3]"))],
    ),
    (
        "messages inside the conversation, after the losses of the prompt",
        set(),
        None,
        Context([HI, SystemMessage("b")], system_prompt=[MARKED]),
        [
            _left_out("system_prompt[0]", "cache", "ttl"),
            ("system_message_moved", MOVED, ("messages[1]",)),
        ],
    ),
    (
        "messages inside the conversation for an API that accepts them",
        {"system_messages"},
        None,
        Context([HI, SystemMessage("b")]),
        [],
    ),
    (
        "strict tools",
        set(),
        None,
        Context([HI], tools=[Tool("f", strict=True), Tool("g"), Tool("h", strict=True)]),
        [("option_ignored", STRICT, ("tools[0].strict", "tools[2].strict"))],
    ),
    (
        "tools that are not strict",
        set(),
        None,
        Context([HI], tools=[Tool("f", strict=False), Tool("g")]),
        [],
    ),
    (
        "strict tools for an API that enforces schemas",
        {"strict"},
        None,
        Context([HI], tools=[Tool("f", strict=True)]),
        [],
    ),
]


@pytest.mark.parametrize(
    ("features", "marks", "context", "said"),
    [row[1:] for row in ROWS],
    ids=[row[0].replace(" ", "-") for row in ROWS],
)
def test_a_notice_tells_what_is_sent_in_another_form_and_where(
    features: set[str], marks: Container[str] | None, context: Context, said: list[Any]
) -> None:
    found = context_notices(features, Model("acme", "m"), context, marks)
    assert [(notice.code, notice.detail, notice.paths) for notice in found] == said
