"""A wrong type in a known field is damage in every provider's answers, over loopback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from swink_core import Client, Error, RetryPolicy

# (model, settings, whether lines are events, a frame with a wrong type)
WRONG: list[tuple[str, dict[str, Any], bool, dict[str, Any]]] = [
    ("openai/m", {"api": "chat"}, True, {"choices": [{"delta": {"content": 5}}]}),
    (
        "openai/m",
        {"api": "chat"},
        True,
        {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": 5}}]}}]},
    ),
    ("openai/m", {"api": "chat"}, True, {"choices": [{"delta": {"reasoning_details": 5}}]}),
    ("openai/m", {"api": "responses"}, True, {"type": "response.output_text.delta", "delta": 5}),
    ("mistral/m", {}, True, {"choices": [{"delta": {"content": [{"text": 5}]}}]}),
    (
        "anthropic/m",
        {},
        True,
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": 5}},
    ),
    (
        "anthropic/m",
        {},
        True,
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "tool_use", "id": "a", "name": "f", "input": 5},
        },
    ),
    ("gemini/m", {}, True, {"candidates": [{"content": {"parts": [{"text": 5}]}}]}),
    ("cohere/m", {}, True, {"type": "content-delta", "delta": {"message": {"content": 5}}}),
    ("ollama/m", {}, False, {"message": {"content": 5}}),
    ("ollama/m", {}, False, {"message": {"tool_calls": [{"function": {"arguments": 5}}]}}),
]


class Handler(BaseHTTPRequestHandler):
    body = b""
    kind = ""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", self.kind)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=partial(server.serve_forever, 0.01))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(("model", "settings", "is_sse", "frame"), WRONG)
async def test_a_wrong_type_in_a_known_field_is_damage(
    model: str,
    settings: dict[str, Any],
    is_sse: bool,
    frame: dict[str, Any],
    server: ThreadingHTTPServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = json.dumps(frame).encode()
    monkeypatch.setattr(Handler, "body", b"data: " + text + b"\n\n" if is_sse else text + b"\n")
    kind = "text/event-stream" if is_sse else "application/x-ndjson"
    monkeypatch.setattr(Handler, "kind", kind)
    url = f"http://127.0.0.1:{server.server_port}"
    options: dict[str, Any] = {"base_url": url, "api_key": "k" * 20, "settings": settings}
    async with (
        Client() as client,
        client.stream(model, "x", retry=RetryPolicy.none(), **options) as stream,
    ):
        *_, last = [event async for event in stream]
    assert isinstance(last, Error)
    assert last.code == "damaged_frame"
