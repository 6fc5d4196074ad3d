"""The lines of Ollama's answers."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from swink_core import (
    AssistantMessage,
    AssistantMessageEvent,
    Client,
    Context,
    Done,
    Error,
    Notice,
    RetryPolicy,
    StopReason,
    StreamErrorKind,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from swink_core.providers import is_synthetic_id
from swink_provider_ollama import OllamaProvider
from swink_testing.driver import (
    MemoryHTTPClient,
    MemoryResponse,
    comparable,
    fold,
    run_bytes,
)

PROVIDER = OllamaProvider("ollama")
END = {"done": True, "done_reason": "stop"}


def _lines(*lines: Any) -> bytes:
    return b"".join(
        (line if isinstance(line, bytes) else msgspec.json.encode(line)) + b"\n" for line in lines
    )


def _events(*lines: Any) -> list[AssistantMessageEvent]:
    return run_bytes(PROVIDER, "qwen3:4b", [_lines(*lines)])


def _message(*lines: Any) -> AssistantMessage:
    return fold(_events(*lines))


def _says(content: str = "", **more: Any) -> dict[str, Any]:
    return {"message": {"role": "assistant", "content": content, **more}, "done": False}


def _calls(*functions: dict[str, Any], **more: Any) -> dict[str, Any]:
    return _says(tool_calls=[{"function": function, **more} for function in functions])


STOPS = [
    ("stop", StopReason.STOP),
    ("length", StopReason.LENGTH),
    (None, StopReason.STOP),
]


@pytest.mark.parametrize(("reason", "expected"), STOPS)
def test_the_last_line_says_why_it_ended(reason: str | None, expected: StopReason) -> None:
    assert _message(_says("Hi"), {**END, "done_reason": reason}).stop_reason is expected


def test_an_unknown_reason_is_reported_as_such() -> None:
    events = _events(_says("Hi"), {**END, "done_reason": "tired"})
    (notice,) = [event for event in events if isinstance(event, Notice)]
    assert (notice.code, "tired" in notice.detail) == ("stop_reason", True)
    assert isinstance(events[-1], Done)
    assert events[-1].stop_reason is StopReason.STOP


CALLS: list[tuple[str, list[Any], list[tuple[str | None, str, dict[str, Any], str]]]] = [
    (
        "one without an id",
        [_calls({"name": "weather", "arguments": {"city": "Rome"}})],
        [(None, "weather", {"city": "Rome"}, '{"city":"Rome"}')],
    ),
    (
        "two of the same name in one line",
        [_calls({"name": "f", "arguments": {"n": 1}}, {"name": "f", "arguments": {"n": 2}})],
        [(None, "f", {"n": 1}, '{"n":1}'), (None, "f", {"n": 2}, '{"n":2}')],
    ),
    (
        "two alike in two lines",
        [_calls({"name": "f", "arguments": {}}), _calls({"name": "f", "arguments": {}})],
        [(None, "f", {}, "{}"), (None, "f", {}, "{}")],
    ),
    (
        "an index that repeats tells nothing",
        [
            _calls({"name": "f", "arguments": {"n": 1}, "index": 0}, id="call_1"),
            _calls({"name": "f", "arguments": {"n": 2}, "index": 0}, id="call_2"),
        ],
        [("call_1", "f", {"n": 1}, '{"n":1}'), ("call_2", "f", {"n": 2}, '{"n":2}')],
    ),
    (
        "arguments as text, as some proxies send them",
        [_calls({"name": "f", "arguments": '{"n": 1}'})],
        [(None, "f", {"n": 1}, '{"n": 1}')],
    ),
    ("no arguments", [_calls({"name": "f"})], [(None, "f", {}, "")]),
    ("null for arguments", [_calls({"name": "f", "arguments": None})], [(None, "f", {}, "")]),
]


@pytest.mark.parametrize(("name", "lines", "expected"), CALLS, ids=[row[0] for row in CALLS])
def test_tool_calls_come_whole(name: str, lines: list[Any], expected: list[Any]) -> None:
    message = _message(*lines, END)
    calls = message.tool_calls
    assert [
        (None if is_synthetic_id(c.id) else c.id, c.name, c.arguments, c.raw_arguments or "")
        for c in calls
    ] == expected
    assert len({call.id for call in calls}) == len(calls)
    assert message.stop_reason is StopReason.TOOL_USE  # although the server says stop


def test_tool_calls_cut_by_the_limit_end_with_length() -> None:
    message = _message(_calls({"name": "f", "arguments": {}}), {**END, "done_reason": "length"})
    assert message.stop_reason is StopReason.LENGTH


def test_reasoning_text_and_calls_are_blocks_in_their_order() -> None:
    message = comparable(
        _message(
            _says(thinking="Hm"),
            _says(thinking="."),
            _says("Let me "),
            _says("see."),
            _calls({"name": "f", "arguments": {}}, id="call_1"),
            END,
        )
    )
    assert message.content == [
        ThinkingBlock("Hm."),
        TextBlock("Let me see."),
        ToolCallBlock("call_1", "f", {}, "{}"),
    ]


def test_counts_are_tokens_and_durations_nanoseconds() -> None:
    last = {**END, "prompt_eval_count": 17, "eval_count": 50.0, "total_duration": 1897385625}
    usage = _message({**_says("Hi"), "model": "qwen3:4b"}, last).usage
    assert usage is not None
    assert (usage.input, usage.output, usage.total) == (17, 50, 67)
    assert usage.extra == {"total_duration": 1897385625}


def test_a_prompt_count_that_is_missing_is_unknown() -> None:
    usage = _message(_says("Hi"), {**END, "eval_count": 2}).usage
    assert usage is not None
    assert (usage.input, usage.output, usage.total) == (None, 2, None)


def test_the_answering_model_is_told() -> None:
    assert _message({**_says("Hi"), "model": "qwen3:4b-q4"}, END).model == "qwen3:4b-q4"


def test_an_end_without_done_is_a_failure_that_keeps_the_text() -> None:
    message = _message(_says("Hel"))
    assert message.error_kind is StreamErrorKind.NETWORK
    assert message.text == "Hel"


def test_the_last_line_may_lack_its_newline() -> None:
    body = _lines(_says("Hi"), END).rstrip()
    assert fold(run_bytes(PROVIDER, "m", [body])).stop_reason is StopReason.STOP


def test_lines_of_unknown_fields_say_nothing() -> None:
    message = _message({"status": "loading", "done": False}, _says("Hi"), END)
    assert message.content == [TextBlock("Hi")]


def test_a_line_of_something_else_is_noise() -> None:
    events = _events(_says("Hi"), b"<html>", END)
    assert [event.code for event in events if isinstance(event, Notice)] == ["noise"]
    assert isinstance(events[-1], Done)


@pytest.mark.parametrize("reason", ["load", "unload"])
def test_a_model_that_was_only_loaded_is_the_requests_fault(reason: str) -> None:
    # retrying would load it again: there was no message to answer
    message = _message({**_says(""), "done": True, "done_reason": reason})
    assert message.error_kind is StreamErrorKind.INVALID_REQUEST
    assert "no user message" in (message.error_message or "")


IN_STREAM = [
    (
        "an error was encountered while running the model: unexpected EOF",
        StreamErrorKind.NETWORK,
    ),
    ("llama runner process no longer running: -1", StreamErrorKind.NETWORK),
    ("model runner has unexpectedly stopped", StreamErrorKind.NETWORK),
    ("you (me) have reached your weekly usage limit", StreamErrorKind.QUOTA_EXHAUSTED),
    ("the input length exceeds the context length", StreamErrorKind.CONTEXT_WINDOW_EXCEEDED),
    ("something new", StreamErrorKind.UNKNOWN),
]


@pytest.mark.parametrize(("error", "kind"), IN_STREAM)
@pytest.mark.parametrize("wrap", [str, lambda text: {"message": text, "code": 500}])
def test_an_error_line_ends_the_stream(error: str, kind: StreamErrorKind, wrap: Any) -> None:
    events = _events(_says("Hel"), {"error": wrap(error)}, _says("lo"))
    assert isinstance(events[-1], Error)
    assert (events[-1].error_kind, events[-1].error_message) == (kind, error)
    assert fold(events).text == "Hel"


HTTP_ERRORS: list[tuple[int, Any, StreamErrorKind, str]] = [
    (404, "model 'm' not found", StreamErrorKind.MODEL_NOT_FOUND, "`ollama pull` downloads"),
    (
        404,
        'model "m" not found, try pulling it first',
        StreamErrorKind.MODEL_NOT_FOUND,
        "`ollama pull` downloads",
    ),
    (
        400,
        "registry.ollama.ai/library/gemma3:4b does not support tools",
        StreamErrorKind.UNSUPPORTED,
        "does not support tools",
    ),
    (400, '"llama3.2" does not support thinking', StreamErrorKind.UNSUPPORTED, "thinking"),
    (400, "invalid options", StreamErrorKind.INVALID_REQUEST, "invalid options"),
    (
        400,
        "the input length exceeds the context length",
        StreamErrorKind.CONTEXT_WINDOW_EXCEEDED,
        "input length",
    ),
    (
        400,
        "request (9000 tokens) exceeds the available context size (4096 tokens)",
        StreamErrorKind.CONTEXT_WINDOW_EXCEEDED,
        "4096",
    ),
    (401, "unauthorized", StreamErrorKind.AUTH, "unauthorized"),
    (
        403,
        "this model requires a subscription, upgrade for access",
        StreamErrorKind.MODEL_NOT_FOUND,
        "subscription",
    ),
    (
        429,
        "you (me) have reached your session usage limit, upgrade for higher limits",
        StreamErrorKind.QUOTA_EXHAUSTED,
        "session",
    ),
    (429, "too many concurrent requests", StreamErrorKind.THROTTLED, "concurrent"),
    (
        500,
        "model requires more system memory (5.6 GiB) than is available (3.1 GiB)",
        StreamErrorKind.RESOURCE,
        "5.6 GiB",
    ),
    (500, "llama runner process has terminated: exit status 2", StreamErrorKind.NETWORK, "exit"),
    (
        503,
        "server busy, please try again.  maximum pending requests exceeded",
        StreamErrorKind.OVERLOADED,
        "busy",
    ),
]


@pytest.mark.parametrize(
    ("status", "error", "kind", "says"), HTTP_ERRORS, ids=[row[1][:40] for row in HTTP_ERRORS]
)
async def test_http_errors(status: int, error: str, kind: StreamErrorKind, says: str) -> None:
    final = await _error(MemoryResponse.of_json({"error": error}, status))
    assert final.error_kind is kind
    assert says in final.error_message


async def test_no_command_has_in_it_what_somebody_typed() -> None:
    typed = "lama3; rm -rf ~"
    final = await _error(MemoryResponse.of_json({"error": f"model '{typed}' not found"}, 404))
    assert "ollama pull" in final.error_message
    assert final.error_message.count(typed) == 1  # where the server says what it lacks


async def test_a_wrong_path_is_not_a_missing_model() -> None:
    page = MemoryResponse([b"404 page not found"], 404, {"Content-Type": "text/plain"})
    assert (await _error(page)).error_kind is StreamErrorKind.INVALID_REQUEST


async def _error(answer: MemoryResponse) -> Error:
    async with (
        Client(http=MemoryHTTPClient(answer), retry=RetryPolicy.none()) as client,
        client.stream("ollama/m", "Hi") as stream,
    ):
        events = [event async for event in stream]
    assert isinstance(events[-1], Error)
    return events[-1]


@pytest.mark.parametrize("transport", ["auto", "buffered"])
async def test_an_answer_may_be_asked_for_whole(transport: str) -> None:
    answer = {**_calls({"name": "f", "arguments": {"n": 1}}), **END, "eval_count": 3}
    answer["message"] |= {"content": "Hi.", "thinking": "Hm."}
    http = MemoryHTTPClient(MemoryResponse.of_json(answer))
    async with Client(http=http) as client:
        message = await client.complete("ollama/m", "Hi", transport=transport)
    assert http.bodies[0]["stream"] is (transport == "auto")
    assert (message.thinking, message.text, message.tool_calls[0].arguments) == (
        "Hm.",
        "Hi.",
        {"n": 1},
    )


async def test_the_second_turn_carries_what_the_first_one_said() -> None:
    first = _lines(
        _says(thinking="I need both."),
        _says("One moment."),
        _calls({"name": "weather", "arguments": {"y": 1.0, "city": "Rom\u00e9"}}, id="call_a"),
        _calls({"name": "weather", "arguments": {"city": "Oslo"}}),
        END,
    )
    http = MemoryHTTPClient(
        MemoryResponse([first], headers={"Content-Type": "application/x-ndjson"}),
        MemoryResponse.of_json({**_says("Sunny."), **END}),
    )
    conversation: list[Any] = [UserMessage("Weather?")]
    async with Client(http=http) as client:
        answer = await client.complete("ollama/m", Context(conversation))
        conversation.append(answer)
        conversation += [ToolResultMessage(c.id, c.name, "sunny") for c in answer.tool_calls]
        await client.complete("ollama/m", Context(conversation))
    _, assistant, *results = http.bodies[1]["messages"]
    assert assistant == {
        "role": "assistant",
        "content": "One moment.",
        "thinking": "I need both.",
        "tool_calls": [
            {
                "function": {"name": "weather", "arguments": {"y": 1.0, "city": "Rom\u00e9"}},
                "id": "call_a",
            },
            {"function": {"name": "weather", "arguments": {"city": "Oslo"}}},
        ],
    }
    # as the model wrote them: order, and numbers that are not whole
    assert b'{"y":1.0,"city":"Rom\xc3\xa9"}' in http.requests[1].body
    assert results == [
        {"role": "tool", "tool_name": "weather", "content": "sunny", "tool_call_id": "call_a"},
        {"role": "tool", "tool_name": "weather", "content": "sunny"},
    ]
