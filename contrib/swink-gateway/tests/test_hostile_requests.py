"""Hostile requests: enormous, malformed, or aimed at data of others.

The freeze meter measures the CPU time of the event loop's thread for a request, from its bytes to a
prepared call. Every field of a request is made large in every way that JSON allows. With
`SWINK_GATEWAY_CLIENTS` (`make clients`), all texts are tried at full size; without it, at a quarter
of the size.
"""

from __future__ import annotations

import gc
import gzip
import json
import logging
import time
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from math import inf
from typing import Any

import pytest
from serving import ask, serving
from upstream import EVERYTHING

import swink_core as swink
import swink_testing.conformance  # noqa: F401  # before freeze, which it imports in a circle
from swink_gateway.policy.config import Config
from swink_gateway.policy.limits import MemoryLedger
from swink_gateway.policy.routing import Routing
from swink_gateway.protocols import BadRequest, ClientProtocol
from swink_gateway.protocols.bodies import (
    MOST_BLOCKS,
    MOST_CONTAINERS,
    MOST_DEPTH,
    MOST_ELEMENTS,
    MOST_FIELDS,
    MOST_NAME,
    MOST_VALUES,
    json_of,
)
from swink_gateway.protocols.chat.protocol import ChatProtocol
from swink_gateway.protocols.failures import Refused
from swink_gateway.protocols.gemini.protocol import GeminiProtocol
from swink_gateway.protocols.messages.protocol import MessagesProtocol
from swink_gateway.protocols.native.protocol import NativeProtocol
from swink_gateway.protocols.ollama.protocol import OllamaGenerateProtocol, OllamaProtocol
from swink_gateway.protocols.responses.protocol import ResponsesProtocol
from swink_gateway.protocols.sealing import seal
from swink_gateway.serving.bodies import read_body
from swink_gateway.serving.calls import Calls
from swink_provider_openai.responses import converter
from swink_test_helpers.canary_credentials import SONG, given_to
from swink_test_helpers.growing_work import PER_BYTE
from swink_testing.driver import MemoryHTTPClient, MemoryResponse
from swink_testing.freeze import FREEZE, HOSTILE_SIZE, UsualSpeed
from swink_testing.oversized_json import TEXTS, inflated

MODEL = "echo/echo"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FUNCTION = {"name": "look", "description": "Looks.", "parameters": SCHEMA}
PIXEL = "data:image/png;base64,iVBORw0KGgo="

REQUESTS: dict[str, tuple[ClientProtocol, dict[str, str], dict[str, Any]]] = {
    "chat": (ChatProtocol(), {}, {
        "model": MODEL, "temperature": 0.5, "stop": ["x"], "stream": True,
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [
                {"type": "text", "text": "Hi"},
                {"type": "image_url", "image_url": {"url": PIXEL}},
            ]},
            {"role": "assistant", "content": None, "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}},
            ]},
            {"role": "tool", "tool_call_id": "c1", "content": "Rain."},
        ],
        "tools": [{"type": "function", "function": FUNCTION}],
    }),
    "messages": (MessagesProtocol(), {}, {
        "model": MODEL, "max_tokens": 99, "stop_sequences": ["x"], "stream": True,
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "abcd"},
                {"type": "tool_use", "id": "c1", "name": "look", "input": {"city": "Rome"}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "Rain."},
            ]},
        ],
        "tools": [{"name": "look", "description": "Looks.", "input_schema": SCHEMA}],
    }),
    "responses": (ResponsesProtocol(), {}, {
        "model": MODEL, "instructions": "Be brief.", "stream": True,
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
            {"type": "reasoning", "id": "r1", "summary": [], "encrypted_content": "abcd"},
            {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "Rain."},
        ],
        "tools": [{"type": "function", **FUNCTION}],
    }),
    "gemini": (GeminiProtocol(), {"model": MODEL, "method": "generateContent"}, {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "Hi"}]},
            {"role": "model", "parts": [
                {"functionCall": {"name": "look", "args": {}}, "thoughtSignature": "abcd"},
            ]},
            {"role": "user", "parts": [
                {"functionResponse": {"name": "look", "response": {"output": "Rain."}}},
            ]},
        ],
        "generationConfig": {"temperature": 0.5, "stopSequences": ["x"]},
        "tools": [{"functionDeclarations": [FUNCTION]}],
    }),
    "ollama": (OllamaProtocol(), {}, {
        "model": MODEL, "options": {"temperature": 0.5, "stop": ["x"]},
        "messages": [
            {"role": "user", "content": "Hi", "images": ["iVBORw0KGgo="]},
            {"role": "assistant", "content": "", "tool_calls": [
                {"function": {"name": "look", "arguments": {"city": "Rome"}}},
            ]},
            {"role": "tool", "tool_name": "look", "content": "Rain."},
        ],
        "tools": [{"type": "function", "function": FUNCTION}],
    }),
    "ollama generate": (OllamaGenerateProtocol(), {}, {
        "model": MODEL, "prompt": "Hi", "system": "Be brief.", "format": SCHEMA,
    }),
    "native": (NativeProtocol(), {}, {
        "model": MODEL, "system": "Be brief.", "options": {"temperature": 0.5, "stop": ["x"]},
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
            {"role": "assistant", "content": [
                {"type": "tool_call", "id": "c1", "name": "look", "arguments": {"city": "Rome"}},
            ]},
            {"role": "tool_result", "tool_call_id": "c1", "tool_name": "look", "content": "Rain."},
        ],
        "tools": [{"name": "look", "description": "Looks.", "parameters": SCHEMA}],
    }),
}  # fmt: skip

