"""Typed answers, and calls without await, over every provider's adapter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, make_dataclass
from typing import Any, Literal

import pydantic
import pytest
from test_app_on_every_provider import (
    BY_HTTP,
    HOST,
    JUDGE,
    QUESTION,
    RECORDED,
    final_of,
    heard_by,
    refusals,
    tool_of,
)

import swink
from swink import answers
from swink_judge import strict_answers
from swink_judge.strict import strict_server
from swink_recorder.recording import Recording
from swink_recorder.replay import ReplayServer
from swink_testing.conformance import Subject
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

BUSY = "echo/fail-overloaded"
"""Failures at the start of each chain, in each turn and at each request."""


@pytest.fixture(scope="module")
def client() -> Iterator[swink.SyncClient]:
    with swink.SyncClient(breaker=False, retry=False) as client:
        yield client


@dataclass
class Person:
    name: str
    age: int | None


# -- what is asked -------------------------------------------------------------------------------


@pytest.mark.parametrize("subject", BY_HTTP, ids=lambda subject: subject.name)
async def test_a_typed_answer_is_requested_in_the_form_of_each_api(subject: Subject) -> None:
    http = MemoryHTTPClient(MemoryResponse(status=400))
    with subject.environment():
        client = swink.Client(host=subject.client(http).host, http=http, retry=False)
        options = subject.call_options()
        stream = client.stream_answer(subject.model, "Who?", type=list[Person], **options)
        with pytest.raises(swink.StreamError):
            await stream.result()
    assert http.requests, stream.message
    for request in http.requests:
        assert refusals(subject.name, request.url, request.body) == []
        assert b"additionalProperties" in request.body or subject.name in LAX


class Card(pydantic.BaseModel):
    kind: Literal["card"]
    digits: tuple[int, str]


class Transfer(pydantic.BaseModel):
    kind: Literal["transfer"]
    tags: set[str]


class Payment(pydantic.BaseModel):
    paid: Card | Transfer = pydantic.Field(discriminator="kind")


class Tree(pydantic.BaseModel):
    name: str
    children: list[Tree]


HARD: list[Any] = [
    dict, dict[str, Any], list[dict[str, Any]], dict[str, int], Any, list, set[int],
    tuple[int, str], tuple[int, int], Literal[1, "a"], Payment, Tree,
]  # fmt: skip
"""Types whose plain schemas some APIs reject."""


@pytest.mark.parametrize("subject", BY_HTTP, ids=lambda subject: subject.name)
async def test_types_that_an_api_cannot_express_are_requested_in_a_form_that_it_accepts(
    subject: Subject,
) -> None:
    for kind in HARD:
        http = MemoryHTTPClient(MemoryResponse(status=400))
        with subject.environment():
            client = swink.Client(host=subject.client(http).host, http=http, retry=False)
            options = subject.call_options()
            stream = client.stream_answer(subject.model, "Who?", type=kind, **options)
            with pytest.raises(swink.StreamError):
                await stream.result()
        assert http.requests, (kind, stream.message)
        for request in http.requests:
            assert refusals(subject.name, request.url, request.body) == [], kind


@pytest.mark.parametrize("model", ["claude-fable-5-2", "claude-haiku-4-5", "claude-opus-5-5"])
async def test_a_recursive_type_is_the_schema_of_a_tool_with_and_without_tool_choice(
    model: str,
) -> None:
    http = MemoryHTTPClient(MemoryResponse(status=400))
    async with swink.Client(http=http, retry=False) as client:
        stream = client.stream_answer(f"anthropic/{model}", "Who?", type=Tree, api_key="k")
        with pytest.raises(swink.StreamError):
            await stream.result()
        run = client.run(f"anthropic/{model}", "Who?", tools=[], type=Tree, api_key="k")
        with pytest.raises(swink.StreamError):
            await run.result()
    assert [[tool["name"] for tool in body["tools"]] for body in http.bodies] == [["answer"]] * 2


LAX = {"perplexity"}
"""Whose adapter asks in other words."""


# -- what is read --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "subject", [each for each in BY_HTTP if each.name in JUDGE.providers], ids=lambda s: s.name
)
def test_json_from_every_api_is_a_value_without_await_too(
    subject: Subject, client: swink.SyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces = ('{"name": "Ada", ', '"age": 36}')
    monkeypatch.setattr(strict_answers, "TEXT", "".join(pieces))
    monkeypatch.setattr(strict_answers, "_WORDS", pieces)
    with subject.environment(), strict_server(subject.name) as server:
        there: Any = subject.call_options(base_url=server.url)
        chain: Any = [BUSY, (subject.model, there)]
        with client.stream_answer(chain, "Who?", type=Person) as stream:
            *_, last = stream.partials
            answer = stream.result()
        assert server.refused == []
    assert (last, answer.parsed) == ({"name": "Ada", "age": 36}, Person("Ada", 36))
    assert answer.usage == answer.message.usage is not None


def type_of(values: list[Any]) -> Any:
    """Return a type that JSON values fit, with every field that any object has."""
    first = values[0]
    if isinstance(first, dict):
        names = dict.fromkeys(name for value in values for name in value)
        found = {name: type_of([v[name] for v in values if name in v]) for name in names}
        return make_dataclass(
            f"With_{'_'.join(names)}",
            [(name, kind | None, field(default=None)) for name, kind in found.items()],
        )
    return list[type_of(first)] if isinstance(first, list) else type(first)


def known(value: Any) -> Any:
    """Return data without what is not known."""
    if isinstance(value, dict):
        return {name: known(each) for name, each in value.items() if each is not None}
    return [known(each) for each in value] if isinstance(value, list) else value


def first_arguments(recording: Recording) -> dict[str, Any]:
    """Return the arguments of an answer's first call."""
    assert recording.message is not None
    return recording.message.tool_calls[0].arguments


