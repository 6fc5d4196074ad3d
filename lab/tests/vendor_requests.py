"""Requests of every protocol, and a client without an SDK."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import aiohttp
import yarl

from lab.vendor import Vendor

__all__ = ["PROTOCOLS", "SCHEMA", "Answer", "request_of", "send"]

PROTOCOLS = (
    "openai-chat",
    "openai-responses",
    "anthropic-messages",
    "gemini-generate-content",
    "bedrock-converse",
    "ollama-chat",
    "cohere-chat",
    "mistral-chat",
)
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}

_FUNCTION = {"name": "add", "description": "Add.", "parameters": SCHEMA}
_CLAUDE = "us.anthropic.claude-sonnet-4-5-20250929-v1%3A0"
_THINKING = {"type": "enabled", "budget_tokens": 1024}


@dataclass(frozen=True)
class Answer:
    """A response, read to its end or to the break; `broken` names the exception then."""

    status: int
    headers: dict[str, str]
    body: bytes
    broken: str = ""

    def json(self) -> Any:
        return json.loads(self.body)


def request_of(
    protocol: str, text: str = "hello", *, streamed: bool = True
) -> tuple[str, dict[str, Any], dict[str, str]]:
    """Return a request with a tool, for a model that thinks: path, body and headers."""
    messages = [{"role": "user", "content": text}]
    tool = {"type": "function", "function": _FUNCTION}
    if protocol == "openai-chat":
        body = {"model": "gpt-4.1", "stream": streamed, "messages": messages, "tools": [tool]}
        if streamed:
            body["stream_options"] = {"include_usage": True}
        return "/v1/chat/completions", body, {}
    if protocol == "openai-responses":
        flat = {"type": "function", **_FUNCTION, "strict": False}
        body = {"model": "gpt-6.2-sol", "stream": streamed, "input": text, "tools": [flat]}
        body["reasoning"] = {"summary": "auto"}
        body["include"] = ["reasoning.encrypted_content"]
        return "/v1/responses", body, {}
    if protocol == "anthropic-messages":
        own = {"name": "add", "description": "Add.", "input_schema": SCHEMA}
        body = {"model": "claude-sonnet-4-5", "stream": streamed, "messages": messages}
        body.update(tools=[own], max_tokens=4000, thinking=_THINKING)
        return "/v1/messages", body, {"anthropic-version": "2023-06-01"}
    if protocol == "gemini-generate-content":
        function = {"name": "add", "description": "Add.", "parametersJsonSchema": SCHEMA}
        body = {"contents": [{"role": "user", "parts": [{"text": text}]}]}
        body["tools"] = [{"functionDeclarations": [function]}]
        body["generationConfig"] = {"thinkingConfig": {"includeThoughts": True}}
        method = "streamGenerateContent?alt=sse" if streamed else "generateContent"
        return f"/v1beta/models/gemini-3.6-flash:{method}", body, {}
    if protocol == "bedrock-converse":
        spec = {"name": "add", "description": "Add.", "inputSchema": {"json": SCHEMA}}
        body = {"messages": [{"role": "user", "content": [{"text": text}]}]}
        body["toolConfig"] = {"tools": [{"toolSpec": spec}]}
        body["inferenceConfig"] = {"maxTokens": 4000}
        body["additionalModelRequestFields"] = {"thinking": _THINKING}
        return f"/model/{_CLAUDE}/converse{'-stream' if streamed else ''}", body, {}
    body = {"model": "qwen3", "stream": streamed, "messages": messages, "tools": [tool]}
    if protocol == "ollama-chat":
        return "/api/chat", body, {}
    if protocol == "mistral-chat":
        return "/mistral/v1/chat/completions", {**body, "model": "mistral-large-latest"}, {}
    return "/v2/chat", {**body, "model": "command-a-reasoning-08-2025"}, {}


async def send(
    vendor: Vendor,
    protocol: str,
    *,
    text: str = "hello",
    streamed: bool = True,
    key: str | None = "key-alpha",
    script: Any = None,
    fault: Any = None,
    change: dict[str, Any] | None = None,
) -> Answer:
    """Send a request and read the answer."""
    path, body, headers = request_of(protocol, text, streamed=streamed)
    body.update(change or {})
    if key is not None:
        headers["authorization"] = f"Bearer {key}"
    if script is not None:
        headers["x-vendor-script"] = json.dumps(script)
    if fault is not None:
        headers["x-vendor-fault"] = json.dumps(fault)
    received = b""
    url = yarl.URL(vendor.url + path, encoded=True)
    async with aiohttp.ClientSession() as session:
        try:
            async with session.post(url, json=body, headers=headers) as response:
                status = response.status
                about = {name.lower(): value for name, value in response.headers.items()}
                async for chunk in response.content.iter_any():
                    received += chunk
        except aiohttp.ClientConnectionError as error:
            return Answer(0, {}, received, type(error).__name__)
        except aiohttp.ClientPayloadError as error:
            return Answer(status, about, received, type(error).__name__)
    return Answer(status, about, received)
