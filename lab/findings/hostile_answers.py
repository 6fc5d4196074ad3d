"""Print how long an answer that a hostile server chose holds the event loop.

    python -m lab.findings.hostile_answers

Each kind of answer is read at doubled sizes. Work in proportion to the size doubles; work that
grows by the square of the size makes four times as much.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import msgspec

from swink.partial import json_in, partial_json
from swink_core import Host, Model
from swink_testing.driver import run_bytes
from swink_testing.freeze import cpu_seconds

SIZES = (20_000, 40_000, 80_000, 160_000)
"""Bytes of the answer."""

MODEL = Model("groq", "openai/gpt-oss-120b")


def _quietly(read: Callable[[str], object], text: str) -> Callable[[], object]:
    def work() -> None:
        with contextlib.suppress(ValueError):
            read(text)

    return work


def fenced(size: int) -> Callable[[], object]:
    """Read JSON between fences that ends in nothing but newlines."""
    return _quietly(json_in, '```json\n{"a":1' + "\n" * size)


def partial(size: int) -> Callable[[], object]:
    """Read the beginning of a long list, once."""
    return _quietly(partial_json, '{"a":[' + '"x",' * (size // 4))


def _chunk(calls: list[dict[str, object]]) -> bytes:
    choice = {"index": 0, "delta": {"tool_calls": calls}, "finish_reason": None}
    return b"data: " + msgspec.json.encode({"choices": [choice]}) + b"\n\n"


def stray_fragments(size: int) -> Callable[[], object]:
    """Read a long tool call and then fragments of calls that were never opened."""
    function = {"name": "look", "arguments": '{"q":"' + "x" * size}
    opened: dict[str, object] = {"index": 0, "id": "call_0", "function": function}
    pieces = [_chunk([opened])]
    for number in range(64):
        pieces.append(_chunk([{"index": number + 1, "function": {"arguments": '"}'}}]))
    provider = Host(environ={}).bind(MODEL.provider).provider
    return lambda: run_bytes(provider, MODEL, [b"".join(pieces)])


def nested(size: int) -> Callable[[], object]:
    """Read one frame that is brackets and nothing else."""
    body = b'data: {"choices":' + b"[" * size + b"\n\n"
    provider = Host(environ={}).bind(MODEL.provider).provider
    return lambda: run_bytes(provider, MODEL, [body])


KINDS = (fenced, partial, stray_fragments, nested)


def main() -> None:
    """Print one line for each kind of answer."""
    print(f"{'bytes':32}", *(f"{size:>9,}" for size in SIZES))
    for kind in KINDS:
        seconds = [cpu_seconds(kind(size), 0.0) for size in SIZES]
        shown = (f"{each * 1000:6.1f} ms" for each in seconds)
        print(f"{kind.__name__.replace('_', ' '):32}", *shown)


if __name__ == "__main__":
    main()
