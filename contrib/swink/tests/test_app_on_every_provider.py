"""The tool loop with every provider's adapter, and whether each API accepts what a stopped loop
leaves.
"""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest
from test_loop import EVENTS, QUESTION, Scene

import swink
import swink_core
from swink_judge import Judge, asked_of
from swink_recorder.recording import Recording
from swink_recorder.replay import ReplayServer
from swink_testing.conformance import Subject
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

HOST = swink_core.Host()
"""The installed providers, read once for all clients of these tests."""

EVERY = [Subject.find(name) for name in HOST.provider_names()]
UNRECORDED = {"proxy"}
"""Of whose wire format no recording calls tools."""
BY_HTTP = [subject for subject in EVERY if subject.speaks_http]
JUDGE = Judge()


def refusals(provider: str, url: str, body: bytes) -> list[str]:
    asked = asked_of(provider, url, body)
    if asked is None:
        return []
    found = JUDGE.refusals(asked.provider, asked.api, asked.model, asked.body)
    return [f"{rule}" for rule in found if rule.refuses]


# -- conversations that a stopped run leaves -----------------------------------------------------


async def left_behind() -> list[swink.Conversation]:
    """Return the distinct conversations of runs stopped after each of their events."""
    found: list[swink.Conversation] = []
    async with swink.Client() as client:
        for number in range(1, EVENTS + 1):
            scene = Scene(client)
            await scene.read(number)
            await scene.run.aclose()
            said = scene.run.conversation
            for conversation in (said, [*said, swink.UserMessage("Go on.")]):
                if conversation[-1].role != "assistant" and conversation not in found:
                    found.append(conversation)
    return found


@pytest.fixture(scope="module")
def conversations() -> list[swink.Conversation]:
    return asyncio.run(left_behind())


def test_a_run_can_be_left_in_many_states(conversations: list[swink.Conversation]) -> None:
    assert len(conversations) >= 8


OTHER_APIS: list[tuple[str, str, dict[str, Any]]] = [
    ("azure", "azure/my-deployment", {"api": "responses"}),
    ("bedrock", "bedrock/openai.gpt-oss-120b-1:0", {}),
    ("openai", "openai/gpt-4o", {"api": "chat"}),
    ("openrouter", "openrouter/openai/gpt-5.4", {"api": "responses"}),
    ("vertex", "vertex/claude-opus-5-5", {}),
    ("xai", "xai/grok-4.7", {"api": "responses"}),
]
"""A provider, a model and settings, for APIs other than that of the provider's first model."""


@pytest.mark.parametrize(
    ("subject", "model", "settings"),
    [(each, each.model, {}) for each in BY_HTTP]
    + [(Subject.find(name), *rest) for name, *rest in OTHER_APIS],
    ids=lambda value: str(getattr(value, "name", value or "")),
)
async def test_every_api_accepts_the_conversation_of_a_stopped_run(
    subject: Subject,
    model: Any,
    settings: dict[str, Any],
    conversations: list[swink.Conversation],
) -> None:
    http = MemoryHTTPClient(*(MemoryResponse(status=400) for _ in conversations))
    tools = [swink.tool(each).definition for each in (Scene.a, Scene.b, Scene.c)]
    for tool in tools:
        tool.parameters = {"type": "object", "properties": {}, "additionalProperties": False}
    with subject.environment():
        client = subject.client(http)
        for conversation in conversations:
            asked = subject.call_options(settings=settings)
            stream = client.stream(model, conversation, tools=tools, retry=False, **asked)
            async for event in stream:
                if isinstance(event, swink.Error):
                    assert event.error_kind in ("invalid_request", "unsupported"), event
    assert len(http.requests) == len(conversations)
    found = [refusals(subject.name, request.url, request.body) for request in http.requests]
    assert found == [[]] * len(found)


def test_the_judge_knows_most_of_the_apis() -> None:
    named = {subject.name for subject in BY_HTTP} & JUDGE.providers
    assert len(named) >= 24
    assert {name for name, *_ in OTHER_APIS} <= named


# -- recordings ----------------------------------------------------------------------------------


