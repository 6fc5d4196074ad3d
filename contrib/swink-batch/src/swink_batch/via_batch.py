"""A run through a vendor's batch API: submit, wait, fetch.

Each step is recorded, so that a run can be resumed. A restarted run fetches the results of the
batches that the ledger lists for its rows, and submits the rows that are in no batch. Each
submission is recorded before it is made, with a token that the vendor stores: if a process is
killed before the vendor's answer, the next run finds the batch in the vendor's list, or submits the
rows again if it is not there.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import backoff

from swink_batch.answers import Answer, Failed, as_json, bad_row, failed, in_dollars, succeeded
from swink_batch.failures import BATCH_FAILED
from swink_batch.forms import Request
from swink_batch.ledger import Intent, Ledger, id_part, row_name
from swink_batch.runner import Runner, together
from swink_batch.vendors import Unsettled, Vendor, batch_price, batch_reservation
from swink_core import Charge, LimitReached, ProviderFailure, SwinkError, UsageError

__all__ = ["BatchRunner"]

FIRST_POLL = 5.0
"""The initial interval between two checks of a batch, in seconds; the interval then grows."""

LONGEST_POLL = 120.0

SETTLE_SECONDS = 10.0
"""How long to look for the batch of an uncertain submission in the vendor's list, in seconds.

