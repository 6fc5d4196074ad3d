"""Operators' routes: metrics, the feed of calls, and `swink top`, which shows both."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families
from serving import ONCE, Answer, Scripted, ask, serving, until

import swink_core as swink
from swink_core import Cost, Done, Start, StopReason, TextDelta, TextEnd, TextStart, Usage
from swink_gateway.policy.config import Config, Source
from swink_gateway.policy.cooldowns import Cooldowns
from swink_gateway.policy.limits import Entry, MemoryLedger, Query
from swink_gateway.serving.access_log import ACCESS_LOGGER, AccessLog
from swink_gateway.serving.feed import SharedFeed
from swink_gateway.serving.limits import Limits
from swink_gateway.serving.metrics import Monitor
from swink_gateway.serving.server import Gateway
from swink_observers.following import Place, following, spending
from swink_testing.clock import ManualClock

ENVIRON = {"A": "key-a", "O": "key-o"}

KEYS = """
[keys.alice]
key = "${A}"
dollars_per_day = 2
[keys.olga]
key = "${O}"
operator = true
"""

ALICE, OLGA = ({"Authorization": f"Bearer key-{one}"} for one in "ao")

LATER = {"model": "echo/echo", "input": "Hi"}

SAID = {"model": "echo/echo", "messages": [{"role": "user", "content": "Hi"}]}

ANSWER = [
    Start(), TextStart(0), TextDelta(0, "Hi"), TextEnd(0),
    Done(StopReason.STOP, Usage(10, 30, total=40, reported=True), Cost(total=0.25)),
]  # fmt: skip


@asynccontextmanager
async def monitored(**more: Any) -> AsyncIterator[Gateway]:
    monitor, config = Monitor(), Source("team.toml", KEYS).config(ENVIRON)
    plugins = [*monitor.plugins, Scripted(ANSWER)]
    async with (
        swink.Client(plugins=plugins) as client,
        Gateway(client, config=config, monitor=monitor, retry=ONCE, **more) as gateway,
    ):
        yield gateway


async def test_metrics_show_open_circuits_with_cause_and_end() -> None:
    clock = ManualClock()
    monitor = Monitor(now=lambda: clock.now().timestamp())
    full = swink.Error(error_message="full", error_kind=swink.StreamErrorKind.THROTTLED)
    full.retry_after = 20.0
    cooldowns = Cooldowns(MemoryLedger(clock), clock)
    cooldowns.heard = monitor.hear_circuit
    async with (
        swink.Client(
            plugins=[Scripted([Start(), full])], gates=[cooldowns], breaker=False, clock=clock
        ) as client,
        Gateway(client, monitor=monitor) as gateway,
    ):
        for _ in range(swink.RetryPolicy().circuit_threshold):
            assert (await asked(gateway)).status == 429
        ends = (clock.now() + timedelta(seconds=20)).timestamp()
        until = [open_until(await ask(gateway, "/metrics"))]
        await clock.advance(20)
        until.append(open_until(await ask(gateway, "/metrics")))
    assert until == [{("echo/echo", "throttled"): ends}, {}]


def open_until(metrics: Answer) -> dict[tuple[str, str], float]:
    name = "swink_gateway_circuit_open_until_timestamp_seconds"
    return {
        (sample.labels["model"], sample.labels["kind"]): sample.value
        for family in text_string_to_metric_families(metrics.body.decode())
        for sample in family.samples
        if sample.name == name
    }


async def asked(gateway: Gateway) -> Answer:
    return await ask(gateway, "/v1/chat/completions", SAID, headers=ALICE)


async def metrics_of(gateway: Gateway) -> dict[str, float]:
    """Return all samples, read by Prometheus's own parser."""
    answer = await ask(gateway, "/metrics", headers=OLGA)
    assert answer.headers["Content-Type"].startswith("text/plain; version=")
    families = text_string_to_metric_families(answer.body.decode())
    samples = [sample for family in families for sample in family.samples]
    return {f"{sample.name}{sorted(sample.labels.values())}": sample.value for sample in samples}


async def test_a_key_without_a_name_in_a_configuration_makes_no_operator() -> None:
    """`usable` refuses the empty name, which stands for the operator in other places."""
    key = Source("team.toml", KEYS).config(ENVIRON).keys["alice"]
    async with serving(config=Config(keys={"": key})) as gateway:
        assert (await ask(gateway, "/metrics", headers=ALICE)).status == 403


