"""Several answers to one request (`n`): the first is the message, the others are extensions."""

from __future__ import annotations

import json
import random
import warnings
from typing import Any

import pytest
from chat_cases import STREAMS

from swink_core import (
    AssistantMessage,
    AssistantMessageEvent,
    Done,
    Error,
    ExtensionBlock,
    Notice,
    RetryPolicy,
    StopReason,
    StreamOptions,
    UserMessage,
)
from swink_core import StreamErrorKind as Kind
from swink_provider_openai.several import answers_of
from swink_recorder.recording import Recording, bundled_recordings
from swink_testing.calls import client_with
from swink_testing.driver import MemoryHTTPClient, MemoryResponse, fold

Frame = dict[str, Any]

DONE = b"data: [DONE]\n\n"
SSE = {"Content-Type": "text/event-stream"}
CHAT = {"api": "chat"}
COUNTED: Frame = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 9}}


def says(index: int | float | None, finish: str | None = None, **delta: Any) -> Frame:
    """A piece of a choice."""
    return {"index": index, "delta": delta, "finish_reason": finish}


def frames_of(*pieces: Frame) -> list[Frame]:
    """Chunks with one choice each."""
    return [{"id": "r1", "model": "m1", "choices": [piece]} for piece in pieces]


def used(*pieces: Frame) -> list[Frame]:
    """Chunks with one choice each, and with usage."""
    return [{**frame, "usage": COUNTED["usage"]} for frame in frames_of(*pieces)]


def body_of(*frames: Frame, end: bytes = DONE) -> bytes:
    return b"".join(b"data: %s\n\n" % json.dumps(frame).encode() for frame in frames) + end


async def events_of(
    body: bytes | MemoryResponse, n: Any = 2, model: str = "openai/any", **options: Any
) -> list[AssistantMessageEvent]:
    """Read a response to a request for `n` answers."""
    answer = MemoryResponse([body], 200, SSE) if isinstance(body, bytes) else body
    http = MemoryHTTPClient(answer)
    options = {"settings": CHAT, "extra": {"n": n}, **options}
    async with (
        client_with(http=http, api_key="test", retry=RetryPolicy.none()) as client,
        client.stream(model, "Hello", **options) as stream,
    ):
        return [event async for event in stream]


def choices_of(message: AssistantMessage) -> list[Any]:
    return [
        block.data
        for block in message.content
        if isinstance(block, ExtensionBlock) and block.kind == ExtensionBlock.CHOICE
    ]


def notices(events: list[AssistantMessageEvent]) -> list[str]:
    return [event.code for event in events if isinstance(event, Notice)]


def call(index: int, id: str | None = None, name: str | None = None, arguments: str = "") -> Any:
    function = {"name": name, "arguments": arguments} if name else {"arguments": arguments}
    begins = {"id": id, "type": "function"} if id else {}
    return {"index": index, **begins, "function": function}


FIRST = [says(0, content="One"), says(0, "stop")]

