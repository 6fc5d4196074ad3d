"""How answers of the Messages API begin, end, fail and are counted, in made-up ones."""

from __future__ import annotations

from typing import Any

import pytest
from messages_api import (
    CITATION,
    SERVER_TOOL,
    START,
    STOP,
    TEXT,
    TOOL,
    block,
    body,
    ended,
    input_json,
    text,
)

from swink_core import (
    AssistantMessageEvent,
    Done,
    Error,
    ExtensionBlock,
    Host,
    Notice,
    Retry,
    RetryPolicy,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    Usage,
    hookimpl,
)
from swink_core import StreamErrorKind as Kind
from swink_core.providers import Catalog, cost_of
from swink_provider_anthropic import AnthropicProvider
from swink_testing.calls import client_with
from swink_testing.driver import MemoryHTTPClient, MemoryResponse, drive_bytes, fold

PROVIDER = AnthropicProvider("anthropic")


async def _events(*frames: dict[str, Any]) -> list[AssistantMessageEvent]:
    return await drive_bytes(PROVIDER, "any", [body(*frames)])


CALLER = {"type": "code_execution_20250825", "tool_id": "s1"}


@pytest.mark.parametrize(
    ("raw", "reason", "notices"),
    [
        ("end_turn", StopReason.STOP, []),
        ("stop_sequence", StopReason.STOP, []),
        ("tool_use", StopReason.TOOL_USE, []),
        ("max_tokens", StopReason.LENGTH, []),
        ("pause_turn", StopReason.PAUSE, []),
        ("compaction", StopReason.PAUSE, []),
        ("refusal", StopReason.CONTENT_FILTER, [Notice("refusal", "")]),
        (
            "model_context_window_exceeded",
            StopReason.LENGTH,
            [Notice("stop_reason", "the context window was full before max_tokens was reached")],
        ),
        (
            "boredom",
            StopReason.STOP,
            [Notice("stop_reason", "the answer stopped for an unknown reason: boredom")],
        ),
        (
            None,
            StopReason.STOP,
            [Notice("stop_reason", "the answer stopped for an unknown reason: None")],
        ),
    ],
)
async def test_stop_reasons(raw: str | None, reason: StopReason, notices: list[Notice]) -> None:
    events = await _events(START, *block(0, TEXT, text("a")), ended(raw), STOP)
    assert isinstance(events[-1], Done)
    assert events[-1].stop_reason is reason
    assert [event for event in events if isinstance(event, Notice)] == notices


@pytest.mark.parametrize("said", [[], block(0, TEXT, text("a"))], ids=["nothing", "text"])
async def test_a_stop_sequence_ends_an_answer_and_is_told(said: list[dict[str, Any]]) -> None:
    """An empty answer is what the caller asked for, and is not asked for again."""
    end = {"type": "message_delta", "delta": {"stop_reason": "stop_sequence", "stop_sequence": "B"}}
    terminal = (await _events(START, *said, end, STOP))[-1]
    assert isinstance(terminal, Done)
    assert terminal.stop_reason is StopReason.STOP
    assert terminal.metadata == {"stop_sequence": "B"}


async def test_a_refusal_says_what_it_refused() -> None:
    details = {"type": "refusal", "category": "bio", "explanation": "No viruses."}
    end = {"type": "message_delta", "delta": {"stop_reason": "refusal", "stop_details": details}}
    events = await _events(START, end, STOP)
    assert Notice("refusal", "bio: No viruses.") in events


SUMMARY = {
    "type": "compaction",
    "input_tokens": 60,
    "output_tokens": 5,
    "cache_read_input_tokens": 300,
    "cache_creation_input_tokens": 40,
    "cache_creation": {"ephemeral_1h_input_tokens": 30},
}
REPLY = {"type": "message", "input_tokens": 10, "output_tokens": 7}
ADVICE = {"type": "advisor_message", "model": "b", "input_tokens": 999, "output_tokens": 99}
DECLINED = {"type": "message", "model": "b", "input_tokens": 10, "output_tokens": 0}
FALLBACK = {"type": "fallback_message", "model": "c", "input_tokens": 10, "output_tokens": 7}


def _iterations(*rows: Any) -> dict[str, Any]:
    return {"iterations": list(rows)}


