"""Judge recorded requests by the rules: what a real server accepted, no rule may refuse."""

from __future__ import annotations

import json
from enum import StrEnum

from lab.reality.cassettes import Exchange
from swink_judge import Asked, Judge, Rule

__all__ = ["Verdict", "broken_rules", "refusal_text", "verdict"]

REFUSED = frozenset((400, 404, 413, 422))
"""Statuses by which a server refuses the request itself, and not its key, pace or account."""

_OF_THE_SERVER = ("API key not valid", "authentication")
"""Beginnings of refusals that do not concern the request, in spite of their status."""


class Verdict(StrEnum):
    """How a server's answer to a request agrees with the rules."""

    BOTH_ACCEPT = "accepted by server and rules"
    BOTH_REFUSE = "refused by server and rules"
    FALSE_RULE = "accepted by the server, refused by a rule"
    MISSING_RULE = "refused by the server, by no rule"
    AGE = "accepted by the server before the model was retired"
    UNJUDGED = "no rules for this API"
    OTHER = "refused for another reason than the request"


def broken_rules(judge: Judge, asked: Asked) -> list[Rule]:
    """Return the rules that refuse the request, retirements included."""
    rules = judge.refusals(asked.provider, asked.api, asked.model, asked.body)
    return [rule for rule in rules if rule.refuses]


def verdict(judge: Judge, asked: Asked, exchange: Exchange) -> Verdict:
    """Compare the rules with what the server did."""
    if not judge.has_rules(asked.provider, asked.api):
        return Verdict.UNJUDGED
    rules = broken_rules(judge, asked)
    if exchange.status < 300:
        if not rules:
            return Verdict.BOTH_ACCEPT
        return Verdict.AGE if all(rule.is_retirement for rule in rules) else Verdict.FALSE_RULE
    if exchange.status not in REFUSED or refusal_text(exchange).startswith(_OF_THE_SERVER):
        return Verdict.OTHER
    return Verdict.BOTH_REFUSE if rules else Verdict.MISSING_RULE


def refusal_text(exchange: Exchange) -> str:
    """Return the message of a refusal in one line, or the start of the body that has none."""
    try:
        data = json.loads(exchange.answer)
    except ValueError:
        data = None
    while isinstance(data, list | dict):
        if isinstance(data, list):
            data = data[0] if data else ""
        else:
            data = data.get("error") or data.get("message") or str(data)
    text = data if isinstance(data, str) else exchange.answer[:200].decode(errors="replace")
    return " ".join(text.split())
