"""Everything that the vendor knows, without a socket."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from lab.vendor import bill
from lab.vendor.accounts import Accounts, Owned
from lab.vendor.ask import Ask
from lab.vendor.caching import PromptCache
from lab.vendor.clock import Clock, SystemClock
from lab.vendor.faults import Fault, FaultQueue, Schedule
from lab.vendor.ids import Ids
from lab.vendor.record import Record
from lab.vendor.seals import Seals
from lab.vendor.writer import Script

__all__ = ["KEYLESS", "State"]

KEYLESS = "local"
"""The account of requests without a key, for APIs that need none."""

KEYS: Mapping[str, Iterable[str]] = {"alpha": ["key-alpha"], "beta": ["key-beta"]}
"""The accounts of a vendor that is given none."""


class State:
    """The vendor's memory: accounts, what they own, faults, scripts, the record.

    `tokens_per_second` paces answers (`None`: as fast as they can be read), `first_token` is the
    delay in seconds before the first token. `play` writes the script of requests that have none;
    without it their answers are drawn.
    """

    def __init__(
        self,
        keys: Mapping[str, Iterable[str]] | None = None,
        *,
        clock: Clock | None = None,
        seed: int = 0,
        tokens_per_second: float | None = None,
        first_token: float = 0.0,
        batch_seconds: float = 0.0,
        schedule: Schedule | None = None,
    ) -> None:
        self.clock: Clock = clock or SystemClock()
        self.accounts = Accounts(KEYS if keys is None else keys)
        self.owned = Owned()
        self.ids = Ids(seed)
        self.seals = Seals(random.Random(f"seals {seed}").randbytes(32))
        self.cache = PromptCache(self.clock)
        self.record = Record()
        self.faults = FaultQueue()
        self.scripts: list[Script] = []
        self.play: Callable[[Ask], Script] | None = None
        self.schedule = schedule
        self.tokens_per_second = tokens_per_second
        self.first_token = first_token
        self.batch_seconds = batch_seconds

    def bill(self, account: str | None = None, since: int = 0) -> dict[str, Any]:
        """Return the charges of an account (`None`: of all) with their sums, as JSON data.

        `since` leaves out the exchanges up to that number.
        """
        charges = self.record.charges(account, since)
        accounts = sorted({charge.account for charge in charges})
        return {
            "charges": [charge.as_json() for charge in charges],
            "total": bill.total(charges),
            "accounts": {
                each: bill.total(charge for charge in charges if charge.account == each)
                for each in accounts
            },
        }

    def fault_of(self, number: int, account: str, api: str, model: str, path: str) -> Fault | None:
        """Return the fault for a request: from the queue, or from the schedule."""
        waiting = self.faults.take(account, api, model, path)
        if waiting is not None or self.schedule is None:
            return waiting
        return self.schedule.fault(number)