USAGES: list[tuple[str, dict[str, Any] | None, dict[str, Any] | None, Usage | None]] = [
    ("nothing said", None, None, None),
    (
        "output grows",
        {"input_tokens": 10, "output_tokens": 1},
        {"output_tokens": 7},
        Usage(10, 7, total=17, reported=True),
    ),
    (
        "the cache is a part of the input",
        {
            "input_tokens": 10,
            "cache_read_input_tokens": 100,
            "cache_creation_input_tokens": 1000,
            "output_tokens": 1,
        },
        {"output_tokens": 2},
        Usage(1110, 2, 100, 1000, total=1112, reported=True),
    ),
    (
        "the last figure of each counts",
        {"input_tokens": 10, "cache_read_input_tokens": 5, "output_tokens": 1},
        {"input_tokens": 20, "cache_read_input_tokens": None, "output_tokens": 2},
        Usage(25, 2, 5, total=27, reported=True),
    ),
    (
        "figures with a point",
        {"input_tokens": 10.0, "output_tokens": 1.0},
        None,
        Usage(10, 1, total=11, reported=True),
    ),
    (
        "thinking is a part of the output",
        {"input_tokens": 1},
        {"output_tokens": 9, "output_tokens_details": {"thinking_tokens": 4}},
        Usage(
            1,
            9,
            reasoning=4,
            total=10,
            extra={"output_tokens_details": {"thinking_tokens": 4}},
            reported=True,
        ),
    ),
    (
        "other counted usage",
        {"input_tokens": 1, "service_tier": "standard"},
        {"output_tokens": 2, "server_tool_use": {"web_search_requests": 3}},
        Usage(
            1,
            2,
            total=3,
            extra={
                "service_tier": "standard",
                "server_tool_use": {"web_search_requests": 3},
                "searches": 3,
            },
            reported=True,
        ),
    ),
    (
        "what is written for an hour",
        {"input_tokens": 1, "cache_creation_input_tokens": 9},
        {"output_tokens": 2, "cache_creation": {"ephemeral_1h_input_tokens": 7}},
        Usage(
            10,
            2,
            cache_write=9,
            total=12,
            extra={"cache_creation": {"ephemeral_1h_input_tokens": 7}, "cache_write_long": 7},
            reported=True,
        ),
    ),
    ("only output", None, {"output_tokens": 3}, Usage(None, 3, reported=True)),
    (
        "a compaction is added",
        {"input_tokens": 400, "output_tokens": 1},
        {"input_tokens": 10, "output_tokens": 7, **_iterations(SUMMARY, REPLY)},
        Usage(
            410,
            12,
            300,
            40,
            total=422,
            extra={**_iterations(SUMMARY, REPLY), "cache_write_long": 30},
            reported=True,
        ),
    ),
    (
        "each compaction is added, and its hour to that of the message",
        {
            "input_tokens": 1,
            "cache_creation_input_tokens": 9,
            "cache_creation": {"ephemeral_1h_input_tokens": 9},
        },
        {"output_tokens": 7, **_iterations(SUMMARY, REPLY, SUMMARY)},
        Usage(
            810,
            17,
            600,
            89,
            total=827,
            extra={
                "cache_creation": {"ephemeral_1h_input_tokens": 9},
                **_iterations(SUMMARY, REPLY, SUMMARY),
                "cache_write_long": 69,
            },
            reported=True,
        ),
    ),
    (
        "a compaction before a later count",
        {"input_tokens": 10, "output_tokens": 1, **_iterations(SUMMARY)},
        {"output_tokens": 7},
        Usage(
            410,
            12,
            300,
            40,
            total=422,
            extra={**_iterations(SUMMARY), "cache_write_long": 30},
            reported=True,
        ),
    ),
    (
        "an advisor is another model",
        {"input_tokens": 10, "output_tokens": 1},
        {"input_tokens": 20, "output_tokens": 14, **_iterations(REPLY, ADVICE, REPLY)},
        Usage(20, 14, total=34, extra=_iterations(REPLY, ADVICE, REPLY), reported=True),
    ),
    (
        "a fallback is the answer",
        {"input_tokens": 10, "output_tokens": 1},
        {"input_tokens": 10, "output_tokens": 7, **_iterations(DECLINED, FALLBACK)},
        Usage(10, 7, total=17, extra=_iterations(DECLINED, FALLBACK), reported=True),
    ),
    (
        "iterations without usage",
        {"input_tokens": 10, "output_tokens": 1},
        {"output_tokens": 7, "iterations": ["compaction", None, {"type": "compaction"}]},
        Usage(
            10,
            7,
            total=17,
            extra={"iterations": ["compaction", None, {"type": "compaction"}]},
            reported=True,
        ),
    ),
]


