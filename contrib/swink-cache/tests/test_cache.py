"""A cache: the same answer to the same request of the same caller, once paid for."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import swink_core as swink
from swink_cache import SwinkCache
from swink_cache.plugin import CachePlugin
from swink_cache.shelf import Shelf
from swink_cache.source import PAUSE_SECONDS
from swink_core.providers import LimitGate
from swink_recorder.cassette import Cassette
from swink_recorder.plugin import CassettePlugin
from swink_recorder.recording import Recording
from swink_testing.acme import AcmeProvider
from swink_testing.clock import ManualClock
from swink_testing.conformance import Subject
from swink_testing.driver import (
    MemoryHTTPClient,
    MemoryResponse,
    PausingResponse,
    comparable_events,
)
from swink_testing.observers import WrapperConformance

SSE = {"Content-Type": "text/event-stream"}
KEY = "sk-canary-0123456789"


class _Point:
    group, dist = "swink.providers", None

    def __init__(self, name: str, load: Callable[[], Any], value: str = "acme:Acme") -> None:
        self.name, self.load, self.value = name, load, value


def said(*texts: str, stop: str = "stop") -> MemoryResponse:
    reads = [f'data: {{"text": "{text}"}}\n\n'.encode() for text in texts]
    end = [f'data: {{"stop": "{stop}"}}\n\n'.encode()] if stop else []
    return MemoryResponse([*reads, *end], headers=SSE)


def busy() -> MemoryResponse:
    return MemoryResponse.of_json({"error": {"code": "busy", "message": "no"}}, 529)


class Service(MemoryHTTPClient):
    """Answers in order, each when the test allows it (`go`), and counts the requests."""

    def __init__(self, *answers: Any) -> None:
        super().__init__(*answers)
        self.go = asyncio.Semaphore(0)
        self.asked = 0

    async def send(self, request: Any, connect_timeout: float | None) -> Any:
        self.asked += 1
        await self.go.acquire()
        return await super().send(request, connect_timeout)


def client_of(http: Any, *plugins: Any, key: str = KEY, **options: Any) -> swink.Client:
    host = swink.Host(plugins, entry_points=[_Point("acme", lambda: AcmeProvider)], environ={})
    own = {"api_key": key, "base_url": "http://nowhere.invalid/v1"}
    policy = swink.RetryPolicy(base=0.0)
    return swink.Client(host=host, http=http, providers={"acme": own}, retry=policy, **options)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "answers.sqlite"


async def batches_of(
    path: Path, *answers: Any, prompt: Any = "Hi", cache: dict[str, Any] | None = None, **more: Any
) -> list[list[Any]]:
    """Return the events of a program's only call; a call without remaining answers fails."""
    given = {name: more.pop(name) for name in ("key",) if name in more}
    plugin = SwinkCache(path, **(cache or {}))
    client = client_of(MemoryHTTPClient(*answers), plugin, **given)
    async with client, client.stream("acme/large", prompt, **more) as stream:
        batches = [batch async for batch in stream.batches()]
    await plugin.aclose()
    return batches


def text_of(batches: list[list[Any]]) -> str:
    return "".join(e.delta for batch in batches for e in batch if isinstance(e, swink.TextDelta))


def is_hit(batches: list[list[Any]]) -> bool:
    return swink.Notice in [type(event) for event in batches[0]]


def query(path: Path, statement: str, *values: Any) -> list[Any]:
    with closing(sqlite3.connect(path)) as db, db:
        return db.execute(statement, values).fetchall()


# -- a hit -----------------------------------------------------------------------------------------


async def test_the_second_answer_is_the_first_one_read_for_read(path: Path) -> None:
    first = await batches_of(path, said("Hel", "lo"))
    again = await batches_of(path)

    start, notice, *rest = again[0]
    assert (type(start), notice.code) == (swink.Start, "cache_hit")
    assert [rest, *again[1:-1]] == [first[0][1:], *first[1:-1]]
    assert again[-1][:-1] == first[-1][:-1]


