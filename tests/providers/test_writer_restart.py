"""An answer that restarts in the same body: the earlier part is discarded, with an event."""

from __future__ import annotations

import pytest

from swink_core import AssistantMessageEvent, Retry, Start, StopReason, ToolCallBlock, Usage
from swink_core.providers import EventWriter
from swink_core.streaming.builder import MessageBuilder
from swink_core.vocabulary.grammar import Automaton


def _restarted() -> tuple[EventWriter, list[AssistantMessageEvent]]:
    out = EventWriter("acme", "7", "acme/large")
    out.response("first", "large-1", {"tier": "void"})
    out.usage(input=5, output=1)
    out.thinking("hm", signature="one")
    out.tool_call(0, id="a", name="look", arguments='{"at": ')
    out.restart("the answer begins anew")
    out.response("second", "large-2")
    out.tool_call(0, id="b", name="look", arguments='{"at": 2}')
    out.stop(StopReason.STOP)
    out.close()
    return out, [Start(), *out.take()]


def test_blocks_before_a_restart_are_closed_and_discarded() -> None:
    _, events = _restarted()
    builder = MessageBuilder("acme", "large")
    builder.feed(events)
    assert builder.message.content == [
        ToolCallBlock("b", "look", {"at": 2}, '{"at": 2}', "complete")
    ]


def test_a_restart_is_announced_as_a_retry_without_a_wait() -> None:
    _, events = _restarted()
    at = next(number for number, event in enumerate(events) if isinstance(event, Retry))
    assert events[at : at + 2] == [
        Retry(2, 2, 0.0, "the answer begins anew", "acme/large"),
        Start(),
    ]


def test_a_restarted_stream_keeps_to_the_grammar() -> None:
    automaton = Automaton()
    assert [broken for event in _restarted()[1] if (broken := automaton.step(event))] == []


@pytest.mark.parametrize(
    ("fact", "expected"),
    [("response_id", "second"), ("model", "large-2"), ("usage_seen", None), ("metadata", None)],
)
def test_facts_of_the_void_answer_are_forgotten(fact: str, expected: object) -> None:
    assert getattr(_restarted()[0], fact) == expected


def test_a_restart_before_any_tool_call_forgets_that_there_was_an_answer() -> None:
    out = EventWriter("acme", "7", "acme/large")
    out.tool_call(0, id="a", name="look", arguments="{}")
    out.restart("anew")
    out.stop(StopReason.STOP)
    assert (out.stop_reason, out.has_answer) == (StopReason.STOP, False)


def test_usage_of_a_discarded_answer_is_counted_separately() -> None:
    out, _ = _restarted()
    assert out.usage_seen is None
    out.usage(input=6, cost=0.5)
    out.restart("once more")
    out.usage(output=2)
    assert out.voided == [
        (Usage(input=5, output=1, total=6, reported=True), None),
        (Usage(input=6, reported=True), 0.5),
    ]
    assert (out.usage_seen, out.cost) == (Usage(output=2, reported=True), None)
