"""Limits on clients: concurrent requests, time, memory; and cleanup after them."""

from __future__ import annotations

import asyncio
import gc
import json
import tracemalloc
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from io import BytesIO
from typing import Any

import aiohttp
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made import called
from serving import Answer, Scripted, ask, serving, until
from test_keepalive import BEGUN, CONTENTS, ENDED, GEMINI, HI, Thinking
from test_seed_scenarios import CHAT, Flood, open_slowly
from turned import Said, asked_for

import swink_core as swink
from swink_gateway.policy.config import Source
from swink_gateway.protocols import Facts
from swink_gateway.protocols.bodies import COPIES, MOST_BODY_BYTES, least_memory, memory_of
from swink_gateway.protocols.table import PROTOCOLS
from swink_gateway.serving.admission import (
    ACTIVE,
    LARGE_BYTES,
    PEAK,
    REJECTED,
    Admission,
)
from swink_gateway.serving.backpressure import MOST_QUEUED, Outbox, read_ahead
from swink_gateway.serving.bodies import LEAST_CHUNK, MOST_SMALL_CHUNKS
from swink_gateway.serving.calls import REQUESTS
from swink_gateway.serving.limits import Limits
from swink_gateway.serving.relay import ABORTED, BACKPRESSURE
from swink_gateway.serving.socket_meter import MOST_FRAMES, SocketMeter
from swink_gateway.serving.unread import SMALL_ANSWER_BYTES, UnreadAnswers
from swink_testing.clock import ManualClock

PATH = "/v1/chat/completions"


# -- concurrency -----------------------------------------------------------------------------------


async def test_too_many_concurrent_requests_get_503_with_retry_after() -> None:
    upstream = Thinking()
    async with serving(upstream, limits=Limits(streams=1)) as gateway:
        first = asyncio.ensure_future(ask(gateway, PATH, HI))
        await upstream.asked.wait()
        for path, body in (
            (PATH, HI),
            ("/v1/messages", {**HI, "max_tokens": 9}),
            ("/v1/responses", {"model": "echo/echo", "input": "Hi"}),
            ("/v1/messages/count_tokens", HI),
        ):
            refused = await ask(gateway, path, body)
            assert (refused.status, refused.headers["Retry-After"]) == (503, "1")
            assert "x-should-retry" not in refused.headers
            assert "too many concurrent requests (limit: 1)" in refused.json["error"]["message"]
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(f"{gateway.url}/v1/responses") as socket,
        ):
            await socket.send_json({"type": "response.create", "model": "m", "input": "Hi"})
            frame = await socket.receive_json()
            assert (frame["type"], frame["status"]) == ("error", 503)
        await upstream.say(*BEGUN)
        await upstream.say(*ENDED)
        assert (await first).status == 200
        found = [gateway.counters[name] for name in (REQUESTS, ACTIVE, PEAK, REJECTED)]
        assert found == [1, 0, 1, 5]


HEAD = f"POST {PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\n"

SAID = msgspec.json.encode(HI)
HALF = b"x" * 500


async def test_active_requests_share_a_memory_limit() -> None:
    upstream, held = Thinking(), memory_of(SAID)
    limits = Limits(memory=held + least_memory(900))
    async with serving(upstream, limits=limits) as gateway:
        first = asyncio.ensure_future(ask(gateway, PATH, HI))
        await upstream.asked.wait()
        assert gateway._calls.admission._memory == held
        refused = await ask(gateway, PATH, HALF * 2)  # its length is announced
        assert (refused.status, refused.headers["Retry-After"]) == (503, "1")
        assert "active requests take too much memory" in refused.json["error"]["message"]

        port = int(gateway.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"{HEAD}Transfer-Encoding: chunked\r\n\r\n1F4\r\n".encode() + HALF + b"\r\n")
        # the part received so far
        await until(lambda: gateway._calls.admission._memory == held + 500)
        writer.write(b"1F4\r\n" + HALF + b"\r\n")
        assert b" 503 " in await reader.readline()
        writer.close()

        await upstream.say(*BEGUN)
        await upstream.say(*ENDED)
        assert (await first).status == 200
        await until(lambda: not gateway.counters[ACTIVE])
        assert gateway._calls.admission._memory == 0


