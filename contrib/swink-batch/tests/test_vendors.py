"""Vendors' batch APIs, before servers that take what their documentation has, and nothing else."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from vendor_sdks import SDKS, rows_of, told
from vendor_server import VendorServer
from vendor_servers import (
    AnthropicServer,
    BedrockServer,
    GeminiServer,
    MistralServer,
    OpenAIServer,
)

from swink_batch import Job, Tally, run, via_batch
from swink_batch.journal import FileEngine, Journal
from swink_batch.vendors import Vendor
from swink_core import (
    Call,
    Client,
    Done,
    Failure,
    Limits,
    ProviderFailure,
    RetryPolicy,
    Start,
    StopReason,
    StreamErrorKind,
    SwinkError,
    Usage,
    UsageError,
    hookimpl,
)
from swink_core.providers import HTTPProvider, LimitGate, cost_of
from swink_recorder.recorder import Recorder
from swink_recorder.store import open_store

VENDORS = {
    "openai": ("gpt-5.4-mini", OpenAIServer, "/v1", {"api": "chat"}),
    "mistral": ("mistral-small-latest", MistralServer, "/v1", {}),
    "anthropic": ("claude-haiku-4-5", AnthropicServer, "/v1", {}),
    "gemini": ("gemini-2.5-flash", GeminiServer, "/v1beta", {}),
    "bedrock": ("us.anthropic.claude-fable-5-2", BedrockServer, "", {"region": "us-east-1"}),
}

ROWS = [{"id": f"r{number}", "prompt": f"row r{number}"} for number in range(4)] + [
    {"id": "rb", "prompt": "row bad"},
    {"id": "rl", "prompt": "row lost"},
]


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(via_batch, "FIRST_POLL", 0.0001)


@pytest.fixture(params=VENDORS)
def vendor(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, VendorServer, dict[str, Any]]]:
    model, server, path, settings = VENDORS[request.param]
    with server() as running:
        root = running.url.removesuffix("/v1")
        own = {"base_url": f"{root}{path}", "api_key": "key", **settings}
        if request.param == "bedrock":
            del own["api_key"]
            for name, value in {
                "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
                "AWS_SECRET_ACCESS_KEY": "secret",
                "AWS_ENDPOINT_URL_S3": root,
                "SWINK_BEDROCK_BATCH_S3": "s3://bucket/folder",
                "SWINK_BEDROCK_BATCH_ROLE": "arn:aws:iam::1:role/batch",
            }.items():
                monkeypatch.setenv(name, value)
        yield f"{request.param}/{model}", running, {"client": {"providers": {request.param: own}}}


def written(path: Path) -> dict[str, dict[str, Any]]:
    return {line["id"]: line for line in map(json.loads, path.read_bytes().splitlines())}


async def asked(
    tmp_path: Path,
    vendor: tuple[str, VendorServer, dict[str, Any]],
    rows: list[dict[str, Any]] = ROWS,
    **more: Any,
) -> tuple[Tally, dict[str, dict[str, Any]]]:
    model, _, settings = vendor
    output = tmp_path / "answers.jsonl"
    tally = await run(model, rows, output, via="batch", **settings, **more)
    return tally, written(output)


async def test_rows_are_handed_over_and_answered_at_a_batchs_price(
    tmp_path: Path, vendor: tuple[str, VendorServer, dict[str, Any]]
) -> None:
    tally, lines = await asked(tmp_path, vendor)
    assert vendor[1].faults == []
    assert len(vendor[1].batches) == 1
    assert (tally.answered, tally.failed) == (4, 2)
    assert [lines[f"r{n}"]["text"] for n in range(4)] == [f"answer to row r{n}" for n in range(4)]
    assert lines["rb"]["error"]["kind"] == "invalid_request"
    assert lines["rl"]["error"]["kind"] == "batch_ended"
    info = Client().catalog.resolve(vendor[0]).info
    assert info is not None
    ordinary = cost_of(Usage(input=1_000_000, output=0), info.prices)
    assert ordinary is not None
    assert ordinary.total is not None
    assert lines["r0"]["cost"] == pytest.approx(ordinary.total / 2)


def failing_logins(
    monkeypatch: pytest.MonkeyPatch, server: VendorServer, kind: StreamErrorKind, times: int
) -> None:
    """Let the next polls of a batch fail before they are sent."""
    authorize, left = HTTPProvider.authorize, [kind] * times

    async def failing(self: HTTPProvider, *given: Any) -> Any:
        if server.batches and left and given[0].method == "GET":
            why = Failure("request", kind=left.pop(), code="token", message="the session expired")
            raise ProviderFailure(why)
        return await authorize(self, *given)

    monkeypatch.setattr(HTTPProvider, "authorize", failing)


@pytest.mark.parametrize("cancel", [False, True])
@pytest.mark.parametrize("vendor", ["openai", "anthropic"], indirect=True)
async def test_a_batch_is_not_lost_if_a_login_expires_while_it_runs(
    cancel: bool,
    tmp_path: Path,
    vendor: tuple[str, VendorServer, dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failing_logins(monkeypatch, vendor[1], StreamErrorKind.AUTH, 2)
    for how in (False, cancel):
        with pytest.raises(SwinkError, match="the session expired"):
            await asked(tmp_path, vendor, ROWS[:2], cancel=how)
    tally, lines = await asked(tmp_path, vendor, ROWS[:2])
    assert (tally.answered, len(vendor[1].batches)) == (2, 1)
    assert {name: line["text"] for name, line in lines.items()} == {
        f"r{n}": f"answer to row r{n}" for n in range(2)
    }


@pytest.mark.parametrize("code", ["no_credentials", "token"])
@pytest.mark.parametrize("cancel", [False, True])
@pytest.mark.parametrize("vendor", ["openai"], indirect=True)
async def test_an_expired_login_ends_a_run_before_any_row_is_written(
    code: str,
    cancel: bool,
    tmp_path: Path,
    vendor: tuple[str, VendorServer, dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logins = 0

    async def expired(self: HTTPProvider, *given: Any) -> Any:
        nonlocal logins
        logins += 1
        why = Failure("request", kind=StreamErrorKind.AUTH, code=code, message="it has expired")
        raise ProviderFailure(why)

    failing_logins(monkeypatch, vendor[1], StreamErrorKind.AUTH, 1)
    with pytest.raises(SwinkError, match="the session expired"):
        await asked(tmp_path, vendor, ROWS[:2])
    monkeypatch.setattr(HTTPProvider, "authorize", expired)
    with pytest.raises(UsageError, match="it has expired"):
        await asked(tmp_path, vendor, ROWS[:2], cancel=cancel)
    assert (logins, (tmp_path / "answers.jsonl").read_bytes()) == (1, b"")


@pytest.mark.parametrize("kind", [StreamErrorKind.AUTH, StreamErrorKind.NETWORK])
async def test_answers_are_not_lost_if_a_login_expires_while_they_are_parsed(
    kind: StreamErrorKind,
    tmp_path: Path,
    vendor: tuple[str, VendorServer, dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer = Vendor.answer

    async def failing(self: Vendor, *given: Any) -> Any:
        with monkeypatch.context() as patched:
            patched.setattr(HTTPProvider, "authorize", expired)
            return await answer(self, *given)

    async def expired(self: HTTPProvider, *given: Any) -> Any:
        why = Failure("request", kind=kind, code="no_credentials", message="the session expired")
        raise ProviderFailure(why)

    with monkeypatch.context() as patched:
        patched.setattr(Vendor, "answer", failing)
        with pytest.raises(SwinkError, match="the session expired"):
            await asked(tmp_path, vendor, ROWS[:2])
    tally, _ = await asked(tmp_path, vendor, ROWS[:2])
    assert (tally.answered, len(vendor[1].batches)) == (2, 1)


@pytest.mark.parametrize("vendor", ["openai", "anthropic"], indirect=True)
async def test_polling_goes_on_while_a_token_service_fails(
    tmp_path: Path,
    vendor: tuple[str, VendorServer, dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failing_logins(monkeypatch, vendor[1], StreamErrorKind.NETWORK, 2)
    tally, _ = await asked(tmp_path, vendor, ROWS[:2])
    assert (tally.answered, len(vendor[1].batches)) == (2, 1)


@pytest.mark.parametrize("vendor", ["openai", "mistral", "gemini", "bedrock"], indirect=True)
async def test_rows_of_a_batch_that_failed_as_a_whole_state_the_reason_and_are_submitted_again(
    tmp_path: Path, vendor: tuple[str, VendorServer, dict[str, Any]]
) -> None:
    vendor[1].rejects = "The queue of this account is full."
    tally, lines = await asked(tmp_path, vendor, ROWS[:2])
    assert tally.kinds == {"batch_failed": 2}
    assert lines["r0"]["error"]["message"] == (
        "The whole batch failed: The queue of this account is full."
    )
    vendor[1].rejects = ""
    tally, lines = await asked(tmp_path, vendor, ROWS[:2])
    assert (tally.answered, len(vendor[1].batches), vendor[1].faults) == (2, 2, [])


@pytest.mark.parametrize("vendor", ["openai"], indirect=True)
async def test_a_typed_answer_that_does_not_fit_is_counted_once(
    tmp_path: Path, vendor: tuple[str, VendorServer, dict[str, Any]]
) -> None:
    plain, _ = await asked(tmp_path, vendor, ROWS[:2], journal=tmp_path / "plain")
    tally, lines = await asked(tmp_path, vendor, ROWS[:2], journal=tmp_path / "typed", type=int)
    assert [line["error"]["kind"] for line in lines.values()] == ["bad_answer"] * 2
    assert (tally.tokens, tally.cost) == (plain.tokens, plain.cost)


@pytest.mark.parametrize("by", ["options", "model"])
@pytest.mark.parametrize("vendor", ["openai"], indirect=True)
async def test_an_answer_of_a_batch_is_read_and_counted_once(
    tmp_path: Path, vendor: tuple[str, VendorServer, dict[str, Any]], by: str
) -> None:
    retry = {"retry": RetryPolicy(retries={StreamErrorKind.INVALID_REQUEST: 3})}
    model, server, settings = vendor
    models = (model, retry) if by == "model" else model
    options = retry if by == "options" else {}
    output = tmp_path / "answers.jsonl"
    tally = await run(models, ROWS[-2:-1], output, via="batch", options=options, **settings)
    assert (tally.failed, tally.retries, len(server.batches)) == (1, 0, 1)
    assert "attempts" not in written(output)["rb"]


# (argument of the client or of a call that a batch cannot follow)
REFUSED: list[dict[str, Any]] = [
    {"options": {"limits": LimitGate(Limits(requests=3))}},
    {"client": {"limits": Limits(requests=4)}},
    {"client": {"gates": [LimitGate(Limits(cost=1.0))]}},
]


@pytest.mark.parametrize("given", REFUSED)
async def test_limits_that_would_refuse_delivered_answers_are_refused_before_submission(
    tmp_path: Path, given: dict[str, Any]
) -> None:
    with pytest.raises(UsageError, match="cannot restrict a batch"):
        await run("gpt-5.4-mini", ROWS, tmp_path / "answers.jsonl", via="batch", **given)


# (limits, rows that a first run hands over)
LIMITED = [
    (Limits(requests=2), 2),
    (Limits(tokens=5_500), 1),
    (Limits(cost=0.0), 0),
]


@pytest.mark.parametrize("vendor", ["openai"], indirect=True)
@pytest.mark.parametrize(("limits", "most"), LIMITED)
async def test_limits_bound_the_rows_that_are_handed_over_by_all_runs_of_a_journal(
    tmp_path: Path,
    vendor: tuple[str, VendorServer, dict[str, Any]],
    limits: Limits,
    most: int,
) -> None:
    given: dict[str, Any] = {"limits": limits, "options": {"max_tokens": 5_000}}
    first, lines = await asked(tmp_path, vendor, ROWS[:4], **given)
    assert first.stopped is not None
    assert "(limit: " in first.stopped
    assert (first.answered, len(lines)) == (most, most)
    again, _ = await asked(tmp_path, vendor, ROWS[:4], **given)
    assert (again.answered, again.kept) == (0, most)
    assert len(vendor[1].batches) == min(most, 1)
    whole, lines = await asked(tmp_path, vendor, ROWS[:4], **{**given, "limits": Limits()})
    assert (whole.answered, whole.stopped, len(lines)) == (4 - most, None, 4)


@pytest.mark.parametrize("vendor", ["openai"], indirect=True)
async def test_rows_of_a_batch_without_results_count_toward_the_limits(
    tmp_path: Path, vendor: tuple[str, VendorServer, dict[str, Any]], monkeypatch: Any
) -> None:
    tallies: list[Tally] = []

    async def poll(self: Any, id: str) -> None:
        tallies[-1].stop("enough")

    given: dict[str, Any] = {"limits": Limits(requests=3)}
    with monkeypatch.context() as context:
        context.setattr(via_batch.Vendor, "poll", poll)
        context.setattr(via_batch, "FIRST_POLL", 3600.0)
        stopped = asked(tmp_path, vendor, ROWS[:2], watch=tallies.append, **given)
        assert (await asyncio.wait_for(stopped, 10.0))[0].stopped == "enough"
    tally, lines = await asked(tmp_path, vendor, ROWS[:4], **given)
    assert tally.stopped is not None
    assert "(limit: requests=3)" in tally.stopped
    assert (tally.answered, len(lines), len(vendor[1].batches)) == (3, 3, 2)


async def test_a_run_that_is_stopped_leaves_its_batch_to_the_next_one(
    tmp_path: Path, vendor: tuple[str, VendorServer, dict[str, Any]], monkeypatch: Any
) -> None:
    tallies: list[Tally] = []

    async def poll(self: Any, id: str) -> None:
        tallies[0].stop("enough")

    with monkeypatch.context() as context:
        context.setattr(via_batch.Vendor, "poll", poll)
        context.setattr(via_batch, "FIRST_POLL", 3600.0)
        stopped = asked(tmp_path, vendor, watch=tallies.append)
        tally, lines = await asyncio.wait_for(stopped, 10.0)
    assert (tally.stopped, tally.done, lines) == ("enough", 0, {})
    tally, _ = await asked(tmp_path, vendor)
    assert (tally.answered, len(vendor[1].batches)) == (4, 1)


async def test_a_run_that_was_killed_while_it_waited_comes_back_to_its_batch(
    tmp_path: Path, vendor: tuple[str, VendorServer, dict[str, Any]], monkeypatch: Any
) -> None:
    async def killed(self: Any, id: str) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as context:
        context.setattr(via_batch.Vendor, "results", killed)
        context.setattr(via_batch.Vendor, "poll", failing)
        with pytest.raises(SwinkError, match="gone"):
            await asked(tmp_path, vendor)
    vendor[1].is_busy = True  # once; it is looked at again
    tally, lines = await asked(tmp_path, vendor)
    assert len(vendor[1].batches) == 1
    assert (tally.answered, len(lines)) == (4, 6)
    again, _ = await asked(tmp_path, vendor)
    assert (again.done, again.kept, len(vendor[1].batches)) == (0, 4, 1)


async def failing(self: Any, id: str) -> None:
    raise SwinkError("gone")


async def handed_over(
    tmp_path: Path, vendor: tuple[str, VendorServer, dict[str, Any]], **more: Any
) -> None:
    """Submit rows, and end before any result is known."""
    with pytest.MonkeyPatch.context() as context:
        context.setattr(via_batch.Vendor, "poll", failing)
        with pytest.raises(SwinkError, match="gone"):
            await asked(tmp_path, vendor, **more)


def prompts(vendor: tuple[str, VendorServer, dict[str, Any]]) -> list[list[str]]:
    """Return the prompts of each batch."""
    return [[prompt for _, prompt in each["requests"]] for each in vendor[1].batches.values()]


async def test_a_look_that_fails_ends_the_others(
    tmp_path: Path, vendor: tuple[str, VendorServer, dict[str, Any]], monkeypatch: Any
) -> None:
    looks: list[str] = []

    async def poll(self: Any, id: str) -> None:
        looks.append(id)
        if id == looks[0] and len({*looks}) == 2:
            raise SwinkError("gone")

    for number in (1, 2):
        await handed_over(
            tmp_path, vendor, shard=(number, 2), journal=tmp_path / "answers.jsonl.journal"
        )
    monkeypatch.setattr(via_batch.Vendor, "poll", poll)
    with pytest.raises(SwinkError, match="gone"):
        await asked(tmp_path, vendor)
    assert len({*looks}) == 2
    count = len(looks)
    await asyncio.sleep(0.05)
    assert len(looks) == count
    assert len(asyncio.all_tasks()) == 1


async def test_a_row_that_says_something_else_than_its_batch_is_handed_over_anew(
    tmp_path: Path, vendor: tuple[str, VendorServer, dict[str, Any]]
) -> None:
    await handed_over(tmp_path, vendor)
    changed = [{"id": "r0", "prompt": "another row"}, *ROWS[1:]]
    tally, lines = await asked(tmp_path, vendor, changed)
    assert prompts(vendor)[1:] == [["another row"]]
    assert (lines["r0"]["text"], lines["r1"]["text"]) == (
        "answer to another row",
        "answer to row r1",
    )
    assert (tally.answered, tally.failed, len(lines)) == (4, 2, 6)
    again, same = await asked(tmp_path, vendor, changed)
    assert (again.done, same, len(vendor[1].batches)) == (0, lines, 2)


@pytest.mark.parametrize("polls", [1, 3])
async def test_a_row_that_a_run_has_not_stays_for_one_that_has(
    polls: int, tmp_path: Path, vendor: tuple[str, VendorServer, dict[str, Any]]
) -> None:
    vendor[1].polls = polls
    await handed_over(tmp_path, vendor)
    for many in (2, 0, 6):
        _, lines = await asked(tmp_path, vendor, ROWS[:many])
        assert lines.keys() == {row["id"] for row in ROWS[:many]}
    assert [lines[f"r{n}"]["text"] for n in range(4)] == [f"answer to row r{n}" for n in range(4)]
    assert len(vendor[1].batches) == 1


async def test_each_shard_comes_back_to_its_own_batch(
    tmp_path: Path, vendor: tuple[str, VendorServer, dict[str, Any]]
) -> None:
    model, server, settings = vendor
    shared: dict[str, Any] = {"journal": tmp_path / "journal"}
    await handed_over(tmp_path, vendor, shard=(1, 2), **shared)
    tallies = await asyncio.gather(
        *(
            run(
                model,
                ROWS,
                tmp_path / f"{n}.jsonl",
                via="batch",
                shard=(n, 2),
                **shared,
                **settings,
            )
            for n in (2, 1)
        )
    )
    assert sum(tally.answered for tally in tallies) == 4
    assert len(server.batches) == 2
    assert sorted(chain(*prompts(vendor))) == sorted(row["prompt"] for row in ROWS)
    tally, lines = await asked(tmp_path, vendor, **shared)
    assert (tally.done, tally.kept, len(lines)) == (0, 4, 6)


async def test_a_run_without_shards_fetches_batches_of_shards(
    tmp_path: Path, vendor: tuple[str, VendorServer, dict[str, Any]]
) -> None:
    for number in (1, 2):
        await handed_over(
            tmp_path, vendor, shard=(number, 2), journal=tmp_path / "answers.jsonl.journal"
        )
    tally, lines = await asked(tmp_path, vendor)
    assert (tally.answered, len(lines), len(vendor[1].batches)) == (4, 6, 2)


async def test_a_run_killed_before_the_ledgers_last_line_sends_nothing_again(
    tmp_path: Path, vendor: tuple[str, VendorServer, dict[str, Any]]
) -> None:
    _, lines = await asked(tmp_path, vendor)
    ledger = tmp_path / "answers.jsonl.journal.batches" / "all.journal"
    ledger.write_bytes(b"".join(ledger.read_bytes().splitlines(keepends=True)[:2]))
    for _ in range(2):
        tally, same = await asked(tmp_path, vendor)
        assert (tally.kept, tally.kept_failed, same) == (4, 2, lines)
    tally, _ = await asked(tmp_path, vendor, retry_failed=True)
    assert (tally.failed, prompts(vendor)[1:]) == (2, [["row bad", "row lost"]])


async def test_a_ledger_that_something_else_wrote_to_is_named(
    tmp_path: Path, vendor: tuple[str, VendorServer, dict[str, Any]]
) -> None:
    await asked(tmp_path, vendor)
    ledger = tmp_path / "answers.jsonl.journal.batches" / "all.journal"
    ledger.write_bytes(ledger.read_bytes() + b"what is this\n")
    with pytest.raises(SwinkError, match=r"journal\.batches: line 4 is not a batch"):
        await asked(tmp_path, vendor)


async def test_submitted_batches_can_be_cancelled(
    tmp_path: Path, vendor: tuple[str, VendorServer, dict[str, Any]]
) -> None:
    vendor[1].polls = 1000
    await handed_over(tmp_path, vendor)
    tally, _ = await asked(tmp_path, vendor, cancel=True)
    assert vendor[1].faults == []
    kept = 0 if vendor[0].startswith("bedrock/") else 1  # a job that was stopped tells nothing
    assert (tally.answered, tally.kinds["batch_ended"]) == (kept, 6 - kept)
    again, lines = await asked(tmp_path, vendor, cancel=True, retry_failed=True)
    assert (again.done, len(lines), len(vendor[1].batches)) == (0, 6, 1)


async def test_cancelling_ends_batches_of_changed_rows_but_no_finished_ones(
    tmp_path: Path, vendor: tuple[str, VendorServer, dict[str, Any]]
) -> None:
    vendor[1].polls = 1000
    await handed_over(tmp_path, vendor)
    changed = [{**row, "prompt": f"another {row['prompt']}"} for row in ROWS]
    tally, _ = await asked(tmp_path, vendor, changed, cancel=True)
    assert [each["cancelled"] for each in vendor[1].batches.values()] == [True]
    assert tally.done == 0
    vendor[1].polls = 1
    await handed_over(tmp_path, vendor, rows=changed)
    tally, _ = await asked(tmp_path, vendor, changed, cancel=True)
    assert (tally.answered, vendor[1].faults) == (4, [])
    assert [each["cancelled"] for each in vendor[1].batches.values()] == [True, False]


@pytest.mark.skipif(
    "SWINK_BATCH_SDKS" not in os.environ, reason="make counterparts drives the SDKs"
)
async def test_the_vendors_sdk_sends_what_swink_sends_and_reads_the_same(
    tmp_path: Path, vendor: tuple[str, VendorServer, dict[str, Any]]
) -> None:
    provider, _, model = vendor[0].partition("/")
    drive, cancelled = SDKS[provider]
    (tmp_path / "other").mkdir()
    _, lines = await asked(tmp_path, vendor)
    await handed_over(tmp_path / "other", vendor)
    await asked(tmp_path / "other", vendor, cancel=True)
    rows = rows_of(vendor[1])
    names = {name: row["id"] for (name, _), row in zip(rows, ROWS, strict=True)}
    with VENDORS[provider][1]() as theirs:
        seen = await asyncio.to_thread(drive, theirs.url, model, rows)
        assert theirs.faults == []
        assert told(theirs) == told(vendor[1])
    assert {names[name]: text for name, text in seen.texts.items()} == {
        id: line["text"] for id, line in lines.items() if "text" in line
    }
    assert [names[name] for name in seen.refused] == ["rb"]
    assert seen.cancelled == cancelled


async def test_a_rejection_of_the_whole_batch_is_reported(
    tmp_path: Path, vendor: tuple[str, VendorServer, dict[str, Any]]
) -> None:
    for own in vendor[2]["client"]["providers"].values():
        own.update({"region": "eu-west-1"} if "region" in own else {"api_key": "another"})
    with pytest.raises(SwinkError, match="to submit a batch failed: HTTP 400"):
        await asked(tmp_path, vendor)


@pytest.mark.parametrize("vendor", ["openai"], indirect=True)
async def test_a_recorder_records_no_calls_of_a_batch(
    tmp_path: Path, vendor: tuple[str, VendorServer, dict[str, Any]]
) -> None:
    recorder = Recorder(tmp_path / "calls")
    vendor[2]["client"]["plugins"] = [recorder]
    tally, _ = await asked(tmp_path, vendor, ROWS[:2])
    await recorder.aclose()
    assert tally.answered == 2
    assert [*open_store(tmp_path / "calls").entries()] == []


@pytest.mark.parametrize("vendor", ["openai"], indirect=True)
async def test_a_row_that_a_plugin_answers_fails_and_is_submitted_without_the_plugin(
    tmp_path: Path, vendor: tuple[str, VendorServer, dict[str, Any]]
) -> None:
    class Answers:
        @hookimpl
        def stream(self, call: Call) -> AsyncIterator[Any]:
            return self.events()

        async def events(self) -> AsyncIterator[Any]:
            yield Start()
            yield Done(StopReason.STOP)

    vendor[2]["client"]["plugins"] = [Answers()]
    tally, lines = await asked(tmp_path, vendor, ROWS[:1])
    assert (tally.failed, len(vendor[1].batches)) == (1, 0)
    assert "a plugin answered the call of this row" in lines["r0"]["error"]["message"]
    del vendor[2]["client"]["plugins"]
    tally, _ = await asked(tmp_path, vendor, ROWS[:1])
    assert (tally.answered, len(vendor[1].batches)) == (1, 1)


async def test_a_provider_without_batches_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no batch API is available for echo"):
        await run("echo/echo", ["Hi"], tmp_path / "o.jsonl", via="batch")


async def test_a_chain_cannot_be_handed_over(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a batch uses one model"):
        await run(["echo/echo", "echo/think"], ["Hi"], tmp_path / "o.jsonl", via="batch")


async def test_a_batch_needs_a_journal_that_has_a_path(tmp_path: Path) -> None:
    job = Job(models="openai/gpt-5.4-mini", via="batch", client={"providers": {}})
    with closing(Journal(FileEngine(tmp_path / "journal"), job.told())) as journal:
        for given in (None, journal):
            found = evolve(job, journal=given).answers(["Hi"])
            with pytest.raises(UsageError, match="a batch needs the path of a journal"):
                await anext(found)
    assert not os.listdir(tmp_path)
