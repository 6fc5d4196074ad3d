"""When a target that keeps failing is given a rest, and when it is tried again."""

import pytest

from swink_core.streaming.breaker import Circuits

COOLDOWN = 30.0
THRESHOLD = 3


def failing(times: int, *, at: float = 0.0) -> Circuits:
    circuits = Circuits()
    for _ in range(times):
        circuits.failed("a", at, THRESHOLD)
    return circuits


@pytest.mark.parametrize(
    ("name", "failures", "now", "allowed"),
    [
        ("an unknown target", 0, 0.0, True),
        ("fewer failures than the threshold", 2, 0.0, True),
        ("as many failures as the threshold", 3, 0.0, False),
        ("just before the cooldown is over", 3, 29.9, False),
        ("when the cooldown is over", 3, 30.0, True),
    ],
)
def test_a_circuit_opens_after_failures_in_a_row_and_half_opens_after_its_cooldown(
    name: str, failures: int, now: float, allowed: bool
) -> None:
    circuits = failing(failures)
    assert circuits.is_open("a", now, COOLDOWN) is not allowed
    assert circuits.allows("a", now, COOLDOWN) is allowed


def test_an_answer_between_failures_starts_the_count_again() -> None:
    circuits = failing(2)
    circuits.answered("a")
    circuits.failed("a", 0.0, THRESHOLD)
    assert circuits.allows("a", 0.0, COOLDOWN)


def test_half_open_only_the_first_who_asks_may_try() -> None:
    circuits = failing(3)
    assert [circuits.allows("a", 30.0, COOLDOWN) for _ in range(3)] == [True, False, False]


def test_asking_whether_a_circuit_is_open_does_not_use_up_the_try() -> None:
    circuits = failing(3)
    assert not circuits.is_open("a", 30.0, COOLDOWN)
    assert circuits.allows("a", 30.0, COOLDOWN)


def test_a_failed_try_opens_the_circuit_for_another_cooldown() -> None:
    circuits = failing(3)
    assert circuits.allows("a", 30.0, COOLDOWN)
    circuits.failed("a", 31.0, THRESHOLD)
    assert not circuits.allows("a", 60.9, COOLDOWN)
    assert circuits.allows("a", 61.0, COOLDOWN)


def test_a_try_that_is_answered_closes_the_circuit() -> None:
    circuits = failing(3)
    assert circuits.allows("a", 30.0, COOLDOWN)
    circuits.answered("a")
    assert [circuits.allows("a", 30.0, COOLDOWN) for _ in range(3)] == [True, True, True]


def test_a_try_whose_outcome_nobody_learns_lets_the_next_wait_a_cooldown() -> None:
    circuits = failing(3)
    assert circuits.allows("a", 30.0, COOLDOWN)
    assert not circuits.allows("a", 59.9, COOLDOWN)
    assert circuits.allows("a", 60.0, COOLDOWN)


def test_circuits_of_different_targets_know_nothing_of_each_other() -> None:
    circuits = failing(3)
    assert not circuits.allows("a", 0.0, COOLDOWN)
    assert circuits.allows("b", 0.0, COOLDOWN)
