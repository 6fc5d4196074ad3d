"""Chaos before two gateways of several workers that share one Redis: `chaos.py --minutes 10`.

Workers are killed, Redis is killed and comes back, an upstream flaps, and the configuration is
written anew every second, now and then as one that cannot be used. Meanwhile clients ask over two
protocols and read strictly. It exits with 1 where

* an answer looks complete and is not, or a frame or a chunk of HTTP is not what its protocol says;
* an answer is cut off, or nobody answers, although no worker was killed that had the connection;
* an answer fails in words although its upstream did not break off after the first word of it;
* a key gets more calls in a minute, or more dollars, than it may, by more than a call a process.

What reached the upstreams is what counts: they are this process's own. A client whose worker was
killed asks again, as clients do; before the first word of an answer that must succeed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict, deque
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent))

from attrs import define, field
from redis_server import RedisServer

from swink_testing.command_line import clean_environment, swink_command

WORKERS = 2
GATEWAYS = 2
CLIENTS = 24
PROCESSES = WORKERS * GATEWAYS

MODEL = "gpt-4.1-mini"
TOKENS = {"prompt_tokens": 1000, "completion_tokens": 1000, "total_tokens": 2000}
DOLLARS = 1000 * 0.4e-6 + 1000 * 1.6e-6
"""What such an answer costs."""

WORDS = [f" word{number}" for number in range(20)]
TEXT = "".join(WORDS)

REQUESTS_A_MINUTE = 60
BUDGET = 0.6
KEYS = {
    "free": "",
    "rated": f"requests_per_minute = {REQUESTS_A_MINUTE}",
    "poor": f"dollars_per_day = {BUDGET}",
}
SHOWN = {name: f"secret-of-{name}" for name in KEYS}

MINUTE = 59.0
"""Seconds in which no more than a minute's requests may come: on their way they come closer."""

ATTEMPTS = 6


class Broken(Exception):
    """What a client must not see."""


class Cut(Exception):
    """A connection that ended before the answer did."""


# -- the upstreams ---------------------------------------------------------------------------------