async def test_metrics_count_calls_answers_and_spending() -> None:
    async with monitored() as gateway:
        before = await metrics_of(gateway)
        for _ in range(2):
            await asked(gateway)
        after = await metrics_of(gateway)
    assert before["ccr_requests_total[]"] == before["ccr_rejected_streams_total[]"] == 0
    expected = {
        "ccr_requests_total[]": 2,
        "ccr_active_streams[]": 0,
        "ccr_peak_active_streams[]": 1,
        "llm_requests_total['echo', 'echo', 'stop']": 2,
        "llm_cost_dollars_total['echo', 'echo']": 0.5,
        "swink_gateway_key_dollars['alice', 'day']": 0.5,
        "swink_gateway_key_dollars['alice', 'month']": 0.5,
        "swink_gateway_key_dollars_limit['alice', 'day']": 2,
        "swink_gateway_key_requests_last_minute['alice']": 2,
        "swink_gateway_key_tokens_last_minute['alice']": 80,
        "swink_gateway_key_dollars['day', 'olga']": 0,
    }
    assert {name: after.get(name) for name in expected} == expected
    assert "swink_gateway_key_dollars_limit['day', 'olga']" not in after
    assert "swink_gateway_config_is_current[]" not in after  # there is no file


async def test_metrics_count_refused_requests_by_status_and_reason() -> None:
    async with monitored() as gateway:
        before = await metrics_of(gateway)
        assert (await ask(gateway, "/v1/chat/completions", SAID)).status == 401
        unknown = {**SAID, "model": "echo/x y"}
        for body, status in (({**SAID, "messages": 1}, 400), (SAID, 200), (unknown, 404)):
            path = "/v1/chat/completions"
            assert (await ask(gateway, path, body, headers=ALICE)).status == status
        after = await metrics_of(gateway)
    name = "swink_gateway_refused_requests_total"
    assert before[f"{name}['401', 'other']"] == before[f"{name}['503', 'overloaded']"] == 0
    refused = {series: value for series, value in after.items() if name in series and value}
    assert refused == {
        f"{name}['401', 'other']": 1,
        f"{name}['400', 'invalid_request']": 1,
        f"{name}['404', 'model_not_found']": 1,
    }


@pytest.mark.parametrize(
    ("path", "body", "kind"),
    [
        ("/v1/embeddings", {"model": "echo/echo", "input": "Hi"}, "unsupported"),
        ("/v1/embeddings", [1], "invalid_request"),
        ("/api/show", {"model": 1}, "invalid_request"),
        (
            "/v1/responses",
            {"model": "echo/echo", "input": "Hi", "previous_response_id": "resp_1"},
            "invalid_request",
        ),
    ],
    ids=["embeddings", "embeddings_without_an_object", "show", "responses"],
)
async def test_the_metric_and_the_log_have_the_kind_of_every_refusal(
    path: str, body: Any, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, ACCESS_LOGGER):
        async with monitored(access_log=AccessLog()) as gateway:
            status = (await ask(gateway, path, body, headers=ALICE)).status
            after = await metrics_of(gateway)
    assert 400 <= status < 500
    assert after[f"swink_gateway_refused_requests_total['{status}', '{kind}']"] == 1
    assert f"ended={kind}" in caplog.text


async def test_metrics_count_the_failed_attempts_of_an_account() -> None:
    refused = swink.Error(error_message="expired", error_kind=swink.StreamErrorKind.AUTH)
    monitor, source = Monitor(), Source("t", '[routes.best]\ntiers = [["echo/echo"]]')
    async with (
        swink.Client(plugins=[*monitor.plugins, Scripted([Start(), refused])]) as client,
        Gateway(client, config=source.config({}), monitor=monitor, retry=ONCE) as gateway,
    ):
        for model in ("best", "echo/echo"):
            await ask(gateway, "/v1/chat/completions", {**SAID, "model": model})
        metrics = await metrics_of(gateway)
    name, place = "swink_gateway_failed_attempts_total", "routes.best.tiers[0][0]"
    failed = {series: value for series, value in metrics.items() if name in series}
    assert failed == {f"{name}['auth', '{place}']": 2}


async def test_the_gateways_counters_are_metrics_of_the_same_names() -> None:
    async with monitored(limits=Limits(streams=1)) as gateway:
        gateway.counters["made_up_total"] += 3  # type: ignore[index]  # to see what is told
        after = await metrics_of(gateway)
        assert {f"{name}[]" for name in gateway.counters} <= after.keys()
        assert after["made_up_total[]"] == gateway.counters["made_up_total"] == 3


@pytest.mark.parametrize("path", ["/metrics", "/v1/events"])
async def test_only_operators_see_the_calls_of_all_keys(path: str) -> None:
    async with monitored() as gateway:
        assert (await ask(gateway, path, headers=ALICE)).status == 403
        assert (await ask(gateway, path)).status == 401
    async with serving() as gateway:  # without a monitor
        assert (await ask(gateway, path)).status == 404


