"""The metadata of blocks: merged, and measured in characters."""

from __future__ import annotations

from typing import Any

import pytest

from swink_core.providers import MalformedFrame
from swink_core.providers.open_blocks import TEXT, THINKING, Metadata, OpenBlock, Run, measured
from swink_core.vocabulary.depth import MAX_DEPTH
from swink_core.vocabulary.events import TextEnd, TextStart, ThinkingEnd, ThinkingStart


def nested(levels: int) -> Any:
    value: Any = "x" * 2 * MAX_DEPTH
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 50_000])
def test_data_that_are_too_deep_are_malformed(levels: int) -> None:
    with pytest.raises(MalformedFrame, match="deeper than 128 levels"):
        measured(nested(levels))


# (data, size in characters)
SIZES: list[tuple[Any, int]] = [
    ("abc", 5),
    ([1, 2], 5),
    ({"a": None}, 10),
    (nested(MAX_DEPTH), 2 * MAX_DEPTH + 2 + 2 * MAX_DEPTH),
    (5j, 2),
    (2**70, len(str(2**70))),
]


@pytest.mark.parametrize(("data", "size"), SIZES, ids=[repr(row[0])[:20] for row in SIZES])
def test_data_are_as_long_as_their_json(data: Any, size: int) -> None:
    assert measured(data) == size


def test_metadata_grow_by_what_is_new() -> None:
    metadata = Metadata()
    assert metadata.merge({"id": "ab"}) == 2 + 4
    assert metadata.merge({"id": "abcd"}) == 2
    cited: list[Any] = ["x"]
    assert metadata.merge({"cited": cited}) == 5 + 5
    cited.append("yy")
    assert metadata.merge({"cited": cited}) == 6
    cited += ["z", "z"]
    assert metadata.merge({"cited": cited, "n": 1}) == 9 + 2
    assert metadata.merge({"cited": ["x"]}) == 10 - (5 + 5 + 6 + 9)
    assert metadata.data == {"id": "abcd", "cited": ["x"], "n": 1}


def test_a_block_begins_without_an_index_and_metadata() -> None:
    block = OpenBlock("k")
    assert (block.key, block.index, block.metadata) == ("k", -1, None)
    assert block.note({"id": "ab"}) == 6
    assert block.metadata == {"id": "ab"}


def test_a_run_of_text_or_thinking_opens_and_closes_its_block() -> None:
    text = Run(None, 2, kind=TEXT)
    assert (text.start(), text.end()) == (TextStart(2), TextEnd(2))
    text.note({"a": 1})
    assert text.end() == TextEnd(2, {"a": 1})
    thinking = Run(None, 3, kind=THINKING)
    assert (thinking.start(), thinking.end()) == (ThinkingStart(3), ThinkingEnd(3))
    thinking.signature, thinking.redacted = "s", True
    thinking.note({"a": 1})
    assert thinking.end() == ThinkingEnd(3, "s", True, {"a": 1})
