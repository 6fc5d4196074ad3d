"""The client without await: threads, loops, forks, and the end of the program."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

import swink
from swink_recorder.recording import Recording, bundled_recordings
from swink_recorder.replay import ReplayServer


@pytest.fixture(scope="module")
def client() -> Iterator[swink.SyncClient]:
    with swink.SyncClient() as client:
        yield client


@dataclass
class Cat:
    name: str


def weather(city: str = "Paris") -> str:
    """Tell the weather."""
    return f"18 °C in {city}"


def test_a_stream_is_read_without_await(client: swink.SyncClient) -> None:
    with client.stream("echo/echo", "Hello there") as stream:
        events = list(stream)
        assert stream.result() == stream.message
    assert [type(event) for event in events[:2]] == [swink.Start, swink.TextStart]
    assert isinstance(events[-1], swink.Done)
    assert stream.message.text == "Hello there"
    assert stream.call.usage == stream.message.usage


def test_text_comes_without_await_and_raises_as_ever(client: swink.SyncClient) -> None:
    with client.stream("echo/echo", "Hello there") as stream:
        assert "".join(stream.text) == "Hello there"
    with (
        client.stream("echo/fail-auth", "Hi", retry=False) as failing,
        pytest.raises(swink.AuthenticationError),
    ):
        list(failing.text)


def test_a_loop_left_by_break_can_be_resumed(client: swink.SyncClient) -> None:
    got: list[Any] = []
    with client.stream("echo/echo", "Hello there") as stream:
        while not (got and isinstance(got[-1], swink.Done)):
            for event in stream:
                got.append(event)
                break
    assert "".join(e.delta for e in got if isinstance(e, swink.TextDelta)) == "Hello there"


def test_a_stream_that_is_left_is_closed(client: swink.SyncClient) -> None:
    with client.stream("echo/stall", "Hello there") as stream:
        for event in stream:
            if isinstance(event, swink.TextDelta):
                break
    assert stream.message.stop_reason is swink.StopReason.ABORTED
    assert stream.message.text == "Hello"


def test_another_thread_may_close_a_stream(client: swink.SyncClient) -> None:
    stream = client.stream("echo/stall", "Hello there")
    begun = threading.Event()
    got: list[Any] = []

    def read() -> None:
        for event in stream:
            got.append(event)
            if isinstance(event, swink.TextDelta):
                begun.set()

    reader = threading.Thread(target=read)
    reader.start()
    begun.wait()
    stream.close()
    reader.join()
    assert isinstance(got[-1], swink.Error)


def test_typed_answers_and_runs_come_without_await(client: swink.SyncClient) -> None:
    assert isinstance(client.answer("echo/echo", "Who?", type=Cat).parsed, Cat)
    with client.stream_answer("echo/echo", "Who?", type=Cat) as stream:
        *_, last = stream.partials
        assert stream.result().parsed == Cat(**last)
    with client.run("echo/tool", "Hi", tools=[weather]) as run:
        assert "".join(run.text) == "weather returned: 18 °C in Paris"
    assert (run.outcome, run.turns) == ("done", 2)
    assert run.usage is not None
    assert run.cost is not None
    assert len(run.conversation) == 4
    assert client.gather("echo/echo", ["a", "b"]).answers[1].text == "b"
    assert [one.text for one in client.gather("echo/echo", ["a", "b"])] == ["a", "b"]
    assert client.usage is not None
    assert client.cost is not None
    assert client.catalog.provider("echo") is not None


def test_a_call_needs_no_client() -> None:
    assert swink.complete_sync("echo/echo", "Hi").text == "Hi"
    assert isinstance(swink.answer_sync("echo/echo", "Hi", type=Cat).parsed, Cat)


async def test_it_works_inside_a_running_loop_as_notebooks_have() -> None:
    assert swink.complete_sync("echo/echo", "Hi").text == "Hi"


def test_use_inside_the_background_loop_raises(client: swink.SyncClient) -> None:
    async def ask() -> str:
        return client.complete("echo/echo", "Hi").text

    run = client.run("echo/tool", "Hi", tools=[ask])
    run.result()
    assert "inside its own event loop" in str(run.conversation[2].content)


def test_a_blocking_tool_may_use_the_client_that_runs_it(client: swink.SyncClient) -> None:
    def ask() -> str:
        return client.complete("echo/echo", "Hi").text

    run = client.run("echo/tool", "Hi", tools=[ask])
    run.result()
    assert run.conversation[2].content == "Hi"


@pytest.mark.parametrize("is_async", [False, True])
def test_a_tool_that_exits_ends_no_program(client: swink.SyncClient, is_async: bool) -> None:
    def f() -> None:
        sys.exit(0)

    async def g() -> None:
        sys.exit(0)

    f.__name__ = g.__name__ = "leave"
    run = client.run("echo/tool", "Hi", tools=[g if is_async else f])
    assert run.result().text == "leave failed: SystemExit: 0"
    assert client.complete("echo/echo", "Hi").text == "Hi"


def test_a_tool_that_interrupts_interrupts_its_caller_alone(client: swink.SyncClient) -> None:
    async def interrupt() -> None:
        raise KeyboardInterrupt

    run = client.run("echo/tool", "Hi", tools=[interrupt])
    with pytest.raises(KeyboardInterrupt):
        run.result()
    assert client.complete("echo/echo", "Hi").text == "Hi"


def test_a_closed_client_makes_no_calls() -> None:
    client = swink.SyncClient()
    client.close()
    client.close()
    with pytest.raises(swink.UsageError, match="the client is closed"):
        client.complete("echo/echo", "Hi")


def test_a_closed_client_stops_the_tools_of_a_run_in_another_thread() -> None:
    client = swink.SyncClient()
    began = threading.Event()

    async def hold() -> None:
        began.set()
        await asyncio.Event().wait()

    run = client.run("echo/tool", "Hi", tools=[hold])
    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(run.result)
        began.wait()
        client.close()
        with pytest.raises(swink.StreamAborted, match="the run was closed"):
            reader.result()
    assert run.outcome == "aborted"


CALLS, THREADS = 1000, 8


def test_many_calls_of_many_threads_share_one_pool() -> None:
    [folder] = [f for f in bundled_recordings("swink_provider_openai") if f.name == "text"]
    recording = Recording.load(folder)
    with (
        ReplayServer() as server,
        swink.SyncClient() as client,
        ThreadPoolExecutor(THREADS) as pool,
    ):
        there: Any = {"base_url": server.add("it", recording), "api_key": "none"}

        def ask(_: int) -> str:
            return client.complete("openai/gpt-4o", "Hi", settings={"api": "chat"}, **there).text

        texts = set(pool.map(ask, range(CALLS)))
        connections = {id(exchange._connection) for exchange in server.exchanges}
        assert len(server.exchanges) == CALLS
    assert len(texts) == 1
    assert len(connections) <= THREADS


PROGRAMS = {
    "left open at the end": """
