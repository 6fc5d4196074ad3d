"""The same job on Ray Data: each batch of rows is a run of its own, on whatever node.

    rows = ray.data.read_json("requests.jsonl")
    answers = ask(rows, Job(models="openai/gpt-5.4-mini", prompt="Good or bad? {text}"),
                  journal="/shared/journal", actors=10, limits="actor")
    answers.write_json("/shared/answers")

A batch has a journal of its own, a folder in `journal` named after its rows: where its node is
lost, Ray gives the batch to another actor, which goes on where the first one was. All nodes have to
see the folder. Clients are closed with their batch: an actor that ends leaves no connection behind.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
from attrs import evolve

from swink_batch.answers import read_answer
from swink_batch.job import Job
from swink_batch.limits import Turns
from swink_batch.limits.turns import ALIVE_SECONDS, turn
from swink_core import UsageError

__all__ = ["ActorTurns", "ask"]

BATCH = 1000
"""Rows that an actor is given at a time, unless it is told otherwise."""

KEEPER = "swink-batch-limits"

_encode = msgspec.json.Encoder(enc_hook=str).encode


def ask(
    rows: Any,
    job: Job,
    *,
    journal: str | Path,
    actors: int = 2,
    batch: int = BATCH,
    limits: str | None = None,
) -> Any:
    """Return the dataset of the answers to a dataset of rows.

    At most `actors` work at a time, each with the job's own concurrency. With `limits`, they keep
    to the job's `rpm` and `tpm` together, and share what headers allow: `actor` has a Ray actor
    count, anything else is a Redis server's address. Raises UsageError for a job that has a
    journal, a shard or a budget of its own: they are one process's.
    """
    if job.journal is not None or job.shard != (1, 1) or job.budget is not None:
        raise UsageError(
            "a job on Ray has no journal, shard or budget of its own",
            resolution="Pass journal=… here. Ray divides the rows; a budget needs one process.",
        )
    from ray.data import ActorPoolStrategy

    if limits == "actor":
        _keeper()
    return rows.map_batches(
        _Asker,
        fn_constructor_args=(job, str(journal), limits),
        batch_size=batch,
        batch_format="pyarrow",
        compute=ActorPoolStrategy(min_size=1, max_size=actors),
        num_cpus=0.5,  # it waits most of the time
    )


class _Asker:
    """What runs in an actor. It is made of values alone, so that Ray can make it anew."""

    def __init__(self, job: Job, journal: str, limits: str | None) -> None:
        self._job, self._journal, self._limits = job, Path(journal), limits

    def __call__(self, batch: Any) -> Iterator[dict[str, list[str]]]:
        self._journal.mkdir(parents=True, exist_ok=True)
        rows = batch.to_pylist()
        name = blake2b(_encode(rows), digest_size=16).hexdigest()
        job = evolve(self._job, journal=self._journal / name, turns=self._turns())
        output = self._journal / f"{name}.jsonl"
        asyncio.run(job.run(rows, output, "input"))
        with output.open("rb") as file:
            lines = [*file]
        yield {
            "id": [read_answer(line).id for line in lines],
            "answer": [*map(bytes.decode, lines)],
        }

    def _turns(self) -> Turns | None:
        if self._limits is None:
            return None
        if self._limits == "actor":
            return ActorTurns()
        from swink_batch.shared import RedisTurns

        return RedisTurns(self._limits)


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

    named = {"name": KEEPER, "get_if_exists": True, "lifetime": "detached", "num_cpus": 0}
    return ray.remote(_Keeper).options(**named, max_restarts=-1, max_task_retries=-1).remote()
