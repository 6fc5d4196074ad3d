"""The conformance kit: what every provider promises, as checks that anyone can run.

    class TestAcme(ProviderConformance):
        provider = "acme"

runs them under pytest; `swink check acme` and `run_checks(PROVIDER_CHECKS, Subject.find("acme"))`
run the same ones without it.
"""

from swink_testing.conformance.check import (
    LEVELS,
    Check,
    DoesNotApply,
    Outcome,
    Result,
    fail,
    idle_lines,
    level_line,
    level_reached,
    require,
    run_check,
    run_checks,
    unknown_names,
)
from swink_testing.conformance.diagnosis import explain
from swink_testing.conformance.provider import PROVIDER_CHECKS, ProviderConformance
from swink_testing.conformance.subject import CANARY_KEY, Subject
from swink_testing.conformance.suite import ConformanceSuite

__all__ = [
    "CANARY_KEY",
    "LEVELS",
    "PROVIDER_CHECKS",
    "Check",
    "ConformanceSuite",
    "DoesNotApply",
    "Outcome",
    "ProviderConformance",
    "Result",
    "Subject",
    "explain",
    "fail",
    "idle_lines",
    "level_line",
    "level_reached",
    "require",
    "run_check",
    "run_checks",
    "unknown_names",
]
