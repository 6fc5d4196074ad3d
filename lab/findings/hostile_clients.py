"""Print what hostile clients cost a gateway, and what others get meanwhile.

    python -m lab.findings.hostile_clients

Idle connections, bytes that drip, unread answers, enormous bodies, WebSockets, and
made-up models. A step that takes more than a minute is reported and left.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp

from lab.findings.gateways import MODEL, OPERATOR, Gateway, gateway, key_of, owner, verdict
from lab.findings.measured import children, megabytes
from lab.vendor import Vendor

IDLE = 2500
DRIPPING = 800
UNREAD = 60
LONG = 8_000
"""The tokens of an answer that is not read."""
MODELS = 600
BODY = 100_000_000
SECONDS = 60.0
"""The most time for one step."""

AUTHORIZATION = {"Authorization": f"Bearer {key_of('bob')}"}


def chat(text: str, model: str = MODEL, **more: Any) -> dict[str, Any]:
    """Return the body of a request that is answered with few tokens."""
    return {"model": model, "messages": [{"role": "user", "content": text}], **more}


def head(length: int) -> bytes:
    """Return the head of a request with a body of so many bytes."""
    lines = ["POST /v1/chat/completions HTTP/1.1", "Host: 127.0.0.1"]
    lines += [f"Authorization: {AUTHORIZATION['Authorization']}", f"Content-Length: {length}"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


class Clients:
    """Clients of one gateway."""

    def __init__(self, served: Gateway, session: aiohttp.ClientSession) -> None:
        self.served = served
        self.session = session
        self.port = int(served.url.rpartition(":")[2])

    @property
    def memory(self) -> str:
        """Return the memory of the workers."""
        return f"workers take {megabytes(children(self.served.process.pid))} MB"

    async def ask(self, model: str = MODEL) -> tuple[int, float]:
        """Ask for one token; return the status and the seconds."""
        began = time.monotonic()
        body = chat("Hi", model, max_tokens=1)
        url = f"{self.served.url}/v1/chat/completions"
        async with self.session.post(url, json=body, headers=AUTHORIZATION) as response:
            await response.read()
            return response.status, time.monotonic() - began

    async def connect(self) -> asyncio.StreamWriter:
        """Open a connection."""
        return (await asyncio.open_connection("127.0.0.1", self.port))[1]


async def idle(clients: Clients) -> None:
    """Open connections that send nothing."""
    opened = [await clients.connect() for _ in range(IDLE)]
    status, took = await clients.ask()
    text = f"{IDLE} idle connections: a request gets {status} after {took:.2f} s"
    verdict(status == 200, f"{text}; {clients.memory}")
    for writer in opened:
        writer.transport.abort()


async def drip(clients: Clients, with_body: bool) -> None:
    """Send a request a byte at a time for six seconds."""
    data = b"GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * 60
    try:
        writer = await clients.connect()
        if with_body:
            writer.write(head(1_000_000))
            data = b" " * 60
        for byte in data[:60]:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0.1)
        writer.transport.abort()
    except OSError:
        return


async def dripping(clients: Clients) -> None:
    """Ask beside clients that send a byte at a time."""
    drops = [asyncio.create_task(drip(clients, number % 2 == 1)) for number in range(DRIPPING)]
    await asyncio.sleep(2)
    found = [await clients.ask() for _ in range(20)]
    statuses = Counter(status for status, _ in found)
    slowest = max(took for _, took in found)
    text = f"{DRIPPING} clients that drip: 20 requests {dict(statuses)}, slowest {slowest:.2f} s"
    verdict(statuses[200] == 20, text)
    await asyncio.gather(*drops)


async def unread(clients: Clients) -> None:
    """Ask for long answers, and read nothing."""
    script = json.dumps({"parts": [{"tokens": LONG}]})
    body = json.dumps(chat(f"[[vendor {script}]]", stream=True)).encode()
    writers = []
    for _ in range(UNREAD):
        one = socket.socket()
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.connect(("127.0.0.1", clients.port))
        reader, writer = await asyncio.open_connection(sock=one, limit=1024)
        transport: Any = writer.transport
        transport.pause_reading()
        writer.write(head(len(body)) + body)
        writers.append((reader, writer))
    await asyncio.sleep(8)
    status, took = await clients.ask()
    text = f"{UNREAD} that do not read {LONG} tokens: a request gets {status} after {took:.2f} s"
    verdict(status == 200, f"{text}; {clients.memory}")
    for _, writer in writers:
        writer.transport.abort()


async def pieces() -> AsyncIterator[bytes]:
    """Yield a body piece by piece."""
    for _ in range(BODY // 100_000):
        yield b"x" * 100_000


async def enormous(clients: Clients) -> None:
    """Send bodies of 100 MB."""
    wrong = {"Authorization": "Bearer nobody"}
    cases: list[tuple[str, Any, dict[str, str]]] = [
        ("100 MB", b"x" * BODY, AUTHORIZATION),
        ("100 MB in chunks", pieces(), AUTHORIZATION),
        ("100 MB in chunks, wrong key", pieces(), wrong),
    ]
    url = f"{clients.served.url}/v1/chat/completions"
    for name, data, headers in cases:
        began = time.monotonic()
        try:
            async with (
                asyncio.timeout(20),
                clients.session.post(url, data=data, headers=headers) as response,
            ):
                await response.read()
                seen = f"status {response.status}"
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            seen = type(error).__name__
        took = time.monotonic() - began
        verdict("Timeout" not in seen, f"{name}: {seen} after {took:.1f} s")
    print(f"       {clients.memory}")


async def sockets(clients: Clients) -> None:
    """Open WebSockets as a stranger, and send broken and too many frames."""
    url = f"{clients.served.url}/v1/responses"
    strangers = {
        "no key": {},
        "another origin": {**AUTHORIZATION, "Origin": "http://evil.example"},
    }
    for name, headers in strangers.items():
        try:
            async with clients.session.ws_connect(url, headers=headers):
                verdict(False, f"WebSocket, {name}: opened")
        except aiohttp.WSServerHandshakeError as error:
            verdict(True, f"WebSocket, {name}: status {error.status}")
    create = {"type": "response.create", "model": MODEL, "input": "Hi", "max_output_tokens": 16}
    broken = ["x", "[]", "{}", '{"type": "response.create"}']
    broken.append(json.dumps({**create, "model": 5}))
    broken.append(json.dumps({**create, "previous_response_id": "resp_unknown"}))
    async with clients.session.ws_connect(url, headers=AUTHORIZATION, max_msg_size=0) as opened:
        for frame in [*broken, *[json.dumps(create)] * 40]:
            await opened.send_str(frame)
        got: Counter[str] = Counter()
        while sum(got.values()) < len(broken) + 40:
            try:
                message = await opened.receive(timeout=5)
            except TimeoutError:
                break
            if message.type is not aiohttp.WSMsgType.TEXT:
                got[f"closed by {message.type.name}"] += 1
                break
            event = json.loads(message.data)
            if event["type"] == "response.completed":
                got["completed"] += 1
            elif event["type"] in ("error", "response.failed"):
                failure = event.get("error") or event["response"]["error"]
                got[str(failure.get("code"))] += 1
    answered = sum(got.values()) == len(broken) + 40
    verdict(answered, f"WebSocket, {len(broken)} broken frames and 40 requests: {dict(got)}")


async def made_up(clients: Clients) -> None:
    """Name models that do not exist, and look for them and for keys in metrics and log."""
    url = f"{clients.served.url}/metrics"
    headers = {"Authorization": f"Bearer {key_of(OPERATOR)}"}
    async with clients.session.get(url, headers=headers) as response:
        before = len(await response.text())
    await asyncio.gather(*(clients.ask(f"openai/made-up-{number}") for number in range(MODELS)))
    async with clients.session.get(url, headers=headers) as response:
        text = await response.text()
    named = len(set(re.findall(r"made-up-\d+", text)))
    grown = f"from {before} to {len(text)} bytes"
    verdict(
        len(text) < 10 * before,
        f"{MODELS} made-up models: metrics grow {grown}, name {named} of them",
    )
    log = "\n".join(clients.served.log)
    keys = [key for key in (key_of("bob"), key_of(OPERATOR), "key-alpha") if key in text + log]
    verdict(not keys, f"{len(keys)} keys in metrics and log")


STEPS: tuple[Callable[[Clients], Awaitable[None]], ...] = (
    idle,
    dripping,
    unread,
    enormous,
    sockets,
    made_up,
)


async def run(served: Gateway) -> None:
    """Take all steps, each within its time."""
    timeout = aiohttp.ClientTimeout(total=SECONDS)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        clients = Clients(served, session)
        print(f"       {clients.memory}")
        for step in STEPS:
            try:
                await asyncio.wait_for(step(clients), SECONDS)
            except (TimeoutError, aiohttp.ClientError) as error:
                verdict(False, f"{step.__name__}: {type(error).__name__} within {SECONDS:g} s")


def main() -> None:
    """Run the program."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    os.environ.setdefault("NO_PROXY", "127.0.0.1")
    with Vendor() as vendor, gateway(vendor, owner("bob"), "--workers", "2") as served:
        asyncio.run(run(served))


if __name__ == "__main__":
    main()
