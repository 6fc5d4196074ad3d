"""Answers in Google's API, read by swink's parser and, when sent back, by the gateway."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import Phase, given, settings
from made import TEXT, events
from turned import asked_for, is_empty, last_attempt, read_by, whole, written

import swink_core as swink
from swink_core import StopReason, StreamErrorKind, Usage
from swink_core.providers import is_synthetic_id
from swink_gateway.protocols import Facts
from swink_gateway.protocols.gemini.protocol import GeminiProtocol
from swink_test_helpers.event_strategies import event_streams
from swink_testing.driver import fold

GEMINI = GeminiProtocol()
SHOWN = {"array": False, "thoughts": True}
OWN = {"wire_formats": {"acme": "gemini-generate-content"}}
PATH = {"model": "m", "method": "generateContent"}


THOUGHT = [
    swink.ThinkingStart(0),
    swink.ThinkingDelta(0, "hm"),
    swink.ThinkingEnd(0, "sig/+=", False, {"item": {"id": "rs_1"}}),
]
CALLS = [
    swink.ToolCallStart(0, "c1", "f"),
    swink.ToolCallStart(1, "swink_call_x_1", "g"),
    swink.ToolCallDelta(1, '{"b":'),
    swink.ToolCallDelta(0, '{"a":1}'),
    swink.ToolCallDelta(1, "2}"),
    swink.ToolCallEnd(1),
    swink.ToolCallEnd(0, {"thoughtSignature": "c2ln"}),
]


def responses(pieces: list[bytes]) -> list[Any]:
    *frames, rest = b"".join(pieces).split(b"\n\n")
    assert rest == b""
    assert all(frame.startswith(b"data: ") for frame in frames)
    return [msgspec.json.decode(frame.removeprefix(b"data: ")) for frame in frames]


def parts_of(pieces: list[bytes]) -> list[Any]:
    found = [one["candidates"][0] for one in responses(pieces) if "candidates" in one]
    return [part for candidate in found for part in candidate["content"]["parts"]]


def sent_back(parts: list[Any]) -> swink.AssistantMessage:
    """Return the message that the gateway reads from a client's history."""
    body = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}
    body["contents"] += [{"role": "model", "parts": [part]} for part in parts]
    _, *rest = GEMINI.read(body, PATH, {}).context.messages
    message: Any = rest[0] if rest else swink.AssistantMessage([])
    return message  # type: ignore[no-any-return]


def test_calls_are_complete_and_in_order_without_generated_ids() -> None:
    parts = parts_of(written(GEMINI, [[event] for event in events(*CALLS)], **OWN, **SHOWN))
    assert parts[:2] == [
        {"functionCall": {"id": "c1", "name": "f", "args": {"a": 1}}, "thoughtSignature": "c2ln"},
        {"functionCall": {"name": "g", "args": {"b": 2}}},
    ]


@pytest.mark.parametrize("thoughts", [True, False])
def test_opaque_data_survives_a_client_that_keeps_no_thoughts(
    thoughts: bool,
) -> None:
    call = [swink.ToolCallStart(1, "c1", "f"), swink.ToolCallEnd(1, {"item": 7})]
    answer = events(*THOUGHT, *call, stop_reason=StopReason.TOOL_USE)
    pieces = written(GEMINI, [[e] for e in answer], array=False, thoughts=thoughts)
    parts = parts_of(pieces)
    assert any(part.get("thought") for part in parts) is thoughts
    for kept in (parts, [part for part in parts if not part.get("thought")]):
        message = sent_back(kept)
        assert message.provider == "acme"
        assert message.content == [
            swink.ThinkingBlock("hm", "sig/+=", metadata={"item": {"id": "rs_1"}}),
            swink.ToolCallBlock("c1", "f", {}, metadata={"item": 7}),
        ]


def test_googles_own_signatures_are_sent_unchanged() -> None:
    own = [swink.TextEnd(0, {"thoughtSignature": "c2ln"})]
    parts = parts_of(written(GEMINI, [events(*TEXT[:3], *own)], **OWN, **SHOWN))
    assert parts == [{"text": "Hello"}, {"text": "", "thoughtSignature": "c2ln"}]
    message = sent_back(parts)
    assert message.provider == "gemini-generate-content"
    assert message.content[-1] == swink.TextBlock("", {"thoughtSignature": "c2ln"})


