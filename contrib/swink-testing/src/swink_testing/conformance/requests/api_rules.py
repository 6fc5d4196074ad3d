"""A check that requests violate none of the known rules of the API."""

from __future__ import annotations

import asyncio

from swink_judge import Asked, Judge
from swink_judge.matrix.cases import Case, cases_of
from swink_judge.matrix.models import AskedModel
from swink_judge.rules import all_rules, rules_of
from swink_testing.conformance.check import DoesNotApply, fail
from swink_testing.conformance.subject import Subject

__all__ = ["check_requests_are_accepted", "judge_of", "require_accepted"]

_SHARE = 3
"""Of the cases with several options, only one in three is tried (the same ones in each run)."""


def check_requests_are_accepted(subject: Subject) -> None:
    """Requests violate no known rule of the API, and no rule of the provider's package.

    The package's rules are in its `request_rules.jsonl`.
    """
    subject.require_http()
    judge = judge_of(subject)
    if subject.name not in judge.providers:
        raise DoesNotApply(f"no rules are known for {subject.name}")
    asyncio.run(_ask(subject, judge))


async def _ask(subject: Subject, judge: Judge) -> None:
    id = subject.model.id
    async with subject.asker(subject.outcomes) as asker:
        models = [AskedModel(id, "listed", id)]
        alone = [case for case in cases_of(subject.name, models) if len(case.options) < 2]
        several = cases_of(subject.name, models, _SHARE)
        for case in (*alone, *(case for case in several if len(case.options) > 1)):
            outcome = await asker.outcome(case)
            if outcome.fault is not None:
                fail(f"{case} fails: {outcome.fault}")
            if (asked := outcome.asked) is None:
                continue
            require_accepted(judge, case, asked)


def judge_of(subject: Subject) -> Judge:
    """Return a judge, which applies the known rules of the API and those of the package."""
    return Judge([*all_rules(), *rules_of(subject.entry.package)])


def require_accepted(judge: Judge, case: Case, asked: Asked) -> None:
    """Raise AssertionError if a request violates a rule of the API."""
    for rule in judge.refusals(asked.provider, asked.api, asked.model, asked.body):
        if rule.refuses:
            why = f"{case} is refused: {rule.message} ({rule.id}, {rule.source})"
            fail(why, asked.body, rule.message)
