"""The plan of an attempt: made once, belonging to no other call, and never out of date."""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import pytest
from attrs import define
from fakes import HELLO, MODEL, Pipe, PipeClient, Toy, client_of, collect, host_of, settled
from hypothesis import given
from hypothesis import strategies as st

import swink_core as swink
from swink_core import ModelInfo, Notice, StreamOptions, Tool
from swink_core.providers import Exchange, Grant, HTTPRequest, HTTPResponse, Token, first_set
from swink_core.vocabulary.models import Rule
from swink_testing.clock import ManualClock


class Counted(Toy):
    """A provider that counts how often a call is fitted, converted and built."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.calls = Counter[str]()

    def fit(self, model: Any, context: Any, options: Any) -> Any:
        self.calls["fit"] += 1
        return super().fit(model, context, options)

    def convert(self, model: Any, context: Any, options: Any) -> Any:
        self.calls["convert"] += 1
        return super().convert(model, context, options)

    def request(self, model: Any, payload: Any, options: Any) -> HTTPRequest:
        self.calls["request"] += 1
        return super().request(model, payload, options)

    def credential(self, request: HTTPRequest, options: Any) -> Grant:
        return Key(options.api_key or "")


@define(frozen=True)
class Key(Grant):
    """Is exchanged for a token of the same text."""

    key: str

    async def fetch(self, http: Any) -> Token:
        return Token(self.key)


def provider_of(client: Any) -> Any:
    return client.host.bind("toy").provider


# -- made once -----------------------------------------------------------------------------------


@pytest.mark.parametrize("together", [1, 2, 8])
async def test_each_call_is_fitted_converted_and_built_once_however_many_run_together(
    together: int,
) -> None:
    http = PipeClient(*(Pipe(*HELLO, end=True) for _ in range(together)))
    async with client_of(providers={"toy": Counted}, api_key="k", http=http) as client:
        calls = (client.complete(MODEL, f"Hi {n}", tools=[Tool("f")]) for n in range(together))
        await asyncio.gather(*calls)
        counts = provider_of(client).calls
    assert counts == dict.fromkeys(("fit", "convert", "request"), together)
    bodies = [json.loads(request.body) for request in http.requests]
    assert sorted(body["messages"][0]["content"] for body in bodies) == [
        f"Hi {n}" for n in range(together)
    ]


async def test_a_cached_plan_keeps_no_conversation() -> None:
    http = PipeClient(Pipe(*HELLO, end=True), Pipe(*HELLO, end=True))
    async with client_of(providers={"toy": Counted}, http=http) as client:
        await client.complete(MODEL, "Hi")
        await client.complete(MODEL, "Hi again")
        assert provider_of(client).calls["fit"] == 1
        targets = [one for _, targets in client._remembered.values() for one in targets]
    plans = [plan for target in targets for plan in target.remembered.values()]
    assert [plan.context.messages for plan in plans] == [[]]
    assert [json.loads(one.body)["messages"][0]["content"] for one in http.requests] == [
        "Hi",
        "Hi again",
    ]


async def test_a_request_is_built_once_where_extra_lies_over_a_clients_options() -> None:
    http = PipeClient(Pipe(*HELLO, end=True))
    given: Any = {"providers": {"toy": Counted}, "api_key": "k", "temperature": 0.5}
    async with client_of(**given, http=http) as client:
        await client.complete(MODEL, "Hi", extra={"temperature": 0.7})
        assert provider_of(client).calls["request"] == 1


async def test_renewed_credentials_go_into_a_copy_of_the_same_request() -> None:
    http = PipeClient(Pipe(status=401, end=True), Pipe(*HELLO, end=True))
    async with client_of(providers={"toy": Counted}, api_key="key-1", http=http) as client:
        async with client.stream(MODEL, "Hi") as stream:
            await collect(stream)
        assert provider_of(client).calls["request"] == 1
    first, second = http.requests
    assert first is not second
    assert first == second
    plan = stream.call.attempt.plan
    assert plan is not None
    assert plan.request is not None
    assert plan.request.body == second.body
    assert "Authorization" not in plan.request.headers
    assert "key-1" not in repr(plan)


async def test_a_plan_names_what_was_left_out_and_renamed_and_is_of_its_own_attempt() -> None:
    named = Rule(match=".", tool_name="[a-z]+", takes={"temperature": False})
    model = swink.Model("toy", "large", ModelInfo("large"), (named,))
    http = PipeClient(Pipe(status=503, end=True), Pipe(*HELLO, end=True))
    plans = []

    class Seeing:
        @swink.hookimpl
        def on_event(self, event: Any, call: swink.Call) -> None:
            if isinstance(event, swink.Start):
                plans.append(call.attempt.plan)

    async with client_of(Seeing(), http=http, retry=swink.RetryPolicy(base=0.0)) as client:
        tools = [Tool("Look Up")]
        await client.complete(model, "Hi", tools=tools, temperature=0.5)
    first, second = plans
    assert first is not second
    assert first is not None
    assert [*first.names.values()] == ["Look Up"]
    assert {tool.name for tool in first.context.tools} == {*first.names}
    assert first.options.temperature is None
    assert [notice.code for notice in first.notices] == ["option_ignored"]


async def test_a_hand_written_stream_hook_has_no_plan() -> None:
    class Written:
        def __init__(self, name: str) -> None:
            self.name = name

        @swink.hookimpl
        def stream(self) -> Any:
            return self._events()

        async def _events(self) -> Any:
            yield swink.Start()
            yield swink.Done(swink.StopReason.STOP)

    async with (
        client_of(providers={"toy": Written}) as client,
        client.stream(MODEL, "Hi") as stream,
    ):
        await collect(stream)
    assert stream.call.attempt.plan is None


class Learning(Toy):
    """A provider that learns from its server, before it sends a call, what the model lacks."""

    lacks: Mapping[str, Any] = {}
    plan: Any = None

    def fit(self, model: Any, context: Any, options: StreamOptions) -> Any:
        rule = Rule(match=".", takes=self.lacks)
        return super().fit(swink.Model(model.provider, model.id, rules=(rule,)), context, options)

    def convert(self, model: Any, context: Any, options: StreamOptions) -> Any:
        body = super().convert(model, context, options)
        return {**body, "temperature": options.temperature, "top_p": options.top_p}

    def exchange(self, x: Exchange) -> Any:
        async def respond() -> HTTPResponse:
            await x.convert()
            self.lacks = {"temperature": False, "stop": False}
            self.plan = self.plan_again(x.call, x.call.options)
            x.payload = x.call.convert()
            return await x.send()

        return x.stream(respond=respond)


async def test_a_plan_that_is_made_again_is_sent_and_tells_what_is_new() -> None:
    http = PipeClient(Pipe(*HELLO, end=True))
    providers: dict[str, Any] = {"toy": Learning}
    async with client_of(providers=providers, api_key="k", http=http) as client:
        async with client.stream(MODEL, "Hi", temperature=0.5, top_p=0.25, top_k=3) as stream:
            events = await collect(stream)
        plan = provider_of(client).plan
    assert plan is stream.call.attempt.plan
    body = json.loads(http.requests[0].body)
    assert (body["temperature"], body["top_p"]) == (None, 0.25)
    notices = [event for event in events if isinstance(event, Notice)]
    assert [notice.paths for notice in notices] == [("options.top_k",), ("options.temperature",)]
    assert all(notice in plan.notices for notice in notices)


async def test_a_plan_that_is_made_again_may_refuse_the_call() -> None:
    http = PipeClient(Pipe(*HELLO, end=True))
    providers: dict[str, Any] = {"toy": Learning}
    async with client_of(providers=providers, api_key="k", http=http) as client:
        with pytest.raises(swink.Unsupported, match="does not support stop"):
            await client.complete(MODEL, "Hi", stop="END")
    assert http.requests == []


# -- never out of date ---------------------------------------------------------------------------


class Following(Toy):
    """A provider whose request has a header from the environment and the model's own limit."""

    def convert(self, model: Any, context: Any, options: StreamOptions) -> Any:
        limit = model.info.max_output if model.info else None
        body = super().convert(model, context, options)
        return {**body, "limit": limit, "temperature": options.temperature}

    def request(self, model: Any, payload: Any, options: StreamOptions) -> HTTPRequest:
        team = first_set(["TOY_TEAM"]) or "none"
        return self.json_request(self.base_url(options), payload, {"X-Team": team})


