"""Check the requests of cases, and count the findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum

from attrs import define, field

from swink_judge import Judge, Rule
from swink_judge.matrix.asker import Asker, Outcome
from swink_judge.matrix.cases import Case, cases_of
from swink_judge.matrix.exceptions import Excuse, excuses
from swink_judge.matrix.lost_values import lost_values
from swink_judge.matrix.models import AskedModel, models_of

__all__ = ["Finding", "Kind", "Run", "RunOptions", "examined", "of_any"]


class Kind(StrEnum):
    """The kind of a finding, or the reason why a case was not sent."""

    REFUSED = "refused by the judge"
    WITHOUT_EFFECT = "taken and ignored by the server"
    LOST = "lost in silence"
    FAULT = "failed"
    NEEDLESS = "refused or left out needlessly"
    UNSUPPORTED = "refused before sending"
    USAGE_ERROR = "refused as a wrong call"
    NOTICE = "sent with a notice"


FAULTS = (Kind.REFUSED, Kind.WITHOUT_EFFECT, Kind.LOST, Kind.FAULT, Kind.NEEDLESS)
"""Kinds of findings that need a fix."""


@define(frozen=True)
class Finding:
    """A finding about one case; `what` is a rule's id, a value or a message."""

    kind: Kind
    what: str
    outcome: Outcome = field(repr=False)
    rule: Rule | None = field(default=None, repr=False)


@define
class RunOptions:
    """The selection of cases, by providers (empty: all) and models.

    Only one of every `share` cases is selected.
    """

    providers: Sequence[str] = ()
    share: int = 1
    asks: Callable[[AskedModel], bool] = lambda model: True


@define
class Run:
    """Counts cases and findings, and keeps the first cases of each finding as examples.

    `unjudged` counts the requests to APIs without rules, by provider and API.
    """

    cases: int = 0
    sent: int = 0
    unjudged: Counter[tuple[str, str]] = field(factory=Counter)
    found: dict[tuple[Kind, str, str], list[Finding]] = field(factory=dict)
    counts: dict[tuple[Kind, str, str], int] = field(factory=dict)
    excused: set[Excuse] = field(factory=set)

    def add(self, finding: Finding) -> None:
        """Count a finding, unless it is an accepted exception."""
        case = finding.outcome.case
        about = (finding.kind.name.lower(), case.provider, finding.what, case.model.id)
        if excuse := next((each for each in excuses() if each.covers(*about)), None):
            self.excused.add(excuse)
            return
        key = (finding.kind, finding.what, case.provider)
        self.counts[key] = self.counts.get(key, 0) + 1
        kept = self.found.setdefault(key, [])
        if len(kept) < 5:
            kept.append(finding)

    def count(self, judge: Judge, outcome: Outcome, plain: Outcome) -> None:
        """Count a case and its findings; `plain` is the outcome of the case without options."""
        self.cases += 1
        if (asked := outcome.asked) is not None:
            self.sent += 1
            if not judge.has_rules(asked.provider, asked.api):
                self.unjudged[asked.provider, asked.api] += 1
        for finding in _findings(judge, outcome):
            self.add(finding)
        for value in lost_values(outcome, plain):
            self.add(Finding(Kind.LOST, value, outcome))

    def rows(self, kinds: Iterable[Kind]) -> Iterator[tuple[Kind, str, str, int, Finding]]:
        """Yield kind, text, provider, count and an example of findings, the most frequent first."""
        wanted = set(kinds)
        for key, count in sorted(self.counts.items(), key=lambda item: -item[1]):
            if key[0] in wanted:
                yield *key, count, self.found[key][0]


async def examined(judge: Judge, given: RunOptions) -> Run:
    """Make the calls, and return the counted findings.

    A call that had a notice or an error is repeated with `rules=False`, so that swink sends it
    unchanged, if the judge has rules for the provider. If they accept the unchanged call, the
    notice or the error was needless.
    """
    run = Run()
    async with Asker() as asker:
        for info in asker.providers(given.providers):
            judged = info.name in judge.providers
            models = [*filter(given.asks, models_of(asker.catalog, info.name, judge))]
            plain: dict[tuple[str, str], Outcome] = {}
            for case in cases_of(info.name, models, given.share):
                outcome = await asker.outcome(case)
                key = (case.model.id, case.conversation)
                if outcome.asked is not None and key not in plain:
                    without = Case(case.provider, case.model, case.conversation, {})
                    plain[key] = await asker.outcome(without) if case.options else outcome
                run.count(judge, outcome, plain.get(key, outcome))
                if judged and (outcome.refusal is not None or outcome.notices):
                    lifted = await asker.outcome(case, rules=False)
                    if needless := _needless(judge, outcome, lifted):
                        run.add(needless)
    return run


def _findings(judge: Judge, outcome: Outcome) -> Iterator[Finding]:
    if outcome.fault is not None:
        yield Finding(Kind.FAULT, outcome.fault, outcome)
    if outcome.usage_error is not None:
        yield Finding(Kind.USAGE_ERROR, str(outcome.usage_error), outcome)
    if outcome.refusal is not None:
        yield Finding(Kind.UNSUPPORTED, of_any(outcome, outcome.refusal.error_message), outcome)
    for notice in outcome.notices:
        yield Finding(Kind.NOTICE, f"{notice.code}: {of_any(outcome, notice.detail)}", outcome)
    if (asked := outcome.asked) is not None:
        for rule in judge.refusals(asked.provider, asked.api, asked.model, asked.body):
            if rule.is_retirement:  # calls of the matrix use another base URL
                continue
            kind = Kind.REFUSED if rule.refuses else Kind.WITHOUT_EFFECT
            yield Finding(kind, rule.id, outcome, rule)


def of_any(outcome: Outcome, words: str | None) -> str:
    """Replace the model's name in a message, so that equal messages about several models match."""
    case = outcome.case
    return (words or "").replace(f"{case.provider}/{case.model.id}", "…").strip("… :")


def _needless(judge: Judge, outcome: Outcome, lifted: Outcome) -> Finding | None:
    """Return a finding if a value was left out or changed although no rule refuses it.

    `lifted` is the outcome of the same call with `rules=False`. If that call reports the same
    change, the API has no field for the value, and the result is `None`.
    """
    asked = lifted.asked
    if asked is None or (outcome.asked is not None and outcome.asked.body == asked.body):
        return None
    if judge.refusals(asked.provider, asked.api, asked.model, asked.body):
        return None
    left = [notice.detail for notice in lifted.notices]
    said = [
        notice.detail
        for notice in outcome.notices
        if notice.detail not in left and notice.code not in ("model_retires", "model_retired")
    ]
    if outcome.refusal is not None:
        said = [outcome.refusal.error_message or ""]
    return Finding(Kind.NEEDLESS, of_any(lifted, said[0]), lifted) if said else None
