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
    ExtensionBlock,
    FileIdSource,
    FileSource,
    ImageBlock,
    Message,
    Notice,
    RetryPolicy,
    TextBlock,
    ThinkingBlock,
    Tool,
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


CONVERSATIONS: list[tuple[str, list[Message], list[dict[str, Any]]]] = [
    ("a string", [UserMessage("Hi")], [{"role": "user", "content": "Hi"}]),
    ("one text block", [UserMessage([TextBlock("Hi")])], [{"role": "user", "content": "Hi"}]),
    ("several text blocks", [UserMessage([TextBlock("a"), TextBlock("b")])],
     [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]),
    ("an image as data", [UserMessage([TextBlock("See"), ImageBlock(PNG)])],
     [{"role": "user", "content": [
         {"type": "text", "text": "See"},
         {"type": "image_url", "image_url": {"url": "data:image/png;base64,aVBORw=="}}]}]),
    ("an image as an address", [UserMessage([ImageBlock(UrlSource("https://x.example/a.png"))])],
     [{"role": "user", "content": [
         {"type": "image_url", "image_url": {"url": "https://x.example/a.png"}}]}]),
    ("a document", [UserMessage([DocumentBlock(Base64Source("application/pdf", "JVBE"), "a.pdf")])],
     [{"role": "user", "content": [{"type": "file", "file": {
         "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBE"}}]}]),
    ("an uploaded document", [UserMessage([DocumentBlock(FileIdSource("openai", "file-1"))])],
     [{"role": "user", "content": [{"type": "file", "file": {"file_id": "file-1"}}]}]),
    ("a part of the API's own", [UserMessage([ExtensionBlock("openai", "x", {"type": "new"})])],
     [{"role": "user", "content": [{"type": "new"}]}]),
    ("sound", [UserMessage([AudioBlock(Base64Source("audio/mpeg", "SUQz"))])],
     [{"role": "user", "content": [
         {"type": "input_audio", "input_audio": {"data": "SUQz", "format": "mp3"}}]}]),
    ("sound by another name", [UserMessage([AudioBlock(Base64Source("audio/x-wav", "UklG"))])],
     [{"role": "user", "content": [
         {"type": "input_audio", "input_audio": {"data": "UklG", "format": "wav"}}]}]),
    ("turns", [UserMessage("a"), calling(TextBlock("b"), TextBlock("c")), UserMessage("d")],
     [{"role": "user", "content": "a"}, {"role": "assistant", "content": "bc"},
      {"role": "user", "content": "d"}]),
    ("a call and its result", [UserMessage("a"), calling(CALL), RESULT],
     [{"role": "user", "content": "a"}, CALLS, NATIVE_RESULT]),
    ("text beside a call", [UserMessage("a"), calling(TextBlock("b"), CALL), RESULT],
     [{"role": "user", "content": "a"}, {**CALLS, "content": "b"}, NATIVE_RESULT]),
    ("arguments without their text",
     [UserMessage("a"), calling(ToolCallBlock("call_a", "f", {"x": 1})), RESULT],
     [{"role": "user", "content": "a"}, CALLS, NATIVE_RESULT]),
    ("no arguments", [UserMessage("a"), calling(ToolCallBlock("call_a", "f", {}, "")), RESULT],
     [{"role": "user", "content": "a"},
      {**CALLS, "tool_calls": [{**NATIVE_CALL, "function": {"name": "f", "arguments": "{}"}}]},
      NATIVE_RESULT]),
    ("arguments that are no JSON",
     [UserMessage("a"), calling(ToolCallBlock("call_a", "f", {}, '{"x":', "invalid")), RESULT],
     [{"role": "user", "content": "a"},
      {**CALLS, "tool_calls": [{**NATIVE_CALL, "function": {
          "name": "f", "arguments": '{"INVALID_JSON": "{\\"x\\":"}'}}]}, NATIVE_RESULT]),
    ("opaque data of a call",
     [UserMessage("a"), calling(ToolCallBlock("call_a", "f", {"x": 1}, '{"x": 1}',
                                              metadata={"extra_content": {"s": "x"}})), RESULT],
     [{"role": "user", "content": "a"},
      {**CALLS, "tool_calls": [{**NATIVE_CALL, "extra_content": {"s": "x"}}]}, NATIVE_RESULT]),
    ("a tool that failed",
     [UserMessage("a"), calling(CALL), ToolResultMessage("call_a", "f", "no disk", is_error=True)],
     [{"role": "user", "content": "a"}, CALLS, {**NATIVE_RESULT, "content": "Error: no disk"}]),
    ("a call without a result", [UserMessage("a"), calling(CALL), UserMessage("b")],
     [{"role": "user", "content": "a"}, CALLS,
      {**NATIVE_RESULT, "content": "Error: No result: the call was not carried out."},
      {"role": "user", "content": "b"}]),
    ("an image in a result",
     [UserMessage("a"), calling(CALL), ToolResultMessage("call_a", "f", [ImageBlock(PNG)])],
     [{"role": "user", "content": "a"}, CALLS,
      {**NATIVE_RESULT, "content": "The result follows."},
      {"role": "user", "content": [
          {"type": "text", "text": "From f:"},
          {"type": "image_url", "image_url": {"url": "data:image/png;base64,aVBORw=="}}]}]),
    ("ids that swink made up",
     [UserMessage("a"),
      calling(ToolCallBlock("swink_call_9_1", "f", {}, "{}"),
              ToolCallBlock("swink_call_9_2", "f", {}, "{}")),
      ToolResultMessage("swink_call_9_2", "f", "2"), ToolResultMessage("swink_call_9_1", "f", "1")],
     [{"role": "user", "content": "a"},
      {"role": "assistant", "content": None, "tool_calls": [
          {"id": "call_0", "type": "function", "function": {"name": "f", "arguments": "{}"}},
          {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
      {"role": "tool", "tool_call_id": "call_1", "content": "2"},
      {"role": "tool", "tool_call_id": "call_0", "content": "1"}]),
    ("reasoning alone", [UserMessage("a"), calling(ThinkingBlock("Hm.")), UserMessage("b")],
     [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "messages", "native"), CONVERSATIONS)
async def test_a_conversation_is_written_in_the_api_s_terms(
    name: str, messages: list[Message], native: list[dict[str, Any]]
) -> None:
    body, notices = await sent(Context(messages))

    assert body["messages"] == native
    assert notices == []


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


async def test_tools_are_offered_with_their_schemas() -> None:
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}}
    tools = [Tool("f", "Does f.", schema), Tool("g")]

    body, _ = await sent(Context([UserMessage("Hi")], tools=tools))

    assert body["tools"] == [
        {"type": "function", "function": {
            "name": "f", "description": "Does f.", "parameters": schema}},
        {"type": "function", "function": {
            "name": "g", "parameters": {"type": "object", "properties": {}}}},
    ]  # fmt: skip


STRICT = {
    "title": "My answer",
    "type": "object",
    "properties": {"x": {"type": "array", "items": {"type": "string"}}},
    "required": ["x"],
    "additionalProperties": False,
}
LOOSE = {"type": "object", "properties": {"x": {"type": "string"}}}

CHAT: dict[str, Any] = {"settings": {"api": "chat"}}

OPTIONS: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    ("nothing", "openai/any", {}, {}),
    ("sampling", "openai/any", {"temperature": 0.0, "top_p": 0.5, "seed": 0},
     {"temperature": 0.0, "top_p": 0.5, "seed": 0}),
    ("penalties", "openai/any", {"presence_penalty": 0.0, "frequency_penalty": -0.5},
     {"presence_penalty": 0.0, "frequency_penalty": -0.5}),
    ("the best words only", "openrouter/any", {"top_k": 0}, {"top_k": 0}),
    ("who asks", "openai/any", {"user": "u"}, {"safety_identifier": "u"}),
    ("who asks, elsewhere", "groq/any", {"user": "u"}, {"user": "u"}),
    ("limits", "openai/any", {"max_tokens": 9, "stop": ["END"]},
     {"max_completion_tokens": 9, "stop": ["END"]}),
    ("limits elsewhere", "together/any", {"max_tokens": 9}, {"max_tokens": 9}),
    ("tool choice", "openai/any", {"tools": [Tool("f")], "tool_choice": "required"},
     {"tool_choice": "required"}),
    ("a tool by name", "openai/any", {"tools": [Tool("f")], "tool_choice": "f"},
     {"tool_choice": {"type": "function", "function": {"name": "f"}}}),
    ("one call at a time, of tools that may be elsewhere", "openai/any",
     {"parallel_tool_calls": False}, {"parallel_tool_calls": False}),
    ("JSON", "openai/any", {"response_format": "json"},
     {"response_format": {"type": "json_object"}}),
    ("JSON without JSON mode", "lmstudio/any", {"response_format": "json"},
     {"response_format": {"type": "json_schema", "json_schema": {
         "name": "answer", "schema": {"type": "object"}}}}),
    ("a strict schema", "openai/any", {"response_format": STRICT},
     {"response_format": {"type": "json_schema", "json_schema": {
         "name": "My_answer", "schema": STRICT, "strict": True}}}),
    ("a loose schema", "openai/any", {"response_format": LOOSE},
     {"response_format": {"type": "json_schema", "json_schema": {
         "name": "answer", "schema": LOOSE}}}),
    ("a session", "openai/any", {"session_id": "s"}, {"prompt_cache_key": "s"}),
    ("a cache for a day", "openai/any", {"cache": CacheStrategy(ttl=86400)},
     {"prompt_cache_retention": "24h"}),
    ("extra", "openai/any", {"extra": {"user": "u", "temperature": 1}, "temperature": 0.5},
     {"user": "u", "temperature": 0.5}),
    ("thinking", "openai/any", {"thinking": "high"}, {"reasoning_effort": "high"}),
    ("a model's own words", "openai/gpt-5", {"thinking": "minimal", **CHAT},
     {"reasoning_effort": "minimal"}),
    ("the most", "openai/any", {"thinking": "extra_high"}, {"reasoning_effort": "xhigh"}),
    ("thinking off", "openai/gpt-5.4", {"thinking": "off", **CHAT}, {"reasoning_effort": "none"}),
    ("thinking off, of a model that nobody knows", "openai/any", {"thinking": "off"},
     {"reasoning_effort": "none"}),
    ("OpenRouter's object", "openrouter/any", {"thinking": "low"},
     {"reasoning": {"effort": "low"}}),
    ("OpenRouter's budget", "openrouter/any", {"thinking": 4000},
     {"reasoning": {"max_tokens": 4000}}),
    ("OpenRouter's off", "openrouter/any", {"thinking": "off"}, {"reasoning": {"effort": "none"}}),
    ("DeepSeek's switch", "deepseek/any", {"thinking": "medium"},
     {"thinking": {"type": "enabled"}, "reasoning_effort": "high"}),
    ("DeepSeek's off", "deepseek/any", {"thinking": "off"}, {"thinking": {"type": "disabled"}}),
    ("a template's switch", "vllm/any", {"thinking": "low"},
     {"chat_template_kwargs": {"enable_thinking": True}, "reasoning_effort": "low"}),
    ("Together's off", "together/deepseek-ai/DeepSeek-V4-Pro-0813", {"thinking": "off"},
     {"reasoning": {"enabled": False}}),
    ("Together's on", "together/moonshotai/Kimi-K3", {"thinking": "extra_high"},
     {"reasoning_effort": "max"}),
    ("a template's off", "vllm/any", {"thinking": "off"},
     {"chat_template_kwargs": {"enable_thinking": False}}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "model", "options", "fields"), OPTIONS)
async def test_options_become_fields(
    name: str, model: str, options: dict[str, Any], fields: dict[str, Any]
) -> None:
    body, notices = await sent("Hi", model, **options)

    own = {"model", "messages", "stream", "stream_options", "tools"}
    assert {k: v for k, v in body.items() if k not in own} == fields
    assert ("tools" in body) == ("tools" in options)
    assert body["model"] == model.partition("/")[2]
    assert (body["stream"], body["stream_options"]) == (True, {"include_usage": True})
    assert notices == []


async def test_one_call_at_a_time_can_be_asked_for_where_there_are_tools() -> None:
    context = Context([UserMessage("Hi")], tools=[Tool("f")])

    body, _ = await sent(context, parallel_tool_calls=False)

    assert body["parallel_tool_calls"] is False


async def test_nothing_in_extra_removes_what_no_option_asked_for() -> None:
    body, _ = await sent("Hi", extra={"stream_options": None})

    assert "stream_options" not in body


IGNORED: list[tuple[str, dict[str, Any], str]] = [
    ("groq/any", {"session_id": "s"}, "session_id"),
    ("deepseek/any", {"seed": 1}, "seed"),
    ("together/any", {"cache": "auto"}, "cache"),
    ("openai/gpt-4o", {"thinking": "high"}, "thinking"),
    ("groq/any", {"thinking": "off"}, "thinking"),
    ("openai/any", {"cache": "auto"}, "caches prompts by itself"),
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
