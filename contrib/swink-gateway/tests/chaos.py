"""Chaos test of two gateways with several workers and one Redis: `chaos.py --minutes 10`.

First, 1,000 slow streams run at two workers of 512. Then the script kills workers, kills, stops and
restarts Redis, makes an upstream fail and hang, fills the disk of the ledger, sends bodies that
take much memory, and rewrites the configuration every second, sometimes with a fault. One of the
gateways may open few files; if libfaketime is installed, its clock is set ahead and back, too. At
the same time, clients send requests over two protocols and check the answers strictly. The exit
code is 1 if one of these happens:

* an answer looks complete but is not, or a frame or an HTTP chunk violates its protocol;
* an answer is cut off, or no gateway answers, although no worker with the connection was killed;
* an answer fails with an error although its upstream did not break off after the first output;
* a key without limits is refused, or a new configuration never takes effect;
* one of the 1,000 slow streams is refused;
* the processes of a gateway take more than 512 MiB;
* calls are missing in the ledger, beyond those of killed workers;
* a key exceeds its requests per minute, concurrent requests or dollars by more than one call per
  process; or, before the chaos begins, by any call.

The upstreams, which run in this process, count the calls. A client whose worker was killed retries,
like real clients; an answer that must succeed is retried only before its first output. No check
depends on speed: a call was admitted at some time between its start and its arrival at an upstream,
and a limit per minute counts as exceeded only if every possible time exceeds it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import resource
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent))

from attrs import define, field

from swink_test_helpers.redis_server import RedisServer
from swink_testing.command_line import clean_environment, swink_command

WORKERS = 2
GATEWAYS = 2
CLIENTS = 24
PROCESSES = WORKERS * GATEWAYS

STARTING_SECONDS = 5.0
"""After which the second worker of a gateway is ready, too, on a busy machine."""

CROWD = 1000
CROWD_SECONDS = 120
"""For how long it may take until all are under way, on a busy machine."""

FEW_FILES = 512
"""The limit of descriptors of the second gateway."""

MEMORY_BYTES = 512 * 1024 * 1024
FAT_BODIES = 12
FAT_BYTES = 8_000_000

DISK_MEGABYTES = 64
DISK_A_MINUTE = 8
"""Megabytes of the ledger's disk, and how many more for each minute."""

MODEL = "gpt-4.1-mini"
TOKENS = {"prompt_tokens": 5, "completion_tokens": 1000, "total_tokens": 1005}
DOLLARS = 5 * 0.4e-6 + 1000 * 1.6e-6
"""The cost of an answer, which equals the reservation for that many tokens."""

WORDS = [f" word{number}" for number in range(20)]
TEXT = "".join(WORDS)

REQUESTS_A_MINUTE = 60
STREAMS = 4
BUDGET = 60 * DOLLARS
BUDGETS = 8
"""Keys that are used one after the other, so that budgets are used up again and again."""

CALM = 20
KEYS = {
    "free": "",
    "calm": f"requests_per_minute = {CALM}",
    "rated": f"requests_per_minute = {REQUESTS_A_MINUTE}",
    "busy": f"streams = {STREAMS}",
    **{f"poor{number}": f"dollars_per_day = {BUDGET}" for number in range(BUDGETS)},
}
SHOWN = {name: f"secret-of-{name}" for name in KEYS}
TEMPERATURES = (0.5, 0.6, 0.7)
"""A number that identifies each valid configuration."""

ATTEMPTS = 6

HANGING_SECONDS = 60.0
FIRST_EVENT_SECONDS = 8.0
"""For how long an upstream that hangs says nothing, and for how long the gateway waits for it."""


CLOCK_HOURS = ("+0", "+1h", "-1h")
"""The differences between the clock of the second gateway and the right time."""


class Broken(Exception):
    """A violation that a client observed."""


class Cut(Exception):
    """A connection that ended before the answer did."""


# -- the upstreams ---------------------------------------------------------------------------------


