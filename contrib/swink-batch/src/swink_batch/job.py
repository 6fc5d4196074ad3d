"""`Job`: carries out a batch run.

The functions `run` and `answers` create a `Job` from settings and start it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias

from attrs import define, evolve

from swink import Client
from swink_batch.answers import Answer, read_answer
from swink_batch.limits import Limiter
from swink_batch.rows import Rows
from swink_batch.runner import Deliver, Runner, Watch
from swink_batch.settings import Settings, check_one_of
from swink_batch.spending import Spending
from swink_batch.tally import Tally
from swink_batch.via_batch import BatchRunner
from swink_core import InvalidContext, RetryPolicy, StreamErrorKind, SwinkError
from swink_core.providers import Clock, LoopClock

__all__ = ["RETRIES", "Job", "Order", "answers", "check_place", "run"]

RETRIES = RetryPolicy(
    retries={StreamErrorKind.THROTTLED: 20, StreamErrorKind.OVERLOADED: 10}, budget=600.0
)
"""The default retry policy. A batch run can wait, so it retries more often than other calls."""

Order: TypeAlias = Literal["completion", "input"]


@define(frozen=True, kw_only=True)
class Job(Settings):
    """A batch run, started with `run` or `answers`. `Settings` describes the fields."""

    async def answers(self, rows: Rows, watch: Watch | None = None) -> AsyncGenerator[Answer, None]:
        """Yield the result of each row as soon as possible, including results of earlier runs.

        Requests are sent only as fast as answers are consumed. Closing the iterator ends the run.
        """
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(self.concurrency)
        runner = self._runner(rows, queue.put, watch)

        async def work() -> None:
            try:
                async with runner:
                    await runner.prepare()
                    await runner.run()
                runner.result()
            except Exception:
                await queue.put(None)
                raise
            await queue.put(None)

        working = asyncio.ensure_future(work())
        try:
            while (line := await queue.get()) is not None:
                yield read_answer(line)
            await working
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)

    async def run(
        self,
        rows: Rows,
        output: str | Path,
        order: Order = "completion",
        watch: Watch | None = None,
    ) -> Tally:
        """Process all rows, write the answers as JSON lines, and return the report.

        With `order="completion"`, lines are written as answers arrive; with `order="input"`, lines
        are written in the order of the rows after all answers have arrived. A line is also written
        for a failed row. If the job has no journal, a journal is created beside the output; its
        name is the output's name with `.journal` appended. Raises SwinkError before any request if
        the output cannot be written.
        """
        check_one_of("order", Order, order)
        check_place(path := Path(output))
        job = self if self.journal is not None else evolve(self, journal=f"{output}.journal")
        if order == "input" and not isinstance(rows, str | Path):
            rows = [*rows]  # the rows are read again at the end

        async def deliver(line: bytes) -> None:
            if order == "completion":
                file.write(line + b"\n")
                file.flush()

        async with job._runner(rows, deliver, watch) as runner:
            await runner.prepare()
            with opened(path, whole=order == "input") as file:
                await runner.run()
                if order == "input":
                    for line in runner.lines():
                        file.write(line + b"\n")
        return runner.result()

    def _runner(self, rows: Rows, deliver: Deliver, watch: Watch | None) -> Runner:
        clock: Clock = self.client.get("clock") or LoopClock()
        limiter = Limiter(clock, self.concurrency, rpm=self.rpm, tpm=self.tpm, turns=self.turns)
        spending = Spending(self.limits) if self.limits is not None else None
        own = [limiter] if spending is None else [spending, limiter]
        gates = [*own, *self.client.get("gates", ())]
        given = {"retry": RETRIES, **self.client, "gates": gates, "clock": clock}
        client = Client(**given)
        with suppress(InvalidContext):  # only the path matters here
            self.stream(client, "", self.options)
        journal = self.open_journal()
        kind = BatchRunner if self.via == "batch" else Runner
        return kind(self, client, limiter, journal, clock, rows, deliver, watch, spending)


def check_place(path: Path) -> None:
    """Raise SwinkError if a path is a folder, or if its parent folder is missing."""
    if path.is_dir():
        why, resolution = "it is a folder", "Name a file."
    elif not path.parent.is_dir():
        why, resolution = (
            f"the folder {path.parent} does not exist",
            "Create it, or pass another file.",
        )
    else:
        return
    raise SwinkError(f"{path}: {why}", title="A file cannot be used", resolution=resolution)


@contextmanager
def opened(path: Path, whole: bool) -> Iterator[IO[bytes]]:
    """Open a file for writing.

    With `whole`, write to a temporary file, which replaces the file at `path` when the block ends
    without an error.
    """
    part = path.with_name(f".{path.name}.part") if whole else path
    try:
        with part.open("wb") as file:
            yield file
    except OSError as error:
        # Errors while writing to an open file do not contain its name.
        error.filename = error.filename or str(path)
        raise
    if whole:
        part.replace(path)


async def run(models: Any, rows: Rows, output: str | Path, **settings: Any) -> Tally:
    """Send all rows to a model and write the answers.

    `settings` are the fields of `Settings`; `Job.run` describes the other arguments.
    """
    order, watch = settings.pop("order", "completion"), settings.pop("watch", None)
    return await Job(models=models, **settings).run(rows, output, order, watch)


async def answers(models: Any, rows: Rows, **settings: Any) -> AsyncGenerator[Answer, None]:
    """Send all rows to a model and yield answers.

    `settings` are the fields of `Settings`; `Job.answers` describes the other arguments.
    """
    watch = settings.pop("watch", None)
    async with aclosing(Job(models=models, **settings).answers(rows, watch)) as found:
        async for answer in found:
            yield answer
