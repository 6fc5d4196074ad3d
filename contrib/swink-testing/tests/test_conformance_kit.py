"""The conformance kit is tested itself: a fault fails its own check and no other."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib.metadata import EntryPoint
from types import SimpleNamespace
from typing import Any

import importlib_metadata  # noqa: F401 - it may not be imported first in a run within a run
import msgspec
import pytest
from attrs import evolve
from conformance_subjects import FIXTURES, subject_of
from faulty_providers import BROKEN

import swink_core as swink
from swink_core import UnknownProvider, replace
from swink_core.providers import EventSource, EventWriter, HTTPProvider, NDJSONDecoder
from swink_core.vocabulary.models import Rule
from swink_testing.conformance import (
    PROVIDER_CHECKS,
    Check,
    DoesNotApply,
    Outcome,
    Result,
    Subject,
    check,
    consistency_line,
    idle_lines,
    require,
    run_check,
    run_checks,
)
from swink_testing.conformance.answers import expected_messages, finish_reasons, streaming
from swink_testing.conformance.check import Broken, fail, independent_part
from swink_testing.conformance.diagnosis import explain
from swink_testing.conformance.lifecycle import connections
from swink_testing.conformance.requests import listed_requests

pytest_plugins = ["pytester"]


@pytest.fixture(autouse=True)
def _fixture_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(FIXTURES)


LONG = ("large_input", "never_blocks")
"""Checks that repeat slow work, until they are certain that it is slow."""


@pytest.mark.parametrize(
    ("name", "where", "check"),
    [pytest.param(*row, marks=[pytest.mark.heavy] if row[2] in LONG else []) for row in BROKEN],
    ids=lambda value: value,
)
def test_a_fault_fails_its_own_check(name: str, where: str, check: str) -> None:
    """`make mutants` runs all other checks too, and no other fails."""
    assert run_check(_check(check), subject_of(name, where)).is_fault


def _named(subject: Subject, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a provider's API call `name` what holds its counts."""
    parser, said = type(subject.provider.parser(subject.model)), f'"{name}"'.encode()
    feed = parser.feed

    def read(self: Any, frame: bytes, out: EventWriter) -> None:
        feed(self, frame.replace(said, b'"usage"'), out)

    monkeypatch.setattr(parser, "feed", read)
    recordings = [
        evolve(each, body=(body := each.body.replace(b'"usage"', said)),
               chunks=[(0.0, len(body))])
        for each in subject.recordings
    ]  # fmt: skip
    monkeypatch.setattr(subject, "recordings", recordings)


@pytest.mark.parametrize("name", ["usage", "tokens", "metering"])
@pytest.mark.parametrize(
    ("where", "check", "outcome"),
    [
        ("Sound", "token_counts", Outcome.PASSED),
        ("broken:CountsWhatNobodyCounted", "token_counts", Outcome.FAILED),
        ("careless:ZeroIsNothing", "token_counts", Outcome.FAILED),
    ],
)
def test_counts_are_looked_at_whatever_their_name(
    where: str, check: str, outcome: Outcome, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """APIs have different names for token usage."""
    subject = subject_of("sound", where)
    _named(subject, name, monkeypatch)

    assert run_check(_check(check), subject).outcome is outcome


def test_counts_that_nobody_reads_are_not_checked_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    subject = subject_of()
    monkeypatch.setattr(type(subject.provider.parser(subject.model)), "on_begun", lambda *_: None)

    found = run_check(_check("token_counts"), subject)

    assert found.outcome is Outcome.DOES_NOT_APPLY
    assert found.detail == "no number of a recording is read as a count of tokens"


OF_THE_WHOLE = frozenset({"loads", "recordings", "imports_are_light"})
"""Checks whose fault no one function has."""


@pytest.mark.parametrize("check", PROVIDER_CHECKS, ids=lambda check: check.name)
def test_of_each_check_that_fails_it_is_said_where_to_look(check: Check[Subject]) -> None:
    failed = Result(check.name, Outcome.FAILED, "why", (Broken("why"),))

    lines = [*explain(subject_of(), check, failed)]

    assert any(line.startswith("    at ") for line in lines) != (check.name in OF_THE_WHOLE), lines


def _check(name: str) -> Check[Subject]:
    return next(each for each in PROVIDER_CHECKS if each.name == name)


def test_an_event_that_takes_too_much_of_the_processor_blocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streaming, "FREEZE", 0.0)

    found = run_check(Check(streaming.check_never_blocks), subject_of())

    assert re.match(r"recording .*: an event takes [\d.e-]+ s of the processor", found.detail)