def tool_of(name: str, calls: list[swink.ToolCallBlock]) -> swink.FunctionTool[..., Any]:
    """Return the tool of a name that recorded calls fit."""

    def carried_out(**given: Any) -> str:
        return f"{name} is done"

    one = inspect.Parameter
    names = dict.fromkeys(key for call in calls if call.name == name for key in call.arguments)
    carried_out.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # as inspect reads
        [one(key, one.KEYWORD_ONLY, default=None) for key in names]
    )
    return swink.tool(name=name)(carried_out)


def heard_by(subject: Subject) -> list[Recording]:
    """Return recordings of answers that a provider can read: its own, then others'."""
    own = subject.answers()
    formats = {each.wire_format for each in own}
    others = (each for one in BY_HTTP for each in one.answers() if each.wire_format in formats)
    return [*own, *others]


def with_tools(subject: Subject) -> list[Recording]:
    """Return recordings of answers that call tools: all of a provider's own, or one of others'."""
    own = [each for each in subject.answers() if _calls_tools(each)]
    return own or [each for each in heard_by(subject) if _calls_tools(each)][:1]


def _calls_tools(recording: Recording) -> bool:
    message = recording.message
    return message is not None and message.stop_reason is swink.StopReason.TOOL_USE


def final_of(subject: Subject, before: Recording) -> Recording | None:
    """Return a recording of an answer that is one text, in the same wire format."""
    for each in subject.answers():
        assert each.message is not None
        if [type(b) for b in each.message.content] == [swink.TextBlock] and (
            each.wire_format == before.wire_format
        ):
            return each
    return None


RECORDED = [
    (subject, recording, final_of(subject, recording))
    for subject in BY_HTTP
    for recording in with_tools(subject)
]


def test_app_on_every_provider_that_has_tools_is_among_them() -> None:
    names = {subject.name for subject in BY_HTTP} - UNRECORDED
    assert {subject.name for subject, _, _ in RECORDED} == names


@pytest.mark.parametrize("chained", [False, True], ids=["alone", "behind-a-failure"])
@pytest.mark.parametrize(
    ("subject", "recording", "final"), RECORDED, ids=lambda value: getattr(value, "name", "")
)
async def test_a_run_over_a_recording_carries_out_its_calls(
    subject: Subject, recording: Recording, final: Recording | None, chained: bool
) -> None:
    assert recording.message is not None
    calls = recording.message.tool_calls
    tools = [tool_of(name, calls) for name in dict.fromkeys(call.name for call in calls)]
    with subject.environment():
        async with ReplayServer() as server, swink.Client(host=HOST, breaker=False) as client:
            address = server.add("it", recording, *([final] if final else []))
            there: Any = subject.call_options(base_url=address)
            model = subject.model_of(recording)
            chain: Any = [*(["echo/fail-overloaded"] if chained else []), (model, there)]
            run = client.run(
                chain, [QUESTION], tools=tools, max_turns=2 if final else 1, retry=False
            )
            retries = [event async for event in run if isinstance(event, swink.Retry)]
            results = [m for m in run.conversation if isinstance(m, swink.ToolResultMessage)]
            assert [(m.tool_name, m.is_error) for m in results] == [
                (call.name, final is None) for call in calls
            ]
            if final:
                assert run.outcome == "done", run.message
                assert run.message.text == final.message.text  # type: ignore[union-attr]
            assert len(retries) == run.turns * chained
            assert len(server.exchanges) == run.turns
            for exchange in server.exchanges:
                assert refusals(subject.name, server.url + exchange.path, exchange.body) == []


async def test_a_call_of_an_unknown_tool_is_reported_to_the_model() -> None:
    subject, recording, final = RECORDED[0]
    assert final is not None
    with subject.environment():
        async with ReplayServer() as server, swink.Client(host=HOST) as client:
            there: Any = subject.call_options(base_url=server.add("it", recording, final))
            model = subject.model_of(recording)
            run = client.run(model, [QUESTION], tools=[tool_of("other", [])], **there)
            await run.result()
    results = [m for m in run.conversation if isinstance(m, swink.ToolResultMessage)]
    assert results
    for result in results:
        assert result.is_error
        assert result.content == f"There is no tool {result.tool_name!r}. There are: other."