import swink
client = swink.SyncClient()
print(client.complete("echo/echo", "Hello").text)
""",
    "left in the middle of a stream": """
import swink
stream = swink.SyncClient().stream("echo/stall", "Hello there")
print(next(stream.text))
""",
    "dropped by whoever made it": """
import gc, swink
from swink_judge.strict import strict_server
with strict_server("openai") as server:
    for _ in range(3):
        own = {"openai": {"api_key": "k", "base_url": server.url}}
        swink.SyncClient(providers=own).complete("openai/gpt-5.4", "Hi")
        stream = swink.SyncClient(providers=own).stream("openai/gpt-5.4", "Hi")
        gc.collect()  # which leaves a stream its client
        assert stream.result().stop_reason == "stop"
print("Hello")
""",
    "after a fork": """
import os, swink
client = swink.SyncClient()
client.complete("echo/echo", "Hello")
if os.fork() == 0:
    print(client.complete("echo/echo", "Hello").text, flush=True)
    os._exit(0)
os.wait()
""",
    "with a stream that a forked child touches": """
import os, swink
stream = swink.SyncClient().stream("echo/stall", "Hello")
events = iter(stream)
next(events)
child = os.fork()
if child == 0:
    refused = 0
    for touch in (lambda: next(events), stream.result, stream.close, lambda: list(stream.text)):
        try:
            touch()
        except swink.UsageError:
            refused += 1
    os._exit(refused)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4
next(events)
stream.close()
print("Hello")
""",
    "beside a tool that goes on past its limit": """
import threading, swink
@swink.tool(timeout=0.01)
def wait():
    threading.Event().wait()
async def main():
    run = swink.Client().run("echo/tool", "Hi", tools=[wait])
    assert "took longer" in (await run.result()).text
import asyncio
asyncio.run(main())
print("Hello")
""",
    "in two event loops": """
import asyncio, swink
client = swink.SyncClient()
async def main():
    return client.complete("echo/echo", "Hello").text
print({asyncio.run(main()), asyncio.run(main())}.pop())
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_ends_whatever_it_leaves_open(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", PROGRAMS[name]],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "Hello\n"), done.stderr
    assert "Unclosed" not in done.stderr


INTERRUPTED = """
import os, signal, threading, swink
signal.signal(signal.SIGINT, signal.default_int_handler)
with swink.SyncClient() as client, client.stream("echo/stall", "Hello there") as stream:
    try:
        for piece in stream.text:
            threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
    except KeyboardInterrupt:
        print(stream.message.text)
"""


def test_an_interrupt_ends_the_wait_and_the_work() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "Hello\n"), done.stderr