PATHS = {
    "chat": "/v1/chat/completions",
    "messages": "/v1/messages",
    "responses": "/v1/responses",
    "gemini": f"/v1beta/models/{MODEL}:generateContent",
    "ollama": "/api/chat",
    "ollama generate": "/api/generate",
    "native": "/v1/stream",
}

TIMES, MOST = (64, 3) if EVERYTHING else (8, 1)
"""The size factor of an enormous request, and the number of the slowest to repeat."""

LARGE, LIMIT = (HOSTILE_SIZE, FREEZE) if EVERYTHING else (HOSTILE_SIZE // 4, FREEZE / 2)
"""The size of a request in bytes, and the seconds that the event loop may work on it."""

REPEATED = TEXTS if EVERYTHING else ("[",)

EACH = pytest.mark.parametrize("name", REQUESTS)


async def loop_seconds(
    calls: Calls, name: str, body: bytes, enough: float, tries: int = 3
) -> float:
    """Return the time of the event loop for a request, up to the call of a provider.

    It is the least of several `tries`, which end once one takes no longer than `enough`.
    """
    protocol, path, _ = REQUESTS[name]
    best, speed = FREEZE * 1000, UsualSpeed()
    gc.disable()
    try:
        for _ in range(tries):
            begun = time.thread_time()
            with suppress(Refused):
                asked = await read_body(protocol, body, path, {})
                async with calls.begun(protocol, asked, ""):
                    pass
            best = min(best, speed.seconds(time.thread_time() - begun, enough))
            if best < enough:
                break
    finally:
        gc.enable()
    return best


def odd(data: Any) -> Iterator[Any]:
    """Yield copies of data, each with an unexpected value in one place."""
    if isinstance(data, dict | list):
        keys = list(data) if isinstance(data, dict) else range(len(data))
        for key in keys:
            values = [*ODD, *odd(data[key])]
            for value in values:
                made = data.copy()
                made[key] = value
                yield made


NO_REQUESTS = (b"", b"{", b"[]", b"0", b"\xff", b"[" * 200_000, b'{"a":' * 50_000)

ODD = (None, True, -1, 1e308, 10**30, "", "\ud800", [], {}, [None], [[]], {"type": None}, {"": {}})


@asynccontextmanager
async def calling() -> AsyncIterator[Calls]:
    async with swink.Client() as client:
        yield Calls(client, Routing(client, Config()), MemoryLedger(), swink.RetryPolicy())


@EACH
async def test_the_sample_is_a_valid_request(name: str) -> None:
    protocol, path, body = REQUESTS[name]
    asked = protocol.read(body, path, {})
    async with calling() as calls, calls.begun(protocol, asked, "") as begun:
        assert begun.stream.call.model.provider


@EACH
async def test_no_request_blocks_the_event_loop(name: str) -> None:
    slow = []
    async with calling() as calls:
        for where, body in inflated(REQUESTS[name][2], LARGE, REPEATED):
            if (seconds := await loop_seconds(calls, name, body, LIMIT)) > LIMIT:
                slow.append(f"{where}: {seconds:.2f} s")
    assert not slow


@pytest.mark.heavy
@EACH
async def test_the_time_per_byte_of_enormous_requests_is_constant(name: str) -> None:
    size = HOSTILE_SIZE // 4
    small = dict(inflated(REQUESTS[name][2], size, ("x",)))
    async with calling() as calls:
        dearest = [
            (await loop_seconds(calls, name, body, inf), where) for where, body in small.items()
        ]
        for _, where in sorted(dearest)[-MOST:]:
            ((_, large),) = inflated(REQUESTS[name][2], TIMES * size, ("x",), {where})
            times = len(large) / len(small[where])  # more than TIMES, where names are numbered
            enough = PER_BYTE * times * await loop_seconds(calls, name, small[where], 0.0)
            assert await loop_seconds(calls, name, large, enough, tries=20) <= enough, where


async def test_the_number_of_blocks_is_limited() -> None:
    many = [{"role": "user", "content": "Hi"}] * (MOST_BLOCKS + 1)
    async with serving() as gateway:
        answer = await ask(gateway, PATHS["chat"], {"model": MODEL, "messages": many})
        assert (answer.status, answer.json["error"]["code"]) == (400, "invalid_request")
        assert str(MOST_BLOCKS) in answer.json["error"]["message"]
        answer = await ask(gateway, PATHS["chat"], b"[" + b"{}," * MOST_ELEMENTS + b"{}]")
        assert answer.status == 400
        assert str(MOST_ELEMENTS) in answer.json["error"]["message"]


@EACH
async def test_the_nesting_of_a_request_is_limited(name: str) -> None:
    protocol, path, body = REQUESTS[name]
    async with calling() as calls:
        for depth, fits in ((MOST_DEPTH // 2, True), (MOST_DEPTH, False), (990, False)):
            schema = b'{"type": "array", "items": ' * depth + b"{}" + b"}" * depth
            data = encoded(body).replace(encoded(SCHEMA), schema)
            assert data != encoded(body)
            if fits:
                asked = await read_body(protocol, data, path, {})
                async with calls.begun(protocol, asked, ""):
                    pass
            else:
                with pytest.raises(Refused, match="nested too deeply"):
                    await read_body(protocol, data, path, {})


async def test_the_memory_of_sealed_data_is_limited() -> None:
    dense = "swink1." + urlsafe_b64encode(b'["openai",{"a":[' + b"[]," * 100_000 + b"1]}]").decode()
    thought = {"type": "thinking", "thinking": "Hm", "signature": dense}
    said = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": [thought]}]
    protocol, path, body = REQUESTS["messages"]
    for turns, fits in ((1, True), (4, False)):
        data = encoded({**body, "messages": said * turns + said[:1]})
        if fits:
            await read_body(protocol, data, path, {})
        else:
            with pytest.raises(Refused, match="too large"):
                await read_body(protocol, data, path, {})


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/responses"])
async def test_sealed_data_that_a_plugin_cannot_read_is_a_bad_request(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sealed = seal("openai", metadata={"item": {"id": "r1"}})
    extension = {"type": "extension", "kind": "x", "provider": "openai", "data": {"id": "r1"}}
    item = seal("openai", block=extension)
    answers: dict[str, Any] = {
        "/v1/messages": {"messages": [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "Hm", "signature": sealed},
                {"type": "text", "text": "Hello"},
            ]},
            {"role": "user", "content": "Hi"},
        ], "max_tokens": 9},
        "/v1/responses": {"input": [
            {"type": "reasoning", "id": "r1", "summary": [], "encrypted_content": item},
            {"role": "assistant", "content": "Hello"},
            {"role": "user", "content": "Hi"},
        ]},
    }  # fmt: skip

    def raising(*given: Any, **named: Any) -> Any:
        raise KeyError("content")

    monkeypatch.setattr(converter, "_add_text", raising)
    http = MemoryHTTPClient()
    async with serving(http=http, providers={"openai": {"api_key": "k"}}) as gateway:
        own = await ask(gateway, path, {"model": "openai/gpt-5.4-mini", **answers[path]})
        said = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}] * 2
        plain = {"model": "openai/gpt-5.4-mini", "max_tokens": 9, "input": said, "messages": said}
        fault = await ask(gateway, path, plain)
    assert own.status == 400
    assert own.json["error"]["type"] == "invalid_request_error"
    assert "did not make" in own.json["error"]["message"]
    assert fault.status == 500


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (b"[" + b"[]," * (MOST_CONTAINERS - 1) + b"1]", None),
        (b"[" + b"[]," * MOST_CONTAINERS + b"1]", "objects and lists"),
        (b"[" + b"null," * MOST_VALUES + b"null]", "values"),
        (b"[" + b"1," * MOST_VALUES + b"1.5]", None),
    ],
)
def test_the_values_of_a_request_are_limited(made: bytes, why: str | None) -> None:
    if why is None:
        json_of(made)
    else:
        with pytest.raises(BadRequest, match=f"more than .* {why}"):
            json_of(made)


