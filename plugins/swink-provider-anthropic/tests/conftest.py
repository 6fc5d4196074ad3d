"""The `anthropic` package and a server that it and we talk to."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from swink_recorder.loopback import Exchange, LoopbackServer

sys.path.append(str(Path(__file__).parent))  # helpers, in a checkout and in an unpacked sdist


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
    anthropic = pytest.importorskip("anthropic")
    with anthropic.Anthropic(api_key="test", base_url=server.url, max_retries=0) as client:
        yield client
