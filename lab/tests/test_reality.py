"""The comparison with recorded traffic: forms of cassettes, verdicts, readings, explanations."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.agreement import Agreement
from lab.reality.__main__ import Report, compare
from lab.reality.cassettes import exchanges_in
from lab.reality.explained import reason_of
from lab.reality.readings import Answer, read_answer
from lab.reality.replay import VARIABLES, differences
from swink_core import AssistantMessage, TextBlock

URL = "https://api.openai.com/v1/chat/completions"
ASKED = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}]}
ANSWER = {
    "id": "c",
    "object": "chat.completion",
    "model": "gpt-4o",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Hello"},
            "finish_reason": "stop",
        }
    ],
    "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
}
JSON_HEADERS = {"Content-Type": ["application/json"]}


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)


def vcr(asked: Any = ASKED, answer: Any = ANSWER, status: int = 200, url: str = URL) -> Any:
    request = {"method": "POST", "uri": url, "body": json.dumps(asked), "headers": {}}
    body = {"string": answer if isinstance(answer, bytes) else json.dumps(answer)}
    response = {"status": {"code": status}, "headers": JSON_HEADERS, "body": body}
    return {"interactions": [{"request": request, "response": response}]}


def har() -> Any:
    content = {
        "mimeType": "application/json",
        "encoding": "base64",
        "text": base64.b64encode(json.dumps(ANSWER).encode()).decode(),
    }
    post = {"mimeType": "application/json", "text": json.dumps(ASKED)}
    headers = [{"name": "Content-Type", "value": "application/json"}]
    return {
        "log": {
            "entries": [
                {
                    "request": {"method": "POST", "url": URL, "postData": post},
                    "response": {"status": 200, "headers": headers, "content": content},
                }
            ]
        }
    }


def parsed() -> Any:
    request = {"method": "POST", "uri": URL, "parsed_body": ASKED}
    response = {"status": {"code": 200}, "headers": JSON_HEADERS, "parsed_body": ANSWER}
    return {"interactions": [{"request": request, "response": response}]}


def one_exchange() -> Any:
    response = {"status": {"code": 200}, "headers": {"Content-Type": "application/json"}}
    response["body"] = json.dumps(ANSWER)
    return {
        "request": {"method": "POST", "url": URL, "body": json.dumps(ASKED)},
        "response": response,
    }


FORMS = {
    "vcr.yaml": yaml.safe_dump(vcr()),
    "vcr-gzip.yaml": yaml.safe_dump(vcr(answer=gzip.compress(json.dumps(ANSWER).encode()))),
    "vcr.json": json.dumps(vcr()),
    "parsed.yaml": yaml.safe_dump(parsed()),
    "one.json": json.dumps(one_exchange()),
    "log.har": json.dumps(har()),
}


@pytest.mark.parametrize("name", FORMS)
def test_each_form_of_cassette_gives_the_same_exchange(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(FORMS[name])

    (exchange,) = exchanges_in(tmp_path)

    assert (exchange.method, exchange.url, exchange.status) == ("POST", URL, 200)
    assert json.loads(exchange.request) == ASKED
    assert json.loads(exchange.answer) == ANSWER
    assert exchange.media_type == "application/json"


@pytest.mark.parametrize("text", ["", "a: [", "[1, 2]", '{"interactions": 3}', '{"request": 1}'])
def test_files_that_are_no_cassettes_are_left_out(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(text)

    assert list(exchanges_in(tmp_path)) == []


async def compared(tmp_path: Path, *cassettes: Any) -> Report:
    for number, cassette in enumerate(cassettes):
        (tmp_path / f"{number}.yaml").write_text(yaml.safe_dump(cassette))
    return await compare([tmp_path], Agreement())


async def test_an_accepted_request_and_its_answer_agree_with_swink(tmp_path: Path) -> None:
    report = await compared(tmp_path, vcr())

    assert report.open == {}
    assert report.counts == {
        "exchanges: compared": 1,
        "requests: accepted by server and rules": 1,
        "answers: read twice": 1,
        "answers: sent back as history": 1,
    }


async def test_an_accepted_request_that_a_rule_refuses_is_an_open_difference(
    tmp_path: Path,
) -> None:
    report = await compared(tmp_path, vcr({**ASKED, "temperature": 3}))

    (difference,) = report.open
    assert "accepted, refused by" in difference


async def test_a_refused_request_that_no_rule_refuses_is_an_open_difference(
    tmp_path: Path,
) -> None:
    refusal = {"error": {"message": "Unsupported thing."}}
    report = await compared(tmp_path, vcr(answer=refusal, status=400))

    assert list(report.open) == ["openai chat: 400, by no rule: Unsupported thing."]


async def test_a_refusal_of_the_key_says_nothing_about_the_request(tmp_path: Path) -> None:
    report = await compared(tmp_path, vcr(answer={"error": {"message": "No"}}, status=401))

    assert report.open == {}
    assert report.counts["requests: refused for another reason than the request"] == 1


async def test_an_answer_that_does_not_parse_is_an_open_difference(tmp_path: Path) -> None:
    report = await compared(tmp_path, vcr(answer=b"{"))

    (difference,) = report.open
    assert "the answer fails: protocol" in difference


async def test_other_apis_are_counted_and_not_compared(tmp_path: Path) -> None:
    report = await compared(tmp_path, vcr(url="https://api.example.com/v1/search"))

    assert report.counts == {"exchanges: not with an API that swink speaks": 1}


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (Answer("Hello", [], None), []),
        (Answer("Hell", [], None), ["text"]),
        (Answer("Hello", [("f", {})], None), ["tool calls"]),
        (Answer("Hello", [], 7), ["output tokens"]),
    ],
)
def test_differences_name_what_the_message_lacks(answer: Answer, found: list[str]) -> None:
    assert differences(answer, AssistantMessage([TextBlock("Hello")])) == found


STREAMS = {
    "openai-chat": (
        b'data: {"choices":[{"delta":{"content":"Hel"}}]}\n\n'
        b'data: {"choices":[{"delta":{"content":"lo"},"finish_reason":"stop"}]}\n\n'
        b"data: [DONE]\n\n"
    ),
    "openai-responses": (
        b'event: response.completed\ndata: {"type":"response.completed","response":{"status":'
        b'"completed","output":[{"type":"message","content":[{"text":"Hello"}]}]}}\n\n'
    ),
    "anthropic-messages": (
        b'data: {"type":"content_block_start","index":0,"content_block":'
        b'{"type":"text","text":""}}\n\n'
        b'data: {"type":"content_block_delta","index":0,"delta":'
        b'{"type":"text_delta","text":"Hello"}}\n\n'
        b'data: {"type":"message_delta","delta":{},"usage":{"output_tokens":1}}\n\n'
    ),
    "gemini-generate-content": (
        b'data: {"candidates":[{"content":{"parts":[{"text":"Hmm","thought":true},'
        b'{"text":"Hello"}]}}]}\n\n'
    ),
    "ollama-chat": (b'{"message":{"content":"Hel"}}\n{"message":{"content":"lo"},"done":true}\n'),
    "cohere-chat": (
        b'data: {"type":"content-delta","delta":{"message":{"content":{"text":"Hello"}}}}\n\n'
        b'data: {"type":"message-end","delta":{}}\n\n'
    ),
}


@pytest.mark.parametrize("wire_format", STREAMS)
def test_each_reader_reads_a_stream(wire_format: str) -> None:
    answer = read_answer(wire_format, STREAMS[wire_format], "text/event-stream")

    assert answer is not None
    assert answer.text == "Hello"


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b"data: {", b"\xff"])
@pytest.mark.parametrize("wire_format", STREAMS)
def test_a_body_that_is_no_answer_has_no_reading(wire_format: str, body: bytes) -> None:
    assert read_answer(wire_format, body, "application/json") is None


def test_a_difference_is_explained_only_where_its_reason_applies() -> None:
    difference = "openai chat: the answer fails: protocol: it is application/json, not a stream"

    assert reason_of(difference, "a/openai/cassettes/v1/x.yaml#0") is not None
    assert reason_of(difference, "elsewhere/x.yaml#0") is None
