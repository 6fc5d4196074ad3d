"""Limits, learnt from servers that keep them: simulated, in no time."""

from __future__ import annotations

import asyncio
import heapq
import random
from collections import deque
from collections.abc import Awaitable, Callable
from itertools import count
from math import inf, isnan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swink import Client
from swink_batch.limits import Lane, Limiter, allowances
from swink_batch.limits.lane import LONGEST_SHUT
from swink_core import Done, Error, StopReason, StreamErrorKind, Target, replace
from swink_core.providers import LoopClock

LATENCY = 0.3

Answer = Callable[[float], tuple[Error | None, dict[str, str]]]
"""A server's answer at a moment: whether it is an error, and headers."""


def bucket(rate: float, size: float, headers: bool = False) -> Answer:
    """Return a server with a bucket of calls that is refilled all the time."""
    left, at = size, 0.0

    def answer(now: float) -> tuple[Error | None, dict[str, str]]:
        nonlocal left, at
        left, at = min(size, left + (now - at) * rate), now
        fits = left >= 1.0
        left -= fits
        said = {
            "x-ratelimit-remaining-requests": str(int(left)),
            "x-ratelimit-reset-requests": f"{(size - left) / rate:.3f}s",
        }
        return (None if fits else THROTTLED), said if headers else {}

    return answer


def period(calls: int, seconds: float) -> Answer:
    """Return a server that counts calls in periods and reports the remaining quota in headers."""
    used, number = 0, 0

    def answer(now: float) -> tuple[Error | None, dict[str, str]]:
        nonlocal used, number
        if int(now / seconds) > number:
            used, number = 0, int(now / seconds)
        used += 1
        said = {
            "anthropic-ratelimit-requests-remaining": str(max(0, calls - used)),
            "anthropic-ratelimit-requests-reset": f"{(number + 1) * seconds - now:.3f}",
        }
        return (None if used <= calls else THROTTLED), said

    return answer


def mute_window(calls: int, seconds: float, slides: bool = False, says: bool = False) -> Answer:
    """Return a server that counts the calls of a period, or of the time before each call, and
    reports it only by rejections, which may include a retry time.
    """
    past: deque[float] = deque()
    period = -1

    def answer(now: float) -> tuple[Error | None, dict[str, str]]:
        nonlocal period
        if not slides and int(now / seconds) > period:
            period = int(now / seconds)
            past.clear()
        while slides and past and past[0] <= now - seconds:
            past.popleft()
        if len(past) < calls:
            past.append(now)
            return None, {}
        back = past[0] + seconds if slides else (period + 1) * seconds
        return (replace(THROTTLED, retry_after=back - now) if says else THROTTLED), {}

    return answer


def all_of(*servers: Answer) -> Answer:
    """Return a server with several limits, each of which counts what those before let through."""

    def answer(now: float) -> tuple[Error | None, dict[str, str]]:
        said = (server(now)[0] for server in servers)
        return next((error for error in said if error is not None), None), {}

    return answer


THROTTLED = Error(error_message="slow down", error_kind=StreamErrorKind.THROTTLED)

DONE = Done(StopReason.STOP)

SLOW = Error(error_message="too long", error_kind=StreamErrorKind.TIMEOUT)

LIES = {
    name: {"x-ratelimit-remaining-requests": remaining, "x-ratelimit-reset-requests": reset}
    for name, remaining, reset in [
        ("shut", "0", "999999h"),
        ("negative", "-5", "-30s"),
        ("huge", "99999999999999999999", "1e308"),
        ("slow", "1", "119"),
        ("fast", "1e14", "0.000001"),
        ("no number", "NaN", "inf"),
    ]
}


def some_refused(share: float, seconds: float, seed: int, wait: float, first: int = 0) -> Answer:
    """Return a server that rejects a random share of calls for some seconds, after the `first`."""
    chance, calls = random.Random(seed), count(1)

    def answer(now: float) -> tuple[Error | None, dict[str, str]]:
        is_refused = next(calls) > first and now < seconds and chance.random() < share
        return (replace(THROTTLED, retry_after=wait) if is_refused else None), {}

    return answer


def simulated(
    server: Answer,
    seconds: float,
    refusal: float = LATENCY / 10,
    latency: float = LATENCY,
    most: int = 256,
) -> tuple[Lane, int, int]:
    """Call a server for so long; return the lane, how many it answered and how many it refused."""
    lane, now, answered = Lane(most, 0.0), 0.0, 0
    numbers = count()
    ends: list[tuple[float, int, float, Error | None, dict[str, str]]] = []
    while now < seconds:
        wait = lane.wait(now)
        if wait <= 0.0:
            lane.begin(now)
            error, headers = server(now)
            took = latency if error is None else refusal
            heapq.heappush(ends, (now + took, next(numbers), now, error, headers))
            continue
        if not ends or now + wait < ends[0][0]:
            now += wait
            continue
        now, _, began, error, headers = heapq.heappop(ends)
        lane.end(began, now, error or DONE)
        lane.heed(headers, now, error is None)
        answered += error is None
    return lane, answered, lane.refused


