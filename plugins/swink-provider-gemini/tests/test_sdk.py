"""Google's own libraries as a second opinion: google-genai on what we send, google-auth on how
credentials are found and renewed. Each test is left out where its library is not installed."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from generate_content import body, frame, text

from swink_core import (
    AssistantMessage,
    Base64Source,
    Client,
    Context,
    ImageBlock,
    Message,
    StreamOptions,
    TextBlock,
    Tool,
    ToolCallBlock,
    ToolResultMessage,
    UrlSource,
    UserMessage,
)
from swink_provider_gemini import GeminiProvider
from swink_recorder.loopback import Exchange, LoopbackServer
from swink_testing.calls import client_with

MODEL = "gemini-3.5-flash"
SIGNATURE = base64.b64encode(b"signed").decode()


class Google(LoopbackServer):
    """Answers every generation with one word, and every request for a token with a new one."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = 0

    async def respond(self, exchange: Exchange) -> None:
        if exchange.path == "/token":
            self.tokens += 1
            data = {"access_token": f"token-{self.tokens}", "expires_in": 3600}
            await exchange.start(200, {"Content-Type": "application/json"})
            await exchange.write(json.dumps(data).encode())
        else:
            await exchange.start(200, {"Content-Type": "text/event-stream"})
            await exchange.write(body(frame(text("Yes"), finish="STOP")))
        await exchange.end()


@pytest.fixture
def server() -> Iterator[Google]:
    with Google() as server:
        yield server


SCHEMA = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
TOOL = Tool("look", "Looks.", SCHEMA)
DECLARED = {
    "function_declarations": [
        {"name": "look", "description": "Looks.", "parameters_json_schema": SCHEMA}
    ]
}
PNG = b"\x89PNG\r\n\x1a\n"
HI = UserMessage("Hi")
SAID = {"role": "user", "parts": [{"text": "Hi"}]}
CALLS: list[Message] = [
    HI,
    AssistantMessage(
        [
            ToolCallBlock("k1", "look", {"x": 1}, metadata={"thoughtSignature": SIGNATURE}),
            ToolCallBlock("k2", "look", {"x": 2}),
        ],
        provider="gemini",
    ),
    ToolResultMessage("k1", "look", "one"),
    ToolResultMessage("k2", "look", "broken", is_error=True),
]

REQUESTS: list[tuple[str, Context, dict[str, Any], list[Any], dict[str, Any]]] = [
    ("a question", Context([HI]), {}, [SAID], {}),
    (
        "options",
        Context([HI], "Be brief."),
        {"temperature": 0.5, "top_p": 0.5, "max_tokens": 9, "seed": 7, "stop": ["A"]},
        [SAID],
        {
            "system_instruction": "Be brief.",
            "temperature": 0.5,
            "top_p": 0.5,
            "max_output_tokens": 9,
            "seed": 7,
            "stop_sequences": ["A"],
        },
    ),
    (
        "thinking",
        Context([HI]),
        {"thinking": "low"},
        [SAID],
        {"thinking_config": {"thinking_level": "LOW", "include_thoughts": True}},
    ),
    (
        "a schema",
        Context([HI]),
        {"response_format": SCHEMA},
        [SAID],
        {"response_mime_type": "application/json", "response_json_schema": SCHEMA},
    ),
    (
        "tools",
        Context([HI], tools=[TOOL]),
        {"tool_choice": "look", "extra": {"tools": [{"googleSearch": {}}]}},
        [SAID],
        {
            "tools": [DECLARED, {"google_search": {}}],
            "tool_config": {
                "function_calling_config": {"mode": "ANY", "allowed_function_names": ["look"]}
            },
        },
    ),
    (
        "calls and their results",
        Context(CALLS),
        {},
        [
            SAID,
            {
                "role": "model",
                "parts": [
                    {
                        "function_call": {"id": "k1", "name": "look", "args": {"x": 1}},
                        "thought_signature": b"signed",
                    },
                    {"function_call": {"id": "k2", "name": "look", "args": {"x": 2}}},
                ],
            },
            {
                "role": "user",
                "parts": [
                    {
                        "function_response": {
                            "id": "k1",
                            "name": "look",
                            "response": {"output": "one"},
                        }
                    },
                    {
                        "function_response": {
                            "id": "k2",
                            "name": "look",
                            "response": {"error": "broken"},
                        }
                    },
                ],
            },
        ],
        {},
    ),
    (
        "media",
        Context(
            [
                UserMessage(
                    [
                        ImageBlock(Base64Source("image/png", base64.b64encode(PNG).decode())),
                        ImageBlock(UrlSource("https://a.example/b.png")),
                        TextBlock("Which?"),
                    ]
                )
            ]
        ),
        {},
        [
            {
                "role": "user",
                "parts": [
                    {"inline_data": {"mime_type": "image/png", "data": PNG}},
                    {
                        "file_data": {
                            "mime_type": "image/png",
                            "file_uri": "https://a.example/b.png",
                        }
                    },
                    {"text": "Which?"},
                ],
            }
        ],
        {},
    ),
]


