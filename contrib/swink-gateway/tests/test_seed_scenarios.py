"""The scenarios of the contract for incremental translation, with its names.

The frames of an upstream are split at any byte; it fails early and in the middle; its tool calls
arrive in pieces and out of order; a client reads slowly or not at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from attrs import evolve
from serving import Scripted, ask, serving

import swink_core as swink
from swink_gateway.serving.limits import Limits
from swink_recorder.recording import Recording, bundled_recordings
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

CHAT = {"messages": [{"role": "user", "content": "Hi"}]}
OWN = {"base_url": "http://upstream.invalid/v1", "api_key": "test"}


def recording(provider: str, name: str) -> Recording:
    folders = bundled_recordings(f"swink_provider_{provider}")
    return Recording.load(next(folder for folder in folders if folder.name == name))


THINKING = recording("anthropic", "thinking-and-tool-call")
PARALLEL = recording("openai", "parallel-tool-calls")


async def asked(
    chunks: Iterable[bytes],
    source: Recording,
    path: str,
    error: Exception | None = None,
    **fields: Any,
) -> Any:
    """Call the gateway with an upstream that answers in these pieces and then breaks off."""
    upstream = MemoryResponse(chunks, 200, source.headers, error)
    async with serving(
        http=MemoryHTTPClient(upstream), providers={source.provider: OWN}
    ) as gateway:
        body = {"model": f"{source.provider}/{source.model}", "stream": True, **fields}
        return await ask(gateway, path, body)


def cut(body: bytes, size: int) -> list[bytes]:
    return [body[at : at + size] for at in range(0, len(body), size)]


def timeless(frames: list[Any]) -> list[Any]:
    """Remove the gateway's times and ids from frames."""
    text = msgspec.json.encode([f if isinstance(f, dict) else str(f) for f in frames]).decode()
    return [
        {k: v for k, v in f.items() if k not in ("created", "item_id", "item", "response")}
        if isinstance(f, dict)
        else f
        for f in msgspec.json.decode(text)
    ]


# -- A: chunk boundaries ---------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1000])
async def test_anthropic_to_openai_stream_handles_split_sse_frame_boundaries(size: int) -> None:
    unsplit = await asked([THINKING.body], THINKING, "/v1/chat/completions", **CHAT)
    split = await asked(cut(THINKING.body, size), THINKING, "/v1/chat/completions", **CHAT)
    assert timeless(split.frames) == timeless(unsplit.frames)
    assert split.frames[-1] == b"[DONE]"


@pytest.mark.parametrize("size", [1, 2, 3, 5, 31])
async def test_openai_to_responses_stream_handles_split_json_boundaries(size: int) -> None:
    body = PARALLEL.body.replace(b"Paris", "Pär\u0131s \U0001f600".encode())
    unsplit = await asked([body], PARALLEL, "/v1/responses", input="Hi")
    split = await asked(cut(body, size), PARALLEL, "/v1/responses", input="Hi")
    assert timeless(split.frames) == timeless(unsplit.frames)
    assert split.frames[-1]["type"] == "response.completed"
    called = [item["arguments"] for item in split.frames[-1]["response"]["output"]]
    assert all(isinstance(msgspec.json.decode(arguments), dict) for arguments in called)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/responses"])
