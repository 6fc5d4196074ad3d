"""Kills runs with `--via batch` at every line between build and ledger: no row is submitted twice.

    python kill_submissions.py [--vendors openai gemini …] [--places N] [--seed N]

Each run is a process that ends itself by SIGKILL when it comes to a line of the batch runner, its
ledger and journal, or the vendor's batch API: to the first and to the last time that it runs the
line. The next run is killed at a random line; the third one ends. Afterwards each row was submitted
once and has its answer.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import Any, TypeAlias

from attrs import define
from vendor_server import VendorServer
from vendor_servers import (
    AnthropicServer,
    BedrockServer,
    GeminiServer,
    MistralServer,
    OpenAIServer,
)

VENDORS: dict[str, tuple[str, type[VendorServer], str, dict[str, str]]] = {
    "openai": ("gpt-5.4-mini", OpenAIServer, "/v1", {"api": "chat"}),
    "mistral": ("mistral-small-latest", MistralServer, "/v1", {}),
    "anthropic": ("claude-haiku-4-5", AnthropicServer, "/v1", {}),
    "gemini": ("gemini-2.5-flash", GeminiServer, "/v1beta", {}),
    "bedrock": ("us.anthropic.claude-fable-5-2", BedrockServer, "", {"region": "us-east-1"}),
}
"""For each vendor: a model, the server, the path of the API, and settings."""

ROWS = [{"id": f"r{number}", "prompt": f"row r{number}"} for number in range(4)]

ANSWERS = {row["id"]: f"answer to {row['prompt']}" for row in ROWS}

FILES = ("via_batch.py", "ledger.py", "vendors.py", "engines.py", "journal.py", "batches.py")
"""The modules at whose lines a run is killed."""

ARRIVAL_SECONDS = 0.05
"""Time for a request that a killed run has sent to reach the server."""

Place: TypeAlias = int
"""The number of a line in the order in which a run comes to the lines of `FILES`, from 1."""


def environment_of(server: VendorServer) -> dict[str, str]:
    """Return the environment variables that Bedrock needs."""
    return {
        "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_ENDPOINT_URL_S3": server.url.removesuffix("/v1"),
        "SWINK_BEDROCK_BATCH_S3": "s3://bucket/folder",
        "SWINK_BEDROCK_BATCH_ROLE": "arn:aws:iam::1:role/batch",
    }


def job_of(name: str, server: VendorServer) -> tuple[str, dict[str, Any]]:
    """Return the model of a vendor, and the providers of a client that reach its server."""
    model, _, path, settings = VENDORS[name]
    root = server.url.removesuffix("/v1")
    own = {"base_url": f"{root}{path}", "api_key": "key", **settings}
    if name == "bedrock":
        del own["api_key"]
    return f"{name}/{model}", {name: own}


# -- the process that is killed ------------------------------------------------------------------


class Tracer:
    """Counts the lines of `FILES` that a run comes to, and kills the process at one of them."""

    def __init__(self, kill_at: Place | None) -> None:
        self.lines: list[str] = []
        self._kill_at = kill_at

    def traced(self, run: Callable[[Any], Awaitable[None]]) -> Callable[[Any], Awaitable[None]]:
        """Return the method of a runner with its lines counted."""

        async def traced(runner: Any) -> None:
            sys.settrace(self)
            try:
                await run(runner)
            finally:
                sys.settrace(None)

        return traced

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        file = frame.f_code.co_filename
        if not file.endswith(FILES) or "swink" not in file:
            return None
        if event == "line":
            self.lines.append(f"{os.path.basename(file)}:{frame.f_lineno}")
            if len(self.lines) == self._kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
        return self


def work() -> None:
    """Make the runs that standard input describes, each in a fork."""
    import swink_provider_openai  # noqa: F401  # so that each fork need not
    from swink_batch import run, via_batch
    from swink_core.providers import AiohttpClient  # noqa: F401

    via_batch.FIRST_POLL = 0.0001
    via_batch.SETTLE_SECONDS = 0.0
    for line in sys.stdin:
        asked = json.loads(line)
        os.environ.update(asked["environment"])
        pid = os.fork()
        if not pid:
            tracer = Tracer(asked["kill_at"])
            runner: Any = via_batch.BatchRunner
            runner.run = tracer.traced(runner.run)
            client = {"providers": asked["providers"]}
            asyncio.run(run(asked["model"], ROWS, asked["output"], via="batch", client=client))
            Path(asked["output"]).with_suffix(".lines").write_text("\n".join(tracer.lines))
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        print(status, flush=True)


# -- the series ----------------------------------------------------------------------------------


class Runs:
    """Runs of one vendor's job, in forks of a process that has imported everything."""

    def __init__(self, worker: subprocess.Popen[str], name: str, server: VendorServer) -> None:
        self._worker = worker
        self._model, self._providers = job_of(name, server)
        self._environment = environment_of(server) if name == "bedrock" else {}
        self.server = server

    def run(self, output: Path, kill_at: Place | None = None) -> bool:
        """Run the job, and return whether it ended by itself. Raises RuntimeError if it failed."""
        asked = {
            "model": self._model,
            "providers": self._providers,
            "environment": self._environment,
            "output": str(output),
            "kill_at": kill_at,
        }
        assert self._worker.stdin is not None
        assert self._worker.stdout is not None
        self._worker.stdin.write(json.dumps(asked) + "\n")
        self._worker.stdin.flush()
        status = int(self._worker.stdout.readline())
        if status not in (0, signal.SIGKILL):
            raise RuntimeError(f"the run ended with status {status}")
        if status:
            time.sleep(ARRIVAL_SECONDS)
        return not status

    def places(self, folder: Path) -> list[Place]:
        """Return the first and the last time that a run comes to each line."""
        output = folder / "whole.jsonl"
        self.run(output)
        lines = output.with_suffix(".lines").read_text().splitlines()
        first: dict[str, Place] = {}
        last: dict[str, Place] = {}
        for number, line in enumerate(lines, 1):
            first.setdefault(line, number)
            last[line] = number
        return sorted({*first.values(), *last.values()})

    def fault_after(self, output: Path, kills: Sequence[Place]) -> str:
        """Kill a run at each of these places, then let one end; return what is wrong, or ""."""
        self.server.batches.clear()
        for place in kills:
            self.run(output, place)
        self.run(output)
        submitted = [id for each in self.server.batches.values() for id, _ in each["requests"]]
        if len(submitted) != len(ROWS):
            return f"{len(submitted)} rows were submitted in {len(self.server.batches)} batches"
        lines = map(json.loads, output.read_bytes().splitlines())
        found = {line["id"]: line.get("text") for line in lines}
        return "" if found == ANSWERS else f"the answers are {found}"