@define
class Upstream:
    """Answers in OpenAI's Chat Completions; `mood` is how it fails."""

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
        self._found.came(call)
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
        writer.write(_chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")
        await writer.drain()
        self._found.answered(call)
        return True


def _frame(writer: asyncio.StreamWriter, **said: Any) -> None:
    whole = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": MODEL, **said}
    writer.write(_chunk(b"data: " + json.dumps(whole).encode() + b"\n\n"))


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


@define
class Record:
    """What reached the upstreams, and what the clients saw."""

    calls: dict[str, float] = field(factory=dict)
    paid: Counter[str] = field(factory=Counter)
    broken: set[str] = field(factory=set)
    doomed: set[tuple[int, int]] = field(factory=set)
    seen: Counter[str] = field(factory=Counter)
    faults: list[str] = field(factory=list)

    def came(self, call: str) -> None:
        self.calls.setdefault(call, time.monotonic())

    def answered(self, call: str) -> None:
        self.paid[call.split()[0]] += 1

    def fault(self, what: str) -> None:
        print("FAULT", what, flush=True)
        self.faults.append(what)


# -- the clients -----------------------------------------------------------------------------------


async def _exchange(port: int, path: str, key: str, body: bytes) -> tuple[int, int, bytes, bool]:
    """Return the client's own port, a status, a body, and whether it came to its end."""
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
                raise Broken("a chunk does not end where it says")
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
    """Return the text, whether it is complete, and the failure in words."""
    text, finished, failure = "", False, ""
    frames = data.decode().split("\n\n")
    if frames.pop() != "":
        raise Broken("the last frame does not end")
    for number, frame in enumerate(frames):
        if frame.startswith(":"):
            continue
        if frame == "data: [DONE]":
            if number != len(frames) - 1:
                raise Broken("a frame after [DONE]")
            return text, finished and not failure, failure
        said = json.loads(frame.removeprefix("data: "))
        if "error" in said:
            failure = str(said["error"]["message"])
            continue
        for choice in said["choices"]:
            text += choice["delta"].get("content") or ""
            finished = finished or choice.get("finish_reason") == "stop"
    raise Broken("no [DONE]")


def _messages(data: bytes) -> tuple[str, bool, str]:
    text, finished, failure = "", False, ""
    frames = data.decode().split("\n\n")
    if frames.pop() != "":
        raise Broken("the last frame does not end")
    for frame in frames:
        if finished or failure:
            raise Broken("a frame after the last one")
        lines = dict(line.split(": ", 1) for line in frame.split("\n"))
        said = json.loads(lines["data"])
        if said["type"] != lines["event"]:
            raise Broken("an event that is called otherwise")
        if said["type"] == "error":
            failure = said["error"]["message"]
        elif said["type"] == "content_block_delta":
            text += said["delta"]["text"]
        finished = said["type"] == "message_stop"
    if not (finished or failure):
        raise Broken("an end without an end")
    return text, finished, failure


PROTOCOLS = {"/v1/chat/completions": _chat, "/v1/messages": _messages}


@define
class Client:
    """Asks one call after the other."""

    number: int
    ports: list[int]
    found: Record

    async def run(self, end: float) -> None:
        count = 0
        while time.monotonic() < end:
            count += 1
            name = random.choice([*KEYS])
            await self._call(name, f"{name} {self.number}-{count}")

    async def _call(self, name: str, call: str) -> None:
        path = random.choice([*PROTOCOLS])
        said = {
            "model": "best", "stream": True, "max_tokens": 1000,
            "messages": [{"role": "user", "content": call}],
        }  # fmt: skip
        for attempt in range(ATTEMPTS):
            port = self.ports[(self.number + attempt) % len(self.ports)]
            try:
                if await self._once(port, path, name, json.dumps(said).encode(), call):
                    return
            except (Broken, KeyError, ValueError) as error:
                self.found.fault(f"{path} {call}: {error!r}")
                return
            except Cut:
                self.found.seen["found nobody at one gateway"] += 1
            await asyncio.sleep(0.05)
        self.found.fault(f"{path} {call}: nobody answers")

    async def _once(self, port: int, path: str, name: str, body: bytes, call: str) -> bool:
        seen = self.found.seen
        own, status, data, ended = await _exchange(port, path, SHOWN[name], body)
        if not ended:
            if (port, own) not in self.found.doomed:
                raise Broken("cut off by a worker that was not killed")
            seen["cut off with its worker"] += 1
            return False
        if status == 429:
            seen[f"{name}: refused"] += 1
            await asyncio.sleep(random.uniform(0.2, 1.0))
            return True
        if status != 200:
            raise Broken(f"HTTP {status}: {data[:300]!r}")
        text, complete, failure = PROTOCOLS[path](data)
        if complete and text == TEXT:
            seen[f"{name}: answered"] += 1
        elif complete:
            raise Broken(f"complete, and says {text!r}")
        elif call not in self.found.broken:
            raise Broken(f"failed for no reason: {failure}")
        else:
            seen["failed in words, as its upstream did"] += 1
        return True


# -- the chaos -------------------------------------------------------------------------------------


def _children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _clients_of(pid: int, port: int) -> set[tuple[int, int]]:
    """Return the gateway's port and the clients' for the connections that a process has open."""
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


@define
class Chaos:
    """What happens to whom; `happened` counts."""

    found: Record
    redis: RedisServer
    upstream: Upstream
    parents: dict[int, int]
    """The port of each gateway, by its parent's process id."""
    config: Path
    texts: list[str]
    happened: Counter[str] = field(factory=Counter)
    killing: bool = True

    async def kill_workers(self) -> None:
        while True:
            await asyncio.sleep(random.uniform(1.0, 4.0))
            parent = random.choice([*self.parents])
            if len(workers := _children(parent)) < WORKERS:
                continue
            pid = random.choice(workers)
            with suppress(ProcessLookupError, FileNotFoundError):  # it ended by itself
                os.kill(pid, signal.SIGSTOP)
                self.found.doomed |= _clients_of(pid, self.parents[parent])
                os.kill(pid, signal.SIGKILL)
                self.happened["workers killed"] += 1

    async def kill_redis(self) -> None:
        while True:
            await asyncio.sleep(random.uniform(8.0, 15.0))
            self.redis.kill()
            self.happened["times Redis was killed"] += 1
            await asyncio.sleep(random.uniform(1.0, 6.0))
            await asyncio.to_thread(self.redis.start)

    async def flap(self) -> None:
        moods = ["well", "overloaded", "throttled", "hangs up", "breaks off"]
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


def _texts(ports: list[int], redis: str) -> list[str]:
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
        f'[store]\nengine = "redis"\nurl = "{redis}"\n[routes.best]\ntiers = [{tiers}]\n'
        f"options = {{ temperature = %s, {quick} }}\n{keys}"
    )
    return [good % 0.5, good % 0.6, good % 0.7, "[routes.best]\ntiers = 5\n"]


