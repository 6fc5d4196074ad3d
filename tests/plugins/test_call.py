"""The information that hooks and observers get from a call, and how it reports a failure."""

from __future__ import annotations

import re
from collections.abc import Callable
from math import inf
from typing import Any

import pytest
from attrs import evolve, fields

from swink_core import (
    CacheStrategy,
    Call,
    Classification,
    Context,
    Cost,
    Error,
    Failure,
    Model,
    ModelInfo,
    Notice,
    ProviderFailure,
    ProviderInfo,
    RetryPolicy,
    StopReason,
    StreamOptions,
    Usage,
    UserMessage,
    hookimpl,
)
from swink_core import StreamErrorKind as Kind
from swink_core.failures.kinds import CODES
from swink_core.plugins.attempt import Attempt
from swink_core.plugins.call import MOST_CODE
from swink_core.plugins.changes import report_change
from swink_core.plugins.host import bind_hooks
from swink_core.vocabulary.http import HTTPRequest, ResponseHead
from swink_core.vocabulary.outcome import NOTHING, Charge, Totals
from swink_core.vocabulary.prices import Prices
from swink_testing.calls import call_of
from swink_testing.clock import ManualClock


class Acme:
    """A provider whose classifier may fail."""

    info = ProviderInfo("acme", "Acme")
    broken = False

    @hookimpl
    def classify_error(self, model: Model, failure: Failure) -> Classification | None:
        if self.broken:
            raise KeyError("code")
        return None


def call_with(provider: Acme | None = None, **given: Any) -> Call:
    options = StreamOptions(retry=RetryPolicy(retry_after_cap=60.0))
    context = Context([UserMessage("a private matter")])
    return call_of(provider or Acme(), "large", options=options, context=context, **given)


# (name, failure, what people read)
MESSAGES: list[tuple[str, Failure, str]] = [
    ("the_providers_words", Failure("request", 400, message="no such tool"), "no such tool"),
    ("an_exceptions", Failure("connect", exception=OSError("reset")), "OSError: reset"),
    ("a_silent_exceptions", Failure("connect", exception=EOFError()), "EOFError"),
    ("a_status", Failure("request", 502), "HTTP 502"),
    ("nothing_at_all", Failure("request"), "Acme failed"),
]


@pytest.mark.parametrize(
    ("failure", "message"), [case[1:] for case in MESSAGES], ids=[case[0] for case in MESSAGES]
)
def test_an_error_says_the_most_telling_thing_that_is_known(failure: Failure, message: str) -> None:
    assert call_with().error(failure).error_message == message


def test_an_error_carries_the_facts_of_the_failure_and_the_call() -> None:
    call = call_with()
    call.attempt.answer(ResponseHead(200, {}, 0.0), "q1")
    call.attempt.learn("r1", "large-2", None)
    error = call.error(Failure("streaming", 503, retry_after=2.0))
    assert (error.error_kind, error.code) == (Kind.OVERLOADED, None)
    assert (error.status, error.phase, error.retry_after) == (503, "streaming", 2.0)
    assert (error.response_id, error.model, error.request_id) == ("r1", "large-2", "q1")
    assert error.title == "Acme is overloaded"


def test_the_failures_own_request_id_outranks_the_calls() -> None:
    call = call_with()
    call.attempt.answer(ResponseHead(200, {}, 0.0), "q1")
    assert call.error(Failure("streaming", request_id="q2")).request_id == "q2"


@pytest.mark.parametrize(
    ("kind", "reason"), [(Kind.CANCELLED, StopReason.ABORTED), (Kind.NETWORK, StopReason.ERROR)]
)
def test_an_error_of_a_cancelled_call_says_that_it_was_aborted(
    kind: Kind, reason: StopReason
) -> None:
    assert call_with().error(Failure("streaming", kind=kind)).stop_reason is reason


def test_usage_cost_and_charge_are_added_to_the_totals_of_the_call_and_the_client() -> None:
    shared = Totals()
    calls = [call_with(shared_totals=shared) for _ in range(2)]
    calls[0].add(Usage(1, 2), Cost(total=0.5), Charge(3, 0.5))
    calls[0].add(Usage(1, 2), Cost(total=0.25), Charge(3, 0.25))
    calls[1].add(Usage(10, 20))
    assert (calls[0].usage, calls[0].charge) == (Usage(2, 4), Charge(6, 0.75))
    assert calls[0].cost is not None
    assert calls[0].cost.total == 0.75
    assert (calls[1].usage, calls[1].cost, calls[1].charge) == (Usage(10, 20), None, NOTHING)
    assert (shared.usage, shared.charge) == (Usage(12, 24), Charge(6, 0.75))


