"""The conversations of `lab.documented`: their number, their names, and a run over one model."""

from __future__ import annotations

import asyncio

import pytest

from lab.agreement import Agreement
from lab.documented.__main__ import ROUNDS, TYPED, send
from lab.documented.accepted import is_accepted
from lab.documented.successors import SUCCESSORS
from lab.documented.typed import SDKS
from swink_judge.matrix.findings import FAULTS, Run


def test_each_round_has_sixty_conversations_of_different_names() -> None:
    names = [name for made in ROUNDS.values() for name, _, _ in made()]
    assert (len(names), len({*names})) == (120, 120)


def test_thirty_models_are_invented() -> None:
    assert sum(map(len, SUCCESSORS.values())) == 30


def test_an_sdk_judges_each_wire_format() -> None:
    assert {each for formats in TYPED.values() for each in formats} == SDKS.keys()


def test_a_misfit_has_a_reason_only_with_its_sdk() -> None:
    fault = ".temperature is not declared by MessageCreateParamsStreaming"
    assert is_accepted("anthropic", fault)
    assert not is_accepted("openai", fault)


@pytest.mark.parametrize("provider", ["deepseek", "cohere"])
def test_an_invented_model_is_sent_every_conversation(provider: str) -> None:
    run = Run()
    agreement = Agreement()
    [model] = SUCCESSORS[provider]
    rows = [row for made in ROUNDS.values() for row in made()]
    asyncio.run(send([provider], rows, model, run, agreement))

    assert run.cases == 120
    assert agreement.alike > 80
    assert not agreement.differences
    assert run.sent > 80
    assert [key for key in run.counts if key[0] in FAULTS] == []
