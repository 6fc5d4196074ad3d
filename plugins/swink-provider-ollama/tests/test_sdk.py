"""The `ollama` package as a second opinion: on what we send, and on what the answers mean."""

from __future__ import annotations

import base64
import warnings
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from swink_core import (
    AssistantMessage,
    Base64Source,
    Context,
    Host,
    ImageBlock,
    StreamOptions,
    TextBlock,
    ThinkingBlock,
    Tool,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from swink_core.providers import Catalog
from swink_provider_ollama import OllamaProvider
from swink_test_helpers.capture import CaptureServer
from swink_test_helpers.corpus import Case, cases, ids
from swink_testing.driver import fold, run_bytes

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what its dependencies deprecate is not our concern
    ollama = pytest.importorskip("ollama", reason="Ollama's SDK is not installed")
    from ollama._client import _parse_host

PROVIDER = OllamaProvider("ollama")
MODEL = Catalog(Host(environ={}), environ={}).resolve("ollama/qwen3:4b")
PIXEL = base64.b64encode(b"\x89PNG").decode()
NESTED = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "Where.", "minLength": 2},
        "days": {"type": "integer"},
    },
    "required": ["city"],
    "additionalProperties": False,
}
ASKED = UserMessage("Weather in Rome?")
CALLED = ToolCallBlock("call_1", "weather", {"city": "Rome"}, '{"city":"Rome"}')
ANSWERED = ToolResultMessage("call_1", "weather", "sunny")


ANSWER = b'{"message":{"role":"assistant","content":"Hi"},"done":true,"done_reason":"stop"}\n'


@pytest.fixture
def server() -> Iterator[CaptureServer]:
    with CaptureServer(ANSWER, content_type="application/x-ndjson") as server:
        yield server


@pytest.fixture
def sdk(server: CaptureServer) -> Iterator[Any]:
    with ollama.Client(server.url, trust_env=False, verify=False) as client:
        yield client


ABSENT = object()

NO_CUTS = {
    "truncate": "the SDK has no field to make the server reject a prompt that is too long",
    "shift": "nor for an answer that outgrows the context",
}
NO_TOOLS = {"tools": "the SDK sends an empty list without tools"}
NO_IDS = {
    "messages.1.tool_calls.0.id": "the SDK has no field for a call's id, which the API takes",
    "messages.2.tool_call_id": "nor for the id in a result",
}
NO_SCHEMA_DETAILS = {
    "tools.0.function.parameters.properties.city.minLength": "the SDK knows five schema keywords",
    "tools.0.function.parameters.additionalProperties": "and drops all others",
}

REQUESTS: list[tuple[str, Context, dict[str, Any], dict[str, Any], dict[str, str]]] = [
    (
        "a question",
        Context([UserMessage("Hi")]),
        {},
        {"messages": [{"role": "user", "content": "Hi"}]},
        NO_TOOLS,
    ),
    (
        "tuning",
        Context([UserMessage("Hi")], "Be brief."),
        {
            "temperature": 0.2,
            "top_p": 0.9,
            "max_tokens": 99,
            "seed": 7,
            "stop": ["A", "B"],
            "extra": {"keep_alive": "5m", "options": {"num_ctx": 8192}},
        },
        {
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Hi"},
            ],
            "options": {
                "temperature": 0.2,
                "top_p": 0.9,
                "num_predict": 99,
                "seed": 7,
                "stop": ["A", "B"],
                "num_ctx": 8192,
            },
            "keep_alive": "5m",
        },
        NO_TOOLS,
    ),
    (
        "thinking and JSON",
        Context([UserMessage("Hi")]),
        {"thinking": "high", "response_format": "json"},
        {"messages": [{"role": "user", "content": "Hi"}], "think": True, "format": "json"},
        NO_TOOLS,
    ),
    (
        "a schema",
        Context([UserMessage("Hi")]),
        {"thinking": "off", "response_format": NESTED},
        {"messages": [{"role": "user", "content": "Hi"}], "think": False, "format": NESTED},
        NO_TOOLS,
    ),
    (
        "an image",
        Context([UserMessage([TextBlock("What?"), ImageBlock(Base64Source("image/png", PIXEL))])]),
        {},
        {"messages": [{"role": "user", "content": "What?", "images": [PIXEL]}]},
        NO_TOOLS,
    ),
    (
        "a tool's result",
        Context(
            [
                ASKED,
                AssistantMessage(
                    [ThinkingBlock("Hm."), TextBlock("Let me see."), CALLED], provider="ollama"
                ),
                ANSWERED,
            ],
            tools=[Tool("weather", "Tells the weather.", NESTED)],
        ),
        {},
        {
            "messages": [
                {"role": "user", "content": "Weather in Rome?"},
                {
                    "role": "assistant",
                    "content": "Let me see.",
                    "thinking": "Hm.",
                    "tool_calls": [
                        {"function": {"name": "weather", "arguments": {"city": "Rome"}}}
                    ],
                },
                {"role": "tool", "tool_name": "weather", "content": "sunny"},
            ],
            "tools": [
                {
                    "type": "function",
                    "function": {
                        "name": "weather",
                        "description": "Tells the weather.",
                        "parameters": NESTED,
                    },
                }
            ],
        },
        {**NO_IDS, **NO_SCHEMA_DETAILS},
    ),
]