@EACH
async def test_the_fields_of_a_body_are_limited(name: str) -> None:
    protocol, path, body = REQUESTS[name]
    fields = {f"a{number}": 1 for number in range(MOST_FIELDS - len(body))}
    await read_body(protocol, encoded({**fields, **body}), path, {})
    wide = [{**fields, "b": 1, **body}]
    if name == "native":
        much = {f"a{number}": 1 for number in range(MOST_FIELDS + 1)}
        wide += [{**body, "options": {"extra": much}}, {**body, "call": {"extra": much}}]
    for asked in wide:
        with pytest.raises(Refused, match=f"more than {MOST_FIELDS} fields"):
            await read_body(protocol, encoded(asked), path, {})


@EACH
async def test_a_models_name_is_short_and_printable(name: str) -> None:
    protocol, path, body = REQUESTS[name]
    for model in ("echo/" + "x" * MOST_NAME, "echo/a\nERROR all is lost", "echo/\x1b[2J"):
        named = {"model": model}
        with pytest.raises(Refused, match="name of the model"):
            await read_body(protocol, encoded({**body, **named}), {**path, **named}, {})


@pytest.mark.parametrize("coding", ["gzip", "zstd", "GZip", "gzip, gzip"])
async def test_compressed_bodies_are_refused(coding: str) -> None:
    bomb = gzip.compress(b" " * 1_000_000)
    async with serving() as gateway:
        for path in (*PATHS.values(), "/api/show", "/health"):
            answer = await ask(gateway, path, bomb, headers={"Content-Encoding": coding})
            assert answer.status == 415


