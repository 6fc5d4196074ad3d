"""Answers in Ollama's API, read by swink's parser."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import Phase, given, settings
from made import TEXT, events
from turned import last_attempt, read_by, whole, written

import swink_core as swink
from swink_core import StopReason, StreamErrorKind, Usage
from swink_core.providers import arguments_object
from swink_gateway.protocols.ollama.protocol import OllamaGenerateProtocol, OllamaProtocol
from swink_test_helpers.event_strategies import event_streams
from swink_testing.driver import fold

OLLAMA = OllamaProtocol()


def lines(pieces: list[bytes]) -> list[Any]:
    return [msgspec.json.decode(line) for line in b"".join(pieces).splitlines()]


def test_lines_of_an_answer() -> None:
    usage = Usage(10, 5, reported=True, extra={"eval_duration": 7, "other": 1})
    answer = [
        swink.Start(),
        *TEXT,
        swink.ToolCallStart(1, "c1", "f"),
        swink.ToolCallDelta(1, '{"a":1}'),
        swink.ToolCallEnd(1),
        swink.Done(StopReason.TOOL_USE, usage, swink.Cost(total=0.5)),
    ]
    head = {"model": "large", "created_at": "2023-11-14T22:13:20Z"}
    call = {"id": "c1", "function": {"index": 0, "name": "f", "arguments": {"a": 1}}}
    assistant = {"role": "assistant", "content": ""}
    assert lines(written(OLLAMA, [answer])) == [
        {**head, "message": {"role": "assistant", "content": "Hel"}, "done": False},
        {**head, "message": {"role": "assistant", "content": "lo"}, "done": False},
        {**head, "message": {**assistant, "tool_calls": [call]}, "done": False},
        {
            **head,
            "message": assistant,
            "done": True,
            "done_reason": "stop",
            "eval_duration": 7,
            "prompt_eval_count": 10,
            "eval_count": 5,
            "cost": 0.5,
        },
    ]


def test_a_completion_is_not_wrapped_in_a_message() -> None:
    answer = [swink.Start(), *TEXT, swink.Done(StopReason.STOP)]
    found = lines(written(OllamaGenerateProtocol(), [answer]))
    assert [line["response"] for line in found] == ["Hel", "lo", ""]
    assert found[-1]["done_reason"] == "stop"


CHANCES = [{"token": word, "logprob": -0.5} for word in ("Hm", "Hel", "lo", "{")]


@pytest.mark.parametrize("own", [{"acme": "ollama-chat"}, {}], ids=["Ollama's", "another's"])
@pytest.mark.parametrize("protocol", [OLLAMA, OllamaGenerateProtocol()])
def test_log_probabilities_of_ollama_are_passed_on(
    protocol: OllamaProtocol, own: dict[str, str]
) -> None:
    thought, text, rest = ({"logprobs": part} for part in (CHANCES[:1], CHANCES[1:3], CHANCES[3:]))
    answer = events(
        swink.ThinkingStart(0), swink.ThinkingDelta(0, "Hm"),
        swink.ThinkingEnd(0, metadata=thought),
        swink.TextStart(1), swink.TextDelta(1, "Hello"), swink.TextEnd(1, text),
        metadata=rest,
    )  # fmt: skip
    found = lines(written(protocol, [[event] for event in answer], wire_formats=own))
    expected = CHANCES if own else []
    assert [one for line in found for one in line.get("logprobs", ())] == expected
    body = msgspec.json.decode(whole(protocol, fold(answer, "acme"), own))
    assert body.get("logprobs", []) == expected


@pytest.mark.parametrize("at", range(1, 6))
def test_a_failure_after_any_event_is_one_line_and_the_last(at: int) -> None:
    failed = swink.Error(error_message="gone", error_kind=StreamErrorKind.NETWORK)
    found = lines(written(OLLAMA, [[e] for e in [*[swink.Start(), *TEXT][:at], failed]]))
    assert found[-1] == {"error": "gone"}
    assert not any(line["done"] for line in found[:-1])


@pytest.mark.parametrize("arguments", ["", '{"path": "/tm', '{"path": "/tmp"}'])
def test_a_call_that_a_failure_cut_off_is_not_sent(arguments: str) -> None:
    failed = swink.Error(error_message="gone", error_kind=StreamErrorKind.NETWORK)
    begun = [swink.ToolCallStart(0, "c1", "f"), swink.ToolCallDelta(0, arguments)]
    pieces = written(OLLAMA, [[swink.Start(), *begun], [swink.ToolCallEnd(0), failed]])
    assert lines(pieces) == [{"error": "gone"}]


@settings(phases=[Phase.explicit, Phase.generate], max_examples=40)
@given(event_streams())
def test_swinks_parser_reads_single_and_batched_events(stream: list[Any]) -> None:
    stream = last_attempt(stream)
    original = fold(stream)
    for batches in ([[event] for event in stream], [stream]):
        message, terminal = read_by("ollama", written(OLLAMA, batches))
        assert message.text == "".join(e.delta for e in stream if isinstance(e, swink.TextDelta))
        thought = "".join(e.delta for e in stream if isinstance(e, swink.ThinkingDelta))
        assert message.thinking == thought
        if isinstance(stream[-1], swink.Error):
            assert isinstance(terminal, swink.Error)
        elif isinstance(terminal, swink.Done):
            # in a truncated answer, a call without arguments may be complete or not
            cut = original.stop_reason is StopReason.LENGTH
            sure = [c for c in original.tool_calls if (c.raw_arguments or "").strip() or not cut]
            found = [(c.id, c.name, c.arguments) for c in message.tool_calls]
            assert all((c.id, c.name, arguments_object(c)) in found for c in sure)
            assert len(found) == len(original.tool_calls)