def test_an_answer_that_comes_whole_is_left_before_it() -> None:
    class AtOnce:
        def __init__(self, name: str) -> None:
            self.name = name

        @swink.hookimpl
        def stream(self, model: swink.Model, call: swink.Call) -> EventSource:
            return EventSource(call, self.lines(), NDJSONDecoder(), Parser())

        async def lines(self) -> AsyncIterator[bytes]:
            yield b"Hello\n"

    class Parser:
        def feed(self, frame: bytes, out: EventWriter) -> None:
            out.text(frame.decode())
            out.stop(swink.StopReason.STOP)
            out.finish()

    found = run_check(
        Check(connections.check_connections_are_closed), subject_of("restless", load=lambda: AtOnce)
    )

    assert (found.outcome, found.detail) == (Outcome.PASSED, "")


def test_a_stream_hook_that_is_a_coroutine_is_called_so() -> None:
    class Coroutine:
        def __init__(self, name: str) -> None:
            self.name = name

        @swink.hookimpl
        async def stream(self) -> None:
            return None

    found = run_check(_check("grammar"), subject_of("restless", load=lambda: Coroutine))

    assert found.detail == (
        "TypeError: stream returns no async iterator, but coroutine: "
        "let it be a plain def with @hookimpl"
    )


def test_a_waived_fault_does_not_hide_the_faults_of_later_parts() -> None:
    def check_parts(subject: Subject) -> None:
        """Each part is as expected."""
        for name in ("one", "two", "three"):
            with independent_part():
                fail(f"part {name} is another one")

    found = run_check(Check(check_parts), subject_of(), {"parts": {"part one": "accepted"}})

    assert [str(fault) for fault in found.faults] == [
        "part two is another one", "part three is another one",
    ]  # fmt: skip


def test_of_a_package_that_cannot_be_imported_one_check_says_so() -> None:
    """Nor can the rules and rows be read that it ships."""
    point = EntryPoint("absent", "absent_package:Absent", "swink.providers")
    subject = Subject("absent", swink.Host(entry_points=[point], environ={}))

    found = [result.name for result in run_checks(PROVIDER_CHECKS, subject) if result.is_fault]
    assert found == ["loads"]


def test_what_every_call_needs_to_be_set_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    info = swink.ProviderInfo("sound", required_env=("SOUND_PROJECT", "SOUND_TEAM"))
    monkeypatch.setattr(Subject, "info", info)
    monkeypatch.setenv("SOUND_TEAM", "mine")

    with subject_of().environment():
        assert os.environ["SOUND_PROJECT"]
        assert os.environ["SOUND_TEAM"] == "mine"

    assert "SOUND_PROJECT" not in os.environ


def test_what_is_converted_is_the_request_of_who_speaks_no_http() -> None:
    class Elsewhere(HTTPProvider):
        speaks_http = False

        def convert(
            self, model: swink.Model, context: swink.Context, options: swink.StreamOptions
        ) -> dict[str, Any]:
            return {"words": context.system_prompt}

        def parser(self, model: swink.Model) -> Any:
            return SimpleNamespace(feed=None)

    subject = subject_of(load=lambda: Elsewhere)
    found = run_check(Check(listed_requests.check_listed_requests), subject)

    fault = found.faults[0]
    assert isinstance(fault, Broken)
    assert "line 1 (a rule and a question) is another request" in str(fault)
    assert fault.sent == {"words": "Be brief."}


def test_what_a_call_took_in_all_is_no_difference_between_messages() -> None:
    found = swink.AssistantMessage([swink.TextBlock("Hello")])
    recorded = replace(found, total_usage=swink.Usage(1, 2))

    assert expected_messages.message_difference(found, recorded) is None