@pytest.mark.parametrize(
    ("name", "first", "last", "expected"), USAGES, ids=[n.replace(" ", "-") for n, *_ in USAGES]
)
async def test_usage(name: str, first: Any, last: Any, expected: Usage | None) -> None:
    start = {"type": "message_start", "message": {"id": "m", "usage": first}}
    events = await _events(start, *block(0, TEXT, text("a")), ended(usage=last), STOP)
    assert isinstance(events[-1], Done)
    assert events[-1].usage == expected


async def test_an_answer_cut_short_says_what_it_has_cost_so_far() -> None:
    start = {"type": "message_start", "message": {"usage": {"input_tokens": 5, "output_tokens": 1}}}
    last = (await _events(start, *block(0, TEXT, text("a"))))[-1]
    assert isinstance(last, Error)
    assert last.usage == Usage(5, 1, total=6, reported=True)


SSE = {"Content-Type": "text/event-stream"}
SECOND = {"type": "message_start", "message": {"id": "msg_2", "model": "claude-b", "content": []}}
HALF_A_CALL = block(1, TOOL, input_json('{"at": '))[:-1]


async def test_a_second_start_of_the_same_answer_is_ignored() -> None:
    blocks = block(0, TEXT, text("a"))
    once = await _events(START, *blocks, ended(), STOP)
    assert await _events(START, START, *blocks, ended(), STOP) == once
    assert await _events(START, *blocks, START, ended(), STOP) == once


async def test_a_second_answer_in_one_body_voids_the_first() -> None:
    first = [*block(0, TEXT, text("a")), *HALF_A_CALL]
    events = await _events(START, *first, SECOND, *block(0, TEXT, text("b")), ended(), STOP)
    message = fold(events, "anthropic")
    assert message.content == [TextBlock("b")]
    assert (message.response_id, message.model) == ("msg_2", "claude-b")
    assert message.stop_reason is StopReason.STOP
    assert [event.model for event in events if isinstance(event, Retry)] == ["anthropic/any"]


async def test_callers_and_observers_are_told_of_the_second_answer() -> None:
    first = body(START, *block(0, TEXT, text("a")), *HALF_A_CALL)
    second = body(SECOND, *block(0, TEXT, text("b")), ended(), STOP)
    http = MemoryHTTPClient(MemoryResponse([first, second], headers=SSE))
    seen: list[AssistantMessageEvent] = []

    class Observer:
        @hookimpl
        def on_event(self, event: AssistantMessageEvent) -> None:
            seen.append(event)

    async with (
        client_with(http=http, api_key="test", plugins=[Observer()]) as client,
        client.stream("anthropic/any", "Hi") as stream,
    ):
        events = [event async for event in stream]

    assert [event.type for event in events].count("retry") == 1
    assert seen == events
    assert stream.message.content == [TextBlock("b")]
    assert stream.message.response_id == "msg_2"
    assert len(http.requests) == 1


async def test_a_second_answer_before_any_content_voids_nothing() -> None:
    events = await _events(START, SECOND, *block(0, TEXT, text("b")), ended(), STOP)
    assert not any(isinstance(event, Retry) for event in events)
    assert fold(events).response_id == "msg_2"


async def test_nothing_after_message_stop_is_read() -> None:
    events = await _events(START, *block(0, TEXT, text("a")), ended(), STOP, SECOND)
    assert fold(events).response_id == "msg_1"
    assert isinstance(events[-1], Done)


CONTAINER = {"id": "container_1", "expires_at": "2026-11-20T00:00:00Z"}


@pytest.mark.parametrize(
    ("name", "start", "reason", "kept"),
    [
        ("the answer is complete", TEXT, "end_turn", False),
        ("the server pauses", TEXT, "pause_turn", True),
        ("code in it waits for a result", {**TOOL, "caller": CALLER}, "tool_use", True),
        ("the model itself made the call", TOOL, "tool_use", False),
        ("and says so", {**TOOL, "caller": {"type": "direct"}}, "tool_use", False),
    ],
)
async def test_a_container_is_kept_where_something_waits_in_it(
    name: str, start: dict[str, Any], reason: str, kept: bool
) -> None:
    delta = {"stop_reason": reason, "container": CONTAINER}
    end = {"type": "message_delta", "delta": delta}
    message = fold(await _events(START, *block(0, start, text("a")), end, STOP), "anthropic")
    containers = [ExtensionBlock("anthropic", "container", CONTAINER)]
    assert [b for b in message.content if isinstance(b, ExtensionBlock)] == containers[: int(kept)]


