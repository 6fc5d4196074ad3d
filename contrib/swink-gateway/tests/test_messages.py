"""Answers in Anthropic's Messages, read by swink's parser and by Anthropic's SDK."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from hypothesis import Phase, given, settings
from made import CALLS, TEXT, events
from sdks import quick
from serving import Scripted, ask, serving
from turned import is_empty, last_attempt, read_by, whole, written

import swink_core as swink
from swink_core import StopReason, StreamErrorKind, Usage, replace
from swink_gateway.protocols.messages.protocol import MessagesProtocol
from swink_test_helpers.event_strategies import event_streams
from swink_testing.driver import fold

MESSAGES = MessagesProtocol()
ASK = {
    "model": "echo/echo",
    "max_tokens": 99,
    "messages": [{"role": "user", "content": "one two"}],
}
USAGE = Usage(10, 5, cache_read=4, cache_write=3, reasoning=2, total=15, reported=True)


def back(message: swink.AssistantMessage) -> swink.AssistantMessage:
    """Return a message as the client sends it back."""
    content = msgspec.json.decode(whole(MESSAGES, message))["content"]
    said = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": content}]
    asked = MESSAGES.read({"model": "m", "messages": said}, {}, {})
    answer = asked.context.messages[1]
    assert isinstance(answer, swink.AssistantMessage)
    return answer


def test_interleaved_calls_keep_their_own_arguments() -> None:
    answer = events(*CALLS, stop_reason=StopReason.TOOL_USE)
    message, _ = read_by("anthropic", written(MESSAGES, [answer]))
    assert [(c.id, c.name, c.arguments) for c in message.tool_calls] == [
        ("c1", "f", {"a": 1}),
        ("c2", "g", {"b": 2}),
    ]
    assert message.stop_reason is StopReason.TOOL_USE


def test_ids_model_and_usage_of_an_answer() -> None:
    cost = swink.Cost(total=0.1 + 0.2 - 0.05)
    apart = {"server_tool_use": {"web_search_requests": 2}}
    usage = replace(USAGE, extra={**apart, "searches": 2})
    answer = events(*TEXT, usage=usage, cost=cost, response_id="r1", model="large-1")
    frames = written(MESSAGES, [answer])
    message, _ = read_by("anthropic", frames)
    assert (message.response_id, message.model, message.text) == ("r1", "large-1", "Hello")
    assert message.usage is not None
    assert replace(message.usage, extra={}) == USAGE
    assert message.usage.extra["searches"] == 2
    assert b'"cost":0.25' in b"".join(frames)


def test_a_failure_is_one_error_event_and_nothing_after_it() -> None:
    failed = swink.Error(error_message="full", error_kind=StreamErrorKind.OVERLOADED)
    out = b"".join(written(MESSAGES, [[swink.Start(), *TEXT, failed]]))
    assert out.count(b"event: error") == 1
    assert b"message_stop" not in out
    assert out.endswith(b'"overloaded_error","message":"full"}}\n\n')


def test_a_vendors_own_signature_and_blocks_are_sent_unchanged() -> None:
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    answer = events(
        swink.ThinkingStart(0),
        swink.ThinkingDelta(0, "hm"),
        swink.ThinkingEnd(0, "c2ln"),
        swink.Extension(1, "claude", "server_tool_use", search),
        swink.TextStart(2),
        swink.TextDelta(2, "so"),
        swink.TextEnd(2, {"citations": [{"type": "page_location"}]}),
    )
    frames = written(
        MESSAGES, [answer], model="claude/large", wire_formats={"claude": "anthropic-messages"}
    )
    message, _ = read_by("anthropic", frames)
    assert message.content == [
        swink.ThinkingBlock("hm", "c2ln"),
        swink.ExtensionBlock("anthropic", "server_tool_use", search),
        swink.TextBlock("so", {"citations": [{"type": "page_location"}]}),
    ]


EDITED = {"applied_edits": [{"type": "clear_tool_uses_20250919", "cleared_tool_uses": 3}]}
CALLER = {"caller": {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}}


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_vendors_own_edits_and_caller_are_sent_unchanged(is_whole: bool) -> None:
    call = swink.ToolCallStart(0, "c1", "f"), swink.ToolCallDelta(0, "{}")
    answer = events(
        *call, swink.ToolCallEnd(0, CALLER), stop_reason=StopReason.TOOL_USE,
        metadata={"context_management": EDITED},
    )  # fmt: skip
    own = {"claude": "anthropic-messages"}
    if is_whole:
        end = msgspec.json.decode(whole(MESSAGES, fold(answer, "claude"), own))
        blocks = end["content"]
    else:
        pieces = b"".join(written(MESSAGES, [answer], model="claude/large", wire_formats=own))
        lines = [line[6:] for line in pieces.split(b"\n") if line.startswith(b"data: ")]
        frames = [msgspec.json.decode(line) for line in lines]
        (end,) = [frame for frame in frames if frame["type"] == "message_delta"]
        blocks = [frame["content_block"] for frame in frames if "content_block" in frame]
    assert blocks == [{"type": "tool_use", "id": "c1", "name": "f", "input": {}, **CALLER}]
    assert end["context_management"] == EDITED


@pytest.mark.parametrize("at_once", [True, False])
def test_a_vendors_own_caller_survives_the_client(at_once: bool) -> None:
    call = swink.ToolCallStart(0, "c1", "f"), swink.ToolCallDelta(0, "{}")
    answer = events(*call, swink.ToolCallEnd(0, CALLER), stop_reason=StopReason.TOOL_USE)
    own = {"claude": "anthropic-messages"}
    batches = [answer] if at_once else [[event] for event in answer]
    frames = written(MESSAGES, batches, model="claude/large", wire_formats=own)
    (block,) = _returned(frames).tool_calls
    assert block.metadata == CALLER


@pytest.mark.parametrize("words", ["", "hm"])
def test_a_vendors_own_signature_is_sealed_with_hidden_thinking(words: str) -> None:
    said = [swink.ThinkingDelta(0, words)] if words else []
    answer = events(swink.ThinkingStart(0), *said, swink.ThinkingEnd(0, "c2ln"))
    own = {"claude": "anthropic-messages"}
    frames = written(MESSAGES, [answer], model="claude/large", wire_formats=own, thoughts=False)
    assert (b'"signature":"c2ln"' in b"".join(frames)) is (not words)
    assert _returned(frames).content == [swink.ThinkingBlock(words, "c2ln")]


def test_another_providers_opaque_data_survives_the_client() -> None:
    given = swink.AssistantMessage(
        [
            swink.ThinkingBlock("hm", "sig", metadata={"item": {"id": "rs_1"}}),
            swink.ThinkingBlock("", "hidden", True),
            swink.ExtensionBlock("openai", "web_search_call", {"id": "ws_1"}),
            swink.TextBlock("aside", {"item": {"phase": "commentary"}}),
            swink.ToolCallBlock("c1", "f", {"a": 1}, '{"a":1}', metadata={"item": {"id": "fc_1"}}),
            swink.TextBlock("so"),
        ],
        provider="openai",
    )
    returned = back(given)
    assert returned.content == given.content
    assert returned.provider == "openai"


def test_the_last_text_is_the_last_block() -> None:
    notes = {"item": {"phase": "commentary"}}
    said = events(
        swink.TextStart(0), swink.TextDelta(0, "aside"), swink.TextEnd(0, notes),
        swink.TextStart(1), swink.TextDelta(1, "so"), swink.TextEnd(1, notes),
    )  # fmt: skip
    streamed = _returned(written(MESSAGES, [[event] for event in said]))
    for returned in (streamed, back(fold(said, "acme"))):
        assert returned.content == [swink.TextBlock("aside", notes), swink.TextBlock("so")]


@settings(max_examples=40, phases=[Phase.generate])
@given(event_streams())
def test_only_declared_losses_occur(events: list[Any]) -> None:
    events = last_attempt(events)
    for thoughts in (True, False):
        _holds_all(events, written(MESSAGES, [[event] for event in events], thoughts=thoughts))


def _holds_all(events: list[Any], frames: list[bytes]) -> None:
    original = fold(events, "acme")
    message, terminal = read_by("anthropic", frames)
    if isinstance(events[-1], swink.Error):
        assert isinstance(terminal, swink.Error)
        return
    # the client's message, built from the frames
    said = _returned(frames)
    expected = [b for b in original.content if not is_empty(b)]
    # the data of a text without words is sent if a block follows: the last block must be a text
    starts = (swink.TextStart, swink.ThinkingStart, swink.ToolCallStart, swink.Extension)
    last = max((n for n, event in enumerate(events) if isinstance(event, starts)), default=0)
    ends = [event for event in events[last:] if isinstance(event, swink.TextEnd)]
    wordless = [original.content[end.content_index] for end in ends]
    wordless = [b for b in wordless if isinstance(b, swink.TextBlock) and not b.text and b.metadata]
    without = [b for b in expected if not any(b is one for one in wordless)]
    expected = without if len(said.content) == len(without) else expected
    for thinks in (False, True):  # thinking begins with its first words, perhaps after other blocks
        ours, theirs = (
            [_plain(b) for b in content if isinstance(b, swink.ThinkingBlock) is thinks]
            for content in (expected, said.content)
        )
        if thinks:
            ours, theirs = sorted(ours, key=repr), sorted(theirs, key=repr)
        assert theirs == ours
    assert message.usage is not None
    assert original.model is None or message.model == original.model


def _returned(frames: list[bytes]) -> swink.AssistantMessage:
    """Fold the frames as a client does, without swink's parser."""
    blocks: dict[int, Any] = {}
    for line in b"".join(frames).split(b"\n"):
        if not line.startswith(b"data: "):
            continue
        event = msgspec.json.decode(line[6:])
        if event["type"] == "content_block_start":
            blocks[event["index"]] = {**event["content_block"], "partial": ""}
        elif event["type"] == "content_block_delta":
            delta, block = event["delta"], blocks[event["index"]]
            for name, field in [
                ("text", "text"),
                ("thinking", "thinking"),
                ("signature", "signature"),
                ("partial_json", "partial"),
            ]:
                block[field] = (
                    block.get(field, "") + delta.get(name, "")
                    if name in delta
                    else block.get(field, "")
                )
    content = []
    for block in blocks.values():
        if block["type"] == "tool_use":
            try:
                block["input"] = msgspec.json.decode(block["partial"] or "{}", type=dict)
            except msgspec.DecodeError:
                block["input"] = {}
        content.append(
            {n: v for n, v in block.items() if n != "partial" and v != ""}
            | ({"text": block["text"]} if block["type"] == "text" else {})
        )
    said = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": content}]
    answer = MESSAGES.read({"model": "m", "messages": said}, {}, {}).context.messages[1]
    assert isinstance(answer, swink.AssistantMessage)
    return answer


