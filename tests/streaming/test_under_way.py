"""Which attempts a provider may bill, by their requests, responses and ends."""

from __future__ import annotations

import pytest

from swink_core import Done, Error, Failure, StopReason, StreamOptions
from swink_core.plugins.attempt import Attempt, Plan
from swink_core.streaming.under_way import Outcome, UnderWay, has_left, outcome_of
from swink_core.vocabulary.http import HTTPRequest, ResponseHead
from swink_core.vocabulary.messages import Context
from swink_testing.calls import call_of

DONE = Done(StopReason.STOP)


def new_attempt(status: int | None = None, *, sent: bool = True) -> Attempt:
    attempt = call_of(None, "large").attempt
    if sent:
        attempt.ask(HTTPRequest("https://acme.invalid/v1"))
    if status is not None:
        attempt.answer(ResponseHead(status, {}, 0.0))
    return attempt


@pytest.mark.parametrize(
    ("status", "billed"), [(200, True), (299, True), (300, False), (404, False), (500, False)]
)
def test_an_attempt_that_was_refused_is_not_billed(status: int, billed: bool) -> None:
    assert has_left(new_attempt(status), Error(), Outcome.FAILED) is billed


@pytest.mark.parametrize("status", [None, 200, 404, 503])
@pytest.mark.parametrize("sent", [False, True])
def test_an_answer_is_billed_although_a_later_request_was_refused(
    status: int | None, sent: bool
) -> None:
    attempt = new_attempt(status, sent=sent)
    assert has_left(attempt, DONE, Outcome.COMPLETED)
    attempt.show_content(1.0)
    assert has_left(attempt, Error(), Outcome.FAILED)


@pytest.mark.parametrize(
    ("code", "billed"), [(None, True), ("idle", True), ("connect", False), ("tls", False)]
)
def test_a_request_without_a_response_is_billed_if_it_was_sent(
    code: str | None, billed: bool
) -> None:
    assert has_left(new_attempt(), Error(code=code), Outcome.FAILED) is billed


OUTSIDE = {Outcome.CUT, Outcome.BOUNDED, Outcome.CANCELLED}


@pytest.mark.parametrize("outcome", list(Outcome), ids=str)
def test_an_attempt_without_a_record_is_billed_if_it_was_ended_from_outside(
    outcome: Outcome,
) -> None:
    attempt, is_complete = new_attempt(sent=False), outcome is Outcome.COMPLETED
    assert has_left(attempt, Error(), outcome) is (is_complete or outcome in OUTSIDE)
    attempt.follow(Plan(Context.of("Hi"), StreamOptions()))
    assert has_left(attempt, Error(), outcome) is is_complete


def test_the_outcome_is_that_of_the_last_event() -> None:
    assert outcome_of(DONE) is Outcome.COMPLETED
    assert outcome_of(Error()) is Outcome.FAILED
    assert outcome_of(Failure("request")) is Outcome.FAILED


def test_an_attempt_under_way_begins_with_nothing() -> None:
    limited = call_of(None, "large", options=StreamOptions(max_output_chars=7)).attempt
    under_way = UnderWay(limited)
    assert (under_way.entered, under_way.source) == ([], None)
    assert (under_way.has_begun, under_way.content_shown) == (False, False)
    assert under_way.limit == 7
