"""The attempt under way, and the outcomes by which it ends.

An attempt ends with one of seven outcomes. `TRANSITIONS` has a row for each, which `Driver._end`
carries out: no other code ends an attempt.
"""

from __future__ import annotations

from enum import StrEnum
from math import inf
from typing import NamedTuple

from swink_core.plugins.call import Attempt, Gate
from swink_core.providers.source import Source
from swink_core.vocabulary.events import Done


class Outcome(StrEnum):
    """How an attempt ended."""

    COMPLETED = "completed"
    """The provider completed its answer."""
    FAILED = "failed"
    """The provider, the connection or a plugin failed."""
    CUT = "cut"
    """A time limit passed."""
    BOUNDED = "bounded"
    """The answer grew beyond `max_output_chars`."""
    CANCELLED = "cancelled"
    """The caller closed the stream or stopped reading it."""
    REFUSED = "refused"
    """A gate refused the target, and no other target may be tried."""
    PASSED_OVER = "passed_over"
    """A gate refused the target, and the next one is tried."""


class Transition(NamedTuple):
    """The consequences of an outcome. Gates that the attempt entered are notified of each.

    `is_final`: the call ends, unless the policy makes a retry. `is_charged`: usage and cost are
    added to the call's totals. `may_retry`: an attempt that had begun may be followed by a retry.
    """

    is_final: bool = True
    is_charged: bool = True
    may_retry: bool = False


TRANSITIONS: dict[Outcome, Transition] = {
    Outcome.COMPLETED: Transition(),
    Outcome.FAILED: Transition(may_retry=True),
    Outcome.CUT: Transition(may_retry=True),
    Outcome.BOUNDED: Transition(may_retry=True),
    Outcome.CANCELLED: Transition(),
    Outcome.REFUSED: Transition(),
    Outcome.PASSED_OVER: Transition(is_final=False, is_charged=False),
}


class UnderWay:
    """An attempt from its first gate to its end, with the state that plugins do not see.

    `entered` are the gates that have admitted it, `source` makes its events once it has begun, and
    `content_shown` tells whether the caller has been handed content of it.
    """

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.entered: list[Gate] = []
        self.source: Source | None = None
        self.has_begun = False
        self.content_shown = False
        self.limit = attempt.options.max_output_chars or inf
        """Characters that the answer may have."""


def outcome_of(terminal: object) -> Outcome:
    """Name the outcome of an attempt that its source ended with this event."""
    return Outcome.COMPLETED if type(terminal) is Done else Outcome.FAILED
