"""Answers in Chat Completions, read by swink's parser and by OpenAI's SDK."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import Phase, given, settings
from made import CALLS, TEXT, events
from sdks import openai_client
from serving import Scripted, serving
from turned import Said, asked_for, last_attempt, read_by, whole, written

import swink_core as swink
from swink_core import StopReason, Usage, replace
from swink_gateway.protocols import Facts
from swink_gateway.protocols.chat.protocol import ChatProtocol, usage_data
from swink_test_helpers.event_strategies import event_streams
from swink_testing.driver import fold

CHAT = ChatProtocol()
ASK = {"model": "echo/echo", "messages": [{"role": "user", "content": "one two"}]}
USAGE = Usage(10, 5, cache_read=4, reasoning=2, total=15, reported=True)


def test_interleaved_calls_keep_their_own_arguments() -> None:
    answer = events(*CALLS, stop_reason=StopReason.TOOL_USE)
    message, _ = read_by("openai", written(CHAT, [answer]))
    assert [(c.id, c.name, c.arguments) for c in message.tool_calls] == [
        ("c1", "f", {"a": 1}),
        ("c2", "g", {"b": 2}),
    ]
    assert message.stop_reason is StopReason.TOOL_USE


def test_a_call_without_arguments_has_an_empty_object() -> None:
    answer = events(swink.ToolCallStart(0, "c1", "f"), swink.ToolCallEnd(0))
    body = b"".join(written(CHAT, [answer]))
    assert b'"arguments":"{}"' in body


def test_ids_model_and_usage_of_an_answer() -> None:
    cost = swink.Cost(total=0.25)
    answer = events(*TEXT, usage=USAGE, cost=cost, response_id="r1", model="large-1")
    frames = written(CHAT, [answer], usage=True)
    message, _ = read_by("openai", frames)
    assert (message.response_id, message.model, message.text) == ("r1", "large-1", "Hello")
    assert _counted(message.usage) == USAGE
    assert b'"cost":0.25' in b"".join(frames)
    assert b'"usage"' not in b"".join(written(CHAT, [answer]))  # not requested


def test_counts_that_only_this_api_has() -> None:
    own = {"completion_tokens_details.rejected_prediction_tokens": 3}
    usage = replace(USAGE, extra={"input_audio": 1, "output_audio": 2, **own, "other": 4})
    counted = usage_data(usage, None)
    assert counted["prompt_tokens_details"] == {"cached_tokens": 4, "audio_tokens": 1}
    assert counted["completion_tokens_details"] == {
        "reasoning_tokens": 2,
        "audio_tokens": 2,
        "rejected_prediction_tokens": 3,
    }


def test_generated_audio_has_a_field() -> None:
    sound = {"id": "audio_1", "data": "AAAA", "expires_at": 1_800_000_000}
    spoken = events(*TEXT, swink.Extension(1, "acme", "audio", sound))
    own = {"acme": "openai-chat"}
    message, _ = read_by("openai", written(CHAT, [spoken], wire_formats=own))
    block = swink.ExtensionBlock("openai", "audio", sound)
    assert message.content == [swink.TextBlock("Hello"), block]
    body = msgspec.json.decode(whole(CHAT, fold(spoken, "acme"), own))
    asked = CHAT.read({**ASK, "messages": [body["choices"][0]["message"]]}, {}, {})
    (answer,) = asked.context.messages
    assert answer.content == [swink.TextBlock("Hello"), replace(block, provider="openai-chat")]
    assert b"audio_1" not in b"".join(written(CHAT, [spoken]))  # from an API without such a field


def test_a_failure_is_one_error_frame_and_the_end_marker() -> None:
    failed = swink.Error(
        error_message="full", error_kind=swink.StreamErrorKind.OVERLOADED, retry_after=3
    )
    out = b"".join(written(CHAT, [[swink.Start(), *TEXT, failed]]))
    assert out.count(b'"error"') == 1
    assert out.endswith(b"data: [DONE]\n\n")
    assert b'finish_reason":"' not in out
    assert b'"retry_after":3' in out


def test_a_restart_after_output_is_a_failure() -> None:
    again = swink.Retry(2, 3, 0.5, "dropped", "acme/large")
    protocol = CHAT.encoder(asked_for(), Facts("1", 1))
    out = protocol.feed(
        [swink.Start(), *TEXT, again, swink.Start()], Said(swink.Model("acme", "large"))
    )
    assert protocol.ended
    assert out.count(b"dropped") == 1


def test_a_restart_before_output_is_invisible() -> None:
    again = swink.Retry(2, 3, 0.5, "dropped", "acme/large")
    message, _ = read_by("openai", written(CHAT, [[swink.Start(), again, *events(*TEXT)]]))
    assert message.text == "Hello"


@settings(max_examples=40, phases=[Phase.generate])
@given(event_streams())
def test_only_declared_losses_occur(events: list[Any]) -> None:
    events = last_attempt(events)
    original = fold(events)
    frames = written(CHAT, [[event] for event in events], usage=True)
    message, terminal = read_by("openai", frames)
    if isinstance(events[-1], swink.Error):
        assert isinstance(terminal, swink.Error)
    assert message.text == "".join(e.delta for e in events if isinstance(e, swink.TextDelta))
    thought = "".join(e.delta for e in events if isinstance(e, swink.ThinkingDelta))
    assert message.thinking == thought
    assert _calls(message) == _calls(original)
    if isinstance(terminal, swink.Done):
        assert message.model == (original.model or "large")
        assert _counted(message.usage) == _counted(original.usage)
        reason = {"pause": "stop"}.get(str(original.stop_reason), original.stop_reason)
        if reason == "stop" and original.tool_calls:
            reason = "tool_use"  # calls override the finish reason in swink's parser
        assert message.stop_reason == reason


def _counted(usage: Usage | None) -> Usage | None:
    """Return the counts that have a field in the protocol."""
    if usage is None:
        return None
    counts = replace(usage, extra={}, reported=True).added_up()
    return None if counts == Usage(reported=True) else counts


def _calls(message: swink.AssistantMessage) -> list[Any]:
    return [(c.id, c.name, c.raw_arguments or "{}") for c in message.tool_calls]


@settings(max_examples=40, phases=[Phase.generate])
@given(event_streams())
def test_a_complete_answer_equals_a_streamed_one(events: list[Any]) -> None:
    original = fold(last_attempt(events))
    if original.stop_reason in ("error", "aborted"):
        return
    body = msgspec.json.decode(whole(CHAT, original))
    said = body["choices"][0]["message"]
    assert (said["content"] or "") == original.text
    assert said.get("reasoning_content", "") == original.thinking
    assert [c["id"] for c in said.get("tool_calls", [])] == [c.id for c in original.tool_calls]


# -- OpenAI's SDK ----------------------------------------------------------------------------------


async def test_the_sdk_and_its_helper_read_a_stream() -> None:
    upstream = Scripted(events(*CALLS, stop_reason=StopReason.TOOL_USE, usage=USAGE, model="m1"))
    async with serving(upstream) as gateway, openai_client(gateway.url) as client:
        counted = {"stream_options": {"include_usage": True}}
        async with client.chat.completions.stream(**ASK, **counted) as stream:
            kinds = [event.type async for event in stream]
            final = await stream.get_final_completion()
        whole = await client.chat.completions.create(**ASK)
    assert "tool_calls.function.arguments.done" in kinds
    for completion in (final, whole):
        choice = completion.choices[0]
        assert choice.finish_reason == "tool_calls"
        calls = choice.message.tool_calls
        assert [(c.id, c.function.name, c.function.arguments) for c in calls] == [
            ("c1", "f", '{"a":1}'),
            ("c2", "g", '{"b":2}'),
        ]
        assert completion.model == "m1"
        assert completion.usage.prompt_tokens_details.cached_tokens == 4
        assert completion.usage.total_tokens == 15


async def test_the_sdk_lists_models() -> None:
    async with serving() as gateway, openai_client(gateway.url) as client:
        assert "echo/echo" in [model.id async for model in client.models.list()]
