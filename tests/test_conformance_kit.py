"""The conformance kit is tested itself: a fault fails its own check and no other."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace

import pytest

from swink_core import Host
from swink_core.testing.conformance import (
    LEVELS,
    PROVIDER_CHECKS,
    Check,
    DoesNotApply,
    Outcome,
    Result,
    Subject,
    level_line,
    level_reached,
    require,
    run_check,
    run_checks,
)

FIXTURES = Path(__file__).parent / "fixtures" / "conformance"

BROKEN = [
    # entry point's name, its class, the check that fails
    ("sound", "unimportable:Anything", "loads"),
    ("sound", "broken:OtherLevel", "loads"),
    ("sound", "broken:MisspeltHook", "loads"),
    ("newer", "broken:Newer", "loads"),
    ("unrecorded", "Sound", "recordings"),
    ("sound", "broken:CutsCharacters", "same_events_however_cut"),
    ("ungrammatical", "broken:ClosesTwice", "grammar"),
    ("sound", "broken:ForgetsUsage", "expected_message"),
    ("sound", "broken:EndOfInputIsSuccess", "truncation"),
    ("sound", "broken:IgnoresErrorFrames", "in_stream_errors"),
    ("sound", "broken:ErrorsAreText", "in_stream_errors"),
    ("sound", "broken:ForgetsRetryAfter", "http_errors"),
    ("sound", "broken:EverythingIsNetwork", "http_errors"),
    ("sound", "broken:HoldsOn", "cancelling_closes"),
    ("restless", "broken:LeavesTasks", "cancelling_closes"),
    ("sound", "broken:ChangesContext", "conversations"),
    ("sound", "broken:NotJson", "conversations"),
    ("sound", "broken:AsciiOnly", "conversations"),
    ("sound", "broken:SendsForeignSignatures", "conversations"),
    ("sound", "broken:ChokesOnOrphans", "conversations"),
    ("sound", "broken:AsksAnyway", "unsupported_features"),
    ("sound", "broken:DropsImages", "nothing_dropped"),
    ("sound", "broken:DropsSeed", "nothing_dropped"),
    ("sound", "broken:LogsKey", "no_secret_leaks"),
    ("sound", "broken:ShowsKey", "no_secret_leaks"),
    ("sound", "broken:KeyInAddress", "no_secret_leaks"),
    ("sound", "broken:UndecoratedHook", "hooks_are_decorated"),
    ("sound", "heavy:Heavy", "imports_are_light"),
    ("nameless-key", "Sound", "provider_info"),
    ("placeless", "Sound", "provider_info"),
    ("mute", "Sound", "provider_info"),
    ("boundless", "Sound", "catalogue"),
    ("tiny", "Sound", "catalogue"),
    ("dear", "Sound", "catalogue"),
    ("undated", "Sound", "catalogue"),
    ("future", "Sound", "catalogue"),
    ("misspelt", "Sound", "catalogue"),
]


@pytest.fixture(autouse=True)
def _fixture_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(FIXTURES)


def subject_of(name: str = "sound", where: str = "Sound", **more: object) -> Subject:
    """A provider of the fixture package; `where` is `module:Class`, or a class of the package."""
    module, colon, cls = where.rpartition(":")
    value = f"sound_provider{'.' * bool(colon)}{module}:{cls}"
    point = EntryPoint(name, value, "swink.providers")
    entry = SimpleNamespace(
        name=name,
        group=point.group,
        value=value,
        load=point.load,
        dist=SimpleNamespace(name="sound-provider", version="1.0"),
    )
    return Subject(name, Host(entry_points=[entry], environ={}), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "where", "check"), BROKEN, ids=lambda value: value)
def test_a_fault_fails_its_own_check_and_no_other(name: str, where: str, check: str) -> None:
    results = run_checks(PROVIDER_CHECKS, subject_of(name, where))

    assert {result.name: result.detail for result in results if result.is_fault}.keys() == {check}


def test_every_check_has_a_fixture_that_fails_it() -> None:
    assert {check for _, _, check in BROKEN} == {check.name for check in PROVIDER_CHECKS}


def test_every_check_applies_to_the_sound_provider_and_passes() -> None:
    results = run_checks(PROVIDER_CHECKS, subject_of())

    assert {r.name: (r.outcome, r.detail) for r in results} == {
        check.name: (Outcome.PASSED, "") for check in PROVIDER_CHECKS
    }


def test_echo_passes_all_that_applies_to_it() -> None:
    results = run_checks(PROVIDER_CHECKS, Subject.find("echo"))

    assert [result for result in results if not result.holds] == []
    assert level_reached(results) == max(LEVELS)
