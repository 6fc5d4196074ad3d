"""Retries: which failures, of which model, after which wait, and the messages about them."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import backoff
import pytest
from fakes import (
    HELLO,
    MODEL,
    Observer,
    Pipe,
    PipeClient,
    Toy,
    Yielding,
    broken_rules,
    client_of,
    collect,
    cut_after,
    dropped,
    frame,
    good,
    settled,
    types,
)

import swink_core as swink
from swink_core import Error, Failure, Notice, Retry, RetryPolicy, Start
from swink_core import StreamErrorKind as Kind
from swink_core.failures.kinds import KINDS
from swink_core.providers import EventWriter
from swink_core.streaming.retries import Retries, is_retryable
from swink_testing.calls import call_of
from swink_testing.clock import ManualClock

TWO = {"toy": Toy, "spare": Toy}
CHAIN = [MODEL, "spare/small"]


def refused(status: int, headers: Mapping[str, str] | None = None) -> Callable[[], Awaitable[Pipe]]:
    """An HTTP error, any number of times."""

    async def answer() -> Pipe:
        given = {"Content-Type": "application/json", **(headers or {})}
        return Pipe(b"{}", status=status, headers=given, end=True)

    return answer


def failed(kind: Kind, code: str | None = None) -> Failure:
    return Failure("connect", kind=kind, code=code, message=f"made up: {kind}")


def error(kind: Kind, **facts: Any) -> Error:
    return Error(error_kind=kind, error_message="made up", **facts)


@pytest.fixture
def full_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes the chance out of the waits: each is as long as it may be."""
    monkeypatch.setattr(backoff, "full_jitter", lambda value: value)


def retries_of(policy: RetryPolicy) -> Retries:
    """The retries of a call that has one target."""
    call = call_of(Toy("toy"), "large", options=swink.StreamOptions(retry=policy))
    return Retries(call, [call.attempt.target])


def waits(policy: RetryPolicy, *errors: Error) -> list[float]:
    """The waits between attempts that fail like this, until one is final."""
    plan = retries_of(policy)
    found = []
    for each in errors:
        upcoming = plan.after(each)
        if upcoming is None:
            break
        found.append(upcoming.delay)
    return found


# -- how often, and after what wait ---------------------------------------------------------------


@pytest.mark.parametrize("kind", list(Kind), ids=str)
def test_each_kind_is_retried_as_often_as_the_policy_says(kind: Kind) -> None:
    plan = retries_of(RetryPolicy(base=0.0))
    made = 0
    while plan.after(error(kind)) is not None:
        made += 1
    assert made == {
        Kind.THROTTLED: 5,
        Kind.OVERLOADED: 5,
        Kind.NETWORK: 3,
        Kind.TIMEOUT: 3,
        Kind.RESOURCE: 2,
        Kind.EMPTY_RESPONSE: 1,
        Kind.PROTOCOL: 1,
    }.get(kind, 0)


@pytest.mark.parametrize(
    ("code", "kind", "retries"),
    [
        ("connection_refused", Kind.NETWORK, 1),
        ("dns", Kind.NETWORK, 1),
        ("tls", Kind.NETWORK, 0),
        ("first_event", Kind.TIMEOUT, 1),
        ("connect", Kind.TIMEOUT, 3),
        ("idle", Kind.TIMEOUT, 3),
        ("total", Kind.TIMEOUT, 0),
        ("total_of_model", Kind.TIMEOUT, 0),
        ("damaged_frame", Kind.PROTOCOL, 1),
        ("content_type", Kind.PROTOCOL, 1),
        ("redirect", Kind.PROTOCOL, 0),
        ("grammar", Kind.PROTOCOL, 0),
        ("bad_event", Kind.PROTOCOL, 0),
    ],
)
def test_failures_that_rarely_pass_by_themselves_are_retried_less(
    code: str, kind: Kind, retries: int
) -> None:
    assert len(waits(RetryPolicy(base=0.0), *[error(kind, code=code)] * 9)) == retries
    assert is_retryable(error(kind, code=code)) is (retries > 0)


DAMAGED = (frame(text="Do "), b'data: {"text": "NOT \n\n', frame(text="it."), *HELLO[-1:])


@pytest.mark.parametrize("times", [1, 2])
async def test_a_damaged_answer_is_asked_for_once_more_while_nobody_has_seen_it(
    times: int,
) -> None:
    http = PipeClient(*[Pipe(*DAMAGED) for _ in range(times)], good())
    async with client_of(http=http, retry=RetryPolicy(base=0.0)) as client:
        stream = client.stream(MODEL, "Hi")
        if times == 1:
            assert (await stream.result()).text == "Hello"
        else:
            with pytest.raises(swink.ProtocolError) as caught:
                await stream.result()
            assert caught.value.partial is not None
            assert caught.value.partial.text == "Do it."
    assert len(http.requests) == 2


async def test_a_damaged_answer_that_was_seen_ends_in_an_error() -> None:
    http = PipeClient(Pipe(*DAMAGED), good())
    async with client_of(http=http) as client, client.stream(MODEL, "Hi") as stream:
        events = await collect(stream)
    assert (events[-1].error_kind, len(http.requests)) == (Kind.PROTOCOL, 1)
    assert stream.message.text == "Do it."


