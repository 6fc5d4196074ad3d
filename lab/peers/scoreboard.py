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
    Row("correct answer", [Fault()], "whole"),
    Row("no `[DONE]`", [_says(b"".join(FRAMES[:-1]))], "whole"),
    Row("the last frame has no blank line after it", [_says(GOOD.body[:-2])], "whole"),
    Row("CRLF line ends", [_says(GOOD.body.replace(b"\n", b"\r\n"))], "whole"),
    Row("the answer arrives in pieces of 7 bytes", [Drip(7, 0.0005)], "whole"),
    Row("comments between frames", [Insert(b": PROCESSING\n\n", (0, 3, 8))], "whole"),
    Row("`retry:` and `id:` without data", [Insert(META_ONLY, (0, 5))], "whole"),
    Row("compressed answer", [Gzip()], "whole"),
    Row("the connection closes after the finish reason", [Cut(FINISHED)], "whole"),
    Row("503, then a correct answer", [Instead(503), Fault()], "whole"),
    Row("429 with `Retry-After: 0`, then a correct answer", [_limited("0"), Fault()], "whole"),
    Row("the connection closes before an answer, then a correct answer", [Cut(), Fault()], "whole"),
    Row(
        "429 with a `Retry-After` of 8,000 digits, then a correct answer",
        [_limited("1" * 8000), Fault()],
        "either",
    ),
    Row("frames that are not JSON (`data: ping`)", [Insert(b"data: ping\n\n", (6,))], "whole"),
    Row("frames after `[DONE]`", [_says(GOOD.body + b"".join(FRAMES[1:4]))], "whole"),
    Row(
        "an unrequested answer on an idle connection, then a call",
        [Late(NOT_ASKED_FOR)],
        "whole",
        2,
    ),
    Row("a content frame with a control character", [_with(6, CONTROL)], "error"),
    Row("a content frame without its last brace", [_with(6, BRACE)], "error"),
    Row("only `[DONE]`", [_says(DONE)], "error"),
    Row(
        "`[DONE]` in the middle, without a finish reason", [_says(GOOD.body[:HALF] + DONE)], "error"
    ),
    Row("the stream ends in the middle, cleanly", [_says(GOOD.body[:HALF])], "error"),
    Row("the connection closes in the middle", [Cut(HALF)], "error"),
    Row("the connection is reset in the middle", [Cut(HALF, reset=True)], "error"),
    Row(
        "the body is shorter than its `Content-Length`", [Length(-(len(GOOD.body) - HALF))], "error"
    ),
    Row("a compressed answer is truncated", [Gzip(0.6)], "error"),
    Row("an uncompressed answer is marked as compressed", [Claim("gzip")], "error"),
    Row("an error object at the start", [Says(ERROR)], "error"),
    Row("an error object in the middle", [Says(ERROR, 6)], "error"),
    Row("the server sends nothing", [Stall(0)], "error"),
    Row("the server sends nothing more after the middle", [Stall(HALF)], "error"),
    Row(
        "the server sends only keep-alive comments, forever",
        [Drip(every=0.05, comments=True)],
        "error",
    ),
    Row("status 200 with an empty body", [_says(b"")], "error"),
    Row("only comments and `retry:`", [_says(META_ONLY)], "error"),
    Row("status 200 with the HTML page of a proxy", [Instead(200, PAGE, "text/html")], "error"),
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
    lines = [f"| server behaviour | correct result | {head} |", "|---" * (len(columns) + 2) + "|"]
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

This table shows what the user of a library sees if a server with OpenAI's API misbehaves. Every
library streams an answer as its documentation shows, with its default settings and a time limit of
{LIMIT_SECONDS:g} s, on Python {sys.version_info.major}.{sys.version_info.minor} and the loopback
interface. These are the results:

* *whole*: the complete answer.
* The name of a class: this exception was raised.
* *silent*: the answer is incomplete or empty, but no error is raised. The percentage is the share
  of the text that arrived.
* *lost*: the server sent the complete answer, but a part of it is missing.
* *another's*: the answer belongs to a different request.
* *hangs*: the call has not ended after ten times the time limit.

If the correct result is *either*, the library may return the complete answer or raise an error, but
must not return a part of the answer as if it were complete. The last row counts the correct results
of each library.

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
