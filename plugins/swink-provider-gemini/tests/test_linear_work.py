"""The work of the parser is linear in the size of the answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from generate_content import frame, text

from swink_provider_gemini.parser import GenerateContentParser
from swink_test_helpers.growing_work import LINEAR, growth, parsing


def _cites(start: int, stop: int) -> dict[str, Any]:
    sources = [{"uri": f"https://example.com/{n}"} for n in range(start, stop)]
    return {"citationMetadata": {"citationSources": sources}}


def _in_a_frame(n: int) -> list[bytes]:
    return [json.dumps(frame(**_cites(0, n))).encode()]


def _in_turn(n: int) -> list[bytes]:
    return [json.dumps(frame(text("x"), **_cites(at, at + 1))).encode() for at in range(n)]


ROWS = [("citations in a frame", _in_a_frame, 500), ("citations in turn", _in_turn, 1000)]


@pytest.mark.parametrize(
    ("frames", "count"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_work_is_linear(frames: Callable[[int], list[bytes]], count: int) -> None:
    assert growth(parsing(GenerateContentParser, frames), count) < LINEAR
