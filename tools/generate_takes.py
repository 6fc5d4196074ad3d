"""Write docs/reference/what-each-provider-takes.md by asking: `generate_takes.py`, or `--check`.

Each option and each kind of content goes, alone, to each listed model of every provider that there
are rules for, through a client and with no network. What was sent, changed, left out or refused is
what the page says; its sources are those of the rule that refuses the call as it was given.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from swink_core import CacheStrategy, Notice
from swink_testing.judge import Judge
from swink_testing.matrix.ask import Asker, Outcome
from swink_testing.matrix.cases import Case
from swink_testing.matrix.exceptions import excuses
from swink_testing.matrix.findings import can_lift_rules, of_any
from swink_testing.matrix.ids import AskedModel, models_of
from swink_testing.matrix.options import SCHEMA

PAGE = Path(__file__).resolve().parent.parent / "docs/reference/what-each-provider-takes.md"

REGION = re.compile(r"^(global|us|eu)\.")

SENT, CHANGED, LEFT_OUT, REFUSED = (
    "goes out",
    "changed, with a notice",
    "left out, with a notice",
    "refused",
)
STATUSES = (SENT, CHANGED, LEFT_OUT, REFUSED)


class Row(NamedTuple):
    """What is asked: a conversation of the matrix and options."""

    what: str
    conversation: str
    options: dict[str, Any]


ROWS = [
    Row("`temperature=0.2`", "plain", {"temperature": 0.2}),
    Row("`top_p=0.9`", "plain", {"top_p": 0.9}),
    Row("`temperature` and `top_p`", "plain", {"temperature": 0.2, "top_p": 0.9}),
    Row("`top_k=40`", "plain", {"top_k": 40}),
    Row("`presence_penalty=0.5`", "plain", {"presence_penalty": 0.5}),
    Row("`frequency_penalty=0.5`", "plain", {"frequency_penalty": 0.5}),
    Row("`max_tokens=1000`", "plain", {"max_tokens": 1000}),
    Row("`max_tokens=9_999_999`", "plain", {"max_tokens": 9_999_999}),
    Row("`stop`, one", "plain", {"stop": ["nonce_stop"]}),
    Row("`stop`, five", "plain", {"stop": [f"nonce_stop{n}" for n in range(5)]}),
    Row("`seed=7`", "plain", {"seed": 7}),
    Row("`session_id`", "plain", {"session_id": "nonce-session"}),
    Row("`user`", "plain", {"user": "nonce-user"}),
    Row('`thinking="off"`', "plain", {"thinking": "off"}),
    Row('`thinking="low"`', "plain", {"thinking": "low"}),
    Row('`thinking="high"`', "plain", {"thinking": "high"}),
    Row('`thinking="extra_high"`', "plain", {"thinking": "extra_high"}),
    Row("`thinking=2000` tokens", "plain", {"thinking": 2000}),
    Row("`thinking` and `temperature`", "plain", {"thinking": "high", "temperature": 0.2}),
    Row('`response_format="json"`', "plain", {"response_format": "json"}),
    Row("`response_format`, a schema", "plain", {"response_format": SCHEMA}),
    Row('`cache="auto"`', "plain", {"cache": "auto"}),
    Row("`cache` for an hour", "plain", {"cache": CacheStrategy("auto", 3600)}),
    Row('`transport="buffered"`', "plain", {"transport": "buffered"}),
    Row("tools", "tools", {}),
    Row("tools and `thinking`", "tools", {"thinking": "high"}),
    Row('`tool_choice="required"`', "tools", {"tool_choice": "required"}),
    Row("the same and `thinking`", "tools", {"tool_choice": "required", "thinking": "high"}),
    Row('`tool_choice="none"`', "tools", {"tool_choice": "none"}),
    Row("`parallel_tool_calls=False`", "tools", {"parallel_tool_calls": False}),
    Row("tools and a `response_format`", "tools", {"response_format": SCHEMA}),
    Row("a strict tool", "strict tool", {}),
    Row("a tool's name with dots", "tool name with dots", {}),
    Row("a system message inside", "system message inside", {}),
    Row("an answer to be continued", "prefill", {}),
    Row("images", "image", {}),
    Row("images by URL", "image by URL", {}),
    Row("documents", "document", {}),
    Row("audio", "audio", {}),
    Row("an image in a tool's result", "image in a result", {}),
]  # fmt: skip


class Cell(NamedTuple):
    """What became of a row for one model, and by which sources."""

    status: str
    sources: frozenset[str] = frozenset()


def status(outcome: Outcome, plain: Outcome) -> str:
    """Say what became of a call, beside one of the same model that asks for nothing."""
    if outcome.refusal is not None:
        return REFUSED
    if outcome.asked is None:
        raise SystemExit(f"{outcome.case}: {outcome.fault or outcome.usage_error}")
    said = {notice.detail for notice in plain.notices}
    new: list[Notice] = [notice for notice in outcome.notices if notice.detail not in said]
    if not new:
        return SENT
    return LEFT_OUT if all(notice.code == "option_ignored" for notice in new) else CHANGED


async def cell(asker: Asker, judge: Judge, case: Case, plain: Outcome) -> Cell:
    """Ask, and where it was not sent as given ask again without rules."""
    outcome = await asker.outcome(case)
    found = status(outcome, plain)
    if found == SENT or not can_lift_rules():
        return Cell(found)
    asked = (await asker.outcome(case, rules=False)).asked
    sources = set()
    if asked is not None:
        broken = judge.refusals(asked.provider, asked.api, asked.model, asked.body)
        sources = {rule.source for rule in broken}
    if not sources:
        said = outcome.refusal.error_message if outcome.refusal else outcome.notices[0].detail
        about = ("needless", case.provider, of_any(outcome, said), case.model.id)
        sources = {excuse.source for excuse in excuses() if excuse.covers(*about)}
    return Cell(found, frozenset(sources))


async def ask(provider: str) -> tuple[list[str], dict[str, dict[str, Cell]]]:
    """Return a provider's models and what became of each row, by model."""
    judge = Judge()
    async with Asker() as asker:
        models = _once(
            [m for m in models_of(asker.catalog, provider, judge) if m.origin == "listed"]
        )
        cells: dict[str, dict[str, Cell]] = {row.what: {} for row in ROWS}
        for model in models:
            plain = await asker.outcome(Case(provider, model, "plain", {}))
            for row in ROWS:
                case = Case(provider, model, row.conversation, row.options)
                cells[row.what][_short(model.id)] = await cell(asker, judge, case, plain)
    return [_short(model.id) for model in models], cells


