"""The work for each 64 KiB of an answer, while the answer grows.

    assert await growth("recorder", size=1024 * 1024) < FLAT

An answer comes from memory in reads of 4 KiB. The processor time between two reads, of all threads,
is the work for the first of them. The last eighth of the answer is compared with the first: a part
of swink that looks at what came before with each read takes longer and longer. The clock on the
wall is not read, and the garbage collector, whose work depends on other objects, is off.
"""

from __future__ import annotations

import gc
import io
import logging
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, redirect_stderr, redirect_stdout
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
from attrs import define

import swink
from swink_cache.cache import SwinkCache
from swink_cli.display import Display, PlainText
from swink_core import Context, Cost, Model, Usage, UserMessage
from swink_gateway.protocols import Asked, Facts
from swink_gateway.protocols.table import PROTOCOLS
from swink_observer_log.observer import LogObserver
from swink_observers.feed import Feed
from swink_recorder.recorder import Recorder
from swink_test_helpers.growing_work import LINEAR
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

__all__ = ["FLAT", "PARTS", "growth", "growth_of_end"]

FLAT = 4.0
"""Times the work of the first eighth that the last may take.

Work in proportion to what came before takes fifteen times as much.
"""

ROUNDS = 5
"""How often at most a part is measured that seems to grow. The least work of all rounds counts."""

MODEL = "deepseek/deepseek-v4-flash"

READ = 4096

DELTA = 128
"""Characters of a delta."""


@define
class Part:
    """The kind of an answer (`text`, `json` or `call`), its reader, and a plugin beside it."""

    kind: str
    read: Callable[[swink.Client], Awaitable[None]]
    plugin: Callable[[Path], Any] | None = None


@define
class _Numbers:
    value: list[int]


@define
class _Known:
    model: Model
    response_id: str | None = None
    response_model: str | None = None
    usage: Usage | None = None
    cost: Cost | None = None


