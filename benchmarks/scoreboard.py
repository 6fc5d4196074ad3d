"""The same faults before swink and its peers: `python -m benchmarks.scoreboard`.

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
    Broken,
    ChaosServer,
    Claim,
    Cut,
    Drip,
    Fault,
    Gzip,
    Huge,
    Insert,
    Instead,
    Length,
    Redirect,
    Says,
    Stall,
)

ROOT = Path(__file__).resolve().parent.parent
PAGE_FILE = ROOT / "docs" / "reference" / "fault-scoreboard.md"
PEERS_PYTHON = ROOT / ".venv-peers" / "bin" / "python"
SCRIPT = Path(__file__).with_name("scoreboard_peers.py")
LIBRARIES = ("swink-core", "openai", "litellm", "langchain-openai", "pydantic-ai-slim")

LIMIT_SECONDS = 1.0
STUCK_SECONDS = 15 * 60

WORDS = ["Two", " flashes", " every", " ten", " seconds,", " so", " that", " sailors", " know", "."]
TEXT = "".join(WORDS)
ERROR = {"error": {"message": "The server had an error", "type": "server_error", "code": None}}


def _chunk(**fields: Any) -> bytes:
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return b"data: " + json.dumps({**head, **fields}).encode() + b"\n\n"


def _choice(delta: dict[str, str], finish: str | None = None) -> bytes:
    return _chunk(choices=[{"index": 0, "delta": delta, "finish_reason": finish}])


FRAMES = [
    _choice({"role": "assistant", "content": ""}),
    *[_choice({"content": word}) for word in WORDS],
    _choice({}, "stop"),
    _chunk(choices=[], usage={"prompt_tokens": 3, "completion_tokens": 10, "total_tokens": 13}),
    b"data: [DONE]\n\n",
]
GOOD = Answer.of_body(b"".join(FRAMES), SSEDecoder)
HALF = len(b"".join(FRAMES[:6]))
FINISHED = len(b"".join(FRAMES[:12]))


class Row(NamedTuple):
    """What the server does, and whether the whole answer or an error is right (or either)."""

    what: str
    faults: list[Fault]
    right: str


def _says(body: bytes) -> Instead:
    return Instead(200, body, "text/event-stream")


LIMITED = Instead(429, headers={"Retry-After": "0"})

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
    Row("429 with `Retry-After: 0`, then good", [LIMITED, Fault()], "whole"),
    Row("closed before an answer, then good", [Cut(), Fault()], "whole"),
    Row("a malformed frame in the middle", [Broken((6,))], "either"),
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
    Row("keep-alive comments for ever", [Drip(every=0.05, comments=True)], "error"),
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


def ask(library: str, urls: list[str]) -> Column | None:
    """Put a library before every fault; `None` where it is not installed."""
    python = sys.executable if library == "swink-core" else str(PEERS_PYTHON)
    if not Path(python).exists():
        return None
    done = subprocess.run(
        [python, str(SCRIPT), library, str(LIMIT_SECONDS)],
        input="\n".join(urls),
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

<!-- Generated by `make scoreboard` (benchmarks/scoreboard.py). -->

What the user of a library sees when a server that speaks OpenAI's dialect misbehaves. Every library
is asked to stream, as its manual shows, with its own defaults and a time limit of
{LIMIT_SECONDS:g} s; Python {sys.version_info.major}.{sys.version_info.minor}, loopback.

*whole* is the whole answer; a name is the exception that was raised; *silent* is an answer that
lacks something, or everything, and ends like a success; *lost* is less than the server sent;
*hangs* is nothing within ten times the limit. Where *either* is right, so is the whole answer or an
error, but never a part of the answer as if it were all.

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
            urls = [chaos.add(f"row{n}", GOOD, *row.faults) for n, row in enumerate(ROWS)]
            column = ask(library, urls)
        if column is not None and len(column.outcomes) == len(ROWS):
            columns.append(column)
            print(library, column.version, file=sys.stderr)
    if only:
        print(page(columns))
    else:
        PAGE_FILE.write_text(page(columns), "utf-8")


if __name__ == "__main__":
    main()
