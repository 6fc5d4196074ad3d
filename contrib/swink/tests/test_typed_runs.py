"""Runs that end with a value of a type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from scripted_turns import Turns

import swink
from swink_provider_echo.provider import EchoProvider


@dataclass
class Report:
    city: str
    degrees: int


OSLO = Report("Oslo", 18)
WRITTEN = '{"city": "Oslo", "degrees": 18}'
DATA: dict[str, Any] = {"city": "Oslo", "degrees": 18}
MISFIT = '{"city": "Oslo", "degrees": "warm"}'
USAGE = swink.Usage(1, 2, total=3, reported=True)


def weather(city: str) -> int:
    """Tell the weather."""
    return 18


@pytest.fixture
def by_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take structured output away from the model."""
    features = EchoProvider.features - {"structured_output"}
    monkeypatch.setattr(EchoProvider, "features", features)


async def test_a_run_ends_with_a_value_after_its_tools() -> None:
    plugin = Turns([("weather", {"city": "Oslo"})], WRITTEN)
    async with swink.Client(plugins=[plugin]) as client:
        run = client.run("echo/echo", "Oslo?", tools=[weather], type=Report)
        answer = await run.answer()
    assert answer.parsed == OSLO
    assert answer.usage == USAGE + USAGE
    assert answer.message == await run.result()
    assert run.outcome == "done"
    assert [type(m).__name__ for m in run.conversation] == [
        "UserMessage", "AssistantMessage", "ToolResultMessage", "AssistantMessage",
    ]  # fmt: skip
    for options, context in zip(plugin.options, plugin.contexts, strict=True):
        assert options.response_format is not None
        assert [tool.name for tool in context.tools] == ["weather"]


@pytest.mark.usefixtures("by_tool")
async def test_a_model_without_structured_output_gives_the_value_by_a_tool() -> None:
    plugin = Turns([("weather", {"city": "Oslo"})], [("answer", DATA), ("weather", DATA)])
    async with swink.Client(plugins=[plugin]) as client:
        run = client.run("echo/echo", "Oslo?", tools=[weather], type=Report)
        assert (await run.answer()).parsed == OSLO
    assert [tool.name for tool in plugin.contexts[0].tools] == ["weather", "answer"]
    assert plugin.options[0].response_format is None
    given, other = run.conversation[-2:]
    assert given == swink.ToolResultMessage("c2a", "answer", "The answer was received.")
    assert isinstance(other, swink.ToolResultMessage)
    assert other.is_error


REFUSED = swink.Error(
    swink.StopReason.ERROR, "no schemas here", error_kind=swink.StreamErrorKind.UNSUPPORTED
)


@pytest.mark.parametrize("read", ["answer", "events"])
async def test_a_model_without_structured_output_answers_through_a_tool(read: str) -> None:
    plugin = Turns(REFUSED, [("answer", DATA)])
    async with swink.Client(plugins=[plugin]) as client:
        run = client.run("echo/echo", "Oslo?", tools=[weather], type=Report)
        if read == "events":
            kinds = [type(event).__name__ async for event in run]
            assert kinds[:4] == ["RunStart", "TurnStart", "Start", "ToolCallStart"]
            assert "Error" not in kinds
            assert kinds.count("Start") == 1
        assert (await run.answer()).parsed == OSLO
    assert [tool.name for tool in plugin.contexts[1].tools] == ["weather", "answer"]


# (turns, corrections, whether a value comes, calls)
CORRECTED: list[tuple[list[Any], int, bool, int]] = [
    ([MISFIT, WRITTEN], 1, True, 2),
    (["No.", WRITTEN], 1, True, 2),
    ([MISFIT, MISFIT, WRITTEN], 2, True, 3),
    ([MISFIT, [("weather", {"city": "Oslo"})], WRITTEN], 1, True, 3),
    ([MISFIT, MISFIT], 1, False, 2),
    ([MISFIT], 0, False, 1),
]


@pytest.mark.parametrize(("turns", "corrections", "fits", "calls"), CORRECTED)
async def test_an_answer_that_does_not_fit_is_requested_again(
    turns: list[Any], corrections: int, fits: bool, calls: int
) -> None:
    plugin = Turns(*turns)
    async with swink.Client(plugins=[plugin]) as client:
        run = client.run(
            "echo/echo", "Oslo?", tools=[weather], type=Report, corrections=corrections
        )
        if fits:
            assert (await run.answer()).parsed == OSLO
            assert run.outcome == "done"
        else:
            with pytest.raises(swink.BadAnswer) as caught:
                await run.answer()
            assert caught.value.text == MISFIT
            assert run.outcome == "error"
    assert len(plugin.contexts) == calls
    if calls > 1:
        correction = plugin.contexts[1].messages[-1]
        assert isinstance(correction, swink.UserMessage)
        assert "does not fit the schema" in str(correction.content)


