"""Checks, their results, and the summary.

A check is a plain function. Its argument, the subject, is the provider or plugin under test. The
check raises AssertionError with a sentence that describes the fault, or DoesNotApply with the
reason. This module does not import pytest: the test classes and `swink check` run the same checks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from enum import StrEnum
from time import monotonic
from typing import Any, Generic, NoReturn, Protocol, TypeVar

from attrs import define, field

from swink_testing.conformance.lifecycle.blocking import TookTooLong, time_limit

__all__ = [
    "Blocks",
    "Broken",
    "Check",
    "DoesNotApply",
    "Outcome",
    "Result",
    "Waivers",
    "consistency_line",
    "each_result",
    "fail",
    "idle_lines",
    "independent_part",
    "require",
    "run_check",
    "run_checks",
    "unknown_names",
]

Waivers = Mapping[str, Mapping[str, str]]
"""Accepted faults of a package: for each check, words of a fault and the reason to accept it."""

CHECK_SECONDS = 60.0
"""Seconds that a check may take. All checks of a provider take a second or two if nothing hangs."""

REST_SECONDS = 30.0
"""Seconds for all further checks together, after a check found a blocked event loop."""


class DoesNotApply(Exception):
    """Raised by a check that does not concern a subject; the message is the reason."""


class Broken(AssertionError):
    """A fault that a check found.

    `sent` is the request or the frames with the fault, as JSON data or bytes; `expected` is the
    right value. Each is `None` if it does not apply.
    """

    def __init__(self, sentence: str, sent: Any = None, expected: Any = None) -> None:
        super().__init__(sentence)
        self.sent = sent
        self.expected = expected


MOST_FAULTS = 20
"""The maximum number of faults that one check reports. Waived faults do not count."""


@define
class _Faults:
    """The faults of the running check, which continues after a fault.

    `waived` are the words of the check's waivers.
    """

    waived: Collection[str]
    found: list[BaseException] = field(factory=list)

    def left(self) -> list[BaseException]:
        """Return the faults that no waiver covers."""
        return [
            fault
            for fault in self.found
            if not any(words in _sentence(fault) for words in self.waived)
        ]


_running: ContextVar[_Faults | None] = ContextVar("running", default=None)


class Blocks(Broken):
    """A fault that blocks the event loop."""


def require(condition: object, sentence: str, sent: Any = None, expected: Any = None) -> None:
    """Report a fault, which `sentence` describes, if the condition is false.

    In a check that `run_check` runs, the fault is stored and the check continues, so that it
    reports its other faults too. Otherwise Broken is raised. Unlike an assert statement, this also
    works under `python -O`.
    """
    if not condition:
        _store(Broken(sentence, sent, expected))


def _store(fault: Broken) -> None:
    running = _running.get()
    if running is None or len(running.left()) >= MOST_FAULTS:
        raise fault
    if str(fault) not in map(str, running.found):
        running.found.append(fault)


def fail(sentence: str, sent: Any = None, expected: Any = None) -> NoReturn:
    """Raise Broken with the sentence. The check ends, or its part inside `independent_part`."""
    raise Broken(sentence, sent, expected)


@contextmanager
def independent_part() -> Iterator[None]:
    """Store the fault that ends the block, as `require` does, so that the check goes on after it.

    Otherwise a waived fault of one recording would hide the faults of those that follow.
    """
    try:
        yield
    except Broken as fault:
        _store(fault)


class Examined(Protocol):
    """The interface of a subject (the provider or plugin under test)."""

    def environment(self) -> AbstractContextManager[object]:
        """Return a context manager that hides the user's environment variables."""


S = TypeVar("S", bound=Examined)


@define(frozen=True)
class Check(Generic[S]):
    """A named check; `about` describes it in one line.

    If the check fails, the fault may be in one of the provider's functions that `looks_at` names.
    If a check is `needed` but does not apply to a subject, the subject does not pass.
    """

    function: Callable[[S], None]
    looks_at: tuple[str, ...] = ()
    needed: bool = False

    @property
    def name(self) -> str:
        """The function's name without `check_`."""
        return self.function.__name__.removeprefix("check_")

    @property
    def about(self) -> str:
        """The first line of the function's docstring."""
        return (self.function.__doc__ or "").strip().partition("\n")[0]

    @property
    def module(self) -> str:
        """The name of the module that contains the check."""
        return self.function.__module__.partition(".conformance.")[2] or self.function.__module__


class Outcome(StrEnum):
    """The outcome of a check."""

    PASSED = "passed"
    FAILED = "failed"
    DOES_NOT_APPLY = "does not apply"
    WAIVED = "waived"


