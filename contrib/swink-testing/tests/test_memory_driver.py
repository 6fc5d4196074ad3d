"""Bytes through a provider, with no network: alone, and below a whole client."""

from __future__ import annotations

from typing import Any

import pytest

from swink_core import (
    AssistantMessage,
    Client,
    Done,
    Error,
    Failure,
    ProviderFailure,
    RetryPolicy,
    Start,
    StopReason,
    StreamErrorKind,
    StreamOptions,
    TextBlock,
    ToolCallBlock,
    Usage,
)
from swink_core.providers import SSEDecoder, is_synthetic_id
from swink_core.vocabulary import events as ev
from swink_recorder.recording import Recording
from swink_testing.acme import AcmeProvider, acme_host
from swink_testing.calls import client_with
from swink_testing.chunking import chunkings, every_cut, frame_ends, truncations, whole
from swink_testing.driver import (
    MemoryHTTPClient,
    MemoryResponse,
    comparable,
    comparable_events,
    drive_bytes,
    fold,
    run_bytes,
)

BODY = (
    b'data: {"text": "Gr\xc3\xbc\xc3\x9fe"}\n\n: ping\n\ndata: {"text": "!"}\r\n\r\n'
    b'data: {"call": "add", "arguments": "{\\"a\\": 1}"}\n\ndata: {"stop": "stop"}\n\n'
)
SSE = {"Content-Type": "text/event-stream"}


def events_of(*chunks: bytes, **options: Any) -> list[ev.AssistantMessageEvent]:
    return run_bytes(AcmeProvider("acme"), "large", chunks, **options)


def test_bytes_become_events_and_events_a_message() -> None:
    events = events_of(BODY)

    assert isinstance(events[0], Start)
    assert comparable(fold(events, "acme", "large")) == AssistantMessage(
        [
            TextBlock("Grüße!"),
            ToolCallBlock("swink_call_any_0", "add", {"a": 1}, '{"a": 1}'),
        ],
        provider="acme",
        model="large",
        usage=Usage(1, 2, total=3, reported=True),
        stop_reason=StopReason.TOOL_USE,
    )


def test_events_are_the_same_for_every_chunking() -> None:
    expected = events_of(BODY)

    for name, pieces in chunkings(BODY, SSEDecoder):
        assert events_of(*pieces) == expected, name
    for pieces in every_cut(BODY):
        assert events_of(*pieces) == expected, pieces


def test_a_truncated_stream_is_done_only_after_its_completing_frame() -> None:
    ends = [events_of(cut.body)[-1] for cut in truncations(BODY, frame_ends(BODY, SSEDecoder))]

    assert [type(end) for end in ends] == [Error] * 4 + [Done]
    assert {end.error_kind for end in ends[:-1]} == {StreamErrorKind.NETWORK}


def test_failures_are_classified_by_the_provider_first() -> None:
    events = events_of(b'data: {"error": "busy"}\n\n', b'data: {"error": "odd"}\n\n')
    other = events_of(b'data: {"error": "odd"}\n\n')

    assert events[-1].error_kind is StreamErrorKind.OVERLOADED
    assert events[-1].title == "acme is overloaded"
    assert other[-1].error_kind is StreamErrorKind.UNKNOWN


@pytest.mark.parametrize(
    ("malformed", "end"), [(None, Error), ("read_on", Error), ("skip", Done), ("fail", Error)]
)
def test_options_decide_about_malformed_frames(malformed: Any, end: type) -> None:
    body = b'data: {"text": 1}\n\n' + BODY

    events = events_of(body, options=StreamOptions(malformed=malformed))

    assert type(events[-1]) is end


async def test_a_coroutine_drives_bytes_in_its_own_loop() -> None:
    events = await drive_bytes(AcmeProvider("acme"), "large", whole(BODY))

    assert fold(events).text == "Grüße!"


def test_made_up_ids_are_numbered_and_others_kept() -> None:
    events = [
        ev.ToolCallStart(0, "swink_call_6f_1_0", "a"),
        ev.ToolCallStart(1, "toolu_1", "b"),
        ev.ToolCallStart(2, "swink_call_6f_1_2", "c"),
    ]

    renamed = comparable_events(events)

    assert [event.id for event in renamed] == ["swink_call_any_0", "toolu_1", "swink_call_any_1"]
    assert is_synthetic_id(renamed[0].id)
    assert events[0].id == "swink_call_6f_1_0"


