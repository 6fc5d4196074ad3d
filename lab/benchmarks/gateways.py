"""The gateway against a byte relay and the litellm proxy: `python -m lab.benchmarks.gateways`.

All use the same upstream, one process each, and receive the same requests over OpenAI's Chat
Completions. The relay is the minimum of a gateway on aiohttp: it inspects no byte of the traffic.
The parsing relay decodes each frame and encodes it again. `guarded` is the gateway with a required
key and a ledger in a SQLite file. The clients are sockets that only look for the end of an answer,
so that they cost little beside the measured work. Contenders take turns within a round, in an order
that rotates; a ratio, or a difference, is taken within a round.

With `--transport both`, the gateway also runs with swink's HTTP client on httptools, in the
contenders that end in `+httptools`. `--requests` measures requests alone, with more rounds, and
`--tls` with TLS between the contenders and the upstream, for which it needs the program `openssl`.
`--workers` measures requests alone to the command `swink gateway` with one worker and with two,
both with a key and a ledger. The CPU time includes the supervising process.

litellm runs in a separate environment (`make .venv-peers/litellm-proxy/.installed`), and is skipped
without it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import aiohttp
import orjson
from aiohttp import web

import swink_core as swink
from lab.benchmarks.ratios import with_spread, within_rounds
from lab.benchmarks.rounds import server as upstream
from lab.benchmarks.server import most_descriptors
from lab.benchmarks.sockets import KEY, PATH, Contender, Socket
from lab.benchmarks.transports import add_transport, certificate, chosen, http_client
from swink_gateway.policy.cooldowns import Cooldowns
from swink_gateway.policy.limits.sqlite import SQLiteLedger
from swink_gateway.serving.limits import Limits
from swink_gateway.serving.server import Gateway

LITELLM = Path(__file__).resolve().parents[2] / ".venv-peers" / "litellm-proxy" / "bin" / "litellm"

CLIENTS = 32
REQUESTS = 320
"""Of each turn, all clients together; answers of `DELTAS` deltas."""

DELTAS = 20
STREAMS = 200
PACED = 60
FIRSTS = 200
WAITING = (1, 100, 1_000, 10_000)
WAITING_ROUNDS = 3
WAITING_SECONDS = 3.0
"""How long the CPU time of waiting streams is measured."""

OPENED_AT_ONCE = 100
"""Streams that are opened at the same time."""

LITELLM_WAITING = 100
"""Streams beyond which the litellm proxy is not asked: they take it minutes."""

LITELLM_ENV = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOG": "ERROR",
    "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
    "NO_PROXY": "*",
}

SPARE = 100
"""Descriptors that are for other than streams."""

START_SECONDS = 180.0

MODELS = ("short-1", f"short-{DELTAS}", f"live-{PACED}", "wait-1")

Found = dict[str, Any]


# -- who serves ------------------------------------------------------------------------------------


def _unchanged(data: bytes, rest: bytes) -> tuple[bytes, bytes]:
    return data, b""


def _encoded_again(data: bytes, rest: bytes) -> tuple[bytes, bytes]:
    """Decode and encode each whole frame; return them and the unfinished rest."""
    *frames, rest = (rest + data).split(b"\n\n")
    made = [
        frame if frame == b"data: [DONE]" else b"data: " + orjson.dumps(orjson.loads(frame[6:]))
        for frame in frames
    ]
    return b"".join(frame + b"\n\n" for frame in made), rest


async def _relay(
    base: str, passed: Callable[[bytes, bytes], tuple[bytes, bytes]] = _unchanged
) -> None:
    """Serve a relay. `passed` maps new bytes and the rest of earlier ones to what it sends on and
    the new rest."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def handle(request: web.Request) -> web.StreamResponse:
            body = await request.read()
            headers = {"Content-Type": "application/json", "Authorization": "Bearer k"}
            async with session.post(
                f"{base}/chat/completions", data=body, headers=headers, timeout=NO_LIMIT
            ) as answer:
                response = web.StreamResponse(status=answer.status)
                response.content_type = answer.content_type
                await response.prepare(request)
                rest = b""
                async for data in answer.content.iter_any():
                    whole, rest = passed(data, rest)
                    if whole:
                        await response.write(whole)
                return response

        app = web.Application()
        app.router.add_post(PATH, handle)
        runner = web.AppRunner(app, handler_cancellation=True, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=4096).start()
        print(f"http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
        await asyncio.to_thread(sys.stdin.read)


NO_LIMIT = aiohttp.ClientTimeout(total=None)


async def _parsing(base: str) -> None:
    await _relay(base, _encoded_again)


async def _guarded(base: str, transport: str = "aiohttp") -> None:
    with tempfile.TemporaryDirectory() as folder:
        ledger = SQLiteLedger(Path(folder, "ledger.sqlite"))
        await _swink(base, transport, keys=[KEY], ledger=ledger)


async def _swink(base: str, transport: str = "aiohttp", **guards: Any) -> None:
    """Serve the gateway, as `swink gateway` would."""
    own: Any = {"openai": {"api_key": "k", "api": "chat", "base_url": base}}
    limits = Limits(streams=10 * max(WAITING))
    routes = {name: [f"openai/{name}"] for name in MODELS}
    async with (
        swink.Client(
            http=http_client(transport), providers=own, breaker=False, gates=[Cooldowns()]
        ) as client,
        Gateway(client, limits=limits, routes=routes, **guards) as gateway,
    ):
        print(gateway.url, flush=True)
        await asyncio.to_thread(sys.stdin.read)


HTTPTOOLS = "+httptools"

RELAYS = {"relay": _relay, "parsing": _parsing}

GATEWAYS = {"swink": _swink, "guarded": _guarded}


def _names(transports: tuple[str, ...]) -> list[str]:
    """Return the names of our contenders."""
    suffixes = [HTTPTOOLS if transport == "httptools" else "" for transport in transports]
    return [*RELAYS, *(f"{name}{suffix}" for suffix in suffixes for name in GATEWAYS)]


async def _serve(name: str, base: str) -> None:
    if name in RELAYS:
        await RELAYS[name](base)
        return
    transport = "httptools" if name.endswith(HTTPTOOLS) else "aiohttp"
    await GATEWAYS[name.removesuffix(HTTPTOOLS)](base, transport)


@contextmanager
def _own(name: str, base: str) -> Iterator[Contender]:
    with subprocess.Popen(
        [sys.executable, "-m", "lab.benchmarks.gateways", "--serve", name, base],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield Contender(name, process.stdout.readline().strip(), process.pid)
        finally:
            process.kill()


@contextmanager
def _command(workers: int, base: str) -> Iterator[Contender]:
    """Run the command `swink gateway` with a number of workers, a key and a ledger."""
    port = _free_port()
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "gateway.toml")
        store = json.dumps(str(Path(folder, "ledger.sqlite")))
        rows = ["[store]", 'engine = "sqlite"', f"path = {store}", "[keys.bench]", 'key = "${KEY}"']
        rows += [f'[routes."{name}"]\ntiers = "openai/{name}"' for name in MODELS]
        config.write_text("\n".join(rows))
        with subprocess.Popen(
            [
                sys.executable, "-m", "swink_cli", "gateway", "--config", str(config),
                "--port", str(port), "--workers", str(workers),
            ],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, "KEY": KEY, "OPENAI_API_KEY": "k", "OPENAI_BASE_URL": base},
            cwd=folder,
        ) as process:  # fmt: skip
            try:
                name = f"{workers} worker" + "s" * (workers > 1)
                contender = Contender(name, f"http://127.0.0.1:{port}", process.pid)
                asyncio.run(_until_it_answers(contender))
                yield contender
            finally:
                process.terminate()


