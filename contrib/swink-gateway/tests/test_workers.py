"""The shutdown of a gateway, and several worker processes behind one port."""

from __future__ import annotations

import asyncio
import json
import math
import mmap
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from serving import ask, serving, until

import swink_core as swink
from swink_gateway.commands.gateway import MEMORY_FOLDER, shared_store
from swink_gateway.policy.limits import Store
from swink_gateway.serving.server import Gateway
from swink_gateway.serving.shutdown import Shutdown, serve_until_stopped
from swink_gateway.serving.workers import TOGETHER_SECONDS, Room, Worker
from swink_testing.command_line import swink_command

CHAT = "/v1/chat/completions"
HI = {"model": "echo/echo", "messages": [{"role": "user", "content": "Hi"}]}


class Slow:
    """An upstream that sends one delta, and continues when the test allows it.

    If it `is_silent`, it also waits before the delta.
    """

    def __init__(self, is_silent: bool = False) -> None:
        self.go_on = asyncio.Event()
        self.is_silent = is_silent

    @swink.hookimpl(tryfirst=True)
    def stream(self, call: swink.Call) -> Any:
        return self._talk()

    async def _talk(self) -> AsyncIterator[Any]:
        yield swink.Start()
        if self.is_silent:
            await self.go_on.wait()
        yield swink.TextStart(0)
        yield swink.TextDelta(0, "first")
        await self.go_on.wait()
        yield swink.TextDelta(0, "second")
        yield swink.TextEnd(0)
        yield swink.Done(swink.StopReason.STOP)


def asked(session: aiohttp.ClientSession, gateway: Gateway, path: str, **more: Any) -> Any:
    body = {**HI, "max_tokens": 9, **more}
    return session.post(gateway.url + path, json=body)


async def test_an_active_answer_finishes_and_new_requests_are_refused() -> None:
    upstream = Slow()
    async with serving(upstream) as gateway, aiohttp.ClientSession() as session:
        async with asked(session, gateway, CHAT, stream=True) as answer:
            await answer.content.readany()
            draining = asyncio.ensure_future(gateway.drain(3600.0))
            await until(lambda: gateway.draining)
            url = gateway.url
            await until(lambda: not gateway._runner.sites)
            assert not draining.done()
            with pytest.raises(aiohttp.ClientConnectorError):
                await session.get(url)
            upstream.go_on.set()
            rest = await answer.content.read()
        await draining
    assert b"second" in rest
    assert b"[DONE]" in rest


ENDS = {
    CHAT: b"[DONE]",
    "/v1/messages": b"event: error",
    "/api/chat": b'"error"',
    "/v1/stream": b'"error"',
}


@pytest.mark.parametrize("path", ENDS)
async def test_an_answer_that_takes_too_long_ends_with_an_error(path: str) -> None:
    async with (
        serving(Slow()) as gateway,
        aiohttp.ClientSession() as session,
        asked(session, gateway, path, stream=True) as answer,
    ):
        await answer.content.readany()
        await gateway.drain(0.0)
        rest = await answer.content.read()
    assert ENDS[path] in rest, rest
    assert b"second" not in rest
    assert STOPPED.encode() in rest
    assert [words for words in (b"the caller", b"partial") if words in rest] == []


STOPPED = "the gateway was stopped before the answer was complete"

# (a path, the fields of a request to it)
REQUESTS: list[tuple[str, dict[str, Any]]] = [
    (CHAT, {**HI, "stream": True}),
    (CHAT, HI),
    ("/v1/messages", {**HI, "stream": True, "max_tokens": 9}),
    ("/v1/responses", {"model": "echo/echo", "input": "Hi", "stream": True}),
    (
        "/v1beta/models/echo/echo:streamGenerateContent",
        {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]},
    ),
    ("/api/chat", HI),
    ("/v1/stream", {**HI, "stream": False}),
]


async def stopped(gateway: Gateway) -> None:
    """Wait until the gateway has called its upstream, and stop it."""
    await until(lambda: len(gateway._calls._streams) == 1)
    await gateway.drain(0.0)


