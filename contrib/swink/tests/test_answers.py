"""Typed answers: every kind of type, partial values, a correction, the error after a failure."""

from __future__ import annotations

import asyncio
import copy
import json
import pickle
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

import attrs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

import swink
from swink.partial import partial_json
from swink_provider_echo.provider import EchoProvider


class Scripted:
    """A plugin that returns scripted answers, one per call, and stores the requests."""

    def __init__(self, *answers: str | swink.Error, stop: str = "stop", delta: int = 7) -> None:
        self.answers = list(answers)
        self.stop, self.delta = swink.StopReason(stop), delta
        self.contexts: list[swink.Context] = []
        self.options: list[swink.StreamOptions] = []

    @swink.hookimpl(tryfirst=True)
    def stream(
        self, context: swink.Context, options: swink.StreamOptions
    ) -> AsyncIterator[swink.AssistantMessageEvent]:
        self.contexts.append(context)
        self.options.append(options)
        return self.events(self.answers.pop(0), any(t.name == "answer" for t in context.tools))

    async def events(
        self, answer: str | swink.Error, by_tool: bool
    ) -> AsyncIterator[swink.AssistantMessageEvent]:
        usage = swink.Usage(1, 2, total=3, reported=True)
        yield swink.Start()
        if isinstance(answer, swink.Error):
            yield answer
            return
        pieces = [answer[at : at + self.delta] for at in range(0, len(answer), self.delta)]
        if by_tool:
            yield swink.ToolCallStart(0, f"c{len(self.contexts)}", "answer")
            for piece in pieces:
                yield swink.ToolCallDelta(0, piece)
            yield swink.ToolCallEnd(0)
        else:
            yield swink.TextStart(0)
            for piece in pieces:
                yield swink.TextDelta(0, piece)
            yield swink.TextEnd(0)
        yield swink.Done(self.stop, usage)