@pytest.mark.parametrize("name", ["why", "bye", "finish", "status", "end_reason"])
@pytest.mark.parametrize(
    ("where", "outcome"), [("Sound", Outcome.PASSED), ("broken:InventsReasons", Outcome.FAILED)]
)
def test_a_reason_to_stop_is_found_whatever_its_field_is_called(
    name: str, where: str, outcome: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject = subject_of("sound", where)
    spelt, known = f'"{name}":'.encode(), b'"reason":'
    renamed = [evolve(r, body=r.body.replace(known, spelt)) for r in subject.recordings]
    monkeypatch.setattr(subject, "recordings", renamed)
    parser = type(subject.provider.parser(subject.model))
    feed = parser.feed

    def read(self: Any, frame: bytes, out: EventWriter) -> None:
        feed(self, frame.replace(spelt, known), out)

    monkeypatch.setattr(parser, "feed", read)

    found = run_check(Check(finish_reasons.check_finish_reasons), subject)

    assert found.outcome is outcome, found.detail


def test_every_check_has_a_fixture_that_fails_it() -> None:
    elsewhere = {"further_requests", "credentials", "recorded_requests", "answers_are_read"}
    assert {check for _, _, check in BROKEN} | elsewhere == {
        check.name for check in PROVIDER_CHECKS
    }


def test_every_check_applies_to_the_sound_provider_and_passes() -> None:
    checks = [
        each for each in PROVIDER_CHECKS if each.name not in ("further_requests", "credentials")
    ]
    results = run_checks(checks, subject_of())

    assert {r.name: (r.outcome, r.detail) for r in results} == {
        check.name: (Outcome.PASSED, "") for check in checks
    }


def test_echo_passes_all_that_applies_to_it() -> None:
    results = run_checks(PROVIDER_CHECKS, Subject.find("echo"))

    assert [result for result in results if not result.holds] == []


# -- what the results come to --------------------------------------------------------------------


def result(outcome: Outcome, needed: bool = False, waived: tuple[str, ...] = ()) -> Result:
    return Result("check", outcome, "it is something else", needed=needed, waived=waived)


@pytest.mark.parametrize(
    ("results", "line"),
    [
        ([result(Outcome.PASSED)], "consistent: 1 checks hold, 0 do not apply"),
        (
            [result(Outcome.PASSED), result(Outcome.DOES_NOT_APPLY)],
            "consistent: 1 checks hold, 1 do not apply",
        ),
        (
            [result(Outcome.PASSED), result(Outcome.FAILED)],
            "not consistent: check; 2 of 2 checks apply",
        ),
        (
            [result(Outcome.DOES_NOT_APPLY, needed=True)],
            "not consistent: check (it is something else); 0 of 1 checks apply",
        ),
        (
            [result(Outcome.WAIVED, waived=("a: b",))],
            "consistent: 1 checks hold, 1 fault waived, 0 do not apply",
        ),
    ],
)
def test_the_line_says_what_is_in_the_way(results: list[Result], line: str) -> None:
    assert consistency_line(results) == line


def test_checks_that_did_not_apply_are_told_with_their_reasons() -> None:
    idle = [Result(name, Outcome.DOES_NOT_APPLY, why) for name, why in (
        ("grammar", "no recordings"), ("errors", "no HTTP"), ("lost_content", "no recordings"),
    )]  # fmt: skip

    assert idle_lines([*idle, result(Outcome.PASSED)]) == [
        "grammar, lost_content: no recordings",
        "errors: no HTTP",
    ]


def check_that_fails(subject: Subject) -> None:
    """Nothing is as it should be."""
    require(False, "nothing is as it should be")


def check_that_passes(subject: Subject) -> None:
    """All is well."""


def check_that_does_not_apply(subject: Subject) -> None:
    """About something else."""
    raise DoesNotApply("it is about something else")


def check_that_hangs(subject: Subject) -> None:
    """Never ends, whatever is caught in it."""
    while True:
        with suppress(Exception):
            threading.Event().wait()


def check_that_is_busy(subject: Subject) -> None:
    """Never ends, and waits for nothing."""
    while True:
        pass


def check_that_finds_a_wait(subject: Subject) -> None:
    """Something waits."""
    raise check.Blocks("it waits")


def test_what_blocks_does_not_hold_up_every_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "REST_SECONDS", 0.3)
    functions = (check_that_finds_a_wait, check_that_hangs, check_that_hangs, check_that_passes)
    checks = [Check(function) for function in functions]

    found = run_checks(checks, subject_of())

    first, *hung, last = found
    assert (first.outcome, first.detail) == (Outcome.FAILED, "it waits")
    limits = [re.match(r"it did not end within ([\d.]+) s", one.detail) for one in hung]
    first_limit, next_limit = (float(limit[1]) for limit in limits if limit)
    assert 0.1 == first_limit > next_limit
    assert last.outcome is Outcome.PASSED