@pytest.mark.parametrize(("path", "body"), REQUESTS)
async def test_clients_may_retry_an_answer_that_has_not_begun(
    path: str, body: dict[str, Any]
) -> None:
    async with serving(Slow(is_silent=True)) as gateway:
        asking = asyncio.ensure_future(ask(gateway, path, body))
        await stopped(gateway)
        answer = await asking
    assert (answer.status, answer.headers["Retry-After"]) == (503, "5")
    assert "x-should-retry" not in answer.headers
    assert STOPPED.encode() in answer.body


async def test_a_swink_client_falls_back_when_its_gateway_is_stopped() -> None:
    async with serving(Slow(is_silent=True)) as gateway:
        there = {"proxy": {"base_url": gateway.url}}
        async with swink.Client(providers=there, retry=swink.RetryPolicy.none()) as client:
            asking = asyncio.ensure_future(client.complete(["proxy/echo/echo", "echo/echo"], "Hi"))
            await stopped(gateway)
            assert (await asking).text == "Hi"


async def test_a_swink_client_retries_a_stopped_gateway_before_the_first_output() -> None:
    async with (
        serving(Slow(is_silent=True)) as gateway,
        swink.Client() as client,
        client.stream("proxy/echo/echo", "Hi", base_url=gateway.url) as stream,
    ):
        stopping = asyncio.ensure_future(stopped(gateway))
        async for event in stream:
            if isinstance(event, swink.Retry | swink.Error):
                break
        await stopping
    assert isinstance(event, swink.Retry)
    assert (event.error_kind, event.error) == (swink.StreamErrorKind.NETWORK, STOPPED)


async def test_a_swink_client_fails_with_the_text_of_a_stopped_gateway_after_output() -> None:
    async with (
        serving(Slow()) as gateway,
        swink.Client() as client,
        client.stream("proxy/echo/echo", "Hi", base_url=gateway.url) as stream,
    ):
        async for event in stream:
            if isinstance(event, swink.TextDelta):
                await stopped(gateway)
    assert isinstance(event, swink.Error)
    assert (event.error_kind, event.error_message) == (swink.StreamErrorKind.NETWORK, STOPPED)
    assert event.stop_reason is swink.StopReason.ERROR


async def test_during_the_notice_requests_are_answered_and_connections_close() -> None:
    async with serving() as gateway:
        draining = asyncio.ensure_future(gateway.drain(0.0, notice=3600.0))
        await until(lambda: gateway.draining)
        ready = await ask(gateway, "/ready")
        assert (ready.status, ready.json) == (503, {"status": "draining"})
        assert (await ask(gateway, "/health")).status == 200
        answer = await ask(gateway, CHAT, HI)
        assert answer.status == 200
        assert answer.headers["Connection"] == "close"
        draining.cancel()


async def test_a_second_signal_stops_at_once_unless_it_comes_with_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now[0])
    shutdown = Shutdown()
    shutdown.tell()
    await shutdown.told()
    shutdown.tell()
    now[0] += 2 * TOGETHER_SECONDS
    with pytest.raises(SystemExit) as ended:
        shutdown.tell()
    assert ended.value.code == 130
    monkeypatch.undo()


async def test_the_drain_reports_the_active_answers() -> None:
    upstream, said = Slow(), list[str]()
    shutdown = Shutdown(3600.0, say=said.append)
    async with serving(upstream) as gateway, aiohttp.ClientSession() as session:
        serving_on = asyncio.ensure_future(serve_until_stopped(gateway, shutdown, None))
        async with asked(session, gateway, CHAT, stream=True) as answer:
            await answer.content.readany()
            shutdown.tell()
            await until(lambda: bool(said))
            upstream.go_on.set()
            await answer.content.read()
        await serving_on
        assert said == ["waiting for 1 answer; press Ctrl-C again to stop at once"]