@define
class Upstream:
    """An upstream with OpenAI's Chat Completions; `mood` selects its failure."""

    name: str
    mood: str = "well"
    port: int = 0

    async def serve(self, found: Record) -> None:
        self._found = found
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._server = server

    _found: Any = None
    _server: Any = None

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                size = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                asked = json.loads(await reader.readexactly(size))
                call = asked["messages"][-1]["content"]
                self._found.temperatures[asked["temperature"]] += 1
                if not await self._say(call, self.mood, writer):
                    break
        writer.close()

    async def _say(self, call: str, mood: str, writer: asyncio.StreamWriter) -> bool:
        if mood in ("overloaded", "throttled"):
            status = {"overloaded": "503 Busy", "throttled": "429 Slow"}[mood]
            body = b'{"error": {"message": "not now", "type": "server_error"}}'
            writer.write(
                b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
                % (status.encode(), len(body), body)
            )
            return True
        if mood == "hangs up":
            return False
        if call.startswith("crowd"):
            return await self._stay(writer)
        if mood == "hangs":
            self._found.broken.add(call)
            with suppress(asyncio.CancelledError):  # at the end of the run
                await asyncio.sleep(HANGING_SECONDS)
            return False
        with self._found.under_way(call) as ends:
            return await self._stream(call, mood, writer, ends)

    async def _stay(self, writer: asyncio.StreamWriter) -> bool:
        """Say a word, and the rest when the crowd is there."""
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        _frame(writer, choices=[{"index": 0, "delta": {"content": TEXT}}])
        await writer.drain()
        await self._found.crowd_may_end.wait()
        _frame(writer, choices=[{"index": 0, "delta": {}, "finish_reason": "stop"}], usage=TOKENS)
        writer.write(_chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")
        await writer.drain()
        return True

    async def _stream(
        self, call: str, mood: str, writer: asyncio.StreamWriter, ends: Callable[[], None]
    ) -> bool:
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        for number, word in enumerate(WORDS):
            if mood == "breaks off" and number == len(WORDS) // 2:
                self._found.broken.add(call)
                return False
            _frame(writer, choices=[{"index": 0, "delta": {"content": word}}])
            await writer.drain()
            await asyncio.sleep(random.uniform(0.0, 0.1))
        _frame(writer, choices=[{"index": 0, "delta": {}, "finish_reason": "stop"}])
        _frame(writer, choices=[], usage=TOKENS)
        ends()
        writer.write(_chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")
        await writer.drain()
        return True


def _frame(writer: asyncio.StreamWriter, **said: Any) -> None:
    whole = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": MODEL, **said}
    writer.write(_chunk(b"data: " + json.dumps(whole).encode() + b"\n\n"))


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


@define
class Record:
    """The calls that reached the upstreams, and the observations of the clients."""

    sent: dict[str, float] = field(factory=dict)
    came: dict[str, float] = field(factory=dict)
    """The times at which each call was sent and first reached an upstream."""
    paid: Counter[str] = field(factory=Counter)
    at_a_time: Counter[str] = field(factory=Counter)
    most_at_a_time: Counter[str] = field(factory=Counter)
    temperatures: Counter[float] = field(factory=Counter)
    broken: set[str] = field(factory=set)
    crowd_may_end: asyncio.Event = field(factory=asyncio.Event)
    doomed: set[tuple[int, int]] = field(factory=set)
    seen: Counter[str] = field(factory=Counter)
    faults: list[str] = field(factory=list)

    @contextmanager
    def under_way(self, call: str) -> Iterator[Callable[[], None]]:
        """Count an answer as active; call the yielded function to end it and count its cost."""
        self.came.setdefault(call, time.monotonic())
        key, ended = call.split()[0], False
        self.at_a_time[key] += 1
        self.most_at_a_time[key] = max(self.most_at_a_time[key], self.at_a_time[key])

        def ends() -> None:
            nonlocal ended
            ended = True
            self.at_a_time[key] -= 1
            self.paid[key] += 1

        try:
            yield ends
        finally:
            if not ended:
                self.at_a_time[key] -= 1

    def fault(self, what: str) -> None:
        print("FAULT", what, flush=True)
        self.faults.append(what)


# -- the clients -----------------------------------------------------------------------------------


async def _exchange(port: int, path: str, key: str, body: bytes) -> tuple[int, int, bytes, bool]:
    """Return the client's port, the status, the body, and whether the body is complete."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError as error:
        raise Cut("nobody listens") from error
    own = writer.get_extra_info("sockname")[1]
    writer.write(
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {key}\r\n"
        f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        + body
    )
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        status = int(head.split(b" ", 2)[1])
        if b"content-length: " in head:
            size = int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
            return own, status, await reader.readexactly(size), True
        data = b""
        while True:
            line = await reader.readuntil(b"\r\n")
            size = int(line, 16)
            data += await reader.readexactly(size)
            if await reader.readexactly(2) != b"\r\n":
                raise Broken("a chunk has another length than announced")
            if size == 0:
                return own, status, data, True
    except asyncio.IncompleteReadError:
        return own, 0, b"", False
    except ConnectionError:
        return own, 0, b"", False
    except ValueError as error:
        raise Broken(f"no HTTP: {error}") from error
    finally:
        writer.close()


def _chat(data: bytes) -> tuple[str, bool, str]:
    """Return the text, whether it is complete, and the error message."""
    text, finished, failure = "", False, ""
    frames = [frame for frame in _frames(data) if not frame.startswith(":")]
    if not frames or frames.pop() != "data: [DONE]":
        raise Broken("the last frame is not [DONE]")
    for frame in frames:
        said = json.loads(frame.removeprefix("data: "))
        if failure:
            raise Broken("a frame after a failure")
        if "error" in said:
            failure = str(said["error"]["message"])
            if finished:
                raise Broken("a failure after a finish")
            continue
        for choice in said["choices"]:
            if finished:
                raise Broken("a frame after a finish")
            text += choice["delta"].get("content") or ""
            finished = choice.get("finish_reason") == "stop"
    return text, finished, failure


MESSAGE = re.compile(
    "(ping )*message_start (ping )*content_block_start (ping |content_block_delta )*"
    "content_block_stop "
    "(ping )*message_delta (ping )*message_stop $"
)
"""The events of one text (https://platform.claude.com/docs/en/build-with-claude/streaming).

A stream may contain any number of pings. They come first if the model is silent at the beginning.
"""


def _messages(data: bytes) -> tuple[str, bool, str]:
    text, events, failure = "", "", ""
    for frame in _frames(data):
        if failure:
            raise Broken("a frame after a failure")
        lines = dict(line.split(": ", 1) for line in frame.split("\n"))
        said = json.loads(lines["data"])
        if said["type"] != lines["event"]:
            raise Broken("an event name that differs from its type")
        events += said["type"] + " "
        if said["type"] == "error":
            failure = said["error"]["message"]
            if "message_stop" in events:
                raise Broken("a failure after the end")
        elif said["type"] == "content_block_delta":
            text += said["delta"]["text"]
    if not (failure or MESSAGE.match(events)):
        raise Broken(f"wrong order of events: {events[:2000]}")
    return text, not failure, failure


def _frames(data: bytes) -> list[str]:
    frames = data.decode().split("\n\n")
    if frames.pop() != "":
        raise Broken("the last frame is incomplete")
    return frames


PROTOCOLS = {"/v1/chat/completions": _chat, "/v1/messages": _messages}


@define
class Client:
    """A client that sends one call after the other."""

    number: int
    ports: list[int]
    found: Record

    async def run(self, seconds: float) -> None:
        count, begin = 0, time.monotonic()
        while (passed := time.monotonic() - begin) < seconds:
            count += 1
            poor = f"poor{int(passed / seconds * BUDGETS)}"
            name = random.choice(["free", "rated", "busy", poor])
            await self.call(name, f"{name} {self.number}-{count}")

    async def call(self, name: str, call: str) -> None:
        path = random.choice([*PROTOCOLS])
        for attempt in range(ATTEMPTS):
            port = self.ports[(self.number + attempt) % len(self.ports)]
            try:
                if await self._once(port, path, name, f"{call}-{attempt}"):
                    return
            except (Broken, KeyError, ValueError) as error:
                self.found.fault(f"{path} {call}: {error!r}")
                return
            except Cut:
                self.found.seen["refused by one gateway"] += 1
            await asyncio.sleep(0.05)
        self.found.fault(f"{path} {call}: no gateway answers")

    async def _once(self, port: int, path: str, name: str, call: str) -> bool:
        said = {
            "model": "best", "stream": True, "max_tokens": 1000,
            "messages": [{"role": "user", "content": call}],
        }  # fmt: skip
        body = json.dumps(said).encode()
        seen = self.found.seen
        self.found.sent[call] = time.monotonic()
        own, status, data, ended = await _exchange(port, path, SHOWN[name], body)
        if not ended:
            if (port, own) not in self.found.doomed:
                raise Broken("cut off by a worker that was not killed")
            seen["cut off with its worker"] += 1
            return False
        if status == 429 and name != "free":
            seen[f"{name}: refused"] += 1
            await asyncio.sleep(random.uniform(0.2, 1.0))
            return True
        if status == 503 and b"MB are under way" in data:
            seen["told to come again for want of memory"] += 1
            return False
        if status in (502, 503) and call in self.found.broken:
            seen["failed with a status, as its upstream did"] += 1
            return True
        if status != 200:
            raise Broken(f"HTTP {status}: {data[:300]!r}")
        text, complete, failure = PROTOCOLS[path](data)
        if complete and text == TEXT:
            seen[f"{name}: answered"] += 1
        elif complete:
            raise Broken(f"complete, but the text is {text!r}")
        elif call not in self.found.broken:
            raise Broken(f"failed without a cause: {failure}")
        else:
            seen["failed in words, as its upstream did"] += 1
        return True


# -- the chaos -------------------------------------------------------------------------------------


def _children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _clients_of(pid: int, port: int) -> set[tuple[int, int]]:
    """Return the ports of the gateway and of the clients for the open connections of a process."""
    inodes = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            inodes.add(os.readlink(descriptor))
    found = set()
    for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if f"socket:[{fields[9]}]" in inodes:
            local, remote = (int(one.split(":")[1], 16) for one in fields[1:3])
            if local == port:
                found.add((local, remote))
    return found


def _memory_of(pid: int) -> int:
    """Return the memory of a process in bytes; a page that several share counts in parts."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


@contextmanager
def _small_disk(folder: Path, megabytes: int) -> Iterator[Path]:
    """Mount a disk in memory, where that is allowed; elsewhere the disk is never full."""
    place = folder / "disk"
    place.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(place)]
    mounted = subprocess.run(["mount", *options], check=False).returncode == 0
    if not mounted:
        print("no disk can be mounted here: none is full")
    try:
        yield place
    finally:
        if mounted:
            subprocess.run(["umount", str(place)], check=False)


HANGS = 0.3
"""The part of Redis's failures in which it hangs, and does not die."""


@define
class Chaos:
    """The disturbances; `happened` counts them."""

    found: Record
    redis: RedisServer
    upstream: Upstream
    parents: dict[int, int]
    """The port of each gateway, by its parent's process id."""
    config: Path
    texts: list[str]
    disk: Path
    clock: Path
    happened: Counter[str] = field(factory=Counter)
    most_memory: int = 0

    async def kill_workers(self) -> None:
        while True:
            await asyncio.sleep(random.uniform(1.0, 4.0))
            parent = random.choice([*self.parents])
            if len(workers := _children(parent)) < WORKERS:
                continue
            pid = random.choice(workers)
            with suppress(ProcessLookupError, FileNotFoundError):  # it has already exited
                os.kill(pid, signal.SIGSTOP)
                self.found.doomed |= _clients_of(pid, self.parents[parent])
                os.kill(pid, signal.SIGKILL)
                self.happened["workers killed"] += 1

    async def kill_redis(self) -> None:
        while True:
            await asyncio.sleep(random.uniform(8.0, 15.0))
            if random.random() < HANGS:
                os.kill(self.redis.pid, signal.SIGSTOP)
                self.happened["times Redis hung"] += 1
                await asyncio.sleep(random.uniform(1.0, 6.0))
                os.kill(self.redis.pid, signal.SIGCONT)
                continue
            self.redis.kill()
            self.happened["times Redis was killed"] += 1
            await asyncio.sleep(random.uniform(1.0, 6.0))
            await asyncio.to_thread(self.redis.start)

    async def fill_disk(self) -> None:
        """Leave no room on the ledger's disk for some seconds."""
        while True:
            await asyncio.sleep(random.uniform(10.0, 20.0))
            filler = self.disk / "filler"
            with filler.open("wb", buffering=0) as file, suppress(OSError):
                while file.write(bytes(1024 * 1024)):
                    pass
            self.happened["times the disk was full"] += 1
            await asyncio.sleep(random.uniform(1.0, 6.0))
            filler.unlink()

    async def set_clock(self) -> None:
        """Set the clock of the second gateway ahead or back by an hour, and correct it again."""
        while True:
            await asyncio.sleep(random.uniform(5.0, 15.0))
            hours = random.choice(CLOCK_HOURS)
            write_clock(self.clock, hours)
            self.happened[f"clocks set to {hours}"] += 1

    async def send_fat_bodies(self) -> None:
        """Send bodies of small objects, which take much more memory than bytes, all at once."""
        objects = b",".join([b'{"k":"v"}'] * (FAT_BYTES // 10))
        body = b'{"model":"best","messages":[],"metadata":{"a":[' + objects + b"]}}"
        while True:
            await asyncio.sleep(random.uniform(5.0, 10.0))
            port = random.choice([*self.parents.values()])
            path = "/v1/chat/completions"
            sending = (_exchange(port, path, SHOWN["free"], body) for _ in range(FAT_BODIES))
            for answer in await asyncio.gather(*sending, return_exceptions=True):
                status = answer[1] if isinstance(answer, tuple) else 0
                self.happened[f"fat bodies answered with {status or 'nothing'}"] += 1
                if status not in (0, 400, 413, 503):
                    self.found.fault(f"a fat body was answered with {status}")

    async def weigh(self) -> None:
        """Watch the memory of each gateway: what its processes have, shared pages in parts."""
        while True:
            await asyncio.sleep(0.25)
            for parent in self.parents:
                size = sum(map(_memory_of, (parent, *_children(parent))))
                self.most_memory = max(self.most_memory, size)
                if size > MEMORY_BYTES:
                    self.found.fault(f"a gateway takes {size / 1e6:.0f} MB")

    async def flap(self) -> None:
        moods = ["well", "overloaded", "throttled", "hangs up", "breaks off", "hangs"]
        while True:
            self.upstream.mood = random.choice(moods)
            self.happened["moods of the upstream"] += 1
            await asyncio.sleep(random.uniform(0.5, 3.0))

    async def reload(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            text = random.choice(self.texts)
            fresh = self.config.with_suffix(".new")
            fresh.write_text(text)
            fresh.replace(self.config)
            for parent in self.parents:
                os.kill(parent, signal.SIGHUP)
            self.happened["configurations"] += 1


def write_clock(clock: Path, hours: str) -> None:
    fresh = clock.with_suffix(".new")
    fresh.write_text(f"{hours}\n")
    fresh.replace(clock)


SLEEP = """
import select, time
time.sleep = lambda seconds: select.select([], [], [], seconds)
"""
"""The module `sitecustomize` of a process with libfaketime, under which `time.sleep` raises EINVAL.

The library subtracts its offset from the absolute time that CPython 3.11 passes to the system.
"""


def _clock_of(file: Path) -> dict[str, str]:
    """Return the variables with which a process has the clock that `file` states.

    The dictionary is empty if libfaketime is not installed. The monotonic clock is not changed: it
    does not change either when an operator sets the clock of a machine.
    """
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    if not found:
        print("libfaketime is not installed: all clocks stay right", flush=True)
        return {}
    modules = file.with_name("modules")
    modules.mkdir()
    (modules / "sitecustomize.py").write_text(SLEEP)
    return {
        "PYTHONPATH": str(modules),
        "LD_PRELOAD": str(found[0]),
        "FAKETIME_TIMESTAMP_FILE": str(file),
        "FAKETIME_CACHE_DURATION": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "NO_FAKE_STAT": "1",
    }


def _texts(ports: list[int], redis: str, ledger: Path) -> list[str]:
    tiers = ", ".join(
        f'{{ model = "openai/{MODEL}", options = {{ api_key = "k", settings = {{ api = "chat" }}, '
        f'base_url = "http://127.0.0.1:{port}/v1" }} }}'
        for port in ports
    )
    quick = "retry = { retries = { network = 1, overloaded = 1, throttled = 1 } }"
    keys = "".join(
        f'[keys.{name}]\nkey = "${{{name.upper()}}}"\n{limits}\n' for name, limits in KEYS.items()
    )
    good = (
        f'[store]\nengine = "redis"\nurl = "{redis}"\nledger = "{ledger}"\n'
        f"[routes.best]\ntiers = [{tiers}]\n"
        f"time_limits = {{ first_event = {FIRST_EVENT_SECONDS} }}\n"
        f"options = {{ temperature = %s, {quick} }}\n{keys}"
    )
    return [*(good % one for one in TEMPERATURES), "[routes.best]\ntiers = 5\n"]


async def run(minutes: float, folder: Path, disk: Path) -> int:
    found = Record()
    flapping, steady = Upstream("flapping"), Upstream("steady")
    await flapping.serve(found)
    await steady.serve(found)
    redis = RedisServer(folder / "redis")
    (folder / "redis").mkdir()
    redis.start()
    config = folder / "team.toml"
    ledger = disk / "ledger.db"
    texts = _texts([flapping.port, steady.port], redis.url, ledger)
    config.write_text(texts[0])
    environment = clean_environment(folder)
    environment |= {"PYTHONWARNINGS": ""} | {name.upper(): secret for name, secret in SHOWN.items()}
    clock = folder / "clock"
    write_clock(clock, CLOCK_HOURS[0])
    changed = _clock_of(clock)
    processes = []
    for number in range(GATEWAYS):
        processes.append(
            await asyncio.create_subprocess_exec(
                *swink_command(
                    "gateway", "--port", "0", "--workers", str(WORKERS), "--config", str(config)
                ),
                env={**environment, **changed} if number else environment,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                preexec_fn=_few_files if number else None,
            )
        )
    parents: dict[int, int] = {}
    last: deque[bytes] = deque(maxlen=40)
    readers = []
    for process in processes:
        assert process.stdout is not None
        while b"serving" not in (line := await process.stdout.readline()):
            print(line.decode().rstrip(), flush=True)
            if not line:
                return 1
        parents[process.pid] = int(line.rsplit(b":", 1)[1])
        readers.append(asyncio.ensure_future(_drain(process.stdout, last)))
    clients = [Client(number, [*parents.values()], found) for number in range(CLIENTS)]
    await asyncio.gather(
        *(client.call("calm", f"calm {n}-{client.number}") for client in clients for n in range(2))
    )
    await asyncio.sleep(STARTING_SECONDS)
    await _crowd(found, next(iter(parents.values())))
    chaos = Chaos(found, redis, flapping, parents, config, texts, disk, clock)
    under_way = [
        asyncio.ensure_future(one())
        for one in (
            chaos.kill_workers,
            chaos.kill_redis,
            chaos.flap,
            chaos.reload,
            chaos.fill_disk,
            *([chaos.set_clock] if changed else []),
            chaos.send_fat_bodies,
            chaos.weigh,
        )
    ]
    asking = asyncio.gather(*(client.run(minutes * 60) for client in clients))
    tasks: list[asyncio.Future[Any]] = [asking, *under_way]
    ends = [asyncio.ensure_future(process.wait()) for process in processes]
    await asyncio.wait([*tasks, *ends], return_when=asyncio.FIRST_COMPLETED)
    if not asking.done():
        found.fault("a gateway or a disturbance ended before the clients did")
    for task in tasks:
        task.cancel()
    for task in tasks:
        with suppress(asyncio.CancelledError):
            await task
    for process in processes:
        process.terminate()
    codes = [await process.wait() for process in processes]
    with suppress(FileNotFoundError, ProcessLookupError):
        redis.kill()
    if any(codes):
        found.fault(f"the gateways exited with {codes}")
    _hold_to_limits(found)
    _hold_to_ledger(found, ledger, chaos.happened["workers killed"])
    print(f"{chaos.most_memory / 2**20:6.0f} MiB of a gateway at most")
    for name, count in [*sorted(chaos.happened.items()), *sorted(found.seen.items())]:
        print(f"{count:6} {name}")
    if found.faults:
        print(b"".join(last).decode())
    print(f"{len(found.faults)} faults")
    return 1 if found.faults else 0


def _few_files() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (FEW_FILES, FEW_FILES))


async def _crowd(found: Record, port: int) -> None:
    """Have many slow streams under way at one gateway, none of which may be refused."""
    said = {
        "model": "best", "stream": True, "messages": [{"role": "user", "content": "crowd"}],
    }  # fmt: skip
    body = json.dumps(said).encode()
    asking = [
        asyncio.ensure_future(_exchange(port, "/v1/chat/completions", SHOWN["free"], body))
        for _ in range(CROWD)
    ]
    for _ in range(CROWD_SECONDS):
        await asyncio.sleep(1.0)
        if found.temperatures.total() >= CROWD or any(one.done() for one in asking):
            break
    found.crowd_may_end.set()
    statuses = Counter(status for _, status, *_ in await asyncio.gather(*asking))
    print(f"{CROWD:6} slow streams at one gateway: {dict(statuses)}", flush=True)
    if statuses != {200: CROWD}:
        found.fault(f"of {CROWD} slow streams, these had another status: {dict(statuses)}")


def _hold_to_ledger(found: Record, ledger: Path, kills: int) -> None:
    """Find calls that are missing in the ledger: each kill may lose a second of rows."""
    with closing(sqlite3.connect(ledger)) as database:
        [[rows, calls]] = database.execute("SELECT count(*), count(DISTINCT call) FROM attempts")
    print(f"{rows:6} rows of {calls} calls in the ledger")
    answered = sum(count for name, count in found.seen.items() if name.endswith(": answered"))
    print(f"{answered:6} calls were answered, and {kills} workers killed")
    if calls < answered - kills * CLIENTS:
        found.fault(f"{answered} calls were answered, and {calls} are in the ledger")


async def _drain(stream: asyncio.StreamReader, last: deque[bytes]) -> None:
    while line := await stream.readline():
        last.append(line)


def _hold_to_limits(found: Record) -> None:
    """Report limits that were exceeded by more than one call per process."""
    _hold("calls of a key in a minute", _in_a_minute(found, "rated"), REQUESTS_A_MINUTE, found)
    _hold("calls of a key in a minute, in calm", _in_a_minute(found, "calm"), CALM, found, 0)
    _hold("answers of a key at a time", found.most_at_a_time["busy"], STREAMS, found)
    for key, paid in sorted(found.paid.items()):
        if key.startswith("poor"):
            _hold(f"paid calls of the key {key}", paid, BUDGET / DOLLARS, found)
    for temperature in TEMPERATURES:
        if not found.temperatures[temperature]:
            found.fault(f"the configuration with the temperature {temperature} was never used")


def _hold(what: str, taken: int, most: float, found: Record, more: int = PROCESSES) -> None:
    print(f"{taken:6} {what}, of {most:g}")
    if taken > most + more:
        found.fault(f"{taken} {what}, of {most:g}")


def _in_a_minute(found: Record, key: str) -> int:
    """Return the minimum number of a key's calls that were admitted within some minute."""
    calls = [(found.sent[call], at) for call, at in found.came.items() if call.split()[0] == key]
    return max(
        (sum(first <= sent and came < first + 60 for sent, came in calls) for first, _ in calls),
        default=0,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=None)
    asked = parser.parse_args()
    random.seed(asked.seed)
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        megabytes = DISK_MEGABYTES + int(DISK_A_MINUTE * asked.minutes)
        with _small_disk(Path(folder), megabytes) as disk:
            return asyncio.run(run(asked.minutes, Path(folder), disk))


if __name__ == "__main__":
    sys.exit(main())