@pytest.mark.parametrize(
    ("type", "kind"),
    [
        ("overloaded_error", Kind.OVERLOADED),
        ("rate_limit_error", Kind.THROTTLED),
        ("api_error", Kind.NETWORK),
        ("authentication_error", Kind.AUTH),
        ("of_tomorrow_error", Kind.UNKNOWN),
    ],
)
async def test_an_error_in_the_stream_has_the_kind_of_its_http_twin(type: str, kind: Kind) -> None:
    error = {"type": "error", "error": {"details": None, "type": type, "message": "Sorry"}}
    last = (await _events(START, *block(0, TEXT, text("a")), error, STOP))[-1]
    assert isinstance(last, Error)
    assert (last.error_kind, last.error_message) == (kind, "Sorry")


async def test_an_error_without_a_type_of_its_frame_is_one() -> None:
    error = {"error": {"type": "overloaded_error", "message": "Sorry"}}
    last = (await _events(START, *block(0, TEXT, text("a")), error))[-1]
    assert isinstance(last, Error)
    assert (last.error_kind, last.error_message) == (Kind.OVERLOADED, "Sorry")


async def test_a_frame_that_does_not_parse_leaves_a_part_of_the_answer() -> None:
    good = body(START, *block(0, TEXT, text("a")))
    bad = b'event: content_block_delta\ndata: {"type": "content_block_delta", "index": \n\n'
    events = await drive_bytes(PROVIDER, "any", [good, bad, body(ended(), STOP)])
    assert [event.code for event in events if isinstance(event, Notice)] == ["malformed_frame"]
    assert isinstance(events[-1], Error)
    assert events[-1].code == "damaged_frame"


# -- answers that are not streamed -----------------------------------------------------------

WHOLE = {
    "type": "message",
    "id": "msg_1",
    "model": "claude",
    "role": "assistant",
    "content": [
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "ZW5j"},
        {"type": "text", "text": "Hello", "citations": [CITATION]},
        {**SERVER_TOOL, "input": {"query": "x"}},
        {**TOOL, "input": {"at": 1}},
    ],
    "stop_reason": "tool_use",
    "usage": {"input_tokens": 3, "output_tokens": 4},
}


async def _ask_whole(data: dict[str, Any], status: int = 200) -> tuple[Any, MemoryHTTPClient]:
    http = MemoryHTTPClient(MemoryResponse.of_json(data, status))
    async with (
        client_with(http=http, api_key="test", retry=RetryPolicy.none()) as client,
        client.stream("anthropic/any", "Hi", transport="buffered") as stream,
    ):
        events = [event async for event in stream]
    return (stream.message, events[-1]), http


async def test_a_whole_answer_becomes_the_message_that_its_stream_would() -> None:
    (message, last), http = await _ask_whole(WHOLE)
    assert http.bodies[0]["stream"] is False
    assert message.content == [
        ThinkingBlock("hm", "c2ln"),
        ThinkingBlock("", "ZW5j", redacted=True),
        TextBlock("Hello", {"citations": [CITATION]}),
        ExtensionBlock("anthropic", "server_tool_use", {**SERVER_TOOL, "input": {"query": "x"}}),
        ToolCallBlock("t1", "look", {"at": 1}, '{"at":1}'),
    ]
    assert isinstance(last, Done)
    assert last.usage == Usage(3, 4, total=7, reported=True)
    assert (last.stop_reason, last.response_id, last.model) == ("tool_use", "msg_1", "claude")


async def test_an_error_instead_of_a_whole_answer() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    (_, last), _ = await _ask_whole(error)
    assert isinstance(last, Error)
    assert last.error_kind is Kind.OVERLOADED


async def test_something_else_instead_of_a_whole_answer_is_no_answer() -> None:
    (_, last), _ = await _ask_whole({"hello": "world"})
    assert isinstance(last, Error)
    assert last.error_kind is Kind.NETWORK


@pytest.mark.parametrize(("model", "factor"), [("claude-opus-5-5", 1.1), ("claude-opus-4-5", 1.0)])
def test_inference_in_the_united_states_alone_costs_more_of_newer_models(
    model: str, factor: float
) -> None:
    info = Catalog(Host()).resolve(f"anthropic/{model}").info
    assert info is not None
    anywhere, there = (
        cost_of(Usage(5_000, 2_000, 1_000, 0, extra=extra), info.prices)
        for extra in ({}, {"inference_geo": "us"})
    )
    assert anywhere is not None
    assert there is not None
    assert there.total == pytest.approx((anywhere.total or 0) * factor)
