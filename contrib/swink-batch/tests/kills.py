"""Kills runs of a job again and again, and checks that nothing is lost and nothing asked twice.

    python kills.py [--kills 200] [--rows 20000] [--engine files|sqlite] [--seed N]

Each run is a separate process that is ended by SIGKILL: from outside, at a random microsecond after
some more requests; or by itself, after a random byte of a write of journal or output, before or
after the rename that replaces an output, or at a random call into SQLite. A server in another
process counts the requests for each row. Afterwards:

* every row has one answer, in the output and in the journal;
* no row was sent again whose answer was in the journal when a run began;
* no run asked a row twice, and no kill cost more requests than were under way.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import aiohttp  # noqa: F401  # so that each fork need not
from attrs import define

import swink_provider_openai  # noqa: F401
from swink_batch import job, run

CONCURRENCY = 32

STEPS = 12
"""Instructions of SQLite's virtual machine for a line, about."""

SERVER = Path(__file__).with_name("row_server.py")


@contextmanager
def row_server(*arguments: str) -> Iterator[str]:
    """Start the server in a separate process, and yield its address."""
    with subprocess.Popen(
        [sys.executable, str(SERVER), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin
        assert process.stdout
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.stdin.close()


def fetched(url: str) -> Any:
    """Return the JSON that an address has."""
    with urlopen(url) as response:
        return json.load(response)


@define
class Found:
    """The results of a series of kills."""

    kills: Counter[str]
    runs: int
    asked: int
    most_a_run: int
    again_after_journalled: list[str]
    twice_in_a_run: list[str]
    too_many_a_kill: list[int]
    wrong: list[str]

    @property
    def faults(self) -> int:
        """How many promises were broken."""
        lists = (
            self.again_after_journalled, self.twice_in_a_run, self.too_many_a_kill, self.wrong,
        )  # fmt: skip
        return sum(map(len, lists))


class Kills:
    """A series of runs of one job, each of which is killed."""

    def __init__(self, folder: Path, url: str, rows: int, engine: str, seed: int) -> None:
        self.url, self.rows = url, rows
        self.requests, self.output = folder / "requests.jsonl", folder / "answers.jsonl"
        self.journal = folder / ("journal.sqlite" if engine == "sqlite" else "journal")
        self._engine, self._random = engine, random.Random(seed)
        lines = (json.dumps({"id": f"r{n}", "prompt": f"row r{n}"}) for n in range(rows))
        self.requests.write_text("\n".join(lines) + "\n", "utf-8")

    def run(self, kills: int) -> Found:
        """Kill as often, then let a run end, and look at what there is."""
        found = Found(Counter(), 0, 0, 0, [], [], [], [])
        before: Counter[str] = Counter()
        renames = max(2, kills // 20)
        while (left := kills - renames - found.kills.total()) > 0:
            journalled = self.journalled()
            if len(journalled) == self.rows:
                break  # rows ran out a little early: the rest is killed at the rename
            step = max(1, int(0.9 * (self.rows - len(journalled)) / left))
            if how := self._kill_one(sum(before.values()), step):
                found.kills[how] += 1
            before = self._look(found, before, journalled)
        for number in range(kills - found.kills.total()):
            journalled = self.journalled()
            pid = self._started(lambda after=number % 2: _kill_at_rename(after), "input")
            found.kills["at the rename"] += self._ended(pid)
            before = self._look(found, before, journalled)
        journalled = self.journalled()
        self._ended(self._started(lambda: None, "input"))
        self._look(found, before, journalled)
        self._check_output(found)
        return found

    def journalled(self) -> set[str]:
        """Return the rows whose answers are in the journal, read by no code of swink's."""
        if self._engine == "sqlite":
            if not self.journal.exists():
                return set()
            with sqlite3.connect(f"file:{self.journal}?mode=ro", uri=True) as database:
                try:
                    found = [line for (line,) in database.execute("SELECT line FROM lines")]
                except sqlite3.OperationalError:
                    return set()  # killed before there was a table
            database.close()
        else:
            files = [*self.journal.glob("*.journal")]
            found = [line for f in files for line in f.read_bytes().split(b"\n")[:-1]]
        answers = [line.partition(b" ")[2] for line in found if not line.startswith(b"{")]
        return {json.loads(answer)["id"] for answer in answers}

    def _look(self, found: Found, before: Counter[str], journalled: set[str]) -> Counter[str]:
        now = Counter(fetched(f"{self.url}/counts"))
        asked = now - before
        found.runs += 1
        found.again_after_journalled += sorted(asked.keys() & journalled)
        found.twice_in_a_run += [id for id, count in asked.items() if count > 1]
        lost = sum(asked.values()) - (len(self.journalled()) - len(journalled))
        if lost > CONCURRENCY:
            found.too_many_a_kill.append(lost)
        found.asked, found.most_a_run = sum(now.values()), max(found.most_a_run, lost)
        return now

    def _kill_one(self, asked: int, step: int) -> str | None:
        """Run and kill; return how it was killed, or `None` where it came to its end before."""
        way = self._random.choice(["outside", "outside", "in the journal", "in the output"])
        more = self._random.randrange(2 * step)
        order = "completion"
        if way == "outside":
            pid = self._started(lambda: None, self._random.choice(["completion", "input"]))
            self._wait_for(pid, asked + more)
            time.sleep(self._random.random() * 0.002)
            os.kill(pid, signal.SIGKILL)
        else:
            arm = _kill_in_output
            if way == "in the journal":
                order = self._random.choice(["completion", "input"])
                arm = _kill_in_files if self._engine == "files" else _kill_in_sqlite
            else:
                more += len(self.journalled())  # which are written first
            cut = self._random.random()
            pid = self._started(lambda: arm(more + 1, cut), order)
        return way if self._ended(pid) else None

    def _started(self, arm: Callable[[], None], order: str) -> int:
        if pid := os.fork():
            return pid
        try:
            arm()
            self._child(order)
        finally:
            os._exit(0)

    def _child(self, order: Any) -> None:
        providers = {"openai": {"base_url": f"{self.url}/v1", "api_key": "x", "api": "chat"}}
        asyncio.run(
            run(
                "openai/rows",
                self.requests,
                self.output,
                order=order,
                journal=self.journal,
                concurrency=CONCURRENCY,
                client={"providers": providers},
            )
        )

    def _wait_for(self, pid: int, asked: int) -> None:
        while sum(fetched(f"{self.url}/counts").values()) < asked:
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                return

    @staticmethod
    def _ended(pid: int) -> bool:
        """Wait for a process, and tell whether it was killed."""
        _, status = os.waitpid(pid, 0)
        return os.WIFSIGNALED(status)

    def _check_output(self, found: Found) -> None:
        lines = [json.loads(line) for line in self.output.read_bytes().splitlines()]
        for number, line in enumerate(lines):
            if line["id"] != f"r{number}" or line.get("text") != f"answer to r{number}":
                found.wrong.append(f"line {number} is {line}")
        if len(lines) != self.rows:
            found.wrong.append(f"{len(lines)} lines for {self.rows} rows")
        if len(self.journalled()) != self.rows:
            found.wrong.append(f"{len(self.journalled())} rows in the journal")


def _kill_in_files(left: int, cut: float) -> None:
    """Have this process kill itself after a part of a later write to the journal."""
    write = os.write

    def killing(descriptor: int, data: Any) -> int:
        nonlocal left
        left -= 1
        if left <= 0:
            write(descriptor, bytes(data)[: int(len(data) * cut)])
            os.kill(os.getpid(), signal.SIGKILL)
        return write(descriptor, data)

    os.write = killing  # type: ignore[assignment]  # that of the journal


def _kill_in_sqlite(left: int, cut: float) -> None:
    """Have this process kill itself within SQLite's own work on a later line."""
    connect = sqlite3.connect

    def connecting(*arguments: Any, **options: Any) -> Any:
        database = connect(*arguments, **options)
        steps = left * STEPS + int(cut * STEPS)

        def step() -> int:
            nonlocal steps
            steps -= 1
            if steps <= 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return 0

        database.set_progress_handler(step, 1)
        return database

    sqlite3.connect = connecting  # type: ignore[assignment]  # that of the journal


def _kill_in_output(left: int, cut: float) -> None:
    """Have this process kill itself after a part of a later write to the output."""
    opened = job.opened

    class Killing:
        def __init__(self, file: Any) -> None:
            self._file = file

        def write(self, data: bytes) -> None:
            nonlocal left
            left -= 1
            if left <= 0:
                self._file.write(data[: int(len(data) * cut)])
                os.kill(os.getpid(), signal.SIGKILL)
            self._file.write(data)

    @contextmanager
    def opening(path: Path, whole: bool) -> Iterator[Any]:
        with opened(path, whole) as file:
            yield Killing(file)

    job.opened = opening


def _kill_at_rename(after: int) -> None:
    """Have this process kill itself before or after the output takes its place."""
    replace = Path.replace

    def killing(self: Path, target: Any) -> Path:
        if after:
            replace(self, target)
        os.kill(os.getpid(), signal.SIGKILL)
        return self

    Path.replace = killing  # type: ignore[method-assign]  # that of the output


def main() -> int:
    """Run it, and say what was found."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--engine", choices=["files", "sqlite"], default="files")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    given = parser.parse_args()
    print(f"seed {given.seed}")
    with tempfile.TemporaryDirectory() as folder, row_server("--latency", "0.005") as url:
        series = Kills(Path(folder), url, given.rows, given.engine, given.seed)
        found = series.run(given.kills)
    print(
        f"{sum(found.kills.values())} kills {dict(found.kills)} in {found.runs} runs; "
        f"{found.asked:,} requests for {given.rows:,} rows; at most {found.most_a_run} lost by one "
        f"kill, with {CONCURRENCY} under way; {found.faults} broken promises"
    )
    if found.faults:
        print(found)
    return 1 if found.faults else 0


if __name__ == "__main__":
    sys.exit(main())
