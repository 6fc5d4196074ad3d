"""Clients' keys: allowed models, limits, and reports of their usage."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from full_disk_ledger import FullDisk
from serving import Answer, Scripted, ask, serving, until

import swink_core as swink
from swink_core import Cost, Done, Error, Start, StopReason, TextDelta, TextEnd, TextStart, Usage
from swink_gateway.policy.config import Config, Source
from swink_gateway.policy.limits import Allowance, MemoryLedger, Query, StoreUnavailable, Ticket
from swink_gateway.policy.limits.sqlite import SQLiteLedger
from swink_gateway.serving.admission import ACTIVE
from swink_testing.clock import ManualClock

ENVIRON = {"A": "key-a", "B": "key-b", "O": "key-o"}

KEYS = """
[routes.best]
tiers = "echo/echo"
[aliases]
gpt = "best"
[keys.alice]
key = "${A}"
models = ["best", "echo/th*"]
[keys.bob]
key = "${B}"
[keys.olga]
key = "${O}"
operator = true
"""

ALICE, BOB, OLGA = ({"Authorization": f"Bearer key-{one}"} for one in "abo")


def config_of(text: str) -> Config:
    return Source("team.toml", text).config(ENVIRON)


def answer_of(usage: Usage, dollars: float) -> list[Any]:
    words = [Start(), TextStart(0), TextDelta(0, "Hi"), TextEnd(0)]
    return [[*words, Done(StopReason.STOP, usage, Cost(total=dollars))]]


async def asked(gateway: Any, model: str, headers: Any, path: str = "/v1/messages") -> Answer:
    said = {"model": model, "max_tokens": 5, "messages": [{"role": "user", "content": "Hi"}]}
    return await ask(gateway, path, said, headers=headers)


NAMES = [
    ("best", ALICE, 200),
    ("gpt", ALICE, 200),
    ("echo/think", ALICE, 200),
    ("think", ALICE, 200),  # listed by one provider
    ("slow", ALICE, 404),
    ("echo/echo", ALICE, 404),
    ("nobody/x", ALICE, 404),
    ("echo/echo", BOB, 200),
    ("nobody/x", BOB, 404),
    ("best", {"Authorization": "Bearer key-c"}, 401),
    ("best", {}, 401),
]


@pytest.mark.parametrize(("model", "headers", "status"), NAMES)
async def test_a_key_may_use_only_its_models(
    model: str, headers: dict[str, str], status: int
) -> None:
    async with serving(config=config_of(KEYS)) as gateway:
        answer = await asked(gateway, model, headers)
    assert answer.status == status
    if status == 404 and headers == ALICE:
        assert "'alice' may not use" in answer.json["error"]["message"]


async def test_every_list_shows_only_the_models_of_a_key() -> None:
    async with serving(config=config_of(KEYS)) as gateway:
        for headers, mine in ((ALICE, True), (BOB, False)):
            rows = (await ask(gateway, "/v1/models", headers=headers)).json["data"]
            tags = (await ask(gateway, "/api/tags", headers=headers)).json["models"]
            names = [row["id"] for row in rows]
            assert names == [row["name"] for row in tags]
            assert names[:2] == ["best", "gpt"]
            assert (names[2:] == ["echo/think"]) is mine
            found = await ask(gateway, "/v1/models/echo/echo", headers=headers)
            shown = await ask(gateway, "/api/show", {"model": "echo/echo"}, headers=headers)
            assert [found.status, shown.status] == [404 if mine else 200] * 2
            page = (await ask(gateway, "/", headers=headers)).body
            assert (b'"echo/echo">' in page) is not mine


async def test_only_the_owner_of_an_answer_can_continue_from_it() -> None:
    said = {"model": "best", "input": "Hi"}
    async with serving(config=config_of(KEYS)) as gateway:
        first = (await ask(gateway, "/v1/responses", said, headers=ALICE)).json
        more = {**said, "previous_response_id": first["id"]}
        assert (await ask(gateway, "/v1/responses", more, headers=BOB)).status == 400
        assert (await ask(gateway, "/v1/responses", more, headers=ALICE)).status == 200


# -- limits ----------------------------------------------------------------------------------------

LIMITED = """
[keys.alice]
key = "${A}"
%s
[keys.olga]
key = "${O}"
operator = true
"""

USED = Usage(10, 30, total=40, reported=True)

ENDS = ("response.completed", "error")

# (the limit, the answered calls, the message of the next call, the seconds until it is answered)
LIMITS = [
    ("requests_per_minute = 2", 2, "2 requests a minute", 61),
    ("tokens_per_minute = 50", 2, "50 tokens a minute", 61),
    ("tokens_per_minute = 70.5", 2, "70.5 tokens a minute", 61),
    ("dollars_per_day = 0.5", 2, "0.5 US dollars a day", 86400),
    ("dollars_per_month = 0.75", 3, "0.75 US dollars a month", 30 * 86400),
]


@pytest.mark.parametrize(("limit", "calls", "what", "seconds"), LIMITS)
async def test_a_reached_limit_is_refused_with_a_message_and_retry_after(
    limit: str, calls: int, what: str, seconds: int
) -> None:
    clock = ManualClock()
    script, ledger = Scripted(*answer_of(USED, 0.25)), MemoryLedger(clock)
    async with serving(script, config=config_of(LIMITED % limit), ledger=ledger) as gateway:
        for _ in range(calls):
            assert (await asked(gateway, "echo/echo", ALICE)).status == 200
        refused = await asked(gateway, "echo/echo", ALICE)
        assert refused.status == 429
        assert what in refused.json["error"]["message"]
        wait = float(refused.headers["Retry-After"])
        assert 0 < wait <= seconds
        assert len(script.calls) == calls
        assert (await asked(gateway, "echo/echo", OLGA)).status == 200
        await clock.advance(wait)
        assert (await asked(gateway, "echo/echo", ALICE)).status == 200


class Waiting:
    """A plugin whose answers send one delta, and then wait for `go_on`."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.go = asyncio.Event()

    @swink.hookimpl(tryfirst=True)
    def stream(self, call: swink.Call) -> Any:
        return self._answer()

    async def _answer(self) -> AsyncIterator[swink.AssistantMessageEvent]:
        for event in (Start(), TextStart(0), TextDelta(0, "word " * 100)):
            yield event
        self.begun.set()
        await self.go.wait()
        yield TextEnd(0)
        yield Done(StopReason.STOP, USED, Cost(total=0.25))


