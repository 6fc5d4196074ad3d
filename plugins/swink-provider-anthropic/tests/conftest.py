"""The `anthropic` package and a server that it and we talk to."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from swink_testing.capture import CaptureServer

sys.path.append(str(Path(__file__).parent))  # helpers, in a checkout and in an unpacked sdist


ANSWER = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'


@pytest.fixture
def server() -> Iterator[CaptureServer]:
    with CaptureServer(ANSWER) as server:
        yield server


@pytest.fixture
def sdk(server: CaptureServer) -> Iterator[Any]:
    anthropic = pytest.importorskip("anthropic", reason="Anthropic's SDK is not installed")
    with anthropic.Anthropic(api_key="test", base_url=server.url, max_retries=0) as client:
        yield client