def test_a_rate_limit_stays_one_however_long_it_asks_to_wait() -> None:
    error = call_with().error(Failure("request", 429, retry_after=7200.0))
    assert (error.error_kind, error.retry_after) == (Kind.THROTTLED, 7200.0)


def test_a_plugins_own_error_is_explained_and_redacted_but_not_contradicted() -> None:
    call = call_with()
    call.secrets.add("sk-canary")
    error = Error(error_message="bad key sk-canary", error_kind=Kind.AUTH, title="Mine")
    call.explain(error)
    assert error.error_message == "bad key [hidden]"
    assert error.title == "Mine"
    assert error.resolution


# (header, value, whether what it holds is a secret)
HEADERS = [
    ("Authorization", "Bearer sk-canary-1", True),
    ("x-api-key", "sk-canary-1", True),
    ("X-Auth-Token", "sk-canary-1", True),
    ("Cookie", "session=sk-canary-1", True),
    ("X-Team", "sk-canary-1", False),
    ("Content-Type", "sk-canary-1", False),
]


@pytest.mark.parametrize(("name", "value", "secret"), HEADERS)
def test_values_of_credential_headers_are_secret(name: str, value: str, secret: bool) -> None:
    call = call_with()
    call.hide({name: value})
    error = call.error(Failure("request", message=f"cannot use {value}"))
    assert ("canary" not in error.error_message) is secret


# (what is set for an attempt, what is hidden in an error message of it)
ATTEMPTS_SECRETS: list[tuple[dict[str, Any], bool]] = [
    ({"api_key": "sk-canary-1"}, True),
    ({"api_key": " sk-canary-1\n"}, True),
    ({"headers": {"X-Auth-Token": "sk-canary-1"}}, True),
    ({"headers": {"X-Team": "sk-canary-1"}}, False),
    ({"base_url": "https://acme.invalid/?key=sk-canary-1"}, True),
    ({"base_url": "https://acme.invalid/sk-canary-1"}, False),
    ({"extra": {"api_key": "sk-canary-1", "top_k": 5}}, True),
    ({"extra": {"user": "sk-canary-1"}}, False),
    ({"extra": {"signature": "sk-canary-1"}}, True),
    ({"extra": {"a": {"prompt_cache_key": "sk-canary-1"}}}, False),
    ({"extra": {"tools": [{"type": "mcp", "authorization": "sk-canary-1"}]}}, True),
    ({"extra": {"tools": [{"headers": {"Authorization": "Bearer sk-canary-1"}}]}}, True),
    ({"extra": {"tools": [{"headers": {"X-Team": "sk-canary-1"}}]}}, False),
    ({"extra": {"tools": [{"server_url": "https://a.example/sse?api_key=sk-canary-1"}]}}, True),
    ({"extra": {"tools": [{"filters": {"key": "sk-canary-1", "value": "x"}}]}}, False),
    ({"extra": {"mcp_servers": ({"authorization_token": "sk-canary-1"},)}}, True),
    ({"extra": {"a": {"accessToken": "sk-canary-1"}, "token": "sk-canary-1"}}, True),
    ({"extra": {"stop_tokens": ["sk-canary-1"], "a": {"eos_token": "sk-canary-1"}}}, False),
]


@pytest.mark.parametrize(("options", "hidden"), ATTEMPTS_SECRETS)
def test_credentials_of_an_attempts_options_are_secret(
    options: dict[str, Any], hidden: bool
) -> None:
    call = call_with()
    call.turn_to(Attempt(call.attempt.target, options=StreamOptions(**options)))
    assert (
        call.redact("no sk-canary-1 here") == f"no {'[hidden]' if hidden else 'sk-canary-1'} here"
    )


@pytest.mark.parametrize("variable", ["ACME_API_KEY", "ACME_OTHER_KEY"])
def test_keys_in_the_variables_of_a_provider_are_secret(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, " sk-canary-1\n")
    call = call_with()
    target = evolve(call.attempt.target, info=ProviderInfo("acme", api_key_env=("ACME_API_KEY",)))
    call.turn_to(Attempt(target))
    assert ("canary" not in call.redact("no sk-canary-1 here")) is (variable == "ACME_API_KEY")