async def test_a_client_that_disconnects_frees_its_slot_and_pays_for_the_output() -> None:
    waiting, ledger = Waiting(), MemoryLedger()
    config = config_of(LIMITED % "streams = 1")
    async with serving(waiting, config=config, ledger=ledger) as gateway:
        first = asyncio.ensure_future(asked(gateway, "echo/echo", ALICE))
        await waiting.begun.wait()
        refused = await asked(gateway, "echo/echo", ALICE)
        assert refused.status == 429
        assert "1 answer at a time" in refused.json["error"]["message"]
        first.cancel()
        await until(lambda: gateway.counters[ACTIVE] == 0)
        waiting.go.set()
        assert (await asked(gateway, "echo/echo", ALICE)).status == 200
    (spent,) = await ledger.spending(["alice"])
    assert spent.tokens > 100 + 40


async def test_an_invalid_call_is_not_charged() -> None:
    ledger = MemoryLedger()
    async with serving(config=config_of(LIMITED % "streams = 1"), ledger=ledger) as gateway:
        wrong = {"model": "echo/echo", "messages": [], "max_tokens": 5}
        for _ in range(2):
            assert (await ask(gateway, "/v1/messages", wrong, headers=ALICE)).status == 400
    (spent,) = await ledger.spending(["alice"])
    assert (spent.tokens, spent.streams, spent.dollars_today) == (0, 0, 0.0)


async def test_each_answer_over_a_websocket_is_charged_to_the_key() -> None:
    ledger = MemoryLedger()
    config = config_of(LIMITED % "requests_per_minute = 1")
    script = Scripted(*answer_of(USED, 0.25))
    ends = []
    async with (
        serving(script, config=config, ledger=ledger) as gateway,
        aiohttp.ClientSession(headers=ALICE) as session,
        session.ws_connect(f"{gateway.url}/v1/responses") as socket,
    ):
        for _ in range(2):
            said = {"type": "response.create", "model": "echo/echo", "input": "Hi"}
            await socket.send_json(said)
            while (event := await socket.receive_json())["type"] not in ENDS:
                pass
            ends.append(event)
    assert [end["type"] for end in ends] == ["response.completed", "error"]
    assert ends[1]["status"] == 429
    (spent,) = await ledger.spending(["alice"])
    assert (spent.requests, spent.tokens, spent.dollars_today) == (1, 40, 0.25)


