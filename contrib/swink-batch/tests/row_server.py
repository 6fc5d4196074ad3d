"""A chat server on loopback that counts the requests for each row, and may be hostile.

    python row_server.py [--hostile SEED] [--rate N [--headers]]

The first line on stdout is the port; it ends when its stdin closes. A prompt ends in the row's id;
the answer is `answer to ID`. `GET /counts` returns how often each id was requested, `GET /told` for
how many an answer was sent completely. A hostile server throttles, stalls, resets, truncates
answers and sends wrong headers; with a rate it rejects requests above it, and may report the
remaining quota.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from collections import Counter
from typing import Any

STALL_SECONDS = 30.0
"""How long a hostile server keeps silent: longer than its client waits."""


def frame(delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
    """Return one chunk of a streamed chat completion."""
    choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
    data = {"id": "c-1", "object": "chat.completion.chunk", "created": 1, "model": "rows"}
    return b"data: " + json.dumps({**data, "choices": choices, **more}).encode() + b"\n\n"


def stream_of(text: str) -> bytes:
    """Return a whole streamed answer."""
    usage = {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13}
    first, last = frame({"role": "assistant", "content": text}), frame({}, "stop", usage=usage)
    return first + last + b"data: [DONE]\n\n"


def reply(status: str, body: bytes, kind: str, headers: dict[str, str] | None = None) -> bytes:
    """Return an HTTP response."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{lines}\r\n"
    )
    return head.encode() + body


def refusal(status: str, headers: dict[str, str] | None = None) -> bytes:
    """Return an error as the API words it."""
    body = json.dumps({"error": {"message": f"no: {status}", "type": "error"}}).encode()
    return reply(status, body, "application/json", headers)


LIES = (
    {"retry-after": "0"},
    {"retry-after": "soon"},
    {"retry-after": "-5"},
    {"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"},
    {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "0s"},
    {"x-ratelimit-remaining-requests": "-1", "x-ratelimit-reset-requests": "1y"},
    {"x-ratelimit-remaining-tokens": "1e309", "x-ratelimit-reset-tokens": "9" * 4000},
    {"x-ratelimit-remaining-tokens": "many", "x-ratelimit-reset-tokens": ""},
    {},
)


class Rows:
    """The requests that the server received, and how it answers."""

    def __init__(self, hostile: int | None, rate: float | None, latency: float) -> None:
        self.asked: Counter[str] = Counter()
        self.told: Counter[str] = Counter()
        self.refused = 0
        self._random = random.Random(hostile) if hostile is not None else None
        self._rate, self._latency = rate, latency
        self._tokens, self._at = rate or 0.0, time.monotonic()
        self.has_headers = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of a connection."""
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                if head.startswith("GET "):
                    self._tell(head.split(" ")[1], writer)
                    continue
                size = int(head.lower().split("content-length:")[1].split("\r\n")[0])
                body = json.loads(await reader.readexactly(size))
                if not await self._answer(body["messages"][-1]["content"].split()[-1], writer):
                    writer.transport.abort()
                    return
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    def _tell(self, path: str, writer: asyncio.StreamWriter) -> None:
        what: Any = {"/counts": self.asked, "/told": self.told, "/refused": self.refused}[path]
        writer.write(reply("200 OK", json.dumps(what).encode(), "application/json"))

    async def _answer(self, id: str, writer: asyncio.StreamWriter) -> bool:
        """Answer for a row, and tell whether the connection stays."""
        self.asked[id] += 1
        if self._rate and not self._has_token():
            self.refused += 1
            writer.write(refusal("429 Too Many Requests", {"retry-after-ms": "20"}))
            return True
        if self._latency:
            await asyncio.sleep(self._latency)
        body = stream_of(f"answer to {id}")
        headers: dict[str, str] = self._left() if self._rate and self.has_headers else {}
        if self._random is not None:
            fault = self._random.random()
            headers = self._random.choice(LIES)
            if fault < 0.10:
                writer.write(refusal("429 Too Many Requests", headers))
                return True
            if fault < 0.15:
                writer.write(refusal("503 Service Unavailable", headers))
                return True
            if fault < 0.20:
                return False  # a reset before a byte
            if fault < 0.25:  # a reset in the middle
                whole = reply("200 OK", body, "text/event-stream", headers)
                writer.write(whole[: self._random.randrange(len(whole) - len(body), len(whole))])
                await writer.drain()
                return False
            if fault < 0.26:  # a stall in the middle
                whole = reply("200 OK", body, "text/event-stream", headers)
                writer.write(whole[:-20])
                await asyncio.sleep(STALL_SECONDS)
                return False
            if fault < 0.28:  # a clean end that is none
                writer.write(reply("200 OK", body.split(b"\n\n")[0] + b"\n\n", "text/event-stream"))
                return True
            if fault < 0.29:
                writer.write(reply("200 OK", b"<html>proxy</html>", "text/html"))
                return True
            if fault < 0.30:
                writer.write(refusal("400 Bad Request"))
                return True
        self.told[id] += 1
        writer.write(reply("200 OK", body, "text/event-stream", headers))
        return True

    def _left(self) -> dict[str, str]:
        assert self._rate is not None
        return {
            "x-ratelimit-remaining-requests": f"{self._tokens:.0f}",
            "x-ratelimit-reset-requests": f"{1 - self._tokens / self._rate:.3f}s",
        }

    def _has_token(self) -> bool:
        now = time.monotonic()
        assert self._rate is not None
        self._tokens = min(self._rate, self._tokens + (now - self._at) * self._rate)
        self._at = now
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True


async def _main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--hostile", type=int, metavar="SEED")
    parser.add_argument("--rate", type=float, metavar="N")
    parser.add_argument("--headers", action="store_true")
    parser.add_argument("--latency", type=float, default=0.0, metavar="SECONDS")
    given = parser.parse_args()
    rows = Rows(given.hostile, given.rate, given.latency)
    rows.has_headers = given.headers
    server = await asyncio.start_server(rows.serve, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.buffer.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(_main())
