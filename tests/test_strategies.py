"""The strategies draw valid data, which the core handles without loss."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swink_core import Context, Event, Message, Model, StreamOptions, ToolCallBlock, dump, load
from swink_core.conversation import check_context
from swink_core.providers import parse_arguments
from swink_core.providers.conversion import normalise
from swink_core.streaming.builder import MessageBuilder
from swink_core.vocabulary import events as ev
from swink_core.vocabulary.grammar import RULES, Automaton
from swink_test_helpers import strategies as sw
from swink_test_helpers.event_strategies import event_streams
from swink_testing.driver import fold

pytestmark = pytest.mark.heavy
"""If a strategy draws invalid data, the tests that use the strategy fail, too."""


def through_json(data: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(data))


@given(event_streams())
def test_every_stream_keeps_to_the_grammar_and_ends_once(
    events: list[ev.AssistantMessageEvent],
) -> None:
    automaton = Automaton()

    assert [automaton.step(event) for event in events] == [None] * len(events)
    assert automaton.phase == "ended"
    assert sum(isinstance(event, ev.Done | ev.Error) for event in events) == 1


def test_every_event_of_the_protocol_is_drawn() -> None:
    seen: set[type] = set()

    @given(event_streams())
    def collect(events: list[ev.AssistantMessageEvent]) -> None:
        seen.update(map(type, events))

    collect()

    assert seen == set(RULES)


@given(event_streams())
def test_events_survive_json(events: list[ev.AssistantMessageEvent]) -> None:
    assert [load(Event, through_json(dump(event))) for event in events] == events


@given(event_streams())
def test_a_message_has_the_blocks_of_the_last_attempt(
    events: list[ev.AssistantMessageEvent],
) -> None:
    last = max(n for n, event in enumerate(events) if isinstance(event, ev.Start))
    begun = [event for event in events[last:] if RULES[type(event)].effect in ("open", "whole")]

    message = fold(events)

    assert [block.type for block in message.content] == [RULES[type(e)].block for e in begun]


@given(event_streams(), st.data())
def test_a_message_is_the_same_however_its_events_are_batched(
    events: list[ev.AssistantMessageEvent], data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(events)))
    builder = MessageBuilder()

    builder.feed(events[:at])
    builder.message  # noqa: B018  # reading it in between must change nothing
    builder.feed(events[at:])

    assert builder.message == fold(events)


@given(event_streams())
def test_tool_calls_keep_the_text_of_their_arguments(
    events: list[ev.AssistantMessageEvent],
) -> None:
    last = max(n for n, event in enumerate(events) if isinstance(event, ev.Start))
    texts: dict[int, str] = {}
    for event in events[last:]:
        if isinstance(event, ev.ToolCallStart):
            texts[event.content_index] = ""
        elif isinstance(event, ev.ToolCallDelta):
            texts[event.content_index] += event.delta

    calls = fold(events).tool_calls

    assert [call.raw_arguments or "" for call in calls] == list(texts.values())
    assert all(
        call.arguments == (parse_arguments(call.raw_arguments or "") or {}) for call in calls
    )


@given(sw.contexts())
def test_every_conversation_is_one_that_a_call_may_begin_with(context: Context) -> None:
    check_context(context)


@given(sw.contexts())
def test_conversations_survive_json(context: Context) -> None:
    assert load(Context, through_json(dump(context))) == context


@given(sw.contexts())
def test_normalising_answers_every_tool_call_and_changes_nothing_else_in_place(
    context: Context,
) -> None:
    before = load(Context, dump(context))

    messages = normalise(context, "acme")

    asked = [b.id for m in messages for b in m.content if isinstance(b, ToolCallBlock)]
    answered = [m.tool_call_id for m in messages if m.role == "tool_result"]
    assert sorted(asked) == sorted(answered)
    assert context == before


@given(sw.contexts(media=False))
def test_conversations_may_be_without_media(context: Context) -> None:
    kinds = {
        getattr(block, "type", "text") for message in context.messages for block in message.content
    }

    assert not kinds & {"image", "document", "audio"}


@given(sw.assistant_messages(tool_call_ids=("call_1", "call_2")))
def test_answers_make_the_calls_that_were_asked_for(message: Message) -> None:
    assert [call.id for call in message.tool_calls] == ["call_1", "call_2"]


@given(sw.stream_options())
def test_options_hold_no_credentials_and_no_address(options: StreamOptions) -> None:
    assert (options.api_key, options.base_url, dict(options.headers)) == (None, None, {})


@given(st.binary(max_size=60), st.data())
def test_chunkings_join_to_the_body(body: bytes, data: st.DataObject) -> None:
    pieces = data.draw(sw.chunkings(body))

    assert b"".join(pieces) == body
    assert all(pieces)


@given(sw.names(), sw.names())
def test_a_drawn_name_can_be_a_model(provider: str, model_id: str) -> None:
    assert Model.parse(f"{provider}/{model_id}") == Model(provider, model_id)
