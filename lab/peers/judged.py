"""The same calls through swink and its peers, judged: `python -m lab.peers.judged`.

Each library makes the same calls in its idiom; the first request of each is intercepted and judged
by the rules of the real API (`swink_judge`). Counted are requests that the API rejects, calls that
the library rejects itself, and values of the call that are silently missing in the request. Peers
are installed separately (`make scoreboard` does it); missing ones are skipped.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from lab.peers.judged_calls import MODELS, asked, cases
from lab.peers.scoreboard import ROOT, python_of
from swink_core import Notice
from swink_core.providers import HTTPRequest
from swink_judge import Judge, asked_of
from swink_judge.matrix.asker import Asker, Outcome
from swink_judge.matrix.cases import Case
from swink_judge.matrix.conversations import conversation
from swink_judge.matrix.lost_values import lost_values

PAGE_FILE = ROOT / "docs" / "reference" / "requests-under-the-judge.md"
SCRIPT = Path(__file__).with_name("judged_peers.py")
PEERS = {
    "litellm": "litellm",
    "litellm-drop": "litellm",
    "pydantic-ai": "pydantic-ai",
    "langchain": "langchain",
}
"""Environments of the libraries that swink is compared with."""

STUCK_SECONDS = 15 * 60


class Column(NamedTuple):
    """A library, its version, and what became of each call.

    An outcome is `None` where the library has no word for the call.
    """

    library: str
    version: str
    outcomes: list[Outcome | None]


# -- asking --------------------------------------------------------------------------------------


async def ask_swink(wanted: list[Case]) -> Column:
    """Make the calls through swink."""
    from importlib.metadata import version

    async with Asker() as asker:
        outcomes: list[Outcome | None] = [await asker.outcome(case) for case in wanted]
    return Column("swink-core", version("swink-core"), outcomes)


def ask_peer(library: str, wanted: list[Case]) -> Column | None:
    """Make the calls through a peer; `None` where it is not installed."""
    python = python_of(PEERS[library])
    if not python.exists():
        return None
    done = subprocess.run(
        [str(python), str(SCRIPT), library],
        input="\n".join(json.dumps(asked(case)) for case in wanted),
        capture_output=True,
        text=True,
        timeout=STUCK_SECONDS,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if len(lines) != len(wanted) + 1:
        print(f"{library} is left out: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return None
    head, *rows = lines
    outcomes = [_outcome(case, row) for case, row in zip(wanted, rows, strict=True)]
    return Column(library, head["version"], outcomes)


def _outcome(case: Case, row: dict[str, Any]) -> Outcome | None:
    if row["inexpressible"]:
        return None
    outcome = Outcome(case, conversation(case.conversation))
    outcome.notices = [Notice("said", text, EVERYTHING) for text in row["said"]]
    if row["url"] is not None:
        outcome.request = HTTPRequest(row["url"], row["body"].encode())
        outcome.asked = asked_of(case.provider, row["url"], row["body"].encode())
    return outcome


EVERYTHING = ("messages", "options", "system_prompt", "tools")
"""Paths assumed for notices of other libraries, which name none."""


# -- what became of them -------------------------------------------------------------------------

SENT = "accepted and complete"
SAID = "accepted; the library reported omitted or changed values"
SILENT = "accepted, but a value was lost silently"
OWN = "rejected by the library before sending"
REFUSED = "rejected by the API"
VERDICTS = (SENT, SAID, SILENT, OWN, REFUSED)


def verdict(judge: Judge, outcome: Outcome | None, plain: Outcome) -> str:
    """Describe the result of a call."""
    if outcome is None or outcome.asked is None:
        return OWN
    told = outcome.asked
    if any(r.refuses for r in judge.refusals(told.provider, told.api, told.model, told.body)):
        return REFUSED
    if lost_values(outcome, plain):
        return SILENT
    changed = [notice for notice in outcome.notices if notice.code != "model_retires"]
    return SAID if changed else SENT


def table(columns: list[Column], wanted: list[Case], provider: str) -> list[str]:
    """Write the table of a provider over the calls that every library has words for."""
    judge = Judge()
    places = [
        n
        for n, case in enumerate(wanted)
        if case.provider == provider and all(c.outcomes[n] for c in columns)
    ]
    lines = ["| | " + " | ".join(f"{c.library} {c.version}" for c in columns) + " |"]
    lines.append("|---" * (len(columns) + 1) + "|")
    counts = []
    for column in columns:
        plain = {
            wanted[n].model.id + wanted[n].conversation: column.outcomes[n]
            for n in reversed(range(len(wanted)))
            if not wanted[n].options
        }
        count: Counter[str] = Counter()
        for n in places:
            base = plain[wanted[n].model.id + wanted[n].conversation]
            assert base is not None
            count[verdict(judge, column.outcomes[n], base)] += 1
        counts.append(count)
    for name in VERDICTS:
        cells = [f"{c[name]} ({c[name] / max(1, len(places)):.0%})" for c in counts]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def that_asked(columns: list[Column], wanted: list[Case], provider: str) -> list[Column]:
    """Return the libraries that sent this provider anything: an installation may be unable to."""
    return [
        column
        for column in columns
        if any(
            case.provider == provider and outcome and outcome.asked
            for case, outcome in zip(wanted, column.outcomes, strict=True)
        )
    ]


def page(every: list[Column], wanted: list[Case]) -> str:
    """Write the page."""
    parts = []
    for provider, ids in MODELS.items():
        columns = that_asked(every, wanted, provider)
        common = sum(
            case.provider == provider and all(c.outcomes[n] for c in columns)
            for n, case in enumerate(wanted)
        )
        parts.append(f"## `{provider}`: {common} calls\n")
        models = f"Models: {', '.join(f'`{id}`' for id in ids)}."
        parts.append(textwrap.fill(models, 120, break_on_hyphens=False) + "\n")
        parts.append("\n".join(table(columns, wanted, provider)) + "\n")
    return f"""\
# Requests under the judge

<!-- Generated by `make scoreboard` (lab/peers/judged.py). -->

This page compares the requests that swink and other libraries send for the same calls. The *judge*
is a program that checks requests with the known rules of the real APIs. Each call is written in the
style of the library. The calls cover single and combined options, tools, schemas,
media, and long and unusual names, for current models, a dated model id, and model names that no
catalogue lists yet. The first request of each call was intercepted and checked by the judge, which
the [strict servers](../how-to/test-against-strict-servers.md) use too. Only calls that can be
written with every library are counted.

*Lost silently* means that a value of the call is not in the request, and that there was no
exception, warning or notice. `litellm-drop` is litellm with `drop_params=True`. pydantic-ai calls
OpenAI over the Responses API, as its documentation shows. The column `langchain` is LangChain's
package for the provider.

{chr(10).join(parts)}"""


def main() -> None:
    """Ask all libraries and write the page."""
    parser = argparse.ArgumentParser(description="Judge the requests of swink and its peers.")
    parser.add_argument("--only", nargs="+", choices=PEERS, help="these peers; the page is printed")
    only = parser.parse_args().only
    wanted = cases()
    columns = [asyncio.run(ask_swink(wanted))]
    for library in only or PEERS:
        column = ask_peer(library, wanted)
        if column is not None:
            columns.append(column)
            print(library, column.version, file=sys.stderr)
    if only:
        print(page(columns, wanted))
    else:
        PAGE_FILE.write_text(page(columns, wanted), "utf-8")


if __name__ == "__main__":
    main()
