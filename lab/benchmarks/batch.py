"""Many prompts: `python -m lab.benchmarks.batch [--calls 100000] [--concurrency 100] [--check]`.

Compares swink-batch, with its journal and limits, with a bare aiohttp loop behind a semaphore, and
with the same loop over swink's client, openai's and litellm's (if `make scoreboard` installed the
latter in `.venv-peers/NAME`), for answers as long as recorded ones and for three sizes; if uvloop
is installed, the first and the last of ours also run on it. Contenders take turns, in a process
each; ratios are within a round. Then: the CPU time of a call by the length of its answer, the
memory of a hundred times as many calls, and the share of a rate-limited server's capacity that a
run uses, once without and, in a short run, with rate-limit headers. Nothing is sent to other
machines. `--labels` measures labels alone, `--transport both` swink with each HTTP client, and
`--tls` over TLS, for which it needs the program `openssl`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from math import inf
from pathlib import Path
from typing import Any

from lab.benchmarks.batch_loops import HTTPTOOLS, UVLOOP
from lab.benchmarks.ratios import with_spread
from lab.benchmarks.transports import add_transport, certificate, chosen

ROOT = Path(__file__).resolve().parents[2]

PEERS = ("openai", "litellm")

MOST_CALLS = {"aiohttp": inf, "swink-batch": inf, "openai": 1000, "litellm": 1000}
"""Calls that a way makes at most, others `REST`: a rate takes no more to tell."""

REST = 5000

LONG_RUN = 20_000
"""Calls from which on one round is enough."""

ROUNDS = 3

RECORDED = "recorded"
"""The model for answers as long as recorded ones, in place of their number of deltas."""

LABEL, *SIZES = (3, 50, 200)
"""Deltas of an answer: a label, a sentence or two, some paragraphs."""

LENGTHS = (1, 3, 10, 20, 30, 50, 200)
"""Deltas of answers for which the processor's time is compared."""

LEAST_RATIO = 0.6
"""Calls a second against the bare loop, for labels as for answers as long as recorded ones."""

MOST_GROWTH = 1.1
"""Memory with all calls against that with a hundredth."""

LEAST_SHARE = 0.85
"""Calls a second against the loop over swink's client, for labels: what limits, journal and report
may take."""

LEAST_USE = 0.95
"""Of what a server with a limit answers in a second."""

MOST_REFUSED = 0.01

WARM_SECONDS = 5.0
"""Seconds until the limit is found; calls in them do not count."""


