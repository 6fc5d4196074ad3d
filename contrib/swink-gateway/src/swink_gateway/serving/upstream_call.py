"""A call that was begun for a client, and what the log says of its failures.

Clients are not told who of the gateway's accounts fails, and how: that is for its owner. A failure
is a warning unless it is of what the client asks for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from textwrap import shorten
from typing import Any

from attrs import define

from swink_core import Done, Error, EventStream, Retry, StopReason
from swink_core import StreamErrorKind as Kind
from swink_core.providers import KINDS
from swink_gateway.policy.limits import Ledger
from swink_gateway.policy.routing import Routing
from swink_gateway.policy.tenancy import ids_in_answer
from swink_gateway.protocols import Facts

__all__ = ["UpstreamCall"]

log = logging.getLogger(__name__)

OF_REQUESTS = frozenset(kind for kind, row in KINDS.items() if row.scope in ("request", "caller"))
"""Kinds of failures that are a request's, as is a model that is not there and not in the file."""

MOST_SAID = 500
"""Characters of what a provider said that are logged: some send a page."""

MOST_PLACES = 3
"""Of an account in the file: all routes without options of their own may have the same."""


@define
class Claims:
    """Records the ids in an answer as those of the owner of a key."""

    ledger: Ledger
    owner: str
    _claiming: asyncio.Task[None] | None = None

    def hear(self, stream: EventStream) -> None:
        """Record the ids of a complete answer, before its client reads the end of it."""
        info = stream.call.provider_info
        ids = ids_in_answer(stream.message, bool(info and info.continues))
        if ids:
            self._claiming = asyncio.ensure_future(self._claim(ids))

    async def made(self) -> None:
        """Wait until the ids are recorded."""
        if self._claiming is not None:
            await asyncio.shield(self._claiming)

    async def _claim(self, ids: set[str]) -> None:
        try:
            await self.ledger.claim(self.owner, ids)
        except Exception as error:
            log.warning("ids of an answer cannot be recorded, and are refused later: %s", error)


@define(frozen=True)
class UpstreamCall:
    """The stream of a call, and the facts of its answer.

    `models` is how many may answer, as `routing` has it. `claims` records the ids in the answer;
    `None` for a client without limits.
    """

    stream: EventStream
    facts: Facts
    models: int
    routing: Routing
    claims: Claims | None = None

    def hear(self, batch: Sequence[Any]) -> None:
        """Note the ids of an answer, and log a failure that a batch of events ends with."""
        if self.claims is not None and isinstance(batch[-1], Done):
            self.claims.hear(self.stream)
        self._log_failures(batch)

    def _log_failures(self, batch: Sequence[Any]) -> None:
        """Log who failed, as the file names it, and in what words, in one line."""
        match batch[-1]:
            case (
                Retry(error_kind=kind, error=why)
                | Error(error_kind=kind, error_message=why, stop_reason=StopReason.ERROR)
            ):
                self._log(kind, why)

    def _log(self, kind: Kind | None, why: str | None) -> None:
        call = self.stream.call
        who = [*self.routing.places(call.attempt.target.key)]
        nobody_was_asked = call.attempts < call.attempt.number  # it rests, as was told when it did
        is_theirs = kind in OF_REQUESTS or (kind is Kind.MODEL_NOT_FOUND and not who)
        if len(who) > MOST_PLACES:
            who[MOST_PLACES:] = ["…"]
        what = "no credentials that %s accepts" if kind is Kind.AUTH else f"%s failed: {kind}"
        said = shorten(call.redact(why or ""), MOST_SAID, placeholder="…")
        level = logging.INFO if is_theirs or nobody_was_asked else logging.WARNING
        log.log(level, f"%s{what}: %s", f"{', '.join(who)}: " if who else "", call.model, said)
