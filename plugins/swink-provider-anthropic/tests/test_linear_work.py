"""The work of the parser is linear in the size of the answer."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from messages_api import CITATION, block, ended

from swink_provider_anthropic.parser import MessagesParser
from swink_test_helpers.growing_work import LINEAR, growth, parsing


def _citations_of_a_new_block(n: int) -> list[bytes]:
    cited = {"type": "citations_delta", "citation": CITATION}
    return [json.dumps(frame).encode() for frame in block(0, {"type": "new"}, *[cited] * n)]


def _counts(n: int) -> list[bytes]:
    return [json.dumps(ended(None, usage={f"count_{at}": at})).encode() for at in range(n)]


ROWS = [("citations of a new block", _citations_of_a_new_block, 2000), ("counts", _counts, 500)]


@pytest.mark.parametrize(
    ("frames", "count"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_work_is_linear(frames: Callable[[int], list[bytes]], count: int) -> None:
    assert growth(parsing(MessagesParser, frames), count) < LINEAR
