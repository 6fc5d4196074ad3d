"""What is sent: conversations, options and dialects, as tables."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from swink_core import (
    AssistantMessage,
    AudioBlock,
    Base64Source,
    CacheStrategy,
    Client,
    Context,
    DocumentBlock,
    Error,
    FileSource,
    ImageBlock,
    Notice,
    RetryPolicy,
    ToolCallBlock,
    ToolResultMessage,
    UrlSource,
    UserMessage,
)
from swink_core import StreamErrorKind as Kind
from swink_testing.calls import client_with
from swink_testing.clock import DatedClock
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

SSE = {"Content-Type": "text/event-stream"}
ANSWER = b'data: {"choices": [{"delta": {"content": "Hi"}, "finish_reason": "stop"}]}\n\n'


async def sent(
    context: Context | str, model: str = "openai/any", **options: Any
) -> tuple[dict[str, Any], list[Notice]]:
    """The body of the request, and the notices of the call."""
    http = MemoryHTTPClient(MemoryResponse([ANSWER], headers=SSE))
    async with client_with(http=http, api_key="test", clock=DatedClock()) as client:
        events = [event async for event in client.stream(model, context, **options)]
    [body] = http.bodies
    return body, [event for event in events if isinstance(event, Notice)]


async def refused(context: Context | str, model: str = "openai/any", **options: Any) -> Error:
    """The error of a call that sends nothing."""
    http = MemoryHTTPClient()
    async with client_with(http=http, api_key="test", retry=RetryPolicy.none()) as client:
        events = [event async for event in client.stream(model, context, **options)]
    assert isinstance(events[-1], Error)
    return events[-1]


PNG = Base64Source("image/png", "aVBORw==")
CALL = ToolCallBlock("call_a", "f", {"x": 1}, '{"x": 1}')
RESULT = ToolResultMessage("call_a", "f", "fine")
NATIVE_CALL = {
    "id": "call_a",
    "type": "function",
    "function": {"name": "f", "arguments": '{"x": 1}'},
}
NATIVE_RESULT = {"role": "tool", "tool_call_id": "call_a", "content": "fine"}
CALLS = {"role": "assistant", "content": None, "tool_calls": [NATIVE_CALL]}


def calling(*blocks: Any, **more: Any) -> AssistantMessage:
    return AssistantMessage(list(blocks), **more)


async def test_a_file_is_read_and_sent_as_data(tmp_path: Path) -> None:
    file = tmp_path / "dot.png"
    file.write_bytes(b"\x89PNG")

    body, _ = await sent(Context([UserMessage([ImageBlock(FileSource(str(file)))])]))

    data = base64.b64encode(b"\x89PNG").decode()
    [part] = body["messages"][0]["content"]
    assert part["image_url"]["url"] == f"data:image/png;base64,{data}"


@pytest.mark.parametrize(
    ("model", "role"),
    [("openai/gpt-5", "developer"), ("openai/gpt-4o", "system"), ("openai/any", "system"),
     ("groq/openai/gpt-oss-20b", "system")],
)  # fmt: skip
async def test_the_system_prompt_comes_first_in_the_role_that_the_model_takes(
    model: str, role: str
) -> None:
    context = Context([UserMessage("Hi")], system_prompt="Be brief.")
    body, _ = await sent(context, model, settings={"api": "chat"})

    assert body["messages"][0] == {"role": role, "content": "Be brief."}


STRICT = {
    "title": "My answer",
    "type": "object",
    "properties": {"x": {"type": "array", "items": {"type": "string"}}},
    "required": ["x"],
    "additionalProperties": False,
}
LOOSE = {"type": "object", "properties": {"x": {"type": "string"}}}

CHAT: dict[str, Any] = {"settings": {"api": "chat"}}

IGNORED: list[tuple[str, dict[str, Any], str]] = [
    ("groq/any", {"session_id": "s"}, "session_id"),
    ("deepseek/any", {"seed": 1}, "seed"),
    ("together/any", {"cache": "auto"}, "cache"),
    ("openai/gpt-4o", {"thinking": "high"}, "thinking"),
    ("groq/any", {"thinking": "off"}, "thinking"),
    ("openai/any", {"cache": "auto"}, "caches prompts automatically"),
    ("openrouter/any", {"cache": CacheStrategy(ttl=86400)}, "cache"),
]


@pytest.mark.parametrize(("model", "options", "name"), IGNORED)
async def test_a_tuning_option_that_is_missing_is_reported_and_not_sent(
    model: str, options: dict[str, Any], name: str
) -> None:
    plain, _ = await sent("Hi", model)
    body, notices = await sent("Hi", model, **options)

    assert body == plain
    [notice] = notices
    assert notice.code == "option_ignored"
    assert name in notice.detail


AUDIO = Context([UserMessage([AudioBlock(UrlSource("https://x.example/a.wav"))])])
DOCUMENT = Context([UserMessage([DocumentBlock(UrlSource("https://x.example/a.pdf"))])])

REFUSED: list[tuple[str, Context | str, dict[str, Any]]] = [
    ("deepseek/deepseek-v4-pro", Context([UserMessage([ImageBlock(PNG)])]), {}),
    ("deepseek/any", "Hi", {"response_format": LOOSE}),
    ("perplexity/any", DOCUMENT, {}),
    ("perplexity/any", "Hi", {"stop": "END"}),
    ("groq/any", DOCUMENT, {}),
    ("openai/any", AUDIO, {}),
    ("openai/any", DOCUMENT, {}),
]


@pytest.mark.parametrize(("model", "context", "options"), REFUSED)
async def test_a_feature_that_is_missing_is_an_error_before_anything_is_sent(
    model: str, context: Context | str, options: dict[str, Any]
) -> None:
    assert (await refused(context, model, **options)).error_kind is Kind.UNSUPPORTED


async def test_a_document_may_be_an_address_where_the_dialect_says_so() -> None:
    body, _ = await sent(DOCUMENT, "openrouter/any")

    [part] = body["messages"][0]["content"]
    assert part["file"]["file_data"] == "https://x.example/a.pdf"


@pytest.mark.parametrize(
    ("model", "url"),
    [
        ("openai/any", "https://api.openai.com/v1/chat/completions"),
        ("groq/any", "https://api.groq.com/openai/v1/chat/completions"),
        ("vllm/any", "http://localhost:8000/v1/chat/completions"),
    ],
)
async def test_the_address_is_the_row_s(model: str, url: str) -> None:
    http = MemoryHTTPClient(MemoryResponse([ANSWER], headers=SSE))
    async with client_with(http=http, api_key="test") as client:
        await client.complete(model, "Hi")

    [request] = http.requests
    assert request.url == url
    assert request.headers["Authorization"] == "Bearer test"


async def test_a_local_server_needs_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VLLM_API_KEY", raising=False)
    http = MemoryHTTPClient(MemoryResponse([ANSWER], headers=SSE))
    async with Client(http=http) as client:
        await client.complete("vllm/any", "Hi")

    assert "Authorization" not in http.requests[0].headers


@pytest.mark.parametrize(("model", "dollars"), [("vllm/any", 0.0), ("openai/any", None)])
async def test_an_own_server_costs_nothing_and_an_unknown_model_an_unknown_amount(
    model: str, dollars: float | None
) -> None:
    http = MemoryHTTPClient(MemoryResponse([ANSWER], headers=SSE))
    async with client_with(http=http, api_key="test") as client:
        message = await client.complete(model, "Hi")

    assert (message.cost and message.cost.total) == dollars


@pytest.mark.parametrize("api", ["chat", "responses"])
@pytest.mark.parametrize("provider", ["openai", "groq", "openrouter"])
async def test_the_callers_own_credentials_need_no_key(
    provider: str, api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(f"{provider.upper()}_API_KEY", raising=False)
    http = MemoryHTTPClient(MemoryResponse([ANSWER], headers=SSE))
    async with Client(http=http, retry=RetryPolicy.none()) as client:
        headers = {"authorization": "Bearer mine"}
        stream = client.stream(f"{provider}/any", "Hi", headers=headers, settings={"api": api})
        assert [event async for event in stream]
    sent = {name.lower(): value for name, value in http.requests[0].headers.items()}
    assert sent["authorization"] == "Bearer mine"


async def test_a_missing_key_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    async with Client(http=MemoryHTTPClient(), retry=RetryPolicy.none()) as client:
        events = [event async for event in client.stream("groq/any", "Hi")]

    terminal = events[-1]
    assert isinstance(terminal, Error)
    assert terminal.error_kind is Kind.AUTH
    assert "GROQ_API_KEY" in terminal.error_message


@pytest.mark.parametrize("model", ["openai/any", "groq/any"])
async def test_organisation_and_project_go_to_openai_alone(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-1")
    http = MemoryHTTPClient(MemoryResponse([ANSWER], headers=SSE))
    async with client_with(http=http, api_key="test") as client:
        await client.complete(model, "Hi")

    headers = http.requests[0].headers
    found = headers.get("OpenAI-Organization"), headers.get("OpenAI-Project")
    assert found == (("org-1", "proj-1") if model == "openai/any" else (None, None))
