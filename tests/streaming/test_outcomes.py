"""Each outcome of an attempt in a call, held to the table of transitions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from fakes import HELLO, MODEL, Pipe, PipeClient, Toy, client_of, collect, frame, settled, types

import swink_core as swink
from swink_core import Done, Error, QuotaExhausted, RetryPolicy, Timeouts
from swink_core import StreamErrorKind as Kind
from swink_core.streaming.under_way import TRANSITIONS, Outcome
from swink_testing.clock import ManualClock

RETRIES = RetryPolicy(
    base=0.0,
    retries={Kind.OVERLOADED: 1, Kind.TIMEOUT: 1, Kind.OUTPUT_TOO_LARGE: 1, Kind.CANCELLED: 1},
    restart_after_output=True,
)
COUNTED = frame(usage={"input": 3, "output": 2})
ALIKE = ("spare/small", {"api_key": "k"})


class Counting:
    """A gate that counts the attempts that entered it and have not left it, and refuses a model."""

    def __init__(self, refuses: str = "") -> None:
        self.inside = 0
        self.ends: list[str] = []
        self._refuses = refuses

    async def enter(self, target: Any) -> None:
        self.inside += 1

    def leave(self, target: Any, terminal: Done | Error, response: Any) -> None:
        self.inside -= 1
        self.ends.append(terminal.type)


class Refusing:
    """A gate that refuses one model."""

    def __init__(self, model: str) -> None:
        self._model = model

    async def enter(self, target: Any) -> None:
        if str(target.model) == self._model:
            raise QuotaExhausted("enough for today")

    def leave(self, target: Any, terminal: Done | Error, response: Any) -> None:
        """Admit the next attempt too."""


Case = Callable[[Any, ManualClock], Coroutine[Any, Any, list[Any]]]


async def read(stream: swink.EventStream) -> list[Any]:
    async with stream:
        return await collect(stream)


async def completed(client: Any, clock: ManualClock) -> list[Any]:
    return await read(client.stream(MODEL, "Hi"))


async def cut(client: Any, clock: ManualClock) -> list[Any]:
    limits = Timeouts(first_event=None, idle=5.0)
    reading = asyncio.ensure_future(read(client.stream(MODEL, "Hi", timeouts=limits)))
    for _ in range(4):
        await settled()
        await clock.advance(5.0)
    return await reading


async def bounded(client: Any, clock: ManualClock) -> list[Any]:
    return await read(client.stream(MODEL, "Hi", max_output_chars=3))


async def cancelled(client: Any, clock: ManualClock) -> list[Any]:
    stream = client.stream(MODEL, "Hi")
    reading = asyncio.ensure_future(read(stream))
    await settled()
    await stream.aclose()
    return await reading


async def refused(client: Any, clock: ManualClock) -> list[Any]:
    return await read(client.stream(MODEL, "Hi"))


async def passed_over(client: Any, clock: ManualClock) -> list[Any]:
    return await read(client.stream([MODEL, ALIKE], "Hi"))


def overloaded() -> Pipe:
    return Pipe(COUNTED, HELLO[1], frame(error={"kind": Kind.OVERLOADED}))


def silent() -> Pipe:
    return Pipe(COUNTED, HELLO[1])


def whole() -> Pipe:
    return Pipe(COUNTED, *HELLO)


# (the first attempt's outcome, the call, the answers, the model that a gate refuses)
CASES: list[tuple[Outcome, Case, list[Callable[[], Pipe]], str]] = [
    (Outcome.COMPLETED, completed, [whole], ""),
    (Outcome.FAILED, completed, [overloaded, overloaded], ""),
    (Outcome.CUT, cut, [silent, silent], ""),
    (Outcome.BOUNDED, bounded, [whole, whole], ""),
    (Outcome.CANCELLED, cancelled, [silent], ""),
    (Outcome.REFUSED, refused, [], MODEL),
    (Outcome.PASSED_OVER, passed_over, [whole], MODEL),
]


def test_every_outcome_has_a_transition_and_a_case() -> None:
    assert [*TRANSITIONS] == [*Outcome]
    assert {case[0] for case in CASES} == {*Outcome}


@pytest.mark.parametrize(
    ("outcome", "case", "answers", "model"), CASES, ids=[str(case[0]) for case in CASES]
)
async def test_a_call_goes_on_after_an_attempt_as_the_transition_of_its_outcome_says(
    outcome: Outcome,
    case: Case,
    answers: list[Callable[[], Pipe]],
    model: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "swink_core.streaming.driver")
    counting = Counting()
    clock = ManualClock()
    http = PipeClient(*(make() for make in answers))
    async with client_of(
        providers={"toy": Toy, "spare": Toy},
        api_key="k",
        http=http,
        clock=clock,
        retry=RETRIES,
        gates=[counting, Refusing(model)],
    ) as client:
        events = await case(client, clock)
        charged = client.usage
    outcomes = [line.args[2] for line in caplog.records if "attempt %d %s" in line.msg]
    row = TRANSITIONS[outcome]
    assert outcomes[0] is outcome
    assert types(events).count("retry") == row.may_retry
    assert len(outcomes) == 2 if row.may_retry or not row.is_final else len(outcomes) == 1
    assert counting.inside == 0
    assert len(counting.ends) == len(outcomes)
    begun = [each for each in outcomes if each not in (Outcome.REFUSED, Outcome.PASSED_OVER)]
    assert (charged and charged.output) == (2 * len(begun) or None)
    assert isinstance(events[-1], Done | Error)
