"""The conformance tests ("checks") that every provider must pass.

    class TestAcme(ProviderConformance):
        provider = "acme"

This class runs the checks under pytest. `swink check acme` and `run_checks(PROVIDER_CHECKS,
Subject.find("acme"))` run the same checks without pytest.
"""

from swink_testing.conformance.check import (
    Check,
    DoesNotApply,
    Outcome,
    Result,
    Waivers,
    consistency_line,
    fail,
    idle_lines,
    require,
    run_check,
    run_checks,
    unknown_names,
)
from swink_testing.conformance.diagnosis import explain
from swink_testing.conformance.evidence import evidence_of
from swink_testing.conformance.provider import PROVIDER_CHECKS, ProviderConformance
from swink_testing.conformance.subject import CANARY_KEY, Subject
from swink_testing.conformance.suite import ConformanceSuite

__all__ = [
    "CANARY_KEY",
    "PROVIDER_CHECKS",
    "Check",
    "ConformanceSuite",
    "DoesNotApply",
    "Outcome",
    "ProviderConformance",
    "Result",
    "Subject",
    "Waivers",
    "consistency_line",
    "evidence_of",
    "explain",
    "fail",
    "idle_lines",
    "require",
    "run_check",
    "run_checks",
    "unknown_names",
]