UNCERTIFIED = {"client_args": {"verify": False}, "async_client_args": {"ssl": False}}
"""No certificates are needed on loopback, and reading them takes the SDK a tenth of a second."""


@pytest.mark.parametrize(
    ("name", "context", "options", "contents", "config"),
    REQUESTS,
    ids=[name for name, *_ in REQUESTS],
)
def test_googles_client_sends_the_same(
    name: str,
    context: Context,
    options: dict[str, Any],
    contents: list[Any],
    config: dict[str, Any],
    server: Google,
) -> None:
    genai = pytest.importorskip("google.genai")
    there = {"base_url": server.url, "api_version": "v1beta", **UNCERTIFIED}
    client = genai.Client(api_key="test", http_options=there)
    for _ in client.models.generate_content_stream(model=MODEL, contents=contents, config=config):
        pass
    [theirs] = server.exchanges

    provider = GeminiProvider("gemini")
    with_info = Client().catalog.resolve(f"gemini/{MODEL}")
    asked = StreamOptions(base_url=server.url, **options)
    ours = provider.request(with_info, provider.convert(with_info, context, asked), asked)

    assert ours.url == f"{server.url}{theirs.path}?alt=sse"
    assert theirs.query == {"alt": "sse"}
    expected, sent = _in_camel_case(theirs.json), msgspec.json.decode(ours.body)
    expected.get("systemInstruction", {}).pop("role", None)  # theirs says "user" of it
    expected.get("tools", []).reverse()  # theirs puts the server's own first
    assert sent == {name: value for name, value in expected.items() if value != {}}


def _in_camel_case(data: Any) -> Any:
    """The API reads names of fields in either case, and the library sends some in each."""
    if isinstance(data, list):
        return [_in_camel_case(item) for item in data]
    if not isinstance(data, dict):
        return data
    words = {name: name.split("_") for name in data}
    return {
        first + "".join(word.capitalize() for word in rest): _in_camel_case(data[name])
        for name, (first, *rest) in words.items()
    }


async def test_a_service_account_is_found_and_its_token_used(
    server: Google, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("google.auth")
    rsa = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.rsa")
    serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    account = {
        "type": "service_account",
        "project_id": "of-the-account",
        "private_key": key.decode(),
        "client_email": "someone@of-the-account.example",
        "token_uri": f"{server.url}/token",
    }
    file = tmp_path / "account.json"
    file.write_text(json.dumps(account))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    for variable in ("VERTEX_API_KEY", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION"):
        monkeypatch.delenv(variable, raising=False)

    async with client_with(base_url=server.url) as client:
        for _ in range(2):
            await client.complete(f"vertex/{MODEL}", "Hi")

    assert server.tokens == 1
    generations = [exchange for exchange in server.exchanges if exchange.path != "/token"]
    for request in generations:
        assert request.headers["authorization"] == "Bearer token-1"
        assert request.path.startswith("/v1/projects/of-the-account/locations/global/publishers/")
    assert len(generations) == 2
