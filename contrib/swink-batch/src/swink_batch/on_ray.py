"""Run a job on Ray Data: each batch of rows is a separate run, on any node.

    rows = ray.data.read_json("requests.jsonl")
    answers = ask(rows, Job(models="openai/gpt-5.4-mini", prompt="Good or bad? {text}"),
                  journal="/shared/journal", actors=10, limits="actor")
    answers.write_json("/shared/answers")

All actors write to one journal, a folder that all nodes can access, each to a separate file. If a
node is lost, Ray gives its batch to another actor, which resumes the batch. A run that is started
again sends nothing twice. Clients are closed after each batch, so that an actor leaves no
connection open.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from attrs import evolve

from swink_batch.job import Job
from swink_batch.journal import FileEngine, Journal
from swink_batch.limits import Turns
from swink_batch.limits.turns import ALIVE_SECONDS, turn
from swink_core import UsageError

__all__ = ["ActorTurns", "ask"]


def ask(
    rows: Any,
    job: Job,
    *,
    journal: str | Path,
    actors: int = 2,
    batch: int = 1000,
    limits: str | None = None,
) -> Any:
    """Return a dataset with the answers to a dataset of rows.

    At most `actors` Ray actors run at a time. Each actor gets `batch` rows at a time, and sends
    them with the job's concurrency. With `limits`, the actors share the job's `rpm` and `tpm`, and
    the quota in response headers; they coordinate through another Ray actor (`"actor"`) or through
    the Redis server whose address `limits` contains. Each row must have an id. Raises UsageError
    for a job with a journal, a shard or spending limits, which require a single process.
    """
    if job.journal is not None or job.shard != (1, 1) or job.limits is not None:
        raise UsageError(
            "a job on Ray has no journal, shard or spending limits",
            resolution="Pass journal=… here. Ray divides the rows; limits need one process.",
        )
    from ray.data import ActorPoolStrategy

    from swink_batch.shared import RedisTurns

    share: Callable[[], Turns] | None = partial(RedisTurns, limits) if limits else None
    if limits == "actor":
        _keeper()
        share = ActorTurns
    return rows.map_batches(
        _Asker,
        fn_constructor_args=(job, str(journal), share),
        batch_size=batch,
        batch_format="pyarrow",
        compute=ActorPoolStrategy(min_size=1, max_size=actors),
        num_cpus=0.5,  # an actor mostly waits for responses
    )


class _Asker:
    """The state of an actor. It contains only plain values, so that Ray can recreate the actor."""

    def __init__(self, job: Job, journal: str, share: Callable[[], Turns] | None) -> None:
        self._job, self._folder, self._share = job, Path(journal), share
        self._journal: Journal | None = None

    def __call__(self, batch: Any) -> Iterator[dict[str, list[str]]]:
        rows = batch.to_pylist()
        if any(row.get(self._job.id_field) is None for row in rows):
            raise UsageError(
                f"a row on Ray has no id field {self._job.id_field!r}",
                resolution="Give each row an id, or set its field (id_field).",
            )
        if self._journal is None:
            engine = FileEngine(self._folder, secrets.token_hex(8))
            self._journal = Journal(engine, self._job.told())
        turns = self._share() if self._share is not None else None
        job = evolve(self._job, journal=self._journal, turns=turns)
        yield asyncio.run(_answered(job, rows))


async def _answered(job: Job, rows: list[Any]) -> dict[str, list[str]]:
    found = [answer async for answer in job.answers(rows)]
    lines = [msgspec.json.encode(answer).decode() for answer in found]
    # A column must have a single type.
    return {"id": [str(answer.id) for answer in found], "answer": lines}


class ActorTurns:
    """Turns that a Ray actor assigns to all processes of a cluster."""

    def __init__(self) -> None:
        self._keeper = _keeper()
        self._name = secrets.token_hex(8)

    async def take(self, key: str, amount: float, rate: float) -> float:
        """Take a turn and return the seconds to wait for it."""
        return float(await self._keeper.take.remote(key, amount, rate))

    async def members(self) -> int:
        """Return the number of processes that take turns."""
        return int(await self._keeper.members.remote(self._name))

    async def aclose(self) -> None:
        """Leave the group of processes that take turns."""
        await self._keeper.leave.remote(self._name)


class _Keeper:
    """The actor that assigns turns to all processes."""

    def __init__(self) -> None:
        self._due: dict[str, float] = {}
        self._signs: dict[str, float] = {}  # when each process last called `members`

    def take(self, key: str, amount: float, rate: float) -> float:
        self._due[key], wait = turn(self._due.get(key, 0.0), time.monotonic(), amount, rate)
        return wait

    def members(self, name: str) -> int:
        now = self._signs[name] = time.monotonic()
        return sum(now - at < ALIVE_SECONDS for at in self._signs.values())

    def leave(self, name: str) -> None:
        self._signs.pop(name, None)


def _keeper() -> Any:
    import ray

    named = {"name": "swink-batch-limits", "get_if_exists": True, "lifetime": "detached"}
    kept = {"max_restarts": -1, "max_task_retries": -1, "num_cpus": 0}
    return ray.remote(_Keeper).options(**named, **kept).remote()
