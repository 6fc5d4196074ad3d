"""`Job`: what is asked of whom, within which limits. `run` and `answers` carry it out."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias, get_args

from attrs import define, evolve, field

from swink import Client
from swink_batch.answers import Answer, read_answer
from swink_batch.forms import Form
from swink_batch.journal import Journal, engine_of
from swink_batch.limits import Limiter, Turns
from swink_batch.rows import Rows
from swink_batch.runner import Deliver, Runner, Watch
from swink_batch.tally import Tally
from swink_batch.via_batch import BatchRunner
from swink_core import (
    InvalidContext,
    InvalidModel,
    InvalidOption,
    Model,
    RetryPolicy,
    StreamErrorKind,
    SwinkError,
    UsageError,
)
from swink_core.providers import Clock, LoopClock

__all__ = ["CONCURRENCY", "RETRIES", "Job", "Order", "answers", "check_place", "run"]

CONCURRENCY = 256
"""Calls of a target that are under way at most, unless it is told otherwise."""

RETRIES = RetryPolicy(
    retries={StreamErrorKind.THROTTLED: 20, StreamErrorKind.OVERLOADED: 10}, budget=600.0
)
"""What is tried in a run: it has more time than a person who waits."""

Order: TypeAlias = Literal["completion", "input"]

Via: TypeAlias = Literal["calls", "batch"]


UNSAID = frozenset({"api_key", "headers", "base_url", "retry", "timeouts", "transport"})
"""Options that change no answer, or are nobody's business: a journal does not have them."""


def _chain(given: Any) -> list[Any]:
    chain = [*given] if isinstance(given, list | tuple) and not _is_pair(given) else [given]
    if not chain:
        raise InvalidModel(
            "the chain of models is empty", resolution="Name a model, as in acme/large."
        )
    for each in chain:
        model = each[0] if _is_pair(each) else each
        if not isinstance(model, str | Model):
            raise InvalidModel(
                "a model is a name, a Model, or a pair of one and its options, "
                f"not one of type {type(model).__name__}",
                resolution="Write provider/id, as in acme/large, or a list to fall back through.",
            )
    return chain


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], Mapping)


def _said(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in UNSAID}


def _options(job: Job, attribute: Any, value: Mapping[str, Any]) -> None:
    named = inspect.signature(Client.stream).parameters.keys() - {"options"}
    if taken := sorted(named & value.keys()):
        raise InvalidOption(
            f"no option {taken[0]!r}",
            resolution="Models and a type are the job's own, and what is asked is the rows'.",
        )


def _shard(value: Any) -> tuple[int, int]:
    number, count = value
    if not 1 <= number <= count:
        raise UsageError(
            f"there is no shard {number} of {count}",
            resolution="Shards are numbered from 1: 1/4, 2/4, 3/4, 4/4.",
        )
    return int(number), int(count)


def _template(job: Job, attribute: Any, value: str | None) -> None:
    Form(value)


def _one_of(name: str, kind: Any, value: object) -> None:
    if value not in (allowed := get_args(kind)):
        raise UsageError(
            f"{name} is {value!r}", resolution=f"Give {' or '.join(map(repr, allowed))}."
        )


def _via(job: Job, attribute: Any, value: object) -> None:
    _one_of("via", Via, value)


def _turns(job: Job, attribute: Any, value: object) -> None:
    if value is not None and not isinstance(value, Turns):
        raise UsageError(
            f"turns are of type {type(value).__name__}, which hands out none",
            resolution="Give swink_batch.shared.RedisTurns(url).",
        )


def _cancel(job: Job, attribute: Any, value: bool) -> None:
    if value and job.via != "batch":
        raise UsageError(
            "there is nothing to cancel: rows are not handed over, but asked in calls",
            resolution="Add --via batch, with which the rows were handed over (via='batch'), or "
            "leave --cancel out.",
        )


def _positive(job: Job, attribute: Any, value: float | None) -> None:
    if value is not None and not value > 0:  # nor is NaN
        raise UsageError(f"{attribute.name} is {value}", resolution="Give a number above 0.")


