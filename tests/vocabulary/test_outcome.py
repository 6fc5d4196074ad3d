"""Sums of what attempts took: unknown is not zero."""

from __future__ import annotations

import pytest

from swink_core import Cost, StopReason, StreamErrorKind, Usage
from swink_core.vocabulary.outcome import (
    NOTHING,
    TOKENS,
    Charge,
    Totals,
    dollars_of,
    for_every_kind,
)

# (name, one attempt, another, both)
SUMS = [
    ("nothing_known", Usage(), Usage(), Usage()),
    (
        "known_in_both",
        Usage(1, 2, 3, 4, 5, 6, reported=True),
        Usage(10, 20, 30, 40, 50, 60, reported=True),
        Usage(11, 22, 33, 44, 55, 66, reported=True),
    ),
    (
        "known_in_one",
        Usage(input=1, reported=True),
        Usage(output=2),
        Usage(input=1, output=2, reported=True),
    ),
    ("zero_is_known", Usage(input=0), Usage(), Usage(input=0)),
    (
        "figures_of_the_providers_own",
        Usage(extra={"a": 1, "b": 1}),
        Usage(extra={"b": 2}),
        Usage(extra={"a": 1, "b": 3}),
    ),
    (
        "values_that_are_not_counts",
        Usage(extra={"tier": "flex", "rate": 9.5, "free": True, "parts": {"a": 1}, "mixed": 1}),
        Usage(extra={"tier": "batch", "rate": 3.5, "free": True, "parts": {"a": 2}, "mixed": 0.5}),
        Usage(extra={"tier": "batch", "rate": 3.5, "free": True, "parts": {"a": 2}, "mixed": 0.5}),
    ),
]


@pytest.mark.parametrize(
    ("one", "other", "both"), [case[1:] for case in SUMS], ids=[case[0] for case in SUMS]
)
def test_usage_is_summed_part_by_part(one: Usage, other: Usage, both: Usage) -> None:
    assert one + other == both


def test_the_counts_of_a_usage_are_listed_in_order() -> None:
    assert [getattr(Usage(1, 2, 3, 4, 5, 6), name) for name in TOKENS] == [1, 2, 3, 4, 5, 6]


def test_nothing_is_reported_before_the_provider_has_reported_it() -> None:
    assert not Usage().reported
    assert not (Usage() + Usage()).reported


@pytest.mark.parametrize(
    ("tokens", "kept"),
    [(0, 0), (3.0, 3), (10**12, 10**12), (10**12 + 1, None), (-1, None), (float("nan"), None)],
)
def test_an_invalid_token_count_is_ignored(tokens: float, kept: int | None) -> None:
    usage = Usage()
    assert usage.count("input", tokens) is (kept is not None)
    assert usage.input == kept


@pytest.mark.parametrize(
    ("usage", "total"),
    [
        (Usage(3, 2), 5),
        (Usage(3, 2, total=9), 9),
        (Usage(3), None),
        (Usage(output=2), None),
        (Usage(3, total=9), 9),
        (Usage(), None),
    ],
)
def test_a_total_that_was_not_reported_is_the_sum_of_both(usage: Usage, total: int | None) -> None:
    assert usage.added_up() is usage
    assert usage.total == total


def test_a_table_of_kinds_has_a_row_for_each_in_their_order() -> None:
    rows = dict.fromkeys(reversed(StreamErrorKind), 1)
    assert list(for_every_kind("table", rows)) == list(StreamErrorKind)
    del rows[StreamErrorKind.AUTH], rows[StreamErrorKind.TIMEOUT]
    with pytest.raises(LookupError, match=r"^table: no row for TIMEOUT, AUTH$"):
        for_every_kind("table", rows)


def test_a_sum_changes_neither_part() -> None:
    one, other = Usage(input=1, extra={"a": 1}), Usage(input=2, extra={"b": 2})
    whole = one + other
    whole.extra["c"] = 3
    assert (one, other) == (Usage(input=1, extra={"a": 1}), Usage(input=2, extra={"b": 2}))


def test_any_number_of_usages_and_costs_are_summed() -> None:
    assert sum([Usage(input=1), Usage(input=2), Usage(output=3)]) == Usage(input=3, output=3)
    assert sum([Cost(total=1.0), Cost(), Cost(total=0.5)]) == Cost(total=1.5)
    with pytest.raises(TypeError):
        sum([Cost(total=1.0)], start=1)


def test_totals_are_not_an_event() -> None:
    taken = Usage(input=1)
    totals = Totals()
    totals.add(taken, None)
    taken.input = 10**6
    assert totals == Totals(Usage(input=1), None)


