"""Write docs/reference/benchmarks.md from one run: `python -m lab.benchmarks.page [--from FOLDER]`.

Runs the benchmarks one after the other, keeps what they print as JSON in a folder, and writes the
page and its charts from that. `--from` writes them anew from a folder of an earlier run.
"""

from __future__ import annotations

import argparse
import hashlib
import inspect
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.benchmarks import libraries
from lab.benchmarks.charts import bars
from lab.benchmarks.clients import Floor
from lab.benchmarks.conversations import DELTAS, PROTOCOLS, SIZES
from lab.benchmarks.gateways import OPENED_AT_ONCE, WAITING_ROUNDS
from lab.benchmarks.ratios import spread, with_spread, within_rounds

DOCS = Path(__file__).resolve().parents[2] / "docs"

RUNS = {
    "speed": ("lab.benchmarks.run",),
    "in_memory": ("lab.benchmarks.in_memory",),
    "imports": ("lab.benchmarks.imports",),
    "gateways": ("lab.benchmarks.gateways",),
    "libraries": ("lab.benchmarks.libraries", "--rounds", "5"),
}
"""The benchmarks, by the name of the file that keeps their figures."""

Found = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """A measure, its target, where the figure is, and what stands in the way of one not met."""

    measure: str
    target: float
    figure: Callable[[Found], list[float]]
    unit: str = "×"
    why: str = ""

    def line(self, found: Found) -> str:
        """Return the row of the table."""
        values, target = self.figure(found), self.target
        is_met = statistics.median(values) <= target
        met = "met" if is_met else self.why or "not met"
        shown = with_spread(values)
        return f"| {self.measure} | ≤ {target:g} {self.unit} | {shown} {self.unit} | {met} |"


def _in_memory(group: str, name: str) -> Callable[[Found], list[float]]:
    return lambda found: list(found["in_memory"][group][name])


PYTHON = "each delta is converted to an event, checked and passed on in Python"
NESTED = (
    "the arguments of a tool call are nested deeper in the JSON than text, "
    "and take longer to decode"
)

ROWS = (
    *(
        Row(
            f"{name}: CPU time of a burst of deltas, compared with the floor of the same API",
            1.5 if name == "Bedrock" else 1.0,
            _in_memory("formats", name),
            why=PYTHON,
        )
        for name in ("Chat", "Responses", "Messages", "Gemini", "Ollama", "Bedrock")
    ),
    Row(
        "CPU time of reasoning deltas, compared with text deltas",
        1.2,
        _in_memory("kinds", "thinking"),
    ),
    Row(
        "CPU time of tool call deltas, compared with text deltas",
        1.2,
        _in_memory("kinds", "tool call"),
        why=NESTED,
    ),
    Row(
        "additional CPU time for each further observer",
        0.05,
        _in_memory("observers", "each further one"),
    ),
    Row(
        "CPU time per delta of an answer of 100,000 deltas, compared with one of 1,000",
        1.03,
        _in_memory("growth", "100,000 deltas over 1,000"),
    ),
    Row(
        "CPU time if the message is read every 100 deltas, compared with only at the end",
        1.2,
        _in_memory("growth", "the message read every 100"),
        why="each read joins the text again",
    ),
    Row(
        "memory of an answer of 100,000 deltas, in addition to its text",
        3.0,
        _in_memory("memory", "MB beyond the text of 100,000 deltas"),
        "MB",
        "the frames of a network read and the pieces of text that are not joined yet take memory",
    ),
    Row(
        "CPU time of importing swink_core, compared with importing aiohttp",
        0.45,
        lambda found: list(found["imports"]["import swink_core"]),
        why="attrs generates the methods of classes at import",
    ),
    Row(
        "memory that remains allocated after 10,000 streams",
        1.0,
        _in_memory("flat", "MB left"),
        "MB",
    ),
    Row("tasks that remain after 10,000 streams", 0.0, _in_memory("flat", "tasks left"), ""),
    Row(
        "file descriptors that remain open after 10,000 streams",
        0.0,
        _in_memory("flat", "descriptors left"),
        "",
    ),
)

