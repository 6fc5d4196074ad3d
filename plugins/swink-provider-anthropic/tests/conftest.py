"""The `anthropic` package and a server that it and we talk to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anthropic
import pytest

from swink_recorder.loopback import Exchange, LoopbackServer


class Capture(LoopbackServer):
    """Answers every request with one body and keeps what was asked."""

    body = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'

    async def respond(self, exchange: Exchange) -> None:
        await exchange.start(200, {"Content-Type": "text/event-stream"})
        await exchange.write(self.body)
        await exchange.end()


@pytest.fixture
def server() -> Iterator[Capture]:
    with Capture() as server:
        yield server


@pytest.fixture
def sdk(server: Capture) -> Iterator[Any]:
    with anthropic.Anthropic(api_key="test", base_url=server.url, max_retries=0) as client:
        yield client
