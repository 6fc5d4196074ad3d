"""Print which rows `swink batch` pays for twice: by the vendor's batch API, and one call a row.

    python -m lab.findings.batch_twice

A run breaks, or is killed, and is started again; the vendor's record shows the rows that were
answered twice.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path

from lab.findings.gateways import MODEL, environment_for, verdict
from lab.vendor import Fault, Schedule, Vendor
from swink_testing.command_line import swink_command

ROWS = 40

MANY = 300

KILLS = 3

SECONDS = 90.0

_ROW = re.compile(rb"ROW(\d+)\.")


def write_rows(folder: Path, count: int) -> None:
    """Write so many rows."""
    with (folder / "rows.jsonl").open("w") as file:
        for number in range(count):
            file.write(json.dumps({"id": f"r{number}", "text": f"ROW{number}."}) + "\n")


def start(vendor: Vendor, folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """Start a run over the rows of a folder."""
    command = swink_command(
        "batch", "rows.jsonl", "-o", "answers.jsonl", "-m", MODEL, "--prompt", "Say {text}",
        "--max-tokens", "20", *arguments,
    )  # fmt: skip
    return subprocess.Popen(
        command,
        cwd=folder,
        env=environment_for(vendor, folder),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def answered(folder: Path) -> int:
    """Count the rows of the output that have an answer."""
    file = folder / "answers.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    return sum("error" not in json.loads(line) for line in lines)


def submitted(vendor: Vendor) -> tuple[int, int]:
    """Count the batches that the vendor ran, and their rows."""
    exchanges = [each for each in vendor.state.record.of() if each.batch is not None]
    return len({each.batch for each in exchanges}), len(exchanges)


def by_batch(name: str, fault: Fault, kill_after: float | None = None) -> None:
    """Break the reply to the batch's creation, run again, and count batches and rows."""
    with tempfile.TemporaryDirectory() as place, Vendor() as vendor:
        folder = Path(place)
        write_rows(folder, ROWS)
        vendor.state.faults.add(fault)
        running = start(vendor, folder, "--via", "batch")
        if kill_after is not None:
            time.sleep(kill_after)
            running.kill()
        running.wait(SECONDS)
        first = answered(folder)
        status = start(vendor, folder, "--via", "batch").wait(SECONDS)
        batches, rows = submitted(vendor)
        text = f"{batches} batches of {rows} rows for {ROWS}; answered {first}, then"
        right = rows <= ROWS and answered(folder) == ROWS
        verdict(right, f"{name}: {text} {answered(folder)} (exit {status})")


def by_call() -> None:
    """Kill a run of many rows before a vendor with faults, and count the rows paid twice."""
    schedule = Schedule(seed=1, rate=0.08)
    chance = random.Random(7)
    with (
        tempfile.TemporaryDirectory() as place,
        Vendor(schedule=schedule, first_token=0.05) as vendor,
    ):
        folder = Path(place)
        write_rows(folder, MANY)
        for _ in range(KILLS):
            running = start(vendor, folder)
            time.sleep(1.0 + chance.random())
            running.kill()
            running.wait(SECONDS)
        status = start(vendor, folder).wait(SECONDS)
        paid: Counter[bytes] = Counter()
        for exchange in vendor.state.record.of():
            if exchange.ended == "complete" and (found := _ROW.search(exchange.body)):
                paid[found[1]] += 1
        twice = sum(times > 1 for times in paid.values())
        text = f"{answered(folder)} of {MANY} answered (exit {status}), {twice} paid twice"
        print(f"       one call a row, {KILLS} kills: {text}")
        verdict(answered(folder) == MANY, "every row has an answer after the last run")


def main() -> None:
    """Print one line for each way to break."""
    path = "/batches"
    by_batch("the connection breaks", Fault("reset", after=0, path=path))
    by_batch("status 502", Fault("status", after=0, status=502, path=path))
    by_batch("kill before the reply", Fault("silence", after=0, path=path), kill_after=4.0)
    by_call()


if __name__ == "__main__":
    main()
