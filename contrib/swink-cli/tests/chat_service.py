"""A server that is not ours in the shape of Chat Completions, which does what a test tells it.

An answer is a list of steps: text to send, a `delta`, a `Gate` to wait at, `CUT` to reset the
connection, or an `HTTPError` for the whole answer. The last answer serves all further requests.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from attrs import define, field

from swink_recorder.loopback import Exchange, LoopbackServer

__all__ = ["CUT", "ChatService", "Gate", "HTTPError"]

CUT = object()
"""Breaks the connection off here."""


class Gate:
    """Holds an answer until the test opens it, from any thread."""

    def __init__(self) -> None:
        self._open = False
        self._waiting: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    def open(self) -> None:
        """Lets the answer go on."""
        self._open = True
        if self._waiting is not None:
            loop, event = self._waiting
            loop.call_soon_threadsafe(event.set)

    async def passed(self) -> None:
        """Waits until the gate is open."""
        event = asyncio.Event()
        self._waiting = asyncio.get_running_loop(), event
        if not self._open:  # looked at after the other thread can see us waiting
            await event.wait()


@define
class HTTPError:
    """An answer that is an HTTP error."""

    status: int
    message: str = "no"
    headers: Mapping[str, str] = field(factory=dict)


class ChatService(LoopbackServer):
    """Serves `answers` in order; see the module."""

    def __init__(self, *answers: Any) -> None:
        super().__init__()
        self._answers = list(answers)

    @property
    def base_url(self) -> str:
        """The base URL for a client."""
        return f"{self.url}/v1"

    @property
    def requests(self) -> list[Any]:
        """The JSON of each request."""
        return [exchange.json for exchange in self.exchanges]

    async def respond(self, exchange: Exchange) -> None:
        """Plays the next answer."""
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, HTTPError):
            headers = {"Content-Type": "application/json", **answer.headers}
            await exchange.start(answer.status, headers)
            await exchange.write(json.dumps({"error": {"message": answer.message}}).encode())
            await exchange.end()
            return
        await exchange.start(200, {"Content-Type": "text/event-stream"})
        for step in answer:
            if isinstance(step, Gate):
                await step.passed()
            elif step is CUT:
                exchange.reset()
                return
            else:
                delta = {"content": step} if isinstance(step, str) else step
                await exchange.write(_frame(choices=[{"index": 0, "delta": delta}]))
        calls = any(isinstance(step, dict) and "tool_calls" in step for step in answer)
        reason = "tool_calls" if calls else "stop"
        await exchange.write(
            _frame(choices=[{"index": 0, "delta": {}, "finish_reason": reason}])
            + _frame(choices=[], usage={"prompt_tokens": 3, "completion_tokens": 5})
            + b"data: [DONE]\n\n"
        )
        await exchange.end()


def _frame(**more: Any) -> bytes:
    chunk = {"id": "c1", "object": "chat.completion.chunk", "model": "any-2", **more}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"