def test_waits_for_a_rate_limit_do_not_eat_the_retries_for_faults() -> None:
    limited, fault = error(Kind.THROTTLED), error(Kind.NETWORK)
    mixed = [limited, fault] * 3 + [limited] * 2
    assert len(waits(RetryPolicy(base=0.0), *mixed)) == 8
    assert len(waits(RetryPolicy(base=0.0), *mixed, limited)) == 8
    assert len(waits(RetryPolicy(base=0.0), *mixed, fault)) == 8


def test_the_first_attempt_is_made_at_once() -> None:
    assert retries_of(RetryPolicy()).delay == 0.0


def test_the_policy_none_makes_every_call_once() -> None:
    assert waits(RetryPolicy.none(), error(Kind.THROTTLED)) == []


@pytest.mark.usefixtures("full_waits")
def test_the_wait_doubles_from_one_second_to_the_longest() -> None:
    policy = RetryPolicy(retries={Kind.NETWORK: 8}, budget=1000.0)
    assert waits(policy, *[error(Kind.NETWORK)] * 8) == [1, 2, 4, 8, 16, 30, 30, 30]


@pytest.mark.usefixtures("full_waits")
def test_the_wait_grows_for_each_kind_on_its_own() -> None:
    errors = [error(k) for k in (Kind.THROTTLED, Kind.NETWORK, Kind.THROTTLED, Kind.NETWORK)]
    assert waits(RetryPolicy(), *errors) == [1, 1, 2, 2]


def test_a_wait_is_anything_up_to_its_full_length() -> None:
    policy = RetryPolicy(retries={Kind.NETWORK: 1}, base=8.0)
    found = [waits(policy, error(Kind.NETWORK))[0] for _ in range(200)]
    assert all(0 <= wait <= 8 for wait in found)
    assert min(found) < 3 < 5 < max(found)


def test_without_a_descriptor_to_import_with_the_wait_is_the_first_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import builtins

    real = builtins.__import__

    def exhausted(name: str, *rest: Any, **named: Any) -> Any:
        if name == "backoff":
            raise OSError(24, "Too many open files")
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", exhausted)
    assert waits(RetryPolicy(base=0.5), *[error(Kind.RESOURCE)] * 3) == [0.5, 0.5]


@pytest.mark.usefixtures("full_waits")
def test_the_budget_bounds_the_waits_together() -> None:
    policy = RetryPolicy(retries={Kind.NETWORK: 9}, budget=10.0)
    assert waits(policy, *[error(Kind.NETWORK)] * 9) == [1, 2, 4]


async def test_the_budget_counts_waits_only_not_the_attempts_between_them() -> None:
    clock = ManualClock(jump=True)

    async def slow() -> Pipe:
        await clock.advance(1000.0)
        return await refused(503)()

    policy = RetryPolicy(base=0.0, budget=1.0)
    timeouts = swink.Timeouts(first_event=None, idle=None, no_progress=None)
    http = PipeClient(slow, slow, good())
    client = client_of(http=http, clock=clock, retry=policy, timeouts=timeouts)
    assert (await client.complete(MODEL, "Hi")).text == "Hello"
    assert len(http.requests) == 3