async def test_a_body_beyond_the_memory_limit_gets_413() -> None:
    objects = msgspec.json.encode({**HI, "metadata": {"a": [{"b": "c"}] * 500}})
    text = msgspec.json.encode({**HI, "metadata": {"a": "b" * len(objects)}})
    async with serving(limits=Limits(memory=8 * len(text))) as gateway:
        refused = await ask(gateway, PATH, objects)
        assert (await ask(gateway, PATH, text)).status == 200
        assert (await ask(gateway, PATH, b"x" * 3 * len(text))).status == 413
        assert gateway._calls.admission._memory == 0
    assert refused.status == 413
    assert "--memory" in refused.json["error"]["message"]


@pytest.mark.parametrize(
    ("path", "fields", "is_large"),
    [
        (PATH, {}, False),
        (PATH, {"logprobs": False, "top_logprobs": 0}, False),
        (PATH, {"logprobs": True}, True),
        ("/v1/responses", {"input": "Hi", "include": ["message.output_text.logprobs"]}, True),
        ("/v1/responses", {"input": "Hi", "top_logprobs": 2}, True),
        ("/api/chat", {"top_logprobs": 2}, True),
        ("/v1/stream", {"options": {"extra": {"top_logprobs": 2}}}, True),
        (GEMINI, {"generationConfig": {"responseLogprobs": True}}, True),
    ],
    ids=str,
)
async def test_the_log_probabilities_of_an_answer_hold_memory_as_they_arrive(
    path: str, fields: dict[str, Any], is_large: bool
) -> None:
    upstream = Thinking()
    said = [swink.Start(), swink.TextStart(0), swink.TextDelta(0, "a" * 10_000)]
    body = CONTENTS if path == GEMINI else HI
    async with serving(upstream, limits=Limits(memory=1024 * 1024)) as gateway:
        asking = asyncio.ensure_future(ask(gateway, path, {**body, **fields, "stream": True}))
        await upstream.asked.wait()
        before = gateway._calls.admission._memory
        await upstream.say(*said)
        await upstream.say(swink.TextDelta(0, "b" * 10_000))
        await until(upstream.said.empty)
        assert (gateway._calls.admission._memory - before >= 16 * 20_000) == is_large
        await upstream.say(swink.TextDelta(0, "c" * 50_000))
        await upstream.say(swink.TextEnd(0), *ENDED[-1:])
        answer = await asking
        assert (b"the answer is longer" in answer.body) == is_large
        await until(lambda: not gateway.counters[ACTIVE])
        assert gateway._calls.admission._memory == 0


async def test_frames_of_a_websocket_hold_the_memory_that_they_take() -> None:
    turn = {"type": "response.create", "model": "echo/echo", "input": "Hi"}
    large = {**turn, "metadata": {"a": [{"b": "c"}] * 500}}
    upstream, held = Thinking(), memory_of(json.dumps(turn).encode())
    limits = Limits(memory=2 * held)
    async with (
        serving(upstream, limits=limits) as gateway,
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{gateway.url}/v1/responses") as socket,
    ):
        await socket.send_json(large)
        refused = await socket.receive_json()
        assert (refused["type"], refused["status"]) == ("error", 413)
        assert gateway._calls.admission._memory == 0
        for _ in range(3):
            await socket.send_json(turn)
        await upstream.asked.wait()
        assert gateway._calls.admission._memory == 2 * held  # the third was refused
        await socket.close()
        await until(lambda: gateway._calls.admission._memory == 0)


