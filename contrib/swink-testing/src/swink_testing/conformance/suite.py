"""The pytest classes to subclass; pytest itself is imported only when one of their tests runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from swink_testing.conformance.check import (
    Check,
    Outcome,
    Result,
    Waivers,
    consistency_line,
    idle_lines,
    run_check,
    unknown_names,
)

__all__ = ["RESULT_PROPERTY", "ConformanceSuite", "subject_of", "summary"]

RESULT_PROPERTY = "swink_conformance"
"""The name under which a test reports its result, for the summary."""


class ConformanceSuite:
    """The base of conformance test classes: one test for each check of a subject.

    `waivers` maps the name of a check to accepted faults, each with words from the fault's message
    and the reason. A waiver that matches no fault fails the test, and so does an unknown name of a
    check.
    """

    waivers: ClassVar[Waivers] = {}

    @classmethod
    def checks(cls) -> Sequence[Check[Any]]:
        """Return the checks to run."""
        raise NotImplementedError

    @classmethod
    def subject(cls) -> Any:
        """Return the object under test, such as a provider; each check gets it as an argument."""
        raise NotImplementedError

    @classmethod
    def subject_name(cls) -> str:
        """Return the name of the object under test, for the summary."""
        raise NotImplementedError

    @classmethod
    def all_waivers(cls) -> Waivers:
        """Return the waivers: the accepted faults, with the reasons."""
        return cls.waivers

    @classmethod
    def evidence_lines(cls) -> list[str]:
        """Summarize the evidence from real servers; an empty list for subjects that need none."""
        return []

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """Create a test for each check; pytest calls this hook when it collects tests."""
        if "check" in metafunc.fixturenames:
            checks = type(self).checks()
            metafunc.parametrize("check", checks, ids=[check.name for check in checks])

    def test_conformance(
        self, check: Check[Any], record_property: Callable[[str, object], None]
    ) -> None:
        """Run one check."""
        import pytest

        result = run_check(check, subject_of(type(self)), self.all_waivers())
        record_property(RESULT_PROPERTY, self._told(result))
        match result.outcome:
            case Outcome.DOES_NOT_APPLY:
                pytest.skip(f"does not apply: {result.detail}")
            case Outcome.WAIVED:
                pytest.xfail(result.detail)
            case Outcome.FAILED:
                if len(result.faults) > 1:
                    pytest.fail("\n".join(map(str, result.faults)), pytrace=False)
                raise result.faults[0]

    def _told(self, result: Result) -> dict[str, Any]:
        return {
            "subject": self.subject_name(),
            "evidence": self.evidence_lines(),
            "check": result.name,
            "outcome": str(result.outcome),
            "detail": result.detail,
            "needed": result.needed,
            "waived": list(result.waived),
        }

    def test_waivers_have_reasons(self) -> None:
        """Fail for waivers of unknown checks, and for waivers without a reason."""
        waivers = self.all_waivers()
        unknown = unknown_names(self.checks(), waivers)
        known = ", ".join(check.name for check in self.checks())
        if unknown:
            raise AssertionError(f"no check is called {', '.join(unknown)}; there are {known}")
        mute = [name for name, rows in waivers.items() if not all(map(str.strip, rows.values()))]
        if mute:
            raise AssertionError(f"waived without a reason: {', '.join(mute)}")


def summary(told: Iterable[Mapping[str, Any]]) -> list[str]:
    """Summarize reported results in lines of text.

    For each subject, the lines contain whether it passed, which evidence it has, and which checks
    did not apply.
    """
    by_subject: dict[str, list[Result]] = {}
    evidence: dict[str, list[str]] = {}
    for row in told:
        result = Result(
            row["check"],
            Outcome(row["outcome"]),
            row["detail"],
            waived=tuple(row["waived"]),
            needed=row["needed"],
        )
        by_subject.setdefault(row["subject"], []).append(result)
        evidence[row["subject"]] = row["evidence"]
    lines = []
    for name, found in by_subject.items():
        lines.append(f"{name}: {consistency_line(found)}")
        lines += [f"{name}: {line}" for line in evidence[name][:1]]
        lines += [f"  {line}" for line in evidence[name][1:]]
        lines += [f"  does not apply: {line}" for line in idle_lines(found)]
    return lines


_subjects: dict[type[ConformanceSuite], Any] = {}


def subject_of(suite: type[ConformanceSuite]) -> Any:
    """Return the subject of a test class.

    The result is cached, because loading the subject takes longer than most checks.
    """
    if suite not in _subjects:
        _subjects[suite] = suite.subject()
    return _subjects[suite]
