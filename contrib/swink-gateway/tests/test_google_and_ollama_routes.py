"""The routes of Google's and Ollama's APIs, tested without their SDKs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from serving import Scripted, ask, serving

import swink_core as swink

HI = {"contents": [{"parts": [{"text": "one two"}]}]}
CHAT = {"model": "echo/echo", "messages": [{"role": "user", "content": "one two"}]}


@pytest.mark.parametrize("version", ["v1", "v1beta"])
async def test_a_model_name_with_a_slash_works_in_both_versions(version: str) -> None:
    async with serving(keys=["k1"]) as gateway:
        place = f"/{version}/models/echo/echo"
        whole = await ask(gateway, f"{place}:generateContent?key=k1", HI)
        events = await ask(gateway, f"{place}:streamGenerateContent?alt=sse&key=k1", HI)
        array = await ask(gateway, f"{place}:streamGenerateContent?key=k1", HI)
        counted = await ask(gateway, f"{place}:countTokens?key=k1", HI)
        shown = await ask(gateway, f"{place}?key=k1")
    assert _text([whole.json]) == _text(events.frames) == _text(array.json) == "one two"
    assert events.headers["Content-Type"] == "text/event-stream"
    assert array.headers["Content-Type"] == "application/json"
    assert counted.json["totalTokens"] > 0
    assert shown.json["name"] == "models/echo/echo"


def _text(responses: list[Any]) -> str:
    candidates = [response["candidates"][0] for response in responses]
    return "".join(part["text"] for one in candidates for part in one["content"]["parts"])


async def test_invalid_requests_are_refused_in_the_apis_error_format() -> None:
    async with serving() as gateway:
        unknown = await ask(gateway, "/v1beta/models/nobody/any:generateContent", HI)
        wrong = await ask(gateway, "/v1beta/models/echo/echo:generateContent", {"contents": 1})
        missing = await ask(gateway, "/api/chat", {**CHAT, "model": "nobody/any"})
        unread = await ask(gateway, "/api/chat", b"{")
    error = unknown.json["error"]
    assert (unknown.status, error["code"], error["status"]) == (404, 404, "NOT_FOUND")
    error = wrong.json["error"]
    assert (wrong.status, error["code"], error["status"]) == (400, 400, "INVALID_ARGUMENT")
    assert (missing.status, type(missing.json["error"])) == (404, str)
    assert unread.status == 400
    assert "not valid JSON" in unread.json["error"]


async def test_ollama_streams_lines_by_default() -> None:
    async with serving() as gateway:
        stream = await ask(gateway, "/api/chat", CHAT)
        whole = await ask(gateway, "/api/chat", {**CHAT, "stream": False})
        version = await ask(gateway, "/api/version")
        tags = await ask(gateway, "/api/tags")
    lines = [msgspec.json.decode(line) for line in stream.body.splitlines()]
    assert stream.headers["Content-Type"] == "application/x-ndjson"
    assert "".join(line["message"]["content"] for line in lines) == "one two"
    assert [line["done"] for line in lines] == [*[False] * (len(lines) - 1), True]
    assert (whole.json["message"]["content"], whole.json["done_reason"]) == ("one two", "stop")
    assert version.json["version"]
    assert "echo/echo" in [model["model"] for model in tags.json["models"]]


async def test_googles_own_fields_are_reported_for_other_providers() -> None:
    body = {**HI, "cachedContent": "c", "generationConfig": {"mediaResolution": "LOW"}}
    async with serving() as gateway:
        answer = await ask(gateway, "/v1beta/models/echo/echo:generateContent", body)
    assert answer.status == 200
    assert answer.headers["x-swink-dropped"] == "generationConfig.mediaResolution, cachedContent"


async def test_googles_own_fields_go_to_google_unchanged() -> None:
    body = {**HI, "safetySettings": [{"category": "C"}], "tools": [{"googleSearch": {}}]}
    upstream = Scripted([swink.Start(), swink.Done(swink.StopReason.STOP)])
    async with serving(upstream) as gateway:
        answer = await ask(gateway, "/v1beta/models/gemini/gemini-2.5-flash:generateContent", body)
    assert answer.status == 200
    assert upstream.options.extra == {
        "safetySettings": [{"category": "C"}],
        "tools": [{"googleSearch": {}}],
    }
    assert "x-swink-dropped" not in answer.headers