@contextmanager
def _server(*command: str) -> Iterator[str]:
    with subprocess.Popen(
        [sys.executable, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            scheme = "https" if "lab.benchmarks.server" in command[:-1] else "http"
            yield f"{scheme}://127.0.0.1:{process.stdout.readline().strip()}/v1"
        finally:
            process.stdin.close()


def _ask(way: str, url: str, calls: int, concurrency: int, deltas: int | str) -> dict[str, float]:
    python = str(_peer(way)) if way in PEERS else sys.executable
    command = [python, str(ROOT / "lab/benchmarks/batch_loops.py"), way, url]
    command += [str(calls), str(concurrency), str(deltas)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{way} failed:\n{done.stderr}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _peer(way: str) -> Path:
    return ROOT / ".venv-peers" / way / "bin" / "python"


def speed(
    url: str,
    calls: int,
    concurrency: int,
    rounds: int,
    deltas: int | str,
    transports: tuple[str, ...] = ("aiohttp",),
) -> list[float]:
    """Print calls a second of all, and return swink-batch's ratios, to aiohttp and to swink's
    client, and the megabytes of memory that it takes."""
    ways = ["aiohttp"]
    for suffix in (HTTPTOOLS if transport == "httptools" else "" for transport in transports):
        ways += [f"swink{suffix}", f"swink-batch{suffix}"]
    first = ways[1]
    batch = ways[2]
    ways += [f"{way}{UVLOOP}" for way in ("aiohttp", "swink-batch") if find_spec("uvloop")]
    ways += [way for way in PEERS if _peer(way).exists()]
    found: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
    for number in range(rounds):
        for way in ways[number % len(ways) :] + ways[: number % len(ways)]:
            often = int(min(calls, MOST_CALLS.get(way, REST)))
            found[way].append(_ask(way, url, often, concurrency, deltas))
    print(f"{calls:,} calls, {deltas} deltas an answer, {concurrency} at a time, {rounds} rounds\n")
    print("| way | calls/s | of aiohttp | of swink | CPU µs a call | by CPU | memory MB |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    ratios: dict[tuple[str, str], float] = {}
    for way in ways:
        for other in ("aiohttp", first):
            pairs = zip(found[way], found[other], strict=True)
            ratios[way, other] = statistics.median(a["rate"] / b["rate"] for a, b in pairs)
        rate, cpu, memory = (
            statistics.median(each[name] for each in found[way])
            for name in ("rate", "cpu", "memory")
        )
        of = " | ".join(f"{ratios[way, other]:.2f}" for other in ("aiohttp", first))
        pairs = zip(found["aiohttp"], found[way], strict=True)
        shares = [bare["cpu"] / ours["cpu"] for bare, ours in pairs]
        share = with_spread(shares)
        print(f"| {way} | {rate:,.0f} | {of} | {cpu:,.0f} | {share} | {memory:.0f} |")
    print(flush=True)
    memory = statistics.median(each["memory"] for each in found[batch])
    return [ratios[batch, "aiohttp"], ratios[batch, first], memory]


def by_length(url: str, concurrency: int) -> None:
    """Print what a call takes of the processor as its answer grows: ours, and the bare loop's."""
    print("| deltas an answer | aiohttp, CPU µs | swink-batch, CPU µs | of aiohttp |")
    print("| ---: | ---: | ---: | ---: |")
    for size in LENGTHS:
        often = max(REST // (size + 2), 100)
        cpus = [
            [_ask(way, url, often, concurrency, size)["cpu"] for way in ("aiohttp", "swink-batch")]
            for _ in range(ROUNDS)
        ]
        bare, ours = map(statistics.median, zip(*cpus, strict=True))
        ratio = statistics.median(a / b for a, b in cpus)
        print(f"| {size} | {bare:,.0f} | {ours:,.0f} | {ratio:.2f} |", flush=True)
    print()


def limited(rate: float, calls: int, *says: str) -> tuple[float, float]:
    """Print what a server with a limit got, and return the share of it and of refusals.

    It answers a second's calls at once, and with `--headers` reports the remaining quota.
    """
    from swink_batch import Tally, run

    times: list[float] = []

    def watch(tally: Tally) -> None:
        times.append(time.perf_counter())

    program = str(ROOT / "contrib/swink-batch/tests/row_server.py")
    with (
        tempfile.TemporaryDirectory() as folder,
        _server(program, "--rate", str(rate), "--latency", "0.2", *says) as url,
    ):
        rows = ({"prompt": f"row {number}"} for number in range(calls))
        client: Any = {"providers": {"openai": {"base_url": url, "api_key": "x", "api": "chat"}}}
        output = Path(folder) / "answers.jsonl"
        tally = asyncio.run(run("openai/rows", rows, output, client=client, watch=watch))
    last = times[int(len(times) * 0.95)]  # behind it, calls wait that were refused at the end
    steady = [at for at in times if times[0] + WARM_SECONDS < at <= last]
    if len(steady) < 2:
        raise SystemExit(
            f"{calls:,} calls at {rate:g}/s are over before the limit is found: ask more"
        )
    used = len(steady) / (steady[-1] - steady[0]) / rate
    refused = tally.refused / (calls + tally.refused)
    told = "in headers" if says else "by refusals alone"
    print(f"limit of {rate:g}/s, told {told}: {used:.1%} used, {refused:.2%} of {calls:,} refused")
    return used, refused


def main() -> int:
    """Measure, and with `--check` say whether the limits are kept."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--calls", type=int, default=3000)
    parser.add_argument("--concurrency", type=int, default=100)
    parser.add_argument("--rate", type=float, default=200.0)
    parser.add_argument("--limited-calls", type=int, default=6000)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--labels", action="store_true", help="measure labels alone")
    parser.add_argument("--tls", action="store_true", help="measure labels alone, over TLS")
    add_transport(parser)
    given = parser.parse_args()
    rounds = 1 if given.calls >= LONG_RUN else ROUNDS
    transports = chosen(given.transport)
    if given.labels or given.tls:
        with ExitStack() as stack:
            command = ["-m", "lab.benchmarks.server"]
            if given.tls:
                command.append(str(stack.enter_context(certificate())))
            url = stack.enter_context(_server(*command))
            speed(url, given.calls, given.concurrency, rounds, LABEL, transports)
        return 0
    few = max(given.calls // 100, 100)
    with _server("-m", "lab.benchmarks.server") as url:
        ratio, _, memory = speed(url, given.calls, given.concurrency, rounds, RECORDED, transports)
        small = _ask("swink-batch", url, few, given.concurrency, RECORDED)["memory"]
        print(f"memory: {small:.0f} MB with {few:,} calls; x {memory / small:.2f} with all\n")
        of_labels, share, _ = speed(url, given.calls, given.concurrency, rounds, LABEL, transports)
        ratio = min(ratio, of_labels)
        for size in SIZES:
            often = max(given.calls * LABEL // size, 100)
            speed(url, often, given.concurrency, ROUNDS, size)
        by_length(url, given.concurrency)
    used, refused = limited(given.rate, given.limited_calls)
    short_used, short_refused = limited(given.rate, given.limited_calls // 3, "--headers")
    broken = [
        what
        for what, holds in (
            (f"less than {LEAST_RATIO} of aiohttp's calls a second", ratio >= LEAST_RATIO),
            (f"memory grows by more than {MOST_GROWTH}", memory <= MOST_GROWTH * small),
            (f"less than {LEAST_SHARE} of those of swink's client", share >= LEAST_SHARE),
            (f"less than {LEAST_USE:.0%} of a limit used", min(used, short_used) >= LEAST_USE),
            (f"{MOST_REFUSED:.0%} or more refused", max(refused, short_refused) < MOST_REFUSED),
        )
        if not holds
    ]
    for what in broken:
        print(f"broken: {what}", file=sys.stderr)
    return 1 if broken and given.check else 0


if __name__ == "__main__":
    sys.exit(main())
