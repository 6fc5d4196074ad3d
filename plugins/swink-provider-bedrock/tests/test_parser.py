"""The events of ConverseStream and the answers of Converse."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from converse import (
    METADATA,
    START,
    TEXT,
    USAGE,
    block,
    delta,
    encode,
    event,
    exception,
    said,
    stop,
    tool_use,
)
from hypothesis import given
from hypothesis import strategies as st

from swink_core import (
    AssistantMessage,
    AssistantMessageEvent,
    Done,
    Error,
    ExtensionBlock,
    Notice,
    RetryPolicy,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    Usage,
)
from swink_core import StreamErrorKind as Kind
from swink_core.vocabulary.grammar import Automaton
from swink_provider_bedrock import BedrockProvider
from swink_testing.calls import client_with
from swink_testing.driver import MemoryHTTPClient, MemoryResponse, fold, run_bytes

PROVIDER = BedrockProvider("bedrock")


def _events(body: bytes) -> list[AssistantMessageEvent]:
    return run_bytes(PROVIDER, "any", [body])


def _message(body: bytes) -> AssistantMessage:
    return fold(_events(body), "bedrock")


def _notices(body: bytes) -> list[Notice]:
    return [event for event in _events(body) if isinstance(event, Notice)]


def _error(body: bytes) -> Error:
    last = _events(body)[-1]
    assert isinstance(last, Error)
    return last


# -- blocks ----------------------------------------------------------------------------------

SIGNED = ({"reasoningContent": {"text": "Hm"}}, {"reasoningContent": {"signature": "c2ln"}})
REDACTED = base64.b64encode(b"hidden").decode()
CITATION = {"title": "a", "location": {"web": {"url": "https://a.example", "domain": "a.example"}}}
CODE = {"toolUseId": "s1", "name": "nova_code_interpreter", "type": "server_tool_use"}
RESULT = {"toolUseId": "s1", "type": "nova_code_interpreter_result", "status": "success"}

BLOCKS: list[tuple[str, bytes, list[Any]]] = [
    ("text without a start", TEXT, [TextBlock("Hello")]),
    ("text that is empty", block(0, {"text": ""}) + block(1, {"text": "a"}), [TextBlock("a")]),
    (
        "text in two blocks",
        block(0, {"text": "a"}) + block(1, {"text": "b"}),
        [TextBlock("a"), TextBlock("b")],
    ),
    (
        "blocks without a stop",
        delta(0, text="a") + delta(1, text="b"),
        [TextBlock("a"), TextBlock("b")],
    ),
    ("reasoning with a signature", block(0, *SIGNED), [ThinkingBlock("Hm", "c2ln")]),
    (
        "a signature in pieces",
        block(0, *SIGNED, {"reasoningContent": {"signature": "bmVk"}}),
        [ThinkingBlock("Hm", "c2lnbmVk")],
    ),
    (
        "signatures of two blocks",
        block(0, *SIGNED) + block(1, *SIGNED),
        [ThinkingBlock("Hm", "c2ln"), ThinkingBlock("Hm", "c2ln")],
    ),
    (
        "redacted reasoning",
        block(0, {"reasoningContent": {"redactedContent": REDACTED}}),
        [ThinkingBlock("", REDACTED, redacted=True)],
    ),
    (
        "redacted reasoning in pieces, each padded by itself",
        block(
            0,
            {"reasoningContent": {"redactedContent": base64.b64encode(b"hid").decode()}},
            {"reasoningContent": {"redactedContent": base64.b64encode(b"den").decode()}},
        ),
        [ThinkingBlock("", REDACTED, redacted=True)],
    ),
    (
        "a tool call in pieces",
        block(
            0,
            {"toolUse": {"input": ""}},
            {"toolUse": {"input": '{"a"'}},
            {"toolUse": {"input": ": 1}"}},
            start=tool_use("t1", "look"),
        ),
        [ToolCallBlock("t1", "look", {"a": 1}, '{"a": 1}')],
    ),
    (
        "a tool call without arguments",
        block(0, start=tool_use("t1", "look", type="tool_use")),
        [ToolCallBlock("t1", "look", {}, "")],
    ),
    (
        "two calls whose pieces interleave",
        event("contentBlockStart", contentBlockIndex=0, start=tool_use("t1", "look"))
        + event("contentBlockStart", contentBlockIndex=1, start=tool_use("t2", "look"))
        + delta(0, toolUse={"input": '{"a":'})
        + delta(1, toolUse={"input": '{"b":'})
        + delta(0, toolUse={"input": "1}"})
        + delta(1, toolUse={"input": "2}"}),
        [
            ToolCallBlock("t1", "look", {"a": 1}, '{"a":1}'),
            ToolCallBlock("t2", "look", {"b": 2}, '{"b":2}'),
        ],
    ),
    (
        "arguments that are not JSON",
        block(0, {"toolUse": {"input": "{a: 1}"}}, start=tool_use("t1", "look")),
        [ToolCallBlock("t1", "look", {}, "{a: 1}", "invalid")],
    ),
    (
        "citations before and after their text",
        block(0, {"citation": CITATION}, {"text": "a"}, {"citation": CITATION}),
        [TextBlock("a", {"citations": [CITATION, CITATION]})],
    ),
    (
        "a tool of the server's and its result",
        block(
            0,
            {"toolUse": {"input": '{"snippet":'}},
            {"toolUse": {"input": '"1+1"}'}},
            start={"toolUse": CODE},
        )
        + block(
            1,
            {"toolResult": [{"json": {"out": "2"}}]},
            {"toolResult": [{"text": "done"}]},
            start={"toolResult": RESULT},
        ),
        [
            ExtensionBlock(
                "bedrock", "toolUse", {"toolUse": {**CODE, "input": {"snippet": "1+1"}}}
            ),
            ExtensionBlock(
                "bedrock",
                "toolResult",
                {"toolResult": {**RESULT, "content": [{"json": {"out": "2"}}, {"text": "done"}]}},
            ),
        ],
    ),
    (
        "a tool of the server's whose input was cut",
        block(0, {"toolUse": {"input": '{"snip'}}, start={"toolUse": CODE}),
        [
            ExtensionBlock(
                "bedrock", "toolUse", {"toolUse": {**CODE, "input": {"INVALID_JSON": '{"snip'}}}
            )
        ],
    ),
    (
        "an image in pieces",
        block(
            0,
            {"image": {"source": {"bytes": base64.b64encode(b"\x89PN").decode()}}},
            {"image": {"source": {"bytes": base64.b64encode(b"G").decode()}}},
            start={"image": {"format": "png"}},
        ),
        [
            ExtensionBlock(
                "bedrock",
                "image",
                {
                    "image": {
                        "format": "png",
                        "source": {"bytes": base64.b64encode(b"\x89PNG").decode()},
                    }
                },
            )
        ],
    ),
    (
        "a start of an unknown kind",
        block(0, start={"hologram": {"depth": 3}}),
        [ExtensionBlock("bedrock", "hologram", {"hologram": {"depth": 3}})],
    ),
    ("a delta of an unknown kind", delta(0, hologram={"x": 1}) + TEXT, [TextBlock("Hello")]),
    ("an event of an unknown kind", event("heartbeat", beat=1) + TEXT, [TextBlock("Hello")]),
    (
        "a message of an unknown kind",
        encode({":message-type": "rumour", ":event-type": "messageStop"}, b"{}") + TEXT,
        [TextBlock("Hello")],
    ),
    (
        "half a character, which JSON may hold and UTF-8 may not",
        encode(
            {":message-type": "event", ":event-type": "contentBlockDelta"},
            rb'{"contentBlockIndex":0,"delta":{"text":"a\ud83d"}}',
        ),
        [TextBlock("a\N{REPLACEMENT CHARACTER}")],
    ),
    ("text of a whole mix", block(0, *SIGNED) + block(1, {"text": "€😀"}), [
        ThinkingBlock("Hm", "c2ln"), TextBlock("€😀")
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "body", "expected"), BLOCKS, ids=[name for name, _, _ in BLOCKS])
def test_blocks(name: str, body: bytes, expected: list[Any]) -> None:
    assert _message(said(body)).content == expected


# -- how it ends -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("end_turn", StopReason.STOP),
        ("stop_sequence", StopReason.STOP),
        ("tool_use", StopReason.TOOL_USE),
        ("max_tokens", StopReason.LENGTH),
        ("model_context_window_exceeded", StopReason.LENGTH),
        ("guardrail_intervened", StopReason.CONTENT_FILTER),
        ("content_filtered", StopReason.CONTENT_FILTER),
    ],
)
def test_stop_reasons(reason: str, expected: StopReason) -> None:
    last = _events(said(TEXT, reason=reason))[-1]
    assert isinstance(last, Done)
    assert last.stop_reason is expected


def test_an_unknown_stop_reason_is_said_in_a_notice() -> None:
    body = said(TEXT, reason="bored")
    assert _notices(body) == [
        Notice("stop_reason", "the answer stopped for an unknown reason: bored")
    ]
    assert _message(body).stop_reason is StopReason.STOP


@pytest.mark.parametrize("reason", ["malformed_tool_use", "malformed_model_output"])
@pytest.mark.parametrize("metadata", [METADATA, b""], ids=["with metadata", "without"])
def test_output_that_bedrock_could_not_read_is_a_failure(reason: str, metadata: bytes) -> None:
    error = _error(said(TEXT, reason=reason, metadata=metadata))
    assert (error.error_kind, error.code) == (Kind.PROTOCOL, f"{reason}")
    assert (error.usage is not None) is bool(metadata)


def test_metadata_ends_the_stream_and_nothing_after_it_is_read() -> None:
    assert _events(said(TEXT) + delta(0, text="more")) == _events(said(TEXT))


def test_metadata_may_come_first() -> None:
    assert _message(START + TEXT + METADATA + stop()).usage == _message(said(TEXT)).usage


def test_an_answer_without_metadata_has_no_usage() -> None:
    last = _events(said(TEXT, metadata=b""))[-1]
    assert isinstance(last, Done)
    assert last.usage is None


def test_an_answer_without_message_stop_is_cut() -> None:
    assert _error(START + TEXT + METADATA).error_kind is Kind.NETWORK


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (USAGE, Usage(8, 3, total=11, reported=True)),
        (
            {**USAGE, "cacheReadInputTokens": 100, "cacheWriteInputTokens": 20},
            Usage(128, 3, 100, 20, total=131, reported=True),
        ),
        (
            {**USAGE, "cacheReadInputTokens": 0, "cacheWriteInputTokens": 0},
            Usage(8, 3, 0, 0, total=11, reported=True),
        ),
        ({"outputTokens": 3.0}, Usage(None, 3, reported=True)),
        ({"inputTokens": None, "outputTokens": 3}, Usage(None, 3, reported=True)),
        (
            {**USAGE, "cacheDetails": [{"ttl": "1h", "inputTokens": 2}], "serverToolUsage": {}},
            Usage(
                8,
                3,
                total=11,
                extra={"cacheDetails": [{"ttl": "1h", "inputTokens": 2}], "cache_write_long": 2},
                reported=True,
            ),
        ),
    ],
)
def test_usage_includes_what_was_cached(usage: dict[str, Any], expected: Usage) -> None:
    assert _message(said(TEXT, metadata=event("metadata", usage=usage))).usage == expected


def test_a_guardrail_says_what_it_did() -> None:
    trace = {"guardrail": {"actionReason": "Guardrail masked.", "modelOutput": ["Rome"]}}
    body = said(TEXT, metadata=event("metadata", usage=USAGE, trace=trace))
    assert _notices(body) == [Notice("guardrail", "Guardrail masked.")]


def test_a_prompt_router_says_which_model_answered() -> None:
    trace = {"promptRouter": {"invokedModelId": "arn:aws:bedrock:x:1:inference-profile/us.a.b"}}
    body = said(TEXT, metadata=event("metadata", usage=USAGE, trace=trace))
    assert _message(body).model == "arn:aws:bedrock:x:1:inference-profile/us.a.b"


# -- errors in the stream --------------------------------------------------------------------

EXCEPTIONS = [
    ("throttlingException", "Too many tokens, please wait before trying again.", Kind.THROTTLED),
    ("throttlingException", "Too many tokens per day, please wait.", Kind.QUOTA_EXHAUSTED),
    ("serviceUnavailableException", "Bedrock is unable to process your request.", Kind.OVERLOADED),
    ("internalServerException", "The system encountered an unexpected error.", Kind.NETWORK),
    ("modelStreamErrorException", "The model has encountered an error.", Kind.NETWORK),
    ("modelTimeoutException", "Model has timed out.", Kind.NETWORK),
    ("validationException", "Input is too long for requested model.", Kind.CONTEXT_WINDOW_EXCEEDED),
    ("validationException", "Malformed input request.", Kind.INVALID_REQUEST),
    ("accessDeniedException", "You may not.", Kind.AUTH),
    ("holidayException", "We are closed.", Kind.UNKNOWN),
]


@pytest.mark.parametrize(("kind", "words", "expected"), EXCEPTIONS)
@pytest.mark.parametrize("before", [b"", START, START + delta(0, text="Hel")])
def test_exceptions_end_the_answer_wherever_they_come(
    kind: str, words: str, expected: Kind, before: bytes
) -> None:
    error = _error(before + exception(kind, message=words))
    assert (error.error_kind, error.error_message) == (expected, words)


def test_the_models_own_words_are_added() -> None:
    error = _error(
        exception(
            "modelStreamErrorException",
            message="The model has encountered an error.",
            originalStatusCode=529,
            originalMessage="Overloaded",
        )
    )
    assert error.error_message == "The model has encountered an error. (Overloaded)"


@pytest.mark.parametrize(
    ("headers", "payload", "kind", "words"),
    [
        (
            {":error-code": "InternalError", ":error-message": "An internal error occurred"},
            b"",
            Kind.NETWORK,
            "An internal error occurred",
        ),
        (
            {":error-code": "Throttling"},
            b"not JSON",
            Kind.THROTTLED,
            "Rate limited by Amazon Bedrock",
        ),
        ({}, b"", Kind.UNKNOWN, "Amazon Bedrock failed"),
    ],
)
def test_errors_that_the_api_does_not_name(
    headers: dict[str, str], payload: bytes, kind: Kind, words: str
) -> None:
    error = _error(START + encode({":message-type": "error", **headers}, payload))
    assert (error.error_kind, error.error_message) == (kind, words)


def test_an_error_after_the_answer_takes_nothing_from_it() -> None:
    body = START + TEXT + stop() + exception("internalServerException", message="Oh.")
    assert _message(body).stop_reason is StopReason.STOP
    assert _notices(body) == [Notice("error_after_answer", "InternalServerException: Oh.")]


# -- what does not parse ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "frame"),
    [
        ("no JSON", encode({":message-type": "event", ":event-type": "contentBlockDelta"}, b"{")),
        ("a text that is a number", delta(0, text=3)),
        ("a start that is not an object", event("contentBlockStart", start={"toolUse": "x"})),
        ("a start whose id is a number", event("contentBlockStart", start=tool_use(1, "look"))),  # type: ignore[arg-type]  # that is the point
        ("input that is an object", delta(0, toolUse={"input": {"a": 1}})),
        ("redacted bytes that are not base64", delta(0, reasoningContent={"redactedContent": "ä"})),
    ],
)
def test_a_malformed_event_is_skipped_and_said(name: str, frame: bytes) -> None:
    body = START + frame + TEXT + stop() + METADATA
    assert [notice.code for notice in _notices(body)] == ["malformed_frame"]
    assert _message(body).content == [TextBlock("Hello")]


@pytest.mark.parametrize("at", [0, 1, 2, 3])
def test_a_wrong_checksum_is_damage_and_the_rest_is_read(at: int) -> None:
    frames = [START, delta(0, text="Hel"), delta(0, text="lo"), stop()]
    frames[at] = frames[at][:-1] + bytes([frames[at][-1] ^ 1])
    error = _error(b"".join(frames))
    assert (error.error_kind, error.code) == (Kind.PROTOCOL, "damaged_frame")
    assert _message(b"".join(frames)).text == ["Hello", "lo", "Hel", "Hello"][at]


# -- answers that are not streamed -----------------------------------------------------------


async def _whole(answer: dict[str, Any]) -> AssistantMessage:
    http = MemoryHTTPClient(MemoryResponse.of_json(answer))
    async with (
        client_with(http=http, api_key="test", retry=RetryPolicy.none()) as client,
        client.stream(
            "bedrock/any", "Hi", base_url="http://bedrock.invalid", transport="buffered"
        ) as stream,
    ):
        async for _ in stream:
            pass
    assert http.requests[0].url == "http://bedrock.invalid/model/any/converse"
    assert http.requests[0].headers["Accept"] == "application/json"
    return stream.message


WHOLE = {
    "output": {
        "message": {
            "role": "assistant",
            "content": [
                {"reasoningContent": {"reasoningText": {"text": "Hm", "signature": "c2ln"}}},
                {"reasoningContent": {"redactedContent": REDACTED}},
                {"text": "Hello"},
                {"citationsContent": {"content": [{"text": "a"}], "citations": [CITATION]}},
                {"toolUse": {**CODE, "input": {"snippet": "1+1"}}},
                {"toolResult": {**RESULT, "content": [{"text": "2"}]}},
                {"toolUse": {"toolUseId": "t1", "name": "look", "input": {"a": 1}}},
                {"toolUse": {"toolUseId": "t2", "name": "look", "input": {}}},
            ],
        }
    },
    "stopReason": "tool_use",
    "usage": {**USAGE, "cacheReadInputTokens": 2},
    "metrics": {"latencyMs": 5},
}


async def test_a_whole_answer_is_read_as_its_stream_would_be() -> None:
    found = await _whole(WHOLE)
    assert found.content == [
        ThinkingBlock("Hm", "c2ln"),
        ThinkingBlock("", REDACTED, redacted=True),
        TextBlock("Hello"),
        TextBlock("a", {"citations": [CITATION]}),
        ExtensionBlock("bedrock", "toolUse", {"toolUse": {**CODE, "input": {"snippet": "1+1"}}}),
        ExtensionBlock(
            "bedrock", "toolResult", {"toolResult": {**RESULT, "content": [{"text": "2"}]}}
        ),
        ToolCallBlock("t1", "look", {"a": 1}, '{"a":1}'),
        ToolCallBlock("t2", "look", {}, "{}"),
    ]
    assert found.stop_reason is StopReason.TOOL_USE
    assert found.usage == Usage(10, 3, 2, total=13, reported=True)


@pytest.mark.parametrize("answer", [{}, {"output": {}}, {"output": {"message": None}}])
async def test_a_whole_answer_without_a_message_is_cut(answer: dict[str, Any]) -> None:
    assert (await _whole(answer)).error_kind is Kind.NETWORK


async def test_a_whole_answer_may_have_failed() -> None:
    found = await _whole({**WHOLE, "stopReason": "malformed_tool_use"})
    assert (found.error_kind, found.usage is not None) == (Kind.PROTOCOL, True)


def test_padding_is_ignored() -> None:
    frame = delta(0, text="a")
    assert b'"p": "' in frame
    assert _message(said(frame)).text == "a"


@pytest.mark.parametrize(
    "content", [["x"], [{"text": 3}], [{"toolUse": "x"}], [{"toolUse": {"name": 3}}], "x"]
)
async def test_a_whole_answer_that_does_not_parse_is_malformed(content: Any) -> None:
    found = await _whole({**WHOLE, "output": {"message": {"content": content}}})
    assert found.error_kind is Kind.PROTOCOL


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            [
                "text", "toolUse", "input", "toolUseId", "name", "type", "reasoningContent",
                "signature", "redactedContent", "citation", "toolResult", "image", "source",
                "bytes", "guardrail", "promptRouter", "inputTokens", "outputTokens", "x",
            ]
        ),
        inner,
        max_size=3,
    ),
    max_leaves=8,
)  # fmt: skip
_KINDS = ["contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata"]
_FIELDS = ["contentBlockIndex", "start", "delta", "stopReason", "usage", "trace", "message"]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(_KINDS), st.dictionaries(st.sampled_from(_FIELDS), _JSON, max_size=3)
        ),
        max_size=5,
    )
)
def test_nothing_that_is_sent_breaks_the_parser(frames: list[tuple[str, dict[str, Any]]]) -> None:
    events = _events(b"".join(event(kind, **fields) for kind, fields in frames) + said(TEXT))
    automaton = Automaton()
    assert [automaton.step(event) for event in events] == [None] * len(events)
    assert automaton.phase == "ended"
