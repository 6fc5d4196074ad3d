"""Drive the real `claude` command through its provider, against a stand-in for the API.

    python -m lab.counterparts.claude_code                   # installs it from npm, for this run
    python -m lab.counterparts.claude_code --command claude  # the one that is there

Only npm uses the network. Each scene is a call through the provider; the requests to the API and
the answer are compared. Exit code 1 if a scene fails.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import swink_core as swink
from swink_recorder.loopback import Exchange, LoopbackServer

PACKAGE = "@anthropic-ai/claude-code"
MODEL = "claude-code/claude-sonnet-5-5"
SAID = "High water is at 14:20."
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAA"
    "AABJRU5ErkJggg=="
)
USAGE = {
    "input_tokens": 20,
    "output_tokens": 1,
    "cache_read_input_tokens": 7,
    "cache_creation_input_tokens": 5,
}


def _events(model: str, blocks: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    message: dict[str, Any] = {"id": "msg_1", "type": "message", "role": "assistant"}
    message["model"] = model
    message |= {"content": [], "stop_reason": None, "stop_sequence": None, "usage": USAGE}
    yield {"type": "message_start", "message": message}
    for index, block in enumerate(blocks):
        (field, kind), *_ = [
            (name, made)
            for name, made in (("text", "text_delta"), ("input", "input_json_delta"))
            if name in block
        ]
        empty = {**block, field: "" if field == "text" else {}}
        said = block[field] if field == "text" else json.dumps(block[field])
        delta = {"type": kind, "text" if field == "text" else "partial_json": said}
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    reason = "tool_use" if blocks[-1]["type"] == "tool_use" else "end_turn"
    end = {"stop_reason": reason, "stop_sequence": None}
    yield {"type": "message_delta", "delta": end, "usage": {"output_tokens": 30}}
    yield {"type": "message_stop"}


class StandIn(LoopbackServer):
    """The Messages API, as far as the command asks it; `mode` says how it answers."""

    def __init__(self) -> None:
        super().__init__()
        self.mode = "text"
        self.asked: list[dict[str, Any]] = []

    async def respond(self, exchange: Exchange) -> None:
        """Answer one request."""
        if not exchange.path.startswith("/v1/messages"):
            await exchange.start(200, {"Content-Type": "application/json"})
            await exchange.write(b"{}")
            await exchange.end()
            return
        body = json.loads(exchange.body)
        self.asked.append(body)
        if self.mode == "overloaded":
            error = {
                "type": "error",
                "error": {"type": "overloaded_error", "message": "Overloaded"},
            }
            await exchange.start(529, {"Content-Type": "application/json"})
            await exchange.write(json.dumps(error).encode())
            await exchange.end()
            return
        blocks: list[dict[str, Any]] = [{"type": "text", "text": SAID}]
        if self.mode == "schema":
            fields = {"at": "14:20"} if _has_result(body) else {"time": "14:20"}
            blocks.append(
                {"type": "tool_use", "id": "toolu_1", "name": "StructuredOutput", "input": fields}
            )
        if self.mode == "tool" and not _has_result(body):
            called = {"type": "tool_use", "id": "toolu_1", "name": "Bash"}
            blocks.append({**called, "input": {"command": "echo tide", "description": "Say it"}})
        await exchange.start(200, {"Content-Type": "text/event-stream"})
        for event in _events(body["model"], blocks):
            await exchange.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
            if self.mode == "hang" and event["type"] == "content_block_delta":
                await asyncio.Event().wait()
        await exchange.end()


def _has_result(body: dict[str, Any]) -> bool:
    content = body["messages"][-1]["content"]
    return isinstance(content, list) and any(b.get("type") == "tool_result" for b in content)


async def _ask(
    conversation: Any, **options: Any
) -> tuple[list[swink.Event], swink.AssistantMessage]:
    async with swink.Client(retry=swink.RetryPolicy.none()) as client:
        async with client.stream(MODEL, conversation, **options) as stream:
            events = [event async for event in stream]
        return events, stream.message


async def words_and_images(server: StandIn) -> None:
    """Hold that words, an image, the system prompt and the effort are in the request."""
    image = swink.ImageBlock(swink.Base64Source("image/png", PIXEL))
    turn = swink.UserMessage([swink.TextBlock("What is it?"), image])
    _, message = await _ask(
        [turn], system_prompt="Be brief.", thinking="low", settings={"tools": []}
    )
    assert message.text == SAID, message
    assert message.model == "claude-sonnet-5-5"
    (body,) = [body for body in server.asked if body.get("stream")]
    said = [block for turn in body["messages"] for block in turn["content"]]
    assert any(block.get("text") == "What is it?" for block in said if isinstance(block, dict))
    assert any(block.get("type") == "image" for block in said if isinstance(block, dict))
    assert "Be brief." in json.dumps(body["system"])
    assert body["output_config"]["effort"] == "low"
    assert not body.get("tools")


async def a_cost_is_counted(server: StandIn) -> None:
    """Hold that what it cost is counted from what the model took."""
    _, message = await _ask("When?", settings={"tools": []})
    assert message.usage is not None
    assert (message.usage.input, message.usage.output) == (32, 30)
    assert message.cost is not None
    expected = (20 * 2.0 + 30 * 10.0 + 7 * 0.1 + 5 * 2.5) / 1e6
    assert abs((message.cost.total or 0) - expected) < 1e-9, message.cost


async def a_tool_of_its_own(server: StandIn) -> None:
    """Check that calls of built-in tools and their results are extensions."""
    server.mode = "tool"
    own = {"permission_mode": "dontAsk", "allowed_tools": ["Bash"]}
    _, message = await _ask("Say tide.", settings=own)
    extensions = [block for block in message.content if isinstance(block, swink.ExtensionBlock)]
    assert [block.kind for block in extensions] == ["tool_use", "tool_result"], message.content
    assert extensions[0].data["input"]["command"] == "echo tide"
    assert extensions[1].data["content"] == "tide"
    assert message.text.endswith(SAID)
    assert message.stop_reason is swink.StopReason.STOP


async def an_answer_with_a_schema(server: StandIn) -> None:
    """Hold that the answer is what keeps to the schema, and the rest is kept beside it."""
    server.mode = "schema"
    schema = {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]}
    _, message = await _ask("When?", response_format=schema, settings={"tools": []})
    assert message.text == '{"at":"14:20"}', message
    assert [tool["name"] for tool in server.asked[0]["tools"]] == ["StructuredOutput"]
    assert server.asked[0]["tools"][0]["input_schema"]["required"] == ["at"]
    beside = [block for block in message.content if isinstance(block, swink.ExtensionBlock)]
    assert [b.kind for b in beside] == ["text", "tool_use", "tool_result"] * 2, message.content


async def a_refusal(server: StandIn) -> None:
    """Check that a failure reported as a success is an error, and that attempts are reported."""
    server.mode = "overloaded"
    events, message = await _ask("When?", settings={"tools": []})
    assert message.error_kind is swink.StreamErrorKind.OVERLOADED, message
    assert message.text == ""
    assert [e.code for e in events if isinstance(e, swink.Notice)] == ["retry"]


async def sessions(server: StandIn) -> None:
    """Hold that a session has the id that it is given, goes on, and under another id."""
    id = str(uuid4())
    _, first = await _ask("One?", settings={"session": id, "tools": []})
    assert first.response_id == id
    turns = [swink.UserMessage("One?"), first, swink.UserMessage("Two?")]
    _, second = await _ask(turns, settings={"resume": id, "tools": []})
    assert second.response_id == id
    heard = json.dumps(server.asked[-1]["messages"])
    assert heard.count("One?") == heard.count("Two?") == 1
    _, third = await _ask(turns, settings={"resume": id, "fork": True, "tools": []})
    assert third.response_id != id


async def an_unknown_session(server: StandIn) -> None:
    """Hold that a session that is not there is the caller's mistake."""
    _, message = await _ask("Hi", settings={"resume": str(uuid4())})
    assert message.error_kind is swink.StreamErrorKind.INVALID_REQUEST, message