@pytest.mark.parametrize(
    ("name", "context", "options", "arguments", "differences"),
    REQUESTS,
    ids=[row[0] for row in REQUESTS],
)
def test_we_send_what_the_sdk_sends(
    name: str,
    context: Context,
    options: dict[str, Any],
    arguments: dict[str, Any],
    differences: dict[str, str],
    server: CaptureServer,
    sdk: Any,
) -> None:
    for _ in sdk.chat(model="qwen3:4b", stream=True, **arguments):
        pass

    asked = StreamOptions(base_url=server.url, **options)
    request = PROVIDER.request(MODEL, PROVIDER.convert(MODEL, context, asked), asked)
    ours, theirs = _leaves(msgspec.json.decode(request.body)), _leaves(server.exchanges[0].json)
    assert request.url == server.url + server.exchanges[0].path
    assert {
        path
        for path in ours.keys() | theirs.keys()
        if ours.get(path, ABSENT) != theirs.get(path, ABSENT)
    } == {*differences, *NO_CUTS}


def _leaves(value: Any, path: str = "") -> dict[str, Any]:
    """Every number, text and empty container by its path."""
    items: Any = ()
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    if not items:
        return {path.removeprefix("."): value}
    return {p: v for k, item in items for p, v in _leaves(item, f"{path}.{k}").items()}


STREAMS = [case for case in cases("ollama") if not case.is_http_error]


@pytest.mark.parametrize("case", STREAMS, ids=ids)
def test_we_read_what_the_sdk_reads(case: Case, server: CaptureServer, sdk: Any) -> None:
    server.body = case.body
    theirs = _sdk_reading(sdk, wrapped=b'"message"' in case.body)
    ours = fold(run_bytes(PROVIDER, "any", [case.body]))

    assert ours.text == theirs["text"]
    assert ours.thinking == theirs["thinking"]
    assert [(call.name, call.arguments) for call in ours.tool_calls] == theirs["calls"]
    assert ours.error_message == theirs["error"]
    if theirs["error"] is None:
        # the SDK hands on the server's "stop" where the model in fact waits for tools
        stop = "tool_use" if theirs["calls"] else theirs["stop"]
        assert ours.stop_reason == stop
        assert ours.usage is not None
        assert (ours.usage.input, ours.usage.output) == theirs["counts"]


def _sdk_reading(sdk: Any, wrapped: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"text": "", "thinking": "", "calls": [], "error": None}
    ask = {"messages": []} if wrapped else {"prompt": ""}
    try:
        for part in (sdk.chat if wrapped else sdk.generate)(model="any", stream=True, **ask):
            said = part.message if wrapped else part
            found["text"] += (said.content if wrapped else said.response) or ""
            found["thinking"] += said.thinking or ""
            for call in (said.tool_calls if wrapped else None) or ():
                found["calls"].append((call.function.name, dict(call.function.arguments)))
            found["stop"] = part.done_reason
            found["counts"] = (part.prompt_eval_count, part.eval_count)
    except ollama.ResponseError as error:
        found["error"] = error.error
    return found


def test_the_sdk_takes_a_cut_stream_for_an_answer_and_we_do_not(
    server: CaptureServer, sdk: Any
) -> None:
    server.body = b'{"message":{"role":"assistant","content":"Hel"},"done":false}\n'

    assert _sdk_reading(sdk, wrapped=True)["error"] is None
    assert fold(run_bytes(PROVIDER, "any", [server.body])).error_kind == "network"


HOSTS: list[tuple[str, str | None]] = [
    ("", None),
    ("1.2.3.4", None),
    (":56789", None),
    ("1.2.3.4:56789", None),
    ("example.com", None),
    ("example.com:56789/path/", None),
    ("[::1]", None),
    ("[::1]:56789/path", None),
    ("https://example.com:56789/path", None),
    ("https://example.com", "the SDK states the scheme's own port, which every client implies"),
    ("http://example.com", "the SDK states the scheme's own port, which every client implies"),
    ("0.0.0.0:56789", "an address to listen on; connecting to it works on some systems only"),
    ("ollama.com", "the cloud speaks HTTPS; Ollama's own command line makes the same exception"),
]


@pytest.mark.parametrize(("variable", "difference"), HOSTS)
def test_ollama_host_means_what_it_means_to_the_sdk(variable: str, difference: str | None) -> None:
    ours = PROVIDER.base_url(StreamOptions(), {"OLLAMA_HOST": variable})
    assert (ours == _parse_host(variable)) is (difference is None)