def _plain(block: Any) -> Any:
    """Return the parts of a block that have a field here or are sealed."""
    if isinstance(block, swink.TextBlock):
        return block.text
    if isinstance(block, swink.ThinkingBlock):
        hidden = block.redacted and bool(block.thinking)
        return block.thinking, block.signature, block.metadata or None, hidden
    if isinstance(block, swink.ToolCallBlock):
        return block.id, block.name, block.arguments, block.metadata or None
    return block


# -- Anthropic's SDK -------------------------------------------------------------------------------


@pytest.fixture
def anthropic() -> Any:
    return pytest.importorskip("anthropic", reason="Anthropic's SDK is not installed")


@asynccontextmanager
async def sdk(anthropic: Any, *plugins: Any) -> AsyncIterator[Any]:
    """Yield the SDK's client of a gateway."""
    async with (
        serving(*plugins) as gateway,
        anthropic.AsyncAnthropic(base_url=gateway.url, **quick(anthropic)) as client,
    ):
        yield client


@pytest.mark.parametrize("signature", ["sig", None])
@pytest.mark.parametrize("thinking", [None, "disabled", "omitted"])
async def test_hidden_thinking_returns_with_its_words(
    anthropic: Any, thinking: str | None, signature: str | None
) -> None:
    end = swink.ThinkingEnd(0, signature)
    call = [swink.ToolCallStart(1, "c1", "f"), swink.ToolCallDelta(1, "{}"), swink.ToolCallEnd(1)]
    said = [swink.ThinkingStart(0), swink.ThinkingDelta(0, "h"), swink.ThinkingDelta(0, "m"), end]
    upstream = Scripted(events(*said, *call, stop_reason=StopReason.TOOL_USE))
    asked: dict[str, Any] = {**ASK}
    if thinking is not None:
        is_omitted = thinking == "omitted"
        how = {"type": "adaptive", "display": thinking} if is_omitted else {"type": thinking}
        asked["thinking"] = how
    async with sdk(anthropic, upstream) as client:
        async with client.messages.stream(**asked) as stream:
            streamed = await stream.get_final_message()
        for message in (streamed, await client.messages.create(**asked)):
            thought, _ = message.content
            assert (thought.type, thought.thinking) == ("thinking", "")
            answer = [block.model_dump(exclude_none=True) for block in message.content]
            result = {"type": "tool_result", "tool_use_id": "c1", "content": "done"}
            turns = [*asked["messages"], {"role": "assistant", "content": answer}]
            turns.append({"role": "user", "content": [result]})
            await client.messages.create(**{**asked, "messages": turns})
            returned = upstream.context.messages[1]
            assert isinstance(returned, swink.AssistantMessage)
            assert returned.content[0] == swink.ThinkingBlock("hm", signature)