def test_a_call_shows_neither_its_conversation_nor_its_secrets() -> None:
    call = call_with(headers={"Authorization": "sk-canary"}, secrets={"sk-canary"})
    assert "private" not in repr(call)
    assert "canary" not in repr(call)
    assert {each.name for each in fields(Call) if each.repr} == {
        "attempt", "id", "attempts", "size", "tenant", "started_at", "ended_at",
    }  # fmt: skip


def test_a_call_that_has_not_begun_has_counted_nothing() -> None:
    attempt = call_with().attempt
    call = Call(attempt, Context.of("Hi"), clock=ManualClock())
    assert (call.attempt, call.attempts, call.size, call.tenant) == (attempt, 0, 0, "")
    assert (call.started_at, call.ended_at, call.usage, call.cost) == (0.0, None, None, None)
    assert (call.gates, call.guards, call.headers, call.taps) == ((), (), {}, [])
    assert (call.http, call.counter, call.room, call.secrets) == (None, None, None, set())


def test_ids_of_calls_differ() -> None:
    ids = {call_with().id for _ in range(100)}
    assert len(ids) == 100
    assert all(re.fullmatch("[0-9a-f]{12}", id) for id in ids)


def test_calls_are_themselves_and_may_be_kept_in_sets() -> None:
    one, other = call_with(id="same"), call_with(id="same")
    assert one != other
    assert len({one, other}) == 2


def test_targets_are_themselves_too_though_a_chain_may_name_one_twice() -> None:
    made = call_with().attempt.target
    same = type(made)(made.model, made.options, made.binding, made.info)
    assert made != same
    assert len({made, same}) == 2


@pytest.mark.parametrize("code", CODES)
def test_a_providers_code_does_not_pass_for_one_of_the_cores(code: str) -> None:
    kind = CODES[code].kind
    assert call_with().error(Failure("streaming", code=code)).code is None
    assert call_with().error(Failure("streaming", code=code, kind=kind)).code == code


def test_a_providers_code_is_bounded_and_hides_the_key() -> None:
    call = call_with()
    call.secrets.add("sk-very-secret")
    error = call.error(Failure("streaming", code="no sk-very-secret here" + "x" * 999))
    assert error.code is not None
    assert "sk-very-secret" not in error.code
    assert error.code.startswith("no ")
    assert len(error.code) == MOST_CODE


def test_where_the_hook_fails_a_failure_is_classified_by_the_core() -> None:
    provider = Acme()
    provider.broken = True
    assert call_with(provider).classify(Failure("request", 429)) == Classification(Kind.THROTTLED)


def test_a_call_answers_for_its_attempt() -> None:
    call = call_with()
    first = call.attempt
    assert first.number == 1
    first.ask(HTTPRequest("https://user:word@acme.invalid/v1?key=k"))
    first.answer(ResponseHead(200, {"x-left": "7"}, 3.5), "q1")
    first.learn("r1", "large-2", None)
    assert (call.endpoint, call.request_id) == ("https://acme.invalid/v1", "q1")
    assert (call.response_id, call.response_model) == ("r1", "large-2")
    call.turn_to(Attempt(first.target, 2))
    assert (call.attempt.number, call.endpoint, call.response_id) == (2, None, None)


def test_fields_of_an_attempt_cannot_be_set_on_the_call() -> None:
    with pytest.raises(AttributeError):
        call_with().model = Model("acme", "small")  # type: ignore[misc]  # on purpose


class Odd:
    """A provider whose classifier says something else than what a failure means."""

    info = ProviderInfo("acme", "Acme")

    @hookimpl
    def classify_error(self, model: Model, failure: Failure) -> Any:
        return "busy"

    @hookimpl
    def convert_messages(self, model: Model, context: Context, options: StreamOptions) -> Any:
        return {"of": [model.id, len(context.messages), options.temperature]}


def test_an_invalid_classification_is_logged_and_the_core_classifies(
    caplog: pytest.LogCaptureFixture,
) -> None:
    classified = call_of(Odd(), "large").classify(Failure("request", 429))
    assert classified == Classification(Kind.THROTTLED)
    assert "a classify_error hook returned a str" in caplog.text


