"""Print what a gateway does when a worker dies, a disk is full, or descriptors or memory run out.

    python -m lab.findings.resource_limits [worker_killed | terminated | full_disk | …]

The full disk is a small file system in memory, which only root can mount. Configurations that break
are in `dead_config`.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from lab.findings.gateways import MODEL, Gateway, Reply, gateway, owner, verdict
from lab.findings.measured import children, seconds
from lab.vendor import Vendor

STREAMS = 60
DESCRIPTORS = 256
MEMORY = 900_000_000
BODY = 30_000_000
BODIES = 24
STARTED = 2.0
"""Seconds until all workers serve."""

SETTLED = 3.0
"""Seconds until all workers have noted the ends of streams."""


def marked(tokens: int, pace: float) -> str:
    """Return a prompt whose answer has so many tokens, `pace` seconds apart."""
    script = {"parts": [{"tokens": tokens}], "fault": {"kind": "slow", "seconds": pace}}
    return f"[[vendor {json.dumps(script)}]]"


def end_of(reply: Reply) -> str:
    """Name the end of a stream."""
    if reply.status != 200:
        return str(reply.status)
    if b'"error"' in reply.body:
        return "error told"
    return "done" if b"[DONE]" in reply.body else "cut"


class Streams:
    """Streams through a gateway, each in a thread."""

    def __init__(self, served: Gateway, pool: ThreadPoolExecutor) -> None:
        self.served = served
        self.pool = pool

    def start(self, count: int, prompt: str, name: str = "bob") -> list[Future[Reply]]:
        """Begin so many streams."""
        return [
            self.pool.submit(self.served.chat, name, MODEL, prompt, seconds=40, stream=True)
            for _ in range(count)
        ]

    def ends(self, started: list[Future[Reply]]) -> Counter[str]:
        """Wait for streams, and count how they ended."""
        return Counter(end_of(each.result()) for each in started)

    def once(self, name: str = "bob") -> str:
        """Ask for a short answer."""
        reply = self.served.chat(name, MODEL, "Hi", max_tokens=16)
        return f"{reply.status} {reply.error.get('type', '')}".strip()


def limit(served: Gateway, kind: int, value: int) -> None:
    """Limit a resource of all processes of a gateway."""
    for pid in (served.process.pid, *children(served.process.pid)):
        resource.prlimit(pid, kind, (value, value))


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """Mount a file system of 2 MB. Raises CalledProcessError if that is not allowed."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    subprocess.run(mount, check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def worker_killed(pool: ThreadPoolExecutor) -> None:
    """Kill one of two workers in the middle of streams."""
    with Vendor() as vendor, gateway(vendor, owner("bob"), "--workers", "2") as served:
        time.sleep(STARTED)
        streams = Streams(served, pool)
        running = streams.start(STREAMS, marked(20, 0.2))
        time.sleep(2)
        os.kill(children(served.process.pid)[0], signal.SIGKILL)
        time.sleep(0.3)
        after = streams.start(30, "Hi")
        before = streams.ends(running)
        later = streams.ends(after)
        verdict(before["done"] > 0, f"a worker is killed: its {STREAMS} streams {dict(before)}")
        verdict(later["done"] == 30, f"30 streams after that: {dict(later)}")
        time.sleep(SETTLED)
        open_streams = served.spending("bob")["streams"]
        verdict(open_streams == 0, f"{open_streams} streams are counted as open after that")


def terminated(pool: ThreadPoolExecutor) -> None:
    """End a gateway that gives answers five seconds."""
    arguments = ("--workers", "2", "--drain", "5")
    with Vendor() as vendor, gateway(vendor, owner("bob"), *arguments) as served:
        streams = Streams(served, pool)
        short = streams.start(20, marked(15, 0.2))
        long = streams.start(20, marked(100, 0.2))
        time.sleep(1.5)
        served.process.terminate()
        began = time.monotonic()
        finished = streams.ends(short)
        broken = streams.ends(long)
        status = served.process.wait(20)
        took = time.monotonic() - began
        verdict(finished["done"] == 20, f"SIGTERM: answers of 3 s {dict(finished)}")
        text = f"SIGTERM: answers of 20 s {dict(broken)}, exit {status} after {took:.1f} s"
        verdict(broken["error told"] == 20, text)


