"""Requests to Ollama, and their addresses."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from swink_core import (
    AssistantMessage,
    AudioBlock,
    Base64Source,
    Client,
    Context,
    DocumentBlock,
    Error,
    FileSource,
    ImageBlock,
    Message,
    Notice,
    StreamErrorKind,
    StreamOptions,
    TextBlock,
    ThinkingBlock,
    Tool,
    ToolCallBlock,
    ToolResultMessage,
    UrlSource,
    UserMessage,
)
from swink_core.providers import synthetic_id
from swink_provider_ollama import OllamaProvider
from swink_test_helpers.outgoing import leaving
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

PROVIDER = OllamaProvider("ollama")
WEATHER = Tool(
    "weather", "Tells the weather.", {"type": "object", "properties": {"city": {"type": "string"}}}
)
PIXEL = base64.b64encode(b"\x89PNG").decode()


def _body(context: Context | str, model: str = "qwen3:4b", **options: Any) -> dict[str, Any]:
    found = leaving(PROVIDER, f"ollama/{model}", context, **options)
    assert found.refused_by == []
    return found.body


OPTIONS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("nothing", {}, {}),
    ("temperature", {"temperature": 0}, {"options": {"temperature": 0}}),
    ("top_p", {"top_p": 0.5}, {"options": {"top_p": 0.5}}),
    ("top_k", {"top_k": 0}, {"options": {"top_k": 0}}),
    ("presence_penalty", {"presence_penalty": 0.0}, {"options": {"presence_penalty": 0.0}}),
    ("frequency_penalty", {"frequency_penalty": 1}, {"options": {"frequency_penalty": 1}}),
    ("max_tokens", {"max_tokens": 64}, {"options": {"num_predict": 64}}),
    ("seed", {"seed": 0}, {"options": {"seed": 0}}),
    ("one stop", {"stop": "END"}, {"options": {"stop": ["END"]}}),
    ("json", {"response_format": "json"}, {"format": "json"}),
    ("schema", {"response_format": {"type": "object"}}, {"format": {"type": "object"}}),
    ("thinking", {"thinking": "high"}, {"think": True}),
    ("no thinking", {"thinking": "off"}, {"think": False}),
    ("a budget of nothing", {"thinking": 0}, {"think": False}),
    ("keep_alive", {"extra": {"keep_alive": "10m"}}, {"keep_alive": "10m"}),
    (
        "a parameter beside a typed one",
        {"extra": {"options": {"num_ctx": 8192, "seed": 1}}, "seed": 2},
        {"options": {"num_ctx": 8192, "seed": 2}},
    ),
    ("a typed field wins", {"extra": {"model": "other", "stream": 1}}, {}),
    ("buffered", {"transport": "buffered"}, {"stream": False}),
    ("the start may be cut", {"extra": {"truncate": True}}, {"truncate": True}),
]


@pytest.mark.parametrize(("name", "options", "expected"), OPTIONS, ids=[row[0] for row in OPTIONS])
def test_options_become_fields(
    name: str, options: dict[str, Any], expected: dict[str, Any]
) -> None:
    body = _body("Hello", **options)
    assert body == {
        "model": "qwen3:4b",
        "messages": [{"role": "user", "content": "Hello"}],
        "stream": True,
        "truncate": False,
        "shift": False,
        **expected,
    }


# (model, thinking, what is sent of it, what is said, the judge's rules without ours)
LEVELS: list[tuple[str, Any, Any, list[str], list[str]]] = [
    ("gpt-oss", "low", "low", [], []),
    ("gpt-oss:120b-cloud", "medium", "medium", [], []),
    ("someone/gpt-oss:latest", "high", "high", [], []),
    ("gpt-oss:20b", "minimal", "low", ["thinking is low here, not minimal"],
     ["ollama-think-value"]),
    ("gpt-oss:20b", "extra_high", "high", ["thinking is high here, not extra_high"],
     ["ollama-think-value"]),
    ("gpt-oss:20b", "off", "low", ["thinking is low here, not off"], []),
    # servers before summer 2026 refuse a level that the model does not have
    ("qwen3:4b", "low", True, ["thinking is high here, not low"], []),
    ("qwen3:4b", 4000, True, ["thinking is high here, not 4000"], []),
    ("unlisted", "high", True, [], []),
    ("llama3.1:70b", "high", None, ["has no option thinking; it was not sent"],
     ["ollama-think-unsupported"]),
    ("llama3.1:70b", "off", None, [], []),
]  # fmt: skip


@pytest.mark.parametrize(("model", "thinking", "think", "said", "refused_by"), LEVELS)
def test_only_models_with_levels_get_a_word(
    model: str, thinking: Any, think: Any, said: list[str], refused_by: list[str]
) -> None:
    found = leaving(PROVIDER, f"ollama/{model}", thinking=thinking)
    assert found.body.get("think") == think
    assert (found.notices, found.refused_by) == (said, [])
    as_given = leaving(PROVIDER, f"ollama/{model}", thinking=thinking, rules=False)
    assert as_given.refused_by == refused_by


@pytest.mark.parametrize("model", ["gemma3:4b", "gemma3:27b"])
def test_a_model_known_to_have_no_tools_gets_none(model: str) -> None:
    asked = (PROVIDER, f"ollama/{model}", Context([UserMessage("Hi")], tools=[WEATHER]))
    assert "does not support tools" in (leaving(*asked).refusal or "")
    assert leaving(*asked, rules=False).refused_by == ["ollama-tools-unsupported"]


CONVERSATIONS: list[tuple[str, list[Message], list[dict[str, Any]]]] = [
    (
        "blocks of text are lines",
        [UserMessage([TextBlock("one"), TextBlock("two")])],
        [{"role": "user", "content": "one\ntwo"}],
    ),
    (
        "an image goes beside the text",
        [UserMessage([TextBlock("What?"), ImageBlock(Base64Source("image/png", PIXEL))])],
        [{"role": "user", "content": "What?", "images": [PIXEL]}],
    ),
    (
        "reasoning and calls go back with their ids",
        [
            UserMessage("Weather?"),
            AssistantMessage(
                [
                    ThinkingBlock("Hm."),
                    TextBlock("Let me see."),
                    ToolCallBlock("call_1", "weather", {"city": "Rome"}, '{"city":"Rome"}'),
                ],
                provider="ollama",
            ),
            ToolResultMessage("call_1", "weather", "sunny"),
        ],
        [
            {"role": "user", "content": "Weather?"},
            {
                "role": "assistant",
                "content": "Let me see.",
                "thinking": "Hm.",
                "tool_calls": [
                    {"function": {"name": "weather", "arguments": {"city": "Rome"}}, "id": "call_1"}
                ],
            },
            {
                "role": "tool",
                "tool_name": "weather",
                "content": "sunny",
                "tool_call_id": "call_1",
            },
        ],
    ),
    (
        "generated ids are not sent",
        [
            UserMessage("Time?"),
            AssistantMessage([ToolCallBlock(synthetic_id("c", 0), "time")], provider="ollama"),
            ToolResultMessage(synthetic_id("c", 0), "time", [TextBlock("noon")]),
        ],
        [
            {"role": "user", "content": "Time?"},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"function": {"name": "time", "arguments": {}}}],
            },
            {"role": "tool", "tool_name": "time", "content": "noon"},
        ],
    ),
    (
        "arguments that did not parse are kept in an object",
        [
            UserMessage("Go"),
            AssistantMessage(
                [ToolCallBlock("call_1", "go", raw_arguments='{"to', state="invalid")]
            ),
            ToolResultMessage("call_1", "go", "Not JSON.", is_error=True),
        ],
        [
            {"role": "user", "content": "Go"},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [
                    {
                        "function": {"name": "go", "arguments": {"INVALID_JSON": '{"to'}},
                        "id": "call_1",
                    }
                ],
            },
            {
                "role": "tool",
                "tool_name": "go",
                "content": "Error: Not JSON.",
                "tool_call_id": "call_1",
            },
        ],
    ),
    (
        "another provider's reasoning is left out",
        [
            UserMessage("Hi"),
            AssistantMessage(
                [ThinkingBlock("Secret.", signature="x"), TextBlock("Hello.")], provider="acme"
            ),
            UserMessage("Bye"),
        ],
        [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "Hello."},
            {"role": "user", "content": "Bye"},
        ],
    ),
    (
        "an image that a tool returns",
        [
            UserMessage("Look"),
            AssistantMessage([ToolCallBlock("call_1", "look")]),
            ToolResultMessage("call_1", "look", [ImageBlock(Base64Source("image/png", PIXEL))]),
        ],
        [
            {"role": "user", "content": "Look"},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"function": {"name": "look", "arguments": {}}, "id": "call_1"}],
            },
            {
                "role": "tool",
                "tool_name": "look",
                "content": "",
                "images": [PIXEL],
                "tool_call_id": "call_1",
            },
        ],
    ),
]


@pytest.mark.parametrize(
    ("name", "messages", "expected"), CONVERSATIONS, ids=[row[0] for row in CONVERSATIONS]
)
def test_conversations(name: str, messages: list[Message], expected: list[dict[str, Any]]) -> None:
    assert _body(Context(messages), "unlisted")["messages"] == expected


def test_the_system_prompt_comes_first_and_tools_are_functions() -> None:
    body = _body(Context([UserMessage("Hi")], "Be brief.", [WEATHER]))
    assert body["messages"][0] == {"role": "system", "content": "Be brief."}
    assert body["tools"] == [
        {
            "type": "function",
            "function": {
                "name": "weather",
                "description": "Tells the weather.",
                "parameters": WEATHER.parameters,
            },
        }
    ]


def test_an_image_file_is_read(tmp_path: Any) -> None:
    path = tmp_path / "pixel.png"
    path.write_bytes(b"\x89PNG")
    message = UserMessage([ImageBlock(FileSource(str(path)))])
    assert _body(Context([message]), "unlisted")["messages"][0]["images"] == [PIXEL]


UNSUPPORTED: list[tuple[str, UserMessage, dict[str, Any]]] = [
    ("tool choice", UserMessage("Hi"), {"tools": [Tool("f")], "tool_choice": "required"}),
    ("an image's address", UserMessage([ImageBlock(UrlSource("https://x.test/a.png"))]), {}),
    ("documents", UserMessage([DocumentBlock(Base64Source("application/pdf", PIXEL))]), {}),
    ("audio", UserMessage([AudioBlock(Base64Source("audio/wav", PIXEL))]), {}),
    ("websockets", UserMessage("Hi"), {"transport": "websocket"}),
]


@pytest.mark.parametrize(
    ("name", "message", "options"), UNSUPPORTED, ids=[row[0] for row in UNSUPPORTED]
)
async def test_what_ollama_cannot_do_fails_before_anything_is_sent(
    name: str, message: UserMessage, options: dict[str, Any]
) -> None:
    http = MemoryHTTPClient()
    async with (
        Client(http=http) as client,
        client.stream("ollama/unlisted", Context([message]), **options) as stream,
    ):
        events = [event async for event in stream]
    assert isinstance(events[-1], Error)
    assert events[-1].error_kind is StreamErrorKind.UNSUPPORTED
    assert http.requests == []


async def test_tuning_that_ollama_lacks_is_reported() -> None:
    http = MemoryHTTPClient(_answer())
    async with (
        Client(http=http) as client,
        client.stream("ollama/unlisted", "Hi", session_id="s", cache="auto") as stream,
    ):
        events = [event async for event in stream]
    session, cache = [event.detail for event in events if isinstance(event, Notice)]
    assert "no option session_id" in session
    assert "no option cache" in cache


ADDRESSES = [
    ("10.0.0.7", "http://10.0.0.7:11434"),
    ("10.0.0.7:8080", "http://10.0.0.7:8080"),
    (":8080", "http://127.0.0.1:8080"),
    ("0.0.0.0", "http://127.0.0.1:11434"),
    ("0.0.0.0:8080", "http://127.0.0.1:8080"),
    ("http://0.0.0.0:8080", "http://127.0.0.1:8080"),
    ("box.local/ollama/", "http://box.local:11434/ollama"),
    ("http://box.local", "http://box.local"),
    ("https://box.example/", "https://box.example"),
    ("https://me:pw@box.example:1/x/", "https://me:pw@box.example:1/x"),
    ("::1", "http://[::1]:11434"),
    ("[::1]:8080", "http://[::1]:8080"),
    ("[::]", "http://[::1]:11434"),
    ("ollama.com", "https://ollama.com"),
    ("", "http://127.0.0.1:11434"),
]


@pytest.mark.parametrize(("variable", "url"), ADDRESSES)
def test_ollama_host_may_be_incomplete(variable: str, url: str) -> None:
    assert PROVIDER.base_url(StreamOptions(), {"OLLAMA_HOST": variable}) == url


def test_a_base_url_outranks_the_variable() -> None:
    options = StreamOptions(base_url="http://other.test:9/")
    assert PROVIDER.base_url(options, {"OLLAMA_HOST": "box"}) == "http://other.test:9"


@pytest.mark.parametrize(("key", "header"), [(None, None), ("k-123456", "Bearer k-123456")])
async def test_a_key_is_sent_only_if_there_is_one(
    key: str | None, header: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OLLAMA_API_KEY", raising=False)
    http = MemoryHTTPClient(_answer())
    async with Client(http=http) as client:
        await client.complete("ollama/unlisted", "Hi", api_key=key)
    assert http.requests[0].headers.get("Authorization") == header


COSTS: list[tuple[str, str, str | None, float | None]] = [
    ("an unlisted model on this machine", "unlisted", None, 0.0),
    ("a server in a private network", "unlisted", "http://192.168.1.9:11434", 0.0),
    ("a server elsewhere", "unlisted", "https://ollama.example.org", None),
    ("a model that the server has run in the cloud", "gpt-oss:120b-cloud", None, None),
    ("the cloud itself", "gpt-oss:120b", "https://ollama.com", None),
]


@pytest.mark.parametrize(
    ("name", "model", "base_url", "total"), COSTS, ids=[row[0] for row in COSTS]
)
async def test_only_a_server_of_ones_own_costs_nothing(
    name: str, model: str, base_url: str | None, total: float | None
) -> None:
    async with Client(http=MemoryHTTPClient(_answer())) as client:
        message = await client.complete(f"ollama/{model}", "Hi", base_url=base_url)
    assert (message.cost and message.cost.total) == total


def _answer() -> MemoryResponse:
    line = {"message": {"content": "Hi."}, "done": True, "done_reason": "stop", "eval_count": 2}
    return MemoryResponse.of_json(line)