async def test_a_hit_is_zero_in_every_total_and_says_what_it_once_took(path: Path) -> None:
    await batches_of(path, said("Hello"))
    plugin = SwinkCache(path)
    async with client_of(MemoryHTTPClient(), plugin) as client:
        stream = client.stream("acme/large", "Hi")
        message = await stream.result()
        zero = swink.Usage(input=0, output=0, total=0, reported=True)
        for usage in (message.usage, message.total_usage, stream.call.usage, client.usage):
            assert usage == zero
        for cost in (message.cost, message.total_cost, stream.call.cost, client.cost):
            assert cost is not None
            assert cost.total == 0.0
        assert message.metadata is not None
        assert message.metadata["swink_cache"]["usage"]["output"] == 2
        assert "at" in message.metadata["swink_cache"]
    await plugin.aclose()


async def test_hits_count_toward_no_limit(path: Path) -> None:
    plugin = SwinkCache(path)
    gate = LimitGate(swink.Limits(requests=2))
    async with client_of(MemoryHTTPClient(said("Hello"), said("Bye")), plugin) as client:
        for prompt in ("Hi", "Hi", "Hi", "Hi", "And?"):
            await client.complete("acme/large", prompt, limits=gate)
        assert (gate.requests, gate.charge) == (2, client.charge)
        with pytest.raises(swink.LimitReached, match="2 requests were made"):
            await client.complete("acme/large", "Really?", limits=gate)
    await plugin.aclose()


SUBJECTS = [Subject.find(name) for name in swink.Host(environ={}).provider_names()]
CASES = [
    pytest.param(subject, recording, id=f"{subject.name}-{recording.name}")
    for subject in SUBJECTS
    if subject.speaks_http and subject.parses
    for recording in subject.recordings
    if recording.provider == subject.name and recording.message and recording.status == 200
    if recording.message.stop_reason is not swink.StopReason.ERROR
]


@pytest.mark.parametrize(("subject", "recording"), CASES)
async def test_what_any_provider_said_is_said_again(
    subject: Subject, recording: Recording, path: Path
) -> None:
    async def ask(http: Any) -> list[Any]:
        cache = SwinkCache(path)
        load = subject.entry.load
        points = [_Point(subject.name, load, subject.entry.value)]
        host = swink.Host([cache], entry_points=points, environ={})
        async with (
            swink.Client(host=host, http=http) as client,
            client.stream(
                subject.model_of(recording), "Hi", **subject.call_options(transport="sse")
            ) as stream,
        ):
            events = comparable_events([event async for event in stream])
        await cache.aclose()
        return events

    with subject.environment():
        first = await ask(MemoryHTTPClient(MemoryResponse.of_recording(recording)))
        again = await ask(MemoryHTTPClient())
    done, hit = first.pop(), again.pop()
    begun = max(n for n, event in enumerate(first) if isinstance(event, swink.Start))
    first = first[begun:]  # what was taken back is not kept
    assert isinstance(done, swink.Done)
    assert (hit.stop_reason, hit.response_id, hit.model) == (
        done.stop_reason, done.response_id, done.model,
    )  # fmt: skip
    assert [e for e in again if getattr(e, "code", "") != "cache_hit"] == first


async def test_a_second_turn_is_found_after_a_hit_too(path: Path) -> None:
    async def turns(*answers: Any) -> str:
        cache = SwinkCache(path)
        async with client_of(MemoryHTTPClient(*answers), cache) as client:
            history: list[Any] = [swink.UserMessage("Hi")]
            answer = await client.complete("acme/large", history)
            history += [answer, swink.UserMessage("And?")]
            text = (await client.complete("acme/large", history)).text
        await cache.aclose()
        return text

    assert await turns(said("one"), said("two")) == "two"
    assert await turns() == "two"