# -- Retry-After ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "headers", "wait"),
    [
        ("seconds", {"Retry-After": "7"}, 7.0),
        ("a fraction", {"Retry-After": "0.25"}, 0.25),
        ("milliseconds", {"retry-after-ms": "1500"}, 1.5),
        ("milliseconds win", {"retry-after-ms": "1500", "Retry-After": "9"}, 1.5),
        ("none at all", {"Retry-After": "0"}, 0.0),
        ("a date long past", {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        (
            "a reset, as a duration",
            {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1m0.5s"},
            60.5,
        ),
        (
            "the later of two resets",
            {
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-requests": "2s",
                "x-ratelimit-remaining-tokens": "0",
                "x-ratelimit-reset-tokens": "6s",
            },
            6.0,
        ),
    ],
)
async def test_the_wait_that_the_provider_asks_for_wins(
    name: str, headers: dict[str, str], wait: float
) -> None:
    clock = ManualClock(jump=True)
    client = client_of(
        http=PipeClient(refused(429, headers), good()),
        clock=clock,
        retry=RetryPolicy(retry_after_cap=61.0),
    )
    assert (await client.complete(MODEL, "Hi")).text == "Hello"
    assert clock.sleeps == [wait]


async def test_a_reset_of_an_allowance_that_is_not_used_up_is_no_wait() -> None:
    headers = {"x-ratelimit-remaining-requests": "9", "x-ratelimit-reset-requests": "50s"}
    clock = ManualClock(jump=True)
    client = client_of(
        http=PipeClient(refused(429, headers), good()), clock=clock, retry=RetryPolicy(base=0.0)
    )
    await client.complete(MODEL, "Hi")
    assert clock.sleeps == [0.0]


async def test_a_rate_limit_beyond_the_cap_is_final_and_stays_one() -> None:
    http = PipeClient(refused(429, {"Retry-After": "7200"}))
    client = client_of(http=http, retry=RetryPolicy())
    with pytest.raises(swink.ModelThrottled) as caught:
        await client.complete(MODEL, "Hi")
    assert len(http.requests) == 1
    assert caught.value.retry_after == 7200
    assert "Wait 2 h" in caught.value.resolution
    assert "credit" not in caught.value.resolution


async def test_a_wait_as_long_as_the_cap_is_waited_for() -> None:
    http, clock = PipeClient(refused(503, {"Retry-After": "60"}), good()), ManualClock(jump=True)
    client = client_of(http=http, retry=RetryPolicy(), clock=clock)
    assert (await client.complete(MODEL, "Hi")).text == "Hello"
    assert clock.sleeps == [60.0]


@pytest.mark.parametrize("wait", ["61", "7200"])  # 61 s are within the budget
async def test_an_overload_beyond_the_cap_is_final_and_stays_an_overload(wait: str) -> None:
    http = PipeClient(refused(503, {"Retry-After": wait}), good())
    client = client_of(http=http, retry=RetryPolicy(), clock=ManualClock(jump=True))
    with pytest.raises(swink.ModelOverloaded):
        await client.complete(MODEL, "Hi")
    assert len(http.requests) == 1


def test_a_wait_beyond_what_the_budget_has_left_is_final() -> None:
    policy = RetryPolicy(budget=10.0, retry_after_cap=60.0)
    asked = error(Kind.THROTTLED, retry_after=6.0)
    assert waits(policy, asked, asked) == [6.0]


# -- the events of a retry ------------------------------------------------------------------------


async def test_a_retry_is_announced_with_its_wait_before_the_wait() -> None:
    clock = ManualClock()
    client = client_of(
        http=PipeClient(refused(429, {"Retry-After": "7"}), good()),
        clock=clock,
        retry=RetryPolicy(),
    )
    async with client.stream(MODEL, "Hi") as stream:
        events = aiter(stream)
        assert isinstance(await anext(events), swink.Start)
        retry = await anext(events)
        assert retry == Retry(
            attempt=2,
            max_attempts=6,
            delay=7.0,
            error="HTTP 429: '{}'",
            model=MODEL,
            error_kind=Kind.THROTTLED,
            code=None,
        )
        assert clock.sleeps == []
        following = asyncio.ensure_future(anext(events))
        await settled()
        assert clock.sleeps == [7.0]
        assert not following.done()
        await clock.advance(7.0)
        assert isinstance(await following, swink.Start)


async def test_attempts_are_counted_per_target_and_the_most_follows_the_kind() -> None:
    answers = [refused(503), failed(Kind.NETWORK), refused(503), good()]
    client = client_of(http=PipeClient(*answers), retry=RetryPolicy(base=0.0))
    async with client.stream(MODEL, "Hi") as stream:
        events = await collect(stream)
    retries = [event for event in events if isinstance(event, Retry)]
    assert [(r.attempt, r.max_attempts) for r in retries] == [(2, 6), (3, 5), (4, 7)]
    assert stream.call.attempts == 4
    assert broken_rules(events) == []


async def test_a_retry_is_logged_as_a_warning_and_the_end_as_an_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "swink_core")
    client = client_of(http=PipeClient(refused(500)), retry=RetryPolicy(base=0.0))
    with pytest.raises(swink.NetworkError):
        await client.complete(MODEL, "Hi")
    levels = [record.levelname for record in caplog.records]
    assert levels == ["INFO", "WARNING", "WARNING", "WARNING", "ERROR"]


# -- what has been seen is not repeated -----------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "before", "requests"),
    [
        ("nothing", [], 2),
        ("only an id", [frame(id="r1")], 2),
        ("only usage", [frame(usage={"input": 1})], 2),
        ("text", [frame(text="Hel")], 1),
        ("thinking", [frame(thinking="Hm")], 1),
        ("a tool call", [frame(call={"key": 0, "id": "a", "name": "f"})], 1),
        ("an extension", [frame(extension={"a": 1})], 1),
    ],
)
@pytest.mark.parametrize(
    "fault",
    [frame(error={"code": "busy", "message": "busy"}), dropped()],
    ids=["an error in the stream", "a broken connection"],
)
async def test_an_attempt_is_made_again_as_long_as_no_content_was_handed_out(
    name: str, before: list[bytes], requests: int, fault: Any
) -> None:
    pipe = Pipe(*before)
    pipe.send(fault)
    http = PipeClient(pipe, good())
    client = client_of(http=http, retry=RetryPolicy(base=0.0))
    async with client.stream(MODEL, "Hi") as stream:
        events = await collect(stream)
    assert len(http.requests) == requests
    assert types(events)[-1] == ("done" if requests == 2 else "error")
    assert broken_rules(events) == []


@pytest.mark.parametrize("shown", range(1, 6))
async def test_the_folded_text_has_no_repeats_wherever_a_stream_is_dropped(shown: int) -> None:
    words = [frame(text=f"{n} ") for n in range(5)]
    end = [frame(stop="stop", finish=True)]
    observer = Observer()
    client = client_of(
        observer,
        http=PipeClient(cut_after(*words[:shown]), Pipe(*words, *end, end=True)),
        retry=RetryPolicy(base=0.0, restart_after_output=True),
    )
    async with client.stream(MODEL, "Hi") as stream:
        events = await collect(stream)
    assert stream.message.text == "0 1 2 3 4 "
    assert types(events).count("retry") == 1
    assert observer.events == events
    assert broken_rules(events) == []


