"""Print what `swink batch` does with a revoked key, two runs, changed input, and a full disk.

    python -m lab.findings.batch_rows [revoked | two_runs | changed | full_disk | budget | odd_rows]

The vendor's record and bill show the requests and their cost. Runs that are killed are in
`batch_twice`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

from lab.findings.batch_twice import answered, write_rows
from lab.findings.gateways import MODEL, environment_for, verdict
from lab.findings.resource_limits import small_disk
from lab.vendor import Vendor
from swink_testing.command_line import swink_command

ROWS = 400
SECONDS = 90.0
KEY = "key-alpha"


class Runs:
    """Runs of `swink batch` in a folder, before one vendor."""

    def __init__(self, vendor: Vendor, folder: Path) -> None:
        self.vendor = vendor
        self.folder = folder

    def start(
        self,
        *arguments: str,
        rows: str = "rows.jsonl",
        output: str = "answers.jsonl",
        prompt: str = "Say {text}",
    ) -> subprocess.Popen[str]:
        """Start a run."""
        command = swink_command(
            "batch", rows, "-o", output, "-m", MODEL, "--prompt", prompt,
            "--max-tokens", "20", *arguments,
        )  # fmt: skip
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env=environment_for(self.vendor, self.folder),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(self, running: subprocess.Popen[str]) -> tuple[int, str]:
        """Wait for a run; return its exit status and the line that explains a failure."""
        _, text = running.communicate(timeout=SECONDS)
        lines = [line for line in text.splitlines() if line.strip()]
        reason = next((line for line in lines if line.startswith("stopped")), "")
        return running.returncode, (reason or (lines[-1] if lines else ""))[:110]

    def run(self, *arguments: str, **named: str) -> tuple[int, str]:
        """Run to the end."""
        return self.finish(self.start(*arguments, **named))

    @property
    def requests(self) -> int:
        """The requests that the vendor has answered."""
        return sum(each.status == 200 for each in self.vendor.state.record.of())

    def forget(self) -> None:
        """Begin the vendor's record anew."""
        self.vendor.state.record.clear()


def revoked(runs: Runs) -> None:
    """Revoke the key in the middle of a run, and give it back."""
    running = runs.start()
    while answered(runs.folder) < 20 and running.poll() is None:
        time.sleep(0.05)
    runs.vendor.state.accounts.revoke(KEY)
    status, last = runs.finish(running)
    text = f"exit {status}, {answered(runs.folder)} answered, last line {last!r}"
    verdict(status != 0 and "key" in last.lower(), f"a key is revoked: {text}")
    runs.vendor.state.accounts.add("alpha", [KEY])
    status, _ = runs.run()
    asked = runs.requests
    text = f"exit {status}, {answered(runs.folder)} answered with {asked} requests in all"
    verdict(answered(runs.folder) == ROWS and asked <= ROWS + 20, f"the key works again: {text}")


def two_runs(runs: Runs) -> None:
    """Start two runs with one output."""
    first = runs.start()
    time.sleep(1.5)
    status, last = runs.run()
    runs.finish(first)
    text = f"exit {status}, {last!r}"
    right = runs.requests == answered(runs.folder) == ROWS
    verdict(right, f"two runs, one output: {runs.requests} requests for {ROWS} rows; {text}")


def changed(runs: Runs) -> None:
    """Change the prompt, then ten rows."""
    runs.run()
    runs.forget()
    status, last = runs.run(prompt="Do not say {text}")
    verdict(runs.requests == 0 and status != 0, f"another prompt: exit {status}, {last!r}")
    rows = runs.folder / "rows.jsonl"
    lines = [line.replace("ROW", "NEW") for line in rows.read_text().splitlines(keepends=True)[:10]]
    rows.write_text("".join(lines + rows.read_text().splitlines(keepends=True)[10:]))
    status, _ = runs.run()
    verdict(runs.requests == 10, f"ten rows changed: exit {status}, {runs.requests} requests")


def full_disk(runs: Runs) -> None:
    """Write the output to a disk that is too small, and make room."""
    disk = runs.folder / "disk"
    disk.mkdir()
    with small_disk(disk):
        filler = disk / "filler"
        filler.write_bytes(b"x" * (2_000_000 - 40_000))
        status, last = runs.run(output="disk/answers.jsonl")
        paid = runs.requests
        verdict(status != 0, f"full disk: exit {status}, {paid} requests, last line {last!r}")
        filler.unlink()
        status, _ = runs.run(output="disk/answers.jsonl")
        again = runs.requests - ROWS
        text = f"space again: exit {status}, {again} rows were paid twice"
        verdict(status == 0 and again <= 0, text)


def budget(runs: Runs) -> None:
    """Give a limit for a part of the rows."""
    dollars = Decimal("0.005")
    status, last = runs.run("--max-cost", str(dollars))
    billed = Decimal(runs.vendor.state.bill()["total"]["cost"])
    file = runs.folder / "answers.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    shown = sum(Decimal(str(line.get("cost") or 0)) for line in lines)
    text = f"${dollars}: billed ${billed:.5f}, ${shown:.5f} in the output, exit {status}, {last!r}"
    verdict(0 < billed <= dollars, f"a limit of {text}")


ODD: list[Any] = [
    {"id": 1, "text": "ROW1."},
    {"id": "1", "text": "the same id"},
    {"id": None, "text": "no id"},
    {"text": "no field"},
    {"id": True, "text": "a truth value"},
    {"id": [1, 2], "text": "a list"},
    {"id": "x" * 100_000, "text": "a long id"},
    {"id": "long", "text": "y" * 3_000_000},
    {"id": "no text"},
    {"id": "null", "text": None},
    {"id": "half", "text": "a\ud800b"},
    [1, 2],
    "text alone",
]


def odd_rows(runs: Runs) -> None:
    """Print what becomes of each odd row."""
    file = runs.folder / "odd.jsonl"
    text = "".join(json.dumps(row) + "\n" for row in ODD)
    broken = b'{"id": "bytes", "text": "\xff\xfe"}\nnot JSON\n\n{"id": "cut", "te'
    file.write_bytes(text.encode() + broken)
    status, last = runs.run("--order", "input", rows="odd.jsonl", output="odd.out")
    output = (runs.folder / "odd.out").read_text().splitlines()
    lines = [json.loads(line) for line in output]
    verdict(len(lines) == len(ODD) + 3, f"{len(lines)} lines of output, exit {status}, {last!r}")
    for line in lines:
        error = line.get("error") or {}
        shown = f"{error['kind']}: {error.get('message', '')[:70]}" if error else "answered"
        print(f"       {str(line.get('id'))[:12]!r:16} {shown}")


CASES: tuple[Callable[[Runs], None], ...] = (
    revoked,
    two_runs,
    changed,
    full_disk,
    budget,
    odd_rows,
)


def main() -> None:
    """Run all cases, or those that are named, each before a new vendor."""
    named = sys.argv[1:]
    for case in CASES:
        if named and case.__name__ not in named:
            continue
        with tempfile.TemporaryDirectory() as place, Vendor(first_token=0.3) as vendor:
            folder = Path(place)
            write_rows(folder, ROWS)
            try:
                case(Runs(vendor, folder))
            except (OSError, subprocess.SubprocessError) as error:
                print(f"{case.__name__}: cannot be run here: {error}")


if __name__ == "__main__":
    main()
