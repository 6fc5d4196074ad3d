"""The same job on Ray Data: each batch of rows is a run of its own, on whatever node.

    rows = ray.data.read_json("requests.jsonl")
    answers = ask(rows, Job(models="openai/gpt-5.4-mini", prompt="Good or bad? {text}"),
                  journal="/shared/journal", actors=10, limits="actor")
    answers.write_json("/shared/answers")

All actors write one journal, a folder that all nodes have to see, each a file of its own: where a
node is lost, Ray gives its batch to another actor, which goes on where the first one was; a run
that is started again asks nothing twice. Clients are closed with their batch: an actor that ends
leaves no connection behind.
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
    """Return the dataset of the answers to a dataset of rows.

    At most `actors` work at a time, each on `batch` rows and with the job's own concurrency. With
    `limits`, they keep to the job's `rpm` and `tpm` together, and share what headers allow:
    `actor` has a Ray actor count, anything else is a Redis server's address. Each row has an id.
    Raises UsageError for a job that has a journal, a shard or limits of spending: they are one
    process's.
    """
    if job.journal is not None or job.shard != (1, 1) or job.limits is not None:
        raise UsageError(
            "a job on Ray has no journal, shard or limits of spending",
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
        num_cpus=0.5,  # it waits most of the time
    )


class _Asker:
    """What runs in an actor. It is made of values alone, so that Ray can make it anew."""

    def __init__(self, job: Job, journal: str, share: Callable[[], Turns] | None) -> None:
        self._job, self._folder, self._share = job, Path(journal), share
        self._journal: Journal | None = None

    def __call__(self, batch: Any) -> Iterator[dict[str, list[str]]]:
        rows = batch.to_pylist()
        if any(row.get(self._job.id_field) is None for row in rows):
            raise UsageError(
                f"a row on Ray has no {self._job.id_field!r}, by which it is known",
                resolution="Give each row its own id, or name the field (id_field).",
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
    return {"id": [str(answer.id) for answer in found], "answer": lines}  # a column has one type


class ActorTurns:
    """Turns that a Ray actor hands out to all processes of a cluster."""

    def __init__(self) -> None:
        self._keeper = _keeper()
        self._name = secrets.token_hex(8)

    async def take(self, key: str, amount: float, rate: float) -> float:
        """Take a turn and return the seconds to wait for it."""
        return float(await self._keeper.take.remote(key, amount, rate))

    async def members(self) -> int:
        """Return how many processes take turns."""
        return int(await self._keeper.members.remote(self._name))

    async def aclose(self) -> None:
        """Take no more turns."""
        await self._keeper.leave.remote(self._name)


class _Keeper:
    """The actor that counts."""

    def __init__(self) -> None:
        self._due: dict[str, float] = {}
        self._signs: dict[str, float] = {}  # when each process gave one last

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
