"""Clients of a gateway that look for nothing but the end of an answer, and cost little."""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

PATH = "/v1/chat/completions"

KEY = "sk-of-the-benchmark"
"""The API key of the clients, which the guarded gateway requires."""


class Contender:
    """A gateway under measurement: where it is, and what its process has used."""

    def __init__(self, name: str, url: str, pid: int) -> None:
        self.name = name
        self.host, self.port = urlsplit(url).hostname or "", urlsplit(url).port or 0
        self._pid = pid

    def cpu(self) -> float:
        """Return the CPU seconds that the process and its children have used."""
        return sum(map(_cpu_of, (self._pid, *_children_of(self._pid))))

    def megabytes(self) -> float:
        """Return the memory that the process holds."""
        lines = Path(f"/proc/{self._pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def _cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


class Answer(asyncio.Protocol):
    """Sequential answers on one connection; `times` are those of its reads."""

    END = b"\r\n0\r\n\r\n"

    def __init__(self) -> None:
        self.data = bytearray()
        self.times: list[float] = []
        self.transport: Any = None
        self._ended: asyncio.Future[None] | None = None
        self._began: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def ask(self, request: bytes) -> None:
        """Send a request."""
        loop = asyncio.get_running_loop()
        self.data.clear()
        self.times = []
        self._ended, self._began = loop.create_future(), loop.create_future()
        self.transport.write(request)

    async def began(self) -> None:
        """Return with the first bytes of the body."""
        assert self._began is not None
        await self._began

    async def ended(self) -> None:
        """Return with the last bytes."""
        assert self._ended is not None
        await self._ended

    def data_received(self, data: bytes) -> None:
        self.data += data
        if not self.data.startswith(b"HTTP/1.1 200 "):
            self.connection_lost(None)
        if b"data:" in data:
            self.times.append(time.perf_counter())
            if self._began is not None and not self._began.done():
                self._began.set_result(None)
        if self.data.endswith(self.END) and self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        for waiting in (self._ended, self._began):
            if waiting is not None and not waiting.done():
                waiting.set_exception(ConnectionError(f"no answer: {bytes(self.data[:500])!r}"))
                waiting.exception()


class Socket:
    """A connection that is opened with the first request."""

    def __init__(self, contender: Contender) -> None:
        self._contender = contender
        self._answer: Answer | None = None

    async def begin(self, model: str) -> Answer:
        """Send a request, and return what its answer will be."""
        if self._answer is None:
            loop = asyncio.get_running_loop()
            to = self._contender.host, self._contender.port
            _, self._answer = await loop.create_connection(Answer, *to)
        options = {"stream": True, "stream_options": {"include_usage": True}}
        said = {"model": model, "messages": [{"role": "user", "content": "hi"}], **options}
        body = json.dumps(said).encode()
        head = (
            f"POST {PATH} HTTP/1.1\r\nHost: 127.0.0.1:{self._contender.port}\r\n"
            f"Authorization: Bearer {KEY}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._answer.ask(head.encode() + body)
        return self._answer

    async def ask(self, model: str) -> Answer:
        """Return a whole answer."""
        answer = await self.begin(model)
        await answer.ended()
        return answer

    def close(self) -> None:
        """Hang up."""
        if self._answer is not None:
            self._answer.transport.abort()