TRANSLATED = (
    "a relay does not parse answers; the gateway parses, checks, counts and encodes each answer"
)

CALL = "options, rules, prices and totals of a call are computed in Python"

TARGETS = {"burst": (1.0, PYTHON), "paced": (1.1, PYTHON), "one delta": (2.0, CALL)}
"""The target of each turn of swink, in floors, and the reason why it is missed."""

GATEWAY_TARGETS = {
    "requests a second": ("at least 0.7 × the relay", TRANSLATED),
    "first byte ms": ("at most 0.4 ms more than the relay", CALL),
    "CPU us a chunk": ("at most 1.3 × the relay", PYTHON),
}
"""The target of each figure, and the reason why it is missed."""


GATEWAYS = ("relay", "parsing", "swink", "guarded", "litellm")
"""The columns of the tables of gateways."""

FEWEST_WAITING = 100
"""With fewer streams, the CPU time is less than the kernel measures, and is left out."""


def _meets(figure: str, swink: float, relay: float) -> bool:
    if figure == "requests a second":
        return swink >= 0.7 * relay
    return swink <= (relay + 0.4 if figure == "first byte ms" else 1.3 * relay)


def _contenders(found: Found) -> str:
    lines = []
    for scenario, rows in found["speed"]["results"].items():
        lines += [f"\n### {scenario}\n", "| | × `swink` | spread |", "|---|---:|---:|"]
        plain = rows["swink"]["cpu_us_rounds"]
        for name, row in rows.items():
            if name in ("floor", "swink"):
                continue
            ratios = within_rounds(row["cpu_us_rounds"], plain)
            lines.append(f"| `{name}` | {statistics.median(ratios):.2f} | {spread(ratios)} |")
    return "\n".join(lines)


def _conversations(found: Found) -> str:
    ratios = found["in_memory"]["conversations"]
    lines = [
        "| | messages | × the floor, 3 deltas | × the floor, 300 deltas |",
        "|---|---:|---:|---:|",
    ]
    for protocol in PROTOCOLS:
        for size in SIZES:
            short, long = (ratios[f"{protocol}-{size}-{deltas}"] for deltas in DELTAS)
            cells = f"{with_spread(short, 1)} | {with_spread(long)}"
            lines.append(f"| {PROTOCOLS[protocol].name} | {size} | {cells} |")
    return "\n".join(lines)


def _peers(found: Found) -> str:
    rows = found["libraries"]
    lines = libraries.table(rows)
    for turn, (most, why) in TARGETS.items():
        is_met = statistics.median(libraries.ratios(rows, "swink", turn)) <= most
        verdict = "met" if is_met else f"missed, because {why}"
        start = "" if turn != "burst" else "\n"
        lines.append(f"{start}* {turn}, target at most {most:g} ×: {verdict}")
    return "\n".join(lines)


def _all_gateways(found: Found) -> str:
    rounds = found["gateways"]["rounds"]
    names = [name for name in GATEWAYS if name in rounds[0]]
    lines = [f"| | {' | '.join(names)} | target |", f"|---|{'---:|' * len(names)}---|"]
    for figure in rounds[0]["relay"]:
        held = {name: [one[name][figure] for one in rounds] for name in names}
        target, why = GATEWAY_TARGETS.get(figure, ("", ""))
        if target:
            swink, relay = (statistics.median(held[name]) for name in ("swink", "relay"))
            is_met = _meets(figure, swink, relay)
            target += ": met" if is_met else f": missed, because {why}"
        cells = " | ".join(_figures(values) for values in held.values())
        lines.append(f"| {figure} | {cells} | {target} |")
    return "\n".join(lines)


def _figures(values: list[float]) -> str:
    """Return a cell: the median, with the spread; large figures have fewer digits."""
    median = statistics.median(values)
    return with_spread(values, 0 if median >= 100 else 1 if median >= 10 else 2)


