"""Helpers beside these tests can be imported, and the `openai` package has a server to talk to."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from swink_test_helpers.capture import CaptureServer

sys.path.append(str(Path(__file__).parent))  # helpers, in a checkout and in an unpacked sdist


@pytest.fixture(scope="module")
def server() -> Iterator[CaptureServer]:
    with CaptureServer() as server:
        yield server


@pytest.fixture(scope="module")
def sdk(server: CaptureServer) -> Iterator[Any]:
    openai = pytest.importorskip("openai", reason="OpenAI's SDK is not installed")
    address = {"api_key": "test", "base_url": f"{server.url}/v1", "max_retries": 0}
    with openai.OpenAI(**address, organization="o", project="p") as client:
        yield client
