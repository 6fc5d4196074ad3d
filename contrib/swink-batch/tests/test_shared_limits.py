"""Limits shared by several processes, here clients of one real Redis."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from swink_batch import run
from swink_batch.limits import LocalTurns, Turns
from swink_batch.shared import RedisTurns
from swink_core import UsageError
from swink_core.providers import LoopClock
from swink_test_helpers.redis_server import RedisServer


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with RedisServer(tmp_path_factory.mktemp("redis"), keeps=False) as server:
        yield server.url


@pytest.fixture(params=["local", "redis"])
def two(request: pytest.FixtureRequest) -> tuple[Turns, Turns]:
    if request.param == "local":
        turns = LocalTurns(LoopClock())
        return turns, turns
    url = request.getfixturevalue("redis")
    return RedisTurns(url), RedisTurns(url)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("foo", "'foo'"),
        ("", "''"),
        ("127.0.0.1:6379", "'127.0.0.1:6379'"),
        ("http://host", "'http://host'"),
        ("redis://host:x", "'redis://host:x'"),
        ("redis://host:99999", "'redis://host:99999'"),
        ("redis://me:secret@host:x", "'…@host:x'"),
        ("redis://me:secret/not-escaped@host", "'…@host'"),
        ("redis://host?password=secret&protocol=7", "'redis://host'"),
        ("redis://host?nobody=1", "'redis://host'"),
    ],
)
def test_an_invalid_server_address_is_reported_without_secrets(url: str, told: str) -> None:
    pytest.importorskip("redis", reason="redis is not installed")
    with pytest.raises(UsageError) as raised:
        RedisTurns(url)
    assert f"limits cannot be shared at {told}" in raised.value.message
    assert "redis://HOST:6379" in raised.value.resolution
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("url", "told"),
    [("foo", "at 'foo': the address must begin with one of"), ("redis://host", "not installed")],
)
def test_an_address_is_looked_at_before_what_reaches_it(
    url: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(UsageError, match=told):
        RedisTurns(url)


async def test_turns_follow_each_other_whoever_takes_them(two: tuple[Turns, Turns]) -> None:
    waits = [await two[number % 2].take("key", 1.0, 0.001) for number in range(4)]
    assert waits[0] == 0.0
    # a thousand seconds apart, less what passed meanwhile
    assert [round(wait, -3) for wait in waits[1:]] == [1000.0, 2000.0, 3000.0]
    assert await two[0].take("another key", 1.0, 0.001) == 0.0
    for turns in {*two}:
        await turns.aclose()


async def test_processes_know_how_many_they_are(redis: str) -> None:
    first, second = RedisTurns(redis), RedisTurns(redis)
    assert await first.members() == 1
    assert await second.members() == 2
    await first.aclose()
    assert await second.members() == 1
    await second.aclose()


async def test_two_runs_keep_to_one_limit_together(redis: str, tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    await asyncio.gather(
        *(
            run(
                "echo/echo",
                ["Hi"] * 15,
                tmp_path / f"{number}.jsonl",
                rpm=3600.0,
                turns=RedisTurns(redis),
            )
            for number in (1, 2)
        )
    )
    assert loop.time() - began >= (30 - 1) / 60 - 0.2  # what may be caught up with