MERGED: list[tuple[str, list[Frame], Frame]] = [
    ("text in pieces",
     [says(1, role="assistant", content=""), says(1, content="Tw"), says(1, content="o"),
      says(1, "stop")],
     {"message": {"role": "assistant", "content": "Two"}, "finish_reason": "stop"}),
    ("a role in each piece",
     [says(1, role="assistant", content="Tw"), says(1, "length", role="assistant", content="o")],
     {"message": {"role": "assistant", "content": "Two"}, "finish_reason": "length"}),
    ("a refusal",
     [says(1, content=None, refusal="I'm "), says(1, refusal="sorry."), says(1, "stop")],
     {"message": {"role": "assistant", "content": None, "refusal": "I'm sorry."},
      "finish_reason": "stop"}),
    ("a content filter",
     [says(1, content="Tw"),
      {**says(1, "content_filter"), "content_filter_results": {"hate": {"severity": "high"}}}],
     {"message": {"role": "assistant", "content": "Tw"}, "finish_reason": "content_filter",
      "content_filter_results": {"hate": {"severity": "high"}}}),
    ("reasoning",
     [says(1, reasoning_content="Hm"), says(1, reasoning_content="m."), says(1, content="Two"),
      says(1, "stop")],
     {"message": {"role": "assistant", "reasoning_content": "Hmm.", "content": "Two"},
      "finish_reason": "stop"}),
    ("details of reasoning with one index",
     [says(1, reasoning_details=[{"type": "reasoning.text", "index": 0, "text": "H"}]),
      says(1, reasoning_details=[
          {"type": "reasoning.text", "index": 0, "text": "m", "signature": "s"}]),
      says(1, reasoning_details=[{"type": "reasoning.encrypted", "index": 0, "data": "x"}]),
      says(1, "stop")],
     {"message": {"role": "assistant", "reasoning_details": [
         {"type": "reasoning.text", "index": 0, "text": "Hm", "signature": "s"},
         {"type": "reasoning.encrypted", "index": 0, "data": "x"}]},
      "finish_reason": "stop"}),
    ("calls that alternate",
     [says(1, content=None, tool_calls=[call(0, "a", "f")]),
      says(1, tool_calls=[call(1, "b", "g", "{")]), says(1, tool_calls=[call(0, arguments='{"x"')]),
      says(1, tool_calls=[call(1, arguments="}"), call(0, arguments=":1}")]),
      says(1, "tool_calls")],
     {"message": {"role": "assistant", "content": None, "tool_calls": [
         {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}},
         {"id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}}]},
      "finish_reason": "tool_calls"}),
    ("two calls with one index",
     [says(1, tool_calls=[call(0, "a", "f", "{}")]), says(1, tool_calls=[call(0, "b", "f", "{}")]),
      says(1, "tool_calls")],
     {"message": {"role": "assistant", "tool_calls": [
         {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}},
         {"id": "b", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
      "finish_reason": "tool_calls"}),
    ("log probabilities and sources",
     [{**says(1, content="Tw"), "logprobs": {"content": [{"token": "Tw"}], "refusal": None}},
      {**says(1, content="o", annotations=[{"url": "a"}]),
       "logprobs": {"content": [{"token": "o"}]}},
      says(1, annotations=[{"url": "b"}]), {**says(1, "stop"), "logprobs": None}],
     {"message": {"role": "assistant", "content": "Two",
                  "annotations": [{"url": "a"}, {"url": "b"}]},
      "logprobs": {"content": [{"token": "Tw"}, {"token": "o"}], "refusal": None},
      "finish_reason": "stop"}),
    ("a field that no table knows",
     [{**says(1, "stop", content="Two", mood=["calm"]), "matched": 7}],
     {"message": {"role": "assistant", "content": "Two", "mood": ["calm"]}, "matched": 7,
      "finish_reason": "stop"}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("pieces", "data"), [row[1:] for row in MERGED], ids=[r[0] for r in MERGED]
)
async def test_the_pieces_of_a_choice_become_the_choice_of_an_unstreamed_answer(
    pieces: list[Frame], data: Frame
) -> None:
    expected = {"index": 1, "logprobs": None, **data}
    orders = [[*FIRST, *pieces], [*pieces, *FIRST], [FIRST[0], *pieces, FIRST[1]]]
    for pieces_in_order in orders:
        events = await events_of(body_of(*frames_of(*pieces_in_order), COUNTED))
        message = fold(events)
        assert choices_of(message) == [expected]
        assert (message.text, len(message.content)) == ("One", 2)
        assert message.usage is not None
        assert message.usage.output == 9
        assert isinstance(events[-1], Done)
        assert events[-1].stop_reason is StopReason.STOP
        assert not notices(events)
    together = {"id": "r1", "model": "m1", "choices": [FIRST[0], *pieces]}
    last = {"choices": [FIRST[1]]}
    assert choices_of(fold(await events_of(body_of(together, last, COUNTED)))) == [expected]


async def test_choices_in_any_order_are_sorted_by_index() -> None:
    pieces = [says(at, content=f"{at}{letter}") for letter in "ab" for at in range(5)]
    ends = [says(at, "stop") for at in range(5)]
    for seed in range(10):
        chance = random.Random(seed)
        shuffled = sorted(
            pieces, key=lambda piece: (piece["delta"]["content"][-1], chance.random())
        )
        chance.shuffle(ends)
        message = fold(await events_of(body_of(*frames_of(*shuffled, *ends), COUNTED), n=5))
        assert message.text == "0a0b"
        found = [(data["index"], data["message"]["content"]) for data in choices_of(message)]
        assert found == [(at, f"{at}a{at}b") for at in range(1, 5)]


STREAMED = [says(0, content="One"), says(1, content="Two")]

# frames, the end of the body, whether the answer is complete
ENDINGS: list[tuple[str, list[Frame], bytes, bool]] = [
    ("all are finished, without [DONE]",
     frames_of(*STREAMED, says(0, "stop"), says(1, "stop")), b"", True),
    ("the other is finished first",
     frames_of(*STREAMED, says(1, "stop"), says(0, "stop")), b"", True),
    ("the other is cut", frames_of(*STREAMED, says(0, "stop")), b"", False),
    ("the other is cut, with [DONE]", frames_of(*STREAMED, says(0, "stop")), DONE, False),
    ("the first is cut", frames_of(*STREAMED, says(1, "stop")), b"", False),
    ("the other has no finish reason but usage",
     [*frames_of(*STREAMED, says(0, "stop")), COUNTED], DONE, True),
    ("the first has no finish reason but usage",
     [*frames_of(*STREAMED, says(1, "stop")), COUNTED], DONE, True),
    ("neither has a finish reason, and the usage is with an empty piece",
     [*frames_of(*STREAMED), *used(says(0, content=""))], DONE, True),
    ("the other is cut, with usage in every chunk",
     used(*STREAMED, says(0, "stop")), DONE, False),
    ("the first is cut, with usage in every chunk",
     used(*STREAMED, says(1, "stop")), DONE, False),
    ("both are cut, with usage in every chunk", used(*STREAMED), DONE, False),
    ("the other is cut after the usage",
     [*frames_of(says(0, content="One"), says(1, content="Tw"), says(0, "stop")), COUNTED,
      *frames_of(says(1, content="o"))], DONE, False),
    ("the first has no finish reason, and the other is cut after the usage",
     [*frames_of(says(0, content="One")), COUNTED, *frames_of(says(1, content="Two"))],
     DONE, False),
    ("the other has no finish reason and usage without output",
     [*frames_of(*STREAMED, says(0, "stop")), {"choices": [], "usage": {"prompt_tokens": 3}}],
     DONE, False),
    ("the other never begins, with [DONE]", frames_of(*FIRST), DONE, True),
    ("the other never begins, with usage", [*frames_of(*FIRST), COUNTED], b"", True),
    ("the other never begins", frames_of(*FIRST), b"", False),
    ("one after the other",
     frames_of(*FIRST, says(1, content="Two"), says(1, "stop")), b"", True),
]  # fmt: skip


@pytest.mark.parametrize(
    ("frames", "end", "is_complete"), [row[1:] for row in ENDINGS], ids=[r[0] for r in ENDINGS]
)
async def test_the_answer_is_complete_when_all_choices_are(
    frames: list[Frame], end: bytes, is_complete: bool
) -> None:
    events = await events_of(body_of(*frames, end=end))
    message = fold(events)
    assert message.text == "One"
    has_other = any(choice["index"] for frame in frames for choice in frame["choices"])
    assert [data["message"]["content"] for data in choices_of(message)] == ["Two"] * has_other
    if is_complete:
        assert isinstance(events[-1], Done)
        assert events[-1].stop_reason is StopReason.STOP
    else:
        assert isinstance(events[-1], Error)
        assert events[-1].error_kind is Kind.NETWORK


async def test_after_a_cut_everything_that_arrived_is_readable() -> None:
    whole = [
        *STREAMED,
        says(1, content="!"),
        says(0, content="?"),
        says(1, "stop"),
        says(0, "stop"),
    ]
    bodies = [body_of(*frames_of(*whole[:end]), end=b"") for end in range(1, len(whole))]
    for end, body in enumerate(bodies, 1):
        message = fold(await events_of(MemoryResponse([body], 200, SSE, ConnectionResetError())))
        assert message.stop_reason is StopReason.ERROR
        assert message.text == "".join(
            p["delta"].get("content", "") for p in whole[:end] if not p["index"]
        )
        said = "".join(p["delta"].get("content", "") for p in whole[:end] if p["index"])
        assert [data["message"]["content"] for data in choices_of(message)] == [said][: bool(said)]
        finished = [data["finish_reason"] for data in choices_of(message)]
        assert finished == ["stop" if end >= 5 else None][: bool(said)]


async def test_a_failure_in_the_stream_keeps_the_other_choices() -> None:
    error = {"error": {"message": "No", "code": "rate_limit_exceeded"}}
    events = await events_of(body_of(*frames_of(*STREAMED), error))
    assert [data["message"]["content"] for data in choices_of(fold(events))] == ["Two"]
    assert isinstance(events[-1], Error)
    assert events[-1].error_kind is Kind.THROTTLED


@pytest.mark.parametrize("finish", ["error", "error_finish"])
async def test_the_first_choice_may_fail_before_the_others_end(finish: str) -> None:
    events = await events_of(body_of(*frames_of(*STREAMED, says(0, finish, content="No"))))
    assert isinstance(events[-1], Error)
    assert events[-1].code == finish


async def test_a_choice_without_content_does_not_keep_a_failed_call_from_being_retried() -> None:
    begun = body_of(*frames_of(says(0, role="assistant", content=""), says(1, content="")), end=b"")
    whole = body_of(*frames_of(*FIRST, says(1, "stop", content="Two")))
    http = MemoryHTTPClient(*(MemoryResponse([body], 200, SSE) for body in (begun, whole)))
    retry = RetryPolicy(base=0.0)
    async with (
        client_with(http=http, api_key="test", retry=retry) as client,
        client.stream("openai/any", "Hi", settings=CHAT, extra={"n": 2}) as stream,
    ):
        events = [event async for event in stream]
    assert len(http.bodies) == 2
    assert len(choices_of(fold(events))) == 1


BAD_INDEXES: list[Any] = [2, 127, 128, 10**9, 1e308, -1, 1.5, "1", [1]]


@pytest.mark.parametrize("index", BAD_INDEXES, ids=repr)
async def test_an_index_that_was_not_requested_is_damage(index: Any) -> None:
    body = body_of(
        *frames_of(*STREAMED, says(index, content="x"), says(0, "stop"), says(1, "stop"))
    )
    events = await events_of(body)
    assert notices(events) == ["malformed_frame"]
    assert isinstance(events[-1], Error)
    assert events[-1].error_kind is Kind.PROTOCOL
    assert [data["index"] for data in choices_of(fold(events))] == [1]


async def test_data_nested_too_deep_is_damage() -> None:
    deep: Any = "x"
    for _ in range(110):
        deep = [deep]
    events = await events_of(body_of(*frames_of(*FIRST, says(1, content="Two", mood=deep))))
    assert "malformed_frame" in notices(events)
    assert isinstance(events[-1], Error)
    assert events[-1].error_kind is Kind.PROTOCOL


async def test_the_other_choices_count_towards_the_size_of_an_answer() -> None:
    pieces = [says(1, content="x" * 100) for _ in range(100)]
    body = b"".join(body_of(frame, end=b"") for frame in frames_of(says(0, content="One"), *pieces))
    chunks = [body[at : at + 500] for at in range(0, len(body), 500)]
    answer = MemoryResponse(chunks, 200, SSE)
    events = await events_of(answer, max_output_chars=5_000)
    assert isinstance(events[-1], Error)
    assert events[-1].error_kind is Kind.OUTPUT_TOO_LARGE
    [data] = choices_of(fold(events))
    assert 4_500 < len(data["message"]["content"]) < 5_500


WHOLE: Frame = {
    "id": "r1", "model": "m1", "usage": {"prompt_tokens": 3, "completion_tokens": 9},
    "choices": [
        {"index": 2, "message": {"role": "assistant", "content": None, "refusal": "No."},
         "logprobs": None, "finish_reason": "stop", "odd": {"a": [1, None]}},
        {"index": 0, "message": {"role": "assistant", "content": "One"}, "finish_reason": "stop"},
        {"index": 1, "finish_reason": "tool_calls", "message": {
            "role": "assistant", "content": None,
            "tool_calls": [{"id": "a", "type": "function",
                            "function": {"name": "f", "arguments": "{}"}}]}},
    ],
}  # fmt: skip


async def test_an_answer_that_is_not_streamed_keeps_its_choices_unchanged() -> None:
    answer = MemoryResponse.of_json(WHOLE)
    message = fold(await events_of(answer, n=3, transport="buffered"))
    assert (message.text, message.stop_reason) == ("One", StopReason.STOP)
    others = sorted(WHOLE["choices"], key=lambda choice: choice["index"])[1:]
    assert choices_of(message) == others


async def test_an_unstreamed_choice_that_was_not_requested_is_damage() -> None:
    events = await events_of(MemoryResponse.of_json(WHOLE), n=2, transport="buffered")
    assert isinstance(events[-1], Error)
    assert events[-1].error_kind is Kind.PROTOCOL


async def test_the_estimate_of_an_answer_without_usage_counts_all_choices() -> None:
    def body(other: str) -> bytes:
        pieces = [{**says(1, content=other), "logprobs": {"content": [{"token": "x" * 9_000}]}}]
        return body_of(*frames_of(*FIRST, *pieces, says(1, "stop")))

    costs = []
    for other in ("Two", "Two " * 1_000):
        message = fold(await events_of(body(other), model="openai/gpt-4.1", retired=True))
        assert message.cost is not None
        assert message.cost.estimated
        costs.append(message.cost.output or 0.0)
    short, long = costs
    assert long > 10 * short > 0


NUMBERS: list[tuple[Any, int]] = [
    (None, 1), (1, 1), (2, 2), (2.0, 2), ("3", 3), (0, 1), (-4, 1), (128, 128), (10**30, 128),
    (float("nan"), 1), (float("inf"), 128), ("many", 1), ([2], 1),
]  # fmt: skip


def test_the_number_of_answers_is_read_leniently() -> None:
    for value, count in NUMBERS:
        assert answers_of(StreamOptions(extra={"n": value})) == count, value
    assert answers_of(StreamOptions()) == 1


async def test_without_a_number_the_parser_reads_the_first_answer_alone() -> None:
    body = body_of(*frames_of(*STREAMED, says(0, "stop"), says(1, "stop")))
    for n in (None, 1):
        events = await events_of(body, n=n)
        assert notices(events) == ["other_choices"]
        assert not choices_of(fold(events))


@pytest.mark.parametrize(("model", "settings"), [("openai/gpt-4.1", CHAT), ("openai/gpt-5.4", {})])
@pytest.mark.filterwarnings("ignore")
async def test_other_answers_in_a_conversation_are_not_sent(model: str, settings: Any) -> None:
    body = body_of(*frames_of(*STREAMED, says(0, "stop"), says(1, "stop")))
    answer = fold(await events_of(body), "openai", "any")
    http = MemoryHTTPClient(MemoryResponse([body], 200, SSE))
    conversation = [UserMessage("Hi"), answer, UserMessage("More")]
    async with (
        client_with(http=http, api_key="test", retry=RetryPolicy.none()) as client,
        client.stream(model, conversation, settings=settings) as stream,
    ):
        events = [event async for event in stream]
    [sent] = http.bodies
    assert "One" in json.dumps(sent)
    assert "Two" not in json.dumps(sent)
    [notice] = [e for e in events if isinstance(e, Notice) and e.code == "content_left_out"]
    assert notice.paths == ("messages[1].content[1]",)


async def test_several_answers_are_requested_over_chat_completions() -> None:
    for n, place in ((1, "responses"), (2, "chat/completions")):
        http = MemoryHTTPClient(MemoryResponse([DONE], 200, SSE))
        async with (
            client_with(http=http, api_key="test", retry=RetryPolicy.none()) as client,
            client.stream("openai/gpt-5.4", "Hi", extra={"n": n}) as stream,
        ):
            events = [event async for event in stream]
        assert http.requests[0].url.endswith(f"/{place}")
        assert ("option_changed" in notices(events)) is (n == 2)


# -- OpenAI's SDK reads the same bytes -------------------------------------------------------------


def by_sdk(body: bytes) -> list[Any]:
    """Return the choices that OpenAI's SDK accumulates from a stream, except the first."""
    pytest.importorskip("openai", reason="OpenAI's SDK is not installed")
    from openai._models import construct_type
    from openai.lib.streaming.chat import ChatCompletionStreamState
    from openai.types.chat import ChatCompletionChunk

    state: Any = ChatCompletionStreamState()
    for line in body.split(b"\n"):
        data = line.removeprefix(b"data:").strip()
        if line.startswith(b"data:") and data != b"[DONE]":
            chunk = construct_type(type_=ChatCompletionChunk, value=json.loads(data))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                state.handle_chunk(chunk)
    found = state.current_completion_snapshot.choices
    return [choice.to_dict(mode="json") for choice in found if choice.index]


def _said(choice: Any) -> Any:
    """Return the content of a choice, without the SDK's own fields and empty ones."""
    unsaid = ("parsed", "role")  # the SDK adds no role to a choice whose chunks have none
    message = {n: v for n, v in choice["message"].items() if v is not None and n not in unsaid}
    for one in message.get("tool_calls", ()):
        one.pop("index", None)
        one["function"].pop("parsed_arguments", None)
    logprobs = {n: v for n, v in (choice.get("logprobs") or {}).items() if v}
    return choice["index"], message, logprobs, choice.get("finish_reason")


SDK_ROWS = [row for row in MERGED if row[0] not in (
    "a role in each piece",  # the SDK doubles the role
    "details of reasoning with one index",  # which the SDK merges although their types differ
    "two calls with one index",  # which the SDK merges to one call
        "log probabilities and sources",  # the SDK raises for sources without an index
)]  # fmt: skip


@pytest.mark.parametrize("pieces", [row[1] for row in SDK_ROWS], ids=[row[0] for row in SDK_ROWS])
async def test_openais_sdk_accumulates_the_same_choice(pieces: list[Frame]) -> None:
    frames = frames_of(FIRST[0], *pieces, FIRST[1])
    for frame in frames:
        frame |= {"object": "chat.completion.chunk", "created": 1}
    body = body_of(*frames)
    assert list(map(_said, choices_of(fold(await events_of(body))))) == list(
        map(_said, by_sdk(body))
    )


def recorded() -> dict[str, bytes]:
    """Return recorded streams with several choices by name."""
    own = {
        folder.name: Recording.load(folder).body
        for folder in bundled_recordings("swink_provider_openai")
        if folder.name == "several-answers"
    }
    found = {**own, **{case.name: case.body for case in STREAMS}}
    return {
        name: body
        for name, body in found.items()
        if b'"index":1,"delta"' in body.replace(b" ", b"")
    }


@pytest.mark.parametrize("name", recorded())
async def test_recorded_choices_are_read_as_openais_sdk_reads_them(name: str) -> None:
    body = recorded()[name]
    events = await events_of(body, n=3)
    assert isinstance(events[-1], Done)
    found = choices_of(fold(events))
    assert found
    read = by_sdk(body)
    for choice in (*found, *read):
        choice.pop("logprobs", None)  # the SDK repeats those of the first chunk of a choice
    assert list(map(_said, found)) == list(map(_said, read))
