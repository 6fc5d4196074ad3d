"""The loopback server of the benchmark: answers of three wire formats over chunked HTTP/1.1.

It runs in a separate process (`python -m lab.benchmarks.server`), so that the CPU time of the
client process is the client's alone. The `model` of the request's body names the scenario:

    burst-N   N deltas, cut into 64 KiB writes wherever that falls: many frames a network read
    paced-N   N deltas, one frame a write with a pause after each: one frame a network read
    short-N   N deltas, the whole answer in one write
    live-N    as paced-N, but as slow as a model, for many streams at a time
    model-N   the same, at 50 deltas a second
    wait-N    N deltas, and then nothing for as long as the client stays

With `recorded` for N, answers are as long as recorded ones (`LENGTHS`), one after another.

The path chooses the format: Chat Completions, Anthropic's Messages, or Ollama's lines.

The first line on stdout is the port. The server ends when its stdin closes, so that it cannot
outlive the process that started it.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import json
import resource
import ssl
import sys
from contextlib import suppress

DESCRIPTORS = 65536
"""That a process with many streams would have open."""

PATHS = {"/v1/chat/completions": "Chat", "/v1/messages": "Messages", "/api/chat": "Ollama"}
"""The wire formats, by the path that asks for each."""

WRITE_SIZE = 64 * 1024

# A client wakes up, reads and sleeps again in about a tenth of this; the harness counts the reads,
# so a machine on which this is too short is noticed.
PACE_SECONDS = 0.001

PAUSES = {"paced": PACE_SECONDS, "live": 0.05, "model": 0.02}
"""Seconds between two frames, by kind."""

HEAD = (
    b"HTTP/1.1 200 OK\r\n"
    b"Content-Type: %b; charset=utf-8\r\n"
    b"Cache-Control: no-cache\r\n"
    b"Transfer-Encoding: chunked\r\n"
    b"\r\n"
)
LAST_CHUNK = b"0\r\n\r\n"

LENGTHS = (1, 30, 4, 397, 11, 1, 90, 7, 18, 1, 171, 3, 13, 44, 1, 9, 61, 6, 15, 1)
"""Deltas of twenty answers that stand for 374 recorded streams of twenty servers and APIs, each for
a twentieth of them by length: half have fewer than 10, the mean is 44. Four frames of each say
something else (who speaks, why it ends, what it took)."""

# Pieces the size of tokens. Some need JSON escapes and some are not ASCII, because in real text
# some do and are, and decoders have a slower path for both.
TOKENS = (
    " the", " quick", " brown", " fox", " jumps", " over", " a", " lazy", " dog", ".",
    "\n\n", " It", " said", ' "', "hello", '"', ",", " caf\u00e9", " \u2014", " \u65e5\u672c",
    " return", " x", " +=", " 1", ";\n", " \U0001f600", " streaming", " tokens", "ization", " is",
)  # fmt: skip


def _event(value: object) -> bytes:
    # The API writes compact JSON with raw UTF-8.
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return f"data: {text}\n\n".encode()


def _chunk(choices: list[dict[str, object]], **more: object) -> bytes:
    return _event(
        {
            "id": "chatcmpl-BenchBenchBenchBenchBenchBench",
            "object": "chat.completion.chunk",
            "created": 1_700_000_000,
            "model": "bench-2025-01-01",
            "system_fingerprint": "fp_0123456789",
            "choices": choices,
            **more,
        }
    )


def _choice(delta: dict[str, str], finish_reason: str | None = None) -> list[dict[str, object]]:
    return [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}]


def expected_text(deltas: int) -> str:
    """Return the text that an answer of this many deltas adds up to."""
    return "".join(TOKENS[i % len(TOKENS)] for i in range(deltas))


@functools.cache
def frames(deltas: int) -> tuple[bytes, ...]:
    """Return the frames of one answer: role, deltas, finish, usage, `[DONE]`."""
    token_frames = [_chunk(_choice({"content": token})) for token in TOKENS]
    usage = {"prompt_tokens": 8, "completion_tokens": deltas, "total_tokens": 8 + deltas}
    return (
        _chunk(_choice({"role": "assistant", "content": ""})),
        *(token_frames[i % len(token_frames)] for i in range(deltas)),
        _chunk(_choice({}, "stop")),
        _chunk([], usage=usage),
        b"data: [DONE]\n\n",
    )


def _http_chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


@functools.cache
def _writes(wire: str, kind: str, deltas: int) -> tuple[bytes, ...]:
    """Return the answer cut into the writes of the scenario, each one an HTTP chunk."""
    from lab.benchmarks.formats import FORMATS  # which builds on this module, as clients do

    chosen = next(each for each in FORMATS if each.name == wire)
    parts = tuple(chosen.answer(deltas))
    head = HEAD % chosen.content_type.encode()
    if kind in PAUSES:
        chunks = [_http_chunk(part) for part in parts]
        return (head, *chunks[:-1], chunks[-1] + LAST_CHUNK)
    if kind == "wait":
        return (head + _http_chunk(b"".join(parts[: deltas + 1])),)
    body = b"".join(parts)
    if kind == "short":
        return (head + _http_chunk(body) + LAST_CHUNK,)
    chunks = [_http_chunk(body[i : i + WRITE_SIZE]) for i in range(0, len(body), WRITE_SIZE)]
    return (head, *chunks, LAST_CHUNK)


def _refusal(status: str, why: str) -> bytes:
    body = json.dumps({"error": {"message": why, "type": "invalid_request_error"}}).encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


_lengths = itertools.cycle(LENGTHS)


async def _answer(head: bytes, body: bytes, writer: asyncio.StreamWriter) -> None:
    method, path, _ = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ", 2)
    wire = PATHS.get(path.partition("?")[0])
    if method != "POST" or wire is None:
        known = ", ".join(PATHS)
        writer.write(_refusal("404 Not Found", f"{method} {path}: this server has only {known}"))
        return
    kind, _, count = str(json.loads(body)["model"]).partition("-")
    if count == "recorded":
        count = str(next(_lengths))
    if kind not in {"burst", "short", "wait", *PAUSES} or not count.isdecimal():
        writer.write(_refusal("400 Bad Request", "the model is a kind and a number, as in burst-9"))
        return
    pause = PAUSES.get(kind, 0.0)
    for data in _writes(wire, kind, int(count)):
        writer.write(data)
        await writer.drain()
        if pause:
            await asyncio.sleep(pause)


async def _body(head: bytes, reader: asyncio.StreamReader) -> bytes:
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if line)
    if length := fields.get(b"content-length"):
        return await reader.readexactly(int(length))
    body = b""
    if b"transfer-encoding" in fields:  # it is chunked, as litellm's proxy asks
        while size := int(await reader.readuntil(b"\r\n"), 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readuntil(b"\r\n")
    return body


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            await _answer(head, await _body(head, reader), writer)
    except (asyncio.IncompleteReadError, ConnectionError):
        pass  # The client closed the connection: that is how every one of them ends.
    finally:
        writer.close()


def most_descriptors() -> None:
    """Let this process open as many connections as it may, which root decides for itself."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(hard, DESCRIPTORS),) * 2)
        return
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def server_tls(file: str) -> ssl.SSLContext:
    """Return the server's side of TLS with a certificate for 127.0.0.1."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(file)
    return context


async def _main(certificate: str | None = None) -> None:
    most_descriptors()
    tls = None if certificate is None else server_tls(certificate)
    server = await asyncio.start_server(_serve, "127.0.0.1", 0, backlog=4096, ssl=tls)
    print(server.sockets[0].getsockname()[1], flush=True)
    # EOF on stdin means that the parent is done or gone.
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.buffer.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