def full_disk(pool: ThreadPoolExecutor) -> None:
    """Fill the disk that the ledger is on."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store = f'[store]\nengine = "sqlite"\npath = "{folder / "ledger.db"}"\n'
        configuration = store + owner("rate", requests_per_minute=60, streams=4)
        with (
            small_disk(folder),
            Vendor() as vendor,
            gateway(vendor, configuration, "--workers", "2") as served,
        ):
            streams = Streams(served, pool)
            streams.once("rate")
            running = streams.start(1, marked(20, 0.15), "rate")
            time.sleep(0.5)
            fill(folder / "fill")
            found = Counter(streams.once("rate") for _ in range(4))
            right = all(status.startswith("503") for status in found)
            verdict(right, f"full disk: four requests get {dict(found)}")
            ended = streams.ends(running)
            verdict(ended["done"] == 1, f"full disk: the stream under way {dict(ended)}")
            (folder / "fill").unlink()
            time.sleep(0.5)
            found = Counter(streams.once("rate") for _ in range(2))
            verdict(found["200"] == 2, f"space again: two requests get {dict(found)}")
            open_streams = served.spending("rate")["streams"]
            verdict(open_streams == 0, f"{open_streams} streams are counted as open")


def fill(path: Path) -> None:
    """Write until the disk is full."""
    try:
        with path.open("wb", buffering=0) as file:
            while file.write(b"x" * 4096):
                pass
    except OSError:
        return


def descriptors(pool: ThreadPoolExecutor) -> None:
    """Open more streams than a worker has descriptors for."""
    with Vendor() as vendor, gateway(vendor, owner("bob")) as served:
        limit(served, resource.RLIMIT_NOFILE, DESCRIPTORS)
        streams = Streams(served, pool)
        running = streams.start(300, marked(20, 0.3))
        time.sleep(3)
        pids = (served.process.pid, *children(served.process.pid))
        before = seconds(pids)
        time.sleep(2)
        used = seconds(pids) - before
        ended = streams.ends(running)
        text = (
            f"{DESCRIPTORS} descriptors, 300 streams: {dict(ended)}, processor {used:.1f} s in 2 s"
        )
        verdict(ended["cut"] == 0, text)
        found = streams.once()
        verdict(found == "200", f"descriptors free again: a request gets {found}")
        print(f"       the log has {len(served.log)} lines; the last: {served.log[-1][:100]}")


def memory(pool: ThreadPoolExecutor) -> None:
    """Send large bodies to a gateway that has little memory."""
    with Vendor() as vendor, gateway(vendor, owner("bob")) as served:
        limit(served, resource.RLIMIT_AS, MEMORY)
        big = "x" * BODY
        ask = [pool.submit(served.chat, "bob", MODEL, big, seconds=60) for _ in range(BODIES)]
        found = Counter(each.result().status for each in ask)
        alive = served.process.poll() is None
        text = f"{MEMORY // 10**6} MB of address space, {BODIES} bodies of 30 MB: {dict(found)}"
        state = "goes on" if alive else f"ended with {served.process.returncode}"
        verdict(alive, f"{text}; the gateway {state}")
        after = Streams(served, pool).once()
        verdict(after == "200", f"after that a request gets {after}")
        print(f"       the last line of the log: {served.log[-1][:100]}")


CASES: tuple[Callable[[ThreadPoolExecutor], None], ...] = (
    worker_killed,
    terminated,
    full_disk,
    descriptors,
    memory,
)


def main() -> None:
    """Run all cases, or those that are named."""
    named = sys.argv[1:]
    with ThreadPoolExecutor(320) as pool:
        for case in CASES:
            if named and case.__name__ not in named:
                continue
            try:
                case(pool)
            except (OSError, subprocess.SubprocessError) as error:
                print(f"{case.__name__}: cannot be run here: {error}")


if __name__ == "__main__":
    main()