def _once(models: list[AskedModel]) -> list[AskedModel]:
    """Leave out what differs in its region alone."""
    return list({_short(model.id): model for model in reversed(models)}.values())[::-1]


def _short(id: str) -> str:
    return REGION.sub("", id)


def table(models: list[str], cells: dict[str, dict[str, Cell]]) -> Iterator[str]:
    """Yield the lines of a provider's table."""
    used = [
        s for s in STATUSES if any(c.status == s for row in cells.values() for c in row.values())
    ]
    yield f"| | {' | '.join(used)} | sources |"
    yield "|---" * (len(used) + 2) + "|"
    for what, row in cells.items():
        by_status = {s: [m for m in models if row[m].status == s] for s in used}
        most = max(by_status.values(), key=len)
        texts = [_models(some, models, some is most) for some in by_status.values()]
        sources = sorted({source for c in row.values() for source in c.sources})
        links = " ".join(f"[{n}]({quote(url, safe=':/?&=%')})" for n, url in enumerate(sources, 1))
        yield f"| {what} | {' | '.join(texts)} | {links} |"


def _models(found: list[str], all_models: list[str], most: bool) -> str:
    if not found:
        return ""
    if len(found) == len(all_models):
        return "✓"
    return "the others" if most else ", ".join(f"`{id}`" for id in found)


@cache
def page() -> str:
    """Return the page."""
    judge = Judge()
    parts = []
    for info in Asker().providers():
        if info.name in judge.providers:
            models, cells = asyncio.run(ask(info.name))
            listed = f"{len(models)} models of the catalogue" if models != ["any"] else "any model"
            parts.append(f"## {info.title or info.name}\n\n`{info.name}`: {listed}.\n")
            parts.append("\n".join(table(models, cells)) + "\n")
    return HEAD + "\n".join(parts)


HEAD = """\
# What each provider takes

<!-- Generated by tools/generate_takes.py from the code; a test fails when it is stale. -->

Each option and each kind of content was given, alone or as a pair, to every model of the catalogue.
*Goes out*: it is in the request, in the API's own words. *Changed* or *left out*: it went out
otherwise or not at all, and a `Notice` says so. *Refused*: `Error(unsupported)`, before a byte is
sent. A source says why the API would not take it as it was given; what the API has no field for
needs none. The rules are those of
[the strict servers](../how-to/test-against-strict-servers.md). `rules=False` sends a call as it
stands.

"""


def main() -> None:
    """Write the page, or with `--check` tell whether it is stale."""
    if sys.argv[1:] == ["--check"]:
        if PAGE.read_text("utf-8") != page():
            sys.exit(f"{PAGE.name} is stale: run tools/generate_takes.py")
        return
    PAGE.write_text(page(), "utf-8")


if __name__ == "__main__":
    main()
