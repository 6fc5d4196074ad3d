"""A budget in US dollars: no call begins that it might not pay for."""

from __future__ import annotations

from swink_core import Model, UsageError

__all__ = ["Budget"]

TOKENS_UNSAID = 1000
"""Tokens of a prompt, and of an answer for which no `max_tokens` is given, until one has come."""


class Budget:
    """What may be spent, what is spent, and what the calls under way may come to.

    `dollars` is the limit; `spent` is what earlier runs took, and `dearest` the most that a call of
    theirs did (0: there was none). A call under way counts as the dearest so far; before there was
    one, as the prices let expect. The limit is passed only by as much as calls under way turn out
    dearer than any before.
    """

    def __init__(self, dollars: float, spent: float = 0.0, dearest: float = 0.0) -> None:
        self.dollars = dollars
        self.spent = spent
        self.under_way = 0
        self._dearest = dearest
        self._is_guess = not dearest

    def expect(self, model: Model, max_tokens: int | None) -> None:
        """Guess what a first call costs. Raises UsageError for a model without prices."""
        prices = model.info.prices if model.info else None
        if prices is None or prices.input is None or prices.output is None:
            raise UsageError(
                f"the price of {model} is not known, so a budget cannot stop the run in time",
                resolution="Leave the budget out, or choose a model with prices (swink models).",
            )
        if self._is_guess:
            tokens = TOKENS_UNSAID if max_tokens is None else max_tokens
            cost = (TOKENS_UNSAID * prices.input + tokens * prices.output) / 1e6
            self._dearest = max(self._dearest, cost)

    def admits(self) -> bool:
        """Tell whether one more call can be paid for, with those that are under way."""
        most = self.spent + (self.under_way + 1) * self._dearest
        return most <= self.dollars

    @property
    def refusal(self) -> str:
        """Why no further call begins, and what to do."""
        if self.spent:
            return f"the budget of ${self.dollars:g} is used up"
        return (
            f"a call may cost ${self._dearest:.2g}, which the budget of ${self.dollars:g} does not "
            f"pay for: nothing was asked\nRaise it, or lower max_tokens, for which "
            f"{TOKENS_UNSAID:,} stand where none are given."
        )

    def begin(self) -> None:
        """Count a call as under way."""
        self.under_way += 1

    def end(self, cost: float | None) -> None:
        """Count what a call cost; `None` where nobody knows."""
        self.under_way -= 1
        if cost:
            self.spent += cost
            self._dearest = cost if self._is_guess else max(self._dearest, cost)
            self._is_guess = False