@pytest.mark.parametrize(
    ("answers", "asked_again"),
    [
        ([said("half", stop="")], True),
        ([busy(), said("whole")], False),  # the attempt that answered is kept
        ([said("cut off", stop="length")], False),
    ],
    ids=["failed", "retried", "cut off by its limit"],
)
async def test_only_complete_answers_are_kept(
    answers: list[Any], asked_again: bool, path: Path
) -> None:
    await batches_of(path, *answers)
    again = await batches_of(path, said("again"))
    assert (text_of(again) == "again") is asked_again
    assert is_hit(again) is not asked_again


async def test_an_answer_that_was_left_is_not_kept(path: Path) -> None:
    cache = SwinkCache(path)
    client = client_of(MemoryHTTPClient(said("one", "two")), cache)
    async with client, client.stream("acme/large", "Hi") as stream:
        async for event in stream:
            if isinstance(event, swink.TextDelta):
                break
    await cache.aclose()
    assert text_of(await batches_of(path, said("again"))) == "again"


async def test_a_completed_answer_whose_connection_stays_open_ends_all_the_same(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swink_cache.source.SETTLE_SECONDS", 0.01)

    class Parser:
        def feed(self, frame: bytes, out: Any) -> None:
            out.text("Hello")
            out.stop(swink.StopReason.STOP)

    monkeypatch.setattr(AcmeProvider, "parser", lambda self, model: Parser())

    answer = PausingResponse([b"data: {}\n\n"], headers=SSE)
    batches = await batches_of(path, answer)
    assert isinstance(batches[-1][-1], swink.Done)
    assert answer.closed
    assert text_of(await batches_of(path)) == "Hello"


# -- the same request ------------------------------------------------------------------------------

OTHERS: dict[str, dict[str, Any]] = {
    "prompt": {"prompt": "Ho"},
    "option": {"temperature": 0.5},
    "extra": {"extra": {"a": 1}},
    "system prompt": {"system_prompt": "Be brief."},
    "tool": {"tools": [swink.Tool("look")]},
    "address": {"base_url": "http://elsewhere.invalid/v1", "api_key": KEY},
    "key": {"key": "sk-of-somebody-else"},
    "key of the call": {"api_key": "sk-of-somebody-else"},
    "header": {"headers": {"Authorization": "Bearer sk-of-somebody-else"}},
    "cookie": {"headers": {"Cookie": "a=b"}},
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS.keys())
async def test_another_request_or_another_caller_is_asked_for(
    other: dict[str, Any], path: Path
) -> None:
    await batches_of(path, said("mine"))
    assert text_of(await batches_of(path, said("another"), **other)) == "another"
    assert text_of(await batches_of(path)) == "mine"


async def test_a_shared_cache_asks_nobody_who_they_are(path: Path) -> None:
    shared = {"shared": True}
    await batches_of(path, said("ours"), cache=shared)
    assert text_of(await batches_of(path, cache=shared, key="sk-of-somebody-else")) == "ours"
    assert text_of(await batches_of(path, said("mine"))) == "mine"


@pytest.mark.parametrize("auth", ["aws", "key"])
async def test_a_caller_whose_credentials_the_provider_finds_is_nobody_s_other(
    auth: str, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own = {"base_url": "http://nowhere.invalid/v1"}
    info = swink.ProviderInfo("acme", "acme", auth=auth, api_key_env=("ACME_KEY_OF_TESTS",))

    class Finds(AcmeProvider):
        """A provider that finds its credentials itself."""

        def __init__(self, name: str) -> None:
            super().__init__(name)
            self.info = info

        def credential(self, request: Any, options: Any) -> str:
            return "found"

    async def said_to(word: str, **more: Any) -> str:
        cache = SwinkCache(path, shared=more.pop("shared", False))
        host = swink.Host([cache], entry_points=[_Point("acme", lambda: Finds)], environ={})
        http = MemoryHTTPClient(said(word))
        async with swink.Client(host=host, http=http, providers={"acme": own}) as client:
            message = await client.complete("acme/large", "Hi", **more)
        await cache.aclose()
        return message.text

    assert [await said_to(word) for word in ("one", "two")] == ["one", "two"]
    assert caplog.text.count("calls of acme are not cached") == 2  # once for each cache
    for known in ({"api_key": KEY}, {"headers": {"Authorization": f"Bearer {KEY}2"}}):
        assert [await said_to(word, **known) for word in ("a", "b")] == ["a", "a"]
    assert [await said_to(word, shared=True) for word in ("c", "d")] == ["c", "c"]


def test_no_key_is_in_the_file(path: Path) -> None:
    asyncio.run(batches_of(path, said("Hello")))
    assert KEY.encode() not in path.read_bytes()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_a_call_that_goes_on_with_what_the_provider_keeps_is_always_made(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(swink.Target, "continues", True)
    assert text_of(await batches_of(path, said("one"))) == "one"
    assert text_of(await batches_of(path, said("two"))) == "two"


async def test_a_cassette_comes_first(path: Path, tmp_path: Path) -> None:
    case = tmp_path / "case.json"
    for text in ("first", "second"):
        with Cassette(case, "all"):
            cache = SwinkCache(path)
            http = MemoryHTTPClient(said(text))
            async with client_of(http, CassettePlugin(), cache) as client:
                assert (await client.complete("acme/large", "Hi")).text == text
            await cache.aclose()


async def test_a_client_that_sends_nothing_is_not_answered_from_the_cache(path: Path) -> None:
    cache = SwinkCache(path)
    for text, sends_nothing in (("one", True), ("two", False), ("three", True)):
        http: Any = MemoryHTTPClient(said(text))
        http.sends_nothing = sends_nothing
        async with client_of(http, cache) as client:
            assert (await client.complete("acme/large", "Hi")).text == text
    await cache.aclose()


# -- single flight ---------------------------------------------------------------------------------


async def until(done: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not done():  # noqa: ASYNC110  # of somebody else's, without an event
            await asyncio.sleep(0)


async def _texts(client: swink.Client, calls: int) -> list[asyncio.Task[swink.AssistantMessage]]:
    tasks = [asyncio.ensure_future(client.complete("acme/large", "Hi")) for _ in range(calls)]
    await asyncio.sleep(0)
    return tasks


@pytest.mark.parametrize("clients", [1, 5])
async def test_equal_calls_at_one_time_are_asked_once(clients: int, path: Path) -> None:
    http = Service(said("Hello"))
    caches = [SwinkCache(path) for _ in range(clients)]
    everyone = [client_of(http, cache) for cache in caches]
    tasks = [t for client in everyone for t in await _texts(client, 10)]
    await until(lambda: http.asked)
    http.go.release()
    messages = await asyncio.gather(*tasks)
    assert [message.text for message in messages] == ["Hello"] * len(tasks)
    assert http.asked == 1
    assert (
        sum(client.usage.output or 0 for client in everyone if client.usage) == 2
    )  # of the leader
    for client, cache in zip(everyone, caches, strict=True):
        await client.aclose()
        await cache.aclose()


@pytest.mark.parametrize("calls", [2, 6])
async def test_a_leader_that_fails_hands_over_and_fails_nobody_else(calls: int, path: Path) -> None:
    refused = MemoryResponse.of_json({"error": {"message": "no"}}, 400)
    http, cache = Service(refused, said("Hello")), SwinkCache(path)
    async with client_of(http, cache) as client:
        tasks = await _texts(client, calls)
        http.go.release()
        http.go.release()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    await cache.aclose()
    texts = [result.text for result in results if isinstance(result, swink.AssistantMessage)]
    assert texts == ["Hello"] * (calls - 1)
    assert http.asked == 2


@pytest.mark.parametrize("how", ["cancel", "close", "break"])
async def test_a_leader_that_is_left_hands_over(how: str, path: Path) -> None:
    http, cache = Service(said("one", "two"), said("one", "two")), SwinkCache(path)
    async with client_of(http, cache) as client:
        leader = client.stream("acme/large", "Hi")
        first = asyncio.Event()

        async def lead() -> None:
            async with leader:
                async for event in leader:
                    if isinstance(event, swink.TextDelta):
                        first.set()
                        if how == "break":
                            break
                        await asyncio.sleep(60 if how == "cancel" else 0)
                        if how == "close":
                            await leader.aclose()

        leading = asyncio.ensure_future(lead())
        await until(lambda: http.asked)
        followers = await _texts(client, 4)
        http.go.release()
        await first.wait()
        if how == "cancel":
            leading.cancel()
        http.go.release()
        assert [m.text for m in await asyncio.gather(*followers)] == ["onetwo"] * 4
        await asyncio.gather(leading, return_exceptions=True)
    await cache.aclose()
    assert http.asked == 2


async def test_a_follower_that_is_cancelled_disturbs_nobody(path: Path) -> None:
    http, cache = Service(said("Hello")), SwinkCache(path)
    async with client_of(http, cache) as client:
        tasks = await _texts(client, 5)
        await until(lambda: http.asked)
        tasks[2].cancel()
        tasks[4].cancel()
        await asyncio.sleep(0)
        http.go.release()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    await cache.aclose()
    assert [getattr(result, "text", None) for result in results] == [
        "Hello", "Hello", None, "Hello", None,
    ]  # fmt: skip
    assert http.asked == 1


@pytest.mark.parametrize("seed", range(6))
async def test_only_who_was_refused_or_cancelled_has_no_answer(seed: int, path: Path) -> None:
    chance = random.Random(seed)
    refusals = chance.randrange(5)
    answers = [MemoryResponse.of_json({"error": {"message": "no"}}, 400) for _ in range(refusals)]
    http = Service(*answers, *[said("Hel", "lo") for _ in range(40)])
    cache = SwinkCache(path)
    async with client_of(http, cache) as client:
        tasks = await _texts(client, 20)
        cancelled = set()
        for _ in range(60):
            if chance.random() < 0.15:
                task = chance.choice(tasks)
                if not task.done():
                    cancelled.add(task)
                    task.cancel()
            if chance.random() < 0.3:
                http.go.release()
            await asyncio.sleep(chance.choice([0, 0, 0.001]))
        for _ in range(60):
            http.go.release()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    await cache.aclose()
    refused = [result for result in results if isinstance(result, swink.InvalidRequest)]
    assert len(refused) <= refusals
    for task, result in zip(tasks, results, strict=True):
        if task not in cancelled and result not in refused:
            assert isinstance(result, swink.AssistantMessage), result
            assert result.text == "Hello"
    assert http.asked <= 1 + refusals + len(cancelled)


async def test_a_slow_reader_of_the_leader_keeps_nobody_waiting(path: Path) -> None:
    cache = SwinkCache(path)
    client = client_of(MemoryHTTPClient(said("Hello")), cache)
    async with client, client.stream("acme/large", "Hi") as stream:
        async for batch in stream.batches():
            if isinstance(batch[-1], swink.Done):  # and asks for no more
                assert (await client.complete("acme/large", "Hi")).text == "Hello"
    await cache.aclose()


async def test_a_paused_reader_of_the_leader_keeps_others_waiting_for_seconds_only(
    path: Path,
) -> None:
    clock, cache = ManualClock(), SwinkCache(path)
    http = MemoryHTTPClient(said("one", "two"), said("one", "two"))
    client = client_of(http, cache, clock=clock)
    async with client, client.stream("acme/large", "Hi") as stream:
        events = aiter(stream)
        while not isinstance(await anext(events), swink.TextDelta):
            pass
        others = await _texts(client, 3)
        await clock.advance(PAUSE_SECONDS - 0.1)
        assert len(http.requests) == 1
        await clock.advance(0.1)
        assert [message.text for message in await asyncio.gather(*others)] == ["onetwo"] * 3
        assert len(http.requests) == 2
        rest = [event async for event in events]
        assert isinstance(rest[-1], swink.Done)
        assert (await client.complete("acme/large", "Hi")).text == "onetwo"
    await cache.aclose()
    assert len(http.requests) == 2


async def test_a_slow_answer_of_the_leader_is_waited_for(path: Path) -> None:
    http, clock, cache = Service(said("Hello")), ManualClock(), SwinkCache(path)
    async with client_of(http, cache, clock=clock) as client:
        tasks = await _texts(client, 3)
        await until(lambda: http.asked)
        await clock.advance(5 * PAUSE_SECONDS)
        http.go.release()
        assert [message.text for message in await asyncio.gather(*tasks)] == ["Hello"] * 3
    await cache.aclose()
    assert http.asked == 1


def test_two_event_loops_do_not_meet(path: Path) -> None:
    for _ in range(2):
        cache = SwinkCache(path)
        assert text_of(asyncio.run(batches_of(path, said("Hello")))) == "Hello"
        asyncio.run(cache.aclose())


def test_programs_of_one_call_each_find_what_the_others_kept(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWINK_CACHE", str(path))
    first, again = (swink.complete_sync("echo/echo", "Hi") for _ in range(2))
    assert first.metadata is None
    assert "swink_cache" in (again.metadata or {})


# -- how long and how much -------------------------------------------------------------------------


def test_an_answer_is_given_again_until_it_is_too_old(path: Path) -> None:
    now = [1000.0]
    shelf = Shelf(path, 60.0, 10_000, lambda: now[0])
    shelf.put("a", b"1")
    for moment, held in ((1060.0, b"1"), (1061.0, None)):
        now[0] = moment
        assert shelf.get("a") == held
    shelf.put("b", b"2")  # with which the old one goes
    shelf.close()
    assert query(path, "SELECT key FROM answers") == [("b",)]


def test_the_least_used_answers_go_first(path: Path) -> None:
    now = [1000.0]
    shelf = Shelf(path, None, 30, lambda: now[0])

    def held() -> set[str]:
        return {key for (key,) in query(path, "SELECT key FROM answers")}

    for key in "abc":
        now[0] += 1
        shelf.put(key, b"x" * 10)
    now[0] += 1
    assert shelf.get("a") is not None
    now[0] += 1
    shelf.put("d", b"x" * 10)
    assert held() == {"a", "c", "d"}
    shelf.put("e", b"x" * 31)  # too large at all
    assert held() == {"a", "c", "d"}
    shelf.put("f", b"x" * 25)
    assert held() == {"f"}
    shelf.close()


def test_an_answer_that_fits_is_kept_without_a_look_at_every_other(path: Path) -> None:
    shelf = Shelf(path, None, 1000)
    shelf.put("a", b"1")
    rows: list[Any] = []

    def note(_: Any, row: Any) -> Any:
        rows.append(row)
        return row

    assert shelf._db is not None
    shelf._db.row_factory = note
    for key in "bcdefgh":
        shelf.put(key, b"1")
    shelf.close()
    assert rows == [(size,) for size in range(2, 9)]  # a sum each time


def test_a_cache_in_a_home_that_nobody_has_is_refused() -> None:
    with pytest.raises(swink.UsageError, match="~nobody-here/x: there is no such home folder"):
        SwinkCache("~nobody-here/x")


@pytest.mark.parametrize(
    "given", [{"ttl": 0}, {"ttl": -1.0}, {"ttl": float("nan")}, {"max_bytes": 0}]
)
def test_a_cache_that_keeps_nothing_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(swink.UsageError, match="keeps nothing"):
        SwinkCache("a", **given)


# -- whatever is wrong with the file ---------------------------------------------------------------


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.name.startswith("swink_cache")]


async def test_a_damaged_file_is_set_aside_and_begun_anew(path: Path) -> None:
    await batches_of(path, said("Hello"))
    _write(path, b"no database " * 1000)
    assert text_of(await batches_of(path, said("again"))) == "again"
    assert text_of(await batches_of(path)) == "again"
    assert _read(path.with_name("answers.sqlite.damaged")) == b"no database " * 1000


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def _read(path: Path) -> bytes:
    return path.read_bytes()


async def test_damage_in_the_middle_costs_no_call(path: Path) -> None:
    for number in range(40):
        await batches_of(path, said("x" * 400), prompt=f"{number}")
    data = bytearray(_read(path))
    for at in range(4096, len(data), 512):
        data[at : at + 256] = os.urandom(256)
    _write(path, bytes(data))
    for number in range(0, 40, 5):
        batches = await batches_of(path, said("x" * 400), prompt=f"{number}")
        assert text_of(batches) == "x" * 400


async def test_an_answer_in_a_form_of_another_version_is_asked_for_anew(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await batches_of(path, said("Hello"))
    for data in (b"{}", b'{"at": "", "batches": [[{"type": "future"}]]}', b"\xff"):
        query(path, "UPDATE answers SET data = ?", data)
        assert text_of(await batches_of(path, said("again"))) == "again"
    assert len(told(caplog)) == 3


async def test_a_file_that_another_process_holds_costs_no_call_and_is_told_of_once(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await batches_of(path, said("Hello"))
    other = sqlite3.connect(path)
    other.execute("PRAGMA locking_mode = EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    cache = SwinkCache(path)
    async with client_of(MemoryHTTPClient(said("one"), said("two")), cache) as client:
        for text in ("one", "two"):
            assert (await client.complete("acme/large", text)).text == text
    await cache.aclose()
    other.close()
    [line] = told(caplog)
    assert "database is locked" in line


async def test_who_cannot_write_can_read(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    await batches_of(path, said("Hello"))
    other = sqlite3.connect(path)
    other.execute("BEGIN IMMEDIATE")  # a writer at work
    assert text_of(await batches_of(path)) == "Hello"
    other.close()
    assert told(caplog) == []


async def test_a_full_disk_costs_no_call_and_is_told_of_once(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await batches_of(path, said("kept"))
    plain = Shelf._open

    def full(shelf: Shelf) -> sqlite3.Connection:
        db = plain(shelf)
        db.execute("PRAGMA max_page_count = 1")  # SQLite's own way to be full
        return db

    monkeypatch.setattr(Shelf, "_open", full)
    cache = SwinkCache(path)
    long = "x" * 20_000
    async with client_of(MemoryHTTPClient(said(long), said(long)), cache) as client:
        for prompt in ("one", "two"):
            assert (await client.complete("acme/large", prompt)).text == long
        assert (await client.complete("acme/large", "Hi")).text == "kept"
    await cache.aclose()
    [line] = told(caplog)
    assert "full" in line


async def test_a_place_where_nothing_can_be_written_costs_no_call(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _write(tmp_path / "file", b"")
    assert text_of(await batches_of(tmp_path / "file" / "a.sqlite", said("Hello"))) == "Hello"
    assert len(told(caplog)) == 1


PROGRAM = """
import asyncio, sys
import swink_core as swink
from swink_cache import SwinkCache

async def main(path, words, number):
    cache = SwinkCache(path)
    async with swink.Client(plugins=[cache]) as client:
        for n in range(int(number)):
            answer = await client.complete("echo/echo", f"{words} {n} " + "word " * 300)
            assert answer.text.startswith(f"{words} {n} "), answer.text
            print(n, flush=True)
    await cache.aclose()

asyncio.run(main(*sys.argv[1:]))
"""


def _run(path: Path, words: str, number: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROGRAM, str(path), words, str(number)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_processes_that_write_at_one_time_keep_whole_answers(path: Path) -> None:
    programs = [_run(path, words, 25) for words in ("a", "b", "a")]
    for program in programs:
        _, complaint = program.communicate()
        assert (program.returncode, complaint) == (0, "")
    assert query(path, "PRAGMA integrity_check") == [("ok",)]
    assert query(path, "SELECT count(*) FROM answers") == [(50,)]


def test_a_killed_process_leaves_a_file_that_works(path: Path) -> None:
    with _run(path, "a", 10_000) as program:
        assert program.stdout is not None
        for _ in range(20):
            assert program.stdout.readline()
        program.send_signal(signal.SIGKILL)
    with _run(path, "a", 20) as again:
        _, complaint = again.communicate()
    assert (again.returncode, complaint) == (0, "")
    assert query(path, "PRAGMA integrity_check") == [("ok",)]


# -- on and off ------------------------------------------------------------------------------------


@pytest.mark.parametrize("environ", [{}, {"SWINK_CACHE": " "}, {"SWINK_CACHE": "off"}])
def test_it_is_off_unless_the_environment_says_where(environ: dict[str, str]) -> None:
    plugin = CachePlugin(environ)
    assert [name for name in dir(plugin) if not name.startswith("_")] == []


def test_the_environment_says_how_long_and_how_much() -> None:
    made = CachePlugin(
        {"SWINK_CACHE": "a.db", "SWINK_CACHE_TTL": "2h", "SWINK_CACHE_MB": "1.5",
         "SWINK_CACHE_SHARED": "1"}
    )  # fmt: skip
    assert isinstance(made, SwinkCache)
    assert (made._ttl, made._max_bytes, made._shared) == (7200.0, 1_500_000, True)
    assert not CachePlugin({"SWINK_CACHE": "a.db", "SWINK_CACHE_SHARED": "off"})._shared


@pytest.mark.parametrize(
    "wrong",
    [
        {"SWINK_CACHE_TTL": "soon"},
        {"SWINK_CACHE_TTL": "5"},
        {"SWINK_CACHE_MB": "much"},
        {"SWINK_CACHE_MB": "inf"},
    ],
)
def test_a_wrong_setting_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(swink.UsageError, match="SWINK_CACHE_"):
        CachePlugin({"SWINK_CACHE": "a.db", **wrong})


class TestConformance(WrapperConformance):
    @pytest.fixture(autouse=True)
    def _away(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.CRITICAL)
        TestConformance.wrapper = staticmethod(lambda: SwinkCache(tmp_path / "answers.sqlite"))

    wrapper = staticmethod(lambda: SwinkCache(os.devnull))


async def test_a_hit_takes_no_time_that_its_answer_took(path: Path) -> None:
    clock = ManualClock()
    await batches_of(path, said("a", "b", "c"))
    cache = SwinkCache(path)
    times: list[float] = []
    client = client_of(MemoryHTTPClient(), cache, clock=clock)
    async with client, client.stream("acme/large", "Hi") as stream:
        async for _ in stream:
            times.append(clock.time())
    await cache.aclose()
    assert {later - earlier for earlier, later in pairwise(times)} == {0.0}


@pytest.mark.parametrize("shared", [False, True])
async def test_a_tenant_is_given_no_answer_of_another(path: Path, shared: bool) -> None:
    texts = []
    for tenant, answers in (("alice", [said("one")]), ("bob", [said("two")]), ("alice", [])):
        plugin = SwinkCache(path, shared=shared)
        async with client_of(MemoryHTTPClient(*answers), plugin) as client:
            stream = client.stream("acme/large", "Hi")
            stream.call.tenant = tenant
            texts.append((await stream.result()).text)
        await plugin.aclose()
    assert texts == ["one", "two", "one"]
