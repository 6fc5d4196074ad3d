"""The events of the Responses API, alone and in the orders that servers use."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from responses_cases import MODEL

from swink_core import (
    AssistantMessage,
    AssistantMessageEvent,
    Done,
    Error,
    ExtensionBlock,
    Model,
    ModelInfo,
    Notice,
    RetryPolicy,
    StopReason,
    TextBlock,
    TextDelta,
    ThinkingBlock,
    ToolCallBlock,
    ToolCallDelta,
)
from swink_core import StreamErrorKind as Kind
from swink_provider_openai import OpenAIProvider
from swink_testing.calls import client_with
from swink_testing.driver import MemoryHTTPClient, MemoryResponse, fold, run_bytes

MESSAGE = {"type": "message", "role": "assistant", "id": "msg_1"}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look"}
CUSTOM = {"type": "custom_tool_call", "id": "ct_1", "call_id": "call_1", "name": "sql"}


def event(type: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{type}", **fields}


def added(index: int, item: dict[str, Any]) -> dict[str, Any]:
    return event("output_item.added", output_index=index, item=item)


def done(index: int, item: dict[str, Any]) -> dict[str, Any]:
    return event("output_item.done", output_index=index, item=item)


def text(delta: str, index: int = 0, part: int = 0, **more: Any) -> dict[str, Any]:
    return event("output_text.delta", output_index=index, content_index=part, delta=delta, **more)


def said(words: str) -> dict[str, Any]:
    return {"type": "output_text", "text": words, "annotations": []}


def summary(words: str) -> dict[str, Any]:
    return {"type": "summary_text", "text": words}


COMPLETED = event("completed", response={"id": "resp_1", "model": "m", "status": "completed"})


PROVIDER = OpenAIProvider("openai")


def read(*frames: Any) -> list[AssistantMessageEvent]:
    body = b"".join(b"data: " + msgspec.json.encode(frame) + b"\n\n" for frame in frames)
    return run_bytes(PROVIDER, MODEL, [body])


def message(*frames: Any) -> AssistantMessage:
    return fold(read(*frames, COMPLETED))


# -- what comes whole is counted once ----------------------------------------------------------

TEXTS: list[tuple[str, list[dict[str, Any]], str]] = [
    ("deltas", [text("He"), text("llo")], "Hello"),
    ("deltas and the whole", [text("He"), text("llo"),
        event("output_text.done", output_index=0, content_index=0, text="Hello")], "Hello"),
    ("the whole text alone",
        [event("output_text.done", output_index=0, content_index=0, text="Hello")], "Hello"),
    ("a part alone",
        [event("content_part.done", output_index=0, content_index=0, part=said("Hello"))], "Hello"),
    ("an item alone", [done(0, {**MESSAGE, "content": [said("Hello")]})], "Hello"),
    ("all of them", [text("Hello"),
        event("output_text.done", output_index=0, content_index=0, text="Hello"),
        event("content_part.done", output_index=0, content_index=0, part=said("Hello")),
        done(0, {**MESSAGE, "content": [said("Hello")]}),
        done(0, {**MESSAGE, "content": [said("Hello")]})], "Hello"),
    ("the end alone", [text("He"), done(0, {**MESSAGE, "content": [said("Hello")]})], "Hello"),
    ("a whole that contradicts its deltas", [text("Hallo"),
        done(0, {**MESSAGE, "content": [said("Hello there")]})], "Hallo"),
    ("two parts", [text("Hel"), text("lo", part=1),
        done(0, {**MESSAGE, "content": [said("Hel"), said("lo")]})], "Hello"),
    ("ids that change from event to event", [added(0, {**MESSAGE, "id": "a"}),
        text("He", item_id="b"), text("llo", item_id="c"),
        done(0, {**MESSAGE, "id": "d", "content": [said("Hello")]})], "Hello"),
    ("no indices", [event("output_item.added", item=MESSAGE),
        event("output_text.delta", delta="Hello"),
        event("output_item.done", item={**MESSAGE, "content": [said("Hello")]})], "Hello"),
    ("an index used again", [added(0, MESSAGE), text("Hel"),
        done(0, {**MESSAGE, "content": [said("Hel")]}),
        added(0, {**MESSAGE, "id": "msg_2"}), text("lo"),
        done(0, {**MESSAGE, "id": "msg_2", "content": [said("lo")]})], "Hello"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "frames", "expected"), TEXTS)
def test_text_is_neither_lost_nor_doubled(
    name: str, frames: list[dict[str, Any]], expected: str
) -> None:
    events = read(*frames, COMPLETED)

    assert "".join(e.delta for e in events if isinstance(e, TextDelta)) == expected
    assert isinstance(events[-1], Done)


def test_an_answer_that_only_the_last_event_holds_is_not_lost() -> None:
    output = [REASONING, {**MESSAGE, "content": [said("Hello")]}, {**CALL, "arguments": "{}"}]

    answer = fold(read(event("completed", response={"status": "completed", "output": output})))

    assert [block.type for block in answer.content] == ["thinking", "text", "tool_call"]
    assert answer.text == "Hello"


@pytest.mark.parametrize(
    "item", [{"type": "web_search_call", "id": "x_1"}, {**CALL, "arguments": "{}"}, REASONING]
)
def test_an_item_that_is_done_twice_is_one(item: dict[str, Any]) -> None:
    answer = message(done(0, item), text("So.", index=1), done(0, item))

    assert [block.type for block in answer.content][1:] == ["text"]


def test_the_output_of_the_last_event_repeats_nothing() -> None:
    item = {**MESSAGE, "content": [said("Hello")]}

    answer = fold(read(
        text("Hello"), done(0, item),
        event("completed", response={"status": "completed", "output": [item]}),
    ))  # fmt: skip

    assert answer.text == "Hello"


ITEMS = [
    {**MESSAGE, "content": [said("Hello")]},
    {**CALL, "arguments": '{"a": 1}'},
    {**CUSTOM, "call_id": "call_2", "input": "SELECT 1"},
]


@pytest.mark.parametrize(
    "frames",
    [
        [text("Hello")],
        [text("He"), added(1, CALL),
         event("function_call_arguments.delta", output_index=1, delta='{"a"'),
         added(2, {**CUSTOM, "call_id": "call_2"}),
         event("custom_tool_call_input.delta", output_index=2, delta="SELECT")],
        [added(7, MESSAGE), text("Hel", index=7), added(8, CALL)],
    ],
    ids=["deltas of one", "deltas of all", "places that are others"],
)  # fmt: skip
def test_items_that_are_never_done_are_those_of_the_last_event(
    frames: list[dict[str, Any]],
) -> None:
    last = event("completed", response={"status": "completed", "output": ITEMS})
    answer = fold(read(*frames, last))

    assert answer.text == "Hello"
    assert [call.arguments for call in answer.tool_calls] == [{"a": 1}, {"input": "SELECT 1"}]
    assert answer.stop_reason is StopReason.TOOL_USE


def test_a_failure_ends_no_item_that_was_cut() -> None:
    pieces = event("custom_tool_call_input.delta", output_index=0, delta="DELETE FROM t")
    item = {**CUSTOM, "input": "DELETE FROM t"}
    failed = event("failed", response={"status": "failed", "output": [item]})
    [call] = fold(read(added(0, CUSTOM), pieces, failed)).tool_calls

    assert call.state != "complete"


# -- blocks ------------------------------------------------------------------------------------


def test_parts_of_a_message_are_blocks_that_belong_to_one_item() -> None:
    cited = {**said("b"), "annotations": [{"type": "url_citation", "url": "https://a.invalid"}]}
    answer = message(
        added(0, {**MESSAGE, "phase": "commentary"}),
        text("a"),
        event("content_part.done", output_index=0, content_index=0, part=said("a")),
        text("b", part=1),
        done(0, {**MESSAGE, "phase": "commentary", "content": [said("a"), cited]}),
    )

    item = {"id": "msg_1", "phase": "commentary"}
    assert answer.content == [
        TextBlock("a", {"item": item}),
        TextBlock("b", {"item": item, "annotations": cited["annotations"]}),
    ]


REASONINGS: list[tuple[str, list[dict[str, Any]], str]] = [
    ("summaries", [
        event("reasoning_summary_text.delta", output_index=0, summary_index=0, delta="Fi"),
        event("reasoning_summary_text.delta", output_index=0, summary_index=0, delta="rst"),
        event("reasoning_summary_text.done", output_index=0, summary_index=0, text="First"),
        event("reasoning_summary_text.delta", output_index=0, summary_index=1, delta="then"),
        done(0, {**REASONING, "summary": [summary("First"), summary("then")]}),
    ], "First\n\nthen"),
    ("a summary that comes whole",
        [done(0, {**REASONING, "summary": [summary("First")]})], "First"),
    ("the reasoning itself", [
        event("reasoning_text.delta", output_index=0, content_index=0, delta="Hm"),
        event("reasoning_text.done", output_index=0, content_index=0, text="Hmm"),
        done(0, {**REASONING, "content": [{"type": "reasoning_text", "text": "Hmm"}]}),
    ], "Hmm"),
    ("nothing to be seen", [done(0, REASONING)], ""),
]  # fmt: skip


@pytest.mark.parametrize(("name", "frames", "expected"), REASONINGS)
def test_reasoning_is_one_block_with_its_whole_item(
    name: str, frames: list[dict[str, Any]], expected: str
) -> None:
    answer = message(*frames, text("So.", index=1))

    assert answer.content == [
        ThinkingBlock(expected, metadata={"item": frames[-1]["item"]}),
        TextBlock("So."),
    ]


def test_calls_are_told_apart_by_their_place_in_the_output() -> None:
    def arguments(index: int, delta: str) -> dict[str, Any]:
        return event("function_call_arguments.delta", output_index=index, delta=delta)

    second = {**CALL, "id": "fc_2", "call_id": "call_2"}
    answer = message(
        added(0, CALL), added(1, second), arguments(0, '{"a"'), arguments(1, '{"b"'),
        arguments(0, ": 1}"), arguments(1, ": 2}"),
        event("function_call_arguments.done", output_index=0, arguments='{"a": 1}'),
        done(0, {**CALL, "arguments": '{"a": 1}', "status": "completed"}),
        done(1, {**second, "arguments": '{"b": 2}', "caller": {"type": "direct"}}),
    )  # fmt: skip

    assert answer.stop_reason is StopReason.TOOL_USE
    assert answer.content == [
        ToolCallBlock("call_1", "look", {"a": 1}, '{"a": 1}', metadata={"item": {"id": "fc_1"}}),
        ToolCallBlock(
            "call_2", "look", {"b": 2}, '{"b": 2}',
            metadata={"item": {"id": "fc_2", "caller": {"type": "direct"}}},
        ),
    ]  # fmt: skip


@pytest.mark.parametrize("arguments", ['{"a": 1}', {"a": 1}])
def test_arguments_that_come_whole_are_one_delta(arguments: Any) -> None:
    events = read(done(0, {**CALL, "arguments": arguments}), COMPLETED)

    [delta] = [e.delta for e in events if isinstance(e, ToolCallDelta)]
    assert msgspec.json.decode(delta) == {"a": 1}


@pytest.mark.parametrize("pieces", [['SELECT "a"', "\n", "-- é \U0001f600"], []])
def test_free_text_for_a_tool_is_its_only_argument(pieces: list[str]) -> None:
    whole = "".join(pieces)
    answer = message(
        added(0, CUSTOM),
        *(event("custom_tool_call_input.delta", output_index=0, delta=p) for p in pieces),
        event("custom_tool_call_input.done", output_index=0, input=whole),
        done(0, {**CUSTOM, "input": whole, "status": "completed"}),
    )

    [call] = answer.tool_calls
    assert (call.id, call.name, call.arguments) == ("call_1", "sql", {"input": whole})
    assert call.metadata == {"item": {"type": "custom_tool_call", "id": "ct_1"}}


@pytest.mark.parametrize("kind", ["web_search_call", "mcp_list_tools", "of_tomorrow"])
def test_other_items_are_kept_whole_where_they_stand(kind: str) -> None:
    item = {"type": kind, "id": "x_1", "action": {"query": "swink"}}
    answer = message(
        text("Before."),
        added(1, {"type": kind, "id": "x_1"}),
        event(f"{kind}.in_progress", output_index=1),
        done(1, item),
        text("After.", index=2),
    )

    assert answer.content == [
        TextBlock("Before."),
        ExtensionBlock("openai", kind, item),
        TextBlock("After."),
    ]


def test_a_refusal_is_the_text_of_an_answer_that_a_filter_stopped() -> None:
    part = {"type": "refusal", "refusal": "No."}
    answer = message(
        added(0, MESSAGE),
        event("refusal.delta", output_index=0, content_index=0, delta="No"),
        event("refusal.done", output_index=0, content_index=0, refusal="No."),
        done(0, {**MESSAGE, "content": [part]}),
    )

    assert answer.stop_reason is StopReason.CONTENT_FILTER
    assert answer.content == [TextBlock("No.", {"item": {"id": "msg_1", "refused": True}})]


# -- the end -----------------------------------------------------------------------------------

ENDS: list[tuple[dict[str, Any], StopReason]] = [
    (event("completed", response={"status": "completed"}), StopReason.STOP),
    (event("completed", response={}), StopReason.STOP),
    (event("completed"), StopReason.STOP),
    (event("incomplete", response={"incomplete_details": {"reason": "max_output_tokens"}}),
     StopReason.LENGTH),
    (event("incomplete", response={"incomplete_details": {"reason": "content_filter"}}),
     StopReason.CONTENT_FILTER),
    (event("incomplete", response={"incomplete_details": {"reason": "of_tomorrow"}}),
     StopReason.LENGTH),
    (event("completed", response={
        "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}),
     StopReason.LENGTH),
]  # fmt: skip


@pytest.mark.parametrize(("last", "reason"), ENDS)
def test_every_end_has_its_reason(last: dict[str, Any], reason: StopReason) -> None:
    terminal = read(text("Hi"), last)[-1]

    assert isinstance(terminal, Done)
    assert terminal.stop_reason is reason


def test_an_unknown_reason_is_told() -> None:
    details = {"reason": "of_tomorrow"}
    events = read(text("Hi"), event("incomplete", response={"incomplete_details": details}))

    assert any(isinstance(e, Notice) and "of_tomorrow" in e.detail for e in events)


FAILURES: list[tuple[str, dict[str, Any], Kind, str]] = [
    ("failed", event("failed", response={"error": {"code": "server_error", "message": "Oh."}}),
     Kind.NETWORK, "Oh."),
    ("failed by a limit", event("failed", response={"error": {
        "code": "rate_limit_exceeded", "message": "Please try again in 3s."}}),
     Kind.THROTTLED, "Please try again in 3s."),
    ("failed without a word", event("failed", response={}), Kind.UNKNOWN,
     "the answer's status is failed"),
    ("a bare error", {"type": "error", "code": "insufficient_quota", "message": "Pay.",
                      "param": None}, Kind.QUOTA_EXHAUSTED, "Pay."),
    ("a bare error of no kind", {"type": "error", "message": "Oh."}, Kind.UNKNOWN, "Oh."),
    ("an error inside", {"type": "error", "error": {
        "type": "invalid_request_error", "code": "context_length_exceeded", "message": "Long."}},
     Kind.CONTEXT_WINDOW_EXCEEDED, "Long."),
    ("an error with the status that HTTP would have had", {"type": "error", "status": 401,
        "error": {"type": "x", "message": "Who?"}}, Kind.AUTH, "Who?"),
    ("an error of no type", {"error": {"code": "slow_down", "message": "Slow."}},
     Kind.OVERLOADED, "Slow."),
]  # fmt: skip


@pytest.mark.parametrize(("name", "frame", "kind", "words"), FAILURES)
def test_every_failure_has_its_kind(
    name: str, frame: dict[str, Any], kind: Kind, words: str
) -> None:
    terminal = read(text("Hi"), frame)[-1]

    assert isinstance(terminal, Error)
    assert (terminal.error_kind, terminal.error_message) == (kind, words)


def test_a_failure_still_says_what_it_took() -> None:
    usage = {
        "input_tokens": 10, "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
        "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 3},
    }  # fmt: skip
    answer = fold(read(event("failed", response={"usage": usage, "error": {"code": "x"}})))

    assert answer.usage is not None
    found = answer.usage
    assert (found.input, found.output, found.total) == (10, 5, 15)
    assert (found.cache_read, found.cache_write, found.reasoning) == (4, 2, 3)


@pytest.mark.parametrize("last", [
    event("in_progress", response={"status": "completed"}),
    event("output_item.done", output_index=0, item={**MESSAGE, "content": [said("Hi")]}),
    event("of_tomorrow"),
    {"type": "keepalive"},
])  # fmt: skip
def test_nothing_else_completes_an_answer(last: dict[str, Any]) -> None:
    terminal = read(text("Hi"), last)[-1]

    assert isinstance(terminal, Error)
    assert terminal.error_kind is Kind.NETWORK


@pytest.mark.parametrize("frame", [
    {"type": "response.output_text.delta", "output_index": "first"},
    {"type": "response.output_item.done", "item": "text"},
    {"type": "response.completed", "response": "done"},
])  # fmt: skip
def test_a_known_event_of_the_wrong_form_is_malformed(frame: dict[str, Any]) -> None:
    events = read(text("Hi"), frame, COMPLETED)

    assert [e.code for e in events if isinstance(e, Notice)] == ["malformed_frame"]
    assert isinstance(events[-1], Error)
    assert events[-1].code == "damaged_frame"


# -- answers that are not streamed -------------------------------------------------------------

WHOLE = {
    "id": "resp_1", "model": "m", "status": "completed",
    "output": [REASONING, {**MESSAGE, "content": [said("Hello")]}],
    "usage": {"input_tokens": 1, "output_tokens": 2},
}  # fmt: skip


@pytest.mark.parametrize(
    ("body", "reason", "kind"),
    [
        (WHOLE, StopReason.STOP, None),
        ({**WHOLE, "status": "incomplete",
          "incomplete_details": {"reason": "max_output_tokens"}}, StopReason.LENGTH, None),
        ({**WHOLE, "status": "failed", "error": {"code": "server_error"}},
         StopReason.ERROR, Kind.NETWORK),
        ({"object": "list"}, StopReason.ERROR, Kind.PROTOCOL),
    ],
)  # fmt: skip
async def test_an_answer_that_comes_whole(
    body: dict[str, Any], reason: StopReason, kind: Kind | None
) -> None:
    http = MemoryHTTPClient(MemoryResponse.of_json(body))
    model = Model("openai", "m", ModelInfo("m", api="responses"))
    async with client_with(http=http, api_key="test", retry=RetryPolicy.none()) as client:
        answer = fold([e async for e in client.stream(model, "Hi", transport="buffered")])

    assert http.bodies[0]["stream"] is False
    assert (answer.stop_reason, answer.error_kind) == (reason, kind)
    assert answer.text == ("Hello" if body.get("output") else "")
