"""The budgets that a process remembers, so that it can write them again if Redis loses them.

Redis stores an id with each budget, so a missing id shows that a budget was lost. If the budget of
a key is lost and no process remembers it, requests with this key are refused.
"""

from __future__ import annotations

import logging
from collections import Counter

from swink_gateway.policy.limits.ledger import Spending

__all__ = ["DATA_LOST", "Budget", "RememberedBudgets"]

log = logging.getLogger(__name__)

DATA_LOST = "swink_gateway_store_data_lost_total"
"""The name of the counter that counts how often the server has lost its data."""

Budget = tuple[str, float, float, float]
"""A budget: its id, the time at which it was read, and the spending of that day and month.

The spending is in US dollars.
"""

_UNKNOWN: Budget = ("", 0.0, 0.0, 0.0)


class RememberedBudgets:
    """The budgets of keys, as this process last read them from Redis.

    `where` is the address of the Redis server, for log messages. The counter `DATA_LOST` in
    `counters` counts lost budgets.
    """

    def __init__(self, where: str, counters: Counter[str]) -> None:
        self._where = where
        self._counters = counters
        self._budgets: dict[str, Budget] = {}
        self._missing: set[str] = set()

    @property
    def keys(self) -> list[str]:
        """The keys whose budgets are remembered."""
        return [*self._budgets]

    def of(self, key: str) -> Budget:
        """Return the budget of a key; its id is empty if no budget is remembered."""
        return self._budgets.get(key, _UNKNOWN)

    def update(self, key: str, taken: Spending, id: str, reserved: float = 0.0) -> None:
        """Remember a budget that was read from Redis, and the amount reserved since then.

        `id` is empty if Redis has lost the budget.
        """
        before = self.of(key)[0]
        if not id or (before and before != id):
            self._log_loss(key, is_restored=bool(id))
        if id:
            self._missing.discard(key)
            today, this_month = taken.dollars_today, taken.dollars_this_month
            self._budgets[key] = id, taken.at, today + reserved, this_month + reserved

    def lose_all(self) -> None:
        """Log that the server has lost its data."""
        self._counters[DATA_LOST] += 1
        log.error(
            "Redis at %s has lost its data: this process writes the budgets that it remembers "
            "again",
            self._where,
        )  # fmt: skip
        self._missing.update(self._budgets)  # so that the lost budgets are not logged one by one

    def _log_loss(self, key: str, is_restored: bool) -> None:
        if key in self._missing:
            return
        self._counters[DATA_LOST] += 1
        if is_restored:
            log.error(
                "Redis at %s has lost the budget of %r: it is written again", self._where, key
            )
            return
        self._missing.add(key)
        log.error(
            "Redis at %s has lost the budget of %r, which this process does not remember: the key "
            "is refused until a process that does writes it again, or you do",
            self._where, key,
        )  # fmt: skip