@pytest.mark.usefixtures("by_tool")
async def test_a_correction_of_a_tools_arguments_answers_its_call() -> None:
    plugin = Turns([("answer", {"city": 1})], [("answer", DATA)])
    async with swink.Client(plugins=[plugin]) as client:
        run = client.run("echo/echo", "Oslo?", tools=[weather], type=Report)
        assert (await run.answer()).parsed == OSLO
    correction = plugin.contexts[1].messages[-1]
    assert isinstance(correction, swink.ToolResultMessage)
    assert (correction.tool_call_id, correction.is_error) == ("c1a", True)


@pytest.mark.usefixtures("by_tool")
async def test_a_tool_called_beside_an_answer_to_be_corrected_has_a_result_of_its_own() -> None:
    both: Any = [("answer", {"city": 1}), ("weather", {"city": "Oslo"})]
    plugin = Turns(both, [("answer", DATA)])
    async with swink.Client(plugins=[plugin]) as client:
        run = client.run("echo/echo", "Oslo?", tools=[weather], type=Report)
        assert (await run.answer()).parsed == OSLO
    correction, other = plugin.contexts[1].messages[-2:]
    assert "does not fit the schema" in str(correction.content)
    assert other.content == "The tool was not called: the answer was given in the same turn."


@pytest.mark.usefixtures("by_tool")
async def test_a_tool_called_beside_the_answer_is_reported_as_not_called() -> None:
    plugin = Turns([("weather", {"city": "Oslo"}), ("answer", DATA)])
    async with swink.Client(plugins=[plugin]) as client:
        run = client.run("echo/echo", "Oslo?", tools=[weather], type=Report)
        assert (await run.answer()).parsed == OSLO
    assert [getattr(message, "content", None) for message in run.conversation[2:]] == [
        "The tool was not called: the run had come to its end.",
        "The answer was received.",
    ]


async def test_the_last_turn_is_not_corrected() -> None:
    async with swink.Client(plugins=[Turns(MISFIT)]) as client:
        run = client.run("echo/echo", "?", tools=[], type=Report, corrections=3, max_turns=1)
        with pytest.raises(swink.BadAnswer):
            await run.result()


async def test_a_truncated_answer_is_not_requested_again() -> None:
    async with swink.Client(plugins=[Turns(WRITTEN[:9], stop="length")]) as client:
        run = client.run("echo/echo", "?", tools=[], type=Report)
        with pytest.raises(swink.BadAnswer, match="cut off"):
            await run.answer()


@pytest.mark.parametrize("way", ["structured output", "a tool"])
async def test_partials_grow_to_the_value(way: str, request: pytest.FixtureRequest) -> None:
    last: Any = WRITTEN
    if way == "a tool":
        request.getfixturevalue("by_tool")
        last = [("answer", DATA)]
    plugin = Turns([("weather", {"city": "Bergen"})], last)
    async with swink.Client(plugins=[plugin]) as client:
        run = client.run("echo/echo", "Oslo?", tools=[weather], type=Report)
        partials = [so_far async for so_far in run.partials]
    assert partials[-1] == DATA
    assert {"city": "Oslo"} in partials
    assert {"city": "Bergen"} not in partials


def test_a_run_without_await_ends_with_a_value_too() -> None:
    plugin = Turns([("weather", {"city": "Oslo"})], WRITTEN)
    with swink.SyncClient(plugins=[plugin]) as client:
        run = client.run("echo/echo", "Oslo?", tools=[weather], type=Report)
        assert [*run.partials][-1] == DATA
        assert run.answer().parsed == OSLO


async def test_a_run_without_a_type_has_no_value() -> None:
    async with swink.Client() as client, client.run("echo/echo", "Hi", tools=[]) as run:
        with pytest.raises(swink.UsageError, match="ends with a message"):
            await run.answer()
        with pytest.raises(swink.UsageError, match="ends with a message"):
            await anext(run.partials)


async def test_the_stand_in_model_makes_a_value_up() -> None:
    async with swink.Client() as client:
        run = client.run("echo/echo", "Oslo?", tools=[], type=Report)
        assert isinstance((await run.answer()).parsed, Report)