def frame(payload: bytes, *, of: int | None = None, opcode: int = 1, final: bool = True) -> bytes:
    """Encode a frame of a client, without masking; `of` announces another length."""
    length = len(payload) if of is None else of
    head = bytes([opcode | (0x80 if final else 0)])
    if length < 126:
        head += bytes([0x80 | length])
    elif length < 1 << 16:
        head += bytes([0x80 | 126]) + length.to_bytes(2, "big")
    else:
        head += bytes([0x80 | 127]) + length.to_bytes(8, "big")
    return head + b"\0\0\0\0" + payload


UPGRADE = (
    b"GET /v1/responses HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\n"
    b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


@asynccontextmanager
async def upgraded(url: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Open a WebSocket whose bytes the test sends."""
    host, _, port = url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(UPGRADE)
        await reader.readuntil(b"\r\n\r\n")
        yield reader, writer
    finally:
        writer.close()


LARGE = 1_000_000


async def test_memory_is_held_for_a_message_before_it_is_received() -> None:
    limits = Limits(memory=least_memory(LARGE) + 100_000)
    small = json.dumps({"type": "response.create", "model": "echo/echo", "input": "Hi"}).encode()
    async with serving(limits=limits) as gateway:
        async with upgraded(gateway.url) as (_, first), upgraded(gateway.url) as (reader, second):
            first.write(frame(b"{", of=LARGE))
            await until(lambda: gateway._calls.admission._memory == LARGE)
            async with upgraded(gateway.url) as (other, third):
                third.write(frame(small))
                assert b"response.completed" in await other.readuntil(b"response.completed")
            second.write(frame(b" " * 400_000, final=False))
            for part in (frame(b" " * 400_000, opcode=0, final=False), frame(b"", opcode=9)):
                second.write(part)
            answer = await reader.read(1 << 16)
            assert b'"status":503' in answer
            assert b"active requests take too much memory" in answer
            second.write(frame(b" " * LARGE, opcode=0) + frame(b"", opcode=8))
            await reader.read()
            assert gateway._calls.admission._memory == LARGE
        await until(lambda: gateway._calls.admission._memory == 0)


# (the keys that send incomplete bodies, the size of each, the most accepted from all of them)
INCOMPLETE = [("b", 40_000, 12), ("b", 10, 35), ("bc", 40_000, 21), ("bc", 10, 35)]


@pytest.mark.parametrize(("attackers", "size", "accepted"), INCOMPLETE)
async def test_incomplete_bodies_of_some_keys_leave_room_for_other_keys(
    attackers: str, size: int, accepted: int
) -> None:
    keys = "".join(f'[keys.{name}]\nkey = "${{{name.upper()}}}"\n' for name in "abc")
    config = Source("t", keys).config({"A": "a", "B": "b", "C": "c"})
    limits = Limits(memory=1_000_000, streams=40)
    async with serving(limits=limits, config=config) as gateway:
        port = int(gateway.url.rpartition(":")[2])
        opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(40)]
        for number, (_, writer) in enumerate(opened):
            key = attackers[number % len(attackers)]
            body = f"Content-Length: {size}\r\n\r\n{{"
            writer.write(f"{HEAD}Authorization: Bearer {key}\r\n{body}".encode())
        answers = [asyncio.ensure_future(reader.readline()) for reader, _ in opened]
        await until(lambda: sum(answer.done() for answer in answers) == 40 - accepted)
        assert all(b" 503 " in answer.result() for answer in answers if answer.done())
        assert gateway._calls.admission._memory == accepted * size
        answer = await ask(gateway, PATH, HI, headers={"Authorization": "Bearer a"})
        assert answer.status == 200
        for _, writer in opened:
            writer.close()
        await until(lambda: gateway._calls.admission._memory == 0)
        await asyncio.gather(*answers)


async def test_large_requests_of_an_owner_are_prepared_one_after_the_other() -> None:
    admission = Admission(Limits(), Counter())
    order: list[str] = []

    async def prepare(name: str, owner: str, memory: int, ends_early: bool = False) -> None:
        async with admission.turn(owner, memory) as end:
            order.append(f"{name} begins")
            await asyncio.sleep(0)
            if ends_early:
                end()
                await asyncio.sleep(0)
            order.append(f"{name} ends")

    large = LARGE_BYTES + 1
    await asyncio.gather(
        prepare("first", "bob", large),
        prepare("second", "bob", large, True),
        prepare("third", "bob", large),
        prepare("small", "bob", LARGE_BYTES),
        prepare("other", "ann", large),
    )
    begins = ["first begins", "small begins", "other begins"]
    assert order[:3] == begins
    assert order.index("second begins") > order.index("first ends")
    assert order.index("second begins") < order.index("third begins") < order.index("second ends")
    assert not admission._turns


@pytest.mark.parametrize(("size", "status"), [(1, b"400"), (LEAST_CHUNK, b"200")])
async def test_a_body_in_many_tiny_chunks_is_refused(size: int, status: bytes) -> None:
    body = json.dumps(HI).encode()
    body += b" " * (2 * MOST_SMALL_CHUNKS * size - len(body))
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    async with serving(Scripted([*BEGUN, *ENDED])) as gateway:
        port = int(gateway.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"{HEAD}Transfer-Encoding: chunked\r\n\r\n".encode())
        writer.write(b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces))
        writer.write(b"0\r\n\r\n")
        assert (await reader.readline()).split()[1] == status
        writer.close()


IDLE = 4_000_000
"""The characters of a message; an idle connection kept it several times."""


@pytest.mark.parametrize("how", ["http", "websocket"])
async def test_an_idle_connection_keeps_no_request(how: str) -> None:
    async def settled() -> int:
        for _ in range(20):
            await asyncio.sleep(0)
        upstream.calls.clear()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    async def exchange(size: int) -> None:
        said = "x" * size
        if how == "http":
            body = json.dumps({**HI, "messages": [{"role": "user", "content": said}]})
            async with session.post(gateway.url + PATH, data=BytesIO(body.encode())) as response:
                await response.read()
        else:
            turn = {"type": "response.create", "model": "echo/echo", "input": said}
            await socket.send_json(turn)
            while (await socket.receive_json())["type"] != "response.completed":
                pass

    upstream = Scripted([*BEGUN, *ENDED])
    async with (
        serving(upstream) as gateway,
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{gateway.url}/v1/responses") as socket,
    ):
        await exchange(10)
        tracemalloc.start()
        try:
            before = await settled()
            await exchange(IDLE)
            # a WebSocket can continue its conversation, which is kept once
            most = (0.5 if how == "http" else 1.5) * IDLE
            for _ in range(300):
                if (kept := await settled() - before) < most:
                    break
                await asyncio.sleep(0.01)  # a thread may still hold the body that it has read
        finally:
            tracemalloc.stop()
    assert kept < most


@pytest.mark.parametrize("opcode", [9, 0], ids=["pings", "parts"])
async def test_a_connection_with_many_frames_but_no_message_is_refused(
    opcode: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # this client does not answer the close
    monkeypatch.setattr("swink_gateway.serving.responses.CLOSE_SECONDS", 0.05)
    async with serving() as gateway, upgraded(gateway.url) as (reader, writer):
        if opcode == 0:
            writer.write(frame(b"{", final=False))
        writer.write(frame(b"", opcode=opcode, final=opcode == 9) * (MOST_FRAMES + 1))
        answer = await reader.readuntil(b"complete message")
        assert b'"status":400' in answer
        await reader.read()


class Unread(asyncio.WriteTransport):
    """A connection whose client has not read some bytes."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.is_over = False

    def get_write_buffer_size(self) -> int:
        return self.size

    def is_closing(self) -> bool:
        return self.is_over


def test_answers_that_a_key_does_not_read_take_limited_memory() -> None:
    large = 2 * SMALL_ANSWER_BYTES
    unread = UnreadAnswers(3 * large)
    connections = [Unread(large) for _ in range(4)]
    found = [unread.has_room("bob", connection, large) for connection in connections]
    assert found == [True, True, True, False]
    assert unread.has_room("alice", Unread(large), large)
    assert unread.has_room("bob", connections[0], SMALL_ANSWER_BYTES)
    connections[1].size = 0
    connections[2].is_over = True
    assert unread.has_room("bob", connections[1], large)


async def test_a_large_answer_is_refused_while_others_are_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(UnreadAnswers, "has_room", lambda self, owner, transport, size: size < 100)
    async with serving() as gateway:
        assert (await ask(gateway, "/health", method="GET")).status == 200
        refused = await ask(gateway, "/v1/models", method="GET")
    assert (refused.status, refused.headers["Retry-After"]) == (503, "1")
    assert "still unread" in refused.json["error"]["message"]


class Received(asyncio.Protocol):
    """A protocol that keeps what it receives."""

    def __init__(self) -> None:
        self.data = b""

    def data_received(self, data: bytes) -> None:
        self.data += data


@pytest.mark.parametrize("step", [1, 2, 7, 1000, 1 << 20])
async def test_frames_are_read_however_the_network_splits_them(step: int) -> None:
    text = b" " * 70_000
    sent = frame(text[:50_000], final=False) + frame(b"ping", opcode=9) + frame(b"", opcode=10)
    sent += frame(text[50_000:], opcode=0) + frame(b"{}") + frame(b"", opcode=2) + frame(text)
    held: list[tuple[int, int]] = []

    def reserve(before: int, after: int) -> int:
        held.append((before, after))
        return after

    inner = Received()
    meter = SocketMeter(inner, Limits(clock=ManualClock()), MOST_BODY_BYTES, reserve)
    for at in range(0, len(sent), step):
        meter.data_received(sent[at : at + step])
    assert inner.data == sent
    first, whole = least_memory(50_000), least_memory(70_000)
    assert held == [(0, first), (first, whole), (0, whole)]
    assert [meter.take() for _ in range(5)] == [whole, 0, 0, whole, 0]


async def test_a_message_that_does_not_arrive_ends_its_connection() -> None:
    clock = ManualClock()
    async with serving(limits=Limits(clock=clock)) as gateway:
        async with upgraded(gateway.url) as (reader, writer):
            writer.write(frame(b"{", of=LARGE))
            await until(lambda: gateway._calls.admission._memory == LARGE)
            await clock.advance(Limits().patience + 1)
            answer = await reader.read(1 << 16)
            assert b'"status":408' in answer
            assert b"the message was not received within 60 s" in answer
        await until(lambda: gateway._calls.admission._memory == 0)


async def test_frames_before_the_upgrade_are_refused() -> None:
    async with serving() as gateway:
        host, _, port = gateway.url.removeprefix("http://").partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(UPGRADE + frame(b"{", of=LARGE))
        answer = await reader.read()
        writer.close()
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"frames were sent before the WebSocket was open" in answer


SHAPES: dict[str, Any] = {
    "a text": "x" * 100_000,
    "a text with one wide character": "x" * 100_000 + "\N{WATER WAVE}",
    "a text in Chinese": "\N{CJK UNIFIED IDEOGRAPH-597D}" * 30_000,
    "small objects": [{f"k{number}": "v" * 40} for number in range(2000)],
    "tiny objects": [{"a": 1}] * 10_000,
    "empty objects": [{}] * 10_000,
    "empty lists": [[]] * 10_000,
    "short texts": [f"s{number}" for number in range(10_000)],
    "numbers": [number * 1000 for number in range(10_000)],
    "fractions": [number / 2 for number in range(10_000)],
    "an object of many fields": {f"{number}": number + 300 for number in range(10_000)},
    "objects of several fields": [{f"{i}{j}": 0 for j in range(8)} for i in range(1000)],
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("escaped", [False, True])
def test_the_estimate_of_a_bodys_memory_is_not_too_low(shape: str, escaped: bool) -> None:
    body = json.dumps({"a": SHAPES[shape]}, ensure_ascii=escaped, separators=(",", ":")).encode()
    tracemalloc.start()
    try:
        data = msgspec.json.decode(body)
        parsed, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert data
    estimate = memory_of(body) - COPIES * len(body)
    assert 0.9 * parsed <= estimate <= 8 * parsed + 1000


async def test_a_client_that_does_not_send_its_body_is_disconnected() -> None:
    async with serving(limits=Limits(patience=0.01, streams=1)) as gateway:
        port = int(gateway.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(
            f"POST {PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n{{".encode()
        )
        assert b" 408 " in await reader.readline()
        writer.close()
        assert gateway.counters[ACTIVE] == 0


# -- disconnects -----------------------------------------------------------------------------------


async def test_a_disconnect_right_after_the_end_is_a_success() -> None:
    async with serving() as gateway:
        port = int(gateway.url.rpartition(":")[2])
        body = msgspec.json.encode({"model": "echo/echo", "stream": True, "input": "one"})
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head = f"POST /v1/responses HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}"
        writer.write(f"{head}\r\n\r\n".encode() + body)
        came = b""
        while b"response.completed" not in came:
            came += await reader.read(100_000)
        writer.transport.abort()
        await until(lambda: not gateway.counters[ACTIVE])
        id = came.partition(b'"id":"')[2].partition(b'"')[0].decode()
        more = {"model": "echo/echo", "input": "two", "previous_response_id": id}
        answer: Answer = await ask(gateway, "/v1/responses", more)
        assert answer.status == 200
        assert gateway.counters[ABORTED] == 0


async def test_a_client_that_leaves_stops_an_upstream_that_hangs() -> None:
    upstream = Hanging()
    async with serving(upstream) as gateway:
        _, writer = await open_slowly(gateway.url)
        await upstream.reached(1)
        writer.transport.abort()
        await until(lambda: not upstream.waiting and not gateway.counters[ACTIVE])


async def test_a_websocket_client_that_does_not_read_is_disconnected_with_its_upstream() -> None:
    upstream = Flood(10_000)
    async with (
        serving(upstream, limits=Limits(patience=0.01)) as gateway,
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{gateway.url}/v1/responses") as socket,
    ):
        await socket.send_json({"type": "response.create", "model": "echo/echo", "input": "Hi"})
        await upstream.left.wait()
        assert gateway.counters[ABORTED] == 1
        await until(lambda: not gateway.counters[ACTIVE])


class Hanging:
    """An upstream that never answers; `waiting` counts the calls that wait for it."""

    def __init__(self) -> None:
        self.waiting = 0
        self._more = asyncio.Event()

    @swink.hookimpl(tryfirst=True)
    def stream(self, call: swink.Call) -> Any:
        return self._hang()

    async def _hang(self) -> Any:
        self.waiting += 1
        self._more.set()
        try:
            await asyncio.Event().wait()
            yield swink.Start()
        finally:
            self.waiting -= 1

    async def reached(self, count: int) -> None:
        while self.waiting < count:
            self._more.clear()
            await self._more.wait()


# -- coalescing ------------------------------------------------------------------------------------

DELTAS = (swink.TextDelta, swink.ThinkingDelta, swink.ToolCallDelta)
OTHERS = (swink.Notice("a", "b"), swink.TextEnd(0), swink.ToolCallStart(1, "c", "f"))

EVENTS = st.lists(
    st.one_of(
        st.builds(
            lambda kind, index, text: kind(index, text),
            st.sampled_from(DELTAS), st.integers(0, 1), st.text("ab", max_size=3),
        ),
        st.sampled_from(OTHERS),
    ),
    max_size=120,
)  # fmt: skip


def said(events: Iterable[Any]) -> tuple[list[Any], dict[Any, str]]:
    """Return the events other than deltas, each with the deltas before it, and all delta text."""
    others, texts = [], dict[Any, str]()
    for event in events:
        if isinstance(event, DELTAS):
            key = (type(event), event.content_index)
            texts[key] = texts.get(key, "") + event.delta
        else:
            others.append((event, dict(texts)))
    return others, texts


@given(EVENTS, st.integers(1, 5))
def test_a_full_queue_merges_deltas_of_a_block_and_drops_nothing(
    events: list[Any], most: int
) -> None:
    async def relay() -> list[Any]:
        box = Outbox(lambda: None, most)

        async def fill() -> None:
            for event in events:
                await box.put(event)
            box.close()

        filling = asyncio.ensure_future(fill())
        taken: list[Any] = []
        while True:
            await asyncio.sleep(0)  # the queue fills up first
            batch = await box.take()
            assert len(batch) <= most
            if not batch:
                await filling
                return taken
            taken += batch

    taken = asyncio.run(relay())
    assert said(taken) == said(events)
    assert len(taken) <= len(events)


async def test_a_slow_client_with_coalescing_gets_every_character() -> None:
    upstream = Flood(40)
    async with serving(upstream, limits=Limits(coalesce=True)) as gateway:
        reader, writer = await open_slowly(gateway.url)
        await until(lambda: gateway.counters[BACKPRESSURE] > 0)
        answer = await reader.read()
        writer.close()
    assert answer.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
    assert answer.count(b"x") >= 40 * 256_000


async def test_reading_ahead_ends_with_its_reader() -> None:
    upstream = Hanging()

    async def hang() -> Any:
        async for event in upstream._hang():
            yield [event]

    ahead = read_ahead(hang(), lambda batch: None, lambda: None)
    reading = asyncio.ensure_future(anext(ahead))
    await upstream.reached(1)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert upstream.waiting == 0


def test_the_queue_has_the_contracts_length() -> None:
    assert MOST_QUEUED == 32


# -- security --------------------------------------------------------------------------------------


async def test_headers_have_a_size_limit() -> None:
    async with serving() as gateway:
        many = {f"x-{number}": "a" for number in range(1000)}
        for headers in ({"x-long": "a" * 100_000}, many):
            answer = await ask(gateway, PATH, {**CHAT, "model": "echo/echo"}, headers=headers)
            assert answer.status == 400


async def test_no_cors_header_allows_another_origin() -> None:
    asked = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    async with serving() as gateway:
        for headers in (asked, {}):
            for method in ("OPTIONS", "POST", "GET"):
                answer = await ask(gateway, PATH, HI, method=method, headers=headers)
                assert not [name for name in answer.headers if name.lower().startswith("access-")]


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/secret.png", "file:///etc/passwd"])
async def test_no_url_from_a_client_is_fetched_or_read(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetched(*anything: Any, **more: Any) -> Any:
        raise AssertionError(f"unexpected access to {anything}")

    upstream = Thinking()
    await upstream.say(*BEGUN)
    await upstream.say(*ENDED)
    image = {"type": "image_url", "image_url": {"url": url}}
    body = {**HI, "messages": [{"role": "user", "content": [image]}]}
    source = {"type": "image", "source": {"type": "file", "path": "/etc/passwd"}}
    native = {**HI, "messages": [{"role": "user", "content": [source]}]}
    async with serving(upstream) as gateway:
        monkeypatch.setattr("swink_core.providers.media.read_media", fetched)
        monkeypatch.setattr("builtins.open", fetched)
        answer = await ask(gateway, PATH, body)
        assert answer.status in (200, 400)
        assert (await ask(gateway, "/v1/stream", native)).status == 400


class Counted(list[Any]):
    """Events that count how often they are read from the first one on."""

    reads = 0

    def __iter__(self) -> Iterator[Any]:
        self.reads += 1
        return super().__iter__()


@pytest.mark.parametrize("name", PROTOCOLS)
def test_an_answer_that_arrives_at_once_is_not_read_again_for_each_call(name: str) -> None:
    reads = []
    for calls in (2, 50):
        batch = Counted(called(*((f"c{number}", "f", "{}") for number in range(calls))))
        asked = asked_for(array=False, thoughts=False)
        encoder = PROTOCOLS[name].endpoints[0].make().encoder(asked, Facts("1", 1))
        assert encoder.feed(batch, Said(swink.Model("acme", "large")))
        reads.append(batch.reads)
    assert reads[0] == reads[1] < 10
