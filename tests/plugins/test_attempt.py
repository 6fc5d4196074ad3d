"""An attempt records what happened: requests, responses, times, notices and costs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from attrs import fields

from swink_core import Cost, Limits, Model, ModelInfo, Notice, ProviderInfo, StreamOptions
from swink_core.plugins.attempt import MOST_LEGS, Attempt, Leg, Plan
from swink_core.plugins.limits import LimitGate
from swink_core.vocabulary.charges import OUTPUT_RATE
from swink_core.vocabulary.events import TextDelta
from swink_core.vocabulary.http import HTTPRequest, ResponseHead
from swink_core.vocabulary.messages import Context
from swink_core.vocabulary.outcome import NOTHING, Charge, Usage
from swink_core.vocabulary.prices import PriceCase, Prices
from swink_testing.calls import call_of


class Acme:
    """A provider with a name alone."""

    info = ProviderInfo("acme", "Acme")


def new_attempt() -> Attempt:
    return call_of(Acme(), "large").attempt


REQUEST = HTTPRequest("https://acme.invalid/v1?key=secret", b"the body")
HEAD = ResponseHead(200, {}, 1.0)


def test_an_attempt_begins_without_facts() -> None:
    attempt = new_attempt()
    facts = {each.name: getattr(attempt, each.name) for each in fields(Attempt)}
    assert {name for name, value in facts.items() if value not in (None, [], ())} == {
        "target", "number", "options", "reads", "_context", "_rest",
    }  # fmt: skip
    assert (attempt.number, attempt.reads, attempt.has_rest) == (1, 0, False)
    assert (attempt.request, attempt.response, attempt.endpoint) == (None, None, None)
    assert attempt.charge == NOTHING


def test_times_are_those_that_were_recorded() -> None:
    attempt = new_attempt()
    attempt.begin(1.0)
    attempt.show_content(2.0)
    assert attempt.first_event_at == 2.0
    attempt.hear(3.0)
    attempt.show_content(4.0)
    attempt.end(5.0)
    assert (attempt.started_at, attempt.read_at) == (1.0, 3.0)
    assert (attempt.first_event_at, attempt.ended_at) == (3.0, 5.0)


def test_reads_are_counted() -> None:
    attempt = new_attempt()
    attempt.count_read()
    attempt.count_read()
    assert attempt.reads == 2


def test_facts_of_the_answer_are_those_learnt_last() -> None:
    attempt = new_attempt()
    attempt.learn("r1", "large-2", Usage(1, 2))
    assert (attempt.response_id, attempt.response_model) == ("r1", "large-2")
    assert attempt.usage == Usage(1, 2)
    attempt.report_cost(0.5)
    assert attempt.reported_cost == 0.5


@pytest.mark.parametrize(
    ("kind", "is_latest"), [("stream", True), ("whole", True), ("token", False), ("abandon", False)]
)
def test_only_a_request_for_an_answer_is_the_attempts_own(kind: str, is_latest: bool) -> None:
    attempt = new_attempt()
    leg = attempt.ask(REQUEST, kind, 7.0)  # type: ignore[arg-type]  # one of the four
    assert attempt.legs == [leg]
    assert (leg.request, leg.kind, leg.sent_at, leg.response) == (REQUEST, kind, 7.0, None)
    assert (attempt.leg is leg, attempt.request is REQUEST) == (is_latest, is_latest)
    assert attempt.endpoint == ("https://acme.invalid/v1" if is_latest else None)


def test_a_request_without_a_kind_asks_for_a_stream_at_the_start() -> None:
    leg = new_attempt().ask(REQUEST)
    assert (leg.kind, leg.sent_at) == (Leg(REQUEST).kind, Leg(REQUEST).sent_at) == ("stream", 0.0)


def test_a_bounded_number_of_requests_is_recorded() -> None:
    attempt = new_attempt()
    for _ in range(MOST_LEGS + 1):
        last = attempt.ask(REQUEST)
    assert len(attempt.legs) == MOST_LEGS
    assert attempt.leg is last


def test_a_response_belongs_to_the_last_request_or_to_the_one_that_is_named() -> None:
    attempt = new_attempt()
    attempt.answer(HEAD, "q0")
    assert (attempt.response, attempt.request_id) == (None, "q0")
    token = attempt.ask(REQUEST, "token")
    asked = attempt.ask(REQUEST)
    attempt.answer(HEAD, None, token)
    assert (token.response, asked.response, attempt.request_id) == (HEAD, None, "q0")
    attempt.answer(HEAD, "q1")
    assert (asked.response, attempt.response, attempt.request_id) == (HEAD, HEAD, "q1")


def test_a_plan_keeps_the_request_that_was_built_last() -> None:
    attempt = new_attempt()
    attempt.build(REQUEST)  # kept nowhere
    plan = Plan(Context.of("Hi"), StreamOptions())
    assert (plan.notices, plan.names, plan.request) == ((), {}, None)
    attempt.follow(plan)
    attempt.build(REQUEST)
    assert attempt.plan is plan
    assert plan.request is REQUEST


def test_events_of_a_read_are_handed_out_one_by_one() -> None:
    attempt = new_attempt()
    events = attempt.hand_out([TextDelta(0, "a"), TextDelta(0, "b")])
    assert attempt.has_rest
    assert [next(events), next(events)] == [TextDelta(0, "a"), TextDelta(0, "b")]
    assert not attempt.has_rest


def test_notices_are_taken_once_and_changes_are_told_once() -> None:
    attempt = new_attempt()
    changes = [Notice("changed", "a", ("messages[0]",)), Notice("changed", "b", ())]
    attempt.notice("note", "c", "messages[1]", "messages[2]")
    attempt.tell_changes(changes[:1])
    attempt.tell_changes(changes)
    note = Notice("note", "c", ("messages[1]", "messages[2]"))
    assert attempt.take_notices() == [note, *changes]
    assert attempt.take_notices() == []


def test_the_repr_of_an_attempt_shows_neither_the_request_nor_the_conversation() -> None:
    attempt = new_attempt()
    options = StreamOptions(user="a private person")
    attempt.follow(Plan(Context.of("a private matter"), options, request=REQUEST))
    attempt.about(Context.of("a private matter"), None)
    leg = attempt.ask(REQUEST)
    for text in (repr(attempt), repr(leg)):
        assert "private" not in text
        assert "acme.invalid" not in text
    shown = {each.name for each in fields(Attempt) if each.repr}
    assert shown == {
        "target", "number", "plan", "response_id", "response_model", "request_id", "usage", "reads",
        "reported_cost", "started_at", "first_event_at", "read_at", "ended_at",
    }  # fmt: skip


@pytest.mark.parametrize("kind", [Attempt, LimitGate])
def test_private_fields_are_neither_shown_nor_arguments(kind: Any) -> None:
    private = [each for each in fields(kind) if each.name.startswith("_")]
    assert private
    assert not any(each.init or each.repr for each in private)


def test_options_of_an_attempt_are_given_by_name() -> None:
    assert fields(Attempt).options.kw_only


@pytest.mark.parametrize("kind", ["attempt", "leg", "plan", "gate"])
def test_equal_records_are_told_apart(kind: str) -> None:
    target = new_attempt().target
    plan = Plan(Context.of("Hi"), StreamOptions()), Plan(Context.of("Hi"), StreamOptions())
    pairs = {
        "attempt": (Attempt(target), Attempt(target)),
        "leg": (Leg(REQUEST), Leg(REQUEST)),
        "plan": plan,
        "gate": (LimitGate(Limits()), LimitGate(Limits())),
    }
    assert len(set(pairs[kind])) == 2


# -- charges -------------------------------------------------------------------------------------

AT = datetime(2026, 1, 1, tzinfo=UTC)
PRICED = Model("acme", "large", ModelInfo("large", "acme", prices=Prices(input=1e6, output=2e6)))
"""A token of the prompt costs one dollar, and one of the output two."""


def priced_attempt(*, max_tokens: int = 1_000) -> Attempt:
    attempt = call_of(Acme(), PRICED, options=StreamOptions(max_tokens=max_tokens)).attempt
    attempt.about(Context.of("Hi"), lambda model, context: 10)
    return attempt


# (usage, cost, the charge)
TAKEN: list[tuple[Usage | None, Cost | None, Charge]] = [
    (None, None, Charge(0, 0.0)),
    (Usage(1, 2), None, Charge(3, None)),
    (None, Cost(total=0.5), Charge(0, 0.5)),
    (Usage(1, 2), Cost(total=0.25), Charge(3, 0.25)),
    (None, Cost(total=0.5, estimated=True), Charge(0, 0.5, estimated=True)),
]


@pytest.mark.parametrize(("usage", "cost", "charge"), TAKEN)
def test_a_charge_that_is_taken_is_the_reported_one(
    usage: Usage | None, cost: Cost | None, charge: Charge
) -> None:
    attempt = new_attempt()
    attempt.begin(0.0)
    attempt.take_charge(usage, cost)
    assert attempt.charge == charge


SECOND = int(OUTPUT_RATE)
"""The tokens of output that are assumed for a second."""

# (usage, tokens seen, complete, begin and end, tokens that are charged, dollars, estimated)
SETTLED: list[tuple[Usage | None, int, bool, tuple[Any, Any], int, float, bool]] = [
    (Usage(1, 2), 9, True, (0.0, 5.0), 3, 5.0, False),
    (Usage(1, 2), 9, False, (5.0, 5.0), 10, 19.0, True),
    (Usage(1, 2), 9, False, (3.0, 4.0), 1 + SECOND, 1.0 + 2 * SECOND, True),
    (Usage(1), 9, True, (5.0, 5.0), 10, 19.0, True),
    (Usage(None, 2), 9, True, (5.0, 5.0), 12, 14.0, True),
    (None, 9, True, (5.0, 5.0), 19, 28.0, True),
    (None, 9, False, (None, None), 19, 28.0, True),
    (None, 9, False, (None, 1.0), 10 + SECOND, 10.0 + 2 * SECOND, True),
    (None, 9, False, (7.0, None), 19, 28.0, True),
]


@pytest.mark.parametrize(
    ("usage", "seen", "complete", "times", "tokens", "dollars", "estimated"), SETTLED
)
def test_an_attempt_is_charged_for_reported_usage_or_an_estimate(
    usage: Usage | None,
    seen: int,
    complete: bool,
    times: tuple[float | None, float | None],
    tokens: int,
    dollars: float,
    estimated: bool,
) -> None:
    attempt = priced_attempt()
    attempt.started_at, attempt.ended_at = times
    paid = attempt.settle(usage, None, seen, complete, AT)
    assert (attempt.charge.tokens, attempt.charge.estimated) == (tokens, estimated)
    assert attempt.charge.cost == pytest.approx(dollars)
    assert paid is not None
    assert paid.estimated is estimated
    assert paid.total == pytest.approx(dollars)


def test_a_cost_that_is_known_is_not_an_estimate() -> None:
    attempt = priced_attempt()
    attempt.report_cost(0.5)
    paid = attempt.settle(None, None, 9, False, AT)
    assert paid is not None
    assert (paid.total, paid.estimated) == (0.5, False)
    paid = priced_attempt().settle(None, Cost(total=0.25), 9, False, AT)
    assert paid is not None
    assert (paid.total, paid.estimated) == (0.25, False)


@pytest.mark.parametrize("is_complete", [False, True])
def test_an_attempt_of_unknown_cost_is_charged_an_estimate_at_the_models_prices(
    is_complete: bool,
) -> None:
    usage, unknown, attempt = Usage(10, 5), Cost(), priced_attempt()
    assert attempt.price(usage, unknown, AT) is None
    if is_complete:
        attempt.take_charge(usage, None)
    else:
        assert attempt.settle(usage, unknown, 5, False, AT) is None
    expected = priced_attempt().price(usage, None, AT)
    assert expected is not None
    assert attempt.charge.tokens == 15
    assert attempt.charge.estimated
    assert attempt.charge.cost == expected.total


@pytest.mark.parametrize("cost", [-1.0, float("nan"), float("inf"), "free", None])
def test_an_invalid_reported_cost_is_ignored(cost: Any) -> None:
    attempt = priced_attempt()
    attempt.report_cost(cost)
    assert attempt.reported_cost is None
    assert [notice.code for notice in attempt.notices] == ["usage"]


async def test_a_reservation_is_the_prompt_that_is_counted_and_the_most_output() -> None:
    attempt = priced_attempt(max_tokens=5)
    assert attempt.charge == NOTHING
    assert await attempt.reserve() == Charge(15, 20.0, estimated=True)
    attempt.begin(0.0)
    assert attempt.charge == Charge(15, 20.0, estimated=True)


TIERED = Prices(
    input=1e6,
    output=2e6,
    cases=(
        PriceCase(terms=("priority",), input=2e6, output=4e6),
        PriceCase(terms=("flex",), input=5e5, output=1e6),
    ),
)

# (usage, the tier in the request, dollars for 10 tokens of the prompt and 9 of the output)
TIERS = [
    (None, {}, 28.0),
    (None, {"service_tier": "priority"}, 56.0),
    (None, {"service_tier": "flex"}, 28.0),
    (Usage(10, extra={"service_tier": "default"}), {"service_tier": "priority"}, 28.0),
    (Usage(10, extra={"service_tier": "flex"}), {"service_tier": "priority"}, 14.0),
    (Usage(10, extra={"region": "eu"}), {"service_tier": "priority"}, 56.0),
]


@pytest.mark.parametrize(("usage", "extra", "dollars"), TIERS)
def test_an_estimate_is_the_higher_price_of_the_tier_requested_unless_one_is_reported(
    usage: Usage | None, extra: dict[str, Any], dollars: float
) -> None:
    model = Model("acme", "large", ModelInfo("large", "acme", prices=TIERED))
    attempt = call_of(Acme(), model, options=StreamOptions(extra=extra)).attempt
    attempt.about(Context.of("Hi"), lambda model, context: 10)
    paid = attempt.settle(usage, None, 9, True, AT)
    assert paid is not None
    assert paid.total == pytest.approx(dollars)
    assert paid.estimated


async def test_a_reservation_without_a_conversation_is_that_of_an_empty_one() -> None:
    without, empty = (call_of(Acme(), PRICED).attempt for _ in range(2))
    empty.about(Context([]), None)
    assert await without.reserve() == await empty.reserve()


async def test_a_reservation_is_computed_from_the_conversation() -> None:
    short, long = priced_attempt(), priced_attempt()
    short.about(Context.of("Hi"), None)
    long.about(Context.of("Hi " * 1000), None)
    assert (await long.reserve()).tokens > (await short.reserve()).tokens + 500


async def test_a_counter_gets_the_model_and_the_conversation_once() -> None:
    given: list[tuple[Model, Context]] = []

    def count(model: Model, context: Context) -> int:
        given.append((model, context))
        return 3

    attempt, context = priced_attempt(max_tokens=5), Context.of("Hi")
    attempt.about(context, count)
    for _ in range(2):
        assert (await attempt.reserve()).tokens == 8
    assert given == [(PRICED, context)]


async def _counted_later(tokens: Any) -> Any:
    return tokens


@pytest.mark.parametrize("later", [False, True], ids=["at_once", "async"])
@pytest.mark.parametrize("tokens", [0, 7])
async def test_a_counter_may_return_any_number_of_tokens(tokens: int, later: bool) -> None:
    attempt = priced_attempt(max_tokens=5)
    counted = _counted_later if later else lambda tokens: tokens
    attempt.about(Context.of("Hi"), lambda model, context: counted(tokens))
    assert (await attempt.reserve()).tokens == tokens + 5


@pytest.mark.parametrize("later", [False, True], ids=["at_once", "async"])
@pytest.mark.parametrize("tokens", [-1, "7", True, 1.0, None], ids=repr)
async def test_a_counter_that_fails_is_logged_and_the_estimate_is_used(
    tokens: Any, later: bool, caplog: pytest.LogCaptureFixture
) -> None:
    attempt, other = priced_attempt(), priced_attempt()
    other.about(Context.of("Hi"), None)
    counted: Any = _counted_later if later else lambda tokens: tokens
    attempt.about(Context.of("Hi"), lambda model, context: counted(tokens))
    assert await attempt.reserve() == await other.reserve()
    assert "the token counter failed; the estimate is used" in caplog.text
    assert f"a token counter returned {tokens!r}; a number of tokens" in caplog.text


def test_an_async_counter_is_not_awaited_where_nothing_can_wait() -> None:
    attempt, other = priced_attempt(), priced_attempt()
    attempt.about(Context.of("Hi"), lambda model, context: _counted_later(7))
    other.about(Context.of("Hi"), None)
    attempt.begin(0.0)
    other.begin(0.0)
    assert attempt.charge == other.charge