class Marking:
    """A plugin that marks the conversation of every request."""

    @swink.hookimpl(wrapper=True)
    def convert_messages(self) -> Any:
        body = yield
        return {**body, "messages": ["marked", *body["messages"]]}


WORDS = st.sampled_from(["one", "two"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("key"), WORDS),
        st.tuples(st.just("team"), WORDS),
        st.tuples(st.just("hook"), st.booleans()),
        st.tuples(st.just("row"), st.sampled_from([None, 10, 2000])),
        st.tuples(st.just("temperature"), st.sampled_from([None, 0.25, 1])),
    ),
    max_size=8,
)


@given(STEPS)
def test_the_next_call_sees_every_change_since_the_last_one(steps: list[tuple[str, Any]]) -> None:
    asyncio.run(_follow(steps))


async def _follow(steps: list[tuple[str, Any]]) -> None:
    state: dict[str, Any] = {"key": "none", "team": "none", "hook": False, "row": None}
    state["temperature"] = None
    with TemporaryDirectory() as folder, patch.dict(os.environ):
        file = Path(folder, "models.toml")
        _write(file, None)
        os.environ["SWINK_MODELS"] = str(file)
        http = PipeClient(*(Pipe(*HELLO, end=True) for _ in range(len(steps) + 1)))
        marking = Marking()
        async with swink.Client(host=host_of(toy=Following), http=http) as client:
            manager = client.host.bind("toy").manager
            for what, value in [("key", "none"), *steps]:
                state[what] = value
                if what == "key":
                    os.environ["TOY_API_KEY"] = value
                elif what == "team":
                    os.environ["TOY_TEAM"] = value
                elif what == "hook" and value != manager.is_registered(marking):
                    (manager.register if value else manager.unregister)(marking)
                elif what == "row":
                    _write(file, value)
                await client.complete(MODEL, "Hi", temperature=state["temperature"])
                request = http.requests[-1]
                body = json.loads(request.body)
                assert request.headers["Authorization"] == f"Bearer {state['key']}"
                assert request.headers["X-Team"] == state["team"]
                assert (body["messages"][0] == "marked") is state["hook"]
                assert body["limit"] == state["row"]
                assert body["temperature"] == state["temperature"]


