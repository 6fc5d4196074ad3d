"""A call that was begun for a client, and what the log says of its failures.

Clients are not told who of the gateway's accounts fails, and how: that is for its owner.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from attrs import define

from swink_core import Error, EventStream, Retry, StopReason, StreamErrorKind
from swink_core.providers import redact
from swink_gateway.protocols import Facts
from swink_gateway.routing import Routing

__all__ = ["Begun"]

log = logging.getLogger(__name__)


@define(frozen=True)
class Begun:
    """The stream of a call, and the facts of its answer.

    `models` is how many may answer, as `routing` has it.
    """

    stream: EventStream
    facts: Facts
    models: int
    routing: Routing

    def log_failures(self, batch: Sequence[Any]) -> None:
        """Log who failed, as the file names it, and in what words; a warning where it is the
        gateway's credentials that are refused."""
        match batch[-1]:
            case (
                Retry(error_kind=kind, error=why)
                | Error(error_kind=kind, error_message=why, stop_reason=StopReason.ERROR)
            ):
                self._log(kind, why)

    def _log(self, kind: StreamErrorKind | None, why: str | None) -> None:
        refused = kind is StreamErrorKind.AUTH
        level = logging.WARNING if refused else logging.INFO
        if not log.isEnabledFor(level):
            return
        call = self.stream.call
        who = ", ".join(self.routing.places(call.attempt.target.key))
        what = "no credentials that %s accepts" if refused else f"%s failed: {kind}"
        said = redact(why or "", call.secrets)
        log.log(level, f"%s{what}: %s", f"{who}: " if who else "", call.model, said)
