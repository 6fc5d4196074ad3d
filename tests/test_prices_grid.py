"""Prices of every row, held against genai-prices, asked directly with the same usage."""

from __future__ import annotations

import pickle
import re
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from itertools import product
from pathlib import Path

import genai_prices.types as genai
import msgspec
import pytest
import update_catalog

from swink_core import Usage
from swink_core.vocabulary.models import ModelInfo
from swink_core.vocabulary.prices import cost_of

ROOT = Path(__file__).resolve().parent.parent
FILES = sorted(
    path
    for path in ROOT.glob("plugins/*/src/*/models.toml")
    if update_catalog.BEGIN in path.read_text("utf-8")
)
TIMES = [
    datetime(2026, 11, 21, 12, tzinfo=UTC),  # a Saturday
    datetime(2026, 11, 23, 1, tzinfo=UTC),
    datetime(2026, 11, 23, 4, tzinfo=UTC),
    datetime(2026, 11, 23, 9, 59, tzinfo=UTC),
    datetime(2026, 10, 1, tzinfo=UTC),
    datetime(2026, 1, 1, 5, tzinfo=UTC),
    datetime(2026, 12, 1, tzinfo=UTC),
    datetime(2027, 1, 4, 16, 30, tzinfo=UTC),
]
PROMPTS = [1_000, 100_000, 100_001, 199_999, 200_000, 200_001, 272_000, 900_000]
# parts of the prompt that are read from a cache, written to it, and written for long
CACHED = [(0.0, 0.0, 0.0), (0.5, 0.0, 0.0), (0.25, 0.5, 0.0), (0.0, 0.5, 0.5), (0.1, 0.4, 0.1)]


def _rows() -> Iterator[tuple[str, ModelInfo, genai.ModelInfo]]:
    for file in FILES:
        data = tomllib.loads(file.read_text("utf-8"))
        providers = [*data.get("providers", ()), *filter(None, [data.get("provider")])]
        named = dict(update_catalog.SOURCE.findall(file.read_text("utf-8")))
        sources = update_catalog._sources(providers, named)
        for row in data["models"]:
            provider = row.setdefault("provider", providers[0]["name"])
            source = sources.get(provider)
            model = source.find_model(row["id"]) if source else None
            if model is not None:
                info = msgspec.convert(row, ModelInfo)
                yield f"{provider}/{row['id']}", info, model


ROWS = list(_rows())


def _correction(name: str, what: str = "prices") -> str | None:
    """Return whose word on a row counts for more than genai-prices'."""
    provider, _, model_id = name.partition("/")
    words = (
        str(fact["source"])
        for fact in update_catalog.facts("models")
        if what in fact and provider in fact["providers"] and re.search(fact["match"], model_id)
        if what != "prices" or fact["prices"].keys() != {"fees"}
    )
    return next(words, None)


@pytest.mark.parametrize(("name", "info", "model"), ROWS, ids=[name for name, *_ in ROWS])
def test_a_row_costs_what_genai_prices_says(
    name: str, info: ModelInfo, model: genai.ModelInfo
) -> None:
    if source := _correction(name):
        pytest.skip(f"{name} is priced by {source}")
    terms = [None, *{next(iter(v.when.items())) for v in model.price_variants or ()}]
    times = TIMES if _knows_the_time(info, model) else TIMES[:1]
    whole = _correction(name, "long_writes") is None
    counts = _counts(whole)
    for term in terms:
        tier: dict[str, object] = {} if term is None else {"service_tier": term[1]}
        usages = [_usage(counted, tier) for counted in counts]
        for at in times:
            prices = model.get_prices(at, dict([term]) if term else None)
            for usage, wanted in zip(usages, _asked(pickle.dumps(prices), whole), strict=True):
                ours = cost_of(usage, info.prices, at)
                assert ours is not None
                assert abs(ours.total - wanted) <= max(0.005 * wanted, 1e-12), (at, term, usage)


@cache
def _counts(whole: bool) -> list[genai.Usage]:
    """Return the counted usage; if not `whole`, without long-lived cache writes."""
    cached = [parts for parts in CACHED if whole or not parts[2]]
    return [_counted(prompt, *parts) for prompt, parts in product(PROMPTS, cached)]


@cache
def _asked(pickled: bytes, whole: bool) -> list[float]:
    """Return the cost of all counts; cached, because many models have the same prices."""
    prices: genai.ModelPrice = pickle.loads(pickled)
    return [float(prices.calc_price(counted)["total_price"]) for counted in _counts(whole)]


def _usage(counted: genai.Usage, tier: dict[str, object]) -> Usage:
    extra = {"cache_write_long": counted.cache_write_1h_tokens, **tier}
    read, write = counted.cache_read_tokens, counted.cache_write_tokens
    return Usage(counted.input_tokens, counted.output_tokens, read, write, extra=extra)


def _knows_the_time(info: ModelInfo, model: genai.ModelInfo) -> bool:
    """Tell whether a price of either side is for some days or hours only."""
    theirs = [*(model.price_variants or ())]
    if not isinstance(model.prices, genai.ModelPrice):
        theirs += model.prices
    ours = info.prices.cases if info.prices else ()
    return any(each.constraint for each in theirs) or any(
        case.since or case.weekdays or any(case.hours) for case in ours
    )


def _counted(prompt: int, reads: float, writes: float, longs: float) -> genai.Usage:
    return genai.Usage(
        input_tokens=prompt,
        output_tokens=2_000,
        cache_read_tokens=int(prompt * reads),
        cache_write_tokens=int(prompt * writes),
        cache_write_1h_tokens=int(prompt * longs),
    )


# (name in `Usage.extra`, genai-prices' name, what has to have a price for the comparison)
PARTS = [
    ("input_audio", "input_audio_tokens", "input_audio_mtok"),
    ("searches", "web_searches", "web_searches_kcount"),
    ("file_searches", "storage_searches", "storage_searches_kcount"),
]


@pytest.mark.parametrize(("ours", "theirs", "key"), PARTS, ids=[part[0] for part in PARTS])
def test_parts_billed_separately_are_priced_separately(ours: str, theirs: str, key: str) -> None:
    at, compared = TIMES[0], 0
    for name, info, model in ROWS:
        if getattr(model.get_prices(at), key) is None or _correction(name):
            continue
        cost = cost_of(Usage(5_000, 2_000, extra={ours: 700}), info.prices, at)
        counted = genai.Usage(input_tokens=5_000, output_tokens=2_000, **{theirs: 700})
        assert cost is not None
        wanted = float(model.get_prices(at).calc_price(counted)["total_price"])
        assert cost.total == pytest.approx(wanted, rel=0.005), name
        compared += 1
    assert compared


def test_aliases_lead_to_the_model_to_which_genai_prices_takes_them() -> None:
    for file in FILES:
        text = file.read_text("utf-8")
        data = tomllib.loads(text)
        providers = [*data.get("providers", ()), *filter(None, [data.get("provider")])]
        sources = update_catalog._sources(providers, dict(update_catalog.SOURCE.findall(text)))
        first = providers[0]["name"]
        for provider, source in sources.items():
            rows = [row for row in data["models"] if row.get("provider", first) == provider]
            for model in source.models:
                found = next(
                    (r for r in rows if "match" in r and re.search(r["match"], model.id)),
                    None,
                )
                if found is not None and not any(row["id"] == model.id for row in rows):
                    assert source.find_model(found["id"]) is source.find_model(model.id), model.id
