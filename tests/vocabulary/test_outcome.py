"""Sums of what attempts took: unknown is not zero."""

from __future__ import annotations

import pytest

from swink_core import Cost, Usage

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
        Usage(extra={"a": 1, "b": 2}),
    ),
]


@pytest.mark.parametrize(
    ("one", "other", "both"), [case[1:] for case in SUMS], ids=[case[0] for case in SUMS]
)
def test_usage_is_summed_part_by_part(one: Usage, other: Usage, both: Usage) -> None:
    assert one + other == both


def test_a_sum_changes_neither_part() -> None:
    one, other = Usage(input=1, extra={"a": 1}), Usage(input=2, extra={"b": 2})
    whole = one + other
    whole.extra["c"] = 3
    assert (one, other) == (Usage(input=1, extra={"a": 1}), Usage(input=2, extra={"b": 2}))


def test_cost_is_summed_part_by_part() -> None:
    assert Cost(1.0, None, 2.0, None, 3.0) + Cost(0.5, None, None, 0.0) == Cost(
        1.5, None, 2.0, 0.0, 3.0
    )
