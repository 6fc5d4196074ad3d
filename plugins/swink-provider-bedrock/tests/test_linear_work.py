"""What the parser does for an answer grows with the answer, and no faster."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from converse import delta, event

from swink_provider_bedrock.parser import ConverseParser
from swink_testing.freeze import LINEAR, growth, parsing

LONG = "x" * 400
BYTES = base64.b64encode(LONG.encode()).decode()

# what begins the block, where something does; what its pieces are; how many
ROWS: list[tuple[str, dict[str, Any] | None, dict[str, Any], int]] = [
    ("results", {"toolResult": {}}, {"toolResult": [{"text": "x"}]}, 2000),
    ("a signature", None, {"reasoningContent": {"signature": LONG}}, 2000),
    ("hidden reasoning", None, {"reasoningContent": {"redactedContent": BYTES}}, 500),
    ("an image", {"image": {}}, {"image": {"source": {"bytes": BYTES}}}, 2000),
]


@pytest.mark.parametrize(
    ("start", "piece", "count"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_work_is_linear(start: dict[str, Any] | None, piece: dict[str, Any], count: int) -> None:
    begun = event("contentBlockStart", contentBlockIndex=0, start=start)
    frames = [] if start is None else [begun]

    def pieces(n: int) -> list[bytes]:
        return [*frames, *[delta(0, **piece)] * n, event("contentBlockStop", contentBlockIndex=0)]

    assert growth(parsing(ConverseParser, pieces), count) < LINEAR
