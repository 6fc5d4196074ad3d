"""Limits: checked with the reservation before each attempt, composed, and shared by calls."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from fakes import HELLO, Pipe, PipeClient, Toy, client_of, cut_after

import swink_core as swink
from swink_core import Cost, Done, LimitReached, Limits, ModelInfo, StopReason, Usage
from swink_core.plugins.attempt import Attempt
from swink_core.providers import HTTPRequest, LimitGate
from swink_core.vocabulary.outcome import NOTHING, Charge
from swink_core.vocabulary.prices import Prices
from swink_testing.calls import call_of

PRICED = swink.Model(
    "toy", "large", ModelInfo("large", "toy", prices=Prices(input=1.0, output=2.0))
)


def good() -> Pipe:
    return Pipe(*HELLO)


def answering(number: int = 9) -> PipeClient:
    return PipeClient(*(good() for _ in range(number)))


# (limits, calls that are answered)
LIMITS = [
    (Limits(requests=2), 2),
    (Limits(requests=0), 0),
    (Limits(tokens=264), 1),
    (Limits(tokens=10), 0),
    (Limits(cost=1e-9), 0),
    (Limits(cost=1.0), 4),
    (Limits(), 4),
]


@pytest.mark.parametrize(("limits", "answered"), LIMITS)
async def test_a_client_stops_at_its_limits(limits: Limits, answered: int) -> None:
    http = answering()
    told = []
    async with client_of(http=http, limits=limits, max_tokens=150) as client:
        for _ in range(4):
            try:
                await client.complete(PRICED, "Hi")
            except LimitReached as error:
                told.append(error)
    assert len(http.requests) == answered
    assert len(told) == 4 - answered
    for each in told:
        assert "limit: " in each.message
        assert each.code == "limit"
        assert each.resolution
        assert each.partial is not None
        assert not each.retryable


def test_a_gate_counts_turns_and_tool_calls_from_zero_up_to_the_limit() -> None:
    gate = LimitGate(Limits(turns=2, tool_calls=3))
    assert (gate.requests, gate.turns, gate.tool_calls) == (0, 0, 0)
    gate.take_turn()
    gate.take_turn()
    with pytest.raises(LimitReached, match=r"2 turns were made \(limit: turns=2\)"):
        gate.take_turn()
    gate.take_tool_calls(1)
    gate.take_tool_calls(2)
    with pytest.raises(
        LimitReached, match=r"3 tool calls were made, and .* 1 more \(limit: tool_calls=3\)"
    ):
        gate.take_tool_calls(1)
    assert (gate.turns, gate.tool_calls) == (2, 3)


# (limits that admit a part of a reservation less than two and what is spent, the refusal)
RESERVED: list[tuple[Callable[[Charge], Limits], str]] = [
    (
        lambda each: Limits(cost=2.2 * (each.cost or 0.0)),
        r"\$\S+ is spent, \$\S+ reserved, and this call may cost \$\S+ \(limit: cost=\S+\)",
    ),
    (
        lambda each: Limits(tokens=int(2.2 * each.tokens)),
        r"[\d,]+ tokens are spent, [\d,]+ reserved, and this call may take [\d,]+ \(limit: tokens=",
    ),
]


@pytest.mark.parametrize(("limits_for", "refused"), RESERVED, ids=["cost", "tokens"])
async def test_a_reservation_counts_until_its_attempt_has_ended(
    limits_for: Callable[[Charge], Limits], refused: str
) -> None:
    first, second = (call_of(Toy("toy"), PRICED).attempt for _ in range(2))
    each = await first.reserve()
    spent = Charge(int(0.3 * each.tokens), 0.3 * (each.cost or 0.0))
    gate = LimitGate(limits_for(each), spent)
    await gate.enter(first.target, first)
    with pytest.raises(LimitReached, match=refused):
        await gate.enter(second.target, second)
    assert gate.requests == 1
    gate.leave(first.target, Done(StopReason.STOP), None, first)  # it has not begun
    assert (gate.requests, gate.charge) == (0, spent)
    await gate.enter(second.target, second)
    second.begin(0.0)
    second.take_charge(Usage(1, 2), Cost(total=0.25))
    gate.leave(second.target, Done(StopReason.STOP), None, second)
    assert (gate.requests, gate.charge) == (1, spent + second.charge)


@pytest.mark.parametrize("name", ["cost", "tokens"])
async def test_a_reservation_of_just_the_limit_is_admitted(name: str) -> None:
    attempt = call_of(Toy("toy"), PRICED).attempt
    most = getattr(await attempt.reserve(), name)
    await LimitGate(Limits(**{name: most})).enter(attempt.target, attempt)
    with pytest.raises(LimitReached):
        await LimitGate(Limits(**{name: type(most)(most * 0.99)})).enter(attempt.target, attempt)


async def test_a_gate_admits_as_many_requests_as_its_limit() -> None:
    first, second = (call_of(Toy("toy"), PRICED).attempt for _ in range(2))
    gate = LimitGate(Limits(requests=1))
    await gate.enter(first.target, first)
    with pytest.raises(LimitReached, match=r"1 requests were made \(limit: requests=1\)"):
        await gate.enter(second.target, second)
    assert gate.refusal(PRICED, NOTHING, requests=0) is None


NO_USAGE = Usage(0, 0, total=0, reported=True)
FREE = Cost(total=0.0)

# (usage and cost of an attempt, whether a request was sent over HTTP, requests that are counted)
COUNTED: list[tuple[Usage | None, Cost | None, bool, int]] = [
    (NO_USAGE, FREE, False, 0),
    (NO_USAGE, FREE, True, 1),
    (NO_USAGE, Cost(total=0.25), False, 1),
    (Usage(1, 0), FREE, False, 1),
    (Usage(0, 1), FREE, False, 1),
    (Usage(), FREE, False, 1),
    (None, None, False, 1),
]


@pytest.mark.parametrize(("usage", "cost", "is_sent", "requests"), COUNTED)
async def test_an_attempt_that_needed_no_request_is_not_counted(
    usage: Usage | None, cost: Cost | None, is_sent: bool, requests: int
) -> None:
    attempt = call_of(Toy("toy"), PRICED).attempt
    gate = LimitGate(Limits(requests=1))
    await gate.enter(attempt.target, attempt)
    attempt.begin(0.0)
    if is_sent:
        attempt.ask(HTTPRequest("http://a.example"))
    attempt.take_charge(usage, cost)
    gate.leave(attempt.target, Done(StopReason.STOP, usage, cost), None, attempt)
    assert gate.requests == requests


def test_a_gate_without_limits_counts_all_the_same() -> None:
    gate = LimitGate(Limits())
    for _ in range(3):
        gate.take_turn()
        gate.take_tool_calls(5)
    assert (gate.turns, gate.tool_calls) == (3, 15)


@pytest.mark.parametrize("where", ["client", "call", "both"])
async def test_the_limits_of_client_and_call_compose(where: str) -> None:
    wide, narrow = Limits(requests=9), Limits(requests=0)
    given: dict[str, Any] = {
        "client": (narrow, wide),
        "call": (wide, narrow),
        "both": (narrow, narrow),
    }
    of_client, of_call = given[where]
    http = answering()
    async with client_of(http=http, limits=of_client) as client:
        with pytest.raises(LimitReached):
            await client.complete(PRICED, "Hi", limits=of_call)
    assert http.requests == []


async def test_calls_share_a_gate() -> None:
    gate = LimitGate(Limits(requests=1))
    async with client_of(http=answering()) as client:
        await client.complete(PRICED, "Hi", limits=gate)
        with pytest.raises(LimitReached):
            await client.complete(PRICED, "Hi", limits=gate)
    assert gate.requests == 1
    assert gate.charge == client.charge


async def test_reservations_under_way_count_until_they_are_settled() -> None:
    async with client_of(http=answering(), max_tokens=150) as client:
        streams = [client.stream(PRICED, "Hi") for _ in range(3)]
        attempts = [stream.call.attempt for stream in streams]
        for stream in streams:
            stream.call.attempt.about(stream.call.context, None)
        reserved = (await attempts[0].reserve()).tokens
        gate = LimitGate(Limits(tokens=reserved * 2))
        for attempt in attempts[:2]:
            await gate.enter(attempt.target, attempt)
        with pytest.raises(LimitReached, match="reserved"):
            await gate.enter(attempts[2].target, attempts[2])
        gate.leave(attempts[0].target, swink.Done(swink.StopReason.STOP), None, attempts[0])
        await gate.enter(attempts[2].target, attempts[2])
        for stream in streams:
            await stream.aclose()


async def test_a_retry_counts_as_a_request() -> None:
    http = PipeClient(cut_after(HELLO[0]), good())
    again = swink.RetryPolicy(retries={swink.StreamErrorKind.NETWORK: 3}, base=0.0)
    async with client_of(http=http, retry=again, limits=Limits(requests=1)) as client:
        with pytest.raises(LimitReached):
            await client.complete(PRICED, "Hi")
    assert len(http.requests) == 1


async def test_a_model_without_a_price_is_refused_by_a_limit_of_cost() -> None:
    http = answering()
    async with client_of(http=http, limits=Limits(cost=5.0)) as client:
        with pytest.raises(LimitReached, match="price of toy/large is unknown"):
            await client.complete(swink.Model("toy", "large"), "Hi")
    assert http.requests == []


@pytest.mark.parametrize("counted", [7, "async"])
async def test_a_counter_replaces_the_estimate(counted: object) -> None:
    seen: list[str] = []

    def count(model: swink.Model, context: swink.Context) -> int:
        seen.append(str(model))
        return 7

    async def count_async(model: swink.Model, context: swink.Context) -> int:
        return count(model, context)

    counter: Any = count if counted == 7 else count_async
    gate = LimitGate(Limits(tokens=1_000))
    reservations = []

    class Reading:
        async def enter(self, target: swink.Target, attempt: Any) -> None:
            reservations.append(await attempt.reserve())

        def leave(self, target: swink.Target, terminal: Any, response: Any) -> None:
            pass

    async with client_of(
        http=answering(), count_tokens=counter, gates=[Reading()], max_tokens=5
    ) as client:
        await client.complete(PRICED, "Hi", limits=gate)
    assert [each.tokens for each in reservations] == [12]
    assert seen == ["toy/large"]


@pytest.mark.parametrize(
    "limits", [{"cost": -1}, {"tokens": 1.5}, {"requests": True}, {"cost": float("nan")}]
)
def test_a_limit_is_a_number_of_at_least_zero(limits: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(limits))} is "):
        Limits(**limits)


def test_a_gate_counts_the_attempts_of_all_threads() -> None:
    gate = LimitGate(Limits(requests=10_000, tool_calls=10_000))
    target = call_of(Toy("toy"), PRICED).attempt.target

    def work() -> None:
        for _ in range(500):
            attempt = Attempt(target)
            with suppress(StopIteration):
                gate.enter(target, attempt).send(None)
            attempt.begin(0.0)
            attempt.take_charge(Usage(input=1, output=1, total=2), None)
            gate.leave(target, Done(StopReason.STOP), None, attempt)
            gate.take_tool_calls(1)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert (gate.requests, gate.tool_calls, gate.charge.tokens) == (2_000, 2_000, 4_000)
