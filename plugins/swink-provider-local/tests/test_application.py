"""Applications with a real engine: tools, structured output, synchronous calls, fallback chains."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from llama_server import Engine, running_engine
from make_tiny_gguf import ANSWER

import swink

pytestmark = pytest.mark.usefixtures("engine_loads")


@dataclass
class Trip:
    city: str
    days: int


def get_weather(city: str) -> str:
    """Tell the weather."""
    return f"sunny in {city}"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with running_engine(tmp_path_factory.mktemp("engine")) as engine:
        yield engine


@pytest.fixture(params=[[], ["echo/fail-overloaded"]], ids=["alone", "behind-a-failure"])
def chain(request: pytest.FixtureRequest, engine: Engine) -> list[Any]:
    """The engine; or a model that fails, in every turn, and then the engine."""
    there = {"base_url": f"{engine.url}/v1", "api_key": engine.key}
    model = (f"llamacpp/{engine.model}", {**there, "temperature": 0, "max_tokens": 200})
    return [*request.param, model]


async def test_a_tool_is_run_and_the_model_answers(chain: Any) -> None:
    async with swink.Client(retry=False, breaker=False) as client:
        run = client.run(chain, "TOOL", tools=[get_weather])
        retries = [e.error_kind async for e in run if isinstance(e, swink.Retry)]
    assert (run.message.text, run.outcome, run.turns) == (ANSWER, "done", 2)
    assert run.conversation[2].content == "sunny in Paris"
    failures = retries.count(swink.StreamErrorKind.OVERLOADED)  # a stale connection is another
    assert failures == run.turns * (len(chain) - 1)


async def test_an_answer_is_a_value_of_the_type(chain: Any) -> None:
    answer = await swink.answer(chain, "Hello", type=Trip, retry=False)
    assert isinstance(answer.parsed, Trip)


def test_all_of_it_comes_without_await(chain: Any) -> None:
    with swink.SyncClient(retry=False, breaker=False) as client:
        with client.stream(chain, "Hello") as stream:
            assert "".join(stream.text) == stream.message.text == ANSWER
        with client.run(chain, "TOOL", tools=[get_weather]) as run:
            assert "".join(run.text) == ANSWER
        assert isinstance(client.answer(chain, "Hello", type=Trip).parsed, Trip)