def _frame(delta: dict[str, Any], reason: str | None = None) -> bytes:
    chunk = {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
    return b"data: " + msgspec.json.encode(chunk) + b"\n\n"


def _delta(kind: str, text: str) -> dict[str, Any]:
    if kind == "call":
        return {"tool_calls": [{"index": 0, "function": {"arguments": text}}]}
    return {"content": text}


def _deltas(kind: str, size: int) -> Iterator[dict[str, Any]]:
    """Yield the deltas of an answer of about this many characters."""
    if kind == "text":
        text = "Some words of an answer.\n" * (size // 25)
    else:
        text = '{"value":[' + "12," * (size // 3) + "1]}"
    if kind == "call":
        function = {"name": "look", "arguments": ""}
        yield {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": function}]}
    for start in range(0, len(text), DELTA):
        yield _delta(kind, text[start : start + DELTA])


def _reads(kind: str, size: int) -> list[bytes]:
    reads: list[bytes] = []
    waiting = bytearray()
    for delta in _deltas(kind, size):
        waiting += _frame(delta)
        if len(waiting) >= READ:
            reads.append(bytes(waiting))
            waiting.clear()
    return [*reads, bytes(waiting) or b":\n\n"]


def _timed(reads: list[bytes], reason: str, times: list[float]) -> Iterator[bytes]:
    """Yield reads and then the end, and note the processor time before each."""
    for read in reads:
        times.append(time.process_time())
        yield read
    times.append(time.process_time())
    yield _frame({}, reason) + b"data: [DONE]\n\n"


async def _events(client: swink.Client) -> None:
    async with client.stream(MODEL, "Hi") as stream:
        async for _ in stream:
            pass


async def _partials(client: swink.Client) -> None:
    async with client.stream_answer(MODEL, "Hi", type=_Numbers) as stream:
        async for _ in stream.partials:
            pass


async def _answer(client: swink.Client) -> None:
    assert (await client.answer(MODEL, "Hi", type=_Numbers)).parsed.value


async def _shown(client: swink.Client) -> None:
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        display = Display(PlainText())
        async with client.stream(MODEL, "Hi") as stream:
            async for batch in stream.batches():
                display.feed(batch)
        display.close()


def _encoded(protocol: str) -> Callable[[swink.Client], Awaitable[None]]:
    async def read(client: swink.Client) -> None:
        asked = Asked(MODEL, Context([UserMessage("Hi")]), stream=True)
        asked.said = {"array": False, "thoughts": True}
        made: Any = PROTOCOLS[protocol].endpoints[0].protocol
        encoder = made().encoder(asked, Facts("id", 1_700_000_000))
        known = _Known(Model.parse(MODEL))
        async with client.stream(MODEL, "Hi") as stream:
            async for batch in stream.batches():
                encoder.feed(batch, known)

    return read


def _log_observer(folder: Path) -> LogObserver:
    logger = logging.Logger("work")
    logger.setLevel(logging.DEBUG)
    logger.addHandler(logging.StreamHandler(io.StringIO()))
    return LogObserver(logger)


PARTS: dict[str, Part] = {
    "text": Part("text", _events),
    "tool arguments": Part("call", _events),
    "typed answer": Part("json", _answer),
    "partials": Part("json", _partials),
    "display": Part("text", _shown),
    "recorder": Part("text", _events, lambda folder: Recorder(folder / "calls.sqlite")),
    "recorder of a call": Part("call", _events, lambda folder: Recorder(folder / "calls.sqlite")),
    "cache": Part("text", _events, lambda folder: SwinkCache(folder / "cache.sqlite")),
    "feed": Part("text", _events, lambda folder: Feed(content=True)),
    "log": Part("text", _events, _log_observer),
    **{f"gateway, {name}": Part("text", _encoded(name)) for name in PROTOCOLS},
    **{f"gateway, {name}, call": Part("call", _encoded(name)) for name in PROTOCOLS},
}
"""The parts of swink whose work is measured."""


@asynccontextmanager
async def _client(part: Part, response: MemoryResponse) -> AsyncIterator[swink.Client]:
    with tempfile.TemporaryDirectory() as folder:
        plugins = [] if part.plugin is None else [part.plugin(Path(folder))]
        async with swink.Client(
            http=MemoryHTTPClient(response),
            plugins=plugins,
            providers={"deepseek": {"api_key": "test-key"}},
            retry=False,
            max_output_chars=None,
        ) as client:
            yield client
        for plugin in plugins:
            if hasattr(plugin, "aclose"):
                await plugin.aclose()


async def _spent(part: Part, size: int) -> tuple[list[float], float]:
    """Return the work for each read of an answer, and for its end, in seconds."""
    times: list[float] = []
    reason = "tool_calls" if part.kind == "call" else "stop"
    timed = _timed(_reads(part.kind, size), reason, times)
    response = MemoryResponse(timed, headers={"Content-Type": "text/event-stream"})
    gc.collect()
    gc.disable()
    try:
        async with _client(part, response) as client:
            await part.read(client)
        ended = time.process_time()
    finally:
        gc.enable()
    spent = [after - before for before, after in pairwise(times)]
    return spent, ended - times[-1]


async def growth(name: str, size: int) -> float:
    """Divide the work for the last eighth of an answer by that for the first."""
    part = PARTS[name]
    await _spent(part, 8 * READ)  # imports
    first = last = float("inf")
    for _ in range(ROUNDS):
        spent, _ = await _spent(part, size)
        eighth = len(spent) // 8
        first = min(first, sum(spent[:eighth]))
        last = min(last, sum(spent[-eighth:]))
        if last < FLAT * first:
            break
    return last / first


async def growth_of_end(name: str, size: int) -> float:
    """Divide the work after the last read of an answer by that for an answer an eighth as long."""
    part = PARTS[name]
    await _spent(part, 8 * READ)  # imports
    short = long = float("inf")
    for _ in range(ROUNDS):
        short = min(short, (await _spent(part, size // 8))[1])
        long = min(long, (await _spent(part, size))[1])
        if long < LINEAR * short:
            break
    return long / short