class Knowing(Acme):
    """A provider whose classifier knows that a failure is an overload."""

    @hookimpl
    def classify_error(self, model: Model, failure: Failure) -> Classification | None:
        return Classification(Kind.OVERLOADED, code="teapot")


def _first(result: Callable[[], Any]) -> Any:
    """Return a shared plugin whose classifier is called first."""

    class First:
        @hookimpl(tryfirst=True)
        def classify_error(self) -> Any:
            return result()

    return First()


def _around(result: Callable[[], Any]) -> Any:
    """Return a shared plugin that wraps the classifiers."""

    class Around:
        @hookimpl(wrapper=True)
        def classify_error(self) -> Any:
            yield
            return result()

    return Around()


# (name, the function that makes the faulty plugin, what its classifier returns, who is named)
FAULTY: list[tuple[str, Callable[[Callable[[], Any]], Any], Callable[[], Any], str]] = [
    ("an_exception", _first, lambda: {}["code"], '"faulty"'),
    ("a_kind_alone", _first, lambda: Kind.THROTTLED, '"faulty"'),
    ("an_unknown_kind", _first, lambda: Classification("tired"), '"faulty"'),  # type: ignore[arg-type]  # on purpose
    ("a_wait_as_text", _first, lambda: Classification(Kind.THROTTLED, "3"), '"faulty"'),  # type: ignore[arg-type]  # on purpose
    ("a_wait_without_end", _first, lambda: Classification(Kind.THROTTLED, inf), '"faulty"'),
    ("nothing_of_a_wrapper", _around, lambda: None, '"faulty" or "acme"'),
    ("an_exception_of_a_wrapper", _around, lambda: {}["code"], '"faulty" or "acme"'),
]


