"""System prompts of a conversation and the paths of system messages."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from swink_core import (
    Block,
    Context,
    ExtensionBlock,
    Message,
    SystemMessage,
    TextBlock,
    UserMessage,
)
from swink_core.providers import paths_inside, system_blocks, without_leading

HELLO = UserMessage("Hi")
MARKED = TextBlock("marked", {"mark": 1})
ODD = ExtensionBlock("acme", "odd", {})

# (name, system prompt, leading system messages, blocks of the system prompt)
SYSTEM: list[tuple[str, Any, list[Message], list[Block]]] = [
    ("nothing", None, [], []),
    ("a text", "a", [], [TextBlock("a")]),
    ("empty texts", "", [SystemMessage("")], []),
    (
        "texts",
        "a",
        [SystemMessage("b"), SystemMessage([TextBlock("c")])],
        [TextBlock("a\n\nb\n\nc")],
    ),
    (
        "several blocks",
        "a",
        [SystemMessage([TextBlock("b"), TextBlock("c")])],
        [TextBlock("a"), TextBlock("b"), TextBlock("c")],
    ),
    ("metadata", [MARKED], [SystemMessage("b")], [MARKED, TextBlock("b")]),
    ("an extension", "a", [SystemMessage([ODD])], [TextBlock("a"), ODD]),
    ("only an extension", None, [SystemMessage([ODD])], [ODD]),
    ("blank blocks", [MARKED, TextBlock(" ")], [SystemMessage("")], [MARKED]),
]


@pytest.mark.parametrize(
    ("prompt", "leading", "blocks"),
    [row[1:] for row in SYSTEM],
    ids=[row[0].replace(" ", "-") for row in SYSTEM],
)
def test_a_system_prompt_is_one_text_unless_it_has_several_blocks_metadata_or_an_extension(
    prompt: Any, leading: list[Message], blocks: list[Block]
) -> None:
    later: list[Message] = [HELLO, SystemMessage("later"), HELLO]
    context = Context([*leading, *later], prompt)
    before = copy.deepcopy(context)
    found, rest = system_blocks(context)
    assert found == blocks
    assert (rest.messages, rest.system_prompt or None) == (later, None)
    assert context == before


INSIDE: list[Message] = [SystemMessage("a"), HELLO, SystemMessage("b"), HELLO, SystemMessage("c")]


@pytest.mark.parametrize(
    ("messages", "removed", "paths"),
    [
        ([], 0, []),
        (INSIDE[:1], 0, []),
        (INSIDE[:2], 0, []),
        (INSIDE, 0, ["messages[2]", "messages[4]"]),
        (INSIDE, 1, ["messages[2]", "messages[4]"]),
        (INSIDE, 2, ["messages[4]"]),
    ],
)
def test_paths_of_system_messages_inside_count_the_messages_that_were_removed(
    messages: list[Message], removed: int, paths: list[str]
) -> None:
    context = without_leading(Context([*messages]), removed)
    assert [*paths_inside(context)] == paths
