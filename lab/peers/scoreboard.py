"""The same faults before swink and its peers: `python -m lab.peers.scoreboard`.

The chaos server speaks OpenAI's dialect and fails in known ways; each library asks it, with its
own defaults and a time limit, and what its user sees is written down: the whole answer, an error,
or an answer that lacks something without a word of it. Peers are installed beside
(`make scoreboard` does it); those that are not there are left out.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from swink_core.providers import SSEDecoder
from swink_testing.chaos import (
    META_ONLY,
    PAGE,
    Answer,
    ChaosServer,
    Claim,
    Cut,
    Drip,
    Fault,
    Gzip,
    Huge,
    Insert,
    Instead,
    Late,
    Length,
    Redirect,
    Says,
    Stall,
)

ROOT = Path(__file__).resolve().parents[2]
PAGE_FILE = ROOT / "docs" / "reference" / "fault-scoreboard.md"
SCRIPT = Path(__file__).with_name("scoreboard_peers.py")
PEERS = {
    "openai": "openai",
    "litellm": "litellm",
    "langchain-openai": "langchain",
    "pydantic-ai-slim": "pydantic-ai",
}
"""Environments of the libraries that swink is compared with."""

LIBRARIES = ("swink-core", *PEERS)

LIMIT_SECONDS = 1.0
STUCK_SECONDS = 15 * 60

WORDS = ["Two", " flashes", " every", " ten", " seconds,", " so", " that", " sailors", " know", "."]
TEXT = "".join(WORDS)
DONE = b"data: [DONE]\n\n"
ERROR = {"error": {"message": "The server had an error", "type": "server_error", "code": None}}


def _chunk(**fields: Any) -> bytes:
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return b"data: " + json.dumps({**head, **fields}).encode() + b"\n\n"


def _choice(delta: dict[str, str], finish: str | None = None) -> bytes:
    return _chunk(choices=[{"index": 0, "delta": delta, "finish_reason": finish}])


def _frames(words: list[str]) -> list[bytes]:
    usage = {"prompt_tokens": 3, "completion_tokens": 10, "total_tokens": 13}
    return [
        _choice({"role": "assistant", "content": ""}),
        *[_choice({"content": word}) for word in words],
        _choice({}, "stop"),
        _chunk(choices=[], usage=usage),
        DONE,
    ]


FRAMES = _frames(WORDS)
GOOD = Answer.of_body(b"".join(FRAMES), SSEDecoder)
HALF = len(b"".join(FRAMES[:6]))
FINISHED = len(b"".join(FRAMES[:12]))
CONTROL = FRAMES[6].replace(b" so", b"\x00so")
BRACE = FRAMES[6].replace(b"}\n\n", b"\n\n")


class Row(NamedTuple):
    """The server's behaviour, and whether the whole answer or an error is right (or either).

    Of several `calls` with one client, with time to spare between them, the last one counts.
    """

    what: str
    faults: list[Fault]
    right: str
    calls: int = 1


def _says(body: bytes) -> Instead:
    return Instead(200, body, "text/event-stream")


def _with(number: int, frame: bytes) -> Instead:
    return _says(b"".join([*FRAMES[:number], frame, *FRAMES[number + 1 :]]))


def _limited(retry_after: str) -> Instead:
    return Instead(429, headers={"Retry-After": retry_after})


OTHER_WORDS = ["The", " answer", " to", " somebody", " else."]
NOT_ASKED_FOR = b"".join(_frames(OTHER_WORDS))

ROWS = [
    Row("nothing wrong", [Fault()], "whole"),
    Row("no `[DONE]`", [_says(b"".join(FRAMES[:-1]))], "whole"),
    Row("last frame without its blank line", [_says(GOOD.body[:-2])], "whole"),
    Row("CRLF line ends", [_says(GOOD.body.replace(b"\n", b"\r\n"))], "whole"),
    Row("cut anywhere by the network (7 bytes a write)", [Drip(7, 0.0005)], "whole"),
    Row("comments between frames", [Insert(b": PROCESSING\n\n", (0, 3, 8))], "whole"),
    Row("`retry:` and `id:` without data", [Insert(META_ONLY, (0, 5))], "whole"),
    Row("compressed", [Gzip()], "whole"),
    Row("closed after the finish reason", [Cut(FINISHED)], "whole"),
    Row("503, then good", [Instead(503), Fault()], "whole"),
    Row("429 with `Retry-After: 0`, then good", [_limited("0"), Fault()], "whole"),
    Row("closed before an answer, then good", [Cut(), Fault()], "whole"),
    Row("429 with 8,000 digits to wait, then good", [_limited("1" * 8000), Fault()], "either"),
    Row("noise between frames (`data: ping`)", [Insert(b"data: ping\n\n", (6,))], "whole"),
    Row("frames after `[DONE]`", [_says(GOOD.body + b"".join(FRAMES[1:4]))], "whole"),
    Row("a late answer without a request, then a call", [Late(NOT_ASKED_FOR)], "whole", 2),
    Row("a content frame with a control character", [_with(6, CONTROL)], "error"),
    Row("a content frame that lost its last brace", [_with(6, BRACE)], "error"),
    Row("`[DONE]` alone", [_says(DONE)], "error"),
    Row("`[DONE]` in the middle, no finish reason", [_says(GOOD.body[:HALF] + DONE)], "error"),
    Row("ends in the middle, cleanly", [_says(GOOD.body[:HALF])], "error"),
    Row("closed in the middle", [Cut(HALF)], "error"),
    Row("reset in the middle", [Cut(HALF, reset=True)], "error"),
    Row("less than its `Content-Length`", [Length(-(len(GOOD.body) - HALF))], "error"),
    Row("compressed, and cut", [Gzip(0.6)], "error"),
    Row("claims to be compressed", [Claim("gzip")], "error"),
    Row("an error object at the start", [Says(ERROR)], "error"),
    Row("an error object in the middle", [Says(ERROR, 6)], "error"),
    Row("silent from the start", [Stall(0)], "error"),
    Row("silent in the middle", [Stall(HALF)], "error"),
    Row("keep-alive comments forever", [Drip(every=0.05, comments=True)], "error"),
    Row("an empty 200", [_says(b"")], "error"),
    Row("comments and `retry:` alone", [_says(META_ONLY)], "error"),
    Row("a proxy's HTML page with a 200", [Instead(200, PAGE, "text/html")], "error"),
    Row("a redirect to itself", [Redirect()], "error"),
    Row("a frame of 100 MB", [Huge(100 * 1024 * 1024, at=3)], "error"),
]


class Column(NamedTuple):
    """A library, its version, and what it made of each row."""

    library: str
    version: str
    outcomes: list[dict[str, Any]]


def python_of(environment: str) -> Path:
    """Return the interpreter of a peer's environment, which may not be there."""
    return ROOT / ".venv-peers" / environment / "bin" / "python"


