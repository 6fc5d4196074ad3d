"""`Client.target`: how a call would go out, and a target in place of a model."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from fakes import HELLO, MODEL, Pipe, PipeClient, Toy, client_of, host_of

import swink_core as swink
from swink_core import Context, ImageBlock, ModelInfo, RetryPolicy, UrlSource, UserMessage
from swink_core import StreamErrorKind as Kind
from swink_core.providers import Catalog
from swink_core.vocabulary.models import Rule
from swink_testing.calls import client_with

SECRET = "canary-0123456789"


def test_a_target_describes_address_model_rules_and_options_and_shows_no_secret() -> None:
    rule = Rule(name="cool", match="large", most={"temperature": 1})
    model = swink.Model("toy", "large", ModelInfo("large"), (rule,))
    url = f"http://user:{SECRET}@toy.invalid/v1?key={SECRET}"
    client = client_of(api_key=SECRET, temperature=0.5)
    headers = {"X-Api-Key": SECRET}
    target = client.target(model, base_url=url, headers=headers, api_key=SECRET, top_p=0.5)
    assert str(target.model) == MODEL
    assert target.rules == (rule,)
    assert target.address == "http://toy.invalid/v1"
    assert (target.options.temperature, target.options.top_p) == (0.5, 0.5)
    assert target.inherited >= {"temperature"}
    assert SECRET not in repr(target)
    assert SECRET not in target.key
    assert re.fullmatch(f"{MODEL} http://toy.invalid/v1 [0-9a-f]{{16}}", target.key)


def test_a_target_without_an_address_is_reported() -> None:
    class Nowhere(Toy):
        def __init__(self, name: str) -> None:
            super().__init__(name)
            self.info = swink.ProviderInfo(name, name)

    assert client_of(providers={"toy": Nowhere}).target(MODEL).address is None


IMAGE = Context([UserMessage([ImageBlock(UrlSource("https://a.example/b.png"))])])

# (options of the target, conversation, the feature that is lacking)
REFUSALS: list[tuple[dict[str, Any], Any, str | None]] = [
    ({}, "Hi", None),
    ({}, IMAGE, None),
    ({"response_format": "json"}, "Hi", "json"),
    ({"transport": "websocket"}, "Hi", "websocket_transport"),
    ({}, Context([UserMessage("Hi")], tools=[swink.Tool("f")]), None),
]


@pytest.mark.parametrize(("options", "context", "feature"), REFUSALS)
def test_a_target_names_the_feature_that_a_call_would_be_refused_for(
    options: dict[str, Any], context: Any, feature: str | None
) -> None:
    failure = client_of().target(MODEL, **options).refusal(context)
    assert (failure and failure.code) == feature
    if failure is not None:
        assert failure.kind is Kind.UNSUPPORTED


@pytest.mark.parametrize(
    ("model", "options", "fault"),
    [
        ("nobody/any", {}, swink.UnknownProvider),
        (MODEL, {"mood": 1}, swink.InvalidOption),
        (MODEL, {"extra": {"a": object()}}, swink.InvalidOption),
        (MODEL, {"settings": {"region": "eu"}}, swink.InvalidOption),
        (MODEL, {"temperature": "hot"}, swink.InvalidOption),
    ],
)
def test_a_target_that_no_call_could_have_is_refused(
    model: str, options: dict[str, Any], fault: type[Exception]
) -> None:
    with pytest.raises(fault):
        client_of().target(model, **options)


async def test_a_target_stands_for_a_model_whose_options_a_call_inherits() -> None:
    http = PipeClient(*(Pipe(*HELLO) for _ in range(3)))
    async with client_of(http=http, top_p=0.1) as client:
        target = client.target(MODEL, temperature=0.5, api_key="of the target", extra={"a": 1})
        first = client.stream(target, "Hi")
        second = client.stream([(target, {"seed": 1})], "Hi", temperature=0.75, extra={"b": 2})
        await first.result()
        await second.result()
    assert (first.call.options.temperature, first.call.options.top_p) == (0.5, 0.1)
    assert second.call.options.temperature == 0.75
    assert second.call.options.seed == 1
    assert [json.loads(request.body).get("b") for request in http.requests] == [None, 2]
    assert {json.loads(request.body)["a"] for request in http.requests} == {1}
    assert {r.headers["Authorization"] for r in http.requests} == {"Bearer of the target"}
    assert "temperature" in first.call.attempt.target.inherited
    assert "temperature" not in second.call.attempt.target.inherited


class Continuing(Catalog):
    """A catalogue whose provider stores conversations, named by a field or a setting."""

    def provider(self, name: str) -> swink.ProviderInfo:
        settings = {"thread": "string"}
        return swink.ProviderInfo(name, name, settings=settings, continues=("previous", "thread"))


STORED = swink.Model("toy", "stored", rules=(Rule(match="", facts={"stored_prompt": True}),))
RESULT = [swink.ToolResultMessage("a", "f", "x")]

# (name, model, options, prompt, what is said of it if it is refused)
STORING: list[tuple[str, Any, dict[str, Any], Any, str | None]] = [
    ("a_result_beside_a_field", MODEL, {"extra": {"previous": "r1"}}, RESULT, None),
    ("a_result_beside_a_setting", MODEL, {"settings": {"thread": "t1"}}, RESULT, None),
    ("nothing_beside_a_field", MODEL, {"extra": {"previous": "r1"}}, [], None),
    ("a_result_beside_an_empty_field", MODEL, {"extra": {"previous": ""}}, RESULT, "call 'a'"),
    ("a_result_beside_another_field", MODEL, {"extra": {"next": "r1"}}, RESULT, "call 'a'"),
    ("a_result_alone", MODEL, {}, RESULT, "call 'a'"),
    ("nothing", MODEL, {}, [], "the conversation is empty"),
    ("nothing_to_a_stored_prompt", STORED, {}, [], None),
    ("a_result_to_a_stored_prompt", STORED, {}, RESULT, "call 'a'"),
    ("a_result_to_a_stored_prompt_and_conversation", STORED, {"extra": {"previous": "r1"}},
     RESULT, None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("model", "options", "prompt", "fault"),
    [row[1:] for row in STORING],
    ids=[row[0] for row in STORING],
)
def test_a_conversation_may_lack_what_the_provider_stores(
    model: Any, options: dict[str, Any], prompt: Any, fault: str | None
) -> None:
    client = client_of()
    client.catalog = Continuing(client.host)
    if fault is None:
        assert client.stream(model, prompt, **options).call.context.messages == prompt
    else:
        with pytest.raises(swink.InvalidContext, match=fault):
            client.stream(model, prompt, **options)


# -- what is remembered --------------------------------------------------------------------------

ALIKE: list[tuple[str, Any, dict[str, Any]]] = [
    ("a name", MODEL, {}),
    ("a name with options", MODEL, {"temperature": 0.5, "stop": ["a"]}),
    ("a pair", (MODEL, {"temperature": 0.5, "extra": {"a": 1, "b": None}}), {}),
    ("a model", swink.Model("toy", "large"), {}),
    ("a policy", [MODEL, (MODEL, {"retry": RetryPolicy(retries={Kind.NETWORK: 1})})], {}),
    ("a format", MODEL, {"response_format": {"type": "object"}}),
]


@pytest.mark.parametrize(
    ("model", "options"), [row[1:] for row in ALIKE], ids=[r[0] for r in ALIKE]
)
def test_pairs_of_models_and_options_are_remembered_as_names_are(
    model: Any, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    resolved = []
    original = Catalog.resolve

    def resolve(self: Catalog, name: Any) -> Any:
        resolved.append(name)
        return original(self, name)

    monkeypatch.setattr(Catalog, "resolve", resolve)
    client = client_of()
    first = client.stream(model, "Hi", **options).call
    after = len(resolved)
    second = client.stream(model, "Hi", **options).call
    assert after > 0
    assert len(resolved) == after
    assert second.options is first.options
    assert second.attempt.target is not first.attempt.target


@pytest.mark.parametrize("name", ["extra", "response_format"])
def test_deep_data_is_never_shared_by_two_calls(name: str) -> None:
    client = client_of()
    first, second = (client.target(MODEL, **{name: {"a": {"b": [1]}}}).options for _ in range(2))
    assert first == second
    assert getattr(first, name)["a"] is not getattr(second, name)["a"]


@pytest.mark.parametrize("place", ["call", "pair"])
def test_a_target_keeps_the_options_that_it_was_given_when_the_caller_changes_them(
    place: str,
) -> None:
    client = client_of()
    extra = {"a": 1}
    if place == "call":
        target = client.target(MODEL, extra=extra)
    else:
        target = client.target((MODEL, {"extra": extra}))
    extra["a"] = 2
    assert target.options.extra == {"a": 1}
    assert client.stream(target, "Hi").call.options.extra == {"a": 1}


DIFFERENT: list[tuple[Any, Any]] = [
    (1, 1.0),
    (True, 1),
    ({"a": 1}, {"a": True}),
    ([1], (1,)),
    ({"a": None}, {}),
]


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
async def test_options_of_other_types_are_not_taken_for_each_other(one: Any, other: Any) -> None:
    client = client_of()
    sent = [client.target(MODEL, extra={"x": value}).options.extra["x"] for value in (one, other)]
    assert [repr(value) for value in sent] == [repr(one), repr(other)]


def test_no_more_than_a_bounded_number_of_targets_is_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("swink_core.client.MOST_REMEMBERED", 3)
    client = client_of()
    for seed in range(9):
        client.target(MODEL, seed=seed)
    assert len(client._remembered) == 3
    assert client.target(MODEL, seed=0).options.seed == 0


def test_a_bare_id_is_resolved_by_the_keys_of_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    class Listed(Catalog):
        def models(self, provider: str) -> list[ModelInfo]:
            return [ModelInfo("same", provider)]

        def provider(self, name: str) -> swink.ProviderInfo:
            return swink.ProviderInfo(name, name, api_key_env=(f"{name.upper()}_KEY",))

    client = client_with(host=host_of(one=Toy, two=Toy))
    client.catalog = Listed(client.host)
    for name, other in (("one", "two"), ("two", "one"), ("one", "two")):
        monkeypatch.setenv(f"{name.upper()}_KEY", "k")
        monkeypatch.delenv(f"{other.upper()}_KEY", raising=False)
        assert client.target("same").model.provider == name