@pytest.mark.parametrize(
    ("make", "result", "named"), [row[1:] for row in FAULTY], ids=[row[0] for row in FAULTY]
)
def test_a_faulty_classifier_is_named_and_the_next_one_classifies(
    make: Callable[[Callable[[], Any]], Any],
    result: Callable[[], Any],
    named: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    binding = bind_hooks("acme", Knowing(), [("faulty", make(result))])
    classified = call_of(binding, "large").classify(Failure("request", 418))
    assert classified == Classification(Kind.OVERLOADED, code="teapot")
    assert [record.getMessage().partition("\n")[0] for record in caplog.records] == [
        f"plugin {named}: classify_error failed and is left out:"
    ]


def test_a_wrapper_may_change_a_classification() -> None:
    changed = Classification(Kind.AUTH)
    binding = bind_hooks("acme", Knowing(), [("around", _around(lambda: changed))])
    assert call_of(binding, "large").classify(Failure("request", 418)) == changed


def test_a_call_converts_its_conversation_through_the_hook() -> None:
    call = call_of(Odd(), "large", options=StreamOptions(temperature=0.5))
    assert call.convert() == {"of": ["large", 1, 0.5]}


class Losing(Odd):
    """A provider whose conversion leaves two parts out."""

    @hookimpl
    def convert_messages(self, model: Model, context: Context, options: StreamOptions) -> Any:
        report_change("messages[0]", "sound has no place")
        report_change("messages[1]", "sound has no place")
        report_change("tools[0]", "a name was shortened", "changed")
        return {}


def test_changes_of_a_conversion_are_told_once_however_often_it_runs() -> None:
    call = call_of(Losing(), "large")
    for _ in range(2):
        call.convert()
    assert call.attempt.take_notices() == [
        Notice(
            "content_left_out",
            "acme/large: sound has no place (messages[0] and 1 more)",
            ("messages[0]", "messages[1]"),
        ),
        Notice("changed", "acme/large: a name was shortened (tools[0])", ("tools[0]",)),
    ]
    report_change("messages[0]", "beside a conversion")
    assert call.attempt.take_notices() == []


def test_changes_of_a_conversion_within_another_are_those_of_its_own_call() -> None:
    inner = call_of(Losing(), "small")

    class Outer(Odd):
        @hookimpl
        def convert_messages(self, model: Model, context: Context, options: StreamOptions) -> Any:
            report_change("messages[0]", "a picture has no place")
            inner.convert()
            report_change("messages[1]", "a picture has no place")
            return {}

    outer = call_of(Outer(), "large")
    outer.convert()
    assert [notice.paths for notice in outer.attempt.take_notices()] == [
        ("messages[0]", "messages[1]")
    ]
    assert [notice.paths for notice in inner.attempt.take_notices()] == [
        ("messages[0]", "messages[1]"),
        ("tools[0]",),
    ]


def test_a_body_that_is_no_object_is_refused_and_its_changes_are_told() -> None:
    class Bodiless(Losing):
        @hookimpl
        def convert_messages(self, model: Model, context: Context, options: StreamOptions) -> Any:
            report_change("tools[0]", "a name was shortened", "changed")
            return ["a list"]

    call = call_of(Bodiless(), "large")
    with pytest.raises(ProviderFailure) as caught:
        call.convert()
    assert (caught.value.failure.kind, caught.value.failure.code) == (Kind.INTERNAL, "body")
    assert [notice.code for notice in call.attempt.take_notices()] == ["changed"]


def test_guards_see_the_body_one_after_another() -> None:
    guards = (lambda body: {**body, "a": 1}, lambda body: {**body, "b": body["a"]})
    call = call_of(Odd(), "large", guards=guards)
    assert call.convert() == {"of": ["large", 1, None], "a": 1, "b": 1}


def test_a_notice_of_the_call_is_told_once_by_its_attempt() -> None:
    call = call_with()
    call.notice("hint", "nothing of note")
    assert call.attempt.take_notices() == [Notice("hint", "nothing of note")]
    assert call.attempt.take_notices() == []


def test_a_tap_that_raises_is_logged_and_left_out_and_the_others_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    call, seen = call_with(), list[bytes]()

    def broken(attempt: Attempt, leg: Any, data: bytes) -> None:
        raise ZeroDivisionError("oops")

    call.taps += [broken, lambda attempt, leg, data: seen.append(data)]
    call.tap(b"a")
    call.tap(b"b")
    assert seen == [b"a", b"b"]
    assert caplog.text.count("a tap raised an exception and is disabled for this call") == 1
    assert "ZeroDivisionError: oops" in caplog.text


def test_a_tap_gets_the_request_of_the_bytes_or_the_last_one() -> None:
    call, seen = call_with(), list[Any]()
    call.taps.append(lambda attempt, leg, data: seen.append((attempt, leg, data)))
    call.tap(b"no request")
    first, last = (call.attempt.ask(HTTPRequest("https://acme.invalid/v1")) for _ in range(2))
    call.tap(b"last")
    call.tap(b"first", first)
    assert seen == [
        (call.attempt, None, b"no request"),
        (call.attempt, last, b"last"),
        (call.attempt, first, b"first"),
    ]


M = 1_000_000
PRICED = ModelInfo("large", "acme", prices=Prices(2.0, 10.0, cache_write=2.5, cache_write_long=4.0))

# (name, what was used, the cache that was asked for, what it costs)
BILLS: list[tuple[str, Usage | None, Any, float | None]] = [
    ("tokens", Usage(M, M), None, 12.0),
    ("kept_for_a_while", Usage(M, 0, 0, M), CacheStrategy(ttl=3599), 2.5),
    ("kept_for_long", Usage(M, 0, 0, M), CacheStrategy(ttl=3600), 4.0),
    ("kept_for_nobody_knows_how_long", Usage(M, 0, 0, M), CacheStrategy(), 2.5),
    ("nothing_known", None, None, None),
]


@pytest.mark.parametrize(
    ("usage", "cache", "dollars"), [case[1:] for case in BILLS], ids=[case[0] for case in BILLS]
)
def test_an_attempt_costs_what_the_catalogue_says(
    usage: Usage | None, cache: Any, dollars: float | None
) -> None:
    options = StreamOptions(cache=cache)
    attempt = call_of(Acme(), Model("acme", "large", info=PRICED), options=options).attempt
    cost = attempt.price(usage)
    assert (cost and cost.total) == dollars


def test_the_providers_own_figure_is_the_total() -> None:
    attempt = call_of(Acme(), Model("acme", "large", info=PRICED)).attempt
    attempt.report_cost(0.0)
    assert attempt.price(Usage(M, M)) == Cost(2.0, 10.0, total=0.0)
    attempt.report_cost(0.75)
    assert attempt.price(None) == Cost(total=0.75)
    assert attempt.price(Usage(M, M), Cost(1.0, 1.0, total=2.0)) == Cost(1.0, 1.0, total=0.75)


def test_usage_without_prices_has_no_cost() -> None:
    assert call_of(Acme(), "large").attempt.price(Usage(M, M)) is None
