"""The answer returns unchanged in the next request: signatures on their parts, calls with their
ids, parts of server-side tools.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from generate_content import SSE, body, call, frame, text, thought

from swink_core import (
    AssistantMessage,
    Context,
    Message,
    RetryPolicy,
    ToolResultMessage,
    UserMessage,
    dump,
    load,
)
from swink_test_helpers.corpus import Case, ids, shipped_answers, stream_cases
from swink_testing.calls import client_with
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

ANSWERS = [
    *shipped_answers("swink_provider_gemini"),
    *(
        case
        for case in stream_cases("gemini")
        if not case.features
        & {
            "json-array-stream",
            "finish:None",
            "finish:MALFORMED_FUNCTION_CALL",
            "unparseable-data",
        }
        and "error-mid-stream" not in case.name
    ),
]


def _sent_parts(body: bytes) -> list[dict[str, Any]]:
    """The parts of an answer, put together from its frames by nothing but JSON: text without
    signature is joined, thoughts without one are left out, calls in pieces are one."""
    parts: list[dict[str, Any]] = []
    for line in body.splitlines():
        frame = json.loads(line[5:]) if line.startswith(b"data:") else {}
        for candidate in frame.get("candidates", ()):
            for part in candidate.get("content", {}).get("parts", ()):
                _append(parts, part)
    return [part for part in parts if not part.get("thought") or "thoughtSignature" in part]


def _append(parts: list[dict[str, Any]], part: dict[str, Any]) -> None:
    last = parts[-1] if parts else {}
    if "functionCall" in part:
        given = part["functionCall"]
        if "name" in given:
            wanted = {name: given[name] for name in ("id", "name") if name in given}
            signed = {name: part[name] for name in part if name != "functionCall"}
            parts.append({"functionCall": {**wanted, "args": given.get("args", {})}, **signed})
    elif "text" not in part:
        parts.append(part)
    elif "thoughtSignature" in part or (part["text"] and not _continues(last, part)):
        parts.append(dict(part))
    elif part["text"]:
        last["text"] += part["text"]


def _continues(last: dict[str, Any], part: dict[str, Any]) -> bool:
    return (
        "text" in last
        and "thoughtSignature" not in last
        and last.get("thought") == part.get("thought")
    )


async def _turns(
    answer_body: bytes, stored: bool = False, model: str = "gemini/any"
) -> tuple[AssistantMessage, dict[str, Any]]:
    """The answer to a first request, and the second request, which carries it."""
    http = MemoryHTTPClient(
        MemoryResponse([answer_body], headers=SSE), MemoryResponse([answer_body], headers=SSE)
    )
    async with client_with(http=http, api_key="test", retry=RetryPolicy.none()) as client:
        answer = await client.complete(model, "Hi")
        if stored:
            answer = load(AssistantMessage, json.loads(json.dumps(dump(answer))))
        messages: list[Message] = [UserMessage("Hi"), answer]
        for made in answer.tool_calls:
            messages.append(ToolResultMessage(made.id, made.name, "done"))
        await client.complete(model, Context([*messages, UserMessage("And?")]))
    return answer, http.bodies[1]


@pytest.mark.parametrize("stored", [False, True], ids=["kept", "stored"])
@pytest.mark.parametrize("case", ANSWERS, ids=ids)
async def test_the_answer_goes_back_as_it_came(case: Case, stored: bool) -> None:
    answer, second = await _turns(case.body, stored)

    expected = _sent_parts(case.body)
    calls = [part["functionCall"] for part in expected if "functionCall" in part]
    for made, given in zip(answer.tool_calls, calls, strict=True):
        given["args"] = given["args"] or made.arguments  # of pieces: see test_corpus.py
    turns = second["contents"]
    assert [turn["role"] for turn in turns] == ["user", "model", "user"]
    assert turns[1]["parts"] == expected


@pytest.mark.parametrize("case", ANSWERS, ids=ids)
async def test_every_call_is_answered_first_thing_in_the_next_turn(case: Case) -> None:
    _, second = await _turns(case.body)

    calls = [
        part["functionCall"] for part in second["contents"][1]["parts"] if "functionCall" in part
    ]
    results = [
        {name: call[name] for name in call if name != "args"} | {"response": {"output": "done"}}
        for call in calls
    ]
    assert second["contents"][2]["parts"] == [
        *({"functionResponse": result} for result in results),
        {"text": "And?"},
    ]


SIGNED = {"thoughtSignature": "c2lnbmVk"}


async def test_an_empty_text_with_a_signature_goes_back_as_a_part_of_its_own() -> None:
    _, second = await _turns(
        body(frame(text("Hel"), text("lo")), frame(text("", **SIGNED), finish="STOP"))
    )
    assert second["contents"][1]["parts"] == [{"text": "Hello"}, {"text": "", **SIGNED}]


async def test_a_signed_thought_goes_back_and_a_summary_does_not() -> None:
    _, second = await _turns(
        body(frame(thought("Hm."), thought("So", **SIGNED), text("Yes"), finish="STOP"))
    )
    assert second["contents"][1]["parts"] == [
        {"text": "So", "thought": True, **SIGNED},
        {"text": "Yes"},
    ]


async def test_sources_do_not_go_back() -> None:
    _, second = await _turns(
        body(
            frame(text("Yes"), groundingMetadata={"webSearchQueries": ["x"]}),
            frame(call("look"), groundingMetadata={"webSearchQueries": ["y"]}, finish="STOP"),
        )
    )
    assert second["contents"][1]["parts"] == [
        {"text": "Yes"},
        {"functionCall": {"name": "look", "args": {}}},
    ]


async def test_fields_of_a_part_that_nobody_knows_go_back() -> None:
    _, second = await _turns(body(frame(text("Yes", mood={"level": 1}), finish="STOP")))
    assert second["contents"][1]["parts"] == [{"text": "Yes", "mood": {"level": 1}}]


@pytest.mark.parametrize(
    ("name", "parts", "signatures"),
    [
        ("signed calls are unchanged", [call("a", **SIGNED), call("b")], ["c2lnbmVk", None]),
        (
            "the first call has one",
            [call("a"), call("b")],
            ["skip_thought_signature_validator", None],
        ),
        (
            "text has none",
            [text("Yes"), call("a")],
            [None, "skip_thought_signature_validator"],
        ),
    ],
)
async def test_newer_models_get_no_first_call_without_signature(
    name: str, parts: list[dict[str, Any]], signatures: list[str | None]
) -> None:
    _, second = await _turns(body(frame(*parts, finish="STOP")), model="gemini/gemini-3.5-flash")
    sent = second["contents"][1]["parts"]
    assert [part.get("thoughtSignature") for part in sent] == signatures


async def test_an_answer_is_continued_by_asking_the_same_again_with_its_token() -> None:
    half = body(frame(text("Half "), finish="CONTINUATION", continuationToken="b25l"))
    rest = body(frame(text("of it."), finish="CONTINUATION", continuationToken="dHdv"))
    end = body(frame(text(" All."), finish="STOP"))
    http = MemoryHTTPClient(
        *(MemoryResponse([data], headers=SSE) for data in (half, rest, end, end))
    )
    async with client_with(http=http, api_key="test", temperature=0.5) as client:
        conversation: list[Message] = [UserMessage("Hi")]
        for _ in range(3):
            conversation.append(await client.complete("gemini/any", conversation))
        conversation.append(UserMessage("Thanks."))
        await client.complete("gemini/any", conversation)

    first, second, third, last = http.bodies
    assert second == {
        **first,
        "generationConfig": {"temperature": 0.5, "continuationToken": "b25l"},
    }
    assert third == {**first, "generationConfig": {"temperature": 0.5, "continuationToken": "dHdv"}}
    assert last["generationConfig"] == {"temperature": 0.5}
    assert last["contents"] == [
        {"role": "user", "parts": [{"text": "Hi"}]},
        {"role": "model", "parts": [{"text": "Half "}, {"text": "of it."}, {"text": " All."}]},
        {"role": "user", "parts": [{"text": "Thanks."}]},
    ]
