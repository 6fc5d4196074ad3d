"""The cost of an answer, by request and usage."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from swink_core import Usage
from swink_core.providers.network import is_own_address
from swink_core.vocabulary.prices import PriceCase, Prices, Rates, cost_of

M = 1_000_000
SATURDAY = datetime(2026, 11, 21, 2, tzinfo=UTC)
MONDAY = datetime(2026, 11, 23, 2, tzinfo=UTC)

PRICES = """
input = 2.0
output = 10.0
cache_read = 0.2
cache_write = 2.5
cache_write_long = 4.0
input_audio = 32.0
cache_read_audio = 3.0
input_image = 6.0
output_audio = 80.0
output_image = 60.0
citation = 5.0
reasoning = 3.0
fees = { searches = 0.01, requests = 0.005 }
cases = [
    { above = 2_000_000, input = 4.0, output = 15.0 },
    { terms = ["flex"], input = 1.0, output = 5.0 },
    { terms = ["flex"], above = 2_000_000, input = 2.0, output = 7.5 },
    { since = "2026-12-01", output = 20.0 },
    { hours = ["01:00", "04:00"], weekdays = true, output = 30.0 },
    { hours = ["22:00", "00:30"], output = 11.0 },
    { terms = ["us"], factor = 1.1 },
    { terms = ["fast"], factor = 2.0 },
]
"""

# (what, usage, when, what it costs without the fee for the request)
CASES: list[tuple[str, Usage, datetime, float]] = [
    ("plain", Usage(M, M), SATURDAY, 12.0),
    ("as_long_as_a_tier_begins", Usage(2 * M, M), SATURDAY, 14.0),
    ("longer_the_whole_prompt", Usage(2 * M + 1, M), SATURDAY, 23.000004),
    ("tier", Usage(M, M, extra={"service_tier": "flex"}), SATURDAY, 6.0),
    ("tier_and_length", Usage(3 * M, M, extra={"service_tier": "flex"}), SATURDAY, 13.5),
    ("a_tier_without_a_price", Usage(M, M, extra={"service_tier": "default"}), SATURDAY, 12.0),
    ("a_tier_at_twice_the_price", Usage(M, M, extra={"service_tier": "fast"}), SATURDAY, 24.0),
    ("region", Usage(M, M, extra={"inference_geo": "us"}), SATURDAY, 13.2),
    ("before_a_day", Usage(M, M), datetime(2026, 11, 30, 23, 59, tzinfo=UTC), 13.0),
    ("on_the_first_day", Usage(M, M), datetime(2026, 12, 1, 12, tzinfo=UTC), 22.0),
    ("from_a_day_on", Usage(M, M), datetime(2026, 12, 5, 12, tzinfo=UTC), 22.0),
    ("busy_hours", Usage(M, M), MONDAY, 32.0),
    ("before_busy_hours", Usage(M, M), MONDAY.replace(hour=0, minute=59), 12.0),
    ("busy_hours_begin", Usage(M, M), MONDAY.replace(hour=1), 32.0),
    ("busy_hours_end", Usage(M, M), MONDAY.replace(hour=3, minute=59), 32.0),
    ("busy_hours_on_a_friday", Usage(M, M), MONDAY.replace(day=27), 32.0),
    ("busy_hours_are_over", Usage(M, M), MONDAY.replace(hour=4), 12.0),
    ("before_the_evening", Usage(M, M), MONDAY.replace(hour=21, minute=59), 12.0),
    ("the_evening_begins", Usage(M, M), MONDAY.replace(hour=22), 13.0),
    ("over_midnight", Usage(M, M), MONDAY.replace(hour=0, minute=29), 13.0),
    ("after_midnight", Usage(M, M), MONDAY.replace(hour=0, minute=30), 12.0),
    ("written", Usage(M, 0, 0, M), SATURDAY, 2.5),
    ("written_for_long", Usage(M, 0, 0, M, extra={"cache_write_long": M // 2}), SATURDAY, 3.25),
    ("audio", Usage(M, 0, extra={"input_audio": M // 2}), SATURDAY, 17.0),
    (
        "cached_audio",
        Usage(M, 0, M // 2, extra={"input_audio": M // 2, "cache_read_audio": M // 4}),
        SATURDAY,
        0.5 + 8.0 + 0.05 + 0.75,
    ),
    ("shown_images", Usage(M, 0, extra={"input_image": M // 2}), SATURDAY, 4.0),
    ("images", Usage(0, M, extra={"output_image": M // 2}), SATURDAY, 35.0),
    ("spoken", Usage(0, M, extra={"output_audio": M // 2}), SATURDAY, 45.0),
    ("cited", Usage(0, M, extra={"citation": M // 2}), SATURDAY, 7.5),
    ("reasoning", Usage(0, M, reasoning=M // 2), SATURDAY, 6.5),
    ("searches", Usage(M, 0, extra={"searches": 3}), SATURDAY, 2.03),
    ("billed", Usage(M, M, extra={"billed_input": 10, "billed_output": 0}), SATURDAY, 0.00002),
]  # fmt: skip


@pytest.mark.parametrize(
    ("usage", "at", "dollars"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_prices_depend_on_what_was_used_and_how(usage: Usage, at: datetime, dollars: float) -> None:
    cost = cost_of(usage, msgspec.toml.decode(PRICES, type=Prices), at)

    assert cost is not None
    assert cost.total == pytest.approx(dollars + 0.005)


def test_the_callers_lifetime_counts_where_the_answer_names_none() -> None:
    prices = Prices(2.0, 10.0, cache_write=2.5, cache_write_long=4.0)
    untold, told = Usage(M, 0, 0, M), Usage(M, 0, 0, M, extra={"cache_write_long": 0})

    for usage, long, dollars in ((untold, True, 4.0), (untold, False, 2.5), (told, True, 2.5)):
        cost = cost_of(usage, prices, SATURDAY, long)
        assert cost is not None
        assert cost.total == pytest.approx(dollars)


@pytest.mark.parametrize("name", ["searches", "file_searches"])
def test_a_part_without_a_price_makes_the_sum_unknown(name: str) -> None:
    cost = cost_of(Usage(M, M, extra={name: 1}), Prices(2.0, 10.0), SATURDAY)

    assert cost is not None
    assert (cost.input, cost.output, cost.fees, cost.total) == (2.0, 10.0, None, None)


def test_without_a_usage_or_prices_the_cost_is_unknown() -> None:
    assert cost_of(None, Prices(2.0, 10.0), SATURDAY) is None
    assert cost_of(Usage(M, M), None, SATURDAY) is None


# (address, of this machine, of a private network)
ADDRESSES: list[tuple[str, bool, bool]] = [
    ("http://127.0.0.1:8000/v1", True, True),
    ("http://localhost:1234", True, True),
    ("http://[::1]:8080", True, True),
    ("http://192.168.1.20:8000", False, True),
    ("http://10.0.0.5", False, True),
    ("https://8.8.8.8/v1", False, False),
    ("https://api.example.com/v1", False, False),
    ("https://localhost.example.com", False, False),
    ("", False, False),
]


@pytest.mark.parametrize(("url", "here", "private"), ADDRESSES, ids=[a[0] for a in ADDRESSES])
def test_addresses_of_ones_own(url: str, here: bool, private: bool) -> None:
    assert is_own_address(url) is here
    assert is_own_address(url, private=True) is private


@pytest.mark.parametrize("field", ["inptu = 2.0", "fees = { searches = 0.02 }"])
def test_a_case_is_refused_that_says_what_no_price_is(field: str) -> None:
    rows = f"cases = [{{ above = 1, {field} }}]"
    with pytest.raises(msgspec.ValidationError, match=field.split()[0]):
        msgspec.toml.decode(rows, type=Prices)


# (usage, dollars at one for a token of the prompt and two for one of the answer)
EXACT: list[tuple[Usage, float | None]] = [
    (Usage(10, 20), 50.0),
    (Usage(10, 20, 0, 0), 50.0),
    (Usage(10, 20, 4, 0), 50.0 - 4 * 0.5),
    (Usage(10, 20, 0, 4), 50.0 + 4 * 0.25),
    (Usage(10, 20, reasoning=5), 50.0 + 5 * 1.0),
    (Usage(10, 20, extra={"input_audio": 3}), 50.0 + 3 * 6.0),
    (Usage(10, 20, 10, extra={"input_audio": 3}), 40.0 + 10 * 0.5),
    (Usage(10, 20, extra={"cache_read_audio": 0}), 50.0),
    (Usage(10, 20, 4, extra={"cache_read_audio": 4}), 50.0 - 4 * 0.5),
    (Usage(10, 20, extra={"input_audio": -3, "output_audio": None, "citation": {}}), 50.0),
    (Usage(0, 0), 0.0),
    (Usage(0, 20, extra={"input_audio": 3}), 40.0),
    (Usage(10, 0, reasoning=5), 10.0),
    (Usage(10, 20, 10, 0), 50.0 - 10 * 0.5),
    (Usage(10, 20, 12, 0), 40.0 + 12 * 0.5),
    (Usage(10, 20, extra={"cache_read_audio": 3}), 50.0),
    (Usage(10, 20, extra={"billed_input": -1, "input_audio": None}), 50.0),
    (Usage(None, 20, extra={"billed_input": 10}), 50.0),
    (Usage(None, 20), None),
    (Usage(10, None), None),
]


@pytest.mark.parametrize(("usage", "dollars"), EXACT)
def test_not_a_token_is_priced_that_was_not_used(usage: Usage, dollars: float | None) -> None:
    each = 1_000_000.0
    prices = Prices(
        each,
        2 * each,
        cache_read=each / 2,
        cache_write=each * 1.25,
        cache_write_long=each * 4,
        input_audio=7 * each,
        reasoning=3 * each,
        cases=(PriceCase(above=10, factor=9.0),),
    )
    cost = cost_of(usage, prices, SATURDAY)
    assert cost is not None
    assert cost.total == (None if dollars is None else pytest.approx(dollars))


@pytest.mark.parametrize(("prompt", "dollars"), [(None, 2.0), (0, 2.0), (1, 3.0)])
def test_a_case_for_any_prompt_does_not_hold_without_one(
    prompt: int | None, dollars: float
) -> None:
    prices = Prices(2.0, 2.0, cases=(PriceCase(above=0, output=3.0),))
    cost = cost_of(Usage(prompt, M), prices, SATURDAY)
    assert cost is not None
    assert cost.output == pytest.approx(dollars)


def test_prices_are_values_whose_names_are_checked() -> None:
    with pytest.raises(msgspec.ValidationError, match="inptu"):
        msgspec.toml.decode("inptu = 2.0", type=Prices)
    for prices in (Rates(2.0), PriceCase(2.0), Prices(2.0)):
        with pytest.raises(AttributeError):
            prices.input = 3.0  # type: ignore[misc]  # on purpose
    with pytest.raises(TypeError):
        PriceCase(*[1.0] * len(Rates.__struct_fields__), 200_000)  # what a case is has a name


def test_what_has_no_price_of_its_own_costs_as_much_as_other_input() -> None:
    cost = cost_of(Usage(4 * M, M, 2 * M, M), Prices(2.0, 10.0), SATURDAY)
    assert cost is not None
    parts = (cost.input, cost.output, cost.cache_read, cost.cache_write, cost.total)
    assert parts == pytest.approx((2.0, 10.0, 4.0, 2.0, 18.0))


def test_without_usage_or_prices_there_is_no_cost() -> None:
    assert cost_of(None, Prices(2.0, 10.0), SATURDAY) is None
    assert cost_of(Usage(M, M), None, SATURDAY) is None


@pytest.mark.parametrize("factor", [0.0, 0.5, 1.0, 2.0])
def test_a_factor_multiplies_the_price_of_all_tokens(factor: float) -> None:
    prices = Prices(2.0, 10.0, cases=(PriceCase(factor=factor), PriceCase(output=20.0)))
    cost = cost_of(Usage(M, M), prices, SATURDAY)
    assert cost is not None
    assert (cost.input, cost.output) == pytest.approx((2.0 * factor, 20.0 * factor))
