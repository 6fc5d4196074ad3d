"""Compare the simulated vendor with the rules: both accept a request, or both refuse it.

The vendor reads a request by its own code and takes from the rules only what they refuse. A
difference is a reader of the vendor that is stricter than the API, or one that breaks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from attrs import define, field

from lab.vendor.state import State
from lab.vendor.unplugged import answered
from swink_judge import Asked, Judge

__all__ = ["Agreement"]

_OWN_STATE = re.compile(
    r"No such File object|File not found|Previous response|Item with id|Corrupted thought signature"
    r"|The encrypted content for item|Invalid `(signature|data)` in `(redacted_)?thinking` block"
)
"""How the vendor refuses ids and signatures that it did not make, which no rule can know."""


@define
class Agreement:
    """Counts of requests that vendor and rules judge alike, and the differences with examples."""

    judge: Judge = field(factory=Judge)
    alike: int = 0
    own_state: int = 0
    differences: Counter[str] = field(factory=Counter)
    examples: dict[str, str] = field(factory=dict)

    def compare(
        self, asked: Asked, url: str, headers: Mapping[str, str], body: bytes, place: str
    ) -> None:
        """Send a request to a new vendor, and compare its answer with the rules.

        `place` names the request in the report. A request to an API without rules is not compared.
        """
        if not self.judge.has_rules(asked.provider, asked.api):
            return
        rules = self.judge.refusals(asked.provider, asked.api, asked.model, asked.body)
        refused = [rule for rule in rules if rule.refuses]
        try:
            exchange = answered(State(), asked.provider, url, headers, body)
        except Exception as error:  # a vendor that breaks is a difference like any other
            self._differ(asked, f"the vendor breaks: {type(error).__name__}: {error}", place)
            return
        if exchange is None:
            self._differ(asked, "the vendor has no such path", place)
        elif (exchange.ended == "refused") == bool(refused):
            self.alike += 1
        elif refused:
            self._differ(asked, f"the vendor accepts what {refused[0].id} refuses", place)
        elif _OWN_STATE.search(exchange.message or ""):
            self.own_state += 1
        else:
            self._differ(asked, f"only the vendor refuses: {exchange.message}", place)

    def _differ(self, asked: Asked, text: str, place: str) -> None:
        text = f"{asked.provider} {asked.api}: {text[:200]}"
        self.differences[text] += 1
        self.examples.setdefault(text, place)

    def lines(self) -> list[str]:
        """Return the report, a line each: the differences, then the sum."""
        found = [
            f"vendor and rules differ | {text} | {count} | {self.examples[text]}"
            for text, count in self.differences.most_common()
        ]
        return [
            *found,
            f"the simulated vendor judged {self.alike:,} requests as the rules do, "
            f"{self.differences.total():,} differently; {self.own_state:,} carry another server's "
            "ids or signatures",
        ]
