"""The work of the parsers is linear in the size of the answer."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from swink_core.providers import Parser
from swink_provider_openai.dialect import Dialect
from swink_provider_openai.parser import ChatParser
from swink_provider_openai.responses.parser import ResponsesParser
from swink_provider_openai.several import with_several
from swink_test_helpers.growing_work import LINEAR, growth, parsing

_json = msgspec.json.encode
LONG = "x" * 400


def _space(n: int) -> list[bytes]:
    return [_json({"choices": [{"index": 0, "delta": {"content": " " * 400}}]})] * n


def _said_again(n: int) -> list[bytes]:
    item = {"type": "message", "id": "m"}
    said = {"output_index": 0, "content_index": 0}
    return [
        _json({"type": "response.output_item.added", "output_index": 0, "item": item}),
        *[
            _json({"type": f"response.output_text.{kind}", **said, **text})
            for _ in range(n)
            for kind, text in (("delta", {"delta": LONG}), ("done", {"text": "x"}))
        ],
    ]


def _items_by_id(n: int) -> list[bytes]:
    kinds = ("response.output_item.added", "response.output_item.done")
    items = [{"type": "web_search_call", "id": f"ws_{at}"} for at in range(n)]
    return [_json({"type": kind, "item": item}) for kind in kinds for item in items]


def _calls_of_another_choice(n: int) -> list[bytes]:
    calls = [{"index": at, "id": f"c{at}", "function": {"arguments": LONG}} for at in range(n)]
    deltas = [{"content": LONG, "tool_calls": [call]} for call in calls]
    return [_json({"choices": [{"index": 1, "delta": delta}]}) for delta in deltas]


ROWS: list[tuple[str, Callable[[], Parser], Callable[[int], list[bytes]], int]] = [
    ("space before reasoning", lambda: ChatParser(Dialect(think_tags=True)), _space, 2000),
    ("text said again", ResponsesParser, _said_again, 1000),
    ("items without an index", ResponsesParser, _items_by_id, 500),
    ("another choice", lambda: with_several(ChatParser(), 2), _calls_of_another_choice, 500),
]


@pytest.mark.parametrize(
    ("parser", "frames", "count"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_work_is_linear(
    parser: Callable[[], Parser], frames: Callable[[int], list[bytes]], count: int
) -> None:
    assert growth(parsing(parser, frames), count) < LINEAR