@pytest.mark.parametrize("elsewhere", [False, True], ids=["in the main thread", "in another"])
def test_a_check_that_does_not_end_is_ended(elsewhere: bool) -> None:
    check = Check(check_that_is_busy if elsewhere else check_that_hangs)

    def run() -> Result:
        return run_check(check, subject_of(), seconds=0.01)

    if elsewhere:
        with ThreadPoolExecutor(1) as threads:
            found = threads.submit(run).result()
    else:
        found = run()

    assert found.outcome is Outcome.FAILED
    assert found.detail.startswith("it did not end within 0.01 s")


def check_that_crashes(subject: Subject) -> None:
    """Has not thought of this."""
    raise KeyError("word")


@pytest.mark.parametrize(
    ("function", "words", "outcome", "detail"),
    [
        (check_that_passes, None, Outcome.PASSED, ""),
        (check_that_fails, None, Outcome.FAILED, "nothing is as it should be"),
        (check_that_crashes, None, Outcome.FAILED, "KeyError: 'word'"),
        (
            check_that_does_not_apply,
            None,
            Outcome.DOES_NOT_APPLY,
            "it is about something else",
        ),
        (
            check_that_fails,
            "nothing is",
            Outcome.WAIVED,
            "nothing is: no quota",
        ),
        (
            check_that_passes,
            "nothing is",
            Outcome.FAILED,
            "no fault has the words of the waiver 'nothing is': remove it",
        ),
        (
            check_that_does_not_apply,
            "nothing is",
            Outcome.FAILED,
            "no fault has the words of the waiver 'nothing is': remove it",
        ),
    ],
)
def test_how_a_check_ends(
    function: Callable[[Subject], None], words: str | None, outcome: Outcome, detail: str
) -> None:
    check = Check(function)

    waivers = {} if words is None else {check.name: {words: "no quota"}}
    found = run_check(check, subject_of(), waivers)

    assert (found.outcome, found.detail) == (outcome, detail)


def check_that_finds_two_things(subject: Subject) -> None:
    """Two things are wrong."""
    require(False, "the first is wrong")
    require(False, "the second is wrong")


def test_a_check_reports_all_its_faults_and_a_waiver_takes_out_one() -> None:
    check = Check(check_that_finds_two_things)
    waivers = {check.name: {"the first": "the API is so"}}

    found, rest = run_check(check, subject_of()), run_check(check, subject_of(), waivers)

    assert [str(fault) for fault in found.faults] == ["the first is wrong", "the second is wrong"]
    assert found.detail == "the first is wrong (and 1 more)"
    assert [str(fault) for fault in rest.faults] == ["the second is wrong"]
    assert rest.waived == ("the first: the API is so",)


def check_that_finds_many_things(subject: Subject) -> None:
    """Many things are wrong, most of them for one reason."""
    for number in range(2 * check.MOST_FAULTS):
        require(False, f"text {number} is not sent")
    require(False, "something else is wrong")


def test_waived_faults_do_not_hide_others() -> None:
    row = Check(check_that_finds_many_things)
    waivers = {row.name: {"is not sent": "the API is so"}}

    rest = run_check(row, subject_of(), waivers)

    assert [str(fault) for fault in rest.faults] == ["something else is wrong"]


