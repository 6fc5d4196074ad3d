"""Spending, from a request to the ledger and on to the reports."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from serving import ONCE, Answer, Scripted, ask, serving

import swink_core as swink
from swink_core import Done, Start, StopReason, TextDelta, TextEnd, TextStart, Usage
from swink_gateway.policy.config import Source
from swink_gateway.policy.limits import Ledger, MemoryLedger, Query, open_ledger
from swink_gateway.policy.limits.sqlite import SQLiteLedger, open_rows
from swink_gateway.policy.limits.writer import RowWriter
from swink_gateway.serving.metrics import Monitor
from swink_gateway.serving.server import Gateway

ENVIRON = {"A": "key-a", "B": "key-b", "O": "key-o"}

FILE = """
[keys.alice]
key = "${A}"
team = "blue"
tags = ["prod"]
[keys.bob]
key = "${B}"
dollars_per_day = 2
[keys.olga]
key = "${O}"
operator = true
[routes.best]
tiers = ["echo/one", "echo/two"]
[routes.free]
tiers = "echo/made-up"
[routes.a]
tiers = "echo/a"
[routes.b]
tiers = "echo/b"
[prices."echo/two"]
input = 1.0
output = 2.0
"""

ALICE, BOB, OLGA = ({"Authorization": f"Bearer key-{one}"} for one in "abo")

BROKEN = [
    Start(),
    swink.Error(error_message="full", error_kind=swink.StreamErrorKind.OVERLOADED),
]

USAGE = Usage(1_000, 300, cache_read=200, reasoning=100, total=1_300, reported=True)

ANSWER = [Start(), TextStart(0), TextDelta(0, "Hi"), TextEnd(0), Done(StopReason.STOP, USAGE)]

PAID = 1_000 * 1e-6 + 300 * 2e-6
"""The cost of the answer in US dollars, by the prices in the file."""


class Fresh(Scripted):
    """Answers with copies of events, because the client writes the cost into the last one."""

    @swink.hookimpl(tryfirst=True)
    def stream(self, call: swink.Call) -> Any:
        return copy.deepcopy(super().stream(call))


@asynccontextmanager
async def gateway_of(ledger: Ledger, *answers: Any, file: str = FILE) -> AsyncIterator[Gateway]:
    monitor, config = Monitor(), Source("team.toml", file).config(ENVIRON)
    scripted = Fresh(ANSWER)
    if answers:
        scripted.answers = [[answer] for answer in answers]
    async with (
        swink.Client(plugins=[*monitor.plugins, scripted], breaker=False) as client,
        Gateway(client, config=config, monitor=monitor, retry=ONCE, ledger=ledger) as gateway,
    ):
        yield gateway
    await ledger.aclose()


async def say(
    gateway: Gateway, model: str, key: dict[str, str], stream: bool = False, tags: str = ""
) -> Answer:
    body = {"model": model, "stream": stream, "messages": [{"role": "user", "content": "Hi"}]}
    headers = {**key, "x-swink-tags": tags}
    return await ask(gateway, "/v1/chat/completions", body, headers=headers)


async def test_each_attempt_has_a_row_with_all_facts() -> None:
    ledger = MemoryLedger(rows=RowWriter())
    async with gateway_of(ledger, BROKEN, ANSWER) as gateway:
        answer = await say(gateway, "best", ALICE, tags="ci, night")
        assert answer.status == 200
        failed, answered = await ledger.entries(Query())
    assert (failed.model, failed.outcome, failed.cost, failed.tokens) == (
        "echo/one", "overloaded", 0.0, 0,
    )  # fmt: skip
    assert (answered.model, answered.outcome) == ("echo/two", "stop")
    assert answered.cost == pytest.approx(PAID)
    assert (answered.input, answered.output, answered.tokens) == (1_000, 300, 1_300)
    assert (answered.cache_read, answered.cache_write, answered.reasoning) == (200, None, 100)
    assert not answered.estimated
    assert failed.call == answered.call != ""
    assert answered.latency is not None
    assert answered.first_token is not None
    for row in (failed, answered):
        assert (row.key, row.team, row.tags) == ("alice", "blue", "prod,ci,night")
    accounts = [row.account for row in (failed, answered)]
    assert accounts == ["routes.best.tiers[0][0]", "routes.best.tiers[1][0]"]


async def test_a_key_with_a_budget_cannot_use_a_model_without_a_price() -> None:
    ledger = MemoryLedger(rows=RowWriter())
    async with gateway_of(ledger) as gateway:
        refused = await say(gateway, "free", BOB)
        assert refused.status == 400
        assert "the price of echo/made-up is unknown" in refused.json["error"]["message"]
        assert "[prices]" in refused.json["error"]["message"]
        assert await ledger.entries(Query()) == []
        assert (await say(gateway, "free", ALICE)).status == 200
        assert (await say(gateway, "best", BOB)).status == 200  # by its second model
        rows = await ledger.entries(Query(where={"key": frozenset({"bob"})}))
        assert [row.model for row in rows] == ["echo/two"]
        assert [row.cost for row in rows] == pytest.approx([PAID])


@pytest.mark.parametrize("stream", [False, True])
async def test_a_budget_used_up_by_the_first_attempt_ends_the_chain(stream: bool) -> None:
    dear = Usage(2_000_000, 1, total=2_000_001, reported=True)
    broken = swink.Error(error_message="x", error_kind=swink.StreamErrorKind.OVERLOADED)
    broken.usage = dear
    file = FILE.replace('[prices."echo/two"]', '[prices."echo/*"]')
    ledger = MemoryLedger(rows=RowWriter())
    async with gateway_of(ledger, [Start(), broken], ANSWER, file=file) as gateway:
        refused = await say(gateway, "best", BOB, stream)
        assert refused.status in (429, 503)
        assert b"has reached its limit: 2 US dollars a day" in refused.body
        [row] = await ledger.entries(Query())
        assert row.cost == pytest.approx(2.000002)
        [spent] = await ledger.spending(["bob"])
        assert spent.streams == 0
        after = await say(gateway, "best", BOB, stream)
        assert (after.status, after.json["error"]["code"]) == (429, "insufficient_quota")


async def test_the_prices_of_the_file_apply_to_echo() -> None:
    file = '[keys.bob]\nkey = "${B}"\ndollars_per_day = 1\n[prices."echo/*"]\n'
    config = Source("team.toml", file + "input = 1_000\noutput = 99_000\n").config(ENVIRON)
    async with serving(config=config) as gateway:
        paid = await say(gateway, "echo/echo", BOB)
        assert paid.json["usage"]["cost"] == pytest.approx(0.1)  # a word in, a word out
        [spent] = await gateway.ledger.spending(["bob"])
        assert spent.dollars_today == pytest.approx(0.1)


WRONG_TAGS = ["a b", "a,,b", "ä" * 65, ",".join("abcdefghi"), "a;b", "guard:cards", "Guard:x"]


@pytest.mark.parametrize("tags", WRONG_TAGS)
async def test_invalid_tags_are_refused(tags: str) -> None:
    async with gateway_of(MemoryLedger()) as gateway:
        refused = await say(gateway, "echo/two", ALICE, tags=tags)
        assert refused.status == 400
        assert "x-swink-tags" in refused.json["error"]["message"]


async def report(gateway: Gateway, shown: dict[str, str], **asked: str) -> Any:
    answer = await ask(gateway, "/v1/spending/report", headers=shown, params=asked)
    assert answer.status == 200
    return answer.json["data"]


async def test_an_operator_reads_the_spending_of_all_and_an_owner_its_own() -> None:
    async with gateway_of(MemoryLedger(rows=RowWriter())) as gateway:
        for key in (ALICE, ALICE, BOB):
            await say(gateway, "echo/two", key)
        both = [("alice", 2), ("bob", 1)]
        assert [(r["key"], r["attempts"]) for r in await report(gateway, OLGA)] == both
        [own] = await report(gateway, BOB, by="key,model", key="alice")
        assert (own["key"], own["model"], own["input"]) == ("bob", "echo/two", 1_000)
        rows = await report(gateway, OLGA, rows="true", team="blue")
        assert [(row["key"], row["outcome"]) for row in rows] == [("alice", "stop")] * 2
        [row] = await report(gateway, OLGA, rows="true", call=rows[1]["call"])
        assert row == rows[1]
        assert not await report(gateway, BOB, rows="true", call=rows[1]["call"])
        month = f"{datetime.now(UTC):%Y-%m}"
        [total] = await report(gateway, OLGA, by="month", since=month, until=month)
        assert (total["month"], total["cost"]) == (month, pytest.approx(3 * PAID))
        text = await ask(gateway, "/v1/spending/report?by=team&format=csv", headers=OLGA)
        assert text.headers["Content-Type"].startswith("text/csv")
        assert text.body.decode().splitlines()[0].startswith("team,attempts,tokens")
        wrong = await ask(gateway, "/v1/spending/report?by=color", headers=OLGA)
        assert wrong.status == 400
        assert (await ask(gateway, "/v1/spending/report")).status == 401


async def test_only_operators_can_audit() -> None:
    async with gateway_of(MemoryLedger(rows=RowWriter())) as gateway:
        await say(gateway, "echo/two", BOB)
        assert (await ask(gateway, "/v1/spending/audit", headers=BOB)).status == 403
        found = await ask(gateway, "/v1/spending/audit", headers=OLGA)
        assert found.json == {"object": "audit", "unsettled": [], "differences": []}


async def metrics(gateway: Gateway) -> dict[tuple[str, ...], float]:
    answer = await ask(gateway, "/metrics", headers=OLGA)
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(answer.body.decode())
        for sample in family.samples
        if sample.name.startswith("swink_gateway_spent_") and sample.name.endswith("_total")
    }


async def test_metrics_count_spending_by_key_and_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swink_gateway.serving.metrics.MOST_PAIRS", 2)
    ledger = MemoryLedger(rows=RowWriter())
    async with gateway_of(ledger, BROKEN, *[ANSWER] * 4) as gateway:
        for model in ("free", "echo/two", "a", "b", "free"):
            await say(gateway, model, ALICE)
        found = await metrics(gateway)
    name = "swink_gateway_spent"
    assert found.pop((f"{name}_dollars_total", "alice", "echo/two")) == pytest.approx(PAID)
    assert found == {
        (f"{name}_dollars_total", "alice", "echo/a"): 0.0,
        (f"{name}_dollars_total", "alice", "other"): 0.0,
        (f"{name}_tokens_total", "alice", "echo/two"): 1_300,
        (f"{name}_tokens_total", "alice", "echo/a"): 1_300,
        (f"{name}_tokens_total", "alice", "other"): 2_600,
        (f"{name}_attempts_total", "alice", "echo/two"): 1,
        (f"{name}_attempts_total", "alice", "echo/a"): 1,
        (f"{name}_attempts_total", "alice", "other"): 2,
    }


# -- the command -----------------------------------------------------------------------------------


async def spend(swink: Any, *words: object, **environ: str) -> Any:
    return await asyncio.to_thread(swink, "spend", *map(str, words), **environ)


async def test_the_command_reads_a_ledger_a_configuration_and_a_gateway(
    swink: Any, tmp_path: Path
) -> None:
    path, file = tmp_path / "ledger", tmp_path / "team.toml"
    file.write_text(f'[store]\nengine = "sqlite"\npath = "{path}"\n[keys.alice]\nkey = "${{A}}"\n')
    async with gateway_of(SQLiteLedger(path)) as gateway:
        for key in (ALICE, BOB):
            await say(gateway, "echo/two", key)
        places: list[list[object]] = [
            ["--ledger", path], ["--config", file], ["--gateway", gateway.url],
        ]  # fmt: skip
        for place in places:
            found = await spend(
                swink, *place, "--by", "key,model", "--format", "json", SWINK_GATEWAY_KEY="key-o"
            )
            rows = json.loads(found.stdout)
            assert [(row["key"], row["model"]) for row in rows] == [
                ("alice", "echo/two"), ("bob", "echo/two"),
            ]  # fmt: skip
            assert rows[0]["cost"] == pytest.approx(PAID)
            audit = await spend(swink, *place, "--audit", SWINK_GATEWAY_KEY="key-o")
            assert (audit.returncode, audit.stdout) == (
                0, "the ledger and the budgets agree, and every attempt is settled\n",
            )  # fmt: skip
    table = await spend(swink, "--ledger", path, "--team", "blue")
    assert [line.split()[:3] for line in table.stdout.splitlines()] == [
        ["key", "attempts", "tokens"], ["alice", "1", "1,300"],
    ]  # fmt: skip
    text = await spend(swink, "--ledger", path, "--rows", "--format", "csv")
    assert len(text.stdout.splitlines()) == 3
    call = text.stdout.splitlines()[2].split(",")[7]
    one = await spend(swink, "--ledger", path, "--rows", "--format", "csv", "--call", call)
    assert one.stdout.splitlines()[1:] == text.stdout.splitlines()[2:]
    other = await spend(swink, "--ledger", path, "--rows", "--request-id", "another")
    assert len(other.stdout.splitlines()) == 1
    nothing = await spend(swink, "--ledger", path, "--since", "2020-01", "--until", "2020-02")
    assert (nothing.returncode, nothing.stdout) == (0, "")
    assert "no spending in" in nothing.stderr


async def test_the_command_names_attempts_that_were_not_settled(
    swink: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = SQLiteLedger(tmp_path / "ledger")
    monkeypatch.setattr(ledger, "_process", str(2**22 + 1))  # beyond what Linux gives out
    from swink_gateway.policy.limits import Allowance, Entry

    await ledger.admit("alice", Allowance(), 10, 0.5, Entry(model="echo/two"))
    await ledger.aclose()
    found = await spend(swink, "--ledger", tmp_path / "ledger", "--audit")
    assert found.returncode == 1
    assert "alice echo/two: not settled, charged at its reserved $0.50" in found.stdout


@pytest.mark.parametrize(("cost", "higher"), [(0.125, "budget"), (0.75, "ledger")])
async def test_an_audit_states_which_side_is_higher(
    cost: float, higher: str, swink: Any, tmp_path: Path
) -> None:
    from swink_gateway.policy.limits import Allowance, Entry, Ticket

    path = tmp_path / "ledger"
    ledger = SQLiteLedger(path)
    ticket = await ledger.admit("alice", Allowance(), 10, 0.5, Entry(model="echo/two"))
    assert isinstance(ticket, Ticket)
    await ledger.settle(ticket, 10, 0.25)
    ledger._database.execute("UPDATE attempts SET cost = ?", (cost,))
    await ledger.aclose()
    found = await spend(swink, "--ledger", path, "--audit")
    assert found.returncode == 1
    assert f"; the {higher} is ${abs(cost - 0.25):.2f} higher" in found.stdout


WRONG = [
    (["--ledger", "{}", "--gateway", "http://127.0.0.1:9"], "exclude one another"),
    (["--gateway", "http://127.0.0.1:9"], "cannot read the spending"),
    (["--ledger", "{}"], "the ledger cannot be read"),
    (["--by", "color"], "cannot be summed by 'color'"),
    (["--audit", "--team", "blue"], "compares the whole ledger"),
    (["--audit", "--since", "2026-11"], "compares the whole ledger: no"),
    (["--audit", "--rows"], "compares the whole ledger: no filter"),
    (["--audit", "--by", "team"], "compares the whole ledger: no filter, period, --by"),
    (["--rows", "--by", "team"], "--by does not apply"),
]


@pytest.mark.parametrize(("words", "why"), WRONG, ids=[why for _, why in WRONG])
async def test_an_unreadable_ledger_is_reported_with_the_cause(
    words: list[str], why: str, swink: Any, tmp_path: Path
) -> None:
    file = tmp_path / "no ledger"
    file.write_bytes(b"no ledger" * 100)
    found = await spend(swink, *(word.format(file) for word in words))
    assert found.returncode in (1, 2)
    assert why in found.stderr


REFUSED_KEYS = [
    ("wrong", [], "Set SWINK_GATEWAY_KEY to a key from its file"),
    ("key-a", ["--audit"], "Set SWINK_GATEWAY_KEY to a key with operator = true"),
]


@pytest.mark.parametrize(("key", "words", "advice"), REFUSED_KEYS)
async def test_a_refused_key_is_reported_with_the_key_to_set(
    key: str, words: list[str], advice: str, swink: Any
) -> None:
    async with gateway_of(MemoryLedger()) as gateway:
        found = await spend(swink, "--gateway", gateway.url, *words, SWINK_GATEWAY_KEY=key)
    assert found.returncode == 1
    assert advice in found.stderr


async def test_rows_without_budgets_cannot_be_audited(swink: Any, tmp_path: Path) -> None:
    rows = RowWriter(lambda: open_rows(tmp_path / "rows"))
    await rows.aclose()
    found = await spend(swink, "--ledger", tmp_path / "rows", "--audit")
    assert found.returncode == 2
    assert "no budgets to compare them with" in found.stderr


async def test_a_store_in_memory_has_rows_too() -> None:
    from swink_gateway.policy.limits import Allowance, Store

    ledger = open_ledger(Store())
    await ledger.admit("alice", Allowance(), 10, 0.5)
    assert len(await ledger.entries(Query())) == 1
    await ledger.aclose()