def can_be_fields(value: Any) -> bool:
    """Tell whether the names of all objects could be those of fields."""
    if isinstance(value, dict):
        return all(map(str.isidentifier, value)) and all(map(can_be_fields, value.values()))
    return all(map(can_be_fields, value)) if isinstance(value, list) else True


def says_all(recording: Recording) -> bool:
    """Return whether an answer has text and is complete, so that it would be corrected."""
    message = recording.message
    return bool(message and message.text) and message.stop_reason is swink.StopReason.STOP  # type: ignore[union-attr]


NAMED = [row for row in RECORDED if can_be_fields(first_arguments(row[1]))]
"""Those whose call's arguments can be the fields of a class."""


@pytest.mark.parametrize("chained", [False, True], ids=["alone", "behind-a-failure"])
@pytest.mark.parametrize(
    ("subject", "recording", "final"), NAMED, ids=lambda value: getattr(value, "name", "")
)
async def test_a_recorded_call_is_a_value_after_a_text_that_was_none(
    subject: Subject,
    recording: Recording,
    final: Recording | None,
    chained: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert recording.message is not None
    call = recording.message.tool_calls[0]
    monkeypatch.setattr(answers, "ANSWER", call.name)
    repairs = final is not None and says_all(final)
    with subject.environment():
        async with (
            ReplayServer() as server,
            swink.Client(host=HOST, breaker=False, retry=False) as client,
        ):
            address = server.add("it", *([final] if final and repairs else []), recording)
            there: Any = subject.call_options(base_url=address)
            model = (subject.model_of(recording), there)
            chain: Any = [BUSY, model] if chained else [model]
            answer = await client.answer(chain, [QUESTION], type=type_of([call.arguments]))
            assert known(asdict(answer.parsed)) == call.arguments
            assert len(server.exchanges) == 1 + repairs
            assert b"does not fit the schema" in server.exchanges[-1].body or not repairs
            for exchange in server.exchanges:
                assert refusals(subject.name, server.url + exchange.path, exchange.body) == []


@pytest.mark.parametrize("subject", BY_HTTP, ids=lambda subject: subject.name)
def test_a_text_that_stays_one_is_kept_in_the_error(
    subject: Subject, client: swink.SyncClient
) -> None:
    recording = next(each for each in heard_by(subject) if says_all(each))
    assert recording.message is not None
    with subject.environment(), ReplayServer() as server:
        there: Any = subject.call_options(base_url=server.add("it", recording))
        with pytest.raises(swink.BadAnswer) as caught:
            client.answer([BUSY, (subject.model_of(recording), there)], [QUESTION], type=Person)
        assert len(server.exchanges) == 2
    assert caught.value.text == recording.message.text


# -- without await -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("subject", "recording", "final"), RECORDED, ids=lambda value: getattr(value, "name", "")
)
def test_a_run_and_its_text_come_without_await(
    subject: Subject, recording: Recording, final: Recording | None, client: swink.SyncClient
) -> None:
    assert recording.message is not None
    calls = recording.message.tool_calls
    tools = [tool_of(name, calls) for name in dict.fromkeys(call.name for call in calls)]
    said = final or final_of(subject, recording) or recording
    assert said.message is not None
    with subject.environment(), ReplayServer() as server:
        there: Any = subject.call_options(base_url=server.add("it", recording, said))
        chain: Any = [BUSY, (subject.model_of(recording), there)]
        with client.run(chain, [QUESTION], tools=tools, max_turns=2) as run:
            retries = [event for event in run if isinstance(event, swink.Retry)]
        assert len(retries) == run.turns == len(server.exchanges) == 2
    assert run.message.text == said.message.text