# -- below a client --------------------------------------------------------------------------


def client(http: MemoryHTTPClient) -> Client:
    return client_with(
        host=acme_host(),
        http=http,
        api_key="key-1234567",
        base_url="https://acme.example",
        retry=RetryPolicy.none(),
    )


async def test_a_client_runs_on_answers_from_memory() -> None:
    response = MemoryResponse(whole(BODY), headers=SSE)
    http = MemoryHTTPClient(response)

    message = await client(http).complete("acme/large", "Hello")

    assert message.text == "Grüße!"
    assert response.closed
    assert http.bodies == [{"model": "large", "messages": 1}]
    assert http.requests[0].url == "https://acme.example/chat"
    assert http.requests[0].headers["Authorization"] == "Bearer key-1234567"


async def test_answers_come_in_order() -> None:
    answers = [
        MemoryResponse([b'data: {"text": "%d"}\n\ndata: {"stop": "stop"}\n\n' % n], headers=SSE)
        for n in range(2)
    ]
    acme = client(MemoryHTTPClient(*answers))

    assert [(await acme.complete("acme/large", "Hello")).text for _ in range(2)] == ["0", "1"]


REFUSALS: list[tuple[str, MemoryResponse | Exception, StreamErrorKind]] = [
    (
        "an HTTP error",
        MemoryResponse.of_json({"error": {"message": "no"}}, 401),
        StreamErrorKind.AUTH,
    ),
    (
        "a code of the provider's",
        MemoryResponse.of_json({"error": {"code": "busy"}}, 400),
        StreamErrorKind.OVERLOADED,
    ),
    (
        "no connection",
        ProviderFailure(Failure("connect", kind=StreamErrorKind.NETWORK, code="dns")),
        StreamErrorKind.NETWORK,
    ),
    (
        "a connection that breaks in the middle",
        MemoryResponse(
            [BODY[:20]],
            headers=SSE,
            error=ProviderFailure(Failure("streaming", kind=StreamErrorKind.NETWORK, code="cut")),
        ),
        StreamErrorKind.NETWORK,
    ),
]


@pytest.mark.parametrize(
    ("answer", "kind"), [row[1:] for row in REFUSALS], ids=[row[0] for row in REFUSALS]
)
async def test_failures_from_memory_are_failures(
    answer: MemoryResponse | Exception, kind: StreamErrorKind
) -> None:
    async with client(MemoryHTTPClient(answer)).stream("acme/large", "Hello") as stream:
        events = [event async for event in stream]

    assert events[-1].error_kind is kind


async def test_a_request_too_many_fails_the_test() -> None:
    with pytest.raises(AssertionError, match=r"request 1 was not expected: https://acme\.example"):
        await MemoryHTTPClient().send(_request(), None)


def _request() -> Any:
    from swink_core.providers import HTTPRequest

    return HTTPRequest("https://acme.example")


@pytest.mark.parametrize("chunks", [None, whole(BODY)], ids=["as recorded", "cut otherwise"])
async def test_a_recording_is_answered_from_memory(chunks: list[bytes] | None) -> None:
    recording = Recording("acme", "large", BODY, [(0.0, 7), (0.5, len(BODY) - 7)], headers=SSE)
    http = MemoryHTTPClient(MemoryResponse.of_recording(recording, chunks))
    reads: list[bytes] = []

    async with client(http).stream("acme/large", "Hello") as stream:
        stream.call.taps.append(lambda _, __, data: reads.append(data))
        message = await stream.result()

    assert message.text == "Grüße!"
    assert reads == (chunks or [BODY[:7], BODY[7:]])


async def test_empty_chunks_are_not_the_end_of_a_body() -> None:
    response = MemoryResponse([b"", b"a", b"", b"b"])

    assert [piece async for piece in response] == [b"a", b"b"]


def test_headers_are_looked_up_without_regard_to_case() -> None:
    assert MemoryResponse.of_json([]).headers["content-TYPE"] == "application/json"
