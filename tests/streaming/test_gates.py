"""Gates: who lets attempts begin, passes a target over, and learns how each attempt ended."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import (
    AT_ONCE,
    HELLO,
    MODEL,
    NO_RETRY,
    Pipe,
    PipeClient,
    Toy,
    broken_rules,
    client_of,
    collect,
    good,
    types,
)

import swink_core as swink
from swink_core import Failure, Notice, ProviderFailure
from swink_core import StreamErrorKind as Kind
from swink_core.providers import LimitGate

CHAIN: list[Any] = [MODEL, ("spare/small", {"api_key": "k"})]


class Logging:
    """A gate that logs its calls, and rejects one model."""

    def __init__(self, log: list[Any], name: str, refuses: str = "") -> None:
        self.log, self.name, self.refuses = log, name, refuses

    async def enter(self, target: Any) -> None:
        self.log.append((self.name, "enter", target.model.id))
        if target.model.id == self.refuses:
            failure = Failure("request", kind=Kind.THROTTLED, message="enough for today")
            raise ProviderFailure(failure)

    def leave(self, target: Any, terminal: Any, response: Any) -> None:
        status = None if response is None else response.status
        self.log.append((self.name, "leave", target.model.id, terminal.type, status))


class Broken:
    """A gate that raises an unexpected error on entry or exit."""

    def __init__(self, at: str) -> None:
        self.at = at

    async def enter(self, target: Any) -> None:
        if self.at == "enter":
            raise ZeroDivisionError("oops")

    def leave(self, target: Any, terminal: Any, response: Any) -> None:
        if self.at == "leave":
            raise ZeroDivisionError("oops")


async def asked(
    gates: list[Any], *answers: Any, models: Any = MODEL, retry: Any = NO_RETRY
) -> tuple[list[Any], PipeClient]:
    """The events of a call past these gates, and who answered it."""
    http = PipeClient(*answers or [good()])
    given = {"providers": {"toy": Toy, "spare": Toy}, "api_key": "k", "retry": retry}
    async with client_of(http=http, gates=gates, **given) as client:
        return await collect(client.stream(models, "Hi")), http


async def test_gates_are_entered_in_order_and_left_the_other_way_round() -> None:
    log: list[Any] = []
    await asked([Logging(log, "first"), Logging(log, "second")])
    assert log == [
        ("first", "enter", "large"),
        ("second", "enter", "large"),
        ("second", "leave", "large", "done", 200),
        ("first", "leave", "large", "done", 200),
    ]


async def test_every_attempt_passes_the_gates_and_its_own_end_is_told() -> None:
    log: list[Any] = []
    down = Failure("connect", kind=Kind.NETWORK)
    await asked([Logging(log, "gate")], down, good(), retry=AT_ONCE)
    assert log == [
        ("gate", "enter", "large"),
        ("gate", "leave", "large", "error", None),
        ("gate", "enter", "large"),
        ("gate", "leave", "large", "done", 200),
    ]


async def test_a_refusal_ends_the_call_where_there_is_nobody_else_and_sends_nothing() -> None:
    log: list[Any] = []
    gates = [Logging(log, "first"), Logging(log, "second", "large"), Logging(log, "third")]
    events, http = await asked(gates, retry=AT_ONCE)
    assert types(events) == ["start", "error"]
    assert (events[-1].error_kind, events[-1].error_message) == (Kind.THROTTLED, "enough for today")
    assert events[-1].title == "Rate limited by Toy"
    assert http.requests == []
    assert log == [
        ("first", "enter", "large"),
        ("second", "enter", "large"),
        ("first", "leave", "large", "error", None),
    ]


async def test_a_gate_of_the_client_and_of_a_call_is_entered_once() -> None:
    gate = LimitGate(swink.Limits(requests=3))
    async with client_of(http=PipeClient(good(), good()), limits=gate) as client:
        for _ in range(2):
            await client.complete(MODEL, "Hi", limits=gate)
    assert gate.requests == 2


async def test_a_refused_target_is_skipped_with_an_event() -> None:
    log: list[Any] = []
    gates = [Logging(log, "first"), Logging(log, "second", "large")]
    events, http = await asked(gates, models=CHAIN)
    assert events[0] == Notice("target_passed_over", "toy/large: enough for today")
    assert types(events)[1] == "start"
    assert broken_rules(events) == []
    assert [b"small" in request.body for request in http.requests] == [True]
    assert log[2:5] == [
        ("first", "leave", "large", "error", None),
        ("first", "enter", "small"),
        ("second", "enter", "small"),
    ]


async def test_each_refused_target_is_skipped_with_one_event() -> None:
    gates = [Logging([], "first", "large"), Logging([], "second", "middle")]
    events, _ = await asked(gates, models=[MODEL, "spare/middle", "spare/small"])
    assert events[:2] == [
        Notice("target_passed_over", "toy/large: enough for today"),
        Notice("target_passed_over", "spare/middle: enough for today"),
    ]
    assert types(events)[2] == "start"


async def test_where_all_targets_are_refused_the_last_refusal_is_the_answer() -> None:
    events, http = await asked([Logging([], "a", "large"), Logging([], "b", "small")], models=CHAIN)
    assert types(events) == ["notice", "start", "error"]
    assert events[-1].error_message == "enough for today"
    assert http.requests == []


async def test_an_exception_from_enter_ends_the_call_and_names_the_gate_and_the_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log: list[Any] = []
    gates = [Logging(log, "before"), Broken("enter"), Logging(log, "after")]
    events, http = await asked(gates, models=CHAIN, retry=AT_ONCE)
    assert types(events) == ["start", "error"]
    error = events[-1]
    assert (error.error_kind, error.code) == (Kind.INTERNAL, "gate")
    assert error.title == "A gate raised an exception"
    place = r"\(streaming/test_gates\.py:\d+\)"
    assert re.fullmatch(
        rf"gate Broken raised ZeroDivisionError in enter {place}: oops", error.error_message
    )
    assert http.requests == []
    assert log == [("before", "enter", "large"), ("before", "leave", "large", "error", None)]
    assert caplog.text.count("gate Broken raised in enter") == 1


async def test_an_exception_from_leave_fails_the_next_attempt_alone() -> None:
    gates = [Broken("leave")]
    async with client_of(http=PipeClient(good(), good()), gates=gates) as client:
        ends = [(await collect(client.stream(MODEL, "Hi")))[-1] for _ in range(3)]
    assert [end.type for end in ends] == ["done", "error", "done"]
    assert (ends[1].error_kind, ends[1].code) == (Kind.INTERNAL, "gate")
    assert "gate Broken raised ZeroDivisionError in leave" in ends[1].error_message


async def test_an_exception_from_leave_ends_the_retries_of_its_own_call() -> None:
    down = Failure("connect", kind=Kind.NETWORK)
    events, http = await asked([Broken("leave")], down, good(), retry=AT_ONCE)
    assert types(events) == ["start", "retry", "start", "error"]
    assert events[-1].error_kind is Kind.INTERNAL
    assert len(http.requests) == 1


async def test_a_coroutine_function_as_leave_fails_the_next_attempt() -> None:
    class Awaiting(Logging):
        async def leave(self, target: Any, terminal: Any, response: Any) -> None:
            raise AssertionError("nothing awaits it")

    async with client_of(http=PipeClient(good()), gates=[Awaiting([], "a")]) as client:
        ends = [(await collect(client.stream(MODEL, "Hi")))[-1] for _ in range(2)]
    assert [end.type for end in ends] == ["done", "error"]
    assert "leave must be a plain function" in ends[1].error_message
    assert re.search(r"in leave \(streaming/test_gates\.py:\d+\)", ends[1].error_message)


async def test_an_error_of_a_gate_hides_the_key() -> None:
    class Leaking(Logging):
        async def enter(self, target: Any) -> None:
            raise ValueError(f"no budget for {target.options.api_key}")

    events, _ = await asked([Leaking([], "a")], models=(MODEL, {"api_key": "sk-secret-1234567"}))
    assert events[-1].error_kind is Kind.INTERNAL
    assert "sk-secret-1234567" not in str(events)


REFUSALS = [
    (swink.QuotaExhausted("the budget is spent"), Kind.QUOTA_EXHAUSTED, None),
    (swink.ModelThrottled("wait", retry_after=7.0), Kind.THROTTLED, 7.0),
    (ProviderFailure(Failure("connect", kind=Kind.OVERLOADED)), Kind.OVERLOADED, None),
]


@pytest.mark.parametrize(("refusal", "kind", "wait"), REFUSALS)
async def test_a_gate_refuses_with_the_kind_of_the_error_it_raises(
    refusal: Exception, kind: Kind, wait: float | None
) -> None:
    class Refusing(Logging):
        async def enter(self, target: Any) -> None:
            if target.model.id == "large":
                raise refusal

    gates: list[Any] = [Refusing([], "budget")]
    events, http = await asked(gates)
    assert types(events) == ["start", "error"]
    assert (events[-1].error_kind, events[-1].retry_after) == (kind, wait)
    assert http.requests == []
    events, http = await asked(gates, models=CHAIN)
    assert types(events)[0] == "notice"
    assert types(events)[-1] == "done"
    assert [b"small" in request.body for request in http.requests] == [True]


async def test_the_methods_of_a_gate_may_be_functions_with_or_without_the_attempt() -> None:
    log: list[Any] = []

    async def enters(target: Any, attempt: Any) -> None:
        log.append(("enter", attempt.number))

    def leaves(target: Any, terminal: Any, response: Any, attempt: Any) -> None:
        log.append(("leave", attempt.number, terminal.type))

    async def enters_alone(target: Any) -> None:
        log.append("enter alone")

    def leaves_alone(target: Any, terminal: Any, response: Any) -> None:
        log.append("leave alone")

    gates = [
        SimpleNamespace(enter=enters, leave=leaves),
        SimpleNamespace(enter=enters_alone, leave=leaves_alone),
    ]
    await asked(gates)
    assert log == [("enter", 1), "enter alone", "leave alone", ("leave", 1, "done")]


async def test_a_gate_whose_parameters_cannot_be_seen_gets_no_attempt() -> None:
    async def enters(target: Any) -> None: ...

    gate = SimpleNamespace(enter=enters, leave=slice)  # a builtin class that takes three arguments
    async with client_of(http=PipeClient(good(), good()), gates=[gate]) as client:
        ends = [(await collect(client.stream(MODEL, "Hi")))[-1] for _ in range(2)]
    assert [end.type for end in ends] == ["done", "done"]


async def test_an_exception_of_a_gate_of_another_module_has_no_place() -> None:
    async def enters(target: Any) -> None:
        raise ZeroDivisionError("oops")

    events, _ = await asked([SimpleNamespace(enter=enters, leave=slice)])
    what = "gate SimpleNamespace raised ZeroDivisionError in enter: oops"
    assert events[-1].error_message == what


async def test_a_stream_that_is_closed_leaves_the_gates_it_entered() -> None:
    log: list[Any] = []
    http = PipeClient(Pipe(*HELLO[:2]))
    client = client_of(http=http, gates=[Logging(log, "gate")])
    async with client, client.stream(MODEL, "Hi") as stream:
        async for event in stream:
            if isinstance(event, swink.TextDelta):
                break
    assert log == [("gate", "enter", "large"), ("gate", "leave", "large", "error", 200)]
