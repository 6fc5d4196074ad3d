"""The circuit breaker, which makes a client's calls skip a target (a model) that keeps failing.

The circuit of a target opens when `circuit_threshold` calls in a row have failed on this target; a
call with retries counts once. If the provider has named a waiting time, the circuit stays open for
this time. Otherwise, it stays open for `circuit_cooldown` and is then half open: one call may use
the target, and its outcome closes the circuit or opens it again. The last target of a chain is
always tried, because no other target is left.
"""

from __future__ import annotations

from weakref import WeakSet

from attrs import define

from swink_core.failures.exceptions import ProviderFailure
from swink_core.failures.failure import Failure
from swink_core.failures.kinds import health_of
from swink_core.plugins.attempt import Attempt
from swink_core.plugins.binding import Target
from swink_core.vocabulary.clock import Clock
from swink_core.vocabulary.events import Done, Error
from swink_core.vocabulary.http import ResponseHead
from swink_core.vocabulary.outcome import StreamErrorKind as Kind


@define
class _Circuit:
    """The failures of a target.

    `failures` is the number of failed calls in a row. `open_until` is the time of the clock until
    which the circuit is open (`None`: the circuit has not opened). If `half_opens` is true, only
    one call at a time may use the target after that time; `trial` is the target of this call.
    """

    failures: int = 0
    open_until: float | None = None
    half_opens: bool = True
    trial: Target | None = None


class CircuitBreaker:
    """The circuit breaker of a client, which is the first of the client's gates."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._circuits: dict[str, _Circuit] = {}
        self._counted = WeakSet[Target]()

    async def enter(self, target: Target) -> None:
        """Admit an attempt if the target's circuit is closed.

        While the circuit is half open, admit one attempt at a time. Raises ProviderFailure if the
        attempt is not admitted.
        """
        if not self._circuits or target.is_last:
            return
        circuit = self._circuits.get(target.key)
        if circuit is None or circuit.open_until is None:
            return
        now = self._clock.time()
        if now < circuit.open_until:
            why = "it keeps failing"
            failure = Failure("connect", kind=Kind.OVERLOADED, code="circuit_open", message=why)
            raise ProviderFailure(failure)
        if circuit.half_opens:
            # other calls are refused until this one has ended
            circuit.open_until = now + target.options.retry.circuit_cooldown
            circuit.trial = target

    def leave(
        self,
        target: Target,
        terminal: Done | Error,
        response: ResponseHead | None,
        attempt: Attempt,
    ) -> None:
        """Update the circuit by the outcome of an attempt.

        An attempt that a later gate refused sent nothing, and does not change the circuit. After
        it, and after a cancelled attempt, the next call may try a half-open circuit at once.
        """
        healthy = health_of(terminal) if attempt.started_at is not None else None
        if healthy:
            if self._circuits:
                self._circuits.pop(target.key, None)
            return
        if healthy is None or isinstance(terminal, Done):
            tried = self._circuits.get(target.key) if self._circuits else None
            if tried is not None and tried.trial is target:
                tried.open_until, tried.trial = self._clock.time(), None
            return
        circuit = self._circuits.setdefault(target.key, _Circuit())
        if target not in self._counted:
            self._counted.add(target)
            circuit.failures += 1
        policy = target.options.retry
        wait = terminal.retry_after
        if circuit.failures >= policy.circuit_threshold:
            circuit.half_opens = wait is None
            circuit.trial = None
            cooldown = policy.circuit_cooldown if wait is None else wait
            circuit.open_until = self._clock.time() + cooldown