async def an_interruption(server: StandIn) -> None:
    """Check that leaving the stream ends the command, and that its session can be resumed."""
    server.mode = "hang"
    id = str(uuid4())
    async with (
        swink.Client() as client,
        client.stream(MODEL, "When?", settings={"session": id, "tools": []}) as stream,
    ):
        async for event in stream:
            if isinstance(event, swink.TextDelta):
                break
    assert not await asyncio.to_thread(_runs, id), "the command still runs"
    server.mode = "text"
    _, message = await _ask("And now?", settings={"resume": id, "tools": []})
    assert message.text == SAID, message


def _runs(words: str) -> bool:
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    return words in listed.stdout


SCENES: tuple[Callable[[StandIn], Awaitable[None]], ...] = (
    words_and_images, a_cost_is_counted, a_tool_of_its_own, an_answer_with_a_schema, a_refusal,
    sessions, an_unknown_session, an_interruption,
)  # fmt: skip


async def _play(command: str, home: str) -> int:
    failed = 0
    for scene in SCENES:
        async with StandIn() as server:
            os.environ.update(
                HOME=home,
                SWINK_CLAUDE_COMMAND=command,
                ANTHROPIC_BASE_URL=server.url,
                ANTHROPIC_API_KEY="test",
                CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
                CLAUDE_CODE_MAX_RETRIES="1",
            )
            try:
                await scene(server)
            except AssertionError as error:
                failed += 1
                print(f"failed  {scene.__name__}: {error}")
            else:
                print(f"passed  {scene.__name__}")
    return failed


def _installed(folder: str) -> str:
    """Install the command from npm."""
    npm = shutil.which("npm")
    if npm is None:
        sys.exit("npm is not installed; install it, or name the command with --command")
    subprocess.run([npm, "install", "--silent", "--prefix", folder, PACKAGE], check=True)
    return str(Path(folder, "node_modules", ".bin", "claude"))


def main() -> int:
    """Play every scene."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--command", help="the command that is there; none: install it from npm")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="swink-counterparts-") as folder:
        command = asked.command or _installed(folder)
        home = Path(folder, "home")
        home.mkdir()
        os.chdir(home)
        version = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
        print(f"        {version.stdout.strip()}")
        try:
            return 1 if asyncio.run(_play(command, str(home))) else 0
        finally:
            os.chdir("/")


if __name__ == "__main__":
    sys.exit(main())
