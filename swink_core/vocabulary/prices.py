"""Compute the cost of an answer from prices, their conditions, and usage.

Provider plugins report the following quantities in `Usage.extra`:

* Tokens that are included in other counts and may have a separate price: `input_audio`,
  `input_image`, `cache_read_audio` (included in `input_audio`), `cache_write_long` (cached for an
  hour or more), `output_audio`, `output_image`, `citation`.
* The numbers of billed tokens, if they differ from the token counts: `billed_input`,
  `billed_output`.
* Quantities with a fee for each unit: `searches`, `file_searches`, `audio_seconds`.

A value in `Usage.extra` that is a string is a condition on which the price depends: the service
tier (`batch`, `flex`, `priority`, `fast`) or the region.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from datetime import UTC, datetime
from functools import lru_cache
from operator import attrgetter
from typing import Annotated

import msgspec

from swink_core.vocabulary.options import NonNegativeFloat
from swink_core.vocabulary.outcome import Cost, Usage


class Rates(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """US dollars per million tokens.

    `None` for `input` or `output` means that the price is unknown. `None` for another kind of
    tokens means that they have no separate price. They then cost as much as the tokens among which
    they are counted: `cache_read` as much as `input`, and `reasoning` as much as `output`.
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


class PriceCase(Rates, frozen=True, kw_only=True):
    """Prices that replace the usual prices if all conditions hold; other prices stay the same.

    The conditions: the prompt is longer than `above` tokens; the usage contains all `terms`, such
    as a service tier; the day is `since` (ISO date) or later; the time is within `hours`
    (`["22:00", "06:30"]`, from the first time to just before the second); the day is Monday to
    Friday if `weekdays` is true. Days and times are in UTC. `factor` multiplies the price of all
    tokens.
    """

    above: int = -1
    terms: tuple[str, ...] = ()
    since: Annotated[str, msgspec.Meta(pattern=r"^\d{4}-\d\d-\d\d$")] = ""
    hours: tuple[str, str] = ("", "")
    weekdays: bool = False
    factor: NonNegativeFloat = 1.0

    def holds(self, prompt: int, terms: Set[str], at: datetime) -> bool:
        """Return True if all conditions of this case are met, so that its prices apply."""
        if prompt <= self.above or (self.terms and not terms >= {*self.terms}):
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
    """A model's prices. If several of the `cases` apply, later ones take precedence.

    `fees` maps quantities to US dollars per unit; its key `requests` is the fee for each answer.
    """

    fees: Mapping[str, NonNegativeFloat] = {}
    cases: tuple[PriceCase, ...] = ()

    def at(self, prompt: int, terms: Set[str], at: datetime) -> Mapping[str, float]:
        """Return the prices for a prompt of `prompt` tokens at the time `at`.

        `terms` are the strings in the answer's `Usage.extra`, on which the price may depend: for
        example, the service tier (`flex`) or the region.
        """
        cases = [case for case in self.cases if case.holds(prompt, terms, at)]
        rates = _known_rates(_amounts(self))
        for case in cases:
            rates = {**rates, **_known_rates(_amounts(case))}
        for case in cases:
            if case.factor != 1.0:
                rates = {name: rate * case.factor for name, rate in rates.items()}
        return rates


_NAMES = Rates.__struct_fields__

_amounts = attrgetter(*_NAMES)


@lru_cache(maxsize=1024)
def _known_rates(amounts: tuple[float | None, ...]) -> Mapping[str, float]:
    """Return the known amounts by name. Callers share the mapping: do not change it."""
    named = zip(_NAMES, amounts, strict=True)
    return {name: amount for name, amount in named if amount is not None}


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
    """Return the cost of an answer in US dollars, by the prices at the time `at` (`None`: now).

    Return `None` if the usage or the prices are unknown. A part of the cost is `None` if its price
    or token count is unknown. `total` is the sum of the parts, or `None` if tokens were used whose
    price is unknown. Cache reads and writes without a separate price cost as much as other input.
    If `long` is true, cache writes have the price of a cache that is kept for an hour or more,
    unless the usage states otherwise.
    """
    if usage is None or prices is None:
        return None
    counts: dict[str, float] = {}
    terms: set[str] = set()
    for name, value in usage.extra.items():
        if isinstance(value, str):
            terms.add(value)
        elif isinstance(value, int | float) and value >= 0:
            counts[name] = value
    rates = prices.at(usage.input or 0, terms, (at or datetime.now(UTC)).astimezone(UTC))
    read = usage.cache_read or 0
    write = usage.cache_write or 0
    prompt = counts.get("billed_input", usage.input)
    fresh = None if prompt is None else max(0, prompt - read - write)
    billed = counts.get("billed_output", usage.output)
    if long:
        counts.setdefault("cache_write_long", write)
    if "cache_read_audio" in counts:
        counts["input_audio"] = counts.get("input_audio", 0) - counts["cache_read_audio"]
    counts["reasoning"] = usage.reasoning or 0
    input_rate = rates.get("input")
    cost = Cost(
        _part_cost("input", fresh, counts, rates, input_rate),
        _part_cost("output", billed, counts, rates, None),
        _part_cost("cache_read", usage.cache_read, counts, rates, input_rate),
        _part_cost("cache_write", usage.cache_write, counts, rates, input_rate),
    )
    fees = prices.fees
    if fees:
        due = [fee * counts.get(name, name == "requests") for name, fee in fees.items()]
        cost.fees = sum(due) if any(due) else None
    searched = any(counts.get(name) and name not in fees for name in _SEARCHES)
    if cost.input is not None and cost.output is not None and not searched:
        others = (cost.cache_read or 0.0) + (cost.cache_write or 0.0) + (cost.fees or 0.0)
        cost.total = cost.input + cost.output + others
    return cost


def _part_cost(
    whole: str,
    tokens: float | None,
    counts: Mapping[str, float],
    rates: Mapping[str, float],
    default: float | None,
) -> float | None:
    """Return the cost of one kind of tokens in US dollars.

    `default` is the price for this kind of tokens if `rates` does not contain a price for it.
    """
    rate = rates.get(whole, default)
    if tokens is None or rate is None:
        return None
    dollars = 0.0
    for name in _PARTS[whole]:
        count = counts.get(name)
        if count:
            apart = max(0, min(count, tokens))
            tokens -= apart
            dollars += apart * rates.get(name, rate)
    return (dollars + tokens * rate) / 1e6