def _write(file: Path, limit: int | None) -> None:
    """Write the user's file anew, with a row of this limit or without a row."""
    row = "" if limit is None else f"max_output = {limit}"
    new = file.with_suffix(".new")
    new.write_text(f'[[models]]\nprovider = "toy"\nid = "large"\n{row}\n')
    new.replace(file)


HI = swink.UserMessage("Hi")
SEEN = swink.ImageBlock(swink.Base64Source("image/png", "AA=="))

# (messages, options, the code of a notice or the feature that the model does not support)
AFTER_TEXT: list[tuple[list[swink.Message], dict[str, Any], str]] = [
    ([HI], {"tools": [Tool("f")]}, "tools"),
    ([HI], {"system_prompt": [swink.TextBlock("a"), swink.TextBlock("b")]}, "system_blocks_joined"),
    ([swink.UserMessage([SEEN])], {}, "images"),
    ([HI, swink.AssistantMessage([swink.TextBlock("a")])], {}, "prefill"),
]


@pytest.mark.parametrize(("messages", "options", "told"), AFTER_TEXT)
async def test_a_plan_for_a_text_is_not_that_of_another_conversation(
    messages: list[swink.Message], options: dict[str, Any], told: str
) -> None:
    rule = Rule(match=".", takes={"tools": False, "images": False, "prefill": False})
    model = swink.Model("toy", "large", ModelInfo("large"), (rule,))
    http = PipeClient(*(Pipe(*HELLO, end=True) for _ in range(2)))
    async with client_of(http=http) as client:
        await client.complete(model, "Hi")
        events = await collect(client.stream(model, messages, **options))
    found = [getattr(event, "code", None) for event in events]
    assert told in found


async def test_a_model_that_retires_between_two_calls_is_refused_by_the_second() -> None:
    rule = Rule(match=".", retires="2026-06-02", as_of="2026-06-02")
    model = swink.Model("toy", "large", ModelInfo("large"), (rule,))
    clock = ManualClock(began=datetime(2026, 6, 1, 23, 59, tzinfo=UTC))
    http = PipeClient(Pipe(*HELLO, end=True))
    async with client_of(http=http, clock=clock) as client:
        await client.complete(model, "Hi")
        await clock.advance(120.0)
        with pytest.raises(swink.ModelNotFound, match="2026-06-02"):
            await client.complete(model, "Hi")


async def test_a_data_structure_that_changes_after_a_call_changes_no_remembered_one() -> None:
    extra: dict[str, Any] = {"words": ["a"], "deep": {"n": 1}}
    http = PipeClient(*(Pipe(*HELLO, end=True) for _ in range(3)))
    async with client_of(http=http) as client:
        await client.complete(MODEL, "Hi", extra=extra)
        extra["words"].append("b")
        extra["deep"]["n"] = 2
        await client.complete(MODEL, "Hi", extra=extra)
        await client.complete(MODEL, "Hi", extra={"words": ["a"], "deep": {"n": 1}})
    sent = [json.loads(request.body) for request in http.requests]
    assert [(body["words"], body["deep"]["n"]) for body in sent] == [
        (["a"], 1),
        (["a", "b"], 2),
        (["a"], 1),
    ]


async def test_two_calls_at_a_time_have_plans_of_their_own() -> None:
    http = PipeClient(Pipe(*HELLO, end=True), Pipe(*HELLO, end=True))
    async with client_of(http=http) as client:
        streams = [client.stream(MODEL, said) for said in ("a", "b")]
        reading = [asyncio.ensure_future(stream.result()) for stream in streams]
        await settled()
        plans = [stream.call.attempt.plan for stream in streams]
        await asyncio.gather(*reading)
    assert [plan.context.messages[0].content for plan in plans] == ["a", "b"]