async def test_result_and_complete_begin_a_dropped_stream_again_by_themselves() -> None:
    for ask in ("result", "complete"):
        http = PipeClient(cut_after(frame(text="Hel")), good())
        client = client_of(http=http, retry=RetryPolicy(base=0.0))
        if ask == "complete":
            message = await client.complete(MODEL, "Hi")
        else:
            async with client.stream(MODEL, "Hi") as stream:
                message = await stream.result()
        assert message.text == "Hello"
        assert len(http.requests) == 2


async def test_usage_and_cost_of_voided_attempts_stay_in_the_call() -> None:
    first = cut_after(frame(usage={"input": 10, "cost": 0.5}))
    client = client_of(http=PipeClient(first, good()), retry=RetryPolicy(base=0.0))
    async with client.stream(MODEL, "Hi") as stream:
        message = await stream.result()
    assert message.usage is not None
    assert message.usage.input == 3
    assert stream.call.usage is not None
    assert stream.call.usage.input == 13
    assert stream.call.cost is not None
    assert stream.call.cost.total == 0.5


async def test_thinking_alone_is_an_empty_answer_and_is_tried_once_more() -> None:
    thought = [frame(thinking="Hm"), frame(stop="stop", finish=True)]
    http = PipeClient(Pipe(*thought, end=True), Pipe(*thought, end=True), good())
    client = client_of(http=http, retry=RetryPolicy(base=0.0))
    with pytest.raises(swink.EmptyResponse) as caught:
        await client.complete(MODEL, "Hi")
    assert len(http.requests) == 2
    assert caught.value.partial is not None
    assert caught.value.partial.thinking == "Hm"


# -- a connection that had gone stale -------------------------------------------------------------


async def test_a_stale_connection_is_replaced_at_once_and_not_counted() -> None:
    clock = ManualClock(jump=True)
    stale = failed(Kind.NETWORK, "stale")
    http = PipeClient(stale, good())
    client = client_of(http=http, clock=clock, retry=RetryPolicy.none())
    assert (await client.complete(MODEL, "Hi")).text == "Hello"
    assert clock.sleeps == [0.0]


async def test_a_second_stale_connection_counts_as_a_fault() -> None:
    http = PipeClient(failed(Kind.NETWORK, "stale"))
    with pytest.raises(swink.NetworkError):
        await client_of(http=http, retry=RetryPolicy(base=0.0)).complete(MODEL, "Hi")
    assert len(http.requests) == 5  # the first, one for nothing, three retries


async def test_a_stale_connection_is_not_counted_once_for_each_target() -> None:
    stale = failed(Kind.NETWORK, "stale")
    client, http = chain_client(stale, refused(404), stale, good(), retry=RetryPolicy.none())
    async with client.stream(chain(), "Hi") as stream:
        events = await collect(stream)
    assert types(events)[-1] == "done"
    assert [(e.model, e.attempt) for e in events if isinstance(e, Retry)] == [
        (MODEL, 1),
        ("spare/small", 1),
        ("spare/small", 1),
    ]
    assert len(http.requests) == 4


# -- the wait can be left -------------------------------------------------------------------------


AT_ONCE = 10
"""Seconds of a busy machine's; the waits that are left would last 50."""


async def test_the_wait_ends_at_once_when_the_stream_is_closed_by_another_task() -> None:
    client = client_of(http=PipeClient(refused(429, {"Retry-After": "50"})), retry=RetryPolicy())
    stream = client.stream(MODEL, "Hi")
    reader = asyncio.ensure_future(collect(stream))
    await settled()
    async with asyncio.timeout(AT_ONCE):
        await stream.aclose()
        events = await reader
    assert types(events) == ["start", "retry", "start", "error"]
    assert events[-1].stop_reason == "aborted"


async def test_an_answer_is_closed_once_though_the_wait_for_the_next_attempt_is_left() -> None:
    closed = []

    class Failing:
        def __init__(self) -> None:
            self.events = iter([Start(), error(Kind.OVERLOADED, retry_after=50.0)])

        def __aiter__(self) -> Any:
            return self

        async def __anext__(self) -> Any:
            return next(self.events)

        async def aclose(self) -> None:
            closed.append(self)

    client = client_of(providers={"toy": Yielding(Failing)}, retry=RetryPolicy())
    stream = client.stream(MODEL, "Hi")
    reader = asyncio.create_task(collect(stream))
    await settled()
    assert len(closed) == 1
    await stream.aclose()
    assert types(await reader)[-3:] == ["retry", "start", "error"]
    assert len(closed) == 1


async def test_the_wait_ends_at_once_when_the_task_is_cancelled() -> None:
    observer = Observer()
    client = client_of(
        observer, http=PipeClient(refused(429, {"Retry-After": "50"})), retry=RetryPolicy()
    )
    task = asyncio.ensure_future(client.complete(MODEL, "Hi"))
    await settled()
    task.cancel()
    async with asyncio.timeout(AT_ONCE):
        with pytest.raises(asyncio.CancelledError):
            await task
    assert len(observer.terminals) == 1


async def test_the_limits_of_an_attempt_do_not_end_the_wait_for_the_next() -> None:
    clock = ManualClock(jump=True)
    client = client_of(
        http=PipeClient(refused(429, {"Retry-After": "50"}), good()),
        clock=clock,
        timeouts=swink.Timeouts(first_event=5, idle=5, no_progress=5),
        retry=RetryPolicy(),
    )
    assert (await client.complete(MODEL, "Hi")).text == "Hello"


