"""Prices of `genai-prices` as a row of a plugin's `models.toml` has them.

There the last of a model's prices whose condition holds replaces the ones before it as a whole,
and of the variants for a tier the first one counts, price by price; a row's cases are laid over
one another, the later ones over the earlier. So every case says all that it changes.
"""

from __future__ import annotations

from typing import Any

from genai_prices.types import (
    ConditionalPrice,
    ModelInfo,
    ModelPrice,
    StartDateConstraint,
    TieredPrices,
    TimeOfDateConstraint,
)

RATES = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cache_read": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
    "cache_write_long": "cache_write_1h_mtok",
    "cache_read_audio": "cache_audio_read_mtok",
    "input_audio": "input_audio_mtok",
    "input_image": "input_image_mtok",
    "output_audio": "output_audio_mtok",
    "output_image": "output_image_mtok",
    "reasoning": "output_reasoning_mtok",
    "citation": "output_citation_mtok",
}
FEES = {
    "searches": ("web_searches_kcount", 1000),
    "file_searches": ("storage_searches_kcount", 1000),
    "requests": ("requests_kcount", 1000),
    "audio_seconds": ("input_audio_hours", 3600),
}
WHOLE = {
    "cache_read": "input",
    "cache_write": "input",
    "cache_write_long": "cache_write",
    "cache_read_audio": "cache_read",
    "input_audio": "input",
    "input_image": "input",
    "output_audio": "output",
    "output_image": "output",
    "reasoning": "output",
    "citation": "output",
}
"""The price that applies to a part without its own price."""
SAID_BY_WORDS = {"service_tier", "processing", "speed"}


def prices_of(model: ModelInfo) -> dict[str, Any]:
    """Return a row's `prices`: those of the shortest prompts, then the cases."""
    standard = model.prices
    if isinstance(standard, ModelPrice):
        standard = [ConditionalPrice(prices=standard)]
    every = {name for each in standard for name in _levels(each.prices)[0][1]}
    prices: dict[str, Any] = {}
    cases: list[dict[str, Any]] = []
    for number, each in enumerate(standard):
        full: dict[str, float] = {}
        for above, rates in _levels(each.prices):
            full |= rates
            whole = rates | {n: _whole(n, full) for n in WHOLE if n in every}
            if number == 0 and above is None:
                prices = rates
            else:
                cases.append({**_when(each.constraint), **_above(above), **whole})
    for variant in reversed(model.price_variants or []):
        if set(variant.when) <= SAID_BY_WORDS:
            levels = _levels(variant.prices)
            for above, rates in levels if levels[0][1] else ():
                terms = {"terms": sorted(variant.when.values())}
                cases.append({**terms, **_when(variant.constraint), **_above(above), **rates})
    [newest] = [each.prices for each in standard[-1:]]
    fees = {
        name: float(price) / count
        for name, (key, count) in FEES.items()
        if (price := getattr(newest, key)) is not None
    }
    if fees:
        prices["fees"] = fees
    if cases:
        prices["cases"] = cases
    return prices


def _levels(price: ModelPrice) -> list[tuple[int | None, dict[str, float]]]:
    """Return rates by the length of prompt from which they are paid, shortest first."""
    given = {ours: getattr(price, theirs) for ours, theirs in RATES.items()}
    known = {ours: each for ours, each in given.items() if each is not None}
    tiered = {ours: each for ours, each in known.items() if isinstance(each, TieredPrices)}
    flat = {ours: float(getattr(each, "base", each)) for ours, each in known.items()}
    levels: list[tuple[int | None, dict[str, float]]] = [(None, flat)]
    for start in sorted({tier.start for each in tiered.values() for tier in each.tiers}):
        rates = {
            ours: float(tier.price)
            for ours, each in tiered.items()
            for tier in each.tiers
            if tier.start == start
        }
        levels.append((start, rates))
    return levels


def _whole(name: str, rates: dict[str, float]) -> float:
    while name not in rates:
        name = WHOLE[name]
    return rates[name]


def _above(tokens: int | None) -> dict[str, Any]:
    return {} if tokens is None else {"above": tokens}


def _when(constraint: object) -> dict[str, Any]:
    match constraint:
        case StartDateConstraint():
            return {"since": constraint.start_date.isoformat()}
        case TimeOfDateConstraint():
            begin, end = constraint.start_time, constraint.end_time
            return {"hours": [begin.strftime("%H:%M"), end.strftime("%H:%M")]}
    return {}
