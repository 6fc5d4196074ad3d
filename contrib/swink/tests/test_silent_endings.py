"""An agent may end without words: after tool results, an empty completed turn is an answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from attrs import define

import swink
from swink_core import (
    AssistantMessage,
    EmptyResponse,
    Message,
    StopReason,
    SystemMessage,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from swink_recorder.loopback import Exchange, LoopbackServer

ASKED: list[Message] = [
    UserMessage("Deploy it."),
    AssistantMessage([ToolCallBlock("c1", "deploy", {}, "{}")], stop_reason=StopReason.TOOL_USE),
    ToolResultMessage("c1", "deploy", "done"),
]


class Scripted(LoopbackServer):
    """Gives one body after another; the last one stays."""

    def __init__(self, bodies: Sequence[bytes], content_type: str = "text/event-stream") -> None:
        super().__init__()
        self.bodies, self.content_type = list(bodies), content_type
        self.requests: list[Any] = []

    async def respond(self, exchange: Exchange) -> None:
        self.requests.append(exchange.json)
        body = self.bodies.pop(0) if len(self.bodies) > 1 else self.bodies[0]
        await exchange.start(200, {"Content-Type": self.content_type})
        await exchange.write(body)
        await exchange.end()


def _events(*events: dict[str, Any]) -> bytes:
    return b"".join(f"data: {json.dumps(event)}\n\n".encode() for event in events)


def _claude(*blocks: dict[str, Any], stop: str = "end_turn") -> bytes:
    """Return a streamed answer of Anthropic's Messages API."""
    usage = {"input_tokens": 3, "output_tokens": 2}
    start = {"id": "m", "type": "message", "role": "assistant", "model": "c", "content": []}
    middle: list[dict[str, Any]] = []
    for at, block in enumerate(blocks):
        middle.append({"type": "content_block_start", "index": at, "content_block": block})
        middle.append({"type": "content_block_stop", "index": at})
    return _events(
        {"type": "message_start", "message": {**start, "usage": usage}},
        *middle,
        {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": usage},
        {"type": "message_stop"},
    )


def _choice(**fields: Any) -> dict[str, Any]:
    return {"id": "a", "model": "m", "choices": [{"index": 0, **fields}]}


CALL = {"type": "tool_use", "id": "t1", "name": "notify", "input": {}}
THOUGHT = {"type": "thinking", "thinking": "All done.", "signature": "c2ln"}


@define
class Silent:
    """An answer without a block, as an API gives it."""

    model: str
    body: bytes
    transport: str = "auto"
    content_type: str = "text/event-stream"


JSON = "application/json"
SILENT = {
    "messages": Silent("anthropic/claude-haiku-4-5", _claude()),
    "messages whole": Silent(
        "anthropic/claude-haiku-4-5",
        b'{"id":"m","type":"message","role":"assistant","model":"c","content":[],'
        b'"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":2}}',
        "buffered",
        JSON,
    ),
    "chat": Silent(
        "groq/llama-3.3-70b-versatile",
        _events(_choice(delta={"role": "assistant", "content": ""}, finish_reason="stop"))
        + b"data: [DONE]\n\n",
    ),
    "chat whole": Silent(
        "groq/llama-3.3-70b-versatile",
        json.dumps(_choice(message={"content": None}, finish_reason="stop")).encode(),
        "buffered",
        JSON,
    ),
    "gemini": Silent(
        "gemini/gemini-3.8-flash",
        _events({"candidates": [{"content": {"role": "model"}, "finishReason": "STOP"}]}),
    ),
    "ollama": Silent(
        "ollama/llama3.2",
        b'{"model":"m","message":{"role":"assistant","content":""},"done":true,'
        b'"done_reason":"stop"}\n',
        content_type="application/x-ndjson",
    ),
}


def _client(server: LoopbackServer, provider: str) -> swink.Client:
    own = {"base_url": server.url, "api_key": "test"}
    return swink.Client(providers={provider: own}, retry=swink.RetryPolicy.none())


@pytest.mark.parametrize("case", SILENT.values(), ids=SILENT)
async def test_an_empty_turn_after_tool_results_is_an_answer(case: Silent) -> None:
    provider = case.model.partition("/")[0]
    options: Any = {"transport": case.transport, "rules": False}
    async with Scripted([case.body], case.content_type) as server, _client(server, provider) as c:
        async with c.stream(case.model, ASKED, **options) as stream:
            events = [event async for event in stream]
            collected = await stream.result()
        message = await c.complete(case.model, ASKED, **options)

    assert isinstance(events[-1], swink.Done)
    assert events[-1].stop_reason is StopReason.STOP
    for each in (collected, message):
        assert (each.content, each.stop_reason) == ([], StopReason.STOP)
    assert [message.error_kind, collected.error_kind] == [None, None]


@pytest.mark.parametrize("case", SILENT.values(), ids=SILENT)
async def test_an_empty_turn_in_answer_to_a_user_is_an_error(case: Silent) -> None:
    provider = case.model.partition("/")[0]
    said = [*ASKED, AssistantMessage([TextBlock("Deployed.")]), UserMessage("And then?")]
    options: Any = {"transport": case.transport, "rules": False}
    async with Scripted([case.body], case.content_type) as server, _client(server, provider) as c:
        for conversation in ("Hello", said):
            with pytest.raises(EmptyResponse):
                await c.complete(case.model, conversation, **options)


CLAUDE = "anthropic/claude-opus-4-8"


async def test_a_run_ends_when_the_model_says_nothing_after_its_tools() -> None:
    told: list[str] = []

    def notify() -> str:
        """Send a notification."""
        told.append("sent")
        return "sent"

    bodies = [_claude(CALL, stop="tool_use"), _claude()]
    async with (
        Scripted(bodies) as server,
        _client(server, "anthropic") as client,
        client.run(CLAUDE, "Tell them.", tools=[notify]) as run,
    ):
        last = await run.result()

    assert (told, len(server.requests)) == (["sent"], 2)
    assert (run.outcome, last.content, last.error_kind) == ("done", [], None)
    roles = [message.role for message in run.conversation]
    assert roles == ["user", "assistant", "tool_result", "assistant"]


async def test_a_run_with_an_empty_answer_continues_with_a_typed_answer() -> None:
    bodies = [_claude(CALL, stop="tool_use"), _claude(), _claude({"type": "text", "text": "7"})]

    def notify() -> str:
        """Send a notification."""
        return "sent"

    async with Scripted(bodies) as server, _client(server, "anthropic") as client:
        async with client.run(CLAUDE, "Tell them.", tools=[notify]) as run:
            await run.result()
        said = [*run.conversation, UserMessage("How many?")]
        answer = await client.complete(CLAUDE, said)

    assert answer.text == "7"
    roles = [message["role"] for message in server.requests[-1]["messages"]]
    assert roles == ["user", "assistant", "user"]  # the silent turn has no place in the request


async def test_an_empty_typed_answer_after_tool_results_is_requested_again() -> None:
    whole = _claude({"type": "text", "text": '{"value": 7}'})
    async with Scripted([_claude(), whole]) as server, _client(server, "anthropic") as client:
        answer = await client.answer(CLAUDE, ASKED, type=int)

    assert (answer.parsed, len(server.requests)) == (7, 2)


async def test_thinking_without_words_ends_an_agent_too() -> None:
    async with Scripted([_claude(THOUGHT)]) as server, _client(server, "anthropic") as client:
        message = await client.complete(CLAUDE, ASKED)
        with pytest.raises(EmptyResponse):
            await client.complete(CLAUDE, "Hello")

    assert (message.stop_reason, message.text) == (StopReason.STOP, "")


async def test_an_instruction_after_tool_results_is_not_what_a_user_says() -> None:
    said = [*ASKED, SystemMessage("Stop when it is done.")]
    async with Scripted([_claude()]) as server, _client(server, "anthropic") as client:
        message = await client.complete(CLAUDE, said)

    assert message.stop_reason is StopReason.STOP


async def test_a_turn_that_promises_a_tool_call_and_has_none_is_an_error() -> None:
    body = _claude(stop="tool_use")
    async with Scripted([body]) as server, _client(server, "anthropic") as client:
        with pytest.raises(EmptyResponse):
            await client.complete(CLAUDE, ASKED)