async def test_the_limit_over_the_whole_call_ends_the_wait() -> None:
    clock = ManualClock(jump=True)
    http = PipeClient(refused(429, {"Retry-After": "50"}), good())
    client = client_of(
        http=http, clock=clock, timeouts=swink.Timeouts(total=20), retry=RetryPolicy()
    )
    with pytest.raises(swink.StreamTimeout) as caught:
        await client.complete([MODEL], "Hi")
    assert len(http.requests) == 1
    assert caught.value.code == "total"
    assert not caught.value.retryable


async def test_the_limit_over_the_whole_call_ends_the_wait_for_a_gate() -> None:
    class Full:
        async def enter(self, target: Any) -> None:
            await clock.sleep(50)

        def leave(self, target: Any, terminal: Any, response: Any) -> None: ...

    clock, http = ManualClock(jump=True), PipeClient(good())
    client = client_of(http=http, clock=clock, gates=[Full()], timeouts=swink.Timeouts(total=20))
    with pytest.raises(swink.StreamTimeout) as caught:
        await client.complete(MODEL, "Hi")
    assert (caught.value.code, http.requests, clock.time()) == ("total", [], 20)


async def test_the_limit_over_the_whole_call_leaves_no_time_for_the_next_model() -> None:
    clock, http = ManualClock(), PipeClient(Pipe(), good())
    client = client_of(http=http, clock=clock, timeouts=swink.Timeouts(total=20))
    reader = asyncio.create_task(collect(client.stream([MODEL, "toy/other"], "Hi")))
    await settled()
    await clock.advance(20)
    events = await reader
    assert [type(event) for event in events] == [swink.Start, swink.Error]
    assert (events[-1].code, len(http.requests)) == ("total", 1)


# -- falling back ---------------------------------------------------------------------------------


OTHER = "toy/other"


def limit(total: float) -> dict[str, Any]:
    return {"timeouts": swink.Timeouts(first_event=None, total=total)}


