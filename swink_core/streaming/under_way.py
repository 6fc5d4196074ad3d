"""The current attempt of a call, and the outcomes with which an attempt ends.

An attempt ends with one of seven outcomes. `TRANSITIONS` defines the consequences of each outcome.
Every attempt is ended by `Driver._end`, which applies these consequences.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from math import inf
from typing import NamedTuple

from swink_core.failures.kinds import CODES
from swink_core.plugins.attempt import Attempt
from swink_core.providers.source import Source
from swink_core.streaming.gates import Entrance
from swink_core.vocabulary.events import Done, Error


class Outcome(StrEnum):
    """How an attempt ended."""

    COMPLETED = "completed"
    """The provider completed its answer."""
    FAILED = "failed"
    """The provider, the connection or a plugin failed."""
    CUT = "cut"
    """A time limit was exceeded."""
    BOUNDED = "bounded"
    """The answer grew beyond `max_output_chars`."""
    CANCELLED = "cancelled"
    """The caller closed the stream or stopped reading it."""
    REFUSED = "refused"
    """A gate refused the target, and no other target may be tried."""
    PASSED_OVER = "passed_over"
    """A gate refused the target, and the next one is tried."""


class Transition(NamedTuple):
    """The consequences of an outcome.

    `is_final` means that the call ends unless the attempt is retried. `may_retry` means that the
    attempt is retried if it had begun and the retry policy allows a retry. For every outcome, the
    gates that admitted the attempt are notified, and an attempt that had begun is charged (see
    `Attempt.settle`).
    """

    is_final: bool = True
    may_retry: bool = False


TRANSITIONS: dict[Outcome, Transition] = {
    Outcome.COMPLETED: Transition(),
    Outcome.FAILED: Transition(may_retry=True),
    Outcome.CUT: Transition(may_retry=True),
    Outcome.BOUNDED: Transition(may_retry=True),
    Outcome.CANCELLED: Transition(),
    Outcome.REFUSED: Transition(),
    Outcome.PASSED_OVER: Transition(is_final=False),
}

UNSENT = frozenset(code for code, row in CODES.items() if row.unsent)
"""The codes of failures in which the provider has not received the request."""

REFUSED_FROM = 300
"""A response with this HTTP status or a higher one contains no answer (RFC 9110 section 15)."""


class UnderWay:
    """An attempt in progress, with the state that plugins cannot access.

    `entered` are the gates that have admitted the attempt. `source` produces the attempt's events,
    and is `None` until the attempt begins. `content_shown` is true if the caller has received
    content of this attempt. `room` is the function `Call.room` of the call.
    """

    def __init__(self, attempt: Attempt, room: Callable[[int], float] | None = None) -> None:
        self.attempt = attempt
        self.entered: list[Entrance] = []
        self.source: Source | None = None
        self.has_begun = False
        self.content_shown = False
        self._most = attempt.options.max_output_chars or inf
        self._room = room
        self.limit = self._most if room is None else min(self._most, room(0))
        """The maximum length of the answer, in characters; `has_room` may increase it."""

    def has_room(self, chars: int) -> bool:
        """Increase `limit` if the call has room for an answer of so many characters."""
        room = inf if self._room is None or chars > self._most else self._room(chars)
        self.limit = min(self._most, room)
        return chars <= self.limit


def outcome_of(terminal: object) -> Outcome:
    """Return the outcome of an attempt whose source ended with this event."""
    return Outcome.COMPLETED if type(terminal) is Done else Outcome.FAILED


_FROM_OUTSIDE = {Outcome.CUT, Outcome.BOUNDED, Outcome.CANCELLED}


def has_left(attempt: Attempt, terminal: Done | Error, outcome: Outcome) -> bool:
    """Return True if a provider may bill an attempt that ended with this event.

    The provider may bill the attempt if content arrived or the answer is complete, or if an HTTP
    request was sent and was not refused. If a plugin's `stream` hook does not use an `EventSource`,
    its requests are not recorded in the attempt. Such an attempt may be billed if a time limit, the
    size limit or the caller ended it.
    """
    if attempt.first_event_at is not None or outcome is Outcome.COMPLETED:
        return True
    if attempt.response is not None:
        return attempt.response.status < REFUSED_FROM
    if attempt.request is None:
        return attempt.plan is None and outcome in _FROM_OUTSIDE
    return getattr(terminal, "code", None) not in UNSENT
