"""A run over a vendor's batch API: hand over, wait, fetch; each step kept, so that it resumes.

Beside the journal stands a ledger, a folder named after it and `.batches`, with a line for each
batch that was begun, and one when its results are in the journal. A run that is started again looks
after the batches that it finds there, and hands over what is in none. A process that is killed
between a vendor's answer and the ledger's line leaves a batch that nobody fetches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import backoff
import msgspec

from swink_batch.answers import Answer, Failed, as_json, failed, succeeded
from swink_batch.forms import Request
from swink_batch.journal import FileEngine
from swink_batch.runner import Runner
from swink_batch.vendors import Vendor, batch_price
from swink_core import SwinkError, UsageError

__all__ = ["BatchRunner"]

FIRST_POLL = 5.0
"""Seconds until a batch is looked at again, at first; then ever longer."""

LONGEST_POLL = 120.0


class _Line(msgspec.Struct, omit_defaults=True):
    """A line of the ledger: a batch was begun with these rows, or its results are in."""

    batch: str
    rows: list[str] = []
    ended: bool = False


class BatchRunner(Runner):
    """A run of a job for which one vendor's batch API answers."""

    async def prepare(self) -> None:
        """See that the rows can be handed over. Raises UsageError where they cannot."""
        if not self._is_one_model() and len(self._job.models) > 1:
            raise UsageError(
                "a batch has one model, and no other to fall back to",
                resolution="Name one model with --via batch.",
            )
        if self._job.journal is None:
            raise UsageError(
                "a batch needs a journal to come back to", resolution="Name one: journal=…"
            )
        if self._job.budget is not None:
            raise UsageError(
                "no budget stops a batch, which is handed over as a whole",
                resolution="Leave the budget out, or --via batch.",
            )
        self._look_at_rows()

    async def run(self) -> None:
        """Hand over all rows, wait for them, and keep what became of them."""
        [model] = self._job.each_model()
        self._model = str(model)
        if self._watch is not None:
            self._watch(self.tally)
        provider = self._client.catalog.resolve(model).provider
        ledger = FileEngine(Path(f"{self._job.journal}.batches"))
        try:
            async with Vendor(provider, self._job.client) as vendor:
                await self._hand_over(vendor, ledger)
        finally:
            ledger.close()
        self.tally.now = self._clock.time()

    async def _hand_over(self, vendor: Vendor, ledger: FileEngine) -> None:
        open_ = _open_batches(ledger)
        theirs = {row for rows in open_.values() for row in rows}
        waiting: dict[str, Request] = {}
        rows: list[tuple[str, bytes]] = []
        size = 0
        for request in self._rows:
            if (kept := self._kept(request)) is not None:
                await self._keep(kept)
                continue
            name = f"row-{request.key:016x}"
            try:
                body = await vendor.request(self._stream(vendor, request))
            except SwinkError as error:
                await self._take(request, failed(request.id, error, self._model))
                continue
            waiting[name] = request
            if name in theirs or self._job.cancel:
                continue
            if rows and (
                len(rows) >= vendor.api.most_requests or size + len(body) > vendor.api.most_bytes
            ):
                await self._submit(vendor, ledger, open_, rows)
                rows, size = [], 0
            rows.append((name, body))
            size += len(body) + 200  # with what stands around it
        if rows:
            await self._submit(vendor, ledger, open_, rows)
        self.tally.under_way = len(waiting)
        await asyncio.gather(*(self._fetch(vendor, ledger, id, open_[id], waiting) for id in open_))

    async def _submit(
        self,
        vendor: Vendor,
        ledger: FileEngine,
        open_: dict[str, list[str]],
        rows: Sequence[tuple[str, bytes]],
    ) -> None:
        names = [name for name, _ in rows]
        assert self._journal is not None
        self._journal.begin()  # the batch is that job's
        id = await vendor.submit(rows)
        ledger.append(msgspec.json.encode(_Line(id, names)))
        open_[id] = names

    async def _fetch(
        self,
        vendor: Vendor,
        ledger: FileEngine,
        id: str,
        rows: Sequence[str],
        waiting: dict[str, Request],
    ) -> None:
        if self._job.cancel:
            await vendor.cancel(id)
        waits: Any = backoff.expo
        poll = backoff.on_predicate(
            waits, lambda found: found is None, factor=FIRST_POLL, max_value=LONGEST_POLL
        )(vendor.poll)
        if self.tally.stopped is not None or (found := await self._wait(poll(id))) is None:
            return  # the next run looks again
        [sources] = found
        for name, status, body in await vendor.results(id, sources or ()):
            if (request := waiting.pop(name, None)) is not None:
                answer = await self._answer(vendor, request, status, body)
                await self._take(request, answer)
        for name in rows:
            if (request := waiting.pop(name, None)) is not None:
                why = Failed("batch_ended", "The batch ended without an answer to this row.")
                await self._take(request, Answer(id=request.id, error=why))
        ledger.append(msgspec.json.encode(_Line(id, ended=True)))
        self.tally.under_way = len(waiting)

    async def _answer(self, vendor: Vendor, request: Request, status: int, body: bytes) -> Answer:
        stream = self._stream(vendor, request)
        try:
            answer = succeeded(request.id, await vendor.answer(stream, status, body), self._model)
            if self._reads_json:
                answer = as_json(answer)
        except SwinkError as error:
            answer = failed(request.id, error, self._model)
        answer.cost = batch_price(stream.call, stream.call.usage, vendor.api.share)
        return answer

    def _stream(self, vendor: Vendor, request: Request) -> Any:
        if request.why is not None:
            raise UsageError(request.why)
        options: dict[str, Any] = {**self._job.options, **request.options, "transport": "buffered"}
        models = self._job.models if self._is_one_model() else self._job.models[0]
        return vendor.client.stream(models, request.prompt, type=self._job.type, **options)


def _open_batches(ledger: FileEngine) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for _, line in ledger.lines():
        said = msgspec.json.decode(line, type=_Line)
        if said.ended:
            found.pop(said.batch, None)
        else:
            found[said.batch] = said.rows
    return found