# (chain, options of the client, options of the call, seconds that the two attempts need, codes of
# the failures, when the call ends)
CHAINS: dict[str, tuple[Any, Any, Any, tuple[float, float], list[str | None], float]] = {
    "the first model's": (
        [(MODEL, {"timeout": 4}), OTHER], {}, {}, (9, 3), ["total_of_model"], 7,
    ),
    "the second model's counts from its first attempt": (
        [MODEL, (OTHER, {"timeout": 7})], limit(8), {}, (5, 6), ["connection"], 11,
    ),
    "the last model's": (
        [MODEL, (OTHER, {"timeout": 7})], {}, {}, (5, 9),
        ["connection", "total_of_model"], 12,
    ),
    "a target's": (
        [(MODEL, {}), OTHER], {}, {"timeout": 4}, (9, 3), ["total_of_model"], 7,
    ),
    "a target's from the client": ([(MODEL, {}), OTHER], limit(4), {}, (9, 3), ["total"], 4),
    "the call's, which ends first": (
        [(MODEL, {"timeout": 9}), OTHER], {}, {"timeout": 6}, (9, 3), ["total"], 6,
    ),
    "the call's beside that of each model": (
        [(MODEL, {"timeout": 4}), (OTHER, {"timeout": 4})], {}, {"timeout": 6}, (9, 3),
        ["total_of_model", "total"], 6,
    ),
    "the call's, and none of the models": (
        [(MODEL, {"timeouts": swink.Timeouts(idle=8)}), OTHER], {},
        {"timeout": 6}, (9, 3), ["total"], 6,
    ),
    "that of the only model": ([(MODEL, {"timeout": 4})], {}, {}, (9, 3), ["total"], 4),
    "those of the only model and the call": (
        [(MODEL, {"timeout": 9})], {}, {"timeout": 6}, (9, 3), ["total"], 6,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHAINS)
async def test_a_models_own_total_limit_ends_only_the_attempts_with_this_model(name: str) -> None:
    chain, of_client, of_call, needs, codes, ends_at = CHAINS[name]
    clock = ManualClock(jump=True)

    async def broken() -> Failure:
        await clock.sleep(needs[0])
        return Failure("connect", kind=Kind.NETWORK, code="connection", message="made up")

    async def late() -> Pipe:
        await clock.sleep(needs[1])
        return Pipe(*HELLO, end=True)

    client = client_of(http=PipeClient(broken, late), clock=clock, retry=False, **of_client)
    if name.startswith("a target's"):
        chain, of_call = [client.target(MODEL, **of_call), chain[1]], {}
    events = await collect(client.stream(chain, "Hi", **of_call))
    assert [event.code for event in events if isinstance(event, Retry | Error)] == codes
    assert clock.time() == ends_at


async def test_a_models_own_total_limit_covers_its_retries_and_no_wait_goes_beyond_it() -> None:
    clock = ManualClock(jump=True)
    busy = refused(429, {"Retry-After": "8"})
    http = PipeClient(busy, busy, busy, good())
    client = client_of(http=http, clock=clock, retry=RetryPolicy())
    stream = client.stream([(MODEL, {"timeout": 20}), OTHER], "Hi")
    assert (await stream.result()).text == "Hello"
    assert (str(stream.call.model), stream.call.attempts, clock.time()) == (OTHER, 4, 16)


@pytest.mark.parametrize("kind", list(Kind), ids=str)
async def test_only_some_kinds_fall_back_to_the_next_model(kind: Kind) -> None:
    http = PipeClient(failed(kind), good())
    client = client_of(providers=TWO, api_key="k", http=http)
    async with client.stream(
        [(MODEL, {"api_key": "a"}), ("spare/small", {"api_key": "b"})], "Hi"
    ) as s:
        events = await collect(s)
    falls = kind in {
        Kind.THROTTLED, Kind.OVERLOADED, Kind.NETWORK, Kind.EMPTY_RESPONSE, Kind.TIMEOUT,
        Kind.PROTOCOL, Kind.QUOTA_EXHAUSTED, Kind.MODEL_NOT_FOUND, Kind.UNSUPPORTED, Kind.RESOURCE,
    }  # fmt: skip
    assert types(events)[-1] == ("done" if falls else "error")
    assert [e.model for e in events if isinstance(e, Retry)] == (["spare/small"] if falls else [])
    assert broken_rules(events) == []


def chain_client(*answers: Any, clock: Any = None, **options: Any) -> tuple[Any, PipeClient]:
    http = PipeClient(*answers)
    client = client_of(providers=TWO, http=http, **options, **({"clock": clock} if clock else {}))
    return client, http


def chain() -> list[Any]:
    return [(MODEL, {"api_key": "first-key"}), ("spare/small", {"api_key": "spare-key"})]


async def test_the_next_model_is_tried_when_the_first_is_out_of_attempts() -> None:
    client, http = chain_client(
        *[refused(500)] * 4, *[refused(503)] * 2, good(), retry=RetryPolicy(base=0.0)
    )
    async with client.stream(chain(), "Hi") as stream:
        message = await stream.result()
    assert [b"small" in request.body for request in http.requests] == [False] * 4 + [True] * 3
    assert (message.provider, message.model) == ("spare", "large-2")
    assert stream.call.attempts == 7


async def test_the_retries_of_each_target_are_its_own_and_the_waits_are_the_calls() -> None:
    clock = ManualClock(jump=True)
    one = RetryPolicy(retries={Kind.OVERLOADED: 9}, budget=10.0, circuit_threshold=99)
    wait = {"Retry-After": "4"}
    client, http = chain_client(*[refused(503, wait)] * 20, clock=clock, retry=one)
    with pytest.raises(swink.ModelOverloaded):
        await client.complete(chain(), "Hi")
    assert [b"small" in request.body for request in http.requests] == [False] * 3 + [True]
    assert clock.sleeps == [4.0, 4.0, 0.0]


@pytest.mark.usefixtures("full_waits")
async def test_the_waits_of_each_target_begin_with_the_shortest() -> None:
    clock = ManualClock(jump=True)
    twice = RetryPolicy(retries={Kind.OVERLOADED: 2})
    client, _ = chain_client(*[refused(503)] * 4, good(), clock=clock, retry=twice)
    await client.complete(chain(), "Hi")
    assert clock.sleeps == [1.0, 2.0, 0.0, 1.0]


async def test_attempts_are_counted_anew_on_each_target() -> None:
    twice = RetryPolicy(base=0.0, retries={Kind.OVERLOADED: 2})
    client, _ = chain_client(*[refused(503)] * 5, good(), retry=twice)
    async with client.stream(chain(), "Hi") as stream:
        retries = [event for event in await collect(stream) if isinstance(event, Retry)]
    numbered = [(r.model, r.attempt) for r in retries]
    large = [(MODEL, 2), (MODEL, 3)]
    assert numbered == [*large, ("spare/small", 1), ("spare/small", 2), ("spare/small", 3)]
    most = max(row.retries for kind, row in KINDS.items() if kind is not Kind.OVERLOADED)
    assert [r.max_attempts for r in retries] == [3, 3, 1 + most, 3, 3]


async def test_output_of_one_attempt_does_not_make_the_failure_of_another_final() -> None:
    restarts = RetryPolicy(base=0.0, retries={Kind.NETWORK: 0}, restart_after_output=True)
    models = [(MODEL, {"api_key": "a", "retry": restarts}), chain()[1]]
    answers = [cut_after(frame(text="Hel")), refused(503), good()]
    client, http = chain_client(*answers, retry=RetryPolicy(base=0.0))
    events = await ask(client, models)
    assert types(events)[-1] == "done"
    assert len(http.requests) == 3


async def test_each_target_has_its_own_key_address_headers_and_options() -> None:
    client, http = chain_client(refused(404), good())
    await client.complete(
        [
            (MODEL, {"temperature": 0.1}),
            ("spare/small", {"api_key": "spare-key", "temperature": 0.9}),
        ],
        "Hi",
        api_key="canary-first-key",
        base_url="http://first.invalid/v1",
        headers={"X-Team": "canary-team"},
        extra={"user": "canary-user"},
    )
    first, second = http.requests
    assert first.headers["Authorization"] == "Bearer canary-first-key"
    assert first.url == "http://first.invalid/v1/chat"
    assert second.headers["Authorization"] == "Bearer spare-key"
    assert second.url == "http://toy.invalid/v1/chat"
    assert "canary" not in repr(second.headers) + second.url + second.body.decode()


async def test_two_keys_of_one_model_make_a_chain_too() -> None:
    client, http = chain_client(refused(402), good())
    models = [(MODEL, {"api_key": "first-key"}), (MODEL, {"api_key": "other-key"})]
    assert (await client.complete(models, "Hi")).text == "Hello"
    sent = [request.headers["Authorization"] for request in http.requests]
    assert sent == ["Bearer first-key", "Bearer other-key"]


async def test_missing_credentials_of_the_first_are_final_and_send_nothing() -> None:
    http = PipeClient(good())
    client = client_of(providers=TWO, http=http)
    with pytest.raises(swink.AuthenticationError) as caught:
        await client.complete(CHAIN, "Hi")
    assert http.requests == []
    assert "TOY_API_KEY" in caught.value.resolution
    assert "https://toy.invalid/keys" in caught.value.resolution


async def test_there_is_no_fallback_after_output() -> None:
    client, http = chain_client(cut_after(frame(text="Hel")), good())
    async with client.stream(chain(), "Hi") as stream:
        events = await collect(stream)
    assert types(events)[-1] == "error"
    assert len(http.requests) == 1


# -- resting targets ------------------------------------------------------------------------------


TIRED = RetryPolicy(retries=dict.fromkeys(Kind, 0), circuit_threshold=2, circuit_cooldown=30.0)


async def ask(client: Any, models: Any) -> list[Any]:
    async with client.stream(models, "Hi") as stream:
        return await collect(stream)


async def test_calls_of_a_client_pass_over_a_target_that_keeps_failing() -> None:
    clock = ManualClock()
    answers = [refused(503), good(), refused(503), good(), good(), good(), good()]
    client, http = chain_client(*answers, clock=clock, retry=TIRED)
    for _ in range(2):
        await ask(client, chain())
    events = await ask(client, chain())
    assert events[0] == Notice("target_passed_over", "toy/large: it keeps failing")
    assert types(events)[1:3] == ["start", "text_start"]
    assert broken_rules(events) == []
    assert b"small" in http.requests[-1].body
    await clock.advance(30.0)
    events = await ask(client, chain())
    assert types(events)[0] == "start"
    assert b"large" in http.requests[-1].body
    events = await ask(client, chain())
    assert b"large" in http.requests[-1].body
    assert len(http.requests) == 7


async def test_a_resting_target_in_the_middle_of_a_chain_is_passed_over() -> None:
    client, http = chain_client(
        *[refused(503)] * 2, refused(503), good(), retry=TIRED, clock=ManualClock()
    )
    middle = ("spare/middle", {"api_key": "k"})
    for _ in range(2):
        await ask(client, middle)
    models = [chain()[0], middle, chain()[1]]
    events = await ask(client, models)
    assert types(events)[:3] == ["start", "retry", "notice"]
    assert events[1].model == "spare/middle"
    assert events[2] == Notice("target_passed_over", "spare/middle: it keeps failing")
    assert b"small" in http.requests[-1].body


async def test_a_target_that_begins_to_rest_is_left_for_the_next_one() -> None:
    policy = RetryPolicy(base=0.0, circuit_threshold=2, retries={Kind.OVERLOADED: 2})
    answers = [*[refused(503)] * 3, good(), refused(503), good()]
    client, http = chain_client(*answers, retry=policy)
    await ask(client, chain())  # three attempts, which count once
    await ask(client, chain())
    on_second_model = [b"small" in request.body for request in http.requests]
    assert on_second_model == [False, False, False, True, False, True]


async def test_the_last_target_is_tried_however_often_it_has_failed() -> None:
    client, _ = chain_client(*[refused(503)] * 4, good(), retry=TIRED)
    for _ in range(4):
        await ask(client, (MODEL, {"api_key": "k"}))
    events = await ask(client, (MODEL, {"api_key": "k"}))
    assert types(events)[-1] == "done"


@pytest.mark.parametrize(
    ("kind", "tires"),
    [(kind, KINDS[kind].healthy is False)
     for kind in Kind],
)  # fmt: skip
async def test_only_failures_of_the_target_itself_make_it_rest(kind: Kind, tires: bool) -> None:
    client, http = chain_client(*[failed(kind)] * 2, good(), retry=TIRED, clock=ManualClock())
    for _ in range(2):
        await ask(client, (MODEL, {"api_key": "first-key"}))
    await ask(client, chain())
    assert (b"small" in http.requests[-1].body) is tires


@pytest.mark.parametrize(
    "other", [{"api_key": "other-key"}, {"headers": {"authorization": "Bearer other"}}]
)
async def test_other_credentials_of_a_resting_model_are_not_at_rest(other: dict[str, Any]) -> None:
    client, http = chain_client(*[refused(503)] * 2, good(), retry=TIRED, clock=ManualClock())
    for _ in range(2):
        await ask(client, (MODEL, {"api_key": "first-key"}))
    await ask(client, [(MODEL, other), chain()[1]])
    assert b"large" in http.requests[-1].body


# -- what runs out --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Kind.RESOURCE, Kind.NETWORK, Kind.OVERLOADED])
async def test_idle_connections_are_closed_where_resources_run_out(kind: Kind) -> None:
    http = PipeClient(failed(kind), good())
    await client_of(http=http, retry=RetryPolicy(base=0.0)).complete(MODEL, "Hi")
    assert http.idle_closed == (1 if kind is Kind.RESOURCE else 0)


class Greedy(Toy):
    """A provider whose parser runs out of memory, unless the answer comes whole."""

    def parser(self, model: swink.Model) -> Any:
        parser = super().parser(model)
        parser.feed_all, parser.feed = parser.feed, self._exhausted
        parser.buffered = lambda data, out: [
            parser.feed_all(json.dumps(part).encode(), out) for part in json.loads(data)
        ]
        return parser

    @staticmethod
    def _exhausted(data: bytes, out: EventWriter) -> None:
        raise MemoryError


async def test_under_memory_pressure_the_answer_is_asked_for_whole() -> None:
    whole = json.dumps([{"text": "Hello"}, {"stop": "stop", "finish": True}]).encode()
    json_type = {"Content-Type": "application/json"}
    http = PipeClient(Pipe(*HELLO, end=True), Pipe(whole, headers=json_type, end=True))
    client = client_of(
        providers={"toy": Greedy}, api_key="k", http=http, retry=RetryPolicy(base=0.0)
    )
    async with client.stream(MODEL, "Hi") as stream:
        events = await collect(stream)
    assert stream.message.text == "Hello"
    retry = next(event for event in events if isinstance(event, Retry))
    assert retry.error_kind is Kind.RESOURCE
    notices = [event.code for event in events if isinstance(event, Notice)]
    assert notices == ["buffered"]
    assert http.idle_closed == 1
    assert broken_rules(events) == []


async def test_an_answer_beyond_the_size_limit_fails_and_keeps_what_came() -> None:
    http = PipeClient(Pipe(*[frame(text="x" * 10)] * 20))
    client = client_of(http=http, retry=RetryPolicy(), max_output_chars=95)
    with pytest.raises(swink.OutputTooLarge) as caught:
        await client.complete(MODEL, "Hi")
    assert caught.value.partial is not None
    assert len(caught.value.partial.text) == 100
    assert len(http.requests) == 1
    assert "max_output_chars" in caught.value.resolution


# (name, how 3,000 characters come)
READS = [
    ("one_read", lambda: [frame(text="x" * 3000) + b"".join(HELLO[-2:])]),
    ("several", lambda: [*[frame(text="x" * 600)] * 5, *HELLO[-2:]]),
    ("byte_by_byte", lambda: [bytes([b]) for b in frame(text="x" * 3000) + b"".join(HELLO[-2:])]),
]


@pytest.mark.parametrize("pieces", [row[1] for row in READS], ids=[row[0] for row in READS])
async def test_the_size_limit_does_not_depend_on_how_the_network_cuts(
    pieces: Callable[[], list[bytes]],
) -> None:
    client = client_of(http=PipeClient(Pipe(*pieces(), end=True)), max_output_chars=1000)
    with pytest.raises(swink.OutputTooLarge):
        await client.complete(MODEL, "Hi")


async def test_the_size_limit_holds_for_answers_that_are_asked_for_whole() -> None:
    whole = json.dumps([{"text": "x" * 3000}, {"stop": "stop", "finish": True}]).encode()
    http = PipeClient(Pipe(whole, headers={"Content-Type": "application/json"}, end=True))
    client = client_of(
        providers={"toy": Whole}, api_key="k", http=http, max_output_chars=100, transport="buffered"
    )
    with pytest.raises(swink.OutputTooLarge):
        await client.complete(MODEL, "Hi")


class Whole(Toy):
    """A provider that reads whole answers."""

    def parser(self, model: swink.Model) -> Any:
        parser = super().parser(model)
        parser.buffered = lambda data, out: [
            parser.feed(json.dumps(part).encode(), out) for part in json.loads(data)
        ]
        return parser


async def test_arguments_of_a_call_that_is_never_named_count_towards_the_size_limit() -> None:
    pieces = [frame(call={"key": 0, "arguments": "x" * 10})] * 20
    http = PipeClient(Pipe(*pieces))
    client = client_of(http=http, retry=RetryPolicy(), max_output_chars=95)
    with pytest.raises(swink.OutputTooLarge):
        await client.complete(MODEL, "Hi")


# -- retryable ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", list(Kind), ids=str)
async def test_whether_an_error_is_retryable_depends_on_its_kind_not_on_the_policy(
    kind: Kind,
) -> None:
    client = client_of(http=PipeClient(failed(kind)), retry=RetryPolicy.none())
    with pytest.raises(swink.StreamError) as caught:
        await client.complete(MODEL, "Hi")
    assert caught.value.retryable is (KINDS[kind].retries > 0)
    assert is_retryable(error(kind)) is (KINDS[kind].retries > 0)


@pytest.mark.parametrize(("wait", "again"), [(None, True), (0.5, True), (0.6, False)])
def test_only_a_wait_that_was_asked_for_is_held_to_its_cap(wait: float | None, again: bool) -> None:
    policy = RetryPolicy(retry_after_cap=0.5)
    call = call_of(Toy("toy"), "large", options=swink.StreamOptions(retry=policy))
    ended = Retries(call, [call.attempt.target]).ended(error(Kind.NETWORK, retry_after=wait), False)
    assert isinstance(ended, Retry) is again
