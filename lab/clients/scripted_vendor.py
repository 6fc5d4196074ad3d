"""A vendor on loopback that speaks every protocol, and answers or fails as it is told.

What it writes was written by hand after the vendors' documents, not by the gateway's encoders, so
that a client meets the same vendor with and without the gateway in between. `mode` is one of
`MODES`; a request with tools, in the mode `tool`, is answered with a call, and one with the call's
result with words.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, Self

from aiohttp import WSMsgType, web

__all__ = ["ANSWER", "MODES", "PARTIAL", "Tool", "Vendor"]

ANSWER = "CANNED-ANSWER-42: all is well."
PARTIAL = "PARTIAL "
FAULT = "the model broke down"
MODES = ("answer", "tool", "pause", "503", "error", "cut")

PAUSE_SECONDS = 1.5
"""Before each frame of an answer that is thought about."""

Tool = tuple[str, dict[str, Any]]
"""A tool's name and the arguments to call it with."""

Frames = list[tuple[str, dict[str, Any]]]

MOST_BODY_BYTES = 32 * 1024 * 1024


class Vendor:
    """Serves until it is left. `asked` counts what it was asked to generate."""

    def __init__(self, mode: str, tool: Tool | None = None) -> None:
        self.mode = mode
        self.asked = 0
        self._tool = tool
        app = web.Application(client_max_size=MOST_BODY_BYTES)
        app.router.add_post("/v1/chat/completions", self._serve(chat, "data: [DONE]\n\n"))
        app.router.add_post("/v1/messages", self._serve(messages))
        app.router.add_post("/v1/responses", self._serve(responses))
        app.router.add_get("/v1/responses", self._socket)
        app.router.add_post("/v1beta/models/{model}:{method}", self._serve(gemini))
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self._runner.cleanup()

    def _serve(self, speak: Callable[[str, Tool | None], Frames], end: str = "") -> Any:
        async def handle(request: web.Request) -> web.StreamResponse:
            body = await request.json()
            self.asked += 1
            if self.mode == "503":
                return unavailable()
            frames = speak(self._mode(body), self._tool)
            if not (body.get("stream") or "streamGenerateContent" in request.path):
                return web.json_response(WHOLE[speak](self._mode(body), self._tool))
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            await response.prepare(request)
            for name, data in frames:
                if self.mode == "pause":
                    await asyncio.sleep(PAUSE_SECONDS)
                head = f"event: {name}\n" if name else ""
                await response.write(f"{head}data: {json.dumps(data)}\n\n".encode())
            if self.mode == "cut":
                await asyncio.sleep(0.05)
                assert request.transport is not None
                request.transport.close()
            elif end:
                await response.write(end.encode())
            return response

        return handle

    async def _socket(self, request: web.Request) -> web.StreamResponse:
        if self.mode == "503":
            self.asked += 1
            return unavailable()
        socket = web.WebSocketResponse(max_msg_size=MOST_BODY_BYTES)
        await socket.prepare(request)
        async for message in socket:
            if message.type is not WSMsgType.TEXT:
                continue
            body = json.loads(message.data)
            if body.get("generate") is False:
                frames = [(name, data) for name, data in responses("nothing", None)]
            else:
                self.asked += 1
                frames = responses(self._mode(body), self._tool)
            for _, data in frames:
                if self.mode == "pause" and body.get("generate") is not False:
                    await asyncio.sleep(PAUSE_SECONDS)
                await socket.send_str(json.dumps(data))
            if self.mode == "cut" and body.get("generate") is not False:
                assert request.transport is not None
                request.transport.close()
        return socket

    def _mode(self, body: dict[str, Any]) -> str:
        """Return how to answer: a call is made once, where there are tools."""
        text = json.dumps(body)
        has_result = any(word in text for word in ('"tool_result"', '"role": "tool"',
                         '"function_call_output"', '"functionResponse"'))  # fmt: skip
        if self.mode == "tool" and (has_result or not body.get("tools")):
            return "answer"
        return "answer" if self.mode == "pause" else self.mode


def unavailable() -> web.Response:
    """Refuse, in words that every SDK reads."""
    error = {"type": "overloaded_error", "message": FAULT, "code": "overloaded"}
    said = {"type": "error", "error": error}
    return web.json_response(said, status=503, headers={"Retry-After": "1"})


def said_in(mode: str) -> str:
    """Return the words of an answer in a mode."""
    return {"answer": ANSWER, "nothing": "", "tool": ""}.get(mode, PARTIAL)


def chat(mode: str, tool: Tool | None) -> Frames:
    """Return chunks of https://platform.openai.com/docs/api-reference/chat-streaming."""
    head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}

    def chunk(delta: Any, reason: str | None = None) -> tuple[str, dict[str, Any]]:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return "", {**head, "choices": [choice]}

    frames = [chunk({"role": "assistant", "content": said_in(mode)})]
    if mode == "tool" and tool is not None:
        called = {"name": tool[0], "arguments": json.dumps(tool[1])}
        call = {"index": 0, "id": "call_1", "type": "function", "function": called}
        frames += [chunk({"tool_calls": [call]}), chunk({}, "tool_calls")]
    if mode == "answer":
        frames.append(chunk({}, "stop"))
    if mode == "error":
        frames.append(("", {"error": {"message": FAULT, "type": "server_error", "code": None}}))
    if mode in ("answer", "tool"):
        usage = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}
        frames.append(("", {**head, "choices": [], "usage": usage}))
    return frames


def chat_whole(mode: str, tool: Tool | None) -> dict[str, Any]:
    """Return a completion."""
    message = {"role": "assistant", "content": ANSWER}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"id": "c1", "object": "chat.completion", "created": 1, "model": "m",
            "choices": [choice]}  # fmt: skip


