"""The gates of one call: who lets its attempts begin, and is told how each ended."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from swink_core.failures.exceptions import ProviderFailure
from swink_core.failures.failure import Failure
from swink_core.plugins.call import Call, Gate
from swink_core.vocabulary.events import Done, Error

log = logging.getLogger(__name__)


class Gates:
    """A client's gates, for one call. One that raises what it should not is left out of it."""

    def __init__(self, call: Call, gates: Sequence[Gate]) -> None:
        self._call, self._gates = call, list(gates)
        self._entered: list[Gate] = []

    async def enter(self) -> Failure | None:
        """Wait until the attempt that the call turned to may begin; return why it may not."""
        target = self._call.attempt.target
        for gate in [*self._gates]:
            try:
                await gate.enter(target)
            except ProviderFailure as refusal:
                return refusal.failure
            except Exception as error:
                self._leave_out(gate, error)
            else:
                self._entered.append(gate)
        return None

    def leave(self, terminal: Done | Error) -> None:
        """Tell those that were entered, the last one first, how the attempt ended."""
        attempt = self._call.attempt
        while self._entered:
            gate = self._entered.pop()
            try:
                gate.leave(attempt.target, terminal, attempt.response)
            except Exception as error:
                self._leave_out(gate, error)

    def _leave_out(self, gate: Gate, error: Exception) -> None:
        name, trace = type(gate).__name__, self._call.trace(error)
        log.error("gate %s raised; it is left out of this call:\n%s", name, trace)
        self._gates = [other for other in self._gates if other is not gate]