A batch may appear in the list some seconds after its submission. The time is counted from the first
check of the resumed run, because the ledger does not contain the time at which the upload ended.
"""

_AGAIN = "Correct the cause, and start the run again: it submits these rows again."


class BatchRunner(Runner):
    """A run of a job through a vendor's batch API."""

    async def prepare(self) -> None:
        """Raise UsageError if the rows cannot be submitted."""
        if len(self._job.models) > 1:
            raise UsageError(
                "a batch uses one model, without fallbacks",
                resolution="Pass one model with --via batch.",
            )
        if not isinstance(self._job.journal, str | Path):
            raise UsageError(
                "a batch needs the path of a journal to resume from",
                resolution="Name one: journal=…",
            )
        for given in (self._job.client, self._job.options):
            for name in ("limits", "gates"):
                if given.get(name):
                    raise UsageError(
                        f"{name} of a client or of a call cannot restrict a batch, for which no "
                        "calls are made",
                        resolution="Set the limits of the job, such as limits=Limits(cost=10).",
                    )
        self._check_prices()
        self._look_at_rows()

    async def run(self) -> None:
        """Submit all rows, wait for them, and store the results."""
        [model] = self._job.each_model()
        if self._watch is not None:
            self._watch(self.tally)
        provider = self._client.catalog.resolve(model).provider
        ledger = Ledger(Path(f"{self._job.journal}.batches"), self._job.writer)
        try:
            async with Vendor(provider, self._job.client) as vendor:
                await self._hand_over(vendor, ledger)
        finally:
            ledger.close()
        self.tally.now = self._clock.time()

    async def _hand_over(self, vendor: Vendor, ledger: Ledger) -> None:
        open_ = ledger.open_batches()
        theirs = {name for names in open_.values() for name in names}
        intents = ledger.intents()
        doubtful = {name for intent in intents for name in intent.rows}
        full: LimitReached | None = None
        held = Charge()
        if self._spending is not None:
            self._spending.add(*ledger.held())
        bodies: dict[str, bytes] = {}  # request bodies of rows whose submission is uncertain
        kept: set[str] = set()
        waiting: dict[str, Request] = {}
        rows: list[tuple[str, bytes]] = []
        size = 0
        for request in self._rows:
            name = row_name(request)
            if (found := self._kept(request)) is not None:
                if name in theirs:
                    kept.add(name)
                await self._keep(found)
                continue
            if request.why is not None:
                await self._take(request, bad_row(request.id, request.why))
                continue
            is_new = name not in theirs and name not in doubtful and not self._job.cancel
            if is_new and full is not None:
                await self._leave(request)
                continue
            stream = self._stream(vendor, request)
            try:
                body = await vendor.request(stream)
            except SwinkError as error:
                if self._is_refused(error):
                    return
                await self._take(request, failed(request.id, error, self._model))
                continue
            if is_new and self._spending is not None:
                charge = batch_reservation(stream.call, vendor.api.share)
                full = self._spending.refusal(stream.call.model, charge)
                if full is not None:
                    await self._leave(request)
                    continue
                self._spending.add(charge, 1)
            waiting[name] = request
            if name in doubtful:
                bodies[name] = body
            if not is_new:
                continue
            if rows and (
                len(rows) >= vendor.api.most_requests or size + len(body) > vendor.api.most_bytes
            ):
                await self._submit(vendor, ledger, open_, rows, held)
                rows, size, held = [], 0, Charge()
            rows.append((name, body))
            size += len(body) + 200  # the other fields of the row's line
            if self._spending is not None:
                held += charge
        if rows:
            await self._submit(vendor, ledger, open_, rows, held)
        self.tally.under_way = len(waiting)
        asked = {*map(id_part, waiting)}
        for intent in intents:
            if not asked.isdisjoint(map(id_part, intent.rows)):
                await self._settle(vendor, ledger, open_, intent, bodies)
        fetched: dict[str, list[str]] = {}
        for id, names in open_.items():
            ours = [name for name in names if name in kept or id_part(name) in asked]
            if not waiting.keys().isdisjoint(names) or (
                self._job.cancel and not asked.isdisjoint(map(id_part, names))
            ):
                fetched[id] = ours
            elif there := [name for name in ours if name in kept]:
                ledger.end(id, there)  # an earlier run was killed before writing this line
        await together(
            self._fetch(vendor, ledger, id, ours, waiting) for id, ours in fetched.items()
        )
        for request in waiting.values():
            await self._leave(request)
        if full is not None:
            self.stop(f"{full.message}\n{full.resolution}")

    async def _submit(
        self,
        vendor: Vendor,
        ledger: Ledger,
        open_: dict[str, list[str]],
        rows: Sequence[tuple[str, bytes]],
        held: Charge,
    ) -> None:
        names = [name for name, _ in rows]
        assert self._journal is not None
        self._journal.begin()  # a batch requires the job's description
        token = secrets.token_hex(12)
        ledger.intend(token, names, time.time(), held)
        try:
            id = await vendor.submit(rows, token)
        except Unsettled:
            raise
        except SwinkError:
            ledger.withdraw(token)
            raise
        ledger.begin(id, names, token, held)
        open_[id] = names

    async def _settle(
        self,
        vendor: Vendor,
        ledger: Ledger,
        open_: dict[str, list[str]],
        intent: Intent,
        bodies: dict[str, bytes],
    ) -> None:
        """Find out whether a submission was accepted, and submit its rows again if not."""
        began = time.monotonic()

        async def look() -> Sequence[str] | None:
            settled = time.monotonic() - began >= SETTLE_SECONDS
            found = await vendor.find(intent)
            return found if found or settled else None

        if self.tally.stopped is not None or (found := await self._wait(_polled(look))) is None:
            return  # the next run will look again
        [ids] = found
        if ids:
            ledger.begin(ids[0], intent.rows, intent.token, intent.held)
            open_[ids[0]] = intent.rows
            return
        ledger.withdraw(intent.token)
        rows = [(name, bodies[name]) for name in intent.rows if name in bodies]
        if rows and not self._job.cancel:
            await self._submit(vendor, ledger, open_, rows, intent.held)

    async def _fetch(
        self,
        vendor: Vendor,
        ledger: Ledger,
        id: str,
        ours: Sequence[str],
        waiting: dict[str, Request],
    ) -> None:
        """Wait for a batch, and store the results of the rows whose ids are in `ours`.

        Ignore the results of other rows: a later run that contains those rows stores them.
        """
        why = Failed("batch_ended", "The batch ended without an answer to this row.")
        sources: Sequence[str] | None = None
        try:
            if self._job.cancel and await vendor.poll(id) is None:
                await vendor.cancel(id)
            if (
                self.tally.stopped is not None
                or (found := await self._wait(_polled(vendor.poll, id))) is None
            ):
                return  # the next run will look again
            [sources] = found
        except ProviderFailure as error:
            why = Failed(BATCH_FAILED, f"The whole batch failed: {error.message}", _AGAIN)
        for name, status, body in await vendor.results(id, sources) if sources else ():
            if (request := waiting.pop(name, None)) is not None:
                answer = await self._answer(vendor, request, status, body)
                await self._take(request, answer)
        for name in ours:
            if (request := waiting.pop(name, None)) is not None:
                await self._take(request, Answer(id=request.id, error=why))
        ledger.end(id, ours)
        self.tally.under_way = len(waiting)

    async def _answer(self, vendor: Vendor, request: Request, status: int, body: bytes) -> Answer:
        stream = self._stream(vendor, request)
        try:
            answer = succeeded(request.id, await vendor.answer(stream, status, body), self._model)
            if self._reads_json:
                answer = as_json(answer)
        except Unsettled:
            raise
        except SwinkError as error:
            answer = failed(request.id, error, self._model)
        answer.cost = in_dollars(batch_price(stream.call, stream.call.usage, vendor.api.share))
        answer.estimated = False
        return answer

    def _stream(self, vendor: Vendor, request: Request) -> Any:
        options: dict[str, Any] = {**self._job.options, **request.options, "transport": "buffered"}
        return self._job.stream(vendor.client, request.prompt, options)


async def _polled(look: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
    """Call a function, with increasing waits, until it returns something other than `None`."""
    waits: Iterator[Any] = backoff.expo(factor=FIRST_POLL, max_value=LONGEST_POLL)
    next(waits)  # its first value only primes the generator
    while (found := await look(*arguments)) is None:  # noqa: ASYNC110  # vendors tell only if asked
        await asyncio.sleep(backoff.full_jitter(next(waits)))
    return found
