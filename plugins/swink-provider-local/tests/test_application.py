"""What applications do, against a real engine: tools, typed answers, no await, chains."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from llama_server import Engine, running_engine
from make_tiny_gguf import ANSWER

import swink


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


@pytest.fixture
def model(engine: Engine) -> Any:
    there = {"base_url": f"{engine.url}/v1", "api_key": engine.key}
    return (f"llamacpp/{engine.model}", {**there, "temperature": 0, "max_tokens": 200})


async def test_a_tool_is_run_and_the_model_answers(model: Any) -> None:
    async with swink.Client(retry=False) as client:
        run = client.run(["echo/fail-overloaded", model], "TOOL", tools=[get_weather])
        answer = await run.result()
    assert (answer.text, run.outcome, run.turns) == (ANSWER, "done", 2)
    assert run.conversation[2].content == "sunny in Paris"


async def test_an_answer_is_a_value_of_the_type(model: Any) -> None:
    answer = await swink.complete(model, "Hello", type=Trip)
    assert isinstance(answer.parsed, Trip)


def test_text_comes_without_await(model: Any) -> None:
    with swink.SyncClient() as client, client.stream(model, "Hello") as stream:
        pieces = list(stream.text)
    assert "".join(pieces) == ANSWER
    assert stream.message.text == ANSWER
