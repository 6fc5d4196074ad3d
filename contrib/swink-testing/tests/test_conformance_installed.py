"""Every provider that is installed passes the conformance kit, the presets too."""

from __future__ import annotations

import pytest

from swink_core import Host
from swink_testing.conformance import PROVIDER_CHECKS, Subject, run_checks


@pytest.mark.parametrize("name", Host(environ={}).provider_names())
def test_an_installed_provider_passes_the_kit(name: str) -> None:
    subject = Subject.find(name)

    results = run_checks(PROVIDER_CHECKS, subject, subject.known_failures)

    assert {r.name: r.detail for r in results if r.is_fault} == {}