@define(frozen=True, kw_only=True)
class Job:
    """What is asked of whom, within which limits.

    `models` is a model, or several to fall back through, each perhaps a pair of one and its own
    options. `prompt` is a template whose fields in braces, `{text}`, stand for a row's values
    (`None`: each row has its own `prompt` or `messages`); `type` is the type of answers, `options`
    are those of each call. `id_field` names the field that tells rows apart.

    At most `concurrency` calls of a model are under way; `rpm` and `tpm` are requests and tokens a
    minute, where they are known; `turns` shares limits with other processes (`None`: nobody). No
    call begins that `budget`, in US dollars over all runs of the journal, might not pay for.

    `journal` keeps what was answered: a database (`.db`, `.sqlite`, `.sqlite3`) or a folder, or a
    journal that is open, and stays so; `None` is none. Rows that failed in an earlier run by no
    fault of theirs are asked again, the others with `retry_failed`, and all rows without `resume`,
    whose new answers take the place of the old. `shard` is `(i, n)`: of `n` processes that share a
    journal this one asks its part of the rows. `client` are arguments of `swink.Client`:
    credentials, addresses.

    `via="batch"` hands all rows over to the batch API of the model's vendor, which answers within a
    day at a lower price; `cancel` ends what was handed over, and keeps what was answered by then.
    """

    models: list[Any] = field(converter=_chain, repr=False)
    prompt: str | None = field(default=None, validator=_template)
    type: Any = None
    options: Mapping[str, Any] = field(factory=dict, validator=_options, repr=False)
    id_field: str = "id"
    concurrency: int = field(default=CONCURRENCY, validator=_positive)
    rpm: float | None = field(default=None, validator=_positive)
    tpm: float | None = field(default=None, validator=_positive)
    turns: Turns | None = field(default=None, validator=_turns, repr=False)
    budget: float | None = field(default=None, validator=_positive)
    journal: str | Path | Journal | None = None
    resume: bool = True
    retry_failed: bool = False
    shard: tuple[int, int] = field(default=(1, 1), converter=_shard)
    via: Via = field(default="calls", validator=_via)
    cancel: bool = field(default=False, validator=_cancel)
    client: Mapping[str, Any] = field(factory=dict, repr=False)

    def open_journal(self) -> Journal | None:
        """Open the journal. Raises UsageError where it is another job's, or is being written."""
        if self.journal is None:
            return None
        if isinstance(self.journal, Journal):
            self.journal.read()  # what others have added
            return self.journal
        return Journal(engine_of(self.journal, self.writer), self.told())

    @property
    def writer(self) -> str:
        """The name of this process among those that write the journal."""
        number, count = self.shard
        return "all" if count == 1 else f"{number}-of-{count}"

    def told(self) -> dict[str, Any]:
        """Return what the answers depend on, for the journal's first line."""
        models = [(m[0], _said(m[1])) if _is_pair(m) else m for m in self.models]
        told: dict[str, Any] = {"models": [*map(str, models)], "prompt": self.prompt}
        type_ = repr(self.type) if self.type else None
        return {**told, "options": _said(self.options), "type": type_, "id_field": self.id_field}

    def each_model(self) -> list[str | Model]:
        """Return the models of the chain, without their options."""
        return [model[0] if _is_pair(model) else model for model in self.models]

    async def answers(self, rows: Rows, watch: Watch | None = None) -> AsyncGenerator[Answer, None]:
        """Yield what becomes of each row as it does, or has become of it in an earlier run.

        Nothing is asked faster than answers are taken. Closing the iterator ends the run.
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
        """Ask all rows, write the answers as JSON lines, and return what it came to.

        In the `order` of completion lines are written as answers come; in that of the input, when
        all have come. A row that failed has a line too. Without a `journal`, one is kept beside
        the output, under its name and `.journal`. Raises SwinkError, before anything is asked,
        where the output cannot be.
        """
        _one_of("order", Order, order)
        check_place(path := Path(output))
        job = self if self.journal is not None else evolve(self, journal=f"{output}.journal")
        if order == "input" and not isinstance(rows, str | Path):
            rows = [*rows]  # they are gone through once more at the end

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
        gates = [limiter, *self.client.get("gates", ())]
        given = {"retry": RETRIES, **self.client, "gates": gates, "clock": clock}
        client = Client(**given)
        with suppress(InvalidContext):  # nothing is said: all else is right
            client.stream(self.models, "", type=self.type, **self.options)
        journal = self.open_journal()
        kind = BatchRunner if self.via == "batch" else Runner
        return kind(self, client, limiter, journal, clock, rows, deliver, watch)


def check_place(path: Path) -> None:
    """See that a file may be there. Raises SwinkError for what is a folder, or is in none."""
    if path.is_dir():
        why, resolution = "it is a folder", "Name a file."
    elif not path.parent.is_dir():
        why, resolution = f"there is no folder {path.parent}", "Make it, or name another file."
    else:
        return
    raise SwinkError(f"{path}: {why}", title="A file cannot be used", resolution=resolution)


@contextmanager
def opened(path: Path, whole: bool) -> Iterator[IO[bytes]]:
    """Yield a file to write; a `whole` one takes the path's place when all is written."""
    part = path.with_name(f".{path.name}.part") if whole else path
    try:
        with part.open("wb") as file:
            yield file
    except OSError as error:
        error.filename = error.filename or str(path)  # Python names none that is open already
        raise
    if whole:
        part.replace(path)


async def run(models: Any, rows: Rows, output: str | Path, **settings: Any) -> Tally:
    """Ask a model all rows and write the answers; see `Job` for the settings, and `Job.run`."""
    order, watch = settings.pop("order", "completion"), settings.pop("watch", None)
    return await Job(models=models, **settings).run(rows, output, order, watch)


async def answers(models: Any, rows: Rows, **settings: Any) -> AsyncGenerator[Answer, None]:
    """Ask a model all rows and yield the answers; see `Job` for the settings, and `Job.answers`."""
    watch = settings.pop("watch", None)
    async with aclosing(Job(models=models, **settings).answers(rows, watch)) as found:
        async for answer in found:
            yield answer