def _waiting(found: Found) -> str:
    rounds = found["gateways"]["waiting"]
    names = [name for name in GATEWAYS if name in rounds[0]]
    lines = [f"| streams | | {' | '.join(names)} |", f"|---:|---|{'---:|' * len(names)}"]
    for count, figures in rounds[0]["relay"].items():
        measured = figures if int(count) >= FEWEST_WAITING else ["MB"]
        for figure in measured:
            cells = [
                _figures([one[name][count][figure] for one in rounds])
                if count in rounds[0][name]
                else ""
                for name in names
            ]
            lines.append(f"| {int(count):,} | {figure} | {' | '.join(cells)} |")
    return "\n".join(lines)


def page(found: Found) -> str:
    """Return the page."""
    environment = found["speed"]["environment"]
    packages = ", ".join(f"{name} {version}" for name, version in environment["packages"].items())
    floor = hashlib.sha256(inspect.getsource(Floor).encode()).hexdigest()[:12]
    return f"""# Benchmarks

<!-- Generated by `python -m lab.benchmarks.page`. -->

This page compares the CPU time and memory of swink with those of other libraries. `python -m
lab.benchmarks.page` measures them; `lab/benchmarks/README.md` describes the scenarios and the
method. *CPU time* is the CPU time of the client process. In a round, each program runs once. A
ratio compares two programs within one round on the same machine; the tables show the median of
several rounds, with the lowest and the highest round in parentheses. The *floor* is a minimal
client: a loop with aiohttp and orjson that collects the text, without checks and events (sha256 of
its source: {floor}).
[Performance](../explanation/performance.md) explains the costs in detail.

Measured with {environment["python"]}, {environment["system"]}, {environment["cpu"]},
{environment["cores"]} cores; {packages}.

## Without a network

These measurements run in one process, without a network. The last column is *met*, or the reason
why the target is missed.

| measure | target | now | result |
|---|---|---|---|
{chr(10).join(row.line(found) for row in ROWS)}

![CPU per delta of each API, as a multiple of the floor](../pictures/benchmarks-formats.svg)

## Conversations

This table shows the CPU time of calls whose conversation has one, 31 or 301 messages and 8 tools,
as a multiple of the floor. The floor encodes the same request body once with orjson and reads the
same answer. The longer the conversation, the more messages swink converts and checks;
`python -m lab.benchmarks.instructions` counts the CPU instructions of these calls.

{_conversations(found)}

## The gateway

This table compares the gateway with two relays and with litellm's proxy. Each has one worker and
forwards requests over Chat Completions to a local server. Both relays are based on aiohttp: `relay`
copies bytes without parsing them, and `parsing` decodes each frame and encodes it again. `swink` is
the gateway without keys; `guarded` is the gateway with an API key and a ledger in a SQLite file.
*First byte* is the time to the first byte of an answer on an open connection. *Gap* is the time
between two chunks of an answer, with 200 streams at a time. *p99* is the 99th percentile. The
server, the clients and the tested program share the machine, so the requests per second depend on
the machine's load; ratios compare programs in the same round.

{_all_gateways(found)}

### Open streams

This table shows the memory and CPU time of the program's process with a number of open streams that
receive no data, in {WAITING_ROUNDS} rounds with a new process each. The streams are opened in
groups of {OPENED_AT_ONCE}, so the time to their first byte contains the wait for the others of a
group; the highest times contain pauses of Python's garbage collector. *Further requests* are sent
one after the other while the streams are open. This machine permits 20,000 file descriptors per
process, and each stream takes two, so the largest number is below 10,000. An empty cell was not
measured.

{_waiting(found)}

## Other libraries

Each library runs in a separate process and environment with its default settings. In each round,
every library reads the same answers from the same server. `×` is the CPU time as a multiple of the
floor of the same API in the same round. *burst* is an answer of {libraries.DELTAS:,} deltas without
pauses; *paced* is an answer of {libraries.PACED} deltas, with a pause of a millisecond between
them. anthropic uses Messages, ollama its native API, and all others Chat Completions. *First
content* is the time from the call to the first content of an answer of one delta, on an open
connection. *1,000 streams* run concurrently, each with {libraries.CROWD_DELTAS} deltas at 50 per
second; *memory* is the peak memory of the process during this run. The list below the table shows
whether swink meets its targets.

{_peers(found)}

![CPU per delta, compared with other libraries](../pictures/benchmarks-peers.svg)

![Time to the first content](../pictures/benchmarks-first.svg)

![Memory at 1,000 streams](../pictures/benchmarks-memory.svg)

## Growth

![The cost of a delta by the length of the answer](../pictures/benchmarks-growth.svg)

## Observers, wrappers and batches

These tables show the CPU time of programs as a multiple of that of `swink` in the same round, and
the lowest and highest ratio of all rounds (*spread*). `swink` is a program that iterates over the
events of a stream. The other programs are:

* `hand`: a hand-written loop over the lines of the response, without swink;
* `batches`: swink with `stream.batches()`, the events of one network read at a time;
* `wrapped` and `wrapped-b`: swink with a wrapper that forwards all events, singly or in batches;
* `observed`: swink with an observer that does nothing;
* `observers`: swink with the observers for logs, Prometheus, OpenTelemetry and the live feed;
* `recorded`: swink with the recorder;
* `all`: swink with `observers` and `recorded` together.

`burst-20000` is an answer of 20,000 deltas without pauses. `paced-100` is an answer of 100 deltas,
with a pause of a millisecond between them. `short-3` are answers of three deltas.
{_contenders(found)}
"""


