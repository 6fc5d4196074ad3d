"""Apply the prices of the configuration file to the catalog's prices of a model."""

from __future__ import annotations

from typing import Any

import msgspec

from swink_core import ModelInfo, replace
from swink_gateway.policy.config import Price

__all__ = ["repriced"]

_BY = {
    "input": "input",
    "output": "output",
    "reasoning": "output",
    "cache_read": "cache_read",
    "cache_write": "cache_write",
    "cache_write_long": "cache_write",
}
"""The token prices of a special case, each with the price in the file by which it changes."""


def repriced(info: ModelInfo, price: Price) -> ModelInfo:
    """Return a model's data with the prices of the file in place of the catalog's.

    The catalog's prices for special cases (long prompts, service tiers, regions) change in the same
    ratio. The catalog's prices of images and sound do not change. Its fees change only if the file
    has a fee.
    """
    known: Any = info.prices
    if known is None:
        known = msgspec.convert({"id": info.id, "prices": {}}, ModelInfo).prices
    new: dict[str, float | None] = {
        "input": price.input,
        "output": price.output,
        "reasoning": None,
        "cache_read": price.input if price.cache_read is None else price.cache_read,
        "cache_write": price.input if price.cache_write is None else price.cache_write,
        "cache_write_long": None,
    }
    fee = price.search
    searches = {} if fee is None else {"searches": fee, "file_searches": fee}
    cases = tuple(_scaled(case, known, new) for case in known.cases)
    prices = replace(known, **new, fees={**known.fees, **searches}, cases=cases)
    return replace(info, prices=prices)


def _scaled(case: Any, known: Any, new: dict[str, float | None]) -> Any:
    scaled = {}
    for name, by in _BY.items():
        rate, usual, now = getattr(case, name), getattr(known, by), new[by]
        if usual is None:
            usual = known.input
        if rate is not None and usual and now is not None:
            scaled[name] = rate * now / usual
    return replace(case, **scaled)
