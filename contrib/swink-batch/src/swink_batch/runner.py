"""`Runner`: reads rows one by one, sends them, and stores and delivers the results."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any, Self, TypeAlias, TypeVar

import msgspec

from swink import Client
from swink_batch.answers import Answer, as_json, bad_row, failed, succeeded
from swink_batch.failures import HOPELESS, MOST_HOPELESS, PASSING, refusal_of
from swink_batch.forms import Form, Request, unasked
from swink_batch.journal import Index, Journal, Kept
from swink_batch.limits import Limiter
from swink_batch.rows import Rows, count_rows, read_rows
from swink_batch.settings import Settings
from swink_batch.spending import Spending
from swink_batch.tally import Tally
from swink_core import LimitReached, Limits, SwinkError, Usage, UsageError
from swink_core.providers import Clock, LimitGate, cost_of

__all__ = ["Deliver", "Runner", "Watch", "together"]

log = logging.getLogger(__name__)

T = TypeVar("T")

Deliver: TypeAlias = Callable[[bytes], Awaitable[object]]
"""A function that receives the result of a row, as a line of JSON."""

Watch: TypeAlias = Callable[[Tally], object]
"""A function that receives a run's state when it begins, and whenever a row is done."""

MOST_AT_ONCE = 4
"""After this many rows that are not sent, a worker lets other tasks run."""


