"""The `anthropic` package and a server that it and we talk to."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from swink_test_helpers.capture import CaptureServer

sys.path.append(str(Path(__file__).parent))  # helpers, in a checkout and in an unpacked sdist


ANSWER = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'


@pytest.fixture
def server() -> Iterator[CaptureServer]:
    with CaptureServer(ANSWER) as server:
        yield server


@pytest.fixture(scope="session")
def anthropic() -> Any:
    """The package, which takes a second to import: in those processes alone that need it."""
    return pytest.importorskip("anthropic", reason="Anthropic's SDK is not installed")


@pytest.fixture(scope="session")
def declared(anthropic: Any) -> Any:
    """Return the declarations of the package about a request."""
    from anthropic.types.beta import message_create_params

    return message_create_params.MessageCreateParamsStreaming


@pytest.fixture
def sdk(server: CaptureServer, anthropic: Any) -> Iterator[Any]:
    http = anthropic.DefaultHttpxClient(verify=False)  # reading certificates takes longest of all
    there = {"api_key": "test", "base_url": server.url, "http_client": http}
    with anthropic.Anthropic(**there, max_retries=0) as client:
        yield client