async def test_without_active_answers_the_shutdown_is_immediate() -> None:
    said = list[str]()
    shutdown = Shutdown(3600.0, say=said.append)
    async with serving() as gateway:
        shutdown.tell()
        await serve_until_stopped(gateway, shutdown, None)
    assert said == []


# -- processes -------------------------------------------------------------------------------------


@contextmanager
def started(environment: dict[str, str], *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Start `swink gateway` and wait until it serves; `url` is its address."""
    process = subprocess.Popen(
        swink_command("gateway", "--port", "0", *arguments),
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def port_of(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert "serving" in line, line + process.stdout.read()
    return int(line.rsplit(":", 1)[1])


def children(pid: int) -> set[int]:
    """Return the child processes of a process."""
    return {int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


def status(port: int, path: str, timeout: float | None = None) -> int:
    connection = HTTPConnection("127.0.0.1", port, timeout)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


def get(port: int, path: str, headers: dict[str, str]) -> Any:
    """Return the rows of a list."""
    connection = HTTPConnection("127.0.0.1", port)
    try:
        connection.request("GET", path, headers=headers)
        return json.loads(connection.getresponse().read())["data"]
    finally:
        connection.close()


LINUX = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@LINUX
async def test_a_dead_worker_is_replaced_and_all_exit_together(
    swink_environment: dict[str, str], tmp_path: Path
) -> None:
    environment = {**swink_environment, "TMPDIR": str(tmp_path)}
    with started(environment, "--workers", "2") as parent:
        port = port_of(parent)
        await until(lambda: len(children(parent.pid)) == 2)
        first = children(parent.pid)
        for pid in first:
            os.kill(pid, signal.SIGKILL)
            assert status(port, "/ready") == 200  # by any worker
        await until(lambda: len(children(parent.pid) - first) == 2)
        assert status(port, "/ready") == 200
        parent.terminate()
        assert parent.stdout is not None
        said = parent.stdout.read()
        assert parent.wait() == 0
        for pid in first:
            assert f"worker {pid} exited with status -9; starting another one\n" in said
        assert said.endswith("stopped\n")
        left = [*os.listdir(tmp_path), *os.listdir(MEMORY_FOLDER)]
        assert [name for name in left if f"swink-gateway-{parent.pid}-" in name] == []


def interrupt(parent: subprocess.Popen[str]) -> None:
    """Send SIGINT to all processes of a gateway, as a terminal does."""
    for pid in (*children(parent.pid), parent.pid):
        os.kill(pid, signal.SIGINT)


@LINUX
async def test_ctrl_c_twice_ends_active_answers_without_a_traceback(
    swink_environment: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "team.toml"
    file.write_text(f'[store]\nengine = "sqlite"\npath = "{tmp_path}/ledger.db"\n')
    arguments = ["--workers", "2", "--config", str(file)]
    # like users: a process that stops at once leaves prometheus_client's files to the system
    environment = swink_environment | {"PYTHONWARNINGS": ""}
    with started(environment, *arguments) as parent:
        body = {**HI, "model": "echo/slow", "stream": True}
        body["messages"] = [{"role": "user", "content": "word " * 1000}]
        url = f"http://127.0.0.1:{port_of(parent)}{CHAT}"
        async with aiohttp.ClientSession() as session, session.post(url, json=body) as answer:
            await answer.content.readany()
            interrupt(parent)
            assert parent.stdout is not None
            said = ""
            while "waiting for 1 answer" not in said:
                line = await asyncio.to_thread(parent.stdout.readline)
                assert line, said
                said += line
            await asyncio.sleep(2 * TOGETHER_SECONDS)
            interrupt(parent)
            said += await asyncio.to_thread(parent.stdout.read)
        assert parent.wait() == 130
    assert re.search("^worker [0-9]+: waiting for 1 answer", said, re.MULTILINE)
    assert "Traceback" not in said
    assert "Exception" not in said


@LINUX
async def test_workers_do_not_outlive_their_parent(swink_environment: dict[str, str]) -> None:
    with started(swink_environment, "--workers", "2") as parent:
        port_of(parent)
        await until(lambda: len(children(parent.pid)) == 2)
        workers = children(parent.pid)
        parent.kill()
        await until(lambda: not any(is_running(pid) for pid in workers))
    left = os.listdir(MEMORY_FOLDER)
    assert [name for name in left if f"swink-gateway-{parent.pid}-" in name] == []


BUSY = """
import logging, os, signal, socket, sys
from swink_gateway.serving import workers

logging.basicConfig()
workers.KILL_SECONDS = 0.1
worker = workers.fork_workers(2, socket.socket(), drain=float(sys.argv[1]))
signal.signal(signal.SIGTERM, lambda *given: os.write(1, b"told\\n"))
worker.ready()
os.write(1, b"%d\\n" % worker.number)  # one write: both workers share the pipe
while True:
    signal.pause()
"""


@LINUX
@pytest.mark.parametrize(("drain", "signals"), [(0.0, 1), (3600.0, 2), (math.inf, 2)])
def test_workers_that_do_not_end_are_killed(drain: float, signals: int) -> None:
    command = [sys.executable, "-c", BUSY, str(drain)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        serving = sorted(parent.stdout.readline() for _ in range(2))
        parent.terminate()
        for _ in range(signals - 1):
            assert [parent.stdout.readline() for _ in range(2)] == [b"told\n", b"told\n"]
            time.sleep(1.5 * TOGETHER_SECONDS)
            parent.terminate()
        try:
            _, said = parent.communicate(timeout=60)
        finally:
            parent.kill()
    assert serving == [b"0\n", b"1\n"]
    assert parent.returncode == 1
    assert said.count(b"did not end in time; it was killed") == 2


FOREIGN = """
import os, signal, socket, subprocess
from swink_gateway.serving import workers

subprocess.Popen(["true"])
worker = workers.fork_workers(1, socket.socket())
worker.ready()
os.write(1, b"%d\\n" % worker.number)
signal.pause()
"""


@LINUX
def test_a_child_that_is_no_worker_may_end() -> None:
    """The first process of a container inherits the processes whose parents have died."""
    command = [sys.executable, "-c", FOREIGN]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"0\n"
        while len(children(parent.pid)) > 1:
            time.sleep(0.01)
        parent.terminate()
        _, said = parent.communicate()
    assert (parent.returncode, said) == (0, b"")


@pytest.mark.parametrize(
    ("store", "shared"),
    [
        (Store(), Store("sqlite", Path("workers/ledger"))),
        (Store("redis", url="redis://r"), Store("redis", Path("workers"), "redis://r")),
        (Store("redis", Path("mine"), "redis://r"), Store("redis", Path("mine"), "redis://r")),
        (Store("sqlite", Path("mine")), Store("sqlite", Path("mine"))),
    ],
    ids=["memory", "redis", "redis_with_a_path", "sqlite"],
)
def test_workers_keep_the_store_of_the_file(store: Store, shared: Store) -> None:
    assert shared_store(store, Path("workers")) == shared


KEY = '[keys.a]\nkey = "${TEAM_KEY}"\n'
BEST = KEY + '[routes.best]\ntiers = "echo/slow"\n'
OTHER = KEY + '[routes.other]\ntiers = "echo/echo"\noptions.api_key = "sk-of-the-file"\n'
FAULTY = KEY + '[routes.best]\ntires = "echo/echo"\n'


def change(parent: subprocess.Popen[str], file: Path, text: str, line: str) -> None:
    """Change the file, and wait until a worker has printed a line about it."""
    file.write_text(text)
    parent.send_signal(signal.SIGHUP)
    assert parent.stdout is not None
    while line not in (said := parent.stdout.readline()):
        assert said, "the gateway has exited"


def shown(pid: int) -> bytes:
    """Return the arguments and the environment of a process, as other processes can see them."""
    return b"".join(Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ"))


@LINUX
async def test_new_workers_start_from_the_last_good_configuration(
    swink_environment: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "team.toml"
    file.write_text(BEST)
    environment = {**swink_environment, "TEAM_KEY": "key-of-the-team"}
    with started(environment, "--workers", "2", "--config", str(file)) as parent:
        port = port_of(parent)
        await until(lambda: len(children(parent.pid)) == 2)
        first = children(parent.pid)
        change(parent, file, OTHER, "reloaded and in use")
        change(parent, file, FAULTY, "the previous configuration stays")
        for pid in first:
            os.kill(pid, signal.SIGKILL)
        assert status(port, "/v1/models", 60.0) == 401
        rows = get(port, "/v1/models", {"x-api-key": "key-of-the-team"})
        assert [row["id"] for row in rows if row["owned_by"] == "swink"] == ["other"]
        await until(lambda: len(children(parent.pid) - first) == 2)
        for pid in (parent.pid, *children(parent.pid)):
            assert b"sk-of-the-file" not in shown(pid)


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


async def test_a_worker_whose_parent_dies_during_its_start_shuts_down() -> None:
    heard, ready = os.pipe()
    alive, parents = os.pipe()
    for descriptor in (heard, parents):
        os.close(descriptor)
    worker = Worker(1, ready, alive, Room(mmap.mmap(-1, 1), 0))
    async with serving() as gateway, asyncio.timeout(10):
        await serve_until_stopped(gateway, Shutdown(), worker)
    os.close(alive)


def test_an_unknown_setting_is_reported(swink_environment: dict[str, str]) -> None:
    with started(swink_environment, "--setting", "nope", "--setting", "api") as process:
        assert process.stdout is not None
        told = process.stdout.readline()
        assert told == "--setting nope: no installed provider has this setting\n"
        assert "serving" in process.stdout.readline()


def test_an_unreadable_model_file_prevents_the_start(swink: Any, tmp_path: Path) -> None:
    file = tmp_path / "models.toml"
    file.write_text("x = [")
    done = swink("gateway", "--port", "0", SWINK_MODELS=str(file))
    assert (done.returncode, str(file) in done.stderr) == (1, True)


def test_an_error_in_the_first_worker_stops_all(swink: Any) -> None:
    done = swink("gateway", "--port", "0", "--workers", "2", "--route", "mine=nobody/any")
    assert done.returncode == 2
    assert done.stderr.count("nobody") == 1


DOWN = """
[routes.down]
tiers = [["echo/fail-overloaded"], ["echo/echo"]]
"""


@LINUX
async def test_each_worker_shows_the_circuit_that_one_of_them_found_open(
    swink_environment: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "team.toml"
    file.write_text(DOWN)
    with started(swink_environment, "--workers", "2", "--config", str(file)) as parent:
        port = port_of(parent)
        await until(lambda: len(children(parent.pid)) == 2)
        kept = HTTPConnection("127.0.0.1", port)  # all calls go to one worker
        for _ in range(swink.RetryPolicy().circuit_threshold):
            kept.request("POST", CHAT, json.dumps({**HI, "model": "down"}))
            answer = kept.getresponse()
            assert answer.status == 200, answer.read()
            answer.read()
        kept.close()
        await until(lambda: bool(circuits(port)))  # it is stored after the answer
        shown = {tuple(circuits(port)) for _ in range(20)}
        parent.terminate()
        assert parent.stdout is not None
        said = parent.stdout.read()
    [[line]] = shown
    place, model = "routes.down.tiers[0][0]", "echo/fail-overloaded"
    assert f'{{kind="overloaded",model="{model}",place="{place}"}}' in line
    assert f"{place}: {model} failed 5 requests in a row; its circuit is open" in said


def circuits(port: int) -> list[str]:
    """Return the open circuits that some worker shows."""
    connection = HTTPConnection("127.0.0.1", port)
    connection.request("GET", "/metrics")
    answer = connection.getresponse()
    lines = answer.read().decode().splitlines()
    assert answer.status == 200, lines
    connection.close()
    return [line for line in lines if line.startswith("swink_gateway_circuit_open")]