async def test_the_sdk_reads_a_streamed_and_a_complete_answer(anthropic: Any) -> None:
    thought = [swink.ThinkingStart(0), swink.ThinkingDelta(0, "hm"), swink.ThinkingEnd(0, "sig")]
    calls = [replace(e, content_index=e.content_index + 1) for e in CALLS]
    answer = events(
        *thought, *calls, stop_reason=StopReason.TOOL_USE, usage=USAGE, model="m1", response_id="r1"
    )
    asked = {**ASK, "thinking": {"type": "adaptive"}}
    async with sdk(anthropic, Scripted(answer)) as client:
        async with client.messages.stream(**asked) as stream:
            kinds = [event.type async for event in stream]
            final = await stream.get_final_message()
        whole = await client.messages.create(**asked)
        beta = await client.beta.messages.create(**asked, betas=["context-management-2025-06-27"])
    assert {"thinking", "signature", "input_json", "message_stop"} <= set(kinds)
    for message in (final, whole, beta):
        thinking, first, second = message.content
        assert (thinking.type, thinking.thinking) == ("thinking", "hm")
        assert (first.name, first.input) == ("f", {"a": 1})
        assert (second.name, second.input) == ("g", {"b": 2})
        assert (message.id, message.model, message.stop_reason) == ("r1", "m1", "tool_use")
        usage = message.usage
        assert (usage.input_tokens, usage.output_tokens) == (3, 5)
        assert (usage.cache_read_input_tokens, usage.cache_creation_input_tokens) == (4, 3)


async def test_token_counts_are_estimates(anthropic: Any) -> None:
    async with sdk(anthropic) as client:
        asked = {"model": "echo/echo", "messages": ASK["messages"]}
        counted = await client.messages.with_raw_response.count_tokens(**asked)
    assert (await counted.parse()).input_tokens > 0
    assert counted.headers["x-swink-estimated"] == "input_tokens"


async def test_the_sdk_lists_models(anthropic: Any) -> None:
    async with sdk(anthropic) as client:
        assert "echo/echo" in [model.id async for model in client.models.list()]


async def test_a_query_in_the_url_is_ignored() -> None:
    async with serving() as gateway:
        assert (await ask(gateway, "/v1/messages?beta=true", ASK)).status == 200
