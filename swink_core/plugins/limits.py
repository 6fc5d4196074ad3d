"""Spending limits: a gate that reserves the maximum expected charge before each attempt.

After the attempt, its final charge replaces the reservation.

An attempt is admitted if the sum of three amounts exceeds no limit: the charges so far, the
reservations of the running attempts, and the reservation of the new attempt. A lock is held from
the check to the reservation, so that concurrent calls cannot exceed a limit together, in any number
of tasks and threads.
"""

from __future__ import annotations

from threading import Lock

from attrs import define, field

from swink_core.failures.exceptions import LimitReached
from swink_core.plugins.attempt import Attempt
from swink_core.plugins.binding import Target
from swink_core.vocabulary.events import Done, Error
from swink_core.vocabulary.http import ResponseHead
from swink_core.vocabulary.limits import Limits
from swink_core.vocabulary.models import Model
from swink_core.vocabulary.outcome import NOTHING, Charge


@define(eq=False)
class LimitGate:
    """The spending limits of a client, a call, or several calls, and the amount spent so far.

    `charge` is the sum of the charges of all attempts that have ended. `requests`, `turns` and
    `tool_calls` are the numbers of attempts, turns and tool calls so far. Attempts that a cache
    answered are not counted.
    """

    limits: Limits
    charge: Charge = NOTHING
    requests: int = 0
    turns: int = 0
    tool_calls: int = 0
    _reserved: dict[Attempt, Charge] = field(factory=dict, init=False, repr=False)
    _lock: Lock = field(factory=Lock, init=False, repr=False)

    async def enter(self, target: Target, attempt: Attempt) -> None:
        """Reserve the maximum expected charge for the attempt.

        Raises LimitReached if this would exceed a limit.
        """
        reservation = NOTHING
        if self.limits.cost is not None or self.limits.tokens is not None:
            reservation = await attempt.reserve()
        with self._lock:
            refusal = self.refusal(target.model, reservation)
            if refusal is not None:
                raise refusal
            self._reserved[attempt] = reservation
            self.requests += 1

    def leave(
        self,
        target: Target,
        terminal: Done | Error,
        response: ResponseHead | None,
        attempt: Attempt,
    ) -> None:
        """Replace the reservation of an attempt by its final charge."""
        charge = attempt.charge
        with self._lock:
            del self._reserved[attempt]
            if attempt.started_at is None or _is_free(attempt, terminal):
                self.requests -= 1  # another gate refused it, or it needed no request
            self.charge += charge

    def take_turn(self) -> None:
        """Count a turn of a tool loop. Raises LimitReached if this exceeds the limit of turns."""
        with self._lock:
            if self.limits.turns is not None and self.turns >= self.limits.turns:
                raise _reached(f"{self.turns} turns were made", f"turns={self.limits.turns}")
            self.turns += 1

    def take_tool_calls(self, number: int) -> None:
        """Count the tool calls of a turn, before they run.

        Raises LimitReached if this exceeds the limit of tool calls.
        """
        most = self.limits.tool_calls
        with self._lock:
            if most is not None and self.tool_calls + number > most:
                made = (
                    f"{self.tool_calls} tool calls were made, and the model requests {number} more"
                )
                raise _reached(made, f"tool_calls={most}")
            self.tool_calls += number

    def refusal(self, model: Model, reservation: Charge, requests: int = 1) -> LimitReached | None:
        """Return the error if a reservation would exceed a limit, or else `None`.

        `requests` is the number of attempts for which the amount is reserved.
        """
        limits = self.limits
        if limits.requests is not None and self.requests + requests > limits.requests:
            return _reached(f"{self.requests} requests were made", f"requests={limits.requests}")
        under_way = sum(self._reserved.values(), NOTHING)
        if limits.tokens is not None:
            taken = self.charge.tokens + under_way.tokens
            if taken + reservation.tokens > limits.tokens:
                what = (
                    f"{self.charge.tokens:,} tokens are spent, {under_way.tokens:,} reserved, and "
                    f"this call may take {reservation.tokens:,}"
                )
                return _reached(what, f"tokens={limits.tokens}", _SMALLER)
        if limits.cost is None:
            return None
        if reservation.cost is None:
            return LimitReached(
                f"the price of {model} is unknown, so a cost limit cannot be enforced",
                title=_TITLE,
                resolution="Limit tokens instead, or choose a model with known prices.",
                code="limit",
            )
        spent = self.charge.cost or 0.0
        held = under_way.cost or 0.0
        if spent + held + reservation.cost > limits.cost:
            what = (
                f"${spent:.4g} is spent, ${held:.4g} reserved, and this call may cost "
                f"${reservation.cost:.4g}"
            )
            return _reached(what, f"cost={limits.cost:g}", _SMALLER)
        return None


def _is_free(attempt: Attempt, terminal: Done | Error) -> bool:
    """Return True if an attempt was answered without a request to a model, as from a cache.

    A plugin that sends requests without the HTTP client of the core records no request. Its
    attempts are free only if their usage is zero, not if it is unknown.
    """
    usage = terminal.usage
    is_zero = usage is not None and usage.input == usage.output == 0
    return is_zero and attempt.request is None and attempt.charge == NOTHING


_TITLE = "The limit is reached"

_SMALLER = "Raise the limit, lower max_tokens, or send a shorter prompt."


def _reached(what: str, limit: str, resolution: str = "Raise the limit.") -> LimitReached:
    return LimitReached(
        f"{what} (limit: {limit})", title=_TITLE, resolution=resolution, code="limit"
    )


def gate_of(limits: Limits | LimitGate | None) -> LimitGate | None:
    """Return a `LimitGate` with these limits; a `LimitGate` or `None` is returned unchanged."""
    return LimitGate(limits) if isinstance(limits, Limits) else limits
