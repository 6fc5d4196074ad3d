"""Write docs/reference/what-each-provider-takes.md from the run of `make judge`.

`generate_takes.py [PROVIDER…]` is that run: every kind of call to every kind of model, through a
client and with no network. Where it was a whole one, the page says what of it became of each option
and each kind of content, alone, at each listed model: sent, changed, left out or refused; a source
is that of the rule that refuses the call as it was given. What `make reference` writes, and a test
looks for, comes from the same run of these cases alone.
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

from swink_core import CacheStrategy
from swink_core.providers import OPTIONS, TUNING
from swink_core.vocabulary.option_table import Option
from swink_judge import Judge
from swink_judge.matrix.__main__ import main as run_matrix
from swink_judge.matrix.asker import Asker, Outcome
from swink_judge.matrix.cases import combination
from swink_judge.matrix.exceptions import excuses
from swink_judge.matrix.findings import Examined, RunOptions, examined, of_any
from swink_judge.matrix.models import AskedModel
from swink_judge.matrix.options import SCHEMA, values

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


def _alone(option: Option) -> Row:
    """Return the row of an option that tunes an answer by a number or a text."""
    tried = values(option)
    value = option.example if option.example in tried else tried[0]
    shown = option.name if isinstance(value, str) else f"{option.name}={value}"
    return Row(f"`{shown}`", "plain", {option.name: value})


ROWS = [
    *(_alone(OPTIONS[name]) for name in TUNING if OPTIONS[name].types <= {int, float, str}),
    Row("`temperature` and `top_p`", "plain", {"temperature": 0.2, "top_p": 0.9}),
    Row("`max_tokens=9_999_999`", "plain", {"max_tokens": 9_999_999}),
    Row("`stop`, one", "plain", {"stop": ["nonce_stop"]}),
    Row("`stop`, five", "plain", {"stop": [f"nonce_stop{n}" for n in range(5)]}),
    Row('`thinking="off"`', "plain", {"thinking": "off"}),
    Row('`thinking="low"`', "plain", {"thinking": "low"}),
    Row('`thinking="high"`', "plain", {"thinking": "high"}),
    Row('`thinking="extra_high"`', "plain", {"thinking": "extra_high"}),
    Row("`thinking=1024` tokens", "plain", {"thinking": 1024}),
    Row("`thinking` and `temperature`", "plain", {"thinking": "high", "temperature": 0.2}),
    Row('`response_format="json"`', "plain", {"response_format": "json"}),
    Row("`response_format`, a schema", "plain", {"response_format": SCHEMA}),
    Row('`cache="auto"`', "plain", {"cache": "auto"}),
    Row("`cache` for an hour", "plain", {"cache": CacheStrategy("auto", 3600)}),
    Row('`transport="buffered"`', "plain", {"transport": "buffered"}),
    Row("tools", "tools", {}),
    Row("tools and `thinking`", "tools", {"thinking": "high"}),
    Row('`tool_choice="required"`', "tools", {"tool_choice": "required"}),
    Row("the same and `thinking`", "tools", {"thinking": "high", "tool_choice": "required"}),
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


PLAIN = combination("plain", {})
"""The call that asks for nothing; what is said of it is not said of an option."""

WHATS = {combination(row.conversation, row.options): row.what for row in ROWS}


class Takes:
    """What a run shows of the rows: the cells of each provider, by row and model."""

    def __init__(self) -> None:
        self.cells: dict[str, dict[str, dict[str, Cell]]] = {}
        self._plain: set[str] = set()
        self._ids: dict[str, str] = {}

    def shows(self, model: AskedModel) -> bool:
        """Tell whether a model is on the page: where only regions differ, the first is."""
        name = REGION.sub("", model.id)
        return model.origin == "listed" and self._ids.setdefault(name, model.id) == model.id

    def add(self, each: Examined) -> None:
        """Take note of what became of a case, where it is one of the rows."""
        case = each.outcome.case
        if not self.shows(case.model):
            return
        said = case.combination
        if said == PLAIN:
            self._plain = {notice.detail for notice in each.outcome.notices}
        elif said in WHATS:
            cells = self.cells.setdefault(case.provider, {row.what: {} for row in ROWS})
            cells[WHATS[said]][REGION.sub("", case.model.id)] = self._cell(each)

    def _cell(self, each: Examined) -> Cell:
        found = self._status(each.outcome)
        sources = {rule.source for rule in each.broken}
        if found == SENT:
            sources = set()
        elif not sources:
            outcome = each.outcome
            said = outcome.refusal.error_message if outcome.refusal else outcome.notices[0].detail
            case = outcome.case
            about = ("needless", case.provider, of_any(outcome, said), case.model.id)
            sources = {excuse.source for excuse in excuses() if excuse.covers(*about)}
        return Cell(found, frozenset(sources))

    def _status(self, outcome: Outcome) -> str:
        if outcome.refusal is not None:
            return REFUSED
        if outcome.asked is None:
            raise SystemExit(f"{outcome.case}: {outcome.fault or outcome.usage_error}")
        new = [notice for notice in outcome.notices if notice.detail not in self._plain]
        if not new:
            return SENT
        return LEFT_OUT if all(notice.code == "option_ignored" for notice in new) else CHANGED


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


def written(takes: Takes) -> str:
    """Return the page."""
    judge = Judge()
    parts = []
    for info in Asker().providers():
        if info.name in judge.providers:
            cells = takes.cells[info.name]
            models = list(next(iter(cells.values())))
            listed = f"{len(models)} models of the catalogue" if models != ["any"] else "any model"
            parts.append(f"## {info.title or info.name}\n\n`{info.name}`: {listed}.\n")
            parts.append("\n".join(table(models, cells)) + "\n")
    return HEAD + "\n".join(parts)


@cache
def page() -> str:
    """Return the page, from a run of its rows alone."""
    takes = Takes()

    async def run() -> None:
        judge = Judge()
        names = [info.name for info in Asker().providers() if info.name in judge.providers]
        rows = RunOptions(names, asks=takes.shows, combinations=[PLAIN, *WHATS])
        async for each in examined(judge, rows):
            takes.add(each)

    asyncio.run(run())
    return written(takes)


HEAD = """\
# What each provider takes

<!-- Generated by tools/generate_takes.py from the code; a test fails when it is stale. -->

Each option and each kind of content was given, alone or as a pair, to every model of the catalogue,
in the run of `make judge`, which writes this page.
*Goes out*: it is in the request, in the API's own words. *Changed* or *left out*: it went out
otherwise or not at all, and a `Notice` says so. *Refused*: `Error(unsupported)`, before a byte is
sent. A source says why the API would not take it as it was given; what the API has no field for
needs none. The rules are those of
[the strict servers](../how-to/test-against-strict-servers.md). `rules=False` sends a call as it
stands.

"""


def main() -> int:
    """Run the matrix, and write the page where nothing was left out."""
    takes = Takes()
    failed = run_matrix(takes.add)
    if not sys.argv[1:]:
        PAGE.write_text(written(takes), "utf-8")
    return failed


if __name__ == "__main__":
    sys.exit(main())
