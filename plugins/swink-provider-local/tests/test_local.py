"""`local/…` with the real engine: a tiny model whose answers are known, in a real child process.

The model's output is defined in `make_tiny_gguf.py`.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from llama_server import ANSWER_TOKENS, SCHEMA, WEATHER
from make_tiny_gguf import ANSWER, REASONED_ANSWER, REASONING, write_model

import swink_core as swink
from swink_core import StopReason
from swink_core import StreamErrorKind as Kind
from swink_provider_local import Hub, LocalProvider, engine
from swink_provider_local.engine import Settings
from swink_provider_local.memory import memory_of
from swink_provider_local.pool import EnginePool
from swink_recorder.loopback import Exchange, LoopbackServer
from swink_testing.calls import client_with
from swink_testing.clock import ManualClock

CONTEXT = 4096
PATIENCE = 10
"""Seconds; a busy machine needs a fraction."""


@pytest.fixture(scope="module")
def gguf(tmp_path_factory: pytest.TempPathFactory, engine_loads: None) -> Path:
    path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    write_model(path)
    return path


@pytest.fixture(scope="module")
def pool(engine_loads: None) -> Iterator[EnginePool]:
    pool = EnginePool(limit=2)
    yield pool
    pool.close()


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWINK_LOCAL_CONTEXT", str(CONTEXT))
    monkeypatch.setenv("SWINK_LOCAL_THREADS", "1")
    monkeypatch.setenv("no_proxy", "*")


def client_of(pool: EnginePool, hub: Hub | None = None, **options: Any) -> swink.Client:
    point = SimpleNamespace(
        name="local",
        group="swink.providers",
        value="swink_provider_local:LocalProvider",
        load=lambda: lambda name: LocalProvider(name, pool, hub),
        dist=SimpleNamespace(name="swink-provider-local", version="1.0"),
    )
    host = swink.Host(entry_points=[point], environ={})
    defaults = {"temperature": 0, "max_tokens": 200, "retry": swink.RetryPolicy.none()}
    return client_with(host=host, **{**defaults, **options})


async def answer(
    pool: EnginePool, model: Path | str, context: Any = "Hello", **options: Any
) -> swink.AssistantMessage:
    async with client_of(pool) as client:
        return await client.complete(f"local/{model}", context, **options)


async def failure(
    pool: EnginePool, model: Path | str, hub: Hub | None = None, **options: Any
) -> swink.Error:
    asked = {"model": f"local/{model}", "context": "Hello", **options}
    async with client_of(pool, hub) as client, client.stream(**asked) as stream:
        events = [event async for event in stream]
    assert isinstance(events[-1], swink.Error)
    return events[-1]


# -- answers -------------------------------------------------------------------------------------


async def test_text_comes_token_by_token(pool: EnginePool, gguf: Path) -> None:
    async with client_of(pool) as client, client.stream(f"local/{gguf}", "Hello") as stream:
        events = [event async for event in stream]
    deltas = [event.delta for event in events if isinstance(event, swink.TextDelta)]
    assert "".join(deltas) == ANSWER
    assert len(deltas) > 10
    assert isinstance(events[-1], swink.Done)


async def test_a_file_of_ones_own_needs_no_cache(
    pool: EnginePool, gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWINK_LOCAL_CACHE", "~nobody-here")
    assert (await answer(pool, gguf)).text == ANSWER
    error = await failure(pool, "acme/tiny:tiny.gguf")
    assert error.error_message == "~nobody-here: there is no such home folder"


async def test_reasoning_is_a_block_of_its_own(pool: EnginePool, gguf: Path) -> None:
    message = await answer(pool, gguf, "THINK")
    assert (message.thinking, message.text) == (REASONING, REASONED_ANSWER)


async def test_a_tool_is_called_and_its_result_answered(pool: EnginePool, gguf: Path) -> None:
    context = swink.Context([swink.UserMessage("TOOL")], tools=[WEATHER])
    asked = await answer(pool, gguf, context)
    (call,) = asked.tool_calls
    assert (call.name, call.arguments) == ("get_weather", {"city": "Paris"})
    assert asked.stop_reason is StopReason.TOOL_USE
    context.messages += [asked, swink.ToolResultMessage(call.id, "get_weather", "sunny")]
    assert (await answer(pool, gguf, context)).text == ANSWER


async def test_structured_output_follows_the_schema(pool: EnginePool, gguf: Path) -> None:
    message = await answer(pool, gguf, response_format=SCHEMA)
    data = json.loads(message.text)
    assert data.keys() == {"city", "days"}
    assert isinstance(data["days"], int)


async def test_usage_is_counted_and_costs_nothing(pool: EnginePool, gguf: Path) -> None:
    message = await answer(pool, gguf, "Count this")
    assert message.usage is not None
    assert message.usage.output == ANSWER_TOKENS
    assert message.cost is not None
    assert message.cost.total == 0


async def test_the_limit_of_tokens_is_said(pool: EnginePool, gguf: Path) -> None:
    message = await answer(pool, gguf, max_tokens=3)
    assert (message.stop_reason, message.text) == (StopReason.LENGTH, "Hello from the")


async def test_a_whole_answer_is_the_streamed_one(pool: EnginePool, gguf: Path) -> None:
    assert (await answer(pool, gguf, transport="buffered")).text == ANSWER


async def test_the_context_is_as_long_as_the_call_says(pool: EnginePool, gguf: Path) -> None:
    long = "z" * 600
    assert (await answer(pool, gguf, long)).text == ANSWER
    async with client_of(pool) as client:
        stream = client.stream(f"local/{gguf}", long, settings={"context": 512})
        events = [event async for event in stream]
    assert isinstance(events[-1], swink.Error)
    assert events[-1].error_kind is Kind.CONTEXT_WINDOW_EXCEEDED
    assert "512" in events[-1].error_message


async def test_images_are_refused_before_anything_is_loaded(tmp_path: Path) -> None:
    unused = EnginePool()
    image = swink.ImageBlock(swink.Base64Source("image/png", "AA=="))
    message = swink.UserMessage([image])
    async with client_of(unused) as client:
        stream = client.stream(f"local/{tmp_path}/none.gguf", [message])
        events = [event async for event in stream]
    assert isinstance(events[-1], swink.Error)
    assert events[-1].error_kind is Kind.UNSUPPORTED


# -- the child process ---------------------------------------------------------------------------


async def test_leaving_in_the_middle_stops_the_computation(pool: EnginePool, gguf: Path) -> None:
    endless = {"max_tokens": 1_000_000, "settings": {"context": 65536}}
    async with client_of(pool) as client:
        async with client.stream(f"local/{gguf}", "LONG", **endless) as stream:
            async for event in stream:
                if isinstance(event, swink.TextDelta):
                    break
        assert stream.message.stop_reason is StopReason.ABORTED
        # there is one slot: this would wait for the endless answer
        async with asyncio.timeout(PATIENCE):
            message = await client.complete(f"local/{gguf}", "Hello", settings={"context": 65536})
    assert message.text == ANSWER


async def test_a_crash_is_internal_and_the_next_call_starts_another(gguf: Path) -> None:
    pool = EnginePool()
    try:
        async with client_of(pool, max_tokens=1_000_000) as client:
            async with client.stream(f"local/{gguf}", "LONG") as stream:
                events, engine = [], None
                async for event in stream:
                    events.append(event)
                    if engine is None and isinstance(event, swink.TextDelta):
                        (engine,) = pool.running()
                        os.kill(engine.pid, signal.SIGABRT)
            error = events[-1]
            assert engine is not None
            assert isinstance(error, swink.Error)
            assert error.error_kind is Kind.INTERNAL
            assert "tiny.gguf" in error.error_message
            assert f"signal {signal.SIGABRT.value}" in error.error_message
            assert error.title == "The engine failed"
            assert "The next call starts a new one" in error.resolution
            assert stream.message.text.startswith("on")
            assert (await client.complete(f"local/{gguf}", "Hello", max_tokens=50)).text == ANSWER
        (other,) = pool.running()
        assert other.pid != engine.pid
    finally:
        await asyncio.to_thread(pool.close)


async def test_ctrl_c_is_not_the_childs(pool: EnginePool, gguf: Path) -> None:
    await answer(pool, gguf)
    engine = next(e for e in pool.running() if e.settings.path == gguf)
    os.kill(engine.pid, signal.SIGINT)
    assert (await answer(pool, gguf)).text == ANSWER
    assert engine.alive


async def test_a_file_that_is_no_model_says_so(pool: EnginePool, tmp_path: Path) -> None:
    path = tmp_path / "junk.gguf"
    path.write_bytes(b"no model")
    error = await failure(pool, path)
    assert error.error_kind is Kind.INTERNAL
    assert "junk.gguf could not be started" in error.error_message
    assert "expected 'GGUF'" in error.error_message


async def test_as_many_models_run_as_there_is_memory_for(gguf: Path, tmp_path: Path) -> None:
    second, third = tmp_path / "second.gguf", tmp_path / "third.gguf"
    write_model(second)
    write_model(third)
    settings = {"context": 512}
    room = sum(memory_of(Settings(path, 512)) for path in (gguf, second))
    pool = EnginePool(None, memory=room)
    try:
        both = await asyncio.gather(
            answer(pool, gguf, settings=settings), answer(pool, second, settings=settings)
        )
        assert [message.text for message in both] == [ANSWER, ANSWER]
        before = {engine.settings.path: engine for engine in pool.running()}
        assert before.keys() == {gguf, second}

        assert (await answer(pool, third, settings=settings)).text == ANSWER
        running = {engine.settings.path for engine in pool.running()}
        assert third in running
        assert len(running) == 2
        assert sum(memory_of(engine.settings) for engine in pool.running()) <= room
        assert [path for path, engine in before.items() if not engine.alive] == [
            path for path in before if path not in running
        ]
    finally:
        await asyncio.to_thread(pool.close)


async def test_closing_the_pool_ends_the_children(gguf: Path) -> None:
    pool = EnginePool()
    await answer(pool, gguf)
    (engine,) = pool.running()
    await asyncio.to_thread(pool.close)
    assert not engine.alive


PARENT = """
import asyncio, os, signal, sys
from pathlib import Path
from swink_provider_local.engine import Settings
from swink_provider_local.pool import shared_pool

