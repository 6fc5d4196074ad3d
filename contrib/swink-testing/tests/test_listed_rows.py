"""Rows of a package's lists, and the row that a failure names."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from conformance_subjects import FIXTURES, subject_of

from swink_core import Notice, PluginError, replace
from swink_core.providers import HTTPRequest
from swink_testing.conformance import PROVIDER_CHECKS, Outcome, Result, Subject, run_check
from swink_testing.conformance.answers.expected_messages import notice_difference
from swink_testing.conformance.failures.errors import LISTED_ERRORS, ListedError

CHECKS = {check.name: check for check in PROVIDER_CHECKS}
ASKED = {"about": "a question", "context": {"messages": [{"role": "user", "content": "Why?"}]}}
WHOLE = {"about": "an answer", "whole": [{"type": "text", "text": "So."}, {"type": "done"}]}


@pytest.fixture(autouse=True)
def _fixture_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(FIXTURES)


@pytest.fixture
def result_of(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Return the result of a check on a provider whose package ships these rows."""

    def result_of(name: str, *rows: dict[str, Any]) -> Result:
        data = "".join(f"{json.dumps(row)}\n" for row in rows).encode()
        monkeypatch.setattr(Subject, "shipped", lambda self, name, decode: decode(data))
        return run_check(CHECKS[name], subject_of())

    return result_of


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("listed_requests", {**ASKED, "body": {}}),
        ("expected_messages", {**WHOLE, "message": {"content": []}}),
        ("errors", {"status": 400, "body": {}, "kind": "overloaded"}),
    ],
)
def test_a_row_that_does_not_hold_is_named_by_its_line(
    name: str, row: dict[str, Any], result_of: Callable[..., Result]
) -> None:
    result = result_of(name, {**row, "provider": "another"}, row)

    assert result.outcome is Outcome.FAILED
    assert "line 2" in result.detail


@pytest.mark.parametrize("data", [b"{", b'{"about": "\xff"}'], ids=["cut", "not UTF-8"])
def test_a_file_that_cannot_be_read_is_named(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    subject = subject_of()
    monkeypatch.setattr(Path, "is_file", lambda path: True)
    monkeypatch.setattr(Path, "read_bytes", lambda path: data)

    with pytest.raises(PluginError, match=LISTED_ERRORS):
        subject.rows(LISTED_ERRORS, ListedError)


@pytest.mark.parametrize(
    ("more", "outcome"),
    [
        ({"method": "GET", "path": "/generate"}, Outcome.PASSED),
        ({"method": "GET", "path": "/generate/7"}, Outcome.FAILED),
        ({"path": "/generate"}, Outcome.FAILED),
    ],
)
def test_a_request_without_a_body_is_one_like_others(
    more: dict[str, Any],
    outcome: Outcome,
    result_of: Callable[..., Result],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sound = import_module("sound_provider").Sound
    ask = sound.request
    bare = {"body": b"", "method": "GET"}
    monkeypatch.setattr(sound, "request", lambda *given: evolve(ask(*given), **bare))

    assert result_of("listed_requests", {**ASKED, "body": {}, **more}).outcome is outcome


@pytest.mark.parametrize(("value", "outcome"), [("a", Outcome.PASSED), ("b", Outcome.FAILED)])
def test_a_row_may_set_environment_variables(
    value: str,
    outcome: Outcome,
    result_of: Callable[..., Result],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sound = import_module("sound_provider").Sound
    ask = sound.request

    def in_project(*given: Any) -> HTTPRequest:
        request: HTTPRequest = ask(*given)
        return evolve(request, body=b"", headers={"Project": os.environ.get("PROJECT", "")})

    monkeypatch.setattr(sound, "request", in_project)
    row = {**ASKED, "body": {}, "environ": {"PROJECT": value}, "headers": {"Project": "a"}}

    assert result_of("listed_requests", row).outcome is outcome


@pytest.mark.parametrize(
    ("says", "outcome"), [("not support audio", Outcome.PASSED), ("video", Outcome.FAILED)]
)
def test_a_row_may_name_a_part_of_the_error_message(
    says: str, outcome: Outcome, result_of: Callable[..., Result]
) -> None:
    sound = {"type": "audio", "source": {"type": "base64", "media_type": "audio/wav", "data": ""}}
    context = {"messages": [{"role": "user", "content": [sound]}]}

    row = {**ASKED, "context": context, "says": says}

    assert result_of("listed_requests", row).outcome is outcome


@pytest.mark.parametrize(
    ("options", "outcome"), [({"seed": 7}, Outcome.PASSED), ({}, Outcome.FAILED)]
)
def test_a_whole_answer_is_asked_for_with_its_options(
    options: dict[str, Any], outcome: Outcome, result_of: Callable[..., Result]
) -> None:
    message = {"content": [{"type": "text", "text": "So."}], "usage": {"reported": True},
               "stop_reason": "stop"}  # fmt: skip
    told = ["seed", "stop_reason: "]
    row = {**WHOLE, "options": options, "message": message, "notices": told}

    assert result_of("expected_messages", row).outcome is outcome


@pytest.mark.parametrize(("most", "outcome"), [(2, Outcome.PASSED), (3, Outcome.FAILED)])
def test_a_stream_is_asked_for_with_its_options(
    most: int, outcome: Outcome, result_of: Callable[..., Result]
) -> None:
    message = {"content": [{"type": "text", "text": "So."}], "stop_reason": "error",
               "error_kind": "output_too_large"}  # fmt: skip
    row = {"about": "an answer", "frames": WHOLE["whole"], "message": message}

    limited = {**row, "options": {"max_output_chars": most}}
    assert result_of("expected_messages", limited).outcome is outcome


def test_a_row_may_name_the_paths_of_a_notice() -> None:
    notice = Notice("option_ignored", "seed was not sent", ("options.seed",))

    assert notice_difference([notice], ["seed was not sent (options.seed)"]) is None
    assert notice_difference([replace(notice, paths=())], ["seed was not sent (options.seed)"])