def test_rules_without_a_date_are_named_by_their_places(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = subject_of()
    rules = [Rule(as_of="2026-11-01"), Rule(takes={"seed": False}), Rule(name="audio")]
    file = msgspec.structs.replace(subject.entry.catalog(), own_rules=rules)
    monkeypatch.setattr(type(subject.entry), "catalog", lambda _: file)

    found = run_check(_check("catalogue"), subject)

    assert "have no date on which they were checked: number 2, audio; write as_of" in found.detail


def test_every_check_says_in_a_line_what_it_is_about() -> None:
    assert [check.name for check in PROVIDER_CHECKS if not check.about.endswith(".")] == []


def test_an_id_that_is_a_word_in_a_text_is_sent() -> None:
    """APIs whose tool calls are text have the id of a call in this text."""
    found = run_check(_check("nothing_dropped"), subject_of("sound", "texts:CallsAreText"))

    assert [str(fault) for fault in found.faults] == []


def test_an_id_that_is_dropped_is_named() -> None:
    found = run_check(_check("nothing_dropped"), subject_of("sound", "texts:DropsIds"))

    line = "the id call_nonceA of a tool call or its result is neither sent nor refused"
    assert any(str(fault).startswith(line) for fault in found.faults), found.detail


# -- what is found -------------------------------------------------------------------------------


def test_a_provider_that_is_not_installed_is_named() -> None:
    with pytest.raises(UnknownProvider, match=r'no provider "ekho".*did you mean "echo"'):
        Subject.find("ekho")


def test_variables_of_the_user_do_not_reach_the_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SOUND_API_KEY", "https_proxy", "SWINK_MODELS"):
        monkeypatch.setenv(name, "http://user.example/")

    with subject_of().environment():
        seen = {"SOUND_API_KEY", "https_proxy", "SWINK_MODELS"} & os.environ.keys()

    assert seen == set()
    assert os.environ["SOUND_API_KEY"] == "http://user.example/"


def test_waivers_of_a_package_are_read_for_their_provider() -> None:
    assert subject_of("placeless").waivers == {
        "provider_info": {"base_url": "its address differs from user to user"}
    }
    assert subject_of().waivers == {}


# -- under pytest --------------------------------------------------------------------------------

SUITE = """
from swink_testing.conformance import ProviderConformance

class TestEcho(ProviderConformance):
    provider = "echo"
    {more}
"""


def test_the_class_makes_a_test_of_each_check_and_tells_the_result(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(SUITE.format(more=""))

    outcome = pytester.runpytest("-rs")

    counts = outcome.parseoutcomes()
    assert counts["passed"] + counts["skipped"] == len(PROVIDER_CHECKS) + 1
    outcome.stdout.fnmatch_lines(
        [
            f"echo: consistent: 11 checks hold, {len(PROVIDER_CHECKS) - 11} do not apply",
            "  does not apply: standard_faults, *: it does not speak HTTP",
            "SKIPPED * does not apply: it does not speak HTTP",
        ]
    )


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ('waivers = {"grammar": {"is": "why"}}', "*no fault has the words of the waiver 'is'*"),
        ('waivers = {"grammer": {"is": "why"}}', "*no check is called grammer; there are *"),
        ('waivers = {"grammar": {"is": " "}}', "*without a reason: grammar*"),
        ('provider = "ekho"', "*did you mean*echo*"),
    ],
)
def test_what_a_class_gets_wrong_fails(pytester: pytest.Pytester, more: str, line: str) -> None:
    pytester.makepyfile(SUITE.format(more=more))

    outcome = pytester.runpytest()

    assert outcome.ret == pytest.ExitCode.TESTS_FAILED
    outcome.stdout.fnmatch_lines([line])


def test_nothing_but_pytest_is_imported_before_it_is_used() -> None:
    program = (
        "import sys, pytest; import swink_testing, swink_testing.plugin;"
        "print([m for m in ('hypothesis', 'aiohttp', 'swink_testing.conformance',"
        "'swink_testing.chaos') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


def test_the_kit_needs_no_pytest() -> None:
    program = (
        "import sys; import swink_testing.conformance, swink_testing.observers;"
        "print([m for m in ('pytest', '_pytest', 'hypothesis') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
