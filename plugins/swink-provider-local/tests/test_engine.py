"""Both wire formats against a server that is not ours: llama.cpp's, with a tiny model.

The model's output is known (see `make_tiny_gguf.py`), and one slot serves all calls, so a test that
leaves it busy would block the next one. The tests fail if the engine does not start.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from attrs import define
from llama_server import ANSWER_TOKENS, SCHEMA, WEATHER, Engine, running_engine
from make_tiny_gguf import ANSWER, CONTEXT, REASONED_ANSWER, REASONING, write_model

from swink_core import (
    AssistantMessage,
    Client,
    Context,
    Done,
    Error,
    ProviderFailure,
    RetryPolicy,
    StopReason,
    StreamErrorKind,
    TextDelta,
    ToolResultMessage,
    UserMessage,
)
from swink_core.providers import is_synthetic_id

pytestmark = pytest.mark.usefixtures("engine_loads")

IDLE_SECONDS = 10
"""Far less than the endless answer would take, far more than a slot needs to stop."""


@define
class Wire:
    """A wire format: the provider that speaks it, and the path below which the engine does."""

    provider: str
    path: str

    def target(self, engine: Engine) -> dict[str, Any]:
        return {
            "model": f"{self.provider}/{engine.model}",
            "base_url": engine.url + self.path,
            "api_key": engine.key,
        }


OPENAI, ANTHROPIC = Wire("llamacpp", "/v1"), Wire("anthropic", "")


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with running_engine(tmp_path_factory.mktemp("engine")) as engine:
        yield engine


@pytest.fixture(params=[OPENAI, ANTHROPIC], ids=lambda wire: wire.provider)
def wire(request: pytest.FixtureRequest) -> Wire:
    found: Wire = request.param
    return found


def _client() -> Client:
    return Client(temperature=0, max_tokens=200, retry=RetryPolicy.none())


async def _answer(engine: Engine, wire: Wire, context: Any, **options: Any) -> AssistantMessage:
    async with _client() as client:
        return await client.complete(context=context, **wire.target(engine), **options)


async def _failure(engine: Engine, wire: Wire, context: Any, **options: Any) -> Error:
    asked = {**wire.target(engine), **options}
    async with _client() as client, client.stream(context=context, **asked) as stream:
        events = [event async for event in stream]
    assert isinstance(events[-1], Error)
    return events[-1]


async def test_text_arrives_as_it_was_written(engine: Engine, wire: Wire) -> None:
    asked = wire.target(engine)
    async with _client() as client, client.stream(context="Hello", **asked) as stream:
        events = [event async for event in stream]

    deltas = [event.delta for event in events if isinstance(event, TextDelta)]
    assert "".join(deltas) == ANSWER
    assert len(deltas) > 10  # a token each; the sign of four bytes in one
    assert isinstance(events[-1], Done)
    assert events[-1].stop_reason is StopReason.STOP


async def test_reasoning_is_a_block_of_its_own(engine: Engine, wire: Wire) -> None:
    message = await _answer(engine, wire, "THINK")

    assert [block.type for block in message.content] == ["thinking", "text"]
    assert (message.thinking, message.text) == (REASONING, REASONED_ANSWER)


async def test_a_tool_call_has_the_servers_id(engine: Engine, wire: Wire) -> None:
    message = await _answer(engine, wire, Context([UserMessage("TOOL")], tools=[WEATHER]))

    (call,) = message.tool_calls
    assert (call.name, call.arguments, call.state) == ("get_weather", {"city": "Paris"}, "complete")
    assert not is_synthetic_id(call.id)
    assert message.stop_reason is StopReason.TOOL_USE


async def test_a_tools_result_is_answered_on_either_wire(engine: Engine, wire: Wire) -> None:
    context = Context([UserMessage("TOOL")], tools=[WEATHER])
    asked = await _answer(engine, wire, context)
    result = ToolResultMessage(asked.tool_calls[0].id, "get_weather", "sunny")
    context.messages += [asked, result]

    for answering in (OPENAI, ANTHROPIC):
        assert (await _answer(engine, answering, context)).text == ANSWER


async def test_usage_counts_the_tokens_of_both_sides(engine: Engine, wire: Wire) -> None:
    first = await _answer(engine, wire, "Count this")
    again = await _answer(engine, wire, "Count this")

    assert first.usage is not None
    assert again.usage is not None
    assert first.usage.output == again.usage.output == ANSWER_TOKENS
    # what the server took from its cache the second time is still input
    assert first.usage.input == again.usage.input
    assert again.usage.cache_read


async def test_the_limit_of_tokens_is_said(engine: Engine, wire: Wire) -> None:
    message = await _answer(engine, wire, "Hello", max_tokens=3)

    assert message.stop_reason is StopReason.LENGTH
    assert message.text == "Hello from the"
    assert message.usage is not None
    assert message.usage.output == 3


async def test_a_stop_sequence_ends_the_answer(engine: Engine, wire: Wire) -> None:
    message = await _answer(engine, wire, "Hello", stop="tiny")

    assert message.stop_reason is StopReason.STOP
    assert message.text.rstrip() == "Hello from the"


async def test_structured_output_follows_the_schema(engine: Engine) -> None:
    # of the two, only this wire format of llama.cpp's has it
    message = await _answer(engine, OPENAI, "Hello", response_format=SCHEMA)

    data = json.loads(message.text)
    assert data.keys() == {"city", "days"}
    assert isinstance(data["city"], str)
    assert isinstance(data["days"], int)


async def test_a_whole_answer_is_the_streamed_one(engine: Engine, wire: Wire) -> None:
    streamed = await _answer(engine, wire, "THINK")
    whole = await _answer(engine, wire, "THINK", transport="buffered")

    assert (whole.thinking, whole.text) == (streamed.thinking, streamed.text)
    assert whole.stop_reason is streamed.stop_reason


async def test_leaving_in_the_middle_frees_the_slot(engine: Engine, wire: Wire) -> None:
    asked = {**wire.target(engine), "max_tokens": CONTEXT}
    async with _client() as client:
        async with client.stream(context="LONG", **asked) as stream:
            deltas = 0
            async for event in stream:
                deltas += isinstance(event, TextDelta)
                if deltas == 5:
                    break
            slot = await asyncio.to_thread(engine.slot)
            assert slot["is_processing"]  # text came while it computes
        await asyncio.to_thread(engine.wait_until_idle, IDLE_SECONDS)

        assert stream.message.stop_reason is StopReason.ABORTED
        assert stream.message.text.startswith("on further on")
        assert (await client.complete(context="Hello", **wire.target(engine))).text == ANSWER


async def test_an_engine_that_dies_in_the_middle_is_a_network_failure(
    tmp_path: Path, wire: Wire
) -> None:
    with ExitStack() as stack:
        engine = stack.enter_context(running_engine(tmp_path))
        asked = {**wire.target(engine), "max_tokens": CONTEXT}
        async with _client() as client, client.stream(context="LONG", **asked) as stream:
            async for event in stream:
                if isinstance(event, TextDelta):
                    await asyncio.to_thread(stack.close)

    assert stream.message.error_kind is StreamErrorKind.NETWORK
    assert stream.message.text.startswith("on")


async def test_a_wrong_key_is_refused(engine: Engine, wire: Wire) -> None:
    error = await _failure(engine, wire, "Hello", api_key="not-the-key")

    assert (error.error_kind, error.status) == (StreamErrorKind.AUTH, 401)
    assert "not-the-key" not in error.error_message


async def test_a_prompt_too_long_for_the_context_is_named_so(engine: Engine, wire: Wire) -> None:
    error = await _failure(engine, wire, "z" * (CONTEXT + 1))

    assert error.error_kind is StreamErrorKind.CONTEXT_WINDOW_EXCEEDED
    assert str(CONTEXT) in error.error_message


def test_the_engine_is_gone_when_its_context_is_left(tmp_path: Path) -> None:
    with running_engine(tmp_path) as engine:
        assert engine.get("/health") == {"status": "ok"}
    with pytest.raises(OSError, match="refused"):
        engine.get("/health")


def test_an_engine_that_does_not_start_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("llama_server.write_model", lambda path: path.write_bytes(b"no model"))
    with pytest.raises(ProviderFailure, match="could not be started"), running_engine(tmp_path):
        pass


def test_the_same_script_makes_the_same_model(tmp_path: Path) -> None:
    for name in ("one", "other"):
        write_model(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()
