"""A notice reports each value of a conversation that the API does not support, with its path."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import pytest

from swink_core import (
    Context,
    ExtensionBlock,
    Message,
    Model,
    SystemMessage,
    TextBlock,
    Tool,
    UserMessage,
)
from swink_core.providers import context_notices


class Rules(SystemMessage):
    """A system message of a class that is not swink's."""


MODEL = Model("acme", "m")
HELLO = UserMessage("Hi")
MARKED = TextBlock("Rules.", {"odd": 1, "mark": 2})
INSIDE: list[Message] = [SystemMessage("a"), HELLO, SystemMessage("b"), HELLO, SystemMessage("c")]
JOINED = "acme/m accepts system text only as one string; the blocks were joined"
MOVED = "acme/m: system messages inside the conversation were sent as marked user messages"


def context_of(*messages: Message, **more: Any) -> Context:
    return Context([*messages], **more)


# (name, features, conversation, the marks that system text may have, notices)
NOTICES: list[
    tuple[str, set[str], Context, Container[str] | None, list[tuple[str, str, tuple[str, ...]]]]
] = [
    ("nothing", set(), context_of(HELLO), None, []),
    ("a leading system message", set(), context_of(*INSIDE[:2]), None, []),
    ("only system messages", set(), context_of(*INSIDE[:1]), None, []),
    (
        "system messages inside",
        set(),
        context_of(*INSIDE),
        None,
        [("system_message_moved", MOVED, ("messages[2]", "messages[4]"))],
    ),
    (
        "system messages of a derived class",
        set(),
        context_of(HELLO, Rules("a")),
        None,
        [("system_message_moved", MOVED, ("messages[1]",))],
    ),
    ("system messages that have a place", {"system_messages"}, context_of(*INSIDE), None, []),
    (
        "joined blocks",
        set(),
        context_of(HELLO, system_prompt=[TextBlock("a"), TextBlock("b")]),
        None,
        [("system_blocks_joined", f"system_prompt: {JOINED}", ("system_prompt",))],
    ),
    (
        "joined blocks of a message",
        set(),
        context_of(SystemMessage([TextBlock("a"), TextBlock("b")]), HELLO),
        None,
        [("system_blocks_joined", f"messages[0].content: {JOINED}", ("messages[0].content",))],
    ),
    ("one block", set(), context_of(SystemMessage([TextBlock("a")]), HELLO), None, []),
    (
        "separate blocks",
        set(),
        context_of(HELLO, system_prompt=[TextBlock("a"), TextBlock("b")]),
        (),
        [],
    ),
    (
        "metadata",
        {"system_messages"},
        context_of(HELLO, SystemMessage([TextBlock("a"), MARKED])),
        (),
        [
            (
                "option_ignored",
                "messages[1].content[1].metadata: acme/m does not support mark, odd; "
                "it was not sent",
                ("messages[1].content[1].metadata.mark", "messages[1].content[1].metadata.odd"),
            )
        ],
    ),
    (
        "metadata of text without blocks",
        set(),
        context_of(HELLO, system_prompt=[MARKED]),
        None,
        [
            (
                "option_ignored",
                "system_prompt[0].metadata: acme/m does not support mark, odd; it was not sent",
                ("system_prompt[0].metadata.mark", "system_prompt[0].metadata.odd"),
            )
        ],
    ),
    (
        "metadata with a place",
        set(),
        context_of(HELLO, system_prompt=[MARKED]),
        ("mark",),
        [
            (
                "option_ignored",
                "system_prompt[0].metadata: acme/m does not support odd; it was not sent",
                ("system_prompt[0].metadata.odd",),
            )
        ],
    ),
    (
        "metadata of blank text, which is not sent",
        set(),
        context_of(HELLO, system_prompt=[TextBlock(" ", {"mark": 2})]),
        ("mark",),
        [
            (
                "option_ignored",
                "system_prompt[0].metadata: acme/m does not support mark; it was not sent",
                ("system_prompt[0].metadata.mark",),
            )
        ],
    ),
    (
        "an extension",
        set(),
        context_of(HELLO, system_prompt=[ExtensionBlock("acme", "odd", {})]),
        (),
        [],
    ),
    (
        "strict tools",
        set(),
        context_of(HELLO, tools=[Tool("f"), Tool("g", strict=True)]),
        None,
        [
            (
                "option_ignored",
                "acme/m does not support strict schemas of tools; strict was not sent",
                ("tools[1].strict",),
            )
        ],
    ),
    ("strict is kept", {"strict"}, context_of(HELLO, tools=[Tool("f", strict=True)]), None, []),
]


@pytest.mark.parametrize(
    ("features", "context", "marks", "told"),
    [row[1:] for row in NOTICES],
    ids=[row[0].replace(" ", "-") for row in NOTICES],
)
def test_a_notice_reports_values_that_the_api_does_not_support_with_their_paths(
    features: set[str],
    context: Context,
    marks: Container[str] | None,
    told: list[tuple[str, str, tuple[str, ...]]],
) -> None:
    notices = context_notices(features, MODEL, context, marks)
    assert [(notice.code, notice.detail, notice.paths) for notice in notices] == told
