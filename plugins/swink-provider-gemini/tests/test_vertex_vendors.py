"""Other vendors' models on Vertex AI: their providers and requests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from swink_core import (
    AssistantMessage,
    Client,
    Context,
    Error,
    Message,
    RetryPolicy,
    TextBlock,
    ThinkingBlock,
    Tool,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from swink_core import StreamErrorKind as Kind
from swink_provider_gemini import VertexProvider
from swink_test_helpers.capture import CaptureServer
from swink_test_helpers.corpus import cases, ids
from swink_testing.driver import MemoryHTTPClient, MemoryResponse, fold, run_bytes

SSE = {"Content-Type": "text/event-stream"}
PLACE = "https://aiplatform.googleapis.com/v1/projects/p/locations/global"
CLAUDE = "claude-sonnet-4-5@20250929"
MISTRAL = "mistral-small-2503"
LLAMA = "meta/llama-3.3-70b-instruct-maas"
SAID = (
    b'data: {"type":"message_start","message":{"id":"msg_1","model":"claude-sonnet-4-5"}}\n\n'
    b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Yes"}}\n\n'
    b'data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}\n\n'
    b'data: {"type":"message_stop"}\n\n'
)
CHAT = (
    b'data: {"choices":[{"index":0,"delta":{"content":"Yes"},"finish_reason":"stop"}]}\n\n'
    b"data: [DONE]\n\n"
)


async def _ask(
    model: str, answer: MemoryResponse, context: Context | str = "Hi", **options: Any
) -> tuple[MemoryHTTPClient, Any]:
    http = MemoryHTTPClient(answer)
    own = {"api_key": "ya29.token", "settings": {"project": "p"}, **options}
    async with (
        Client(http=http, retry=RetryPolicy.none()) as client,
        client.stream(f"vertex/{model}", context, **own) as stream,
    ):
        async for _ in stream:
            pass
    return http, stream.message


ADDRESSES = [
    (CLAUDE, SAID, "publishers/anthropic/models/claude-sonnet-4-5@20250929:streamRawPredict"),
    (f"anthropic/{CLAUDE}", SAID, f"publishers/anthropic/models/{CLAUDE}:streamRawPredict"),
    (
        f"publishers/anthropic/models/{CLAUDE}",
        SAID,
        f"publishers/anthropic/models/{CLAUDE}:streamRawPredict",
    ),
    (MISTRAL, CHAT, f"publishers/mistralai/models/{MISTRAL}:streamRawPredict"),
    (f"mistralai/{MISTRAL}", CHAT, f"publishers/mistralai/models/{MISTRAL}:streamRawPredict"),
    (
        "publishers/mistralai/models/codestral-2",
        CHAT,
        "publishers/mistralai/models/codestral-2:streamRawPredict",
    ),
    (LLAMA, CHAT, "endpoints/openapi/chat/completions"),
    ("deepseek-ai/deepseek-v3.1-maas", CHAT, "endpoints/openapi/chat/completions"),
]


@pytest.mark.parametrize(("model", "answer", "path"), ADDRESSES, ids=[r[0] for r in ADDRESSES])
async def test_each_vendors_model_has_its_address(model: str, answer: bytes, path: str) -> None:
    http, message = await _ask(model, MemoryResponse([answer], headers=SSE))
    assert http.requests[0].url == f"{PLACE}/{path}"
    assert http.requests[0].headers["Authorization"] == "Bearer ya29.token"
    assert message.text == "Yes"


async def test_an_open_model_is_named_with_its_publisher() -> None:
    http, _ = await _ask(LLAMA, MemoryResponse([CHAT], headers=SSE))
    assert http.bodies[0]["model"] == LLAMA


async def test_claude_is_asked_whole_at_raw_predict() -> None:
    whole = {"id": "1", "content": [{"type": "text", "text": "Yes"}], "stop_reason": "end_turn"}
    http, message = await _ask(CLAUDE, MemoryResponse.of_json(whole), transport="buffered")
    assert http.requests[0].url.endswith(":rawPredict")
    assert message.text == "Yes"


async def test_mistral_is_asked_as_it_takes_it_and_whole_at_raw_predict() -> None:
    whole = {"choices": [{"message": {"content": "Yes"}, "finish_reason": "stop"}]}
    call = ToolCallBlock("call_1", "tide", {})
    context = Context([UserMessage("When?"), AssistantMessage([call]),
                       ToolResultMessage("call_1", "tide", "noon"), UserMessage("And now?")],
                      tools=[Tool("tide")])  # fmt: skip
    http, message = await _ask(
        f"mistralai/{MISTRAL}", MemoryResponse.of_json(whole), context,
        transport="buffered", seed=7, temperature=2, thinking="high",
    )  # fmt: skip
    (body,) = http.bodies
    assert http.requests[0].url.endswith(f"/{MISTRAL}:rawPredict")
    assert (body["model"], body["random_seed"], body["temperature"]) == (MISTRAL, 7, 1.5)
    assert not {"seed", "reasoning_effort", "stream_options"} & body.keys()
    assert [m["role"] for m in body["messages"]] == ["user", "assistant", "tool", "assistant",
                                                     "user"]  # fmt: skip
    assert len(body["messages"][2]["tool_call_id"]) == 9
    assert message.text == "Yes"


THOUGHTS: list[Message] = [
    UserMessage("Hi"),
    AssistantMessage(
        [ThinkingBlock("Hm.", "gemini-signature"), TextBlock("Yes")],
        provider="vertex",
        model="gemini-3.5-flash",
    ),
    AssistantMessage(
        [ThinkingBlock("Hm!", "claude-signature"), TextBlock("Yes!")],
        provider="vertex",
        model="claude-sonnet-4-5",
    ),
    UserMessage("Go on."),
]


async def test_what_another_vendors_model_signed_is_not_sent() -> None:
    answer = MemoryResponse([SAID], headers=SSE)
    http, _ = await _ask(CLAUDE, answer, Context(THOUGHTS), thinking="low")
    sent = msgspec.json.encode(http.bodies[0])
    assert b"gemini-signature" not in sent
    assert b"claude-signature" in sent


ERRORS: list[tuple[dict[str, Any], int, Kind]] = [
    (
        {"error": {"code": 429, "message": "Quota exceeded.", "status": "RESOURCE_EXHAUSTED"}},
        429,
        Kind.THROTTLED,
    ),
    (
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
        529,
        Kind.OVERLOADED,
    ),
    (
        {
            "type": "error",
            "error": {"type": "invalid_request_error", "message": "prompt is too long: 300000"},
        },
        400,
        Kind.CONTEXT_WINDOW_EXCEEDED,
    ),
]


@pytest.mark.parametrize(("body", "status", "kind"), ERRORS)
async def test_errors_are_googles_or_the_vendors_own(
    body: dict[str, Any], status: int, kind: Kind
) -> None:
    _, message = await _ask(CLAUDE, MemoryResponse.of_json(body, status))
    assert message.error_kind is kind


# a model that was asked before, and what Google's servers say of Gemini
ASKED_BEFORE = [
    (LLAMA, 429, "RESOURCE_EXHAUSTED", "You exceeded your current quota.", Kind.THROTTLED),
    (MISTRAL, 429, "RESOURCE_EXHAUSTED", "You exceeded your current quota.", Kind.THROTTLED),
    (CLAUDE, 409, "ABORTED", "The transaction was aborted.", Kind.NETWORK),
]


@pytest.mark.parametrize(("before", "status", "word", "said", "kind"), ASKED_BEFORE)
async def test_what_geminis_errors_mean_has_nothing_to_do_with_who_was_asked_before(
    before: str, status: int, word: str, said: str, kind: Kind
) -> None:
    error = {"error": {"code": status, "message": said, "status": word}}
    http = MemoryHTTPClient(*(MemoryResponse.of_json(error, status) for _ in range(2)))
    own: Any = {"vertex": {"api_key": "ya29.token", "settings": {"project": "p"}}}
    async with Client(http=http, retry=RetryPolicy.none(), providers=own) as client:
        for model in (before, "gemini-3.5-flash"):
            async with client.stream(f"vertex/{model}", "Hi") as stream:
                async for _ in stream:
                    pass
    assert stream.message.error_kind is kind


@pytest.mark.parametrize(
    ("model", "package"),
    [
        (CLAUDE, "swink_provider_anthropic"),
        (MISTRAL, "swink_provider_mistral"),
        (LLAMA, "swink_provider_openai"),
    ],
)
async def test_a_package_that_is_not_there_is_asked_for(
    model: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("swink_provider_gemini.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    _, message = await _ask(model, MemoryResponse([]))
    assert message.error_kind is Kind.UNSUPPORTED
    assert package.replace("_", "-") in message.error_message


STREAMS = [case for case in cases("anthropic") if "anthropic_vertex" in ids(case)]


@pytest.mark.parametrize("case", STREAMS, ids=ids)
def test_recorded_answers_of_claude_there_are_read(case: Any) -> None:
    message = fold(run_bytes(VertexProvider("vertex"), CLAUDE, [case.body]))
    assert not isinstance(message, Error)
    assert message.error_kind is None
    assert message.content


@pytest.fixture
def server() -> Iterator[CaptureServer]:
    with CaptureServer(SAID, content_type="text/event-stream") as server:
        yield server


async def test_we_send_what_the_vendors_sdk_sends(server: CaptureServer) -> None:
    anthropic = pytest.importorskip("anthropic", reason="Anthropic's SDK is not installed")
    tide = {"type": "object", "properties": {"at": {"type": "string"}}}
    sdk = anthropic.AsyncAnthropicVertex(
        region="global", project_id="p", access_token="t", base_url=f"{server.url}/v1"
    )
    stream = await sdk.messages.create(
        model=CLAUDE, max_tokens=500, stop_sequences=["END"], system="Be brief.", stream=True,
        messages=[{"role": "user", "content": [{"type": "text", "text": "When?"}]}],
        tools=[{"name": "tide", "description": "Tells the tide.", "input_schema": tide}],
    )  # fmt: skip
    async for _ in stream:
        pass
    await sdk.close()

    tool = Tool("tide", "Tells the tide.", tide)
    context = Context([UserMessage("When?")], "Be brief.", [tool])
    http, _ = await _ask(
        CLAUDE, MemoryResponse([SAID], headers=SSE), context, max_tokens=500, stop=["END"],
        base_url=server.url,
    )  # fmt: skip
    (theirs,) = server.exchanges
    assert http.requests[0].url == f"{server.url}{theirs.path}"
    same = {"system": [{"type": "text", "text": theirs.json["system"]}]}
    same["anthropic_version"] = "vertex-2023-10-16"  # SDKs from 2.11 on ask for a later one
    assert http.bodies[0] == {**theirs.json, **same}


async def test_we_send_what_mistrals_sdk_sends(server: CaptureServer) -> None:
    sdk = pytest.importorskip("mistralai.gcp.client.sdk", reason="Mistral's SDK is not installed")
    server.body = CHAT
    tide = {"type": "object", "properties": {"at": {"type": "string"}}}
    with sdk.MistralGCP("p", "global", "t", server_url=server.url) as client:
        stream = client.chat.stream(
            model=MISTRAL, max_tokens=500, stop=["END"], random_seed=7, tool_choice="any",
            messages=[{"role": "system", "content": "Be brief."},
                      {"role": "user", "content": "When?"}],
            tools=[{"type": "function", "function": {
                "name": "tide", "description": "Tells the tide.", "parameters": tide}}],
        )  # fmt: skip
        with stream:
            pass

    tool = Tool("tide", "Tells the tide.", tide)
    context = Context([UserMessage("When?")], "Be brief.", [tool])
    http, _ = await _ask(
        MISTRAL, MemoryResponse([CHAT], headers=SSE), context, max_tokens=500, stop=["END"],
        seed=7, tool_choice="required", base_url=server.url,
    )  # fmt: skip
    (theirs,) = server.exchanges
    assert http.requests[0].url == f"{server.url}{theirs.path}"
    assert http.requests[0].headers["Authorization"].startswith("Bearer ")
    assert _without_defaults(theirs.json) == http.bodies[0]


def _without_defaults(body: dict[str, Any]) -> dict[str, Any]:
    """Return a request without what the SDK adds that means nothing: defaults, written out."""
    functions = [{**tool["function"]} for tool in body["tools"]]
    for function in functions:
        assert function.pop("strict", False) is False
    tools = [{"type": "function", "function": function} for function in functions]
    return {**body, "tools": tools}
