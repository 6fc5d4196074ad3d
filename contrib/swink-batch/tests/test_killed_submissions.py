"""A run that is killed while it submits a batch, and the run that goes on with its journal."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from kill_submissions import ANSWERS, ROWS, VENDORS, environment_of, job_of, series
from vendor_server import VendorServer

from swink_batch import run, via_batch
from swink_core import SwinkError

PROGRAM = """
import asyncio, json, sys
from swink_batch import run
jobs = json.loads(sys.argv[1])
rows = json.loads(sys.argv[2])
async def main():
    work = (run(m, rows, o, via="batch", client={"providers": p}) for m, o, p in jobs)
    await asyncio.gather(*work)
asyncio.run(main())
"""


class Vendors:
    """A server for each vendor, with what a run needs to reach it."""

    def __init__(self, stack: ExitStack, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.servers: dict[str, VendorServer] = {}
        self.jobs: dict[str, tuple[str, str, dict[str, Any]]] = {}
        for name, (_, kind, _, _) in VENDORS.items():
            server = self.servers[name] = stack.enter_context(kind())
            model, providers = job_of(name, server)
            if name == "bedrock":
                for variable, value in environment_of(server).items():
                    monkeypatch.setenv(variable, value)
            self.jobs[name] = model, str(folder / f"{name}.jsonl"), providers

    def kill_while_submitting(self, withholds: str) -> None:
        """Start a run for each vendor, and kill them once every submission waits."""
        for server in self.servers.values():
            server.withholds = withholds
        child = _child(self.jobs.values())
        try:
            for name, server in self.servers.items():
                assert server.is_holding.wait(30), name
        finally:
            child.kill()  # SIGKILL
            child.wait()
        for server in self.servers.values():
            server.withholds = ""

    async def resume(self, name: str) -> dict[str, str]:
        """Run one vendor's job again, and return the text of each row."""
        model, output, providers = self.jobs[name]
        await run(model, ROWS, output, via="batch", client={"providers": providers})
        return _texts(Path(output))


def _texts(output: Path) -> dict[str, str]:
    return {line["id"]: line["text"] for line in _lines(output)}


def _lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_bytes().splitlines()]


def _child(jobs: Any) -> subprocess.Popen[bytes]:
    arguments = json.dumps([*jobs]), json.dumps(ROWS)
    return subprocess.Popen([sys.executable, "-c", PROGRAM, *arguments])


@pytest.fixture
def vendors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Vendors]:
    monkeypatch.setattr(via_batch, "FIRST_POLL", 0.0001)
    with ExitStack() as stack:
        yield Vendors(stack, tmp_path, monkeypatch)


@pytest.mark.parametrize(("withholds", "arrived"), [("answer", 1), ("request", 0)])
async def test_each_row_is_submitted_once_however_far_the_killed_run_came(
    withholds: str, arrived: int, vendors: Vendors, monkeypatch: pytest.MonkeyPatch
) -> None:
    vendors.kill_while_submitting(withholds)
    monkeypatch.setattr(via_batch, "SETTLE_SECONDS", 0.0, raising=False)
    for name, server in vendors.servers.items():
        assert (name, len(server.batches)) == (name, arrived)
        assert (name, await vendors.resume(name)) == (name, ANSWERS)
        assert (name, len(server.batches)) == (name, 1)
        assert (name, await vendors.resume(name)) == (name, ANSWERS)
        [batch] = server.batches.values()
        assert (name, len(batch["requests"])) == (name, len(ROWS))


@pytest.mark.parametrize("name", VENDORS)
async def test_a_submission_whose_answer_is_lost_is_found_among_other_batches(
    name: str, vendors: Vendors, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    server = vendors.servers[name]
    model, output, providers = vendors.jobs[name]
    other: dict[str, Any] = {"via": "batch", "client": {"providers": providers}}
    await run(model, ROWS, tmp_path / "before.jsonl", **other)
    server.withholds = "cut"
    with pytest.raises(SwinkError):
        await run(model, ROWS, output, **other)
    server.withholds = ""
    await run(model, ROWS, tmp_path / "after.jsonl", **other)
    assert len(server.batches) == 3
    assert await vendors.resume(name) == ANSWERS
    assert len(server.batches) == 3


async def test_a_refused_submission_is_made_again_at_once(vendors: Vendors) -> None:
    model, output, _ = vendors.jobs["openai"]
    own = {**vendors.jobs["openai"][2]["openai"], "api_key": "another"}
    with pytest.raises(SwinkError, match="HTTP 400"):
        await run(model, ROWS, output, via="batch", client={"providers": {"openai": own}})
    assert await vendors.resume("openai") == ANSWERS
    asked = [(each.method, each.path) for each in vendors.servers["openai"].exchanges]
    assert ("GET", "/v1/batches") not in asked


async def test_of_two_runs_at_once_the_second_is_refused(vendors: Vendors) -> None:
    server = vendors.servers["openai"]
    server.withholds = "answer"
    child = _child([vendors.jobs["openai"]])
    try:
        assert server.is_holding.wait(30)
        with pytest.raises(SwinkError, match="another process"):
            await vendors.resume("openai")
    finally:
        child.kill()
        child.wait()
    assert len(server.batches) == 1


@pytest.mark.parametrize("name", VENDORS)
async def test_a_ledger_without_tokens_is_read_as_before(
    name: str, vendors: Vendors, tmp_path: Path
) -> None:
    assert await vendors.resume(name) == ANSWERS
    ledger = tmp_path / f"{name}.jsonl.journal.batches" / "all.journal"
    [begun] = [line for line in _lines(ledger) if line.get("batch") and not line.get("ended")]
    old = {"batch": begun["batch"], "rows": begun["rows"]}
    ledger.write_text(json.dumps(old) + "\n")
    (tmp_path / f"{name}.jsonl").unlink()
    for file in (tmp_path / f"{name}.jsonl.journal").iterdir():
        head = file.read_bytes().splitlines(keepends=True)[0]
        file.write_bytes(head)  # the job, without answers
    assert await vendors.resume(name) == ANSWERS
    assert len(vendors.servers[name].batches) == 1


@pytest.mark.heavy
def test_a_run_that_is_killed_at_some_line_submits_no_row_twice(tmp_path: Path) -> None:
    [found] = series(["openai"], tmp_path, random.Random(1), most=3)
    assert found.faults == []
    assert found.kills == 6
