"""A full disk, a lost or a hung store: what goes on, what stops, and with which status.

The table is on the page on operating a gateway.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from full_disk_ledger import FullDisk
from serving import ask, serving, until
from test_keepalive import BEGUN, ENDED, HI, Thinking

from swink_gateway.policy import charging
from swink_gateway.policy.config import Config, Source
from swink_gateway.policy.limits import Ledger
from swink_gateway.policy.limits.ledger import IS_LOST, LOST
from swink_gateway.policy.limits.redis import RedisLedger
from swink_gateway.serving.metrics import Monitor
from swink_test_helpers.redis_server import RedisServer

FILE = """
[keys.rich]
key = "${A}"
[keys.poor]
key = "${B}"
streams = 1
[routes.best]
tiers = "echo/echo"
"""
RICH, POOR = ({"Authorization": f"Bearer {key}"} for key in "ab")
CHAT = "/v1/chat/completions"


def config() -> Config:
    return Source("t", FILE).config({"A": "a", "B": "b"})


async def status(gateway: Any, path: str, headers: dict[str, str]) -> int:
    body = HI if path == CHAT else None
    return (await ask(gateway, path, body, headers=headers)).status


# (path, headers, status while SQLite's disk is full)
FULL = [
    ("/health", {}, 200),
    ("/ready", {}, 200),
    ("/v1/models", RICH, 200),
    (CHAT, RICH, 503),
    (CHAT, POOR, 503),
    (CHAT, {"Authorization": "Bearer unnamed"}, 200),
]


@pytest.mark.parametrize(("path", "headers", "expected"), FULL)
async def test_with_a_full_disk_keys_without_a_name_are_served(
    path: str, headers: dict[str, str], expected: int, tmp_path: Path
) -> None:
    async with (
        aclosing(FullDisk(tmp_path / "ledger")) as ledger,
        serving(config=config(), ledger=ledger, keys=["unnamed"]) as gateway,
    ):
        ledger.is_full = True
        found = await status(gateway, path, headers)
        ledger.is_full = False
    assert found == expected


async def test_a_full_disk_is_shown_by_metrics_until_a_call_is_admitted_again(
    tmp_path: Path,
) -> None:
    monitor = Monitor()
    names = (IS_LOST, LOST, 'refused_requests_total{kind="overloaded",status="503"}')

    async def shown(gateway: Any) -> list[float]:
        headers = {"Authorization": "Bearer unnamed"}
        lines = (await ask(gateway, "/metrics", headers=headers)).body.decode().splitlines()
        rows = [line.rpartition(" ") for line in lines if not line.startswith("#")]
        return [float(v) for name in names for series, _, v in rows if series.endswith(name)]

    async with (
        aclosing(FullDisk(tmp_path / "ledger", counters=monitor.counters)) as ledger,
        serving(config=config(), ledger=ledger, monitor=monitor, keys=["unnamed"]) as gateway,
    ):
        assert await shown(gateway) == [0, 0, 0]
        ledger.is_full = True
        for _ in range(3):
            assert await status(gateway, CHAT, RICH) == 503
        assert await shown(gateway) == [1, 1, 3]
        ledger.is_full = False
        assert await status(gateway, CHAT, RICH) == 200
        assert await shown(gateway) == [0, 1, 3]


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_under_way_ends_well_and_is_charged_when_the_disk_has_room(
    stream: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("swink_gateway.policy.charging.AGAIN_SECONDS", 0.001)
    upstream: Any = Thinking()
    async with (
        aclosing(FullDisk(tmp_path / "ledger")) as ledger,
        serving(upstream, config=config(), ledger=ledger) as gateway,
    ):
        asking = asyncio.ensure_future(ask(gateway, CHAT, {**HI, "stream": stream}, headers=POOR))
        await upstream.asked.wait()
        ledger.is_full = True
        await upstream.say(*BEGUN)
        await upstream.say(*ENDED)
        answer = await asking
        assert answer.status == 200
        assert not stream or answer.frames[-1] == b"[DONE]"
        await until(lambda: "a charge of 'poor' cannot be stored yet" in caplog.text)
        ledger.is_full = False
        await asyncio.gather(*charging._SETTLING)
        [spent] = await ledger.spending(["poor"])
        assert spent.streams == 0
        assert await status(gateway, "/v1/spending", POOR) == 200


# -- Redis -----------------------------------------------------------------------------------------


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path, keeps=False)
    server.start()
    yield server
    server.kill()


async def test_a_hung_redis_costs_each_process_one_wait_and_no_answer(server: RedisServer) -> None:
    ledger: Ledger = RedisLedger(server.url)
    async with aclosing(ledger), serving(config=config(), ledger=ledger) as gateway:
        assert await status(gateway, CHAT, POOR) == 200
        os.kill(server.pid, signal.SIGSTOP)
        try:
            assert [await status(gateway, CHAT, RICH) for _ in range(3)] == [200] * 3
            assert await status(gateway, "/health", {}) == 200
        finally:
            os.kill(server.pid, signal.SIGCONT)


async def test_a_redis_whose_memory_is_full_is_treated_as_lost(server: RedisServer) -> None:
    ledger = RedisLedger(server.url)
    async with aclosing(ledger), serving(config=config(), ledger=ledger) as gateway:
        assert await status(gateway, CHAT, RICH) == 200
        await ledger._server.redis.config_set("maxmemory", "1")
        assert await status(gateway, CHAT, RICH) == 200
        assert ledger._server.is_lost
        await ledger._server.redis.config_set("maxmemory", "0")
