"""Media that a call downloads for an API that takes data alone, through shipped providers."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from swink_core import (
    Client,
    DocumentBlock,
    Error,
    ImageBlock,
    RetryPolicy,
    UrlSource,
    UserMessage,
)
from swink_core.providers import downloads
from swink_core.providers.downloads import with_downloads
from swink_recorder.loopback import Exchange, LoopbackServer

PNG = b"\x89PNG\r\n\x1a\n and so on"
DATA = base64.b64encode(PNG).decode()


class Images(LoopbackServer):
    """Serves one image at every path."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    async def respond(self, exchange: Exchange) -> None:
        self.seen.append(exchange.path)
        await exchange.start(200, {"Content-Type": "image/png"})
        await exchange.write(PNG)
        await exchange.end()


class Refusing(LoopbackServer):
    """Keeps each request and refuses it, so that no answer has to be written."""

    def __init__(self) -> None:
        super().__init__()
        self.bodies: list[Any] = []

    async def respond(self, exchange: Exchange) -> None:
        if exchange.method == "POST" and "/api/show" not in exchange.path:
            self.bodies.append(exchange.json)
        await exchange.start(400, {"Content-Type": "application/json"})
        await exchange.write(b'{"error":{"message":"no"}}')
        await exchange.end()


async def _asked(model: str, block: Any, **options: Any) -> tuple[list[Any], Any]:
    async with Refusing() as server, Client(retry=RetryPolicy.none()) as client:
        own = {"base_url": server.url, "api_key": "k", **options}
        async with client.stream(model, UserMessage(["Look:", block]), **own) as stream:
            events = [event async for event in stream]
    return server.bodies, events[-1]


async def test_nothing_is_downloaded_unless_the_caller_allows_it() -> None:
    async with Images() as images:
        block = ImageBlock(UrlSource(f"{images.url}/a.png"))
        bodies, last = await _asked("ollama/llava", block)
    assert (bodies, images.seen) == ([], [])
    assert isinstance(last, Error)
    assert last.error_kind == "unsupported"


async def test_an_api_that_takes_data_alone_gets_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "is_public", lambda address: True)
    monkeypatch.setitem(with_downloads.__kwdefaults__, "allowed", lambda address: True)
    async with Images() as images:
        block = ImageBlock(UrlSource(f"{images.url}/a.png"))
        [body], _ = await _asked("ollama/llava", block, download_media=True)
    assert body["messages"][0]["images"] == [DATA]


async def test_an_api_that_fetches_gets_the_address() -> None:
    async with Images() as images:
        url = f"{images.url}/a.png"
        block = ImageBlock(UrlSource(url))
        [body], _ = await _asked("anthropic/claude-opus-4-8", block, download_media=True)
    source = body["messages"][0]["content"][1]["source"]
    assert (source, images.seen) == ({"type": "url", "url": url}, [])


async def test_a_download_that_is_refused_ends_the_call_before_a_request() -> None:
    block = DocumentBlock(UrlSource("http://127.0.0.1:9/a.pdf"))
    bodies, last = await _asked(
        "openai/gpt-4.1", block, download_media=True, settings={"api": "chat"}
    )
    assert bodies == []
    assert isinstance(last, Error)
    assert (last.error_kind, last.code) == ("invalid_request", "download")