@EACH
async def test_unexpected_values_are_refused_or_dropped(name: str) -> None:
    protocol, path, body = REQUESTS[name]
    refusals = []
    async with calling() as calls:
        for made in odd(body):
            try:
                asked = await read_body(protocol, encoded(made), path, {})
                async with calls.begun(protocol, asked, ""):
                    pass
            except Refused as refusal:
                refusals.append(refusal)
    assert len(refusals) > 20
    assert all(400 <= refusal.status < 500 for refusal in refusals)


def encoded(data: Any) -> bytes:
    return json.dumps(data).encode()


@EACH
@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"0", b"\xff", b"[" * 200_000, b'{"a":' * 50_000]
)
async def test_invalid_requests_are_refused_in_the_protocols_format(name: str, body: bytes) -> None:
    async with serving() as gateway:
        answer = await ask(gateway, PATHS[name], body)
    assert answer.status == 400
    assert answer.json["error"]


NO_SCHEMAS: list[dict[str, Any]] = [
    {"properties": 1}, {"properties": [[]]}, {"required": 1}, {"required": [[]]}, {"anyOf": 1},
    {"allOf": [{"properties": 0, "required": 0}]},
]  # fmt: skip


@pytest.mark.parametrize("model", ["openai/gpt-5-mini", "anthropic/claude-haiku-4-5"])
@pytest.mark.parametrize("wrong", NO_SCHEMAS, ids=str)
async def test_the_provider_refuses_an_invalid_schema(model: str, wrong: dict[str, Any]) -> None:
    refusal = {"error": {"type": "invalid_request_error", "message": "that is no schema"}}
    http = MemoryHTTPClient(MemoryResponse.of_json(refusal, 400))
    provider = {model.partition("/")[0]: {"api_key": "k", "base_url": "http://upstream.invalid"}}
    tool = {"name": "look", "strict": True, "input_schema": {"type": "object", **wrong}}
    said = {"max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}], "tools": [tool]}
    async with serving(http=http, providers=provider) as gateway:
        answer = await ask(gateway, "/v1/messages", {"model": model, **said})
    assert answer.status == 400
    assert "that is no schema" in answer.json["error"]["message"]
    assert len(http.requests) == 1


@EACH
@pytest.mark.parametrize("status", [400, 401])
async def test_no_secret_of_the_gateway_reaches_a_client(
    name: str, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Only the log has a provider's message about the gateway's credentials."""
    caplog.set_level(logging.DEBUG)
    own = {"openai": given_to("openai")}
    echoed = own["openai"]["api_key"] + own["openai"]["headers"]["Cookie"]
    limits = {"x-ratelimit-limit-requests": echoed}
    refused = MemoryResponse.of_json({"error": {"message": f"bad key {echoed}"}}, status, limits)
    body = {**REQUESTS[name][2], "model": "openai/gpt-4.1-mini"}
    path = PATHS[name].replace(MODEL, "openai/gpt-4.1-mini")
    async with serving(http=MemoryHTTPClient(refused), providers=own) as gateway:
        answer = await ask(gateway, path, body)
    assert (b"bad key" in answer.body) is (status == 400)
    assert "bad key" in caplog.text
    for text in (answer.body.decode(), str(answer.headers), caplog.text):
        assert not SONG.search(text)