# -- reports ---------------------------------------------------------------------------------------


async def test_an_owner_sees_its_own_spending_and_an_operator_that_of_all() -> None:
    config = config_of(LIMITED % "dollars_per_day = 5")
    failed = Error(error_message="no", error_kind=swink.StreamErrorKind.NETWORK)
    script = Scripted(*answer_of(USED, 0.25))
    script.answers.append([[failed]])
    async with serving(script, config=config) as gateway:
        for _ in range(2):  # the second one fails, and costs nothing
            await asked(gateway, "echo/echo", ALICE)
        own = (await ask(gateway, "/v1/spending", headers=ALICE)).json["data"]
        every = (await ask(gateway, "/v1/spending", headers=OLGA)).json["data"]
    limits = dict.fromkeys(["requests", "tokens", "streams", "dollars_a_month"])
    assert own == [
        {
            "key": "alice", "requests": 2, "tokens": 40, "streams": 0, "dollars_today": 0.25,
            "dollars_this_month": 0.25, "limits": {**limits, "dollars_a_day": 5.0},
        }
    ]  # fmt: skip
    assert every[0] == own[0]
    assert [row["key"] for row in every] == ["alice", "olga"]


@pytest.mark.parametrize(("each", "times", "told"), [(0.1, 3, 0.3), (-1e-12, 1, 0.0)])
async def test_spending_has_no_rounding_noise(each: float, times: int, told: float) -> None:
    ledger = MemoryLedger()
    for _ in range(times):
        ticket = await ledger.admit("alice", Allowance(), 0, 0.0)
        assert isinstance(ticket, Ticket)
        await ledger.settle(ticket, 0, each)
    async with serving(config=config_of(KEYS), ledger=ledger) as gateway:
        (row,) = (await ask(gateway, "/v1/spending", headers=ALICE)).json["data"]
    assert (str(row["dollars_today"]), str(row["dollars_this_month"])) == (str(told), str(told))


FULL_DISK: list[tuple[str, dict[str, Any]]] = [
    ("/v1/messages", {"max_tokens": 5, "messages": [{"role": "user", "content": "Hi"}]}),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}]}),
    ("/v1/responses", {"input": "Hi"}),
]


@pytest.mark.parametrize(("path", "body"), FULL_DISK, ids=str)
async def test_with_a_full_disk_calls_get_a_server_error(
    path: str, body: dict[str, Any], tmp_path: Path
) -> None:
    said = {"model": "echo/echo", **body}
    async with (
        aclosing(FullDisk(tmp_path / "ledger")) as ledger,
        serving(config=config_of(KEYS), ledger=ledger) as gateway,
    ):
        ledger.is_full = True
        refused = await ask(gateway, path, said, headers=BOB)
        ledger.is_full = False
        answered = await ask(gateway, path, said, headers=BOB)
    assert (refused.status, answered.status) == (503, 200)
    assert refused.json["error"]["type"] in ("server_error", "overloaded_error", "api_error")
    assert refused.headers["Retry-After"]
    assert b"disk" not in refused.body


class FullAfterwards(SQLiteLedger):
    """A ledger in a file that is full once an attempt is reserved."""

    async def settle(self, *arguments: Any, **more: Any) -> None:
        raise StoreUnavailable("database or disk is full")


async def test_a_store_that_cannot_settle_keeps_the_reservation_and_the_answer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, body = FULL_DISK[1]
    async with (
        aclosing(FullAfterwards(tmp_path / "ledger")) as ledger,
        serving(config=config_of(KEYS), ledger=ledger) as gateway,
    ):
        answered = await ask(gateway, path, {"model": "echo/echo", **body}, headers=BOB)
        [row] = await ledger.entries(Query())
    assert answered.status == 200
    assert row.outcome == "reserved"
    assert "cannot be stored yet" in caplog.text