@pytest.fixture(params=["structured output", "a forced tool"])
def by_tool(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the model lacks structured output and is made to call a tool."""
    if request.param == "a forced tool":
        features = EchoProvider.features - {"structured_output"}
        monkeypatch.setattr(EchoProvider, "features", features)
        return True
    return False


@dataclass
class Cat:
    name: str
    lives: int = 9


@attrs.define
class Dog:
    name: str
    tricks: list[str]


class Bird(BaseModel):
    name: str = Field(description="What it is called.")
    wings: int | None = None


class Fish(msgspec.Struct):
    name: str


class Snake(TypedDict):
    length: float


# (type, what the model writes, the value)
TYPES: list[tuple[Any, str, Any]] = [
    (Cat, '{"name": "Tom"}', Cat("Tom")),
    (Dog, '{"name": "Rex", "tricks": ["sit"]}', Dog("Rex", ["sit"])),
    (Bird, '{"name": "Ara", "wings": 2}', Bird(name="Ara", wings=2)),
    (Fish, '{"name": "Wanda"}', Fish("Wanda")),
    (Snake, '{"length": 1.5}', {"length": 1.5}),
    (Cat | Dog, '{"value": {"name": "Rex", "tricks": []}}', Dog("Rex", [])),
    (Bird | Cat, '{"value": {"name": "Ara"}}', Bird(name="Ara")),
    (list[Cat], '{"value": [{"name": "Tom", "lives": 1}]}', [Cat("Tom", 1)]),
    (int, '{"value": 3}', 3),
    (Literal["yes", "no"], '{"value": "no"}', "no"),
]


@pytest.mark.parametrize(("kind", "written", "value"), TYPES, ids=str)
async def test_an_answer_is_a_value_of_the_type(
    kind: Any, written: str, value: Any, by_tool: bool
) -> None:
    plugin = Scripted(written)
    async with swink.Client(plugins=[plugin]) as client:
        answer: swink.Answer[Any] = await client.answer("echo/echo", "Who?", type=kind)
    assert answer.parsed == value
    assert type(answer.parsed) is type(value)
    assert answer.text == written
    assert answer.usage == swink.Usage(1, 2, total=3, reported=True)
    [context], [options] = plugin.contexts, plugin.options
    if by_tool:
        [tool] = context.tools
        schema, choice = tool.parameters, options.tool_choice
        assert (options.response_format, choice) == (None, "answer")
    else:
        schema = dict(options.response_format)  # type: ignore[arg-type]  # it is a schema
        assert context.tools == []
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False


async def test_a_number_that_is_not_json_is_text() -> None:
    async with swink.Client(plugins=[Scripted(*['{"value": NaN}'] * 2)]) as client:
        with pytest.raises(swink.BadAnswer, match="invalid JSON: NaN is not valid JSON"):
            await client.answer("echo/echo", "How many?", type=float)


async def test_every_request_offers_the_tools_of_the_conversation(by_tool: bool) -> None:
    def asked(*names: str) -> swink.Context:
        tools = [swink.Tool(name, "", {"type": "object"}) for name in names]
        return swink.Context([swink.UserMessage("Who?")], tools=tools)

    plugin = Scripted('{"name": 3}', '{"name": "Tom"}')
    async with swink.Client(plugins=[plugin]) as client:
        await client.answer("echo/echo", asked("look"), type=Cat)
        with pytest.raises(swink.UsageError, match="the tool name 'answer' is reserved"):
            await client.answer("echo/echo", asked("look", "answer"), type=Cat)
    offered = [[tool.name for tool in context.tools] for context in plugin.contexts]
    assert offered == 2 * [["look", "answer"] if by_tool else ["look"]]


async def test_an_answer_may_stand_between_fences() -> None:
    async with swink.Client(plugins=[Scripted('```json\n{"name": "Tom"}\n```')]) as client:
        assert (await client.answer("echo/echo", "Who?", type=Cat)).parsed == Cat("Tom")


async def test_echo_itself_answers_in_the_type() -> None:
    async with swink.Client() as client:
        answer = await client.answer("echo/echo", "Who?", type=Cat)
    assert isinstance(answer.parsed, Cat)


async def test_an_answer_that_does_not_fit_is_requested_once_more(by_tool: bool) -> None:
    plugin = Scripted('{"name": 3}', '{"name": "Tom"}')
    async with swink.Client(plugins=[plugin]) as client:
        answer = await client.answer("echo/echo", "Who?", type=Cat)
    assert answer.parsed == Cat("Tom")
    assert answer.usage == swink.Usage(2, 4, total=6, reported=True)
    first, again = plugin.contexts
    assert first.messages == again.messages[:1]
    assert isinstance(again.messages[1], swink.AssistantMessage)
    correction = again.messages[2]
    assert isinstance(correction, swink.ToolResultMessage if by_tool else swink.UserMessage)
    assert "Expected `str`, got `int` - at `$.name`" in str(correction.content)


# (what the model answers, how result() ends)
ENDINGS: list[tuple[list[Any], type[Exception] | None]] = [
    (['{"name": 3}', '{"name": "Tom"}'], None),
    (["{}", "{}"], swink.BadAnswer),
    (["{}", swink.Error.unsupported("no more")], swink.Unsupported),
]


@pytest.mark.parametrize(("written", "raised"), ENDINGS, ids=["answer", "misfit", "failure"])
async def test_the_result_of_a_typed_answer_is_the_same_each_time_it_is_read(
    written: list[Any], raised: type[Exception] | None
) -> None:
    plugin = Scripted(*written)
    async with swink.Client(plugins=[plugin], retry=False) as client:
        stream = client.stream_answer("echo/echo", "Who?", type=Cat)
        reads = [stream.result() for _ in range(2)]
        both = await asyncio.gather(*reads, return_exceptions=True)
        [again] = await asyncio.gather(stream.result(), return_exceptions=True)
    assert both[0] is both[1] is again
    assert type(again) is (raised or swink.Answer)
    assert len(plugin.contexts) == 2


# (what the model writes twice, how it stops, part of the error, how many calls)
BAD: list[tuple[str, str, str, int]] = [
    ("Tom is a cat.", "stop", "invalid JSON", 2),
    ("[" * 100_000, "stop", "invalid JSON: it is nested too deeply", 2),
    ('{"lives": 3}', "stop", "required field `name`", 2),
    ('{"name": "To', "length", "cut off at its limit of tokens", 1),
    ('{"name": "Tom"}', "length", "cut off at its limit of tokens", 1),
    ("No.", "content_filter", "declined to answer", 1),
    ('{"name": "Tom"}', "content_filter", "declined to answer", 1),
]


@pytest.mark.parametrize(("corrections", "fits"), [(0, False), (1, False), (2, True)])
async def test_an_answer_is_requested_again_as_often_as_corrections_says(
    corrections: int, fits: bool, by_tool: bool
) -> None:
    plugin = Scripted("{}", '{"name": 5}', '{"name": "Tom"}')
    async with swink.Client(plugins=[plugin]) as client:
        asked = client.answer("echo/echo", "Who?", type=Cat, corrections=corrections)
        if fits:
            assert (await asked).parsed == Cat("Tom")
        else:
            with pytest.raises(swink.BadAnswer):
                await asked
        assert len(plugin.contexts) == corrections + 1
        assert len(plugin.contexts[-1].messages) == 1 + 2 * corrections
        with pytest.raises(swink.UsageError, match="corrections is less than 0"):
            await client.answer("echo/echo", "Who?", type=Cat, corrections=-1)


@pytest.mark.parametrize(("written", "stop", "said", "calls"), BAD)
async def test_the_last_answer_that_does_not_fit_is_kept_in_the_error(
    written: str, stop: str, said: str, calls: int, by_tool: bool
) -> None:
    plugin = Scripted(written, written, stop=stop)
    async with swink.Client(plugins=[plugin]) as client:
        with pytest.raises(swink.BadAnswer) as caught:
            await client.answer("echo/echo", "Who?", type=Cat)
    assert said in str(caught.value)
    assert caught.value.text == written
    assert caught.value.usage == swink.Usage(calls, 2 * calls, total=3 * calls, reported=True)
    assert len(plugin.contexts) == calls


async def test_only_the_error_of_a_cut_answer_recommends_more_tokens() -> None:
    for stop, recommended in [("stop", False), ("content_filter", False), ("length", True)]:
        async with swink.Client(plugins=[Scripted("{}", stop=stop)]) as client:
            with pytest.raises(swink.BadAnswer) as caught:
                await client.answer("echo/echo", "Who?", type=Cat, corrections=0)
        assert ("max_tokens" in caught.value.resolution) is recommended


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
async def test_the_error_of_a_bad_answer_can_be_copied_and_pickled(copied: Any) -> None:
    async with swink.Client(plugins=[Scripted("{}")]) as client:
        with pytest.raises(swink.BadAnswer) as caught:
            await client.answer("echo/echo", "Who?", type=Cat, corrections=0)
    error = copied(caught.value)
    assert isinstance(error, swink.BadAnswer)
    assert str(error) == str(caught.value)
    assert (error.text, error.answer) == ("{}", caught.value.answer)
    assert (error.usage, error.cost) == (caught.value.usage, caught.value.cost)


async def test_a_model_that_says_it_has_no_structured_output_is_made_to_call_a_tool() -> None:
    lacking = swink.Error.unsupported("no structured output")
    plugin = Scripted(lacking, '{"name": "Tom"}')
    async with swink.Client(plugins=[plugin], retry=False) as client:
        stream = client.stream_answer("echo/echo", "Who?", type=Cat)
        assert [so_far async for so_far in stream.partials] == []
        assert (await stream.result()).parsed == Cat("Tom")
    assert [len(context.tools) for context in plugin.contexts] == [0, 1]


@pytest.mark.parametrize("first", [{"reply": "three"}, {"fail": "unsupported"}], ids=str)
@pytest.mark.parametrize("last", ["an answer", "an error", "async with"])
async def test_a_client_for_one_typed_answer_is_closed_after_the_last_request(
    first: dict[str, Any], last: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[swink.Client] = []

    class Watched(swink.Client):
        async def aclose(self) -> None:
            await super().aclose()
            closed.append(self)

    monkeypatch.setattr("swink.client.Client", Watched)
    reply = '{"value": 3}' if last != "an error" else "four"
    call = {"name": "answer", "arguments": {"value": 3} if last != "an error" else {}}
    second = {"reply": reply} if "reply" in first else {"calls": [call]}
    settings = {"script": [first, second, second]}
    stream = swink.stream_answer("echo/echo", "?", type=int, settings=settings, retry=False)
    assert [so_far async for so_far in stream.partials] == []
    assert closed == []
    if last == "async with":
        async with stream:
            pass
    elif last == "an error":
        with pytest.raises(swink.BadAnswer):
            await stream.result()
    else:
        assert (await stream.result()).parsed == 3
    assert len(closed) == 1


async def test_a_call_that_fails_raises_as_ever() -> None:
    async with swink.Client(retry=False) as client:
        with pytest.raises(swink.AuthenticationError):
            await client.answer("echo/fail-auth", "Who?", type=Cat)


@pytest.mark.parametrize("choose", [lambda t: t, lambda t: (t, {}), lambda t: [t, "echo/echo"]])
async def test_a_target_gives_typed_answers_like_its_name(choose: Any, by_tool: bool) -> None:
    plugin = Scripted('{"name": "Tom"}', '{"name": "Tom"}')
    async with swink.Client(plugins=[plugin]) as client:
        model = choose(client.target("echo/echo"))
        assert (await client.answer(model, "Who?", type=Cat)).parsed == Cat("Tom")
        run = client.run(model, "Who?", tools=[], type=Cat)
        assert (await run.answer()).parsed == Cat("Tom")
    assert [len(context.tools) for context in plugin.contexts] == [by_tool, by_tool]


async def test_a_chain_answers_from_its_next_model() -> None:
    async with swink.Client() as client:
        chain = ["echo/fail-overloaded", "echo/echo"]
        answer = await client.answer(chain, "Who?", type=Cat, retry=False)
    assert isinstance(answer.parsed, Cat)
    assert answer.message.model == "echo"


async def test_partial_values_grow_to_the_whole(by_tool: bool) -> None:
    written = '{"name": "Rex", "tricks": ["sit", "roll over"]}'
    async with (
        swink.Client(plugins=[Scripted(written, delta=1)]) as client,
        client.stream_answer("echo/echo", "Who?", type=Dog) as stream,
    ):
        partials = [so_far async for so_far in stream.partials]
        answer = await stream.result()
    assert partials[0] == {}
    assert {"name": "Re"} in partials
    assert {"name": "Rex", "tricks": ["sit", "roll"]} in partials
    assert partials[-1] == json.loads(written)
    assert answer.parsed == Dog("Rex", ["sit", "roll over"])


async def test_partial_values_of_other_types_than_objects_are_unwrapped() -> None:
    async with (
        swink.Client(plugins=[Scripted('{"value": ["a", "b"]}', delta=1)]) as client,
        client.stream_answer("echo/echo", "Who?", type=list[str]) as stream,
    ):
        partials = [so_far async for so_far in stream.partials]
    assert partials[0] == []
    assert partials[-1] == ["a", "b"]


def test_type_and_response_format_are_not_both_given() -> None:
    with pytest.raises(swink.UsageError, match="cannot be combined"):
        swink.Client().stream_answer("echo/echo", "Hi", type=Cat, response_format="json")


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=6,
)


def is_beginning(part: Any, whole: Any) -> bool:
    """Tell whether a value says no more than another, and nothing else."""
    if isinstance(part, dict):
        return all(key in whole and is_beginning(part[key], whole[key]) for key in part)
    if isinstance(part, list):
        return len(part) <= len(whole) and all(map(is_beginning, part, whole))
    return part == whole or (isinstance(part, str) and str(whole).startswith(part))


@given(st.dictionaries(st.text(), JSON), st.booleans(), st.data())
def test_partial_json_agrees_with_the_complete_value(
    value: dict[str, Any], ascii_only: bool, data: st.DataObject
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    at = data.draw(st.integers(0, len(text)))
    part = partial_json(text[:at])
    # half of a character that is written in two escapes is not yet what it will be
    whole = json.loads(text)
    assert part is None or is_beginning(_without_halves(part), whole)
    assert partial_json(text) == whole


BEGINNINGS = [
    ("", None),
    ("12", None),
    ("[12", []),
    ("[12 ", [12]),
    ("[12,", [12]),
    ('{"a": 1.25', {}),
    ('{"a": 1e5', {}),
    ('{"a": -5', {}),
    ('{"a": tru', {}),
    ('{"a": 1, "b', {"a": 1}),
    ('{"a": 1, "b":', {"a": 1}),
    ('{"a": "x 12', {"a": "x 12"}),
    ('{"a12": "b', {"a12": "b"}),
    ('["a\\', ["a"]),
    ('["a\\u00', ["a"]),
    ('"12', "12"),
    ('{"a": NaN}', None),
    ('{"a" 1}', None),
    ("```json\n[1, 2", [1]),
]


@pytest.mark.parametrize(("text", "data"), BEGINNINGS)
def test_the_beginning_of_json_holds_what_can_no_longer_change(text: str, data: Any) -> None:
    assert partial_json(text) == data


def _without_halves(part: Any) -> Any:
    if isinstance(part, dict):
        return {key: _without_halves(value) for key, value in part.items()}
    if isinstance(part, list):
        return [_without_halves(value) for value in part]
    if isinstance(part, str):
        return part.rstrip("".join(map(chr, range(0xD800, 0xDC00))))
    return part
