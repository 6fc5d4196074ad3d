"""Batches, as all vendors have them: when one is due, and how its requests are run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lab.vendor import engine, jsons
from lab.vendor.failures import Refused
from lab.vendor.protocols.base import API, Reply, Request
from lab.vendor.state import State

__all__ = ["Batch", "Line", "Outcome", "create"]


@dataclass(frozen=True, slots=True)
class Line:
    """One request of a batch: the caller's id of it, its API, what its path names, its body."""

    id: str
    api: API
    path: str
    body: Any
    found: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one request; `status` is `None` for a cancelled one."""

    line: Line
    status: int | None
    body: Any
    request_id: str


@dataclass(slots=True)
class Batch:
    """A batch of an account. Its requests are run once, when it is first looked at after `due`."""

    id: str
    account: str
    lines: list[Line]
    created: float
    due: float
    own: dict[str, Any] = field(default_factory=dict)
    outcomes: list[Outcome] | None = None
    ended: float | None = None
    cancelled: float | None = None

    def look(self, state: State) -> None:
        """Run the requests if that is due."""
        now = state.clock.now()
        if self.outcomes is not None or now < self.due:
            return
        self.outcomes = [_run(state, self, line) for line in self.lines]
        self.ended = now

    def cancel(self, state: State) -> None:
        """Cancel what was not run, which is all or nothing."""
        self.look(state)
        if self.outcomes is None:
            now = state.clock.now()
            self.outcomes = [Outcome(line, None, None, "") for line in self.lines]
            self.cancelled = now
            self.ended = now

    def count(self, chosen: Callable[[Outcome], bool]) -> int:
        """Count the outcomes that are chosen."""
        return sum(1 for outcome in self.outcomes or [] if chosen(outcome))


def create(state: State, id: str, account: str, lines: list[Line], own: dict[str, Any]) -> Batch:
    """Begin a batch."""
    now = state.clock.now()
    return Batch(id, account, lines, now, now + state.batch_seconds, own)


def _answer(state: State, batch: Batch, line: Line) -> tuple[int, bytes, str]:
    """Run one request at half price; return the status, the body and the id of the request."""
    exchange = state.record.open(state.clock.now(), "POST", line.path)
    exchange.batch = batch.id
    request_id = state.ids.make("req_")
    headers = {"anthropic-version": "2023-06-01"}
    request = Request(
        "POST",
        line.path,
        {},
        headers,
        jsons.dump(line.body),
        line.api.provider,
        batch.account,
        request_id,
        line.found,
    )
    try:
        job = engine.prepare(state, exchange, request, line.api)
        job.ask.tier = "batch"
        return 200, engine.run(job), request_id
    except Refused as refused:
        reply: Reply = line.api.failure(refused.failure, request_id)
        exchange.status = reply.status
        exchange.message = refused.failure.message
        exchange.ended = "refused"
        return reply.status, reply.body, request_id


def _run(state: State, batch: Batch, line: Line) -> Outcome:
    status, body, request_id = _answer(state, batch, line)
    return Outcome(line, status, jsons.load(body), request_id)