async def together(works: Iterable[Coroutine[Any, Any, object]]) -> None:
    """Run coroutines concurrently; if one fails, cancel the others before raising the error."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Runner:
    """One run of a job.

    `async with` opens the client, and on exit closes the client and the journal.
    """

    def __init__(
        self,
        job: Settings,
        client: Client,
        limiter: Limiter,
        journal: Journal | None,
        clock: Clock,
        rows: Rows,
        deliver: Deliver,
        watch: Watch | None,
        spending: Spending | None,
    ) -> None:
        self.tally = Tally(clock.time(), now=clock.time())
        self._job, self._client, self._limiter = job, client, limiter
        self._journal, self._clock, self._source = journal, clock, rows
        self._deliver, self._watch = deliver, watch
        self._form = Form(job.prompt, job.id_field)
        is_own = journal is not None and journal is not job.journal
        self._ids = journal.index if journal is not None and is_own else Index()
        self._to_come = len(self._ids) if is_own else 0  # answers of earlier runs
        self._passed = 0
        self._rows: Iterator[Request] = self._requests()
        # Tasks that wait for a limit, or for the end of a batch.
        self._waiting: set[asyncio.Task[Any]] = set()
        self.tally.on_stop = self._wait_no_more
        self.tally.held = limiter.held_to
        self._hopeless = 0
        self._refusal: UsageError | None = None
        self._spending = spending
        if journal is not None:
            self.tally.kept_cost = journal.charge.cost or 0.0
            if spending is not None:
                spending.add(journal.charge, journal.requests)
        self._model = str(job.each_model()[0])
        self._reads_json = job.type is None and bool(job.options.get("response_format"))

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *raised: object) -> None:
        try:
            await self._client.aclose()
            if self._job.turns is not None:
                await self._job.turns.aclose()
        finally:
            self.tally.on_stop = self.tally.held = None
            if self._journal is not None and self._journal is not self._job.journal:
                self._journal.close()

    def stop(self, why: str) -> None:
        """Read no further rows and drop rows that wait to be sent; calls in progress continue."""
        if self.tally.stopped is None:
            self.tally.stop(why)
            log.warning("the run stops: %s", why)

    async def prepare(self) -> None:
        """Raise UsageError if the run cannot begin, for example with an invalid first row."""
        self._check_prices()
        await self._limiter.join()
        self._look_at_rows()

    def _check_prices(self) -> None:
        if self._job.limits is not None and self._job.limits.cost is not None:
            for name in self._job.each_model():
                model = self._client.catalog.resolve(name)
                cost = cost_of(Usage(1, 1), model.info.prices if model.info else None)
                if cost is None or cost.total is None:
                    raise UsageError(
                        f"the price of {model} is unknown, so a cost limit cannot be enforced",
                        resolution="Set a limit of tokens or requests, or choose a model with "
                        "prices (swink models).",
                    )

    def _look_at_rows(self) -> None:
        self.tally.total = self._count()
        self._rows = chain([*islice(self._rows, 1)], self._rows)

    async def run(self) -> None:
        """Process all rows."""
        if self._watch is not None:
            self._watch(self.tally)
        await together(self._work() for _ in range(self._job.concurrency))
        self.tally.now = self._clock.time()
        self.tally.refused = sum(lane.refused for lane in self._limiter.lanes.values())

    def result(self) -> Tally:
        """Return the report. Raises UsageError if no row could be sent."""
        if self._refusal is not None:
            raise self._refusal
        return self.tally

    def lines(self) -> Iterator[bytes]:
        """Yield the lines of all rows that have a result, in the order of the rows."""
        assert self._journal is not None
        for _, request in self._own_rows(again=True):
            if (kept := self._journal.kept(request.key, request.check)) is not None:
                yield kept.line

    def _count(self) -> int | None:
        total = count_rows(self._source)
        return None if total is None else total // self._job.shard[1]

    def _own_rows(self, again: bool = False) -> Iterator[tuple[int, Request]]:
        """Yield the number and the request of each row that this process handles.

        A row with the id of an earlier row gets a request that is never sent: the row fails, and
        the failure is reported under the row's number. `again` is true when the rows are read a
        second time, to write the output in order.
        """
        number, count = self._job.shard
        for position, row in enumerate(read_rows(self._source), 1):
            request = self._form.request(position, row)
            if count > 1 and request.key % count != number - 1:
                continue
            name, twice = (
                str(position),
                f"the row has the same id as an earlier one, '{request.id}'",
            )
            why = request.why or f"{twice}: give each row a unique id"
            while not self._ids.meet(request.key, again):
                name = f"row {name}"  # a plain number could be the id of another row
                request = unasked(name, why)
            yield position, request

    def _requests(self) -> Iterator[Request]:
        for position, request in self._own_rows():
            if request.why is not None and position == 1:
                raise UsageError(
                    request.why,
                    title="The first row is invalid",
                    resolution="Correct the row, or the field names (--prompt, --id).",
                )
            yield request

    async def _work(self) -> None:
        for request in self._rows:  # all workers share the iterator
            if self.tally.stopped is not None and not self._hands_on:
                return
            if (kept := self._kept(request)) is not None:
                await self._keep(kept)
                continue
            if self.tally.stopped is not None:
                await self._leave(request)
                continue
            self.tally.under_way += 1
            try:
                answer = await self._ask(request)
            finally:
                self.tally.under_way -= 1
            if answer is not None:
                self._despair(answer)
                await self._take(request, answer)
            else:
                await self._leave(request)

    def _kept(self, request: Request) -> Kept | None:
        """Return a row's result from an earlier run; `None` if the row must be sent."""
        if self._journal is None or not self._job.resume:
            return None
        kept = self._journal.kept(request.key, request.check)
        if kept and kept.failure and (self._job.retry_failed or kept.failure in PASSING):
            return None
        return kept

    async def _keep(self, kept: Kept) -> None:
        if kept.failure is not None:
            self.tally.kept_failed += 1
        else:
            self.tally.kept += 1
        self._to_come -= 1
        await self._deliver(kept.line)
        await self._pass()

    async def _leave(self, request: Request) -> None:
        """Deliver the row's result from an earlier run, if there is one; do not send the row."""
        kept = self._journal.kept(request.key, request.check) if self._journal else None
        await (self._keep(kept) if kept is not None else self._pass())

    @property
    def _hands_on(self) -> bool:
        """Whether a stopped run reads the remaining rows of a file.

        While reading, the run writes the answers of earlier runs to the output. The new output
        therefore contains every earlier answer, except the answers of changed rows.
        """
        return self._to_come > 0 and isinstance(self._source, str | Path)

    async def _pass(self) -> None:
        """Count a row that is not sent; after `MOST_AT_ONCE` such rows, let other tasks run."""
        self._passed += 1
        if not self._passed % MOST_AT_ONCE:
            await asyncio.sleep(0)

    async def _take(self, request: Request, answer: Answer) -> None:
        if self._journal is not None:
            line = self._journal.add(request.key, request.check, answer)
        else:
            line = msgspec.json.encode(answer)
        self.tally.add(answer, self._clock.time())
        if self._watch is not None:
            self._watch(self.tally)
        await self._deliver(line)

    def _despair(self, answer: Answer) -> None:
        if (error := answer.error) is None or error.kind not in HOPELESS:
            self._hopeless = 0
            return
        self._hopeless += 1
        if self._hopeless >= MOST_HOPELESS:
            what = f"{self._hopeless} consecutive rows failed with: {error.message}"
            self.stop(f"{what}\n{error.resolution} A run that is started again asks them again.")

    def _is_refused(self, error: SwinkError) -> bool:
        """Return True if the error affects all rows, so that the run ends."""
        if not self.tally.answered and (refusal := refusal_of(error)) is not None:
            self._refusal = refusal
            self.stop(refusal.message)
        return self._refusal is not None

    async def _wait(self, waiting: Awaitable[T]) -> tuple[T] | None:
        """Wait for a result and return it in a tuple; return `None` if the run is stopped first."""
        me = asyncio.current_task()
        assert me is not None
        self._waiting.add(me)
        try:
            found = await waiting
        except asyncio.CancelledError:
            if self.tally.stopped is None or me.uncancel():
                raise
            return None
        finally:
            self._waiting.discard(me)
        return (found,) if self.tally.stopped is None else None

    def _wait_no_more(self) -> None:
        for waiting in self._waiting:
            waiting.cancel()

    async def _ask(self, request: Request) -> Answer | None:
        """Return the result of a row; `None` if the run was stopped before the row was sent."""
        while True:
            try:
                return await self._asked(request)
            except LimitReached as reached:
                if self._spending is None:
                    return failed(request.id, reached, self._model)
                if self._spending.is_idle:
                    self.stop(f"{reached.message}\n{reached.resolution}")
                is_over = self.tally.stopped is not None
                if is_over or await self._wait(self._spending.change()) is None:
                    return None

    async def _asked(self, request: Request) -> Answer | None:
        """Do the same as `_ask`, but raise LimitReached if a limit prevented the request."""
        if request.why is not None:
            return bad_row(request.id, request.why)
        row = LimitGate(Limits())  # counts the attempts of the call and of its corrections
        options: dict[str, Any] = {"limits": row, **self._job.options, **request.options}
        began = self._clock.time()
        try:
            stream = self._job.stream(self._client, request.prompt, options)
        except UsageError as error:
            return failed(request.id, error, self._model)
        call, target = stream.call, stream.call.attempt.target
        try:
            if self._spending and await self._wait(self._spending.admit(call)) is None:
                return None
            if await self._wait(self._limiter.admit(target)) is None:
                return None
            began = self._clock.time()
            answer = succeeded(request.id, await stream.result(), self._model)
            if self._reads_json and stream.call.options.response_format is not None:
                answer = as_json(answer)
        except SwinkError as error:
            if isinstance(error, LimitReached) and not call.attempts:
                raise
            if self._is_refused(error):
                return None
            answer = failed(request.id, error, self._model)
        finally:
            self._limiter.give_up(target)
            if self._spending is not None:
                self._spending.give_up(target)
            if not call.ended_at:
                await stream.aclose()
        answer.attempts = row.requests if options["limits"] is row else call.attempts
        answer.seconds = round(self._clock.time() - began, 4)
        return answer