async def test_the_feed_has_the_common_format() -> None:
    async with monitored() as gateway:
        place = Place.of("", gateway.url, {"SWINK_GATEWAY_KEY": "key-o"})
        await asked(gateway)
        async with aclosing(following(place, 5, lambda: None)) as records:
            read = [await anext(records) for _ in range(3)]
            waiting = asyncio.ensure_future(anext(records))
            await asked(gateway)
            assert (await waiting)[0] == "begin"
        assert [name for name, _ in read] == ["begin", "end", "now"]
        assert (read[1][1]["model"], read[1][1]["cost"]) == ("echo/echo", 0.25)
        (alice, _) = await spending(place)
        assert (alice["key"], alice["dollars_today"]) == ("alice", 0.5)


@pytest.mark.parametrize(
    "later", [KEYS.partition("[keys.olga]")[0], KEYS.replace("operator = true", "")]
)
async def test_the_feed_ends_for_a_reader_whose_key_or_rights_are_revoked(later: str) -> None:
    async with (
        monitored() as gateway,
        aiohttp.ClientSession(headers=OLGA) as session,
        session.get(f"{gateway.url}/v1/events") as response,
    ):
        await response.content.readuntil(b"\n\n")
        await asked(gateway)
        await response.content.readuntil(b"event: end")
        gateway.reconfigure(Source("team.toml", later).config(ENVIRON))
        await asked(gateway)
        assert b"event: begin" not in await response.content.read()


async def test_a_reader_of_the_feed_does_not_delay_the_shutdown() -> None:
    async with monitored() as gateway:
        place = Place.of("", gateway.url, {"SWINK_GATEWAY_KEY": "key-o"})
        async with aclosing(following(place, 0, lambda: None)) as records:
            assert (await anext(records))[0] == "now"
            await gateway._runner.cleanup()


async def test_each_workers_feed_has_the_calls_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids = iter((1, 2))
    monkeypatch.setattr("os.getpid", lambda: next(pids))
    feeds = [SharedFeed(tmp_path), SharedFeed(tmp_path)]
    monkeypatch.undo()
    (tmp_path / "feed-3").touch()  # of a worker that has ended
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as dead:
        dead.bind(str(tmp_path / "feed-4"))
    for feed in feeds:
        await feed.join(None)
    async with aclosing(feeds[1].follow()) as records:
        assert (await anext(records)).name == "now"
        feeds[0].publish("begin", {"call": "c1"})
        feeds[1].publish("end", {"call": "c2"})
        read = [await anext(records) for _ in range(2)]
    assert sorted((one.name, one.data) for one in read) == [
        ("begin", b'{"call":"c1"}'), ("end", b'{"call":"c2"}'),
    ]  # fmt: skip
    await feeds[1].leave(None)
    feeds[0].publish("begin", {"call": "c3"})  # there is no receiver
    await feeds[0].leave(None)
    assert {"feed-1", "feed-2", "feed-4"}.isdisjoint(os.listdir(tmp_path))


async def test_top_shows_a_gateways_calls_and_spending(swink: Any) -> None:
    async with monitored() as gateway:
        await asked(gateway)
        done = await asyncio.to_thread(
            swink, "top", "--gateway", gateway.url, SWINK_GATEWAY_KEY="key-o"
        )
        refused = await asyncio.to_thread(
            swink, "top", "--gateway", gateway.url, SWINK_GATEWAY_KEY="key-a"
        )
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[1][0] == "echo/echo"
    assert lines[4] == ["alice", "1", "40", "0", "$0.25", "of", "$2.00", "$0.25"]
    assert refused.returncode == 1
    assert "has to hold the key of an operator" in refused.stderr


async def test_the_rows_of_a_key_are_listed_for_one_request_at_a_time() -> None:
    path, may_end, listed = "/v1/spending/report?rows=true", asyncio.Event(), list[str]()

    class Slow(MemoryLedger):
        async def entries(self, query: Query) -> list[Entry]:
            listed.append("begun")
            await may_end.wait()
            listed.append("ended")
            return []

    config = Source("t", KEYS).config(ENVIRON)
    async with serving(config=config, ledger=Slow()) as gateway:
        first = asyncio.ensure_future(ask(gateway, path, headers=ALICE))
        await until(lambda: listed == ["begun"])
        assert (await ask(gateway, path, headers=ALICE)).status == 503
        other = asyncio.ensure_future(ask(gateway, path, headers=OLGA))
        may_end.set()
        assert [(await one).status for one in (first, other)] == [200, 200]
        assert (await ask(gateway, path, headers=ALICE)).status == 200
    assert listed == ["begun", "ended"] * 3


async def test_models_that_clients_invent_have_few_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swink_gateway.serving.metrics.MOST_PAIRS", 10)
    async with monitored() as gateway:
        for number in range(40):
            said = {**SAID, "model": f"openai/invented-{number}"}
            await ask(gateway, "/v1/chat/completions", said, headers=OLGA)
        page = (await ask(gateway, "/metrics", headers=OLGA)).body.decode()
    named = {word for word in page.replace('"', " ").split() if "invented-" in word}
    assert 0 < len(named) <= 10
    assert 'model="other"' in page
