"""Compare requests to the Responses API with those of the `openai` package.

Each row says the same thing twice: as swink's conversation and options, and as the SDK's
arguments. Both requests are captured and compared field by field, and held against the
parameters that the SDK declares.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from swink_core import (
    AssistantMessage,
    AudioBlock,
    Base64Source,
    CacheStrategy,
    Context,
    DocumentBlock,
    Error,
    FileIdSource,
    ImageBlock,
    InvalidOption,
    Message,
    Model,
    ModelInfo,
    Notice,
    RetryPolicy,
    StreamOptions,
    TextBlock,
    Tool,
    ToolCallBlock,
    ToolResultMessage,
    UrlSource,
    UserMessage,
)
from swink_core import StreamErrorKind as Kind
from swink_provider_openai import OpenAIProvider
from swink_recorder.loopback import Exchange
from swink_test_helpers.capture import CaptureServer
from swink_test_helpers.typed_dicts import misfits
from swink_testing.calls import client_with
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

ANSWER = (
    b'data: {"type": "response.output_text.delta", "output_index": 0, "delta": "Hi"}\n\n'
    b'data: {"type": "response.completed", "response": {"status": "completed"}}\n\n'
)

RESPONSES = {"api": "responses"}
HI: list[Message] = [UserMessage("Hi")]
SAID = [{"role": "user", "content": "Hi"}]
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
WEATHER = Tool("weather", "The weather.", SCHEMA)
OFFERED = {
    "type": "function", "name": "weather", "description": "The weather.", "parameters": SCHEMA,
    "strict": False,
}  # fmt: skip
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
CALL = ToolCallBlock("call_a", "weather", {"city": "Rome"}, '{"city": "Rome"}')

ROWS: list[tuple[str, Context, dict[str, Any], dict[str, Any]]] = [
    ("a question", Context(HI), {}, {"input": SAID}),
    ("a system prompt", Context(HI, "Be brief."), {}, {"input": SAID, "instructions": "Be brief."}),
    (
        "options",
        Context(HI),
        {
            "temperature": 0.2, "top_p": 0.9, "max_tokens": 50, "thinking": "low",
            "session_id": "s", "cache": CacheStrategy(ttl=86400),
        },
        {
            "input": SAID, "temperature": 0.2, "top_p": 0.9, "max_output_tokens": 50,
            "reasoning": {"effort": "low", "summary": "auto"}, "prompt_cache_key": "s",
            "prompt_cache_retention": "24h",
        },
    ),
    (
        "media",
        Context([UserMessage([
            TextBlock("What are these?"),
            ImageBlock(Base64Source("image/png", "aVBORw==")),
            ImageBlock(UrlSource("https://swink.invalid/a.png")),
            DocumentBlock(Base64Source("application/pdf", "JVBERg=="), "a.pdf"),
            DocumentBlock(UrlSource("https://swink.invalid/b.pdf")),
            ImageBlock(FileIdSource("openai", "file-1")),
            DocumentBlock(FileIdSource("openai", "file-2")),
        ])]),
        {},
        {"input": [{"role": "user", "content": [
            {"type": "input_text", "text": "What are these?"},
            {"type": "input_image", "image_url": "data:image/png;base64,aVBORw==",
             "detail": "auto"},
            {"type": "input_image", "image_url": "https://swink.invalid/a.png", "detail": "auto"},
            {"type": "input_file", "filename": "a.pdf",
             "file_data": "data:application/pdf;base64,JVBERg=="},
            {"type": "input_file", "file_url": "https://swink.invalid/b.pdf"},
            {"type": "input_image", "file_id": "file-1", "detail": "auto"},
            {"type": "input_file", "file_id": "file-2"},
        ]}]},
    ),
    (
        "tools and their results",
        Context(
            [
                UserMessage("Weather?"),
                AssistantMessage([CALL, ToolCallBlock("call_b", "weather", {}, "{", "invalid")]),
                ToolResultMessage("call_a", "weather", "sunny"),
                ToolResultMessage("call_b", "weather", "none", is_error=True),
            ],
            tools=[WEATHER],
        ),
        {"tool_choice": "weather", "parallel_tool_calls": False},
        {
            "input": [
                {"role": "user", "content": "Weather?"},
                {"type": "function_call", "call_id": "call_a", "name": "weather",
                 "arguments": '{"city": "Rome"}'},
                {"type": "function_call", "call_id": "call_b", "name": "weather",
                 "arguments": '{"INVALID_JSON": "{"}'},
                {"type": "function_call_output", "call_id": "call_a", "output": "sunny"},
                {"type": "function_call_output", "call_id": "call_b", "output": "Error: none"},
            ],
            "tools": [OFFERED],
            "tool_choice": {"type": "function", "name": "weather"},
            "parallel_tool_calls": False,
        },
    ),
    (
        "media in a failed tool's result",
        Context([
            UserMessage("Look."),
            AssistantMessage([ToolCallBlock("call_a", "look", {}, "{}")]),
            ToolResultMessage("call_a", "look", [ImageBlock(Base64Source("image/png", "aQ=="))],
                              is_error=True),
        ]),
        {},
        {"input": [
            {"role": "user", "content": "Look."},
            {"type": "function_call", "call_id": "call_a", "name": "look", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "call_a", "output": [
                {"type": "input_text", "text": "Error: "},
                {"type": "input_image", "image_url": "data:image/png;base64,aQ==",
                 "detail": "auto"},
            ]},
        ]},
    ),
    ("JSON", Context(HI), {"response_format": "json"},
     {"input": SAID, "text": {"format": {"type": "json_object"}}}),
    (
        "a schema beside the caller's own words on text",
        Context(HI),
        {
            "response_format": {"title": "place", **SCHEMA},
            "extra": {"text": {"verbosity": "low"}},
        },
        {"input": SAID, "text": {"verbosity": "low", "format": {
            "type": "json_schema", "name": "place", "strict": True,
            "schema": {"title": "place", **SCHEMA}}}},
    ),
    (
        "tools of the service's own beside ours",
        Context(HI, tools=[WEATHER]),
        {"extra": {"tools": [{"type": "web_search"}]}},
        {"input": SAID, "tools": [OFFERED, {"type": "web_search"}]},
    ),
    (
        "the caller's options for reasoning",
        Context(HI),
        {"thinking": "high", "extra": {"reasoning": {"summary": "detailed"}}},
        {"input": SAID, "reasoning": {"summary": "detailed", "effort": "high"}},
    ),
    (
        "other fields",
        Context(HI),
        {"extra": {"store": True, "include": None, "user": "u"}},
        {"input": SAID, "store": True, "include": None, "user": "u"},
    ),
]  # fmt: skip

KEPT: dict[str, Any] = {"store": False, "include": ["reasoning.encrypted_content"]}


@pytest.fixture(scope="module")
def server() -> Iterator[CaptureServer]:
    with CaptureServer(ANSWER) as server:
        yield server


async def _sent(server: CaptureServer, context: Context, options: dict[str, Any]) -> Exchange:
    options = {"settings": RESPONSES} | options
    async with client_with(api_key="test") as client:
        await client.complete("openai/any", context, base_url=f"{server.url}/v1", **options)
    return server.exchanges[-1]


@pytest.mark.parametrize(("name", "context", "options", "arguments"), ROWS)
async def test_the_sdk_sends_the_same(
    name: str,
    context: Context,
    options: dict[str, Any],
    arguments: dict[str, Any],
    server: CaptureServer,
    sdk: Any,
) -> None:
    ours = await _sent(server, context, options)
    given = {name: value for name, value in (KEPT | arguments).items() if value is not None}
    for _ in sdk.responses.create(model="any", stream=True, **given):
        pass
    theirs = server.exchanges[-1]

    assert ours.json == theirs.json
    assert (ours.method, ours.path) == (theirs.method, theirs.path)
    for header in ("authorization", "content-type"):
        assert ours.headers[header] == theirs.headers[header]


@pytest.mark.parametrize(("name", "context", "options", "arguments"), ROWS)
async def test_the_request_is_as_the_sdk_declares_it(
    name: str,
    context: Context,
    options: dict[str, Any],
    arguments: dict[str, Any],
    server: CaptureServer,
) -> None:
    body = msgspec.json.decode((await _sent(server, context, options)).body)

    declared = pytest.importorskip("openai.types.responses.response_create_params")
    assert misfits(body, declared.ResponseCreateParamsStreaming) == []


# -- which API ---------------------------------------------------------------------------------

LISTED = ModelInfo("m", api="responses")
CHATTY = ModelInfo("m", api="chat")


@pytest.mark.parametrize(
    ("info", "options", "path"),
    [
        (None, {}, "chat/completions"),
        (LISTED, {}, "responses"),
        (LISTED, {"settings": {"api": "chat"}}, "chat/completions"),
        (None, {"settings": {"api": "responses"}}, "responses"),
        (None, {"transport": "websocket"}, "responses"),
        (CHATTY, {"extra": {"previous_response_id": "resp_1"}}, "responses"),
        (CHATTY, {"extra": {"background": True}}, "responses"),
        (CHATTY, {"extra": {"conversation": None}}, "chat/completions"),
        (CHATTY, {"extra": {"background": True}, "settings": {"api": "chat"}}, "chat/completions"),
        (None, {"transport": "websocket", "settings": {"api": "chat"}}, "chat/completions"),
    ],
)
def test_the_caller_chooses_the_api_before_the_catalogue(
    info: ModelInfo | None, options: dict[str, Any], path: str
) -> None:
    provider, model = OpenAIProvider("openai"), Model("openai", "m", info)

    assert provider.api(model, StreamOptions(**options)).path == path


@pytest.mark.parametrize("model", ["gpt-5-pro", "gpt-5.3-codex", "o3-pro"])
async def test_models_that_chat_completions_lacks_are_asked_there(model: str) -> None:
    http = MemoryHTTPClient(MemoryResponse([ANSWER]))

    async with client_with(http=http, api_key="test") as client:
        await client.complete(f"openai/{model}", "Hi")

    assert http.requests[0].url.endswith("/v1/responses")
    assert "api" not in http.bodies[0]


async def test_an_api_that_nobody_has_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(InvalidOption, match="invalid value of setting 'api'") as caught:
        await _events({"settings": {"api": "assistants"}})

    assert caught.value.resolution == (
        "Settings are api (chat or responses), previous_response_id (string), "
        "background (boolean), detached (boolean), resume (string), "
        "starting_after (integer)."
    )


@pytest.mark.parametrize(
    ("name", "context", "options", "what"),
    [
        ("stop sequences", Context(HI), {"stop": ["."]}, "stop"),
        (
            "audio",
            Context([UserMessage([AudioBlock(Base64Source("audio/wav", "UklGRg=="))])]),
            {},
            "audio",
        ),
        ("a WebSocket for Chat Completions", Context(HI),
         {"transport": "websocket", "settings": {"api": "chat"}}, "websocket transport"),
    ],
)  # fmt: skip
async def test_what_the_api_lacks_is_refused(
    name: str, context: Context, options: dict[str, Any], what: str
) -> None:
    [*_, terminal] = await _events({"settings": RESPONSES} | options, context)

    assert isinstance(terminal, Error)
    assert terminal.error_kind is Kind.UNSUPPORTED
    assert what in (terminal.error_message or "")


async def test_a_seed_is_not_sent_and_said_so() -> None:
    events = await _events({"settings": RESPONSES, "seed": 7}, answers=1)

    assert any(isinstance(e, Notice) and "seed" in e.detail for e in events)


async def test_reasoning_is_not_asked_for_in_a_form_that_the_model_lacks() -> None:
    http = MemoryHTTPClient(MemoryResponse([ANSWER]))
    model = Model("openai", "m", ModelInfo("m", api="responses", capabilities=frozenset()))

    async with client_with(http=http, api_key="test") as client:
        await client.complete(model, "Hi", thinking="high")

    assert http.bodies == [
        {"model": "m", "stream": True, "store": False, "input": SAID},
    ]


async def _events(
    options: dict[str, Any], context: Context | str = "Hi", answers: int = 0
) -> list[Any]:
    http = MemoryHTTPClient(*(MemoryResponse([ANSWER]) for _ in range(answers)))
    async with client_with(http=http, api_key="test", retry=RetryPolicy.none()) as client:
        return [event async for event in client.stream("openai/any", context, **options)]


FORM: dict[str, Any] = {"type": "object", "properties": {}, "title": "Title"}


@pytest.mark.parametrize(
    ("options", "name", "title"),
    [
        ({"response_format": FORM}, "Title", "Title"),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "own", "schema": FORM},
                }
            },
            "own",
            "own",
        ),
        (
            {
                "response_format": FORM,
                "extra": {
                    "text": {"format": {"name": "own"}},
                    "response_format": {"json_schema": {"name": "own"}},
                },
            },
            "own",
            "Title",
        ),
    ],
    ids=["title", "json_schema", "extra"],
)
@pytest.mark.parametrize("api", ["chat", "responses"])
def test_a_schema_has_the_name_that_it_is_given(
    options: dict[str, Any], name: str, title: str, api: str
) -> None:
    provider, model = OpenAIProvider("openai"), Model("openai", "gpt-5.4")
    asked = StreamOptions(**options, settings={"api": api})
    body = provider.convert(model, Context([UserMessage("Hi")]), asked)

    form = body["text"]["format"] if api == "responses" else body["response_format"]["json_schema"]
    assert (form["name"], form["schema"]["title"]) == (name, title)
