"""Draw docs/pictures/cut-stream.svg for the README: `draw_cut_stream.py`, or `--check` to compare.

The picture shows an answer that ends in the middle, and the result in each library. The results
are those of docs/reference/fault-scoreboard.md.
"""

from __future__ import annotations

import sys
from pathlib import Path
from xml.sax.saxutils import escape

DOCS = Path(__file__).resolve().parent.parent / "docs"
PICTURE = DOCS / "pictures" / "cut-stream.svg"
SCOREBOARD = DOCS / "reference" / "fault-scoreboard.md"

FAULT = "the stream ends in the middle, cleanly"
DELIVERED = "The sky is blue because air"
OUTCOMES = {
    "NetworkError": ("NetworkError", "the connection broke; the partial text is kept"),
    "silent": ("success", "the truncated text, as if it were complete"),
}
"""Two lines for a result: in large and in small type. Every other result is the name of an
exception."""

WIDTH = 860
ROW = 58
TOP = 96
NAMES, TEXT, RESULT = 24, 210, 520
"""Where the columns begin."""


def results() -> dict[str, str]:
    """Return the result of each library, from the row of the fault in the scoreboard."""
    lines = SCOREBOARD.read_text("utf-8").splitlines()
    rows = [[cell.strip(" *`✓✗") for cell in line.strip("|").split("|")] for line in lines]
    headings = next(row for row in rows if row[0] == "server behaviour")
    fault = next(row for row in rows if row[0] == FAULT)
    (_, _, *columns), (_, _, *cells) = headings, fault
    found = [cell.partition(",")[0] for cell in cells]
    names = [column.split()[0].removesuffix("-core").removesuffix("-slim") for column in columns]
    return dict(zip(names, found, strict=True))


def text(x: int, y: int, words: str, style: str) -> str:
    """Return a line of text."""
    return f'<text x="{x}" y="{y}" class="{style}">{escape(words)}</text>'


def picture() -> str:
    """Return the picture."""
    found = results()
    height = TOP + ROW * len(found) + 8
    parts = [
        text(NAMES, 36, "A server stops in the middle of an answer", "title"),
        text(TEXT, 68, "received", "small"),
        text(RESULT, 68, "the program gets", "small"),
    ]
    for number, (library, result) in enumerate(found.items()):
        y = TOP + ROW * number
        is_reported = result != "silent"
        style = "good" if is_reported else "bad"
        large, small = OUTCOMES.get(result, (result, "an exception"))
        parts += [
            f'<rect x="12" y="{y - 16}" width="{WIDTH - 24}" height="{ROW - 8}" class="row"/>',
            text(NAMES, y + 15, library, "name"),
            text(TEXT, y + 15, DELIVERED, "text"),
            f'<path d="M {TEXT + 230} {y - 6} v 30" class="cut"/>',
            text(RESULT, y + 7, f"{'!' if is_reported else '✓'} {large}", style),
            text(RESULT, y + 25, small, "small"),
        ]
    body = "\n".join(f"  {part}" for part in parts)
    said = "; ".join(f"{library}: {result}" for library, result in found.items())
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">
  <title>A stream is cut in the middle of an answer. {escape(said)}</title>
  <style>
    .back {{ fill: #16181d }}
    .row {{ fill: #20242c }}
    text {{ font-family: ui-sans-serif, system-ui, sans-serif; fill: #e8eaee }}
    .title {{ font-size: 20px; font-weight: 600 }}
    .name {{ font-size: 16px; font-weight: 600 }}
    .text {{ font-size: 15px }}
    .small {{ font-size: 13px; fill: #9aa3b2 }}
    .good {{ font-size: 16px; font-weight: 600; fill: #6fd08c }}
    .bad {{ font-size: 16px; font-weight: 600; fill: #f08c7a }}
    .cut {{ stroke: #f08c7a; stroke-width: 2; stroke-dasharray: 4 3; fill: none }}
  </style>
  <rect width="{WIDTH}" height="{height}" rx="10" class="back"/>
{body}
</svg>
"""


def main() -> None:
    """Write the picture, or with `--check` compare it."""
    if sys.argv[1:] != ["--check"]:
        PICTURE.write_text(picture(), "utf-8")
    elif PICTURE.read_text("utf-8") != picture():
        sys.exit(f"{PICTURE.name} is stale: run make picture")


if __name__ == "__main__":
    main()