async def run(minutes: float, folder: Path) -> int:
    found = Record()
    flapping, steady = Upstream("flapping"), Upstream("steady")
    await flapping.serve(found)
    await steady.serve(found)
    redis = RedisServer(folder / "redis")
    (folder / "redis").mkdir()
    redis.start()
    config = folder / "team.toml"
    texts = _texts([flapping.port, steady.port], redis.url)
    config.write_text(texts[0])
    environment = clean_environment(folder)
    environment |= {"PYTHONWARNINGS": ""} | {name.upper(): secret for name, secret in SHOWN.items()}
    processes = []
    for _ in range(GATEWAYS):
        processes.append(
            await asyncio.create_subprocess_exec(
                *swink_command(
                    "gateway", "--port", "0", "--workers", str(WORKERS), "--config", str(config)
                ),
                env=environment,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
        )
    parents: dict[int, int] = {}
    last: deque[bytes] = deque(maxlen=40)
    readers = []
    for process in processes:
        assert process.stdout is not None
        line = await process.stdout.readline()
        if b"serving" not in line:
            print((line + await process.stdout.read()).decode())
            return 1
        parents[process.pid] = int(line.rsplit(b":", 1)[1])
        readers.append(asyncio.ensure_future(_drain(process.stdout, last)))
    chaos = Chaos(found, redis, flapping, parents, config, texts)
    under_way = [
        asyncio.ensure_future(one())
        for one in (chaos.kill_workers, chaos.kill_redis, chaos.flap, chaos.reload)
    ]
    end = time.monotonic() + minutes * 60
    clients = [Client(number, [*parents.values()], found) for number in range(CLIENTS)]
    await asyncio.gather(*(client.run(end) for client in clients))
    for task in under_way:
        task.cancel()
    for task in under_way:
        with suppress(asyncio.CancelledError):
            await task
    for process in processes:
        process.terminate()
    codes = [await process.wait() for process in processes]
    with suppress(FileNotFoundError, ProcessLookupError):
        redis.kill()
    if any(codes):
        found.fault(f"the gateways ended with {codes}")
    _hold_to_limits(found)
    for name, count in [*sorted(chaos.happened.items()), *sorted(found.seen.items())]:
        print(f"{count:6} {name}")
    if found.faults:
        print(b"".join(last).decode())
    print(f"{len(found.faults)} faults")
    return 1 if found.faults else 0


async def _drain(stream: asyncio.StreamReader, last: deque[bytes]) -> None:
    while line := await stream.readline():
        last.append(line)


def _hold_to_limits(found: Record) -> None:
    """Find limits that were passed by more than a call a process."""
    times: dict[str, list[float]] = defaultdict(list)
    for call, at in found.calls.items():
        times[call.split()[0]].append(at)
    rated, most = sorted(times["rated"]), 0
    window: deque[float] = deque()
    for at in rated:
        window.append(at)
        while window[0] <= at - MINUTE:
            window.popleft()
        most = max(most, len(window))
    print(f"{most:6} calls of one key in a minute, of {REQUESTS_A_MINUTE}")
    if most > REQUESTS_A_MINUTE + PROCESSES:
        found.fault(f"{most} calls in a minute")
    spent = found.paid["poor"] * DOLLARS
    print(f"{spent:6.3f} dollars of one key, of {BUDGET}")
    if spent > BUDGET + PROCESSES * DOLLARS:
        found.fault(f"{spent} dollars")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=None)
    asked = parser.parse_args()
    random.seed(asked.seed)
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        return asyncio.run(run(asked.minutes, Path(folder)))


if __name__ == "__main__":
    sys.exit(main())