def test_ids_model_and_usage_of_an_answer() -> None:
    usage = Usage(
        30, 9, cache_read=4, reasoning=5, total=39, reported=True,
        extra={"toolUsePromptTokenCount": 10, "trafficType": "ON_DEMAND", "input_audio": 3},
    )  # fmt: skip
    answer = events(*TEXT, usage=usage, cost=swink.Cost(total=0.25), response_id="r1", model="l-1")
    last = responses(written(GEMINI, [answer], **OWN, **SHOWN))[-1]
    assert (last["responseId"], last["modelVersion"]) == ("r1", "l-1")
    assert last["usageMetadata"] == {
        "promptTokenCount": 20,
        "toolUsePromptTokenCount": 10,
        "cachedContentTokenCount": 4,
        "candidatesTokenCount": 4,
        "thoughtsTokenCount": 5,
        "totalTokenCount": 39,
        "trafficType": "ON_DEMAND",
        "cost": 0.25,
    }


@pytest.mark.parametrize(
    ("raw", "reason", "word"),
    [
        ('{"a":', StopReason.TOOL_USE, "MALFORMED_FUNCTION_CALL"),
        ('{"a":', StopReason.LENGTH, "MAX_TOKENS"),
        ('{"a":', StopReason.CONTENT_FILTER, "SAFETY"),
        ("", StopReason.LENGTH, "MAX_TOKENS"),
    ],
)
def test_a_call_with_invalid_arguments_is_reported_as_text(
    raw: str, reason: StopReason, word: str
) -> None:
    call = [swink.ToolCallStart(0, "c", "f"), swink.ToolCallDelta(0, raw), swink.ToolCallEnd(0)]
    (last,) = responses(written(GEMINI, [events(*call, stop_reason=reason)], **SHOWN))
    candidate = last["candidates"][0]
    assert candidate["content"]["parts"] == [{"text": ""}]
    assert candidate["finishReason"] == word
    assert raw in candidate["finishMessage"]


@pytest.mark.parametrize("is_whole", [True, False])
@pytest.mark.parametrize("facts", [OWN, {}], ids=["the API's own", "another's"])
def test_the_apis_own_finish_reason_is_passed_on(facts: dict[str, Any], is_whole: bool) -> None:
    said = {"finishReason": "RECITATION", "finishMessage": "as in a book"}
    answer = events(*TEXT, stop_reason=StopReason.CONTENT_FILTER, metadata=said)
    if is_whole:
        body = msgspec.json.decode(whole(GEMINI, fold(answer, "acme"), **facts))
    else:
        body = responses(written(GEMINI, [answer], **facts, **SHOWN))[-1]
    (told,) = body["candidates"]
    expected = said if facts else {"finishReason": "SAFETY"}
    assert {name: told[name] for name in said if name in told} == expected


def test_without_alt_sse_the_answer_is_one_json_array() -> None:
    pieces = written(GEMINI, [[e] for e in events(*TEXT)], array=True, thoughts=True)
    frames = msgspec.json.decode(b"".join(pieces))
    assert [f["candidates"][0]["content"]["parts"][0]["text"] for f in frames] == ["Hel", "lo", ""]
    failed = [[swink.Start(), *TEXT, swink.Error(error_message="no")]]
    frames = msgspec.json.decode(b"".join(written(GEMINI, failed, array=True, thoughts=True)))
    assert frames[-1]["error"]["message"] == "no"


@pytest.mark.parametrize("at", range(1, 8))
def test_a_failure_after_any_event_is_one_error_and_the_last_frame(at: int) -> None:
    answer = [swink.Start(), *THOUGHT, *[_moved(event) for event in TEXT]]
    failed = swink.Error(error_message="gone", error_kind=StreamErrorKind.NETWORK)
    frames = responses(written(GEMINI, [[e] for e in [*answer[:at], failed]], **SHOWN))
    assert [("error" in frame) for frame in frames] == [*[False] * (len(frames) - 1), True]
    assert not any("finishReason" in c for f in frames for c in f.get("candidates", ()))
    assert frames[-1]["error"]["status"] == "UNAVAILABLE"


def _moved(event: Any) -> Any:
    return type(event)(1, *([event.delta] if isinstance(event, swink.TextDelta) else []))


def test_a_call_that_a_failure_cut_off_is_not_sent() -> None:
    failed = swink.Error(error_message="gone", error_kind=StreamErrorKind.NETWORK)
    begun = [swink.ToolCallStart(0, "c1", "f"), swink.ToolCallDelta(0, '{"path": "/tmp"}')]
    batches = [[swink.Start(), *begun], [swink.ToolCallEnd(0), failed]]
    assert parts_of(written(GEMINI, batches, **SHOWN)) == []