def test_charges_of_attempts_are_summed() -> None:
    totals = Totals()
    totals.add(None, None)
    assert totals == Totals(None, None, Charge(0, 0.0))
    for charge in (Charge(3, 0.5), NOTHING, Charge(4, None, estimated=True)):
        totals.add(None, None, charge)
    assert totals == Totals(None, None, Charge(7, 0.5, estimated=True))


def test_usages_and_costs_of_attempts_are_summed() -> None:
    totals = Totals()
    for usage, cost in ((Usage(1), None), (None, Cost(total=0.5)), (Usage(2), Cost(total=0.25))):
        totals.add(usage, cost)
    assert totals == Totals(Usage(3), Cost(total=0.75))


def test_cost_is_summed_part_by_part() -> None:
    assert Cost(1.0, None, 2.0, None, 3.0) + Cost(0.5, None, None, 0.0, 0.5) == Cost(
        1.5, None, 2.0, 0.0, 3.5
    )
    assert Cost(fees=1.0, estimated=True) + Cost(fees=0.5) == Cost(fees=1.5, estimated=True)
    assert not (Cost() + Cost()).estimated


# (one cost, the other, the total of their sum)
SUMS: list[tuple[Cost, Cost, float | None]] = [
    (Cost(input=2.0, output=1.0), Cost(input=0.5, total=0.5), 3.5),
    (Cost(fees=0.5, cache_read=1.0, cache_write=2.0), Cost(total=1.0), 4.5),
    (Cost(), Cost(total=1.0), 1.0),
    (Cost(input=2.0), Cost(input=1.0), None),
]


@pytest.mark.parametrize(("one", "other", "total"), SUMS)
def test_the_known_parts_of_a_cost_without_a_total_count_in_a_sum(
    one: Cost, other: Cost, total: float | None
) -> None:
    assert (one + other).total == (other + one).total == total
    assert Charge(cost=dollars_of(one)) + Charge(cost=dollars_of(other)) == Charge(
        cost=dollars_of(one + other)
    )


@pytest.mark.parametrize("estimated", [(False, False), (True, False), (False, True)])
def test_a_sum_with_an_estimate_is_one(estimated: tuple[bool, bool]) -> None:
    one, other = estimated
    assert (Cost(1.0, estimated=one) + Cost(1.0, estimated=other)).estimated is any(estimated)
    assert (Charge(1, 1.0, one) + Charge(1, 1.0, other)).estimated is any(estimated)


# (usage, its total)
TOTALS: list[tuple[Usage, int | None]] = [
    (Usage(1, 2), 3),
    (Usage(1, 2, total=9), 9),
    (Usage(1, 2, total=0), 0),
    (Usage(1), None),
    (Usage(output=2), None),
    (Usage(), None),
]


@pytest.mark.parametrize(("usage", "total"), TOTALS)
def test_a_total_is_added_up_if_the_provider_reports_none(usage: Usage, total: int | None) -> None:
    assert usage.added_up() is usage
    assert usage.total == total


# (one charge, another, both)
CHARGES: list[tuple[Charge, Charge, Charge]] = [
    (Charge(1, 0.5), Charge(2, 0.25), Charge(3, 0.75)),
    (Charge(1, None), Charge(2, 0.25), Charge(3, 0.25)),
    (Charge(1, 0.5), Charge(2, None), Charge(3, 0.5)),
    (Charge(1, None), Charge(2, None), Charge(3, None)),
]


@pytest.mark.parametrize(("one", "other", "both"), CHARGES)
def test_an_unknown_cost_counts_as_nothing_beside_a_known_one(
    one: Charge, other: Charge, both: Charge
) -> None:
    assert one + other == both


def test_totals_are_the_sums_of_what_was_added() -> None:
    totals = Totals()
    totals.add(Usage(1, extra={"a": 1}), Cost(total=0.5), Charge(1, 0.5))
    assert totals == Totals(Usage(1, extra={"a": 1}), Cost(total=0.5), Charge(1, 0.5))
    totals.add(None, None)
    totals.add(Usage(2, 3), Cost(total=0.25), Charge(5, 0.25))
    assert totals == Totals(Usage(3, 3, extra={"a": 1}), Cost(total=0.75), Charge(6, 0.75))


@pytest.mark.parametrize("kind", [*StreamErrorKind], ids=lambda kind: kind.name)
def test_a_kind_is_written_as_it_is_called(kind: StreamErrorKind) -> None:
    assert f"{kind}" == kind.name.lower()


def test_an_answer_ends_for_one_of_seven_reasons() -> None:
    assert [*StopReason] == [
        "stop", "length", "tool_use", "content_filter", "pause", "error", "aborted",
    ]  # fmt: skip
    assert {reason.name.lower() for reason in StopReason} == {*StopReason}
