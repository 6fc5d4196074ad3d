"""A few exchanges of each kind agree with the record of the simulated vendor."""

from __future__ import annotations

import pytest

from lab.exchanges.__main__ import run
from lab.exchanges.plan import KINDS, plan_of

_KINDS = sorted(KINDS.keys() - {"kill"})
_SEED = 52


@pytest.mark.parametrize("kind", _KINDS)
def test_exchanges_of_each_kind_agree_with_the_record(
    kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    totals = run(_SEED, range(3), kind, at_once=4)
    assert capsys.readouterr().out == ""
    assert totals.kinds == {kind: 3}
    assert totals.counts["requests"] >= 1


def test_a_plan_is_the_same_again_for_its_seed_and_number() -> None:
    plans = [plan_of(_SEED, number) for number in range(50)]
    assert plans == [plan_of(_SEED, number) for number in range(50)]
    assert {plan.kind for plan in plans} > {"stream", "chat", "messages"}
    assert max(talk.turns for plan in plans for talk in plan.conversations) > 30
