"""The rules by which requests are refused. The only module here that imports anything of swink."""

from __future__ import annotations

from typing import Any

from swink_judge import Judge

__all__ = ["Judgement", "judged_as", "providers", "refusal"]

_JUDGE = Judge()


class Judgement:
    """A broken rule: its id, the status that the API answers with, and the API's words."""

    def __init__(self, rule: str, status: int, message: str) -> None:
        self.rule = rule
        self.status = status
        self.message = message


def providers() -> frozenset[str]:
    """Return the names of the providers that have rules."""
    return _JUDGE.providers


def judged_as(provider: str, model: str) -> str:
    """Return the model whose rules hold for an id, which a successor shares with its family."""
    return _JUDGE.judged_as(provider, model)


def refusal(provider: str, api: str, model: str, body: Any) -> Judgement | None:
    """Return the first rule that refuses a body, or `None` where the API accepts it."""
    for rule in _JUDGE.refusals(provider, api, model, body):
        if rule.refuses:
            return Judgement(rule.id, rule.status, rule.message)
    return None
