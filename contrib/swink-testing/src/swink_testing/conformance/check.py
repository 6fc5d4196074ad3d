"""What a check is, how it ends, and the level that the results add up to.

A check is a plain function of a subject; it raises AssertionError with a sentence that says what
is wrong, or DoesNotApply with the reason. Nothing here knows pytest: the test classes and
`swink check` run the same checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from time import monotonic
from typing import Any, Generic, NoReturn, Protocol, TypeVar

from attrs import define, field

from swink_testing.conformance.blocking import TookTooLong, time_limit

__all__ = [
    "LEVELS",
    "Blocks",
    "Broken",
    "Check",
    "DoesNotApply",
    "Outcome",
    "Result",
    "each_result",
    "fail",
    "idle_lines",
    "level_line",
    "level_reached",
    "require",
    "run_check",
    "run_checks",
    "unknown_names",
]

LEVELS = {
    0: "does not stream",
    1: "streams",
    2: "survives faults",
    3: "complete",
}
"""What a provider's level means; see `level_reached`."""

CHECK_SECONDS = 60.0
"""How long a check may take. All of a provider's take a second or two, where nothing hangs."""

REST_SECONDS = 30.0
"""How long all further checks may take where one found that the subject blocks."""


class DoesNotApply(Exception):
    """Raised by a check for a subject that it says nothing about; the message is the reason."""


class Broken(AssertionError):
    """What a check found: `sent` is the request or the frames that show it, as JSON data or bytes,
    and `expected` what should have been there, where that can be said."""

    def __init__(self, sentence: str, sent: Any = None, expected: Any = None) -> None:
        super().__init__(sentence)
        self.sent = sent
        self.expected = expected


class Blocks(Broken):
    """What a check found that waits in the thread of an event loop."""


def require(condition: object, sentence: str, sent: Any = None, expected: Any = None) -> None:
    """Raise Broken with the sentence unless the condition holds.

    Unlike an assert statement it is there under `python -O` too.
    """
    if not condition:
        fail(sentence, sent, expected)


def fail(sentence: str, sent: Any = None, expected: Any = None) -> NoReturn:
    """Raise Broken with the sentence."""
    raise Broken(sentence, sent, expected)


class Examined(Protocol):
    """What checks examine."""

    def environment(self) -> AbstractContextManager[object]:
        """Keep the user's own variables out of a check."""


S = TypeVar("S", bound=Examined)


@define(frozen=True)
class Check(Generic[S]):
    """A named check and the level that it belongs to; `about` is one line for people.

    A level means nothing where a check that it `needs` did not apply.
    """

    level: int
    function: Callable[[S], None]
    needed: bool = False

    @property
    def name(self) -> str:
        """The function's name without `check_`."""
        return self.function.__name__.removeprefix("check_")

    @property
    def about(self) -> str:
        """The first line of the function's docstring."""
        return (self.function.__doc__ or "").strip().partition("\n")[0]


class Outcome(StrEnum):
    """How a check ended."""

    PASSED = "passed"
    FAILED = "failed"
    DOES_NOT_APPLY = "does not apply"
    EXPECTED_FAILURE = "expected failure"
    UNEXPECTED_PASS = "passed unexpectedly"


@define(frozen=True)
class Result:
    """One check's outcome; `detail` is why, where it did not simply pass."""

    name: str
    level: int
    outcome: Outcome
    detail: str = ""
    error: BaseException | None = field(default=None, repr=False, eq=False)
    needed: bool = False

    @property
    def applied(self) -> bool:
        """Whether the check had anything to say."""
        return self.outcome is not Outcome.DOES_NOT_APPLY

    @property
    def holds(self) -> bool:
        """Whether the check counts towards its level.

        A failure that is expected does not, nor does a needed check that does not apply.
        """
        return self.outcome is Outcome.PASSED or not (self.applied or self.needed)

    @property
    def is_fault(self) -> bool:
        """Whether somebody has to do something."""
        return self.outcome in (Outcome.FAILED, Outcome.UNEXPECTED_PASS)


def run_check(
    check: Check[S],
    subject: S,
    expected: Mapping[str, str] | None = None,
    seconds: float = CHECK_SECONDS,
) -> Result:
    """Run one check, for so long at most; whatever goes wrong in it is its result.

    `expected` holds a reason for each check that is known to fail. One that passes
    nevertheless is a fault, so that the list cannot outlive its reasons.
    """
    reason = (expected or {}).get(check.name)
    error: BaseException | None = None
    try:
        with subject.environment(), time_limit(seconds):
            check.function(subject)
    except DoesNotApply as inapplicable:
        outcome, detail = Outcome.DOES_NOT_APPLY, str(inapplicable)
    except (Exception, TookTooLong) as raised:
        error = raised
        outcome, detail = Outcome.FAILED, _sentence(raised)
        if reason is not None:
            outcome, detail = Outcome.EXPECTED_FAILURE, reason
    else:
        outcome, detail = Outcome.PASSED, ""
        if reason is not None:
            outcome, detail = Outcome.UNEXPECTED_PASS, f"it was expected to fail: {reason}"
    return Result(check.name, check.level, outcome, detail, error, check.needed)


def run_checks(
    checks: Iterable[Check[S]], subject: S, expected: Mapping[str, str] | None = None
) -> list[Result]:
    """Run checks in order and return their results."""
    return list(each_result(checks, subject, expected))


def each_result(
    checks: Iterable[Check[S]], subject: S, expected: Mapping[str, str] | None = None
) -> Iterator[Result]:
    """Run checks in order and yield each one's result as it ends.

    What blocks would block in most of them: after the first check that finds it, the others have
    `REST_SECONDS` in all, of which each may take a third of what is left.
    """
    blocks, left = False, REST_SECONDS
    for check in checks:
        begun = monotonic()
        seconds = max(REST_SECONDS / 30, left / 3) if blocks else CHECK_SECONDS
        result = run_check(check, subject, expected, seconds)
        if blocks:
            left -= monotonic() - begun
        blocks = blocks or isinstance(result.error, Blocks | TookTooLong)
        yield result


def level_reached(results: Iterable[Result], levels: Mapping[int, str] = LEVELS) -> int:
    """Return the highest level at and below which every check holds, the needed ones by passing."""
    missed = {result.level for result in results if not result.holds}
    return min(missed, default=max(levels) + 1) - 1


def level_line(results: Sequence[Result], levels: Mapping[int, str] = LEVELS) -> str:
    """Say in one line which level was reached, how many checks applied, and what is in the way."""
    level = level_reached(results, levels)
    applied = sum(result.applied for result in results)
    rank = f"level {level} of {max(levels)}" if level else "no level"
    line = f"{rank}, {levels[level]}, of what applies: {applied} of {len(results)} checks"
    missed = [
        f"{result.name} ({result.outcome if result.applied else result.detail})"
        for result in results
        if not result.holds
    ]
    return f"{line}; not: {', '.join(missed)}" if missed else line


def idle_lines(results: Iterable[Result]) -> list[str]:
    """Say which checks did not apply, a line for each reason."""
    reasons: dict[str, list[str]] = {}
    for result in results:
        if not result.applied:
            reasons.setdefault(result.detail, []).append(result.name)
    return [f"{', '.join(names)}: {reason}" for reason, names in reasons.items()]


def unknown_names(checks: Sequence[Check[Any]], names: Iterable[str]) -> list[str]:
    """Return the names that no check has, sorted."""
    return sorted(set(names) - {check.name for check in checks})


def _sentence(error: BaseException) -> str:
    if isinstance(error, AssertionError | TookTooLong):
        return str(error)
    return f"{type(error).__name__}: {error}"
