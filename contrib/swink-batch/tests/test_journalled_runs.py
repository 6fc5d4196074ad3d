"""Runs of one job again and again: one suite for the journal's engines, and for Ray.

Ray is of no environment that these tests are run in every day: `make counterparts` runs them with
it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from kills import fetched, row_server

from swink_batch import Job

Rows = list[dict[str, Any]]

Lines = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with row_server() as url:
        yield url


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    import ray

    ray.init(
        "local", num_cpus=2, log_to_driver=False, logging_level="ERROR", include_dashboard=False
    )
    yield ray
    ray.shutdown()


WITH_RAY = pytest.param(
    "ray",
    marks=(
        pytest.mark.skipif(not find_spec("ray"), reason="Ray is not here"),
        pytest.mark.filterwarnings("default"),  # Ray uses what it deprecates
    ),
)


@pytest.fixture(params=["files", "sqlite", WITH_RAY])
def way(request: pytest.FixtureRequest) -> str:
    if request.param == "ray":
        request.getfixturevalue("ray")
    return str(request.param)


@pytest.fixture
def journal(way: str, tmp_path: Path) -> Path:
    return tmp_path / ("journal.sqlite" if way == "sqlite" else "journal")


@pytest.fixture
def ask(way: str, journal: Path, tmp_path: Path, url: str) -> Callable[..., Lines]:
    """Carries out a job on rows, and returns the lines of all of them by their ids."""
    own = {"openai": {"base_url": f"{url}/v1", "api_key": "x", "api": "chat"}}

    def asked(rows: Rows, *, way: str = way, model: str = "openai/rows", **more: Any) -> Lines:
        job = Job(models=model, client={"providers": own}, **more)
        if way == "ray":
            lines = on_ray(rows, job, journal)
        else:
            output = tmp_path / "answers.jsonl"
            asyncio.run(evolve(job, journal=journal).run(rows, output))
            lines = output.read_text("utf-8").splitlines()
        found = [json.loads(line) for line in lines]
        by_id = {line["id"]: line for line in found}
        assert len(by_id) == len(found)
        return by_id

    return asked


def on_ray(rows: Rows, job: Job, journal: Path) -> list[str]:
    import ray.data

    from swink_batch.on_ray import ask

    data = ray.data.from_items([{"row": json.dumps(row)} for row in rows])
    data = data.map(lambda held: json.loads(held["row"]))
    return [row["answer"] for row in ask(data, job, journal=journal, batch=5).take_all()]


@pytest.fixture
def counted(url: str) -> Callable[[Rows], list[int]]:
    """Return how often each row was requested."""

    def counts(rows: Rows) -> list[int]:
        asked = fetched(f"{url}/counts")
        return [asked.get(row["id"], 0) for row in rows]

    return counts


@pytest.fixture
def rows(way: str, request: pytest.FixtureRequest) -> Rows:
    """Rows that no other test has: the server counts them all."""
    name = f"{way}-{request.node.originalname}"
    return [{"id": f"{name}-{n}", "prompt": f"row {name}-{n}"} for n in range(15)]


def test_a_second_run_sends_nothing_and_a_longer_one_the_rest(
    ask: Any, counted: Any, rows: Rows
) -> None:
    for count in (10, 10, 15):
        found = ask(rows[:count])
        assert {id: line["text"] for id, line in found.items()} == {
            row["id"]: f"answer to {row['id']}" for row in rows[:count]
        }
        assert counted(rows) == [1] * count + [0] * (15 - count)


def test_a_changed_row_is_sent_again(ask: Any, counted: Any, rows: Rows) -> None:
    ask(rows)
    changed = [*rows]
    changed[3] = {**rows[3], "prompt": f"something else than {rows[3]['id']}"}
    ask(changed)
    assert counted(rows) == [1 + (n == 3) for n in range(15)]


def test_a_failed_row_is_retried_on_demand(ask: Any, counted: Any, rows: Rows) -> None:
    broken = [*rows[:4], {**rows[4], "prompt": ""}]
    for _ in range(2):
        kinds = {id: line["error"]["kind"] for id, line in ask(broken).items() if "error" in line}
        assert kinds == {rows[4]["id"]: "bad_row"}
    assert "error" in ask(broken, retry_failed=True)[rows[4]["id"]]
    assert counted(rows[:5]) == [1, 1, 1, 1, 0]


def test_another_job_does_not_take_the_answers_of_this_one(ask: Any, rows: Rows) -> None:
    ask(rows[:2])
    with pytest.raises(Exception, match=r"models was \['openai/rows'\]"):
        ask(rows[:2], model="openai/others")


def test_rows_answered_by_another_process_are_not_sent_again(
    ask: Any, counted: Any, rows: Rows
) -> None:
    part = ask(rows, way="shard", shard=(1, 2))
    assert 0 < len(part) < len(rows)
    assert len(ask(rows)) == len(rows)
    assert counted(rows) == [1] * len(rows)


@pytest.mark.parametrize("way", [WITH_RAY], indirect=True)
def test_a_row_on_ray_has_an_id(ask: Any) -> None:
    with pytest.raises(Exception, match="has no id field 'id'"):
        ask([{"prompt": "Hi"}])
