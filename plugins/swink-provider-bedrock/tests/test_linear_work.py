"""The work of the parser is linear in the size of the answer."""

from __future__ import annotations

import base64
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
import pytest
from converse import START, USAGE, delta, encode, event, header, tool_use

from swink_core.providers import EventWriter
from swink_provider_bedrock.eventstream import EventStreamDecoder
from swink_provider_bedrock.parser import ConverseParser
from swink_test_helpers.growing_work import LINEAR, growth, parsing
from swink_testing.freeze import FREEZE, HOSTILE_SIZE, cpu_seconds
from swink_testing.oversized_json import inflated

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


# what the payload of a message is, by its type
PAYLOADS: list[tuple[str, dict[str, Any]]] = [
    ("messageStart", {"role": "assistant"}),
    ("contentBlockStart", {"contentBlockIndex": 0, "start": tool_use("t", "look")}),
    ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "Hi"}}),
    ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"toolUse": {"input": "{}"}}}),
    (
        "contentBlockDelta",
        {"contentBlockIndex": 0, "delta": {"reasoningContent": {"text": "Hm", "signature": "S"}}},
    ),
    ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"citation": {"title": "a"}}}),
    ("messageStop", {"stopReason": "end_turn", "additionalModelResponseFields": {"a": [1]}}),
    ("metadata", {"usage": USAGE, "trace": {"guardrail": {"actionReason": "no"}}}),
    ("throttlingException", {"message": "no", "originalMessage": "no"}),
]


@pytest.mark.parametrize(("kind", "payload"), PAYLOADS)
def test_no_message_holds_the_loop(kind: str, payload: dict[str, Any]) -> None:
    is_error = kind.endswith("Exception")
    headers = {f":{'exception' if is_error else 'event'}-type": kind}
    headers[":message-type"] = "exception" if is_error else "event"
    for where, body in inflated(payload, HOSTILE_SIZE):
        seconds = cpu_seconds(partial(_read, encode(headers, body)))
        assert seconds < FREEZE, where


HEADERS = {
    "many": b"".join(header(f"h{at}", 7, b"\0\1x") for at in range(10_000)),
    "long": header("a", 6, b"\xff\xff" + b"x" * 65_535),
    "booleans": b"\1a\0" * 43_000,
}


@pytest.mark.parametrize("headers", HEADERS.values(), ids=HEADERS)
def test_no_header_of_a_message_holds_the_loop(headers: bytes) -> None:
    message = encode(headers, b"{}")
    assert cpu_seconds(lambda: _read(message)) < FREEZE


def _read(message: bytes) -> None:
    parser, out = ConverseParser(), EventWriter()
    for frame in EventStreamDecoder().feed(START + message):
        with suppress(ValueError, msgspec.DecodeError, RecursionError):  # it does not parse
            parser.feed(frame, out)
    out.close()