@define(frozen=True)
class Result:
    """The outcome of one check; `detail` is the reason, unless the check passed.

    `faults` are the faults that no waiver covers. `waived` contains the reasons of the waivers for
    the other faults.
    """

    name: str
    outcome: Outcome
    detail: str = ""
    faults: tuple[BaseException, ...] = field(default=(), repr=False, eq=False)
    waived: tuple[str, ...] = ()
    needed: bool = False

    @property
    def applied(self) -> bool:
        """Whether the check applied to the subject."""
        return self.outcome is not Outcome.DOES_NOT_APPLY

    @property
    def holds(self) -> bool:
        """Whether the check found no fault and, if it is needed, applied."""
        return self.outcome is Outcome.PASSED or not (self.applied or self.needed)

    @property
    def is_fault(self) -> bool:
        """Whether the check failed."""
        return self.outcome is Outcome.FAILED


def run_check(
    check: Check[S],
    subject: S,
    waivers: Waivers | None = None,
    seconds: float = CHECK_SECONDS,
) -> Result:
    """Run one check for at most `seconds`, and report all its faults.

    A waiver is an accepted fault, given as words that the fault's sentence contains, and a reason;
    matching faults are removed. A waiver without a matching fault is reported as a fault, so that
    waivers are removed when they are no longer needed.
    """
    own = dict((waivers or {}).get(check.name, {}))
    running = _Faults(own)
    found = running.found
    token = _running.set(running)
    try:
        with subject.environment(), time_limit(seconds):
            check.function(subject)
    except DoesNotApply as inapplicable:
        if not (found or own):
            reason = str(inapplicable)
            return Result(check.name, Outcome.DOES_NOT_APPLY, reason, needed=check.needed)
    except (Exception, TookTooLong) as raised:
        is_new = _sentence(raised) not in map(_sentence, found)
        if isinstance(raised, Broken | TookTooLong) or not found:
            found += [raised] if is_new else []  # else it follows from the first fault
    finally:
        _running.reset(token)
    faults = running.left()
    sentences = [_sentence(error) for error in found]
    for words in own:
        if not any(words in sentence for sentence in sentences):
            faults.append(Broken(f"no fault has the words of the waiver {words!r}: remove it"))
    waived = tuple(f"{words}: {reason}" for words, reason in own.items())
    if faults:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        detail = f"{_sentence(faults[0])}{more}"
        outcome = Outcome.FAILED
    else:
        detail = "; ".join(waived)
        outcome = Outcome.WAIVED if waived else Outcome.PASSED
    return Result(check.name, outcome, detail, tuple(faults), waived, check.needed)


def run_checks(
    checks: Iterable[Check[S]], subject: S, waivers: Waivers | None = None
) -> list[Result]:
    """Run checks in order and return their results."""
    return list(each_result(checks, subject, waivers))


def each_result(
    checks: Iterable[Check[S]], subject: S, waivers: Waivers | None = None
) -> Iterator[Result]:
    """Run checks in order and yield each one's result as it ends.

    A provider that blocks the event loop would do so in most checks. After the first check that
    finds this, the remaining checks together may take `REST_SECONDS`, and each of them a third of
    the time that is left.
    """
    blocks, left = False, REST_SECONDS
    for check in checks:
        begun = monotonic()
        seconds = max(REST_SECONDS / 30, left / 3) if blocks else CHECK_SECONDS
        result = run_check(check, subject, waivers, seconds)
        if blocks:
            left -= monotonic() - begun
        blocks = blocks or any(isinstance(e, Blocks | TookTooLong) for e in result.faults)
        yield result


def consistency_line(results: Sequence[Result]) -> str:
    """Return one line: whether all checks that apply passed, and the names of those that failed."""
    applied = sum(result.applied for result in results)
    idle = len(results) - applied
    missed = [result for result in results if not result.holds]
    waived = sum(len(result.waived) for result in results)
    names = ", ".join(
        result.name if result.applied else f"{result.name} ({result.detail})"
        for result in missed
        if result.outcome is not Outcome.WAIVED
    )
    if names:
        return f"not consistent: {names}; {applied} of {len(results)} checks apply"
    but = f", {waived} fault{'s' * (waived > 1)} waived" if waived else ""
    return f"consistent: {applied} checks hold{but}, {idle} do not apply"


def idle_lines(results: Iterable[Result]) -> list[str]:
    """List the checks that did not apply, in one line for each reason."""
    reasons: dict[str, list[str]] = {}
    for result in results:
        if not result.applied:
            reasons.setdefault(result.detail, []).append(result.name)
    return [f"{', '.join(names)}: {reason}" for reason, names in reasons.items()]


def unknown_names(checks: Sequence[Check[Any]], names: Iterable[str]) -> list[str]:
    """Return the names in `names` that no check has, sorted."""
    return sorted(set(names) - {check.name for check in checks})


def _sentence(error: BaseException) -> str:
    if isinstance(error, AssertionError | TookTooLong):
        return str(error)
    return f"{type(error).__name__}: {error}"
