"""Short calls, conversations and bursts over their floors: `python -m lab.benchmarks.floors`.

The same answers are read from memory, over loopback and over TLS. A floor posts the body that swink
sent, encoded anew, with bare aiohttp, and reads the same bytes; in memory it has only those two to
do. Both take turns within a round, and a ratio of CPU time is taken within a round. With
`--transport both`, swink takes a turn with each HTTP client, and the last column is the CPU time
with httptools over that with aiohttp. The server is another process. TLS needs the program
`openssl`, which makes a certificate for the run.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from lab.benchmarks.formats import FORMATS, Format
from lab.benchmarks.ratios import with_spread, within_rounds
from lab.benchmarks.server import expected_text, server_tls
from lab.benchmarks.transports import add_transport, certificate, chosen, http_client

KINDS = {"short": 3, "31 messages": 3, "burst": 2_000}
"""Deltas of an answer, by kind of call."""

CALLS = {"short": 40, "31 messages": 20, "burst": 2}
"""Calls of a turn."""

AGENTS = ("Chat", "Responses", "Messages")
"""The formats for calls with 31 messages and 8 tools."""

WAYS = ("memory", "loopback", "TLS")

OWN: dict[str, dict[str, Any]] = {
    "openai": {"api_key": "sk-bench"},
    "anthropic": {"api_key": "sk-bench"},
    "gemini": {"api_key": "sk-bench"},
    "ollama": {},
    "cohere": {"api_key": "sk-bench"},
    "bedrock": {"api_key": "sk-bench", "settings": {"region": "us-east-1"}},
}

Read = Callable[[], Awaitable[str]]


# -- the server ------------------------------------------------------------------------------------


async def _serve(file: str) -> None:
    """Answer each request to a port with the port's answer; print the ports."""
    tls = server_tls(file)
    ports: dict[str, int] = {}
    for each in FORMATS:
        for deltas in {*KINDS.values()}:
            for way, context in (("loopback", None), ("TLS", tls)):
                handler = _answering(each, deltas)
                server = await asyncio.start_server(handler, "127.0.0.1", 0, ssl=context)
                ports[f"{each.name} {deltas} {way}"] = server.sockets[0].getsockname()[1]
    print(json.dumps(ports), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.buffer.read)


def _answering(wire: Format, deltas: int) -> Any:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nTransfer-Encoding: chunked\r\n\r\n"
    writes = [head % wire.content_type.encode()]
    writes += [b"%x\r\n%b\r\n" % (len(part), part) for part in wire.pieces(deltas)]
    whole = b"".join(writes) + b"0\r\n\r\n"

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                asked = (await reader.readuntil(b"\r\n\r\n")).lower()
                size = asked.partition(b"content-length: ")[2].partition(b"\r\n")[0]
                await reader.readexactly(int(size or b"0"))
                writer.write(whole)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client is done
        finally:
            writer.close()

    return handle


@contextmanager
def _server() -> Iterator[dict[str, int]]:
    """Start the server and yield its ports; this process trusts its certificate from now on."""
    with (
        certificate() as file,
        subprocess.Popen(
            [sys.executable, "-m", "lab.benchmarks.floors", "--serve", str(file)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        ) as process,
    ):  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())
        finally:
            process.stdin.close()


# -- the turns -------------------------------------------------------------------------------------


async def _measure(given: argparse.Namespace, ports: dict[str, int]) -> dict[str, list[float]]:
    """Return the ratio of each round, by kind, format, way and transport."""
    import aiohttp

    found: dict[str, list[float]] = {}
    async with aiohttp.ClientSession() as session:
        for kind, deltas in KINDS.items():
            for wire in FORMATS:
                if kind == "31 messages" and wire.name not in AGENTS:
                    continue
                if given.format not in (None, wire.name):
                    continue
                for way in WAYS:
                    port = ports.get(f"{wire.name} {deltas} {way}", 0)
                    name = f"{kind}, {wire.name}, {way}"
                    transports = chosen(given.transport) if way != "memory" else ("memory",)
                    times = await _compared(
                        given.rounds, kind, wire, way, port, session, transports
                    )
                    shown = f"{name:32}"
                    for transport, values in zip(transports, times[1:], strict=True):
                        ratios = within_rounds(values, times[0])
                        found[f"{name}, {transport}"] = ratios
                        shown += f"  {transport} {with_spread(ratios)}"
                    if len(transports) == 2:
                        ratios = within_rounds(times[2], times[1])
                        shown += f"  httptools over aiohttp {with_spread(ratios)}"
                    print(shown, flush=True)
    return found


async def _compared(
    rounds: int,
    kind: str,
    wire: Format,
    way: str,
    port: int,
    session: Any,
    transports: tuple[str, ...],
) -> list[list[float]]:
    """Return the CPU seconds of each round: of the floor, and of swink with each transport."""
    import orjson

    import swink_core as swink
    from lab.benchmarks.conversations import conversation
    from swink_testing.driver import MemoryHTTPClient, MemoryResponse

    deltas = KINDS[kind]
    pieces, text = wire.pieces(deltas), expected_text(deltas)
    provider = wire.model.partition("/")[0]
    context = conversation(31) if kind == "31 messages" else swink.Context.of("hi")
    sent: list[Any] = []

    class Memory(MemoryHTTPClient):
        async def send(self, request: Any, connect_timeout: float | None) -> MemoryResponse:
            sent[:] = [request]
            return MemoryResponse(pieces, headers={"Content-Type": wire.content_type})

    scheme = "https" if way == "TLS" else "http"
    base = f"{scheme}://127.0.0.1:{port or 80}"
    own = {provider: {**OWN[provider], "base_url": base}}

    async def ours(client: swink.Client) -> str:
        async with client.stream(wire.model, context) as stream:
            async for _ in stream:
                pass
        return stream.message.text

    async with AsyncExitStack() as stack:
        memory = await stack.enter_async_context(swink.Client(http=Memory(), providers=own))
        assert await ours(memory) == text
        request, body = sent[0], orjson.loads(sent[0].body)

        async def floor() -> str:
            data = orjson.dumps(body)
            if way == "memory":
                return wire.floor(pieces)
            async with session.post(request.url, data=data, headers=request.headers) as answer:
                return wire.floor([piece async for piece in answer.content.iter_any()])

        reads: list[Read] = [floor]
        for transport in transports:
            client = memory
            if way != "memory":
                client = swink.Client(http=http_client(transport), providers=own)
                await stack.enter_async_context(client)
            reads.append(partial(ours, client))
        return await _rounds(rounds, CALLS[kind], reads, text)


async def _rounds(rounds: int, calls: int, reads: list[Read], text: str) -> list[list[float]]:
    took: list[list[float]] = [[] for _ in reads]
    for number in range(rounds + 1):
        for read, times in zip(reads, took, strict=True):
            gc.collect()
            start = time.process_time()
            for _ in range(calls):
                if await read() != text:
                    raise AssertionError("the text is not what was sent")
            if number:  # the first is for warming up
                times.append(time.process_time() - start)
    return took


def main() -> None:
    """Measure, print, and keep."""
    parser = argparse.ArgumentParser(prog="python -m lab.benchmarks.floors", description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--format", choices=[wire.name for wire in FORMATS], help="only this one")
    add_transport(parser)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to FILE")
    parser.add_argument("--serve", metavar="CERTIFICATE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(_serve(options.serve))
        return
    with _server() as ports:
        found = asyncio.run(_measure(options, ports))
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