@contextmanager
def _litellm(base: str) -> Iterator[Contender]:
    port = _free_port()
    rows = [
        {
            "model_name": name,
            "litellm_params": {"model": f"openai/{name}", "api_base": base, "api_key": "k"},
        }
        for name in MODELS
    ]
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "config.yaml")
        config.write_text(json.dumps({"model_list": rows}))  # JSON is YAML
        with subprocess.Popen(
            [
                str(LITELLM), "--config", str(config), "--host", "127.0.0.1",
                "--port", str(port), "--num_workers", "1", "--telemetry", "False",
            ],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, **LITELLM_ENV}, cwd=folder,
        ) as process:  # fmt: skip
            try:
                contender = Contender("litellm", f"http://127.0.0.1:{port}", process.pid)
                asyncio.run(_until_it_answers(contender))
                yield contender
            finally:
                process.kill()


async def _until_it_answers(contender: Contender) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        try:
            if b"[DONE]" in (await Socket(contender).ask("short-1")).data:
                return
        except OSError:
            pass
        await asyncio.sleep(0.5)
    raise RuntimeError(f"{contender.name} does not answer")


def _free_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


# -- who asks --------------------------------------------------------------------------------------


async def _requests(contender: Contender) -> Found:
    """Return requests a second of many clients, and the CPU of one."""
    sockets = [Socket(contender) for _ in range(CLIENTS)]

    async def client(socket: Socket) -> None:
        for _ in range(REQUESTS // CLIENTS):
            answer = await socket.ask(f"short-{DELTAS}")
            assert b"[DONE]" in answer.data

    began, before = time.perf_counter(), contender.cpu()
    await asyncio.gather(*map(client, sockets))
    wall, cpu = time.perf_counter() - began, contender.cpu() - before
    for socket in sockets:
        socket.close()
    return {"requests a second": REQUESTS / wall, "CPU ms a request": cpu / REQUESTS * 1e3}


async def _first_byte(contender: Contender) -> Found:
    """Return the times to the first byte of an answer, on a warm connection."""
    socket = Socket(contender)
    await socket.ask("short-1")
    waits = []
    for _ in range(FIRSTS):
        began = time.perf_counter()
        answer = await socket.ask("short-1")
        waits.append(answer.times[0] - began)
    socket.close()
    return _quantiles("first byte ms", waits)


def _quantiles(name: str, seconds: list[float]) -> Found:
    """Return the median and the 99th percentile, in milliseconds."""
    hundredths = statistics.quantiles(seconds, n=100)
    return {name: hundredths[49] * 1e3, f"{name} p99": hundredths[98] * 1e3}


async def _paced(contender: Contender) -> Found:
    """Return the CPU of a chunk, and the gaps between those of an answer."""
    sockets = [Socket(contender) for _ in range(STREAMS)]
    before = contender.cpu()
    answers = await asyncio.gather(*(socket.ask(f"live-{PACED}") for socket in sockets))
    cpu = contender.cpu() - before
    gaps = [
        after - before
        for answer in answers
        for before, after in zip(answer.times, answer.times[1:], strict=False)
    ]
    for socket in sockets:
        socket.close()
    return {"CPU us a chunk": cpu / (STREAMS * PACED) * 1e6, **_quantiles("gap ms", gaps)}


Measures: TypeAlias = tuple[Callable[[Contender], Any], ...]

MEASURES: Measures = (_requests, _first_byte, _paced)


async def _waiting(contender: Contender) -> Found:
    """Return the costs of streams that wait for their upstream, by their number.

    Memory; the CPU of opening a stream, and the share of a core that is used while all streams
    wait; the times to the first byte of the streams, of which `OPENED_AT_ONCE` are opened at the
    same time, and of further requests, one after the other, while the streams wait.
    """
    found: Found = {"0": {"MB": contender.megabytes()}}
    sockets: list[Socket] = []
    room = (resource.getrlimit(resource.RLIMIT_NOFILE)[0] - SPARE) // 2  # a stream has two
    for count in (min(count, room) for count in WAITING):
        if contender.name == "litellm" and count > LITELLM_WAITING:
            break
        before, opened = contender.cpu(), count - len(sockets)
        firsts: list[float] = []
        while len(sockets) < count:
            more = [Socket(contender) for _ in range(min(OPENED_AT_ONCE, count - len(sockets)))]
            firsts += await asyncio.gather(*map(_opened, more))
            sockets += more
        after = contender.cpu()
        await asyncio.sleep(WAITING_SECONDS)
        costs: Found = {
            "MB": contender.megabytes(),
            "CPU ms to open a stream": (after - before) / opened * 1e3,
            "% of a core": (contender.cpu() - after) / WAITING_SECONDS * 100,
        }
        if count >= OPENED_AT_ONCE:
            costs |= _quantiles("first byte ms of these streams", firsts)
            further = await _first_byte(contender)
            costs |= {f"{name} of further requests": value for name, value in further.items()}
        found[str(count)] = costs
    for socket in sockets:
        socket.close()
    return found


async def _opened(socket: Socket) -> float:
    """Open a connection and a stream on it, and return the seconds until its first byte."""
    began = time.perf_counter()
    answer = await socket.begin("wait-1")
    await answer.began()
    return answer.times[0] - began


async def _round(contenders: list[Contender], measures: Measures) -> dict[str, Found]:
    found: dict[str, Found] = {contender.name: {} for contender in contenders}
    for measure in measures:
        for contender in contenders:
            found[contender.name] |= await measure(contender)
    return found


def measured(rounds: int, transports: tuple[str, ...], only_requests: bool, tls: bool) -> Found:
    """Return the results of each round, and those of each round of waiting streams."""
    results: list[dict[str, Found]] = []
    measures: Measures = (_requests,) if only_requests else MEASURES
    with ExitStack() as stack:
        base = stack.enter_context(upstream(stack.enter_context(certificate()) if tls else None))
        contenders = [stack.enter_context(_own(name, base)) for name in _names(transports)]
        waiting: list[dict[str, Found]] = []
        if not only_requests:
            waiting = [_all_waiting(transports, base) for _ in range(WAITING_ROUNDS)]
            if LITELLM.exists():
                contenders.append(stack.enter_context(_litellm(base)))
        for number in range(-1, rounds):
            print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
            found = asyncio.run(_round(contenders, measures))
            if number >= 0:  # the first round warms up
                results.append(found)
            contenders = [*contenders[1:], contenders[0]]
    return {"rounds": results, "waiting": waiting}


def _all_waiting(transports: tuple[str, ...], base: str) -> dict[str, Found]:
    """Return the costs of waiting streams of each contender, each in a new process."""
    started = [_own(name, base) for name in _names(transports)]
    if LITELLM.exists():
        started.append(_litellm(base))
    found = {}
    for starting in started:
        with starting as one:
            found[one.name] = asyncio.run(_waiting(one))
    return found


def _print_workers(rounds: int) -> None:
    """Measure one worker and two, and print how many times as many requests two can serve."""
    by_cpu, by_time = [], []
    with ExitStack() as stack:
        base = stack.enter_context(upstream(None))
        one, two = [stack.enter_context(_command(workers, base)) for workers in (1, 2)]
        for number in range(-1, rounds):
            found = asyncio.run(_round([one, two], (_requests,)))
            if number < 0:  # the first round warms up
                continue
            figures = found[one.name], found[two.name]
            by_cpu.append(2 * figures[0]["CPU ms a request"] / figures[1]["CPU ms a request"])
            by_time.append(figures[1]["requests a second"] / figures[0]["requests a second"])
    print("requests of two workers, over those of one")
    for name, ratios in (("for the CPU of two cores and of one", by_cpu), ("a second", by_time)):
        print(f"  {name:36} {with_spread(ratios)}")


def _for_the_same_cpu(rounds: list[dict[str, Found]], name: str, other: str) -> list[float]:
    """Return a contender's requests over those of another, for the same CPU, in each round."""
    took = [[one[each]["CPU ms a request"] for one in rounds] for each in (other, name)]
    return within_rounds(*took)


def main() -> None:
    """Measure, print, and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--requests", action="store_true", help="measure requests alone")
    parser.add_argument("--tls", action="store_true", help="measure requests alone, over TLS")
    add_transport(parser)
    parser.add_argument("--workers", action="store_true", help="measure one and two workers alone")
    parser.add_argument("--serve", nargs=2, metavar=("NAME", "URL"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    most_descriptors()
    if asked.serve:
        name, base = asked.serve
        asyncio.run(_serve(name, base))
        return
    if asked.workers:
        _print_workers(asked.rounds)
        return
    found = measured(asked.rounds, chosen(asked.transport), asked.requests or asked.tls, asked.tls)
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    for name in found["rounds"][0]:
        print(f"\n{name}")
        for figure in found["rounds"][0][name]:
            print(f"  {figure:20} {with_spread([one[name][figure] for one in found['rounds']])}")
        shares = _for_the_same_cpu(found["rounds"], name, "parsing")
        print(f"  of the parsing relay's requests for the same CPU {with_spread(shares)}")
        for one in found["waiting"]:
            for count, figures in one[name].items():
                said = ", ".join(f"{value:.1f} {figure}" for figure, value in figures.items())
                print(f"  {count:>6} streams wait   {said}")


if __name__ == "__main__":
    main()
