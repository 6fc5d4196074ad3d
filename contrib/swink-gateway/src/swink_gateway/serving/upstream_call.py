"""A call for a client, and the log lines about its failures.

Responses to clients do not say which of the gateway's accounts failed, or why, because only the
operator needs to know. A failure is logged as a warning, unless the client's request caused it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from textwrap import shorten
from typing import Any

from attrs import define

from swink_core import Done, Error, EventStream, Notice, Retry, Start, StopReason, Target
from swink_core import StreamErrorKind as Kind
from swink_core.providers import KINDS
from swink_gateway.policy.limits import Ledger
from swink_gateway.policy.routing import Routing
from swink_gateway.policy.tenancy import ids_in_answer, ids_unknown_to
from swink_gateway.protocols import Facts

__all__ = ["Claims", "UpstreamCall", "account_of"]

log = logging.getLogger(__name__)

OF_REQUESTS = frozenset(kind for kind, row in KINDS.items() if row.scope in ("request", "caller"))
"""Kinds of failures that a request causes.

An unknown model is caused by the request unless the configuration file names the model.
"""

MOST_SAID = 500
"""The length to which a provider's message is cut in the log: some providers send a web page."""


def account_of(routing: Routing, target: Target) -> str:
    """Return a name for the provider account that a target uses.

    It is the path of the target's options in the configuration, or the provider's name if the
    configuration does not contain the options.
    """
    return next(iter(routing.places(target.key)), target.model.provider)


MOST_IDS_OF_ANSWER = 1_000
"""The most ids of an answer that are stored, so that an answer cannot fill the store."""


@define
class Claims:
    """Records the ids in an answer as belonging to the owner of a key."""

    ledger: Ledger
    owner: str
    _claiming: asyncio.Task[None] | None = None

    def hear(self, stream: EventStream) -> None:
        """Record the ids of a complete answer, before its client receives the end."""
        info = stream.call.provider_info
        ids = ids_in_answer(stream.message, bool(info and info.continues))
        if ids:
            self._claiming = asyncio.ensure_future(self._claim(ids, stream))

    async def made(self) -> None:
        """Wait until the ids are recorded."""
        if self._claiming is not None:
            await asyncio.shield(self._claiming)

    async def _claim(self, ids: set[str], stream: EventStream) -> None:
        try:
            if ids != {stream.message.response_id}:
                ids = await asyncio.to_thread(ids_unknown_to, stream.call, ids)
            if len(ids) > MOST_IDS_OF_ANSWER:
                log.warning("an answer for %r has %d ids; none is stored", self.owner, len(ids))
                return
            await self.ledger.claim(self.owner, ids)
        except Exception as error:
            log.warning("cannot store the ids of an answer; requests with them fail: %s", error)


@define(frozen=True)
class UpstreamCall:
    """The stream of a call, and the facts about its answer.

    `models` is the number of models in the chain of `routing`. `claims` records which client owns
    the ids in the answer. It is `None` for a client without limits. `failed` is called with the
    account and the kind of failure of each attempt that failed at its provider. `prepared` is
    called when the provider has answered, at the latest.
    """

    stream: EventStream
    facts: Facts
    models: int
    routing: Routing
    claims: Claims | None = None
    failed: Callable[[str, str], None] = lambda account, kind: None
    prepared: Callable[[], None] = lambda: None

    def hear(self, batch: Sequence[Any]) -> None:
        """Record the ids of a complete answer, or log the failure of an attempt.

        The last event of the batch decides: `Done`, or an `Error` or `Retry`.
        """
        if type(batch[-1]) not in (Start, Notice):
            self.prepared()
        if self.claims is not None and isinstance(batch[-1], Done):
            self.claims.hear(self.stream)
        self._log_failures(batch)

    def _log_failures(self, batch: Sequence[Any]) -> None:
        """Log the failed account (by its path in the file) and the provider's message."""
        match batch[-1]:
            case (
                Retry(error_kind=kind, error=why)
                | Error(error_kind=kind, error_message=why, stop_reason=StopReason.ERROR)
            ):
                self._log(kind, why)

    def _log(self, kind: Kind | None, why: str | None) -> None:
        call = self.stream.call
        target = call.attempt.target
        who = self.routing.named(target.key)
        # the start of the cooldown was already logged
        nobody_was_asked = call.attempts < call.attempt.number
        is_theirs = kind in OF_REQUESTS or (kind is Kind.MODEL_NOT_FOUND and not who)
        if kind is not None and not (is_theirs or nobody_was_asked):
            self.failed(account_of(self.routing, target), str(kind))
        what = (
            "credentials for %s are missing or refused"
            if kind is Kind.AUTH
            else f"%s failed: {kind}"
        )
        said = shorten(call.redact(why or ""), MOST_SAID, placeholder="…")
        level = logging.INFO if is_theirs or nobody_was_asked else logging.WARNING
        place = f"{who}: " if who else ""
        log.log(level, f"%s{what}: %s (call %s)", place, call.model, said, call.id)
