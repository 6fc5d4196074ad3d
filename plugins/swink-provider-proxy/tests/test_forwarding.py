"""Events of a remote swink, passed on."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import swink_core as ev
from swink_core import StopReason, StreamErrorKind, Usage
from swink_core.providers import Automaton
from swink_provider_proxy.forwarding import ForwardingWriter
from swink_test_helpers.event_strategies import event_streams


@given(st.data())
def test_a_relayed_stream_is_the_same_stream(data: st.DataObject) -> None:
    events = data.draw(event_streams())
    out = ForwardingWriter("toy", "1", "toy/large")
    for event in events:
        out.forward(event)
    relayed = out.take()
    started = next(n for n, event in enumerate(events) if isinstance(event, ev.Start))
    assert relayed == [e for n, e in enumerate(events[:-1]) if n != started]
    assert out.finished
    assert (out.failure is None) == isinstance(events[-1], ev.Done)


def test_what_a_remote_side_counts_wrongly_is_not_counted() -> None:
    out = ForwardingWriter("toy", "1")
    out.forward(ev.Start())
    out.forward(ev.Done(StopReason.STOP, Usage(input=-5, output=10**30, total=7, reported=True)))
    assert out.usage_seen
    assert out.usage_seen.added_up() == Usage(total=7, reported=True)


def test_an_answer_that_ends_as_aborted_is_not_done() -> None:
    out = ForwardingWriter("toy", "1")
    out.forward(ev.Start())
    out.forward(ev.Done(StopReason.ABORTED))
    assert out.failure is not None
    assert (out.failure.code, out.stop_reason) == ("bad_event", None)


def test_a_relayed_stream_that_breaks_a_rule_fails_with_its_blocks_closed() -> None:
    out = ForwardingWriter("toy", "1")
    for event in [ev.Start(), ev.TextStart(0), ev.TextStart(0)]:
        out.forward(event)
    assert out.failure is not None
    assert out.failure.kind is StreamErrorKind.PROTOCOL
    out.close()
    assert [event.type for event in out.take()] == ["text_start", "text_end"]


def test_relayed_blocks_are_bounded_too() -> None:
    out = ForwardingWriter("toy", "1")
    out.forward(ev.Start())
    for number in range(ForwardingWriter.most_blocks + 1):
        out.forward(ev.TextStart(number))
    assert out.failure is not None
    assert out.failure.kind is StreamErrorKind.OUTPUT_TOO_LARGE
    out.close()
    events: list[Any] = [ev.Start(), *out.take(), ev.Done(StopReason.STOP)]
    grammar = Automaton()
    assert [rule for event in events if (rule := grammar.step(event))] == []
    assert sum(isinstance(event, ev.TextStart) for event in events) == ForwardingWriter.most_blocks


def test_relayed_events_are_counted() -> None:
    out = ForwardingWriter("toy", "1")
    for event in [
        ev.Start(),
        ev.TextStart(0),
        ev.TextDelta(0, "hello"),
        ev.Notice("code", "not kept"),
        ev.TextEnd(0, {"a": "x" * 1000}),
        ev.ThinkingStart(1),
        ev.ThinkingEnd(1, "s" * 1000),
        ev.Extension(2, "toy", "k", "d" * 1000),
    ]:
        out.forward(event)
    size = out.kept
    assert 3_005 <= size <= 3_100
    out.forward(ev.Retry(2, 2, 0.0, "lost", "toy/large"))
    assert (out.kept, out.discarded) == (0, size)
