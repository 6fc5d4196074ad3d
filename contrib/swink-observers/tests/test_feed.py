"""The feed: records of calls, readers that resume, fall behind and leave, over HTTP too."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web

import swink_core as swink
from swink_observers.environment import from_environment
from swink_observers.feed import Feed, Record
from swink_observers.serving import application
from swink_testing.acme import acme_answer, acme_host
from swink_testing.calls import call_of
from swink_testing.clock import ManualClock
from swink_testing.driver import MemoryHTTPClient, MemoryResponse
from swink_testing.observers import ObserverConformance, set_times

ANSWER = ({"text": "Hel"}, {"text": "lo"}, {"stop": "stop"})
AT_ONCE = swink.RetryPolicy(base=0.0)


async def call_into(feed: Feed, *answers: MemoryResponse) -> None:
    own = {"acme": {"api_key": "k", "base_url": "http://acme.invalid"}}
    http = MemoryHTTPClient(*(answers or [acme_answer(*ANSWER)]))
    client = swink.Client(host=acme_host([feed]), http=http, providers=own, retry=AT_ONCE)
    async with client, client.stream("acme/large", "Who is there?") as stream:
        async for _ in stream:
            pass


async def followed(feed: Feed, **how: Any) -> list[Record]:
    """The records that a reader finds without waiting for more."""
    found = []
    async with aclosing(feed.follow(idle=0.0, **how)) as records:
        async for record in records:
            if record is None:
                break
            found.append(record)
    return found


def told(records: list[Record]) -> list[tuple[str, dict[str, Any]]]:
    return [(record.name, json.loads(record.data)) for record in records]


def names(records: list[Record]) -> list[str]:
    return [record.name for record in records]


async def test_a_call_is_told_from_its_beginning_to_its_end() -> None:
    feed = Feed()
    await call_into(feed, acme_answer({"error": "busy"}), acme_answer(*ANSWER))
    records = told(await followed(feed, last=10))
    assert [name for name, _ in records] == ["begin", "retry", "end", "now"]
    assert len({data["call"] for _, data in records[:3]}) == 1
    _, retry = records[1]
    assert (retry["kind"], retry["next"]) == ("overloaded", "acme/large")
    _, end = records[2]
    expected = {"model": "acme/large", "stop": "stop", "input": 1, "output": 2, "retries": 1}
    assert expected.items() <= end.items()


@pytest.mark.parametrize("content", [True, False])
async def test_answers_are_in_it_only_where_that_was_asked_for(content: bool) -> None:
    feed = Feed(content=content)
    await call_into(feed)
    records = told(await followed(feed, last=10))
    texts = [data["text"] for name, data in records if name == "content"]
    assert "".join(texts) == ("Hello" if content else "")
    assert "Who is there?" not in str(records)


async def test_content_does_not_wait_for_the_next_chunk() -> None:
    feed, call = Feed(content=True), call_of(object(), swink.Model("acme", "large"))
    for event in (swink.Start(), swink.TextStart(0), swink.TextDelta(0, "x" * 9_000)):
        set_times(call, event, 1.0)
        feed.on_event(event=event, call=call)
    await asyncio.sleep(0)
    sizes = [
        len(data["text"]) for name, data in told(await followed(feed, last=9)) if "text" in data
    ]
    assert sizes == [8_000, 1_000]


async def test_content_is_that_of_its_block_where_several_are_open() -> None:
    feed, call = Feed(content=True), call_of(object(), swink.Model("acme", "large"))
    one, other = '{"city":"Oslo"}', '{"city":"Rome"}'
    for event in (
        *(swink.Start(), swink.TextStart(0), swink.TextDelta(0, "Hi")),
        *(swink.ToolCallStart(1, "a", "look"), swink.ToolCallDelta(1, one[:9])),
        *(swink.TextDelta(0, " you"), swink.TextEnd(0), swink.ToolCallStart(2, "b", "look")),
        *(swink.ToolCallDelta(1, one[9:]), swink.ToolCallDelta(2, other)),
        *(swink.ToolCallEnd(1), swink.ToolCallEnd(2), swink.Start(), swink.ThinkingStart(0)),
        *(swink.ThinkingDelta(0, "hm"), swink.ThinkingEnd(0)),
    ):
        feed.on_event(event=event, call=call)
    records = told(await followed(feed, last=20))
    assert [
        (data["block"], data["kind"], data["text"]) for name, data in records if name == "content"
    ] == [
        (0, "text", "Hi"),
        (1, "tool_call", one[:9]),
        (0, "text", " you"),
        (1, "tool_call", one[9:]),
        (2, "tool_call", other),
        (0, "thinking", "hm"),
    ]


# (attempts, what the call took, what the record says of it)
CACHED: list[tuple[int, swink.Usage, swink.Cost, dict[str, Any]]] = [
    (1, swink.Usage(0, 0), swink.Cost(total=0.0), {"output": None}),
    (2, swink.Usage(10, 3), swink.Cost(total=0.25), {"input": 10, "output": 3, "cost": 0.25}),
    (
        2,
        swink.Usage(10, 3),
        swink.Cost(total=0.25, estimated=True),
        {"input": 10, "output": 3, "cost": 0.25, "estimated": True},
    ),
]


@pytest.mark.parametrize(("attempts", "usage", "cost", "expected"), CACHED)
async def test_an_answer_from_a_cache_took_what_the_attempts_before_it_took(
    attempts: int, usage: swink.Usage, cost: swink.Cost, expected: dict[str, Any]
) -> None:
    feed, call = Feed(), call_of(object(), swink.Model("acme", "large"))
    call.attempts = attempts
    call.add(usage, cost)
    done = swink.Done(swink.StopReason.STOP, swink.Usage(0, 0), swink.Cost(total=0.0))
    for event in (swink.Start(), swink.Notice("cache_hit"), done):
        feed.on_event(event=event, call=call)
    [end] = [data for name, data in told(await followed(feed, last=9)) if name == "end"]
    taken = ("input", "output", "cost", "estimated")
    assert {name: end[name] for name in taken if name in end} == expected
    assert (end["cached"], end["rate"]) == (True, None)


def shown(feed: Feed, clock: ManualClock, *events: Any) -> None:
    """Show events to a feed; numbers among them are seconds that pass."""
    call = call_of(object(), swink.Model("acme", "large"), clock=clock)
    for event in events:
        if isinstance(event, int | float):
            clock._now += event
        else:
            set_times(call, event, clock.time())
            feed.on_event(event=event, call=call)


async def test_progress_is_told_now_and_then_with_about_how_many_tokens() -> None:
    feed, clock = Feed(), ManualClock()
    delta = swink.TextDelta(0, "four" * 5)
    shown(feed, clock, swink.Start(), 2, swink.TextStart(0), delta, *[0.1, delta] * 20)
    progress = [data for name, data in told(await followed(feed, last=20)) if name == "progress"]
    assert [data["age"] for data in progress] == pytest.approx(
        [2.0, 2.5, 3.0, 3.5, 4.0, 4.0], abs=0.11
    )
    assert progress[-1]["first"] == 2.0
    assert progress[-1]["output"] == 21 * 5
    assert progress[-1]["rate"] == pytest.approx(21 * 5 / 2)


async def test_the_first_token_of_a_second_model_is_timed_from_its_own_attempt() -> None:
    feed, delta = Feed(), swink.TextDelta(0, "x" * 80)
    retry = swink.Retry(1, 1, 0.0, "busy", "acme/large")
    end = (delta, 1, swink.Done(swink.StopReason.STOP))
    shown(feed, ManualClock(), swink.Start(), 5, delta, retry, 9, swink.Start(), 2, *end)
    [ended] = [data for name, data in told(await followed(feed, last=20)) if name == "end"]
    assert (ended["age"], ended["first"]) == (17.0, 2.0)


async def test_a_late_reader_learns_what_is_under_way() -> None:
    feed = Feed()
    shown(feed, ManualClock(), swink.Start())
    records = await followed(feed)
    assert names(records) == ["progress", "now"]
    assert [record.id for record in records] == [None, None]


async def test_a_reader_resumes_where_it_was() -> None:
    feed = Feed()
    await call_into(feed)
    first = (await followed(feed, last=10))[0]
    await call_into(feed)
    assert names(await followed(feed, after=first.id)) == ["end", "begin", "end"]


async def test_a_reader_that_is_too_slow_is_told_how_much_it_missed() -> None:
    feed = Feed(kept=3)
    feed.publish("begin", {})
    [first, _] = await followed(feed, last=1)
    for _ in range(10):
        feed.publish("notice", {})
    gap, *rest = told(await followed(feed, after=first.id))
    assert gap == ("gap", {"lost": 7})
    assert len(rest) == 3


@pytest.mark.parametrize("after", ["another-feed.3", "x", "", "1", "9" * 5_000])
async def test_a_place_in_another_feed_is_a_gap_of_unknown_size(after: str) -> None:
    feed = Feed()
    feed.publish("notice", {})
    assert told(await followed(feed, after=after)) == [("gap", {"lost": None}), ("notice", {})]


async def test_a_reader_that_leaves_is_forgotten() -> None:
    feed = Feed()
    async with aclosing(feed.follow()) as records:
        await anext(records)
        forgotten = asyncio.create_task(feed.drained())
        await asyncio.sleep(0)
        assert not forgotten.done()
    await asyncio.wait_for(forgotten, timeout=5)


# -- over HTTP -----------------------------------------------------------------------------------


@asynccontextmanager
async def served(feed: Feed, **how: Any) -> AsyncIterator[str]:
    outer = web.Application()
    outer.add_subapp("/calls", application(feed, **how))
    runner = web.AppRunner(outer, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/calls/events"
    finally:
        await runner.cleanup()


async def lines_of(url: str, *, until: bytes, **headers: str) -> list[bytes]:
    found = []
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as response:
        assert response.headers["Content-Type"] == "text/event-stream"
        async for line in response.content:
            found.append(line.rstrip())
            if line.rstrip() == until:
                break
    return found


async def test_records_are_events_with_ids_that_resume() -> None:
    feed = Feed()
    await call_into(feed)
    async with served(feed) as url:
        lines = await lines_of(f"{url}?last=10", until=b"event: now")
        assert lines[0] == b"retry: 1000"
        ids = [line[4:].decode() for line in lines if line.startswith(b"id: ")]
        assert len(ids) == 2
        again = await lines_of(url, until=b"event: end", **{"Last-Event-ID": ids[0]})
    assert [line for line in again if line.startswith(b"event")] == [b"event: end"]
    assert f"id: {ids[1]}".encode() in again


async def test_silence_is_filled_with_comments() -> None:
    async with served(Feed(), heartbeat=0.01) as url:
        assert (await lines_of(url, until=b":"))[-1] == b":"


@pytest.mark.parametrize("last", ["x", "-1", "1001", "9" * 5_000])
async def test_a_query_that_means_nothing_is_refused(last: str) -> None:
    async with (
        served(Feed()) as url,
        aiohttp.ClientSession() as session,
        session.get(url, params={"last": last}) as response,
    ):
        assert response.status == 400


async def test_a_reader_that_hangs_up_is_forgotten() -> None:
    feed = Feed()
    async with served(feed, heartbeat=0.01) as url:
        await lines_of(url, until=b"event: now")
        await asyncio.wait_for(feed.drained(), timeout=5)


# -- configured by the environment ---------------------------------------------------------------


async def test_who_has_the_head_of_the_answer_misses_nothing_from_then_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    feed, prepare = Feed(), web.StreamResponse.prepare

    async def prepared(response: web.StreamResponse, request: web.BaseRequest) -> Any:
        head = await prepare(response, request)
        feed.publish("begin", {"call": "c1"})  # by who has read it, before the feed is followed
        return head

    monkeypatch.setattr(web.StreamResponse, "prepare", prepared)
    async with (
        served(feed) as url,
        aiohttp.ClientSession() as session,
        session.get(url) as response,
    ):
        feed.end()
        body = await response.text()
    assert [line for line in body.splitlines() if line.startswith("event")] == [
        "event: begin", "event: now",
    ]  # fmt: skip


async def test_clients_of_a_process_share_a_server_that_ends_with_the_last() -> None:
    one, other = (from_environment({"SWINK_FEED": "0"}) for _ in range(2))
    assert one is not None
    assert other is not None
    url = f"http://127.0.0.1:{one.port}/events"
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        async with swink.Client(plugins=[one]) as client:
            await client.complete("echo/echo", "Hi")
        await one.aclose()
        async with swink.Client(plugins=[other]) as client:
            await client.complete("echo/echo", "Hi")
        await other.aclose()
        assert (await response.read()).count(b"event: end") == 2


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("evil.example", 403),
        ("localhost", 200),
        ("127.0.0.1", 200),
        ("[::1]", 200),
        ("", 403),
        ("[::", 403),
    ],
)
async def test_a_web_page_whose_name_means_this_machine_reads_nothing(
    name: str, status: int
) -> None:
    observer = from_environment({"SWINK_FEED": "0"})
    assert observer is not None
    url, headers = f"http://127.0.0.1:{observer.port}/events", {"Host": f"{name}:{observer.port}"}
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as response:
        got = response.status
    await observer.aclose()
    assert got == status


async def test_a_port_that_is_taken_is_told_and_calls_go_on(caplog: Any) -> None:
    async with served(Feed()) as url:
        observer = from_environment({"SWINK_FEED": url.split(":")[2].split("/")[0]})
        assert observer is not None
        async with swink.Client(plugins=[observer]) as client:
            assert (await client.complete("echo/echo", "Hi")).text == "Hi"
        await observer.aclose()
    assert "is not served" in caplog.text


@pytest.mark.parametrize("setting", ["yes", ":", "99999", "127.0.0.1:x"])
def test_a_setting_that_means_nothing_is_refused(setting: str) -> None:
    with pytest.raises(swink.UsageError, match="SWINK_FEED"):
        from_environment({"SWINK_FEED": setting})


def test_without_the_setting_there_is_none() -> None:
    assert from_environment({}) is None


# -- what every observer promises ----------------------------------------------------------------


class TestFeed(ObserverConformance):
    observer = staticmethod(lambda: Feed(kept=50))
    installed = from_environment

    @staticmethod
    def written(observer: Any) -> str:
        return str([record.data for record in observer._ring])


class TestServedFeed(ObserverConformance):
    observer = staticmethod(lambda: from_environment({"SWINK_FEED": "0"}))
