"""The kit checks providers that sign requests, without blaming those that do it correctly."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from attrs import evolve
from conformance_subjects import FIXTURES, subject_of

from swink_core import AssistantMessage, StopReason, StreamErrorKind, replace
from swink_recorder.legs import RecordedRequest
from swink_recorder.recording import Recording
from swink_testing.clock import BEGAN
from swink_testing.conformance import PROVIDER_CHECKS, Outcome, Subject, run_check, run_checks
from swink_testing.conformance.lifecycle.signing import states_time
from swink_testing.conformance.requests.listed_requests import Listed

CHECKS = {check.name: check for check in PROVIDER_CHECKS}


@pytest.fixture(autouse=True)
def _fixture_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(FIXTURES)


def faults(subject: Subject) -> list[str]:
    results = run_checks(PROVIDER_CHECKS, subject)
    return [f"{result.name}: {result.detail}" for result in results if result.is_fault]


@pytest.mark.heavy
@pytest.mark.parametrize("cls", ["Signs", "SignsByTheMachine", "KeyInPass"])
def test_a_provider_whose_requests_do_not_show_the_key_is_consistent(cls: str) -> None:
    assert faults(subject_of("sound", f"signing:{cls}")) == []


@pytest.mark.heavy
def test_a_key_of_several_parts_is_given_in_its_form() -> None:
    assert faults(subject_of("sound", "signing:TakesTwoParts", key_form="ID7:{}")) == []
    assert faults(subject_of("sound", "signing:TakesTwoParts")) != []


@pytest.mark.parametrize(
    ("cls", "words"),
    [
        ("SignsWithFirstKey", "x-sound-signature is the same for different keys"),
        ("SignsWithFirstKeyOfAll", "its key is not used"),
        ("SignsWithoutKey", "its key is not used"),
        ("SignsFirstBody", "x-sound-signature is the same for different bodies"),
        ("SignsSizes", "x-sound-signature is the same for different bodies"),
        ("SignsDateOfImport", "x-sound-date is 20"),
        ("SignsOldDateByTheMachine", "x-sound-date is 20"),
        ("SignsWithFirstVariable", "not made from the key that SOUND_API_KEY holds"),
    ],
)
def test_a_wrong_signature_is_named(cls: str, words: str) -> None:
    found = run_check(CHECKS["calls_are_apart"], subject_of("sound", f"signing:{cls}"))

    assert found.outcome is Outcome.FAILED
    assert any(words in str(fault) for fault in found.faults), found.faults


def recorded(subject: Subject, headers: dict[str, str]) -> Recording:
    """Return the subject's first recording, as of a real call: with its arguments and headers."""
    answer = next(each for each in subject.recordings if each.name == "answer")
    asked = {"context": {"messages": [{"role": "user", "content": "Hello"}]}, "options": {}}
    body = {
        "messages": [{"role": "user", "content": "Hello"}],
        "tools": [],
        "model": "large",
        "stream": True,
    }
    request = RecordedRequest(path="/v1/generate", headers=headers, body=body)
    return evolve(answer, asked=asked, request=request)


REAL = {
    "Content-Type": "application/json",
    "X-Sound-Date": "20260218T101112Z",
    "X-Sound-Signature": "1a7d83af41a0",
}


@pytest.mark.parametrize(
    ("cls", "key_form", "more", "outcome"),
    [
        ("Signs", "{}", {}, Outcome.PASSED),
        ("SignsByTheMachine", "{}", {}, Outcome.PASSED),
        ("TakesTwoParts", "ID7:{}", {"X-Sound-Id": "of the real user"}, Outcome.PASSED),
        ("Signs", "{}", {"X-Sound-Id": "of the real user"}, Outcome.FAILED),
        ("Signs", "{}", {"Content-Type": "text/plain"}, Outcome.FAILED),
    ],
)
def test_values_that_a_signer_makes_are_not_compared_with_a_recording(
    cls: str,
    key_form: str,
    more: dict[str, str],
    outcome: Outcome,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    subject = subject_of("sound", f"signing:{cls}", key_form=key_form)
    monkeypatch.setattr(subject, "recordings", [recorded(subject, {**REAL, **more})])

    found = run_check(CHECKS["recorded_requests"], subject)

    assert found.outcome is outcome, found.detail


def test_a_value_of_a_required_variable_is_not_compared_with_a_recording(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    subject = subject_of("sound", "signing:NamesItsProject")
    assert subject.info is not None
    info = replace(subject.info, required_env=("SOUND_PROJECT",))
    monkeypatch.setattr(Subject, "info", info)
    real = {**REAL, "X-Sound-Project": "of the real user"}
    monkeypatch.setattr(subject, "recordings", [recorded(subject, real)])

    found = run_check(CHECKS["recorded_requests"], subject)

    assert found.outcome is Outcome.PASSED, found.detail


@pytest.mark.parametrize(
    ("cls", "outcome"), [("Signs", Outcome.PASSED), ("SignsWithoutBody", Outcome.FAILED)]
)
def test_a_row_with_a_signature_finds_a_body_that_is_not_signed(
    cls: str, outcome: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other check can know whether the API signs the body."""
    body: dict[str, Any] = {
        "messages": [{"role": "user", "content": "Why?"}],
        "tools": [],
        "model": "large",
        "stream": True,
    }
    date = BEGAN.strftime("%Y%m%dT%H%M%SZ")
    sent = (
        b'{"messages":[{"role":"user","content":"Why?"}],"tools":[],"model":"large","stream":true}'
    )
    signed = import_module("sound_provider.signing").signature("secret", date, sent)
    row = Listed(
        "a signature",
        context={"messages": [{"role": "user", "content": "Why?"}]},
        options={"api_key": "secret"},
        body=body,
        headers={"X-Sound-Date": date, "X-Sound-Signature": signed},
    )
    subject = subject_of("sound", f"signing:{cls}")
    monkeypatch.setattr(Subject, "rows", lambda *_: [("line 1", row)])

    found = run_check(CHECKS["listed_requests"], subject)

    assert found.outcome is outcome, found.faults


def test_an_error_that_is_no_stream_is_read_as_the_core_reads_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    subject = subject_of()
    body = b'{"error": {"code": "busy", "message": "Too many calls."}}'
    error = Recording(
        "sound",
        "large",
        body,
        [(0.0, len(body))],
        name="error-with-status-200",
        wire_format="sound",
        headers={"Content-Type": "application/json"},
        message=AssistantMessage(
            [],
            provider="sound",
            model="large",
            stop_reason=StopReason.ERROR,
            error_kind=StreamErrorKind.OVERLOADED,
            error_message="Too many calls.",
        ),
    )
    monkeypatch.setattr(subject, "recordings", [*subject.recordings, error])

    assert faults(subject) == []


@pytest.mark.parametrize(
    ("value", "is_time"),
    [
        ("20260218T101112Z", True),
        ("2026-02-18T10:11:12+00:00", True),
        ("Wed, 18 Feb 2026 10:11:12 GMT", True),
        ("1771409472", True),
        ("1771409472123", True),
        ("2026-02-18", False),
        ("1a7d83af41a05ed4a62205e94098ff", False),
        ("application/json", False),
    ],
)
def test_a_time_in_a_header_is_recognized(value: str, is_time: bool) -> None:
    assert states_time(value) is is_time
