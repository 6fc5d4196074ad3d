"""Damaged responses before both HTTP clients; `make transports` compares 100,000 of them."""

from __future__ import annotations

import asyncio

from lab.transports.__main__ import compare
from lab.transports.damaged import case_of
from lab.transports.explained import EXPLAINED, explanation_of
from lab.transports.readings import Outcome

NUMBER = 200


def test_differences_between_the_clients_are_explained() -> None:
    found = asyncio.run(compare(NUMBER, seed=1))
    assert found.unexplained == []
    assert found.equal + sum(found.explained.values()) == NUMBER
    assert found.equal > NUMBER * 0.8
    assert found.ends["complete"] > NUMBER * 0.2


def test_a_case_is_the_same_each_time() -> None:
    assert case_of(1, 7) == case_of(1, 7)
    assert case_of(1, 7) != case_of(2, 7)


def test_another_body_is_not_explained() -> None:
    one = Outcome(200, (), b"a", "complete", "reused")
    other = Outcome(200, (), b"b", "complete", "reused")
    assert explanation_of(case_of(1, 1), one, other, one) is None


def test_explanations_have_different_names() -> None:
    assert len({row.name for row in EXPLAINED}) == len(EXPLAINED)
