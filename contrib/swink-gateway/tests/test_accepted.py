"""The gateway accepts every request that a vendor's own server accepts, and never answers with 500.

A header lists the fields that the selected provider cannot represent. An invalid request is refused
with a message.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from serving import Scripted, ask, serving

import swink_core as swink
from swink_core import AudioBlock, Base64Source, DocumentBlock, StopReason, UserMessage
from swink_gateway.protocols.sealing import seal

PATHS = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages?beta=true",
    "gemini": "/v1beta/models/echo/echo:generateContent",
    "ollama": "/api/chat",
    "generate": "/api/generate",
}
HI = {"role": "user", "content": "Hi"}
ANSWER = [swink.Start(), swink.TextStart(0), swink.TextEnd(0), swink.Done(StopReason.STOP)]
FREE = {"type": "custom", "custom": {"name": "patch"}}
MP3, WAV = "//NkxAAA", "UklGRgAA"


def sealed(**held: Any) -> dict[str, Any]:
    return {"type": "redacted_thinking", "data": seal("acme", **held)}


def said(*blocks: Any) -> list[Any]:
    return [HI, {"role": "assistant", "content": [*blocks, {"type": "text", "text": "so"}]}, HI]


def cited(held: Any) -> list[Any]:
    """Return a conversation whose answer has a citation with sealed data."""
    found = {"type": "web_search_result_location", "encrypted_index": seal("acme", text=held)}
    text = {"type": "text", "text": "so", "citations": [found]}
    return [HI, {"role": "assistant", "content": [text]}]


ORDERED = {
    "type": "OBJECT", "propertyOrdering": [[], "b"],
    "properties": {"a": {"type": "STRING"}, "b": {"type": "STRING"}},
}  # fmt: skip


def parts(*parts: Any) -> list[Any]:
    return [{"role": "user", "content": [{"type": "text", "text": "x"}, *parts]}]


# a protocol, a body, the fields reported as dropped
ACCEPTED: list[tuple[str, dict[str, Any], str]] = [
    (
        "chat", {"messages": [{"role": "developer", "content": "Hi"}]},
        "the role of the last message",
    ),
    ("chat", {"messages": [HI], "tools": [FREE], "tool_choice": "required"}, ""),
    ("chat", {"messages": [HI], "tools": [FREE], "tool_choice": "any"}, ""),
    (
        "responses", {"input": "Hi", "tools": [{"type": "custom", "name": "f", "format": {}}]},
        "tools.f.format",
    ),
    (
        "chat", {"messages": [HI], "tools": [{"type": "x:search"}], "tool_choice": "required"},
        "tools (x:search), tool_choice",
    ),
    (
        "chat", {"messages": [HI, {"role": "assistant", "audio": {"id": "audio_1"}}, HI]},
        "messages (audio)",
    ),
    ("chat", {"messages": parts({"type": "input_audio", "input_audio": MP3})}, ""),
    ("chat", {"messages": parts({"type": "file", "file": {"file_data": "JVBERg=="}})}, ""),
    (
        "responses", {"input": "Hi", "tools": [{"type": "web_search"}], "tool_choice": "required"},
        "tools (web_search), tool_choice",
    ),
    (
        "responses", {"input": [{"type": "of the future", "id": "x"}, HI]},
        "messages (of the future)",
    ),
    (
        "messages",
        {
            "messages": [HI], "max_tokens": 9, "tool_choice": {"type": "tool", "name": "search"},
            "tools": [{"type": "search_20990101", "name": "search"}],
        },
        "tools (search_20990101), tool_choice",
    ),
    ("messages", {"messages": [HI], "max_tokens": 0}, "max_tokens (0)"),
    ("messages", {"messages": said(sealed(block=1)), "max_tokens": 9}, ""),
    ("messages", {"messages": said(sealed(of=7)), "max_tokens": 9}, ""),
    ("messages", {"messages": said(sealed(signature=7)), "max_tokens": 9}, ""),
    (
        "gemini",
        {
            "contents": {"parts": {"text": "Hi"}}, "tools": {"googleSearch": {}},
            "toolConfig": {"functionCallingConfig": {"mode": "ANY"}},
            "generationConfig": {"maxOutputTokens": "9", "temperature": "0.5"},
        },
        "tools[0].googleSearch, tool_choice",
    ),
    ("messages", {"messages": [*cited("abc"), HI], "max_tokens": 9}, ""),
    (
        "gemini",
        {
            "contents": {"parts": {"text": "Hi"}},
            "generationConfig": {"responseSchema": ORDERED, "responseMimeType": "application/json"},
        },
        "",
    ),
    ("ollama", {"messages": [HI, {"role": "tool", "tool_name": "f", "content": "x"}]}, ""),
]  # fmt: skip


IDS = [f"{row[0]}-{number}" for number, row in enumerate(ACCEPTED)]


@pytest.mark.parametrize(("protocol", "body", "dropped"), ACCEPTED, ids=IDS)
async def test_requests_that_vendors_accept_are_accepted(
    protocol: str, body: dict[str, Any], dropped: str
) -> None:
    async with serving(Scripted(ANSWER)) as gateway:
        answer = await ask(gateway, PATHS[protocol], {"model": "echo/echo", **body})
    assert answer.status == 200, answer.body
    assert answer.headers.get("x-swink-dropped", "") == dropped


@pytest.mark.parametrize("protocol", PATHS)
@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{", b"\xff", '{"model":"é"}'.encode("latin-1"), b"[" * 5000, b'{"model":{}}'],
    ids=range(7),
)
async def test_invalid_requests_are_refused_with_a_message(protocol: str, body: bytes) -> None:
    async with serving() as gateway:
        answer = await ask(gateway, PATHS[protocol], body)
    assert answer.status == 400
    assert answer.json["error"]


@pytest.mark.parametrize("number", ["inf", "-inf", "nan", "1e999"])
async def test_a_number_of_gemini_that_is_not_finite_is_refused(number: str) -> None:
    body = {"contents": {"parts": {"text": "Hi"}}, "generationConfig": {"topK": number}}
    async with serving(Scripted(ANSWER)) as gateway:
        answer = await ask(gateway, PATHS["gemini"], body)
    assert answer.status == 400
    assert "topK is a string; expected a number" in answer.json["error"]["message"]


async def test_media_types_are_detected_from_the_first_bytes() -> None:
    upstream = Scripted(ANSWER)
    sounds = [{"type": "input_audio", "input_audio": data} for data in (MP3, WAV)]
    file = {"type": "file", "file": {"file_data": "JVBERg=="}}
    async with serving(upstream) as gateway:
        body = {"model": "echo/echo", "messages": parts(*sounds, file)}
        await ask(gateway, PATHS["chat"], body)
    assert upstream.context.messages[0].content[1:] == [
        AudioBlock(Base64Source("audio/mpeg", MP3)),
        AudioBlock(Base64Source("audio/wav", WAV)),
        DocumentBlock(Base64Source("application/pdf", "JVBERg==")),
    ]


@pytest.mark.parametrize(
    ("protocol", "said", "reason"),
    [
        ("ollama", {}, "load"),
        ("ollama", {"messages": [], "keep_alive": 0}, "unload"),
        ("generate", {}, "load"),
        ("generate", {"prompt": "", "keep_alive": "0s"}, "unload"),
    ],
)
async def test_a_request_without_messages_only_loads_the_model(
    protocol: str, said: dict[str, Any], reason: str
) -> None:
    upstream = Scripted(ANSWER)
    async with serving(upstream) as gateway:
        answer = await ask(gateway, PATHS[protocol], {"model": "echo/echo", **said})
        unknown = await ask(gateway, PATHS[protocol], {"model": "nobody/any", **said})
    assert (answer.status, answer.json["done"], answer.json["done_reason"]) == (200, True, reason)
    assert unknown.status == 404
    assert upstream.calls == []


@pytest.mark.parametrize("stream", [True, False])
async def test_a_free_text_tool_is_called_with_free_text(stream: bool) -> None:
    called = [
        swink.ToolCallStart(0, "c1", "patch"), swink.ToolCallDelta(0, '{"input": "a'),
        swink.ToolCallDelta(0, '\\nb"}'), swink.ToolCallEnd(0),
    ]  # fmt: skip
    upstream = Scripted([swink.Start(), *called, swink.Done(StopReason.TOOL_USE)])
    body = {"model": "echo/echo", "messages": [HI], "tools": [FREE], "stream": stream}
    async with serving(upstream) as gateway:
        answer = await ask(gateway, PATHS["chat"], body)
        if stream:
            deltas = [f["choices"][0]["delta"] for f in answer.frames if f != b"[DONE]"]
            pieces = [call for delta in deltas for call in delta.get("tool_calls", ())]
            call = {**pieces[0], "custom": {"name": pieces[0]["custom"]["name"], "input": ""}}
            for piece in pieces:
                call["custom"]["input"] += piece["custom"]["input"]
        else:
            (call,) = answer.json["choices"][0]["message"]["tool_calls"]
        told = [HI, {"role": "assistant", "tool_calls": [call]}]
        told.append({"role": "tool", "tool_call_id": "c1", "content": "done"})
        await ask(gateway, PATHS["chat"], {**body, "messages": told})
    assert call["type"] == "custom"
    assert call["custom"] == {"name": "patch", "input": "a\nb"}
    (again,) = upstream.context.messages[1].tool_calls  # type: ignore[union-attr]  # it is one
    assert again.arguments == {"input": "a\nb"}
    (tool,) = upstream.context.tools
    assert msgspec.json.encode(tool.parameters).count(b'"input"') == 2
    assert isinstance(upstream.context.messages[0], UserMessage)
