"""A wrong type in a known field is damage in every provider's answers, over loopback."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from swink_core import Client, Done, Error, Event, RetryPolicy, StreamErrorKind
from swink_provider_bedrock.eventstream import EventStreamDecoder

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


def delta(**piece: Any) -> dict[str, Any]:
    """Return a piece of a block, as Bedrock sends it."""
    return {"type": "contentBlockDelta", "contentBlockIndex": 0, "delta": piece}


def piece(**delta: Any) -> dict[str, Any]:
    """Return a piece of a block, as the command `claude` prints it."""
    event = {"type": "content_block_delta", "index": 0, "delta": delta}
    return {"type": "stream_event", "event": event}


def whole(**block: Any) -> dict[str, Any]:
    """Return a whole block, as the command `claude` prints it."""
    return {"type": "assistant", "message": {"content": [block]}}


# (model, a frame with `None` where a provider sends text)
TEXTS: list[tuple[str, dict[str, Any]]] = [
    ("bedrock/m", delta(text=None)),
    ("bedrock/m", delta(reasoningContent={"text": None})),
    ("bedrock/m", delta(reasoningContent={"signature": None})),
    ("bedrock/m", delta(toolUse={"input": None})),
    ("bedrock/m", {"type": "messageStop", "stopReason": None}),
    ("claude-code/m", piece(type="text_delta", text=None)),
    ("claude-code/m", piece(type="thinking_delta", thinking=None)),
    ("claude-code/m", piece(type="signature_delta", signature=None)),
    ("claude-code/m", whole(type="text", text=None)),
    ("claude-code/m", whole(type="thinking", thinking=None)),
    ("claude-code/m", {"type": "system", "subtype": "init", "session_id": None}),
    ("claude-code/m", {"type": "result", "subtype": "success", "result": None}),
]

# what a provider sends after such a frame: some text, and the end
REST: dict[str, list[dict[str, Any]]] = {
    "bedrock/m": [
        {**delta(text="Hi"), "contentBlockIndex": 1},
        {"type": "messageStop", "stopReason": "end_turn"},
        {"type": "metadata", "usage": {"inputTokens": 1, "outputTokens": 1}},
    ],
    "claude-code/m": [
        piece(type="text_delta", text="Hi"),
        {"type": "result", "subtype": "success", "is_error": False, "result": "Hi"},
    ],
}

PRINTS = """\
#!{python}
import sys
from pathlib import Path

sys.stdin.readline()
sys.stdout.write((Path(__file__).parent / "output").read_text())
"""


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


def filled(frame: Any, text: Any) -> Any:
    """Return a frame with a value in each place where `None` stands."""
    if isinstance(frame, dict):
        return {name: filled(value, text) for name, value in frame.items()}
    if isinstance(frame, list):
        return [filled(value, text) for value in frame]
    return text if frame is None else frame


async def events_of(
    model: str,
    frames: list[dict[str, Any]],
    server: ThreadingHTTPServer,
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
) -> list[Event]:
    """Return the events of a call that Bedrock, or the command `claude`, answers with frames."""
    lines = [json.dumps(frame) for frame in frames]
    messages = [EventStreamDecoder.of_json(line.encode()) for line in lines]
    monkeypatch.setattr(Handler, "body", b"".join(messages))
    monkeypatch.setattr(Handler, "kind", "application/vnd.amazon.eventstream")
    command = folder / "claude"
    command.write_text(PRINTS.format(python=sys.executable))
    command.chmod(0o755)
    (folder / "output").write_text("\n".join(lines) + "\n")
    monkeypatch.setenv("SWINK_CLAUDE_COMMAND", str(command))
    options: dict[str, Any] = {}
    if model.startswith("bedrock/"):
        url = f"http://127.0.0.1:{server.server_port}"
        options = {"base_url": url, "api_key": "k" * 20, "settings": {"region": "us-east-1"}}
    async with (
        Client() as client,
        client.stream(model, "x", retry=RetryPolicy.none(), **options) as stream,
    ):
        return [event async for event in stream]


@pytest.mark.parametrize("wrong", [5, ["Hi"]], ids=["number", "list"])
@pytest.mark.parametrize(("model", "frame"), TEXTS)
async def test_a_wrong_type_in_place_of_text_is_damage(
    model: str,
    frame: dict[str, Any],
    wrong: Any,
    server: ThreadingHTTPServer,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    frames = [filled(frame, wrong), *REST[model]]
    *_, last = await events_of(model, frames, server, monkeypatch, tmp_path)
    assert isinstance(last, Error)
    assert last.error_kind is StreamErrorKind.PROTOCOL
    assert last.code == "damaged_frame"


@pytest.mark.parametrize(("model", "frame"), [row for row in TEXTS if row[1]["type"] != "result"])
async def test_null_in_place_of_text_is_no_damage(
    model: str,
    frame: dict[str, Any],
    server: ThreadingHTTPServer,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    frames = [frame, *REST[model]]
    *_, last = await events_of(model, frames, server, monkeypatch, tmp_path)
    assert isinstance(last, Done)
