"""When a target that keeps failing is passed over, and when it is tried again."""

from contextlib import suppress

import pytest

from swink_core import Done, Error, Model, ProviderFailure, RetryPolicy, StopReason, StreamOptions
from swink_core import StreamErrorKind as Kind
from swink_core.plugins.attempt import Attempt
from swink_core.plugins.binding import Target
from swink_core.plugins.host import bind_hooks
from swink_core.streaming.breaker import CircuitBreaker
from swink_testing.clock import ManualClock

COOLDOWN = 30.0
OPTIONS = StreamOptions(retry=RetryPolicy(circuit_threshold=3, circuit_cooldown=COOLDOWN))
BINDING = bind_hooks("toy", object())
FAILED = Error(error_kind=Kind.OVERLOADED)


def first() -> Target:
    """Return the target of another call."""
    return Target(Model("toy", "a"), OPTIONS, BINDING, is_last=False)


FIRST = first()


def end(
    breaker: CircuitBreaker, target: Target, terminal: Done | Error, has_begun: bool = True
) -> None:
    """Tell the breaker that an attempt has ended; without `has_begun`, another gate refused it."""
    attempt = Attempt(target)
    if has_begun:
        attempt.begin(0.0)
    breaker.leave(target, terminal, None, attempt)


async def broken(times: int) -> tuple[CircuitBreaker, ManualClock]:
    clock = ManualClock()
    breaker = CircuitBreaker(clock)
    for _ in range(times):
        end(breaker, first(), FAILED)
    return breaker, clock


async def lets_in(breaker: CircuitBreaker, target: Target = FIRST) -> bool:
    with suppress(ProviderFailure):
        await breaker.enter(target)
        return True
    return False


@pytest.mark.parametrize(
    ("name", "failures", "later", "allowed"),
    [
        ("an unknown target", 0, 0.0, True),
        ("fewer failures than the threshold", 2, 0.0, True),
        ("as many failures as the threshold", 3, 0.0, False),
        ("just before the cooldown is over", 3, 29.9, False),
        ("when the cooldown is over", 3, 30.0, True),
    ],
)
async def test_a_circuit_opens_after_failures_in_a_row_and_half_opens_after_its_cooldown(
    name: str, failures: int, later: float, allowed: bool
) -> None:
    breaker, clock = await broken(failures)
    await clock.advance(later)
    assert await lets_in(breaker) is allowed


async def test_a_skipped_target_is_reported_as_unreachable() -> None:
    breaker, _ = await broken(3)
    with pytest.raises(ProviderFailure) as caught:
        await breaker.enter(FIRST)
    failure = caught.value.failure
    assert (failure.phase, failure.kind, failure.code) == (
        "connect", Kind.OVERLOADED, "circuit_open",
    )  # fmt: skip


async def test_an_answer_between_failures_starts_the_count_again() -> None:
    breaker, _ = await broken(2)
    end(breaker, first(), Done(StopReason.STOP))
    end(breaker, first(), FAILED)
    assert await lets_in(breaker)


async def test_half_open_only_the_first_who_asks_may_try() -> None:
    breaker, clock = await broken(3)
    await clock.advance(COOLDOWN)
    assert [await lets_in(breaker) for _ in range(3)] == [True, False, False]


@pytest.mark.parametrize("has_begun", [False, True])
async def test_a_try_that_a_gate_refuses_or_its_caller_cancels_leaves_the_next_call_to_try(
    has_begun: bool,
) -> None:
    breaker, clock = await broken(3)
    other = first()
    await clock.advance(COOLDOWN)
    assert await lets_in(breaker)
    end(breaker, other, Error(error_kind=Kind.CANCELLED), has_begun)  # it is not the one that tries
    assert not await lets_in(breaker, other)
    end(breaker, FIRST, Error(error_kind=Kind.CANCELLED), has_begun)
    assert [await lets_in(breaker, other) for _ in range(2)] == [True, False]


async def test_a_failed_try_opens_the_circuit_for_another_cooldown() -> None:
    breaker, clock = await broken(3)
    await clock.advance(COOLDOWN)
    assert await lets_in(breaker)
    await clock.advance(1.0)
    end(breaker, FIRST, FAILED)
    await clock.advance(29.9)
    assert not await lets_in(breaker)
    await clock.advance(0.1)
    assert await lets_in(breaker)


async def test_the_last_target_of_a_chain_is_let_in_however_open_its_circuit() -> None:
    breaker, _ = await broken(3)
    last = Target(FIRST.model, FIRST.options, FIRST.binding)
    assert last.key == FIRST.key
    assert await lets_in(breaker, last)


async def test_a_stale_connection_is_not_counted_as_a_failure() -> None:
    breaker, _ = await broken(2)
    end(breaker, first(), Error(error_kind=Kind.NETWORK, code="stale"))
    assert await lets_in(breaker)


async def test_the_retries_of_one_call_count_once() -> None:
    breaker, _ = await broken(1)
    call = first()
    for _ in range(5):
        end(breaker, call, FAILED)
    assert await lets_in(breaker)
    end(breaker, first(), FAILED)
    assert not await lets_in(breaker)


async def test_an_empty_answer_does_not_count() -> None:
    breaker, _ = await broken(2)
    end(breaker, first(), Error(error_kind=Kind.EMPTY_RESPONSE))
    assert await lets_in(breaker)
    end(breaker, first(), FAILED)
    assert not await lets_in(breaker)


@pytest.mark.parametrize("wait", [0.5, 300.0])
async def test_the_circuit_is_open_for_exactly_the_time_that_the_provider_gave(wait: float) -> None:
    breaker, clock = await broken(2)
    end(breaker, first(), Error(error_kind=Kind.THROTTLED, retry_after=wait))
    await clock.advance(wait - 0.1)
    assert not await lets_in(breaker)
    await clock.advance(0.1)
    assert [await lets_in(breaker) for _ in range(3)] == [True] * 3


async def test_a_limit_of_the_callers_says_nothing_about_the_target() -> None:
    breaker, _ = await broken(2)
    for _ in range(5):
        refused = Error(error_kind=Kind.QUOTA_EXHAUSTED, code="limit")
        end(breaker, first(), refused)
    assert await lets_in(breaker)


async def test_a_refusal_by_another_gate_says_nothing_about_the_target() -> None:
    breaker, _ = await broken(2)
    for _ in range(5):
        end(breaker, first(), Error(error_kind=Kind.QUOTA_EXHAUSTED), has_begun=False)
    assert await lets_in(breaker)