async def test_stream_parser_handles_multi_frame_single_chunk_and_single_frame_multi_chunk(
    path: str,
) -> None:
    for source in (THINKING, PARALLEL):
        frames = [frame + b"\n\n" for frame in source.body.split(b"\n\n") if frame]
        pairs = [b"".join(frames[at : at + 2]) for at in range(0, len(frames), 2)]
        halves = [half for frame in frames for half in cut(frame, len(frame) // 2 + 1)]
        asks = {**CHAT, "input": "Hi"} if path == "/v1/responses" else CHAT
        answers = [await asked(c, source, path, **asks) for c in (frames, pairs, halves)]
        first, *others = [timeless(answer.frames) for answer in answers]
        assert all(other == first for other in others)


# -- B: failures -----------------------------------------------------------------------------------


async def test_responses_stream_emits_response_failed_when_upstream_errors_before_first_delta() -> (
    None
):
    error = {"type": "error", "code": "server_is_overloaded", "message": "full", "param": None}
    body = b"event: error\ndata: %b\n\n" % msgspec.json.encode(error)
    failed = MemoryResponse([body], 200, {"Content-Type": "text/event-stream"})
    async with serving(http=MemoryHTTPClient(failed), providers={"openai": OWN}) as gateway:
        request = {"model": "openai/gpt-4.1-mini", "input": "Hi", "stream": True}
        answer = await ask(gateway, "/v1/responses", request)
    kinds = [frame["type"] for frame in answer.frames]
    assert answer.status == 200
    assert kinds == ["response.created", "response.in_progress", "response.failed"]
    assert answer.frames[-1]["response"]["error"]["code"] == "server_is_overloaded"


async def test_chat_stream_emits_error_then_done_on_midstream_transport_error() -> None:
    half = [frame + b"\n\n" for frame in PARALLEL.body.split(b"\n\n")[:6]]
    gone = ConnectionResetError("gone")
    answer = await asked(half, PARALLEL, "/v1/chat/completions", gone, **CHAT)
    *before, error, done = answer.frames
    assert done == b"[DONE]"
    assert error["error"]["code"] == "server_error"
    assert before
    assert all("error" not in frame for frame in before)


@pytest.mark.parametrize(
    ("path", "fields"),
    [("/v1/chat/completions", CHAT), ("/v1/messages", CHAT), ("/v1/responses", {"input": "Hi"})],
)
async def test_non_stream_returns_503_when_all_tiers_rate_limited(
    path: str, fields: dict[str, Any]
) -> None:
    def limited() -> MemoryResponse:
        return MemoryResponse.of_json({"error": {"message": "slow"}}, 429, {"Retry-After": "7"})

    own = {"openai": OWN, "anthropic": OWN}
    tiers = {"tiers": ["openai/gpt-4.1-mini", "anthropic/claude-haiku-4-5"]}
    http = MemoryHTTPClient(limited(), limited())
    async with serving(http=http, providers=own, routes=tiers) as gateway:
        answer = await ask(gateway, path, {"model": "tiers", **fields})
    assert len(http.requests) == 2
    assert answer.status == 503
    assert answer.headers["Retry-After"] == "7"
    assert "slow" in answer.json["error"]["message"]


# -- C: tool call deltas ---------------------------------------------------------------------------


def chunk(**delta: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    return b"data: %b\n\n" % msgspec.json.encode({"id": "r1", "model": "m", "choices": [choice]})


def piece(index: int, arguments: str = "", **call: Any) -> dict[str, Any]:
    name = {"name": call.pop("name")} if "name" in call else {}
    return {"index": index, **call, "function": {**name, "arguments": arguments}}


END = [
    b'data: {"id":"r1","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}\n\n',
    b"data: [DONE]\n\n",
]
SSE = evolve(PARALLEL, headers={"content-type": "text/event-stream"})


def items(frames: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [f["item"] for f in frames if f["type"] == f"response.output_item.{kind}"]


async def test_responses_stream_merges_tool_call_deltas_across_chunks() -> None:
    chunks = [
        chunk(tool_calls=[piece(0, '{"a":', id="c1", name="f")]),
        chunk(tool_calls=[piece(1, '{"b"', id="c2", name="g")]),
        chunk(tool_calls=[piece(0, "1}")]),
        chunk(tool_calls=[piece(1, ":2}")]),
    ]
    answer = await asked([*chunks, *END], SSE, "/v1/responses", input="Hi")
    done = {item["call_id"]: item for item in items(answer.frames, "done")}
    assert [item["call_id"] for item in items(answer.frames, "added")] == ["c1", "c2"]
    assert (done["c1"]["name"], done["c1"]["arguments"]) == ("f", '{"a":1}')
    assert (done["c2"]["name"], done["c2"]["arguments"]) == ("g", '{"b":2}')


async def test_responses_stream_handles_tool_id_or_name_arriving_late() -> None:
    chunks = [
        chunk(tool_calls=[piece(0, '{"a":')]),
        chunk(tool_calls=[piece(0, "1}", id="c1", name="f")]),
    ]
    answer = await asked([*chunks, *END], SSE, "/v1/responses", input="Hi")
    (added,), (done,) = items(answer.frames, "added"), items(answer.frames, "done")
    assert (added["call_id"], added["name"]) == ("c1", "f")
    assert (done["id"], done["call_id"], done["name"]) == (added["id"], "c1", "f")
    assert done["arguments"] == '{"a":1}'
    assert answer.frames[-1]["response"]["output"] == [done]


# -- D: slow clients -------------------------------------------------------------------------------


class Flood(Scripted):
    """An upstream with more output than any buffer holds; `left` is set when it is closed."""

    def __init__(self, batches: int) -> None:
        super().__init__()
        self.left = asyncio.Event()
        self._batches = batches

    @swink.hookimpl(tryfirst=True)
    def stream(self, call: swink.Call) -> Any:
        return _Flood(self._batches, self.left)


class _Flood:
    def __init__(self, batches: int, left: asyncio.Event) -> None:
        self._count, self._left = batches, left

    async def batches(self) -> AsyncIterator[Any]:
        try:
            yield [swink.Start(), swink.TextStart(0)]
            for _ in range(self._count):
                yield [swink.TextDelta(0, "x" * 256_000)]
                await asyncio.sleep(0)
            yield [swink.TextEnd(0), swink.Done(swink.StopReason.STOP)]
        finally:
            self._left.set()

    def __aiter__(self) -> Any:
        raise NotImplementedError


async def open_slowly(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Send a request and read nothing yet."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
    body = msgspec.json.encode({"model": "echo/echo", "stream": True, **CHAT})
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}"
    writer.write(f"{head}\r\nConnection: close\r\n\r\n".encode() + body)
    return reader, writer


async def test_stream_backpressure_records_metric_when_channel_full() -> None:
    upstream = Flood(80)
    async with serving(upstream) as gateway:
        reader, writer = await open_slowly(gateway.url)
        while not gateway.counters["ccr_stream_backpressure_total"]:
            assert not upstream.left.is_set()  # the upstream waits for its client
            await asyncio.sleep(0)
        answer = await reader.read()
        writer.close()
    assert answer.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
    assert answer.count(b"xxxx") >= 80 * 256_000 // 4


async def test_stream_abort_on_persistent_backpressure() -> None:
    upstream = Flood(80)
    async with serving(upstream, limits=Limits(patience=0.01)) as gateway:
        reader, writer = await open_slowly(gateway.url)
        await upstream.left.wait()
        assert gateway.counters["ccr_stream_aborted_total"] == 1
        answer = b""
        with suppress(ConnectionResetError):
            while piece := await reader.read(1_000_000):
                answer += piece
        assert b"[DONE]" not in answer
        writer.close()


async def test_a_client_that_disconnects_stops_its_upstream_and_does_not_count_as_slow() -> None:
    upstream = Flood(10_000)
    async with serving(upstream) as gateway:
        reader, writer = await open_slowly(gateway.url)
        await reader.read(100)
        writer.close()
        await upstream.left.wait()
        assert gateway.counters["ccr_stream_aborted_total"] == 0