def ask(library: str, given: list[str]) -> Column | None:
    """Put a library before every fault, an address and a number of calls each; `None` where it is
    not installed."""
    python = python_of(PEERS[library]) if library in PEERS else Path(sys.executable)
    if not python.exists():
        return None
    done = subprocess.run(
        [str(python), str(SCRIPT), library, str(LIMIT_SECONDS)],
        input="\n".join(given),
        capture_output=True,
        text=True,
        timeout=STUCK_SECONDS,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        print(f"{library} is left out: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return None
    return Column(library, lines[0]["version"], lines[1:])


def verdict(row: Row, outcome: dict[str, Any]) -> tuple[bool, str]:
    """Tell whether an outcome is right, and say it in a word or two."""
    if outcome["hung"]:
        return False, "hangs"
    if outcome["error"] is not None:
        return row.right in ("error", "either"), outcome["error"]
    if outcome["text"] == TEXT and row.right in ("whole", "either"):
        return True, "whole"
    if outcome["text"] == "".join(OTHER_WORDS):
        return False, "another's"
    if row.right == "error":
        return False, f"silent, {len(outcome['text']) * 100 // len(TEXT)} %"
    return False, f"lost, {len(outcome['text']) * 100 // len(TEXT)} %"


def page(columns: list[Column]) -> str:
    """Write the page."""
    head = " | ".join(f"{column.library} {column.version}" for column in columns)
    lines = [f"| the server | right is | {head} |", "|---" * (len(columns) + 2) + "|"]
    right = [0] * len(columns)
    for number, row in enumerate(ROWS):
        cells = []
        for place, column in enumerate(columns):
            good, word = verdict(row, column.outcomes[number])
            right[place] += good
            cells.append(f"{'✓' if good else '✗'} {word}")
        lines.append(f"| {row.what} | {row.right} | {' | '.join(cells)} |")
    totals = " | ".join(f"**{count} of {len(ROWS)}**" for count in right)
    lines.append(f"| | | {totals} |")
    return f"""\
# Fault scoreboard

<!-- Generated by `make scoreboard` (lab/peers/scoreboard.py). -->

What the user of a library sees when a server that speaks OpenAI's dialect misbehaves. Every library
is asked to stream, as its manual shows, with its own defaults and a time limit of
{LIMIT_SECONDS:g} s; Python {sys.version_info.major}.{sys.version_info.minor}, loopback.

*whole* is the whole answer; a name is the exception that was raised; *silent* is an answer that
lacks something, or everything, and ends like a success; *lost* is less than the server sent;
*another's* is an answer to nobody's question; *hangs* is nothing within ten times the limit. Where
*either* is right, so is the whole answer or an error, but never a part of the answer as if it were
all.

{chr(10).join(lines)}
"""


def main() -> None:
    """Ask all libraries and write the page."""
    parser = argparse.ArgumentParser(description="Put swink and its peers before the same faults.")
    parser.add_argument("--only", help="libraries, separated by commas; the page is printed")
    only = parser.parse_args().only
    wanted = only.split(",") if only else LIBRARIES
    columns = []
    for library in wanted:
        with ChaosServer() as chaos:
            given = [
                f"{chaos.add(f'row{n}', GOOD, *row.faults)} {row.calls}"
                for n, row in enumerate(ROWS)
            ]
            column = ask(library, given)
        if column is not None and len(column.outcomes) == len(ROWS):
            columns.append(column)
            print(library, column.version, file=sys.stderr)
    if only:
        print(page(columns))
    else:
        PAGE_FILE.write_text(page(columns), "utf-8")


if __name__ == "__main__":
    main()
