"""The ends of an answer: finish reason, refusal, error, and the notices about them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from generate_content import body, frame, text, thought

from swink_core import (
    AssistantMessageEvent,
    Done,
    Error,
    ExtensionBlock,
    Notice,
    StopReason,
    TextBlock,
    Usage,
)
from swink_core import StreamErrorKind as Kind
from swink_provider_gemini import GeminiProvider
from swink_testing.chunking import every_cut
from swink_testing.driver import drive_bytes, fold

PROVIDER = GeminiProvider("gemini")
SIGNED = {"thoughtSignature": "c2lnbmVk"}


async def _events(*frames: dict[str, Any]) -> list[AssistantMessageEvent]:
    return await drive_bytes(PROVIDER, "any", [body(*frames)])


FINISHES = [
    ("STOP", StopReason.STOP, None),
    ("MAX_TOKENS", StopReason.LENGTH, None),
    ("TOO_MANY_TOOL_CALLS", StopReason.LENGTH, Notice("stop_reason", "TOO_MANY_TOOL_CALLS")),
    ("CONTINUATION", StopReason.PAUSE, None),
    *(
        (word, StopReason.CONTENT_FILTER, Notice("refusal", word))
        for word in (
            "SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII",
            "MODEL_ARMOR", "ESCALATION", "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT",
            "IMAGE_RECITATION", "IMAGE_OTHER",
        )
    ),
    *(
        (word, StopReason.STOP, Notice("stop_reason", f"the answer ended with {word}"))
        for word in ("OTHER", "NO_IMAGE", "FINISH_REASON_UNSPECIFIED", "SOMETHING_NEW")
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("word", "reason", "notice"), FINISHES, ids=[word for word, *_ in FINISHES]
)
async def test_every_finish_reason_has_its_meaning(
    word: str, reason: StopReason, notice: Notice | None
) -> None:
    events = await _events(frame(text("Well")), frame(finish=word))
    assert isinstance(events[-1], Done)
    assert events[-1].stop_reason is reason
    assert [e for e in events if isinstance(e, Notice)] == ([notice] if notice else [])


async def test_why_an_answer_was_filtered_is_told() -> None:
    rated = {"category": "HARM_CATEGORY_HARASSMENT", "blocked": True}
    other = {"category": "HARM_CATEGORY_HATE_SPEECH"}
    for more, expected in (
        ({"finishMessage": "Too rude."}, "SAFETY: Too rude."),
        ({"safetyRatings": [other, rated]}, "SAFETY: HARM_CATEGORY_HARASSMENT"),
    ):
        events = await _events(frame(text("You"), finish="SAFETY", **more))
        assert Notice("refusal", expected) in events


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("MALFORMED_FUNCTION_CALL", Kind.EMPTY_RESPONSE),
        ("MALFORMED_RESPONSE", Kind.EMPTY_RESPONSE),
        ("UNEXPECTED_TOOL_CALL", Kind.EMPTY_RESPONSE),
        ("MISSING_THOUGHT_SIGNATURE", Kind.INVALID_REQUEST),
        ("PUP_LIMITED_DISABLED", Kind.AUTH),
    ],
)
async def test_some_finish_reasons_say_that_there_is_no_answer(word: str, kind: Kind) -> None:
    last = (await _events(frame(text("Well"), finish=word, finishMessage="print(look(")))[-1]
    assert isinstance(last, Error)
    assert (last.error_kind, last.error_message) == (kind, "print(look(")
    last = (await _events(frame(finish=word)))[-1]
    assert isinstance(last, Error)
    assert last.error_message == f"the answer ended with {word}"


async def test_the_last_of_several_finish_reasons_counts() -> None:
    events = await _events(
        frame(text("It was"), finish="STOP"), frame(text(" the"), finish="RECITATION")
    )
    message = fold(events, "gemini")
    assert (message.text, message.stop_reason) == ("It was the", StopReason.CONTENT_FILTER)


PLAIN = {"STOP", "MAX_TOKENS", "SAFETY", "CONTINUATION"}


@pytest.mark.parametrize("word", [word for word, *_ in FINISHES])
async def test_metadata_contain_a_finish_reason_that_the_stop_reason_does_not_tell(
    word: str,
) -> None:
    done = (await _events(frame(text("Well"), finish=word)))[-1]
    assert isinstance(done, Done)
    assert done.metadata == (None if word in PLAIN else {"finishReason": word})
    frames = frame(text("a"), finish="OTHER"), frame(text("b"), finish=word, finishMessage="why")
    done = (await _events(*frames))[-1]
    assert isinstance(done, Done)
    assert done.metadata == {"finishReason": word, "finishMessage": "why"}


async def test_an_unknown_word_on_every_frame_is_told_once() -> None:
    events = await _events(frame(text("a"), finish="NEW"), frame(text("b"), finish="NEW"))
    assert len([event for event in events if isinstance(event, Notice)]) == 1


@pytest.mark.parametrize(
    "frames",
    [[], [frame(text(""))], [frame(thought("Hm"))], [frame(thought("Hm"), text("", **SIGNED))]],
    ids=["nothing", "no text", "thoughts only", "thoughts and a signature"],
)
async def test_an_answer_without_text_or_call_is_empty(frames: list[dict[str, Any]]) -> None:
    last = (await _events(*frames, frame(finish="STOP")))[-1]
    assert isinstance(last, Error)
    assert last.error_kind is Kind.EMPTY_RESPONSE


async def test_an_answer_to_be_continued_holds_what_is_needed_for_that() -> None:
    message = fold(
        await _events(frame(text("Half"), finish="CONTINUATION", continuationToken="dG9rZW4=")),
        "gemini",
    )
    assert message.stop_reason is StopReason.PAUSE
    assert message.content == [
        TextBlock("Half"),
        ExtensionBlock("gemini", "continuationToken", "dG9rZW4="),
    ]


# -- refusals and errors -------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["SAFETY", "OTHER", "BLOCKLIST", "JAILBREAK", "SOMETHING_NEW"])
async def test_a_blocked_prompt_is_refused(word: str) -> None:
    last = (await _events({"promptFeedback": {"blockReason": word}}))[-1]
    assert isinstance(last, Error)
    assert last.error_kind is Kind.CONTENT_FILTERED
    assert last.error_message == f"the prompt was blocked: {word}"


async def test_the_providers_own_words_for_a_block_are_kept() -> None:
    feedback = {"blockReason": "MODEL_ARMOR", "blockReasonMessage": "Blocked by your template."}
    last = (await _events({"promptFeedback": feedback}))[-1]
    assert isinstance(last, Error)
    assert last.error_message == "the prompt was blocked: Blocked by your template."


async def test_ratings_of_a_prompt_are_no_refusal() -> None:
    feedback = {"safetyRatings": [{"category": "HARM_CATEGORY_HARASSMENT"}]}
    message = fold(
        await _events({"promptFeedback": feedback}, frame(text("Yes"), finish="STOP")), "gemini"
    )
    assert (message.text, message.stop_reason) == ("Yes", StopReason.STOP)


ERROR = {"error": {"code": 503, "message": "High demand.", "status": "UNAVAILABLE"}}


def _bare(data: Any, newline: str = "\r\n") -> bytes:
    return json.dumps(data, indent=2).replace("\n", newline).encode()


BARE = [
    ("an event", body(ERROR)),
    ("a bare object", _bare(ERROR)),
    ("a bare object with a newline", _bare(ERROR) + b"\r\n"),
    ("a bare object with LF", _bare(ERROR, "\n")),
    ("a bare array", _bare([ERROR])),
    ("an object on one line", json.dumps(ERROR).encode()),
    ("an object with a blank line", _bare(ERROR).replace(b"{\r\n", b"{\r\n\r\n", 1)),
]


@pytest.mark.parametrize(("name", "end"), BARE, ids=[name for name, _ in BARE])
@pytest.mark.parametrize("before", [0, 1, 3])
async def test_an_error_ends_the_stream_wherever_it_comes(
    name: str, end: bytes, before: int
) -> None:
    data = body(*[frame(text("a"), finish="STOP")] * before) + end
    for chunks in every_cut(data):
        events = await drive_bytes(PROVIDER, "any", chunks)
        last = events[-1]
        assert isinstance(last, Error)
        assert (last.error_kind, last.error_message) == (Kind.OVERLOADED, "High demand.")
        assert last.status == 503
        assert fold(events, "gemini").text == "a" * before


async def test_a_bare_error_that_is_cut_is_a_cut() -> None:
    data = body(frame(text("a"))) + _bare(ERROR)[:-5]
    last = (await drive_bytes(PROVIDER, "any", [data]))[-1]
    assert isinstance(last, Error)
    assert last.error_kind is Kind.NETWORK


async def test_a_damaged_bare_error_after_a_completed_answer_is_reported() -> None:
    damaged = _bare(ERROR).replace(b'"error"', b'"\xe5rror"')
    data = body(frame(text("a"), finish="STOP")) + damaged
    events = await drive_bytes(PROVIDER, "any", [data])
    assert isinstance(events[-1], Done)
    assert [e.code for e in events if isinstance(e, Notice)] == ["cut_frame"]


async def test_a_frame_with_a_call_that_is_none_is_skipped_whole() -> None:
    odd = frame(text("lost"), {"functionCall": {"name": 5}})
    events = await _events(frame(text("a")), odd, frame(text("b"), finish="STOP"))
    assert [e.code for e in events if isinstance(e, Notice)] == ["malformed_frame"]
    assert fold(events, "gemini").content == [TextBlock("ab")]


async def test_a_frame_that_is_not_json_leaves_a_part_of_the_answer() -> None:
    data = body(frame(text("a"))) + b"data: {nonsense\r\n\r\n" + body(frame(finish="STOP"))
    events = await drive_bytes(PROVIDER, "any", [data])
    assert [e.code for e in events if isinstance(e, Notice)] == ["malformed_frame"]
    assert isinstance(events[-1], Error)
    assert events[-1].code == "damaged_frame"


# -- usage ---------------------------------------------------------------------------------------

USAGE: list[tuple[str, list[dict[str, Any]], Usage | None]] = [
    ("none", [], None),
    ("of a prompt alone", [{"promptTokenCount": 3, "totalTokenCount": 3}], Usage(3, total=3)),
    (
        "with everything",
        [
            {
                "promptTokenCount": 10,
                "candidatesTokenCount": 4,
                "thoughtsTokenCount": 5,
                "cachedContentTokenCount": 6,
                "toolUsePromptTokenCount": 7,
                "totalTokenCount": 26,
                "serviceTier": "standard",
            }
        ],
        Usage(17, 9, 6, None, 5, 26, {"toolUsePromptTokenCount": 7, "serviceTier": "standard"}),
    ),
    (
        "that grows",
        [
            {"promptTokenCount": 3, "candidatesTokenCount": 1, "totalTokenCount": 4},
            {"trafficType": "ON_DEMAND"},
            {"promptTokenCount": 3, "candidatesTokenCount": 8, "totalTokenCount": 11},
        ],
        Usage(3, 8, total=11, extra={"trafficType": "ON_DEMAND"}),
    ),
    (
        "of thoughts before any text",
        [{"promptTokenCount": 3, "thoughtsTokenCount": 20, "totalTokenCount": 23}],
        Usage(3, 20, reasoning=20, total=23),
    ),
    (
        "in floats",
        [{"promptTokenCount": 3.0, "candidatesTokenCount": 1.0, "totalTokenCount": 4.0}],
        Usage(3, 1, total=4),
    ),
]


@pytest.mark.parametrize(("name", "counts", "usage"), USAGE, ids=[name for name, *_ in USAGE])
async def test_usage(name: str, counts: list[dict[str, Any]], usage: Usage | None) -> None:
    events = await _events(
        frame(text("a")), *({"usageMetadata": c} for c in counts), frame(finish="STOP")
    )
    assert isinstance(events[-1], Done)
    found = events[-1].usage
    if usage is not None:
        usage.reported = True
    assert found == usage


async def test_the_missing_count_of_an_empty_answer_is_0() -> None:
    counts = {"promptTokenCount": 3, "totalTokenCount": 3}
    events = await _events({"usageMetadata": counts, **frame(finish="SAFETY")})
    assert events[-1].usage == Usage(3, 0, total=3, reported=True)


async def test_who_answered_is_told() -> None:
    last = (
        await _events(
            {"modelVersion": "gemini-3.5-flash-001", "responseId": "r1", **frame(text("a"))},
            frame(finish="STOP"),
        )
    )[-1]
    assert isinstance(last, Done)
    assert (last.model, last.response_id) == ("gemini-3.5-flash-001", "r1")
