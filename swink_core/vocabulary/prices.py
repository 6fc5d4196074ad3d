"""What an answer costs: prices, when they hold, and the sum over what was used.

What a plugin tells of an answer in `Usage.extra` counts under these names, whatever the provider
calls it. Tokens that are parts of others and may have a price of their own: `input_audio`,
`input_image`, `cache_read_audio` (a part of `input_audio`), `cache_write_long` (kept for an hour
or more), `output_audio`, `output_image`, `citation`. Tokens that are billed where other ones were
counted: `billed_input`, `billed_output`. What costs a fee for each: `searches`, `file_searches`,
`audio_seconds`. Words are the terms of the bill: the tier that answered (`batch`, `flex`,
`priority`, `fast`), the region.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from datetime import UTC, datetime
from typing import Annotated

import msgspec

from swink_core.vocabulary.options import NonNegativeFloat
from swink_core.vocabulary.outcome import Cost, Usage


class Rates(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """US dollars for a million tokens; `None` where unknown, or where it is that of the whole.

    `fees` are US dollars for one of what they name, `requests` for an answer at all.
    """

    input: NonNegativeFloat | None = None
    output: NonNegativeFloat | None = None
    cache_read: NonNegativeFloat | None = None
    cache_write: NonNegativeFloat | None = None
    cache_write_long: NonNegativeFloat | None = None
    cache_read_audio: NonNegativeFloat | None = None
    input_audio: NonNegativeFloat | None = None
    input_image: NonNegativeFloat | None = None
    output_audio: NonNegativeFloat | None = None
    output_image: NonNegativeFloat | None = None
    reasoning: NonNegativeFloat | None = None
    citation: NonNegativeFloat | None = None
    fees: Mapping[str, NonNegativeFloat] = {}


class PriceCase(Rates, frozen=True, kw_only=True):
    """Prices that replace others where all of this holds; what they do not name stays.

    The prompt is longer than `above` tokens, the answer was billed on all `terms`, the day is
    `since` or later (ISO date), the time is within `hours` (`["22:00", "06:30"]`, the first
    included), the day is Monday to Friday if `weekdays`; days and times are UTC. `factor` is what
    all tokens cost times as much.
    """

    above: int = -1
    terms: tuple[str, ...] = ()
    since: Annotated[str, msgspec.Meta(pattern=r"^\d{4}-\d\d-\d\d$")] = ""
    hours: tuple[str, str] = ("", "")
    weekdays: bool = False
    factor: NonNegativeFloat = 1.0

    def holds(self, prompt: int, terms: Set[str], at: datetime) -> bool:
        """Tell whether these prices are the ones to pay."""
        if prompt <= self.above or not terms >= {*self.terms}:
            return False
        if self.weekdays and at.weekday() > 4:
            return False
        begin, end = self.hours
        if begin != end:
            now = f"{at.hour:02}:{at.minute:02}"
            in_time = begin <= now < end if begin < end else not end <= now < begin
            if not in_time:
                return False
        return self.since <= at.date().isoformat()


class Prices(Rates, frozen=True):
    """A model's prices; of `cases` that hold, a later one replaces an earlier."""

    cases: tuple[PriceCase, ...] = ()

    def at(self, prompt: int, terms: Set[str], at: datetime) -> dict[str, float]:
        """Return what is to pay for a prompt of so many tokens, on these terms, at that time."""
        cases = [case for case in self.cases if case.holds(prompt, terms, at)]
        rates: dict[str, float] = {}
        for each in (self, *cases):
            for name in _NAMES:
                rate = getattr(each, name)
                if rate is not None:
                    rates[name] = rate
        for case in cases:
            if case.factor != 1.0:
                rates = {name: rate * case.factor for name, rate in rates.items()}
        return rates


_NAMES = Rates.__struct_fields__[:-1]
_PARTS = {
    "input": ("input_audio", "input_image"),
    "output": ("reasoning", "citation", "output_audio", "output_image"),
    "cache_read": ("cache_read_audio",),
    "cache_write": ("cache_write_long",),
}
_SEARCHES = ("searches", "file_searches")


def cost_of(
    usage: Usage | None, prices: Prices | None, at: datetime | None = None, long: bool = False
) -> Cost | None:
    """Price an answer of that time (`None`: now) in US dollars; `None` where nothing can be said.

    Parts without a price or a count are `None`; `total` is the sum, `None` if something that was
    used has no price. Cache reads and writes without a price of their own cost as input. Writes
    of which nobody says how long they are kept are kept `long`, or not.
    """
    if usage is None or prices is None:
        return None
    counts = {k: v for k, v in usage.extra.items() if isinstance(v, int | float) and v >= 0}
    terms = {value for value in usage.extra.values() if isinstance(value, str)}
    rates = prices.at(usage.input or 0, terms, (at or datetime.now(UTC)).astimezone(UTC))
    read, write = usage.cache_read or 0, usage.cache_write or 0
    prompt = counts.get("billed_input", usage.input)
    fresh = None if prompt is None else max(0, prompt - read - write)
    billed = counts.get("billed_output", usage.output)
    counts.setdefault("cache_write_long", write if long else 0)
    counts["input_audio"] = counts.get("input_audio", 0) - counts.get("cache_read_audio", 0)
    counts["reasoning"] = usage.reasoning or 0
    cost = Cost(fresh, billed, usage.cache_read, usage.cache_write)
    for whole, parts in _PARTS.items():
        rate = rates.get(whole, None if whole == "output" else rates.get("input"))
        tokens, dollars = getattr(cost, whole), 0.0
        if tokens is not None and rate is not None:
            for part in parts:
                some = max(0, min(counts.get(part, 0), tokens))
                tokens, dollars = tokens - some, dollars + some * rates.get(part, rate)
            dollars = (dollars + tokens * rate) / 1e6
        setattr(cost, whole, None if tokens is None or rate is None else dollars)
    fees = [fee * counts.get(name, name == "requests") for name, fee in prices.fees.items()]
    cost.fees = sum(fees) if any(fees) else None
    searched = any(counts.get(name) and name not in prices.fees for name in _SEARCHES)
    if cost.input is not None and cost.output is not None and not searched:
        others = (cost.cache_read, cost.cache_write, cost.fees)
        cost.total = cost.input + cost.output + sum(part or 0.0 for part in others)
    return cost