@pytest.mark.parametrize(
    ("server", "rate"),
    [
        (bucket(20, 5), 20),
        (bucket(100, 10), 100),
        (bucket(500, 50), 500),
        (bucket(50, 3000, headers=True), 50),
        (bucket(10, 600, headers=True), 10),
        (period(600, 60), 10),
        (period(6000, 60), 100),
    ],
)
def test_a_rate_that_a_server_keeps_is_used_and_hardly_passed(server: Answer, rate: float) -> None:
    seconds = min(600.0, 20_000 / rate)
    _, answered, refused = simulated(server, seconds)
    assert answered / seconds >= 0.95 * rate
    assert refused < 0.01 * answered


@pytest.mark.parametrize(
    ("rate", "size", "headers"),
    [
        (20, 5, False),
        (50, 50, False),
        (100, 10, False),
        (200, 20, False),
        (200, 200, False),
        (50, 50, True),
        (200, 20, True),
        (200, 200, True),
    ],
)
def test_a_short_run_meets_a_limit_with_few_refusals(rate: int, size: int, headers: bool) -> None:
    server = bucket(rate, size, headers)
    lane, answered, refused = simulated(server, 2000 / rate, refusal=0.005)
    assert answered >= 0.7 * 2000
    assert refused < 0.01 * answered
    if not headers:
        assert lane.rate.value == pytest.approx(rate, rel=0.1)


@pytest.mark.parametrize(
    ("server", "rate", "seconds", "least"),
    [
        (bucket(200, 200), 200, 30, 0.95),
        (bucket(200, 20), 200, 30, 0.94),
        (bucket(20, 5), 20, 300, 0.95),
        (mute_window(200, 1), 200, 60, 0.9),
        (mute_window(50, 1, slides=True), 50, 60, 0.85),
        (mute_window(2000, 10), 200, 60, 0.8),
        (mute_window(2000, 10, slides=True), 200, 60, 0.8),
        (mute_window(600, 60), 10, 600, 0.9),
        (mute_window(600, 60, says=True), 10, 600, 0.95),
        (mute_window(600, 60, slides=True, says=True), 10, 600, 0.95),
        (all_of(bucket(200, 20), mute_window(6000, 60)), 100, 300, 0.85),
        (all_of(mute_window(10, 1), mute_window(300, 60)), 5, 600, 0.8),
    ],
)
def test_a_limit_that_refusals_alone_tell_is_used_and_hardly_passed(
    server: Answer, rate: float, seconds: float, least: float
) -> None:
    _, answered, refused = simulated(server, seconds, refusal=0.005)
    assert answered / seconds >= least * rate
    assert refused < 0.01 * answered


@pytest.mark.parametrize("wait", [0.0, 1.0])
@pytest.mark.parametrize("burst", [0.5, 1.0])
@pytest.mark.parametrize("seed", range(5))
def test_a_run_recovers_from_a_short_burst_of_refusals(
    burst: float, wait: float, seed: int
) -> None:
    _, healthy, _ = simulated(lambda now: (None, {}), 3.7, 0.03, 0.03, 10)
    server = some_refused(0.5, burst, seed, wait, first=20)
    _, answered, _ = simulated(server, 2 * 3.7, 0.03, 0.03, 10)
    assert answered >= healthy > 1200


def test_a_few_refusals_at_random_rarely_slow_a_run_down_by_more_than_half() -> None:
    _, healthy, _ = simulated(lambda now: (None, {}), 10.0, 0.03, 0.03, 5)
    servers = [some_refused(0.04, inf, seed, 0.0) for seed in range(10)]
    answered = [simulated(server, 2 * 10.0, 0.03, 0.03, 5)[1] for server in servers]
    assert sorted(answered)[1] >= healthy > 1500


@pytest.mark.parametrize("refusal", [0.005, 3.0])
def test_a_server_that_rejects_the_first_calls_is_retried_until_it_answers(
    refusal: float,
) -> None:
    shut = 20.0
    lane, answered, refused = simulated(
        lambda now: (THROTTLED if now < shut else None, {}), 4 * shut, refusal
    )
    assert refused < 3 * shut
    assert answered > 20 * shut
    assert lane.window.size > 8


@given(
    st.lists(
        st.tuples(
            st.sampled_from([0.0, 0.001, 0.1, 1.0, 3.0, 100.0]),
            st.sampled_from([DONE, THROTTLED, SLOW, replace(THROTTLED, retry_after=1e9)]),
            st.sampled_from([*{**LIES, "none": {}}.values()]),
        ),
        max_size=60,
    ),
    st.integers(1, 9),
)
def test_the_next_call_waits_at_most_a_minute_whatever_a_server_requests(
    said: list[tuple[float, Done | Error, dict[str, str]]], at_once: int
) -> None:
    lane, now = Lane(at_once, 0.0), 0.0
    begun: deque[float] = deque()
    for seconds, terminal, headers in said:
        now += seconds
        while lane.wait(now) <= 0.0:
            lane.begin(now)
            begun.append(now)
        if begun:
            lane.end(begun.popleft(), now, terminal)
            lane.heed(headers, now, isinstance(terminal, Done))
        assert lane.busy == len(begun)
        assert not isnan(lane.wait(now))
        assert lane.wait(now) <= LONGEST_SHUT + 1e-6 or begun