def charts(found: Found) -> dict[str, str]:
    """Return the charts, by their file's name."""
    in_memory = found["in_memory"]["formats"].items()
    formats = {"burst, in memory": [(name, statistics.median(held)) for name, held in in_memory]}
    rows = found["libraries"]
    beside = {
        kind: [(name, statistics.median(libraries.ratios(rows, name, kind))) for name in rows]
        for kind in ("burst", "paced")
    }
    first = {"ms": [(name, statistics.median(row["first"])) for name, row in rows.items()]}
    memory = {"MB": [(name, row["crowd"]["MB"]) for name, row in rows.items()]}
    growth = {
        title: [(name, sizes[name]["cpu_us"]) for name in ("floor", "swink", "hand")]
        for title, sizes in found["speed"]["growth"].items()
    }
    return {
        "benchmarks-formats.svg": bars("CPU a delta, in each format's own floor", formats),
        "benchmarks-peers.svg": bars("CPU a delta, in floors", beside),
        "benchmarks-first.svg": bars("First content of a call of one delta", first),
        "benchmarks-memory.svg": bars("Memory at 1,000 streams", memory),
        "benchmarks-growth.svg": bars("Microseconds a delta, in a burst", growth),
    }


def measured(folder: Path) -> None:
    """Run everything, and keep what it found in a folder."""
    for name, command in RUNS.items():
        print(f"== {' '.join(command)}", flush=True)
        kept = ["--json", str(folder / f"{name}.json")]
        subprocess.run([sys.executable, "-m", *command, *kept], check=True)


def main() -> None:
    """Measure, unless that was done before, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m lab.benchmarks.page", description=__doc__)
    parser.add_argument("--from", dest="folder", type=Path, metavar="FOLDER")
    folder = parser.parse_args().folder
    with tempfile.TemporaryDirectory() as scratch:
        if folder is None:
            measured(folder := Path(scratch))
        found = {name: json.loads((folder / f"{name}.json").read_text()) for name in RUNS}
    (DOCS / "reference" / "benchmarks.md").write_text(page(found), encoding="utf-8")
    for name, chart in charts(found).items():
        (DOCS / "pictures" / name).write_text(chart, encoding="utf-8")


if __name__ == "__main__":
    main()
