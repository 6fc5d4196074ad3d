"""Share what the programs of this folder need: a vendor behind the gateway, and calls in memory."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import msgspec

import swink
from lab.vendor import Vendor
from lab.vendor.writer import Script
from swink_core.providers import HTTPRequest
from swink_gateway.serving.server import Gateway
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

KEY = "key-alpha"

MODELS = {
    "gpt": "openai/gpt-5.4-mini",
    "claude": "anthropic/claude-haiku-4-5",
    "gemini": "gemini/gemini-3.6-flash",
    "deepseek": "deepseek/deepseek-flash",
    "llama": "ollama/llama3.2",
}
"""Routes of the gateway, and the model behind each."""

PATHS = {"openai": "/v1", "deepseek": "/deepseek"}
"""The folder of an API at the vendor, where its provider's base URL has one."""


@contextmanager
def vendor_process() -> Iterator[str]:
    """Run a vendor in another process until the end of the `with` block, and yield its URL."""
    command = [sys.executable, "-m", "lab.vendor"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert running.stdout is not None
        yield running.stdout.readline().strip()
    finally:
        running.kill()


def providers(vendor: Vendor) -> dict[str, dict[str, Any]]:
    """Return the settings that send every provider of `MODELS` to the vendor."""
    names = {model.partition("/")[0] for model in MODELS.values()}
    return {name: {"base_url": vendor.url + PATHS.get(name, ""), "api_key": KEY} for name in names}


@dataclass(frozen=True)
class Answered:
    """The status, headers and JSON data of a response; `data` is text if it is not JSON."""

    status: int
    headers: Mapping[str, str]
    data: Any


@dataclass(frozen=True)
class Stand:
    """A vendor, the gateway in front of it, and an HTTP session."""

    vendor: Vendor
    gateway: str
    session: aiohttp.ClientSession

    def play(self, *turns: Sequence[dict[str, Any]]) -> None:
        """Let the vendor's next answers be these, one to a request."""
        self.vendor.state.scripts.clear()
        self.vendor.state.scripts.extend(Script(tuple(tuple(t) for t in turns)).split())

    def forget(self) -> None:
        """Begin the vendor's record anew."""
        self.vendor.state.record.exchanges.clear()

    @property
    def requests(self) -> int:
        """The number of requests that the vendor received."""
        return len(self.vendor.state.record.exchanges)

    @property
    def last_body(self) -> Any:
        """The JSON data of the last request that the vendor received."""
        return json.loads(self.vendor.state.record.exchanges[-1].body)

    async def post(self, path: str, body: Any, base: str | None = None) -> Answered:
        """Send a request to the gateway, or to `base`."""
        headers = {
            "Authorization": f"Bearer {KEY}",
            "x-api-key": KEY,
            "x-goog-api-key": KEY,
            "anthropic-version": "2023-06-01",
        }
        url = (self.gateway if base is None else base) + path
        async with self.session.post(url, json=body, headers=headers) as response:
            text = await response.text()
            try:
                data = json.loads(text)
            except ValueError:
                data = text
            return Answered(response.status, dict(response.headers), data)


@asynccontextmanager
async def stand(gateway_keys: Sequence[str] = (), **options: Any) -> AsyncIterator[Stand]:
    """Run a vendor and the gateway; `options` are the vendor's."""
    async with Vendor(**options) as vendor:
        routes = {name: [model] for name, model in MODELS.items()}
        async with (
            swink.Client(providers=providers(vendor)) as client,
            Gateway(client, routes=routes, keys=gateway_keys) as gateway,
            aiohttp.ClientSession() as session,
        ):
            yield Stand(vendor, gateway.url, session)


def event_stream(*frames: object, done: bool = True) -> MemoryResponse:
    """Return a response of server-sent events without names, one for each piece of JSON data."""
    data = [b"data: " + msgspec.json.encode(frame) + b"\n\n" for frame in frames]
    if done:
        data.append(b"data: [DONE]\n\n")
    return MemoryResponse(data, 200, {"Content-Type": "text/event-stream"})


def chat_chunk(delta: Mapping[str, object], finish_reason: str | None = None) -> dict[str, object]:
    """Return the data of one frame of Chat Completions."""
    choice = {"index": 0, "delta": dict(delta), "finish_reason": finish_reason}
    return {"id": "chunk", "model": "m", "choices": [choice]}


class RefusingHTTPClient(MemoryHTTPClient):
    """Keep every request, and answer it with status 400."""

    async def send(self, request: HTTPRequest, connect_timeout: float | None) -> MemoryResponse:
        """Keep the request."""
        self.requests.append(request)
        return MemoryResponse.of_json({"message": "refused"}, 400)


@dataclass(frozen=True)
class Sent:
    """The body of a request (empty where nothing was sent), the notices, and the failure."""

    body: str
    notices: tuple[str, ...]
    failure: str


async def sent(model: str, prompt: swink.Prompt, **options: Any) -> Sent:
    """Make a call that the server refuses, and return its request.

    Notices of a retirement date are left out."""
    http = RefusingHTTPClient()
    provider = model.partition("/")[0]
    own: dict[str, Any] = {"api_key": "test"}
    if provider == "bedrock":
        own["settings"] = {"region": "us-east-1"}
    notices: list[str] = []
    async with swink.Client(http=http, providers={provider: own}, retry=False) as client:
        try:
            async with client.stream(model, prompt, **options) as stream:
                async for event in stream:
                    if isinstance(event, swink.Notice) and event.code != "model_retires":
                        notices.append(f"{event.code}: {event.detail}")
        except swink.SwinkError as error:
            return Sent("", tuple(notices), f"{type(error).__name__}: {error}")
        failure = stream.message.error_message or ""
    body = http.requests[-1].body.decode() if http.requests else ""
    return Sent(body, tuple(notices), "" if body else failure)


def verdict(right: bool, subject: str, detail: str = "") -> None:
    """Print one line that begins with `right:` or `wrong:`."""
    begin = "right:" if right else "wrong:"
    print(f"{begin} {subject}" + (f" ({detail})" if detail else ""), flush=True)