def test_without_limits_the_window_opens_to_its_most() -> None:
    lane, answered, refused = simulated(lambda now: (None, {}), 60.0)
    assert lane.window.size == 256
    assert refused == 0
    assert answered > 0.9 * 60 / LATENCY * 256


@pytest.mark.parametrize("share", [0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4])
def test_refusals_that_slowing_down_does_not_help_do_not_stop_a_run(share: float) -> None:
    chance = random.Random(3)

    def server(now: float) -> tuple[Error | None, dict[str, str]]:
        return (THROTTLED if chance.random() < share else None), {}

    lane, answered, _ = simulated(server, 60.0)
    assert answered > 0.5 * 60 / LATENCY * 256
    assert lane.rate.value < 3000  # it does not run away meanwhile


def test_broken_calls_narrow_the_window_by_their_share() -> None:
    chance = random.Random(4)
    broken = Error(error_message="reset", error_kind=StreamErrorKind.NETWORK)

    def server(now: float) -> tuple[Error | None, dict[str, str]]:
        return (broken if 60 < now < 90 or chance.random() < 0.02 else None), {}

    lane, _, _ = simulated(server, 60.0)
    assert lane.window.size > 100  # some fail wherever one asks
    lane, _, _ = simulated(server, 89.0)
    assert lane.window.size < 3  # all fail


def test_headers_that_lie_do_not_shut_a_lane_for_good() -> None:
    lies = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "31536000"}
    _, answered, _ = simulated(lambda now: (None, lies), 150.0)
    assert answered > 1000


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        (
            {"X-RateLimit-Remaining-Tokens": "149984", "X-RateLimit-Reset-Tokens": "6m0s"},
            [(True, 149984, 360)],
        ),
        (
            {"anthropic-ratelimit-requests-remaining": "4", "anthropic-ratelimit-requests-reset":
             "1970-01-01T00:00:00Z"},
            [(False, 4, 0)],
        ),
        ({"ratelimit-remaining": "3", "ratelimit-reset": "30"}, [(False, 3, 30)]),
        ({"x-ratelimit-remaining-requests": "3"}, []),
        ({"x-ratelimit-remaining-requests": "-1", "x-ratelimit-reset-requests": "1s"}, []),
        ({"x-ratelimit-remaining-requests": "9" * 400, "x-ratelimit-reset-requests": "1s"}, []),
        ({"x-ratelimit-remaining-requests": "nan", "x-ratelimit-reset-requests": "1s"}, []),
        ({"x-ratelimit-remaining-requests": "5", "x-ratelimit-reset-requests": "soon"}, []),
    ],
)  # fmt: skip
def test_rate_limit_headers_are_read_under_any_name(
    headers: dict[str, str], found: list[tuple[bool, float, float]]
) -> None:
    assert [tuple(each) for each in allowances(headers)] == found


def test_a_lane_tells_the_rate_to_which_refusals_restrict_it() -> None:
    lane, _, _ = simulated(lambda now: (None, {}), 10.0)
    assert lane.held_to(10.0) is None
    lane, _, _ = simulated(bucket(20, 5), 60.0)
    while lane.busy:
        lane.end(60.0 - LATENCY, 60.0, DONE)
    assert lane.held_to(60.0) == pytest.approx(20, rel=0.1)
    lane, _, _ = simulated(lambda now: (THROTTLED, {}), 60.0)
    while lane.busy:
        lane.end(60.0 - LATENCY, 60.0, THROTTLED)
    assert lane.held_to(60.0) == 0.0


def test_a_lane_waits_for_a_place_without_a_time() -> None:
    lane = Lane(1, 0.0)
    lane.begin(0.0)
    assert lane.wait(0.0) == inf


async def test_a_retry_precedes_new_calls() -> None:
    limiter, went = Limiter(LoopClock(), 1), list[str]()
    async with Client() as client:
        streams = [client.stream("echo/echo", "Hi") for _ in range(4)]
        targets = [stream.call.attempt.target for stream in streams]
        await limiter.admit(targets[0])

        async def go(name: str, take: Callable[[Target], Awaitable[None]], target: Target) -> None:
            await take(target)
            went.append(name)
            limiter.leave(target, Done(StopReason.STOP), None)

        ways = [("new", limiter.admit), ("newer", limiter.admit), ("retry", limiter.enter)]
        waiting = [
            asyncio.ensure_future(go(name, take, target))
            for (name, take), target in zip(ways, targets[1:], strict=True)
        ]
        await asyncio.sleep(0)
        limiter.give_up(targets[0])
        await asyncio.gather(*waiting)
        for stream in streams:
            await stream.aclose()
    assert went == ["retry", "new", "newer"]
