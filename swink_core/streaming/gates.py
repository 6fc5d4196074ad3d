"""The gates of a client, which admit or refuse each attempt, and are notified when it ends.

Gates fail closed. After a gate has raised an exception, its totals of money or requests may be
wrong. Therefore, if `enter` raises an exception, the call ends before a request is sent; if `leave`
raises an exception, the next attempt fails.
"""

from __future__ import annotations

import inspect
import logging
import os
from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from swink_core.failures.exceptions import ProviderFailure, StreamError
from swink_core.failures.failure import Failure
from swink_core.plugins.attempt import Attempt, Gate
from swink_core.plugins.binding import raised_at
from swink_core.plugins.call import Call
from swink_core.vocabulary.events import Done, Error
from swink_core.vocabulary.outcome import StreamErrorKind as Kind

log = logging.getLogger(__name__)

GATE_FAULT = "gate"
"""The code of a failure if a gate raised an exception that is not a refusal."""


class Entrance:
    """Calls the methods `enter` and `leave` of a gate.

    The parameter `attempt` of these methods is optional: a method gets the attempt only if it
    declares this parameter. The signatures are inspected when an instance is created.
    """

    def __init__(self, gate: Gate) -> None:
        self.gate: Any = gate
        self._enter_takes_attempt = _takes_attempt(gate.enter)
        self._leave_takes_attempt = _takes_attempt(gate.leave)

    async def enter(self, attempt: Attempt) -> None:
        """Call the gate's `enter` for an attempt. Exceptions of the gate are passed on."""
        if self._enter_takes_attempt:
            await self.gate.enter(attempt.target, attempt=attempt)
        else:
            await self.gate.enter(attempt.target)

    def leave(self, attempt: Attempt, terminal: Done | Error) -> Any:
        """Call the gate's `leave` with the last event of an attempt."""
        if self._leave_takes_attempt:
            return self.gate.leave(attempt.target, terminal, attempt.response, attempt=attempt)
        return self.gate.leave(attempt.target, terminal, attempt.response)


def _takes_attempt(method: Any) -> bool:
    function = getattr(method, "__func__", None)  # the same for all gates of a class
    return _names_attempt(method) if function is None else _known(function)


def _names_attempt(method: Any) -> bool:
    try:
        return "attempt" in inspect.signature(method).parameters
    except (TypeError, ValueError):
        return False


_known = lru_cache(_names_attempt)


class ClientGates:
    """The gates of one client, in order, and exceptions from `leave` that are still to be reported.

    After an exception from `leave`, the client's next attempt fails and reports this exception. For
    each attempt, the list `entered` contains the gates that have admitted it.
    """

    def __init__(self, gates: Sequence[Gate]) -> None:
        self._gates = tuple(map(Entrance, gates))
        self._ids = frozenset(map(id, gates))
        self._unreported: deque[Failure] = deque()

    async def enter(self, call: Call, entered: list[Entrance]) -> Failure | None:
        """Wait until every gate has admitted the call's attempt.

        If a gate refuses the attempt, return the failure. The kind `internal` means that a gate
        raised an unexpected exception; in this case, no other target is tried.
        """
        if self._unreported:
            return self._unreported.popleft()
        attempt = call.attempt
        gates = self._gates
        if call.gates:  # one that is a gate of the client as well is entered once
            gates = (*gates, *[Entrance(gate) for gate in call.gates if id(gate) not in self._ids])
        for entrance in gates:
            gate = entrance.gate
            try:
                await entrance.enter(attempt)
            except ProviderFailure as refusal:
                return refusal.failure
            except StreamError as refusal:
                return _failure_of(refusal)
            except Exception as error:
                return _fault(call, gate, "enter", error)
            entered.append(entrance)
        return None

    def leave(self, call: Call, entered: list[Entrance], terminal: Done | Error) -> None:
        """Call `leave` of the gates that admitted the attempt, the last one first."""
        attempt = call.attempt
        while entered:
            entrance = entered.pop()
            gate = entrance.gate
            try:
                result = entrance.leave(attempt, terminal)
                if inspect.iscoroutine(result):
                    result.close()
                    raise TypeError("leave must be a plain function, not a coroutine function")
            except Exception as error:
                self._unreported.append(_fault(call, gate, "leave", error))


def _fault(call: Call, gate: Gate, method: str, error: Exception) -> Failure:
    """Log the exception of a gate, and return it as a failure without secrets."""
    name = type(gate).__name__
    log.error("gate %s raised in %s:\n%s", name, method, call.trace(error))
    place = _place(gate, method, error)
    what = f"gate {name} raised {type(error).__name__} in {method}{place}: {error}"
    return Failure("connect", kind=Kind.INTERNAL, code=GATE_FAULT, message=call.redact(what))


def _failure_of(error: StreamError) -> Failure:
    return Failure(
        "connect",
        kind=error.kind,
        code=error.code,
        message=error.message,
        retry_after=error.retry_after,
        resolution=error.resolution or None,
    )


def _place(gate: Gate, method: str, error: Exception) -> str:
    """Return where in the gate's module an exception was raised, as ` (folder/file.py:line)`.

    If no frame of the traceback is in this module, return the first line of the method.
    """
    home = type(gate).__module__
    owner, place = raised_at(error, lambda module: module == home)
    if owner:
        return place
    code = getattr(getattr(type(gate), method, None), "__code__", None)
    if code is None:
        return ""
    file = "/".join(code.co_filename.split(os.sep)[-2:])
    return f" ({file}:{code.co_firstlineno})"