@define
class Series:
    """The kills of one vendor's runs, and the faults that they led to."""

    name: str
    kills: int
    faults: list[str]


def series(
    names: Sequence[str], folder: Path, chance: random.Random, most: int | None = None
) -> Iterator[Series]:
    """Kill the runs of each vendor, at `most` places (`None`: at all)."""
    with ExitStack() as stack:
        worker = stack.enter_context(
            subprocess.Popen(
                [sys.executable, __file__, "--work"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        for name in names:
            runs = Runs(worker, name, stack.enter_context(VENDORS[name][1]()))
            home = folder / name
            home.mkdir()
            places = runs.places(home)
            chosen = places if most is None else sorted(chance.sample(places, most))
            found = Series(name, 0, [])
            for place in chosen:
                kills = [place, chance.choice(places)]
                fault = runs.fault_after(home / f"{place}.jsonl", kills)
                found.kills += len(kills)
                if fault:
                    found.faults.append(f"{name}, killed at {kills}: {fault}")
            yield found


def main() -> int:
    """Run the series, and say what was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--vendors", nargs="+", choices=[*VENDORS], default=[*VENDORS])
    parser.add_argument("--places", type=int, help="so many of each vendor's, instead of all")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        work()
        return 0
    print(f"seed {given.seed}")
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        chance = random.Random(given.seed)
        for found in series(given.vendors, Path(folder), chance, given.places):
            print(f"{found.name}: {found.kills} kills, {len(found.faults)} broken promises")
            for fault in found.faults:
                print(f"  {fault}")
                failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
