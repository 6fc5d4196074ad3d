"""Results whose types a type checker should infer; checked, never run."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, assert_never, assert_type

import attrs
import msgspec
from pydantic import BaseModel

import swink


class Bird(BaseModel):
    name: str


@dataclass
class Cat:
    name: str


@attrs.define
class Dog:
    name: str


class Fish(msgspec.Struct):
    name: str


async def typed_answers(client: swink.Client) -> None:
    assert_type((await client.answer("a/b", "Hi", type=Bird)).parsed, Bird)
    assert_type((await client.answer("a/b", "Hi", type=Cat)).parsed, Cat)
    assert_type((await client.answer("a/b", "Hi", type=Dog)).parsed, Dog)
    assert_type((await client.answer("a/b", "Hi", type=Fish)).parsed, Fish)
    assert_type((await client.answer("a/b", "Hi", type=Cat | Dog)).parsed, Cat | Dog)
    assert_type((await client.answer("a/b", "Hi", type=list[Cat])).parsed, list[Cat])
    assert_type((await swink.answer("a/b", "Hi", type=int | None)).parsed, int | None)
    assert_type(await client.complete("a/b", "Hi"), swink.AssistantMessage)
    assert_type(client.stream("a/b", "Hi"), swink.EventStream)
    assert_type(client.stream_answer("a/b", "Hi", type=Cat), swink.AnswerStream[Cat])
    batch = await client.gather_answers("a/b", ["Hi"], type=Cat)
    assert_type(batch, swink.Batch[swink.Answer[Cat]])
    for result in batch:
        if result is not None and not isinstance(result, swink.SwinkError):
            assert_type(result.parsed, Cat)
    async for piece in client.stream("a/b", "Hi").text:
        assert_type(piece, str)


def without_await(client: swink.SyncClient) -> None:
    assert_type(client.answer("a/b", "Hi", type=Cat).parsed, Cat)
    assert_type(client.complete("a/b", "Hi"), swink.AssistantMessage)
    assert_type(client.stream_answer("a/b", "Hi", type=Cat).result().parsed, Cat)
    assert_type(client.stream("a/b", "Hi").text, Iterator[str])
    assert_type(swink.answer_sync("a/b", "Hi", type=Cat | Dog).parsed, Cat | Dog)


@swink.tool
def add(a: int, b: int = 2) -> int:
    """Add."""
    return a + b


@swink.tool(timeout=5)
async def wait(seconds: float) -> None:
    """Wait."""


def tools_and_data(client: swink.Client, data: Any) -> None:
    assert_type(add(1), int)
    client.run("a/b", "Hi", tools=[add, wait, len], max_turns=3, approve=lambda call: True)
    assert_type(swink.load(swink.AssistantMessage, data), swink.AssistantMessage)
    assert_type(swink.load(list[swink.Message], data), list[swink.Message])
    message = swink.load(swink.Message, data)
    assert_type(message.role, str)


def conversations(client: swink.Client) -> None:
    said: swink.Conversation = [swink.UserMessage("Hi")]
    said.append(swink.AssistantMessage("Hello."))
    chain: swink.ModelChain = ["a/b", ("c/d", {"temperature": 0.2, "api_key": "k"})]
    client.stream(chain, said, timeout=30, retry=False, thinking="high", stop="END")
    client.stream("a/b", [{"role": "user", "content": "Hi"}, *said], tools=[add.definition])


async def every_event_of_a_run(run: swink.Run) -> None:
    async for event in run:
        match event:
            case swink.RunStart() | swink.TurnStart() | swink.TurnEnd() | swink.RunEnd():
                assert_type(event.run_id, str)
            case swink.ToolStart(tool_call=call) | swink.ToolEnd(tool_call=call):
                assert_type(call, swink.ToolCallBlock)
            case swink.TextDelta() | swink.ThinkingDelta() | swink.ToolCallDelta():
                assert_type(event.delta, str)
            case swink.Start() | swink.Retry() | swink.Notice() | swink.Extension():
                pass
            case swink.TextStart() | swink.ThinkingStart() | swink.ToolCallStart():
                pass
            case swink.TextEnd() | swink.ThinkingEnd() | swink.ToolCallEnd():
                pass
            case swink.Done() | swink.Error():
                pass
            case _:
                assert_never(event)


def every_end_of_a_run(run: swink.Run | swink.SyncRun, end: swink.RunEnd) -> swink.Outcome:
    assert_type(run.outcome, swink.Outcome | None)
    match end.outcome:
        case "done" | "max_turns" | "paused":
            pass
        case "error" | "aborted":
            pass
        case _:
            assert_never(end.outcome)
    return run.outcome or end.outcome


async def runs_with_and_without_a_type(client: swink.Client, sync: swink.SyncClient) -> None:
    run = client.run("acme/large", ["Look", swink.image(b"")], tools=[])
    assert_type(await run.result(), swink.AssistantMessage)
    typed = client.run("acme/large", swink.UserMessage("Hi"), tools=[], type=list[int] | str)
    assert_type(await typed.answer(), swink.Answer[list[int] | str])
    assert_type(sync.run("acme/large", "Hi", tools=[], type=int).answer(), swink.Answer[int])
    if (paused := run.paused) is not None:
        paused.approve(paused.pending[0], arguments={"a": 1})
        client.run("acme/large", paused, tools=[], approve=lambda call: swink.PAUSE)
