"""A budget in US dollars: no call begins that it might not pay for."""

from __future__ import annotations

from swink_core import Model, UsageError

__all__ = ["Budget"]

CHARACTERS_A_TOKEN = 3.0
"""Fewer than in most text, so that a guess is rather too high."""

TOKENS_UNSAID = 1000
"""Tokens of an answer for which no `max_tokens` is given, until one has come."""


class Budget:
    """What may be spent, what is spent, and what the calls under way may come to.

    `dollars` is the limit, `spent` what earlier runs took. A call under way counts as the dearest
    so far, and before there was one, as the prices and the first prompt let expect: the limit is
    passed only by as much as calls under way turn out dearer than any before.
    """

    def __init__(self, dollars: float, spent: float = 0.0) -> None:
        self.dollars = dollars
        self.spent = spent
        self._dearest: float | None = None
        self._is_guess = True
        self.under_way = 0

    def expect(self, model: Model, characters: int, max_tokens: int | None) -> None:
        """Guess what the first call costs. Raises UsageError for a model without prices."""
        prices = model.info.prices if model.info else None
        if prices is None or prices.input is None or prices.output is None:
            raise UsageError(
                f"the price of {model} is not known, so a budget cannot stop the run in time",
                resolution="Leave the budget out, or choose a model with prices (swink models).",
            )
        if self._dearest is None:
            tokens = characters / CHARACTERS_A_TOKEN
            self._dearest = (
                tokens * prices.input + (max_tokens or TOKENS_UNSAID) * prices.output
            ) / 1e6

    def admits(self) -> bool:
        """Tell whether one more call can be paid for, with those that are under way."""
        most = self.spent + (self.under_way + 1) * (self._dearest or 0.0)
        return most <= self.dollars

    def begin(self) -> None:
        """Count a call as under way."""
        self.under_way += 1

    def end(self, cost: float | None) -> None:
        """Count what a call cost; `None` where nobody knows."""
        self.under_way -= 1
        if cost:
            self.spent += cost
            self._dearest = cost if self._is_guess else max(self._dearest or 0.0, cost)
            self._is_guess = False
