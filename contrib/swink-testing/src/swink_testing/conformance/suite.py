"""The pytest classes to subclass; pytest itself is imported only when one of their tests runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from swink_testing.conformance.check import (
    LEVELS,
    Check,
    Outcome,
    Result,
    idle_lines,
    level_line,
    run_check,
    unknown_names,
)

__all__ = ["RESULT_PROPERTY", "ConformanceSuite", "subject_of", "summary"]

RESULT_PROPERTY = "swink_conformance"
"""The name under which a test reports its result, for the summary of the level reached."""


class ConformanceSuite:
    """One test for each check of a subject; what subclasses of it have in common.

    `expected_failures` maps a check's name to the reason why it fails. A check that passes
    although it is listed fails the test, and so does a name that no check has.
    """

    levels: ClassVar[Mapping[int, str]] = LEVELS
    expected_failures: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def checks(cls) -> Sequence[Check[Any]]:
        """Return the checks to run."""
        raise NotImplementedError

    @classmethod
    def subject(cls) -> Any:
        """Return what the checks examine."""
        raise NotImplementedError

    @classmethod
    def subject_name(cls) -> str:
        """Name it in the summary."""
        raise NotImplementedError

    @classmethod
    def expected(cls) -> Mapping[str, str]:
        """Return the checks that fail, with the reasons."""
        return cls.expected_failures

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """Make a test of each check; pytest calls it on collection."""
        if "check" in metafunc.fixturenames:
            checks = type(self).checks()
            metafunc.parametrize("check", checks, ids=[check.name for check in checks])

    def test_conformance(
        self, check: Check[Any], record_property: Callable[[str, object], None]
    ) -> None:
        """Run one check."""
        import pytest

        result = run_check(check, subject_of(type(self)), self.expected())
        record_property(RESULT_PROPERTY, self._told(result))
        match result.outcome:
            case Outcome.DOES_NOT_APPLY:
                pytest.skip(f"does not apply: {result.detail}")
            case Outcome.EXPECTED_FAILURE:
                pytest.xfail(result.detail)
            case Outcome.FAILED:
                assert result.error is not None
                raise result.error
            case Outcome.UNEXPECTED_PASS:
                pytest.fail(f"{check.name} passes, though {result.detail}", pytrace=False)

    def _told(self, result: Result) -> dict[str, Any]:
        return {
            "subject": self.subject_name(),
            "levels": list(self.levels.values()),
            "check": result.name,
            "level": result.level,
            "outcome": str(result.outcome),
            "detail": result.detail,
            "needed": result.needed,
        }

    def test_expected_failures_have_reasons(self) -> None:
        """Refuse names that no check has, and checks switched off without a reason."""
        expected = self.expected()
        unknown = unknown_names(self.checks(), expected)
        known = ", ".join(check.name for check in self.checks())
        if unknown:
            raise AssertionError(f"no check is called {', '.join(unknown)}; there are {known}")
        mute = [name for name, reason in expected.items() if not reason.strip()]
        if mute:
            raise AssertionError(f"expected to fail without a reason: {', '.join(mute)}")


def summary(told: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return lines for each subject among reported results: its level, and what did not apply."""
    by_subject: dict[str, list[Result]] = {}
    levels: dict[str, dict[int, str]] = {}
    for row in told:
        result = Result(
            row["check"],
            row["level"],
            Outcome(row["outcome"]),
            row["detail"],
            needed=row["needed"],
        )
        by_subject.setdefault(row["subject"], []).append(result)
        levels[row["subject"]] = dict(enumerate(row["levels"]))
    lines = []
    for name, found in by_subject.items():
        lines.append(f"{name}: {level_line(found, levels[name])}")
        lines += [f"  does not apply: {line}" for line in idle_lines(found)]
    return lines


_subjects: dict[type[ConformanceSuite], Any] = {}


def subject_of(suite: type[ConformanceSuite]) -> Any:
    """Find a class's subject, once: loading it takes longer than most checks."""
    if suite not in _subjects:
        _subjects[suite] = suite.subject()
    return _subjects[suite]