def test_a_restart_is_a_failure_only_after_output() -> None:
    again = swink.Retry(2, 3, 0.5, "dropped", "acme/large")
    shown = [[swink.Start(), *TEXT], [again], events(*TEXT)]
    frames = responses(_until_the_end(shown))
    assert "dropped" in frames[-1]["error"]["message"]
    pieces = written(GEMINI, [[swink.Start(), *TEXT, again, *events(*TEXT)]], **SHOWN)
    assert parts_of(pieces) == [{"text": "Hello"}]


def _until_the_end(batches: list[list[Any]]) -> list[bytes]:
    from turned import Said

    encoder = GEMINI.encoder(asked_for(**SHOWN), Facts("1", 1))
    known = Said(swink.Model("acme", "large"))
    out = [encoder.feed(batch, known) for batch in batches[:2]]
    assert encoder.ended
    return out


def test_a_prompt_that_is_refused_has_an_answer_without_candidates() -> None:
    refused = swink.Error(
        error_message="not this", error_kind=StreamErrorKind.CONTENT_FILTERED
    )  # fmt: skip
    pieces = written(GEMINI, [[swink.Start(), refused]], **SHOWN)
    (frame,) = responses(pieces)
    assert frame["promptFeedback"]["blockReason"] == "SAFETY"
    _, terminal = read_by("gemini", pieces)
    assert isinstance(terminal, swink.Error)
    assert terminal.error_kind is StreamErrorKind.CONTENT_FILTERED
    assert GEMINI.failure(refused, 400).status == 200


def test_a_refused_prompt_has_the_providers_reason_and_usage() -> None:
    feedback = {"blockReason": "PROHIBITED_CONTENT", "safetyRatings": [{"blocked": True}]}
    refused = swink.Error(
        error_message="not this", error_kind=StreamErrorKind.CONTENT_FILTERED,
        usage=Usage(input=10, total=10, reported=True), metadata={"promptFeedback": feedback},
    )  # fmt: skip
    (frame,) = responses(written(GEMINI, [[swink.Start(), refused]], **SHOWN))
    for answer in (frame, msgspec.json.decode(GEMINI.failure(refused, 400).body)):
        said = answer["promptFeedback"]
        assert {name: said[name] for name in feedback} == feedback
        assert "not this" in said["blockReasonMessage"]
        assert answer["usageMetadata"] == {"promptTokenCount": 10, "totalTokenCount": 10}


ALL_BUT_SHRINKING = settings(phases=[Phase.explicit, Phase.generate], max_examples=40)


@ALL_BUT_SHRINKING
@given(event_streams())
def test_swinks_parser_reads_single_and_batched_events(stream: list[Any]) -> None:
    stream = last_attempt(stream)
    original = fold(stream)
    for batches in ([[event] for event in stream], [stream]):
        message, terminal = read_by("gemini", written(GEMINI, batches, **SHOWN))
        assert message.text == "".join(e.delta for e in stream if isinstance(e, swink.TextDelta))
        whole = [call for call in original.tool_calls if call.state == "complete"]
        cut = original.stop_reason is StopReason.LENGTH
        if isinstance(stream[-1], swink.Error):
            assert isinstance(terminal, swink.Error)
        elif len(whole) == len(original.tool_calls) and not cut and (message.text or whole):
            assert isinstance(terminal, swink.Done)
            assert [(c.id, c.name, c.arguments) for c in message.tool_calls] == [
                (c.id, c.name, c.arguments) for c in whole
            ]


@ALL_BUT_SHRINKING
@given(event_streams())
def test_an_answer_that_a_client_sends_back_is_complete(stream: list[Any]) -> None:
    """Except for boundaries of plain text, metadata of joined texts, and float formats."""
    stream = last_attempt(stream)
    original = fold(stream, "acme")
    if isinstance(stream[-1], swink.Error) or original.stop_reason is StopReason.LENGTH:
        return
    message = sent_back(parts_of(written(GEMINI, [[event] for event in stream], **SHOWN)))
    assert message.text == "".join(e.delta for e in stream if isinstance(e, swink.TextDelta))
    for kind in (swink.ThinkingBlock, swink.ExtensionBlock):
        kept = [block for block in message.content if isinstance(block, kind)]
        expected = [b for b in original.content if isinstance(b, kind) and not is_empty(b)]
        assert sorted(map(repr, kept)) == sorted(map(repr, expected))
    calls = [call for call in original.tool_calls if call.state == "complete"]
    assert [
        (c.name, c.arguments, c.metadata, c.id if not is_synthetic_id(c.id) else None)
        for c in message.tool_calls
    ] == [(c.name, c.arguments, c.metadata or None, c.id) for c in calls]