def messages(mode: str, tool: Tool | None) -> Frames:
    """Return events of https://platform.claude.com/docs/en/build-with-claude/streaming."""
    usage = {"input_tokens": 9, "output_tokens": 1}
    message: dict[str, Any] = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [],
        "stop_reason": None, "stop_sequence": None, "usage": usage,
    }  # fmt: skip
    events: list[dict[str, Any]] = [{"type": "message_start", "message": message}]
    if mode == "tool" and tool is not None:
        block: dict[str, Any] = {"type": "tool_use", "id": "toolu_1", "name": tool[0], "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(tool[1])}
    else:
        block = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": said_in(mode)}
    events.append({"type": "content_block_start", "index": 0, "content_block": block})
    events.append({"type": "content_block_delta", "index": 0, "delta": delta})
    if mode in ("answer", "tool"):
        end = {"stop_reason": "tool_use" if mode == "tool" else "end_turn", "stop_sequence": None}
        events.append({"type": "content_block_stop", "index": 0})
        events.append({"type": "message_delta", "delta": end, "usage": {"output_tokens": 4}})
        events.append({"type": "message_stop"})
    if mode == "error":
        error = {"type": "api_error", "message": FAULT}
        events.append({"type": "error", "error": error})
    return [(event["type"], event) for event in events]


def messages_whole(mode: str, tool: Tool | None) -> dict[str, Any]:
    """Return a message."""
    return {"id": "msg_1", "type": "message", "role": "assistant", "model": "m",
            "content": [{"type": "text", "text": ANSWER}], "stop_reason": "end_turn",
            "stop_sequence": None, "usage": {"input_tokens": 9, "output_tokens": 4}}  # fmt: skip


def responses(mode: str, tool: Tool | None) -> Frames:
    """Return events of https://platform.openai.com/docs/api-reference/responses-streaming."""
    response: dict[str, Any] = {
        "id": "resp_1", "object": "response", "created_at": 1, "model": "m", "output": [],
        "status": "in_progress", "error": None, "incomplete_details": None,
        "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
    }  # fmt: skip
    events: list[dict[str, Any]] = [{"type": "response.created", "response": response}]
    at = {"output_index": 0}
    item: dict[str, Any] = {}
    if mode == "tool" and tool is not None:
        arguments = json.dumps(tool[1])
        item = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": tool[0],
                "arguments": arguments, "status": "completed"}  # fmt: skip
        begun = {**item, "arguments": "", "status": "in_progress"}
        events.append({"type": "response.output_item.added", **at, "item": begun})
        of = {"item_id": "fc_1", **at}
        events.append({"type": "response.function_call_arguments.delta", **of, "delta": arguments})
        events.append(
            {"type": "response.function_call_arguments.done", **of, "arguments": arguments}
        )
    elif mode != "nothing":
        text = said_in(mode)
        part = {"type": "output_text", "text": text, "annotations": []}
        item = {"type": "message", "id": "m_1", "role": "assistant", "status": "completed",
                "content": [part]}  # fmt: skip
        begun = {**item, "content": [], "status": "in_progress"}
        events.append({"type": "response.output_item.added", **at, "item": begun})
        of = {"item_id": "m_1", **at, "content_index": 0}
        empty = {**part, "text": ""}
        events.append({"type": "response.content_part.added", **of, "part": empty})
        events.append({"type": "response.output_text.delta", **of, "delta": text})
    if mode in ("answer", "tool"):
        events.append({"type": "response.output_item.done", **at, "item": item})
    if mode in ("answer", "tool", "nothing"):
        usage = {"input_tokens": 9, "output_tokens": 4, "total_tokens": 13,
                 "input_tokens_details": {"cached_tokens": 0},
                 "output_tokens_details": {"reasoning_tokens": 0}}  # fmt: skip
        output = [item] if item else []
        done = {**response, "status": "completed", "output": output, "usage": usage}
        events.append({"type": "response.completed", "response": done})
    if mode == "error":
        error = {"code": "server_error", "message": FAULT}
        failed = {**response, "status": "failed", "error": error}
        events.append({"type": "response.failed", "response": failed})
    return [(e["type"], {**e, "sequence_number": n}) for n, e in enumerate(events)]


def responses_whole(mode: str, tool: Tool | None) -> dict[str, Any]:
    """Return a response."""
    whole: dict[str, Any] = responses("answer", None)[-1][1]["response"]
    return whole


def gemini(mode: str, tool: Tool | None) -> Frames:
    """Return responses of https://ai.google.dev/api/generate-content."""
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 4, "totalTokenCount": 13}
    head = {"modelVersion": "m", "responseId": "r1", "usageMetadata": usage}
    parts: list[dict[str, Any]] = [{"text": said_in(mode)}]
    if mode == "tool" and tool is not None:
        parts = [{"functionCall": {"name": tool[0], "args": tool[1]}}]
    candidate: dict[str, Any] = {"index": 0, "content": {"role": "model", "parts": parts}}
    if mode in ("answer", "tool"):
        candidate["finishReason"] = "STOP"
    frames: Frames = [("", {"candidates": [candidate], **head})]
    if mode == "error":
        frames.append(("", {"error": {"code": 500, "message": FAULT, "status": "INTERNAL"}}))
    return frames


def gemini_whole(mode: str, tool: Tool | None) -> dict[str, Any]:
    """Return a response."""
    return gemini("answer", None)[0][1]


WHOLE: dict[Any, Callable[[str, Tool | None], dict[str, Any]]] = {
    chat: chat_whole, messages: messages_whole, responses: responses_whole, gemini: gemini_whole
}  # fmt: skip
"""Answers that are not streamed: always whole ones, which clients ask for after a broken stream."""