async def main():
    async with shared_pool().lease(Settings(Path(sys.argv[1]), 512, threads=1)) as engine:
        print(engine.pid, flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


FORK = """
        if fork := os.fork():
            print(fork, flush=True)
        signal.pause()
"""


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        if not os.path.isdir("/proc/self"):
            return True
        state = Path(f"/proc/{pid}/stat").read_text()
    except (ProcessLookupError, FileNotFoundError):  # it may end between the two
        return False
    return state.rpartition(")")[2].split()[0] != "Z"


def _wait_for_the_end(pid: int) -> None:
    end = time.monotonic() + PATIENCE
    while _is_running(pid):
        assert time.monotonic() < end
        time.sleep(0.02)


def test_the_child_ends_with_its_parent_however_that_ends(gguf: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(gguf)], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert _is_running(child)
        parent.kill()
    _wait_for_the_end(child)


def test_the_child_ends_even_while_a_fork_of_its_parent_holds_the_pipe(gguf: Path) -> None:
    forking = PARENT.replace("await asyncio.sleep(600)", FORK)
    with subprocess.Popen(
        [sys.executable, "-c", forking, str(gguf)], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child, fork = (int(parent.stdout.readline()) for _ in range(2))
        parent.kill()
        try:
            _wait_for_the_end(child)
        finally:
            os.kill(fork, signal.SIGKILL)


async def test_an_idle_engine_ends_and_the_next_call_starts_another(gguf: Path) -> None:
    clock = ManualClock()
    pool = EnginePool(idle_seconds=60, clock=clock)
    try:
        await answer(pool, gguf)
        (engine,) = pool.running()
        await clock.advance(60)
        await asyncio.to_thread(_wait_for_the_end, engine.pid)
        assert (await answer(pool, gguf)).text == ANSWER
    finally:
        await asyncio.to_thread(pool.close)


async def test_calls_at_the_same_time_take_turns(pool: EnginePool, gguf: Path) -> None:
    messages = await asyncio.gather(*(answer(pool, gguf) for _ in range(8)))
    assert [message.text for message in messages] == [ANSWER] * 8


async def test_the_key_is_shown_nowhere(
    pool: EnginePool, gguf: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        await answer(pool, gguf)
    keys = [engine.key for engine in pool.running()]
    assert keys
    for key in keys:
        assert key not in caplog.text
        assert key not in repr(pool.running())


async def test_a_server_that_runs_already_is_used_as_it_is(pool: EnginePool, gguf: Path) -> None:
    await answer(pool, gguf)
    engine = next(e for e in pool.running() if e.settings.path == gguf)
    unused = EnginePool()
    message = await answer(unused, "any", base_url=engine.url, api_key=engine.key)
    assert message.text == ANSWER
    assert unused.running() == []


# -- names and settings --------------------------------------------------------------------------


async def test_the_environment_names_the_default_model(
    pool: EnginePool, gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWINK_LOCAL_MODEL", str(gguf))
    assert (await answer(pool, "default")).text == ANSWER


async def test_the_engine_is_set_up_as_the_call_says(gguf: Path) -> None:
    pool = EnginePool()
    settings = {"context": 256, "gpu_layers": 0, "threads": 1, "cache_ram": 0, "cache_type": "f16"}
    try:
        assert (await answer(pool, gguf, settings=settings)).text == ANSWER
        assert [engine.settings for engine in pool.running()] == [
            Settings(gguf, 256, 0, 1, "f16", 0)
        ]
        # the model is too small for any other type, as the engine finds
        error = await failure(pool, gguf, settings={**settings, "cache_type": "q8_0"})
        assert (error.error_kind, "q8_0" in error.error_message) == (Kind.INTERNAL, True)
    finally:
        await asyncio.to_thread(pool.close)


async def test_a_type_of_cache_that_the_environment_misspells_is_named(
    pool: EnginePool, gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWINK_LOCAL_CACHE_TYPE", "q9")
    error = await failure(pool, gguf)
    assert error.error_kind is Kind.INVALID_REQUEST
    assert "SWINK_LOCAL_CACHE_TYPE must be one of f16, q8_0, q4_0, not 'q9'" in error.error_message


WRONG = [
    ("an unknown name", "nonsense", {}, Kind.MODEL_NOT_FOUND, "neither a known model"),
    (
        "a path to nothing",
        "/nowhere/a.gguf",
        {},
        Kind.MODEL_NOT_FOUND,
        "/nowhere/a.gguf: no such file",
    ),
    (
        "the home folder of an unknown user",
        "~nobody-here/a.gguf",
        {},
        Kind.MODEL_NOT_FOUND,
        "~nobody-here/a.gguf: no such file",
    ),
    ("a context of nothing", "x", {"context": 0}, Kind.INVALID_REQUEST, "at least 1"),
    ("negative layers", "x", {"gpu_layers": -1}, Kind.INVALID_REQUEST, "gpu_layers"),
    ("a negative cache", "x", {"cache_ram": -1}, Kind.INVALID_REQUEST, "cache_ram"),
]


@pytest.mark.parametrize(
    ("model", "settings", "kind", "said"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG]
)
async def test_mistakes(
    pool: EnginePool, model: str, settings: dict[str, Any], kind: Kind, said: str
) -> None:
    error = await failure(pool, model, settings=settings)
    assert error.error_kind is kind
    assert said in error.error_message


# -- downloads during a call ---------------------------------------------------------------------


class ModelHub(LoopbackServer):
    """Has one model, and sends it in ten pieces; with `stuck`, it never sends the last."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.content = path.read_bytes()
        self.stuck = False

    async def respond(self, exchange: Exchange) -> None:
        digest = hashlib.sha256(self.content).hexdigest()
        headers = {"X-Linked-Etag": digest, "X-Linked-Size": str(len(self.content))}
        await exchange.start(200, headers)
        if exchange.method != "HEAD":
            step = len(self.content) // 10 + 1
            for at in range(0, len(self.content), step):
                if self.stuck and at + step >= len(self.content):
                    await asyncio.Event().wait()
                await exchange.write(self.content[at : at + step])
            await exchange.end()
        exchange.close()


async def test_a_call_downloads_the_model_and_tells_how_far_it_is(
    pool: EnginePool, gguf: Path, tmp_path: Path
) -> None:
    async with (
        ModelHub(gguf) as server,
        client_of(pool, Hub(tmp_path, server.url)) as client,
        client.stream("local/acme/tiny-GGUF:tiny.gguf", "Hello") as stream,
    ):
        events = [event async for event in stream]
    assert isinstance(events[0], swink.Start)
    notices = [event for event in events if isinstance(event, swink.Notice)]
    assert notices
    assert {notice.code for notice in notices} == {"download"}
    assert notices[0].detail.startswith("acme/tiny-GGUF:tiny.gguf: ")
    assert " % of " in notices[0].detail
    assert len(notices) <= 21
    assert isinstance(events[-1], swink.Done)
    assert stream.message.text == ANSWER


async def test_leaving_during_the_download_stops_it(
    pool: EnginePool, gguf: Path, tmp_path: Path
) -> None:
    async with ModelHub(gguf) as server, client_of(pool, Hub(tmp_path, server.url)) as client:
        server.stuck = True
        async with client.stream("local/acme/tiny-GGUF:tiny.gguf", "Hello") as stream:
            async for event in stream:
                if isinstance(event, swink.Notice):
                    break
    assert stream.message.stop_reason is StopReason.ABORTED


async def test_a_download_that_fails_is_the_calls_failure(pool: EnginePool, tmp_path: Path) -> None:
    error = await failure(pool, "acme/tiny:tiny.gguf", Hub(tmp_path, offline=True))
    assert error.error_kind is Kind.MODEL_NOT_FOUND
    assert "HF_HUB_OFFLINE" in error.error_message


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="environments are read in /proc")
def test_the_engine_is_told_no_credential_of_anyone(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = ["OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "HF_TOKEN"]
    keys += ["PGPASSWORD", "GOOGLE_APPLICATION_CREDENTIALS", "some_api_key"]
    for name in keys:
        monkeypatch.setenv(name, "canary")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    process = engine._spawn()
    shown = Path(f"/proc/{process.pid}/environ")
    while not (text := shown.read_text()):  # the kernel shows none while the program is begun
        assert process.poll() is None
    process.communicate(input="null\n")
    environ = text.split("\0")

    assert [variable for variable in environ if "canary" in variable] == []
    assert "OMP_NUM_THREADS=1" in environ
    assert f"PATH={os.environ['PATH']}" in environ
