"""Several answers to one request: the first is the message, the others are extensions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from generate_content import SSE, body, call, frame, text, thought

from swink_core import (
    AssistantMessage,
    AssistantMessageEvent,
    Context,
    Done,
    Error,
    ExtensionBlock,
    Notice,
    RetryPolicy,
    StopReason,
    Tool,
    UserMessage,
)
from swink_core import StreamErrorKind as Kind
from swink_core.providers import HTTPRequest, HTTPResponse
from swink_testing.calls import client_with
from swink_testing.driver import MemoryHTTPClient, MemoryResponse, fold

MODEL = "gemini/gemini-2.5-flash"


def asks_for(count: Any) -> dict[str, Any]:
    return {"generationConfig": {"candidateCount": count}}


def candidate(index: int | None, *parts: Any, finish: str = "STOP", **more: Any) -> Any:
    said = frame(*parts, finish=finish, **more)["candidates"][0]
    return said if index is None else {**said, "index": index}


def response(*candidates: Any) -> dict[str, Any]:
    usage = {"promptTokenCount": 3, "candidatesTokenCount": 9, "totalTokenCount": 12}
    return {"candidates": list(candidates), "usageMetadata": usage, "responseId": "r1"}


ONE = candidate(0, text("One"))


async def read(
    answer: Any, count: Any = 3, model: str = MODEL, context: Any = "Hi", **options: Any
) -> tuple[MemoryHTTPClient, list[AssistantMessageEvent]]:
    """Read an answer, or a stream of frames, to a request for `count` answers."""
    made = answer if isinstance(answer, MemoryResponse) else MemoryResponse.of_json(answer)
    http = MemoryHTTPClient(made)
    options = {"retry": RetryPolicy.none(), "extra": asks_for(count), **options}
    async with (
        client_with(http=http, api_key="AIza-test") as client,
        client.stream(model, context, **options) as stream,
    ):
        return http, [event async for event in stream]


def choices_of(message: AssistantMessage) -> list[Any]:
    return [
        block.data
        for block in message.content
        if isinstance(block, ExtensionBlock) and block.kind == ExtensionBlock.CHOICE
    ]


def notices(events: list[AssistantMessageEvent]) -> list[str]:
    return [event.code for event in events if isinstance(event, Notice)]


OTHERS: list[tuple[str, Any]] = [
    ("text", candidate(1, text("Two"))),
    ("thoughts and a signature",
     candidate(1, thought("Hm."), text("Two", thoughtSignature="c2lnbmVk"))),
    ("a call", candidate(1, call("look", {"at": "Rome"}))),
    ("a limit", candidate(1, text("Tw"), finish="MAX_TOKENS")),
    ("a filter without content",
     {"index": 1, "finishReason": "SAFETY", "safetyRatings": [{"category": "C", "blocked": True}]}),
    ("a call with an unknown form", candidate(1, {"functionCall": "look"})),
    ("unknown fields", candidate(1, text("Two"), mood={"calm": [1, None]}, avgLogprobs=-0.5)),
]  # fmt: skip


@pytest.mark.parametrize("other", [row[1] for row in OTHERS], ids=[row[0] for row in OTHERS])
@pytest.mark.parametrize("model", [MODEL, "vertex/gemini-2.5-flash"])
async def test_the_other_candidates_are_kept_unchanged(model: str, other: Any) -> None:
    third = candidate(2, text("Three"))
    for candidates in ([ONE, other, third], [other, third, ONE], [candidate(None, text("One")),
                       other, third]):  # fmt: skip
        http, events = await read(response(*candidates), model=model)
        message = fold(events)
        assert (message.text, message.stop_reason) == ("One", StopReason.STOP)
        assert choices_of(message) == [other, third]
        assert message.usage is not None
        assert message.usage.output == 9
        assert notices(events) == ["buffered"]
        [request] = http.requests
        assert request.url.endswith(":generateContent")
        assert http.bodies[0]["generationConfig"]["candidateCount"] == 3


async def test_without_a_request_for_several_only_the_first_candidate_is_used() -> None:
    whole = response(ONE, candidate(1, text("Two")))
    _, events = await read(whole, count=None, transport="buffered")
    assert (fold(events).text, choices_of(fold(events))) == ("One", [])
    assert notices(events) == ["other_choices"]


async def test_fewer_candidates_than_requested_are_an_answer() -> None:
    for candidates in ([ONE], [ONE, candidate(1, text("Two"))]):
        _, events = await read(response(*candidates), count=8)
        assert isinstance(events[-1], Done)
        assert choices_of(fold(events)) == candidates[1:]


@pytest.mark.parametrize("count", [None, 1, 1.0, "1"])
async def test_one_answer_is_streamed(count: Any) -> None:
    answer = MemoryResponse([body(frame(text("One"), finish="STOP"))], 200, SSE)
    http, events = await read(answer, count)
    assert http.requests[0].url.endswith(":streamGenerateContent?alt=sse")
    assert fold(events).text == "One"
    assert not notices(events)


async def test_names_of_tools_are_the_callers() -> None:
    name = "look at/it"
    context = Context([UserMessage("Hi")], tools=[Tool(name, "Look.")])
    sent = []

    class Vendor(MemoryHTTPClient):
        async def send(self, request: HTTPRequest, connect_timeout: float | None) -> HTTPResponse:
            [tool] = json.loads(request.body or b"")["tools"]
            sent.append(tool["functionDeclarations"][0]["name"])
            parts = call(sent[0], {}), call("another")
            self.answer(
                MemoryResponse.of_json(response(*(candidate(at, *parts) for at in range(2))))
            )
            return await super().send(request, connect_timeout)

    async with (
        client_with(http=Vendor(), api_key="AIza-test") as client,
        client.stream(MODEL, context, extra=asks_for(2)) as stream,
    ):
        message = await stream.result()
    assert sent != [name]
    assert message.tool_calls[0].name == name
    [other] = choices_of(message)
    names = [part["functionCall"]["name"] for part in other["content"]["parts"]]
    assert names == [name, "another"]


async def test_a_failed_first_candidate_fails_the_answer() -> None:
    failed = candidate(0, finish="MALFORMED_FUNCTION_CALL")
    _, events = await read(response(failed, candidate(1, text("Two"))))
    assert isinstance(events[-1], Error)
    assert events[-1].error_kind is Kind.EMPTY_RESPONSE
    assert not choices_of(fold(events))


async def test_the_other_answers_are_not_sent_back() -> None:
    _, events = await read(response(ONE, candidate(1, text("Two"))))
    answer = fold(events, "gemini")
    conversation = [UserMessage("Hi"), answer, UserMessage("More")]
    http, events = await read(response(ONE), context=conversation)
    turns = [turn["parts"] for turn in http.bodies[0]["contents"]]
    assert turns == [[text("Hi")], [text("One")], [text("More")]]
    [notice] = [e for e in events if isinstance(e, Notice) and e.code == "content_left_out"]
    assert notice.paths == ("messages[1].content[1]",)


async def test_a_stream_that_the_caller_chose_has_only_the_first_answer() -> None:
    frames = frame(text("One"), finish="STOP"), {"candidates": [candidate(1, text("Two"))]}
    http, events = await read(MemoryResponse([body(*frames)], 200, SSE), transport="sse")
    assert http.requests[0].url.endswith(":streamGenerateContent?alt=sse")
    assert notices(events) == ["other_choices"]
    assert not choices_of(fold(events))
