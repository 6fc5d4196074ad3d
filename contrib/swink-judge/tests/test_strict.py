"""A strict server takes what the real one takes, and refuses the rest in its own shape."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import pytest

import swink_core as swink
from swink_core import StopReason, StreamErrorKind
from swink_core.providers import Catalog
from swink_judge import Judge, Rule
from swink_judge.strict import TEXT, StrictServer, strict_server

CATALOG = Catalog(swink.Host(environ={}), environ={})
ONCE = {"retry": swink.RetryPolicy.none()}


def _model(provider: str) -> str:
    known = CATALOG.models(provider)
    return f"{provider}/{known[0].id if known else 'any'}"


@pytest.mark.parametrize("transport", ["auto", "buffered"])
@pytest.mark.parametrize("provider", sorted(Judge().providers))
async def test_every_provider_reads_the_answer_of_its_strict_server(
    provider: str, transport: str
) -> None:
    async with strict_server(provider) as server, swink.Client(**ONCE) as client:
        answer = await client.complete(
            _model(provider), "Hello", base_url=server.url, api_key="test", transport=transport
        )
    assert (answer.text, answer.stop_reason) == (TEXT, StopReason.STOP)
    assert answer.usage is not None
    assert (answer.usage.input, answer.usage.output) == (3, 2)
    assert [asked.provider for asked in server.asked] == [provider]
    assert server.refused == []


async def test_responses_are_answered_too() -> None:
    async with strict_server("openai") as server, swink.Client(**ONCE) as client:
        answer = await client.complete(
            "openai/gpt-5.5",
            "Hello",
            base_url=server.url,
            api_key="test",
            settings={"api": "responses"},
        )
    assert answer.text == TEXT
    assert [asked.api for asked in server.asked] == ["responses"]


def _refusing(provider: str, api: str, status: int) -> StrictServer:
    rule = Rule(
        "no", provider, api, ".", [], status, "Not that.", "https://a", "measured", "2026-11-25"
    )
    return StrictServer(provider, Judge([rule]))


@pytest.mark.parametrize(
    ("provider", "api", "status", "kind"),
    [
        ("openai", "chat", 400, StreamErrorKind.INVALID_REQUEST),
        ("openai", "responses", 404, StreamErrorKind.MODEL_NOT_FOUND),
        ("anthropic", "messages", 400, StreamErrorKind.INVALID_REQUEST),
        ("anthropic", "messages", 404, StreamErrorKind.MODEL_NOT_FOUND),
        ("bedrock", "converse", 400, StreamErrorKind.INVALID_REQUEST),
        ("bedrock", "converse", 404, StreamErrorKind.MODEL_NOT_FOUND),
        ("gemini", "generateContent", 400, StreamErrorKind.INVALID_REQUEST),
        ("gemini", "generateContent", 404, StreamErrorKind.MODEL_NOT_FOUND),
        ("ollama", "chat", 400, StreamErrorKind.INVALID_REQUEST),
    ],
)
async def test_a_refusal_is_understood_as_the_vendors_own(
    provider: str, api: str, status: int, kind: StreamErrorKind
) -> None:
    extra = {"settings": {"api": api}} if provider == "openai" else {}
    async with _refusing(provider, api, status) as server, swink.Client(**ONCE) as client:
        call = client.stream(
            _model(provider), "Hello", base_url=server.url, api_key="test", **extra
        )
        async with call as events:
            *_, last = [event async for event in events]
    assert isinstance(last, swink.Error)
    assert last.error_kind is kind
    assert "Not that." in str(last.error_message)
    assert [rule.id for _, rules in server.refused for rule in rules] == ["no"]


def _post(url: str, body: Any) -> tuple[int, Any]:
    request = urllib.request.Request(url, json.dumps(body).encode(), method="POST")
    try:
        with urllib.request.urlopen(request) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_any_client_may_ask_and_a_value_without_effect_is_noted() -> None:
    body = {"model": "deepseek-flash", "messages": [{"role": "user", "content": "Hello"}]}
    with strict_server("deepseek") as server:
        status, answer = _post(f"{server.url}/chat/completions", body)
        assert (status, answer["choices"][0]["message"]["content"]) == (200, TEXT)
        assert server.ignored == []
        status, _ = _post(f"{server.url}/chat/completions", {**body, "temperature": 0.2})
        assert status == 200
        assert [rule.id for _, rules in server.ignored for rule in rules] == [
            "deepseek-temperature-thinking"
        ]
        status, answer = _post(
            f"{server.url}/chat/completions",
            {**body, "response_format": {"type": "json_schema", "json_schema": {}}},
        )
        assert (status, answer["error"]["type"]) == (400, "invalid_request_error")
        assert len(server.refused) == 1
        assert _post(f"{server.url}/embeddings", body)[0] == 404


def test_a_provider_without_rules_has_no_strict_server() -> None:
    with pytest.raises(ValueError, match=r"there are no rules for 'acme'.*openai"):
        strict_server("acme")


def _calls(name: str) -> list[Any]:
    call = {"functionCall": {"name": "look", "args": {}}, "thoughtSignature": "c2ln"}
    result = {"functionResponse": {"name": name, "response": {"output": "x"}}}
    return [
        {"role": "user", "parts": [{"text": "Hi"}]},
        {"role": "model", "parts": [call]},
        {"role": "user", "parts": [result]},
    ]


UNKNOWN = "_e3b0c442"
_SCHEMA = {"type": "object", "properties": {}}
_DECLARED = {"functionDeclarations": [{"name": "look"}]}

# (provider, path, request with the name of a tool, rule that refuses another name)
NAMED: list[tuple[str, str, Any, str]] = [
    (
        "openai",
        "/chat/completions",
        lambda name: {
            "model": "gpt-5.4",
            "messages": [{"role": "user", "content": "Hi"}],
            "tools": [{"type": "function", "function": {"name": "look", "parameters": _SCHEMA}}],
            "tool_choice": {"type": "function", "function": {"name": name}},
        },
        "openai-chat-tool-choice-unlisted",
    ),
    (
        "openai",
        "/responses",
        lambda name: {
            "model": "gpt-5.4",
            "input": "Hi",
            "tools": [{"type": "function", "name": "look", "parameters": _SCHEMA}],
            "tool_choice": {"type": "function", "name": name},
        },
        "openai-responses-tool-choice-unlisted",
    ),
    (
        "anthropic",
        "/v1/messages",
        lambda name: {
            "model": "claude-haiku-4-5",
            "max_tokens": 9,
            "messages": [{"role": "user", "content": "Hi"}],
            "tools": [{"name": "look", "input_schema": _SCHEMA}],
            "tool_choice": {"type": "tool", "name": name},
        },
        "anthropic-tool-choice-unlisted",
    ),
    (
        "bedrock",
        "/model/us.amazon.nova-pro-v1:0/converse",
        lambda name: {
            "messages": [{"role": "user", "content": [{"text": "Hi"}]}],
            "toolConfig": {
                "tools": [{"toolSpec": {"name": "look", "inputSchema": {"json": _SCHEMA}}}],
                "toolChoice": {"tool": {"name": name}},
            },
        },
        "bedrock-tool-choice-unlisted",
    ),
    (
        "gemini",
        "/v1beta/models/gemini-3.8-flash:generateContent",
        lambda name: {
            "contents": [{"role": "user", "parts": [{"text": "Hi"}]}],
            "tools": [_DECLARED],
            "toolConfig": {
                "functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": [name]}
            },
        },
        "gemini-allowed-names-unlisted",
    ),
    (
        "gemini",
        "/v1beta/models/gemini-3.8-flash:generateContent",
        lambda name: {"contents": _calls(name), "tools": [_DECLARED]},
        "gemini-response-name-unlisted",
    ),
]


@pytest.mark.parametrize(("provider", "path", "body", "rule"), NAMED, ids=[row[3] for row in NAMED])
def test_a_name_that_no_tool_or_call_has_is_refused(
    provider: str, path: str, body: Any, rule: str
) -> None:
    with strict_server(provider) as server:
        assert _post(f"{server.url}{path}", body("look"))[0] == 200
        assert server.refused == []
        assert _post(f"{server.url}{path}", body(UNKNOWN))[0] == 400

    [(_, rules)] = server.refused
    assert [each.id for each in rules] == [rule]
