"""Many prompts: limits, order, progress, totals, failures."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import pytest
from scripted_turns import Turns

import swink


@dataclass
class Cat:
    name: str


class Gate:
    """Counts the attempts that run at a time."""

    def __init__(self) -> None:
        self.now = self.most = 0

    async def enter(self, target: object) -> None:
        self.now += 1
        self.most = max(self.most, self.now)

    def leave(self, target: object, terminal: object, response: object) -> None:
        self.now -= 1


@pytest.mark.parametrize("limit", [1, 3, 50])
async def test_answers_come_in_the_order_of_the_prompts_so_many_at_a_time(limit: int) -> None:
    gate = Gate()
    prompts = [f"Number {number}" for number in range(20)]
    async with swink.Client(gates=[gate]) as client:
        batch = await client.gather("echo/echo", prompts, limit=limit)
        assert client.usage == batch.usage
    assert [answer.text for answer in batch.answers] == prompts
    assert (batch.done, batch.total, batch.failed) == (20, 20, 0)
    assert gate.most == min(limit, 20)
    assert batch.usage == sum(answer.usage for answer in batch.answers if answer.usage)
    assert batch.cost is not None


async def test_progress_is_reported_as_answers_arrive() -> None:
    told: list[tuple[int, int, int | None]] = []

    def note(batch: swink.Batch[object]) -> None:
        told.append((batch.done, batch.total, batch.usage.total if batch.usage else None))

    async def note_later(batch: swink.Batch[object]) -> None:
        await asyncio.sleep(0)
        note(batch)

    for on_progress in (note, note_later):
        told.clear()
        await swink.gather("echo/echo", ["a", "b", "c"], limit=1, on_progress=on_progress)
        assert told == [(1, 3, 2), (2, 3, 4), (3, 3, 6)]


async def test_an_async_progress_that_raises_ends_the_batch() -> None:
    called: list[int] = []

    async def stop(batch: swink.Batch[object]) -> None:
        called.append(batch.done)
        await asyncio.sleep(0)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await swink.gather("echo/echo", ["a", "b", "c"], limit=1, on_progress=stop)
    assert called == [1]


def test_a_client_without_await_awaits_an_async_progress() -> None:
    done: list[int] = []

    async def note(batch: swink.Batch[object]) -> None:
        await asyncio.sleep(0)
        done.append(batch.done)

    with swink.SyncClient() as client:
        client.gather("echo/echo", ["a", "b"], limit=1, on_progress=note)
    assert done == [1, 2]


async def test_one_that_fails_stops_no_other_and_its_cost_counts() -> None:
    script = {"script": {"fail": "network", "fail_after": 1}}
    said = [swink.UserMessage("a b"), swink.UserMessage("c d")]
    async with swink.Client(retry=False) as client:
        batch = await client.gather("echo/echo", [[m] for m in said], settings=script)
        assert client.usage == batch.usage
    assert [type(each) for each in batch.results] == [swink.NetworkError] * 2
    assert (batch.done, batch.failed, batch.answers) == (2, 2, [])
    assert batch.usage is not None


async def test_answers_may_be_typed() -> None:
    batch = await swink.gather_answers("echo/echo", ["a", "b"], type=Cat)
    assert [type(answer.parsed) for answer in batch.answers] == [Cat, Cat]


async def test_a_prompt_that_cannot_be_sent_is_a_failed_result() -> None:
    nowhere = swink.DocumentBlock(swink.FileSource("nowhere.pdf"))
    prompts: Any = ["", "a", None, [swink.UserMessage([nowhere])], "b"]
    batch = await swink.gather("echo/echo", prompts, limit=1)
    assert [getattr(each, "text", type(each)) for each in batch] == [
        swink.InvalidContext,
        "a",
        swink.InvalidContext,
        swink.MediaError,
        "b",
    ]
    assert (batch.done, batch.failed, len(batch.answers)) == (5, 3, 2)


CUT = swink.Error(swink.StopReason.ERROR, "cut", error_kind=swink.StreamErrorKind.NETWORK)

LACKING = swink.Error.unsupported("no structured output")

# the turns of the model, the limits, and the exception of the result
UNCORRECTED: list[tuple[list[str | swink.Error], swink.Limits | None, type]] = [
    (["{}", CUT], None, swink.NetworkError),
    (["{}", '{"name": 5}', CUT], None, swink.NetworkError),
    (["{}", '{"name": 5}'], swink.Limits(requests=2), swink.LimitReached),
    ([LACKING, "{}", CUT], None, swink.NetworkError),
]


@pytest.mark.parametrize(("turns", "limits", "raised"), UNCORRECTED)
async def test_a_correction_that_fails_leaves_the_cost_of_earlier_answers_in_the_sum(
    turns: list[str | swink.Error], limits: swink.Limits | None, raised: type
) -> None:
    async with swink.Client(plugins=[Turns(*turns)], retry=False) as client:
        batch = await client.gather_answers(
            "echo/echo", ["Who?"], type=Cat, corrections=5, limits=limits
        )
        assert [type(each) for each in batch.results] == [raised]
        assert batch.usage is not None
        assert (batch.usage, batch.cost) == (client.usage, client.cost)


@dataclass
class Fussy:
    """A type whose own code fails for some answers, and not by a ValueError."""

    name: str

    def __post_init__(self) -> None:
        if self.name == "bad":
            raise RuntimeError("of its own")


async def test_a_type_that_fails_by_itself_costs_no_other_answer() -> None:
    batch = await swink.gather_answers("echo/echo", ["a", "bad", "b"], type=Fussy)
    assert [each.parsed.name for each in batch.answers] == ["a", "b"]
    bad = batch.results[1]
    assert isinstance(bad, swink.BadAnswer)
    assert bad.message == "the type's own code raised RuntimeError: of its own"
    assert json.loads(bad.text) == {"name": "bad"}
    assert isinstance(bad.__cause__, RuntimeError)
    taken = [each.usage for each in (*batch.answers, bad) if each.usage]
    assert len(taken) == 3
    assert batch.usage == sum(taken)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"limit": 0}, "limit is less than 1"),
        ({"prompts": "a"}, "prompts is a single string"),
        ({"model": "nobody/large"}, "no provider"),
        ({"temperature": "x"}, "temperature='x'"),
        ({"type": range}, "no option 'type': the result of this call is a message"),
        ({"tools": 5}, "tools"),
        ({"system_prompt": 5, "prompts": ["", ""]}, "the system prompt is of type int"),
    ],
    ids=str,
)
async def test_a_wrong_argument_is_raised_before_any_request(
    wrong: dict[str, Any], said: str
) -> None:
    gate = Gate()
    given: dict[str, Any] = {"model": "echo/echo", "prompts": ["", "a", "b"], **wrong}
    async with swink.Client(gates=[gate]) as client:
        with pytest.raises(swink.UsageError, match=said):
            await client.gather(**given)
    assert gate.most == 0


async def test_a_type_without_a_schema_is_refused_before_any_request() -> None:
    gate = Gate()
    async with swink.Client(gates=[gate]) as client:
        with pytest.raises(swink.UsageError, match="no JSON schema"):
            await client.gather_answers("echo/echo", ["", "a", "b"], type=range)
    assert gate.most == 0


async def test_a_cancelled_batch_stops_its_calls() -> None:
    gate = Gate()
    async with swink.Client(gates=[gate]) as client:
        task = asyncio.create_task(client.gather("echo/stall", ["a b", "c d"]))
        while gate.now < 2:  # noqa: ASYNC110  # a gate's numbers tell nobody that they change
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert gate.now == 0


async def test_a_run_without_rows_ends_at_once() -> None:
    batch = await swink.gather("echo/echo", [])
    assert (batch.total, batch.answers, batch.usage) == (0, [], None)
