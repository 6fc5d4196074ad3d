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
from operator import sub, truediv
from pathlib import Path
from typing import Any

from lab.benchmarks import gateways, libraries
from lab.benchmarks.charts import bars
from lab.benchmarks.clients import Floor

DOCS = Path(__file__).resolve().parents[2] / "docs"

RUNS = {
    "speed": ("lab.benchmarks.run",),
    "many": ("lab.benchmarks.many",),
    "in_memory": ("lab.benchmarks.in_memory",),
    "imports": ("lab.benchmarks.imports",),
    "gateways": ("lab.benchmarks.gateways",),
    "libraries": ("lab.benchmarks.libraries", "--rounds", "5"),
}
"""What is run, and the name of what it keeps."""

Found = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """A measure, its target, where the figure is, and what stands in the way of one not met."""

    measure: str
    target: float
    figure: Callable[[Found], float]
    unit: str = "×"
    why: str = ""
    at_least: bool = False

    def line(self, found: Found) -> str:
        """Return the row of the table."""
        value, target = self.figure(found), self.target
        is_met = value >= target if self.at_least else value <= target
        met = "met" if is_met else self.why or "not met"
        bound = f"{'≥' if self.at_least else '≤'} {target:g} {self.unit}"
        return f"| {self.measure} | {bound} | {value:.2f} {self.unit} | {met} |"


def _speed(kind: str, name: str) -> Callable[[Found], float]:
    def figure(found: Found) -> float:
        results = found["speed"]["results"]
        rows = next(rows for scenario, rows in results.items() if scenario.startswith(kind))
        return float(rows[name]["ratio_to_floor"])

    return figure


def _many(figure: str) -> Callable[[Found], float]:
    def ratio(found: Found) -> float:
        pairs = zip(found["many"]["swink"], found["many"]["floor"], strict=True)
        return float(statistics.median(ours[figure] / floor[figure] for ours, floor in pairs))

    return ratio


def _wait(found: Found) -> float:
    pairs = zip(found["many"]["swink"], found["many"]["floor"], strict=True)
    name = "first content ms"
    return float(statistics.median(ours[name] - floor[name] for ours, floor in pairs))


def _in_memory(group: str, name: str) -> Callable[[Found], float]:
    return lambda found: float(found["in_memory"][group][name])


def _gateways(figure: str, over: Callable[[float, float], float]) -> Callable[[Found], float]:
    def median(found: Found) -> float:
        rounds = found["gateways"]["rounds"]
        return statistics.median(over(one["swink"][figure], one["relay"][figure]) for one in rounds)

    return median


PYTHON = "every delta is an event of its own, made, checked and handed over in Python"
CALL = "options, rules, prices and totals of a call are worked out in Python"

FULL = "where the processor has no time left, the streams wait for it: see the next row"

NESTED = "a piece of arguments is a struct in a list in a struct, and has to say nothing else"

ROWS = (
    Row("burst, full protocol, one observer", 1.0, _speed("burst", "observed"), why=PYTHON),
    Row("paced", 1.10, _speed("paced", "swink"), why=PYTHON),
    Row("request of one delta, warm: CPU", 1.4, _many("CPU us a call"), why=CALL),
    Row("request of one delta, warm: first content later by", 0.2, _wait, "ms", CALL),
    Row("1,000 streams at 50 deltas a second: wall", 1.03, _many("wall s"), why=FULL),
    Row("1,000 streams at 50 deltas a second: CPU", 1.03, _many("CPU s"), why=PYTHON),
    Row("1,000 streams at 50 deltas a second: memory", 1.1, _many("MB"), why="swink's own modules"),
    *(
        Row(
            f"{name}, burst, over its own floor",
            1.5 if name == "Bedrock" else 1.0,
            _in_memory("formats", name),
            why=PYTHON,
        )
        for name in ("Chat", "Responses", "Messages", "Gemini", "Ollama", "Bedrock")
    ),
    Row("deltas of thinking, over text", 1.2, _in_memory("kinds", "thinking")),
    Row("deltas of tool calls, over text", 1.2, _in_memory("kinds", "tool call"), why=NESTED),
    Row("each further observer", 0.05, _in_memory("observers", "each further one")),
    Row("growth, 100,000 over 1,000", 1.03, _in_memory("growth", "100,000 deltas over 1,000")),
    Row(
        "the message read every 100 deltas",
        1.2,
        _in_memory("growth", "the message read every 100"),
        why="each reading joins the text anew",
    ),
    Row(
        "memory of 100,000 deltas beyond their text",
        3.0,
        _in_memory("memory", "MB beyond the text of 100,000 deltas"),
        "MB",
        "the frames of a read and the pieces that are not joined yet",
    ),
    Row(
        "import swink_core, over import aiohttp",
        0.45,
        lambda found: float(found["imports"]["import swink_core"]),
        why="attrs writes the methods of 60 classes when they are imported",
    ),
    Row("10,000 streams: memory left", 1.0, _in_memory("flat", "MB left"), "MB"),
    Row("10,000 streams: tasks left", 0.0, _in_memory("flat", "tasks left"), ""),
    Row("10,000 streams: descriptors left", 0.0, _in_memory("flat", "descriptors left"), ""),
)

TRANSLATED = "a relay reads nothing; here each answer is parsed, checked, counted and written anew"

GATEWAY_ROWS = (
    Row(
        f"requests a second, {gateways.CLIENTS} clients, {gateways.DELTAS} deltas",
        0.7,
        _gateways("requests a second", truediv),
        why=TRANSLATED,
        at_least=True,
    ),
    Row("first byte later by", 0.4, _gateways("first byte ms", sub), "ms", CALL),
    Row(
        f"CPU a chunk, {gateways.STREAMS} paced streams",
        1.3,
        _gateways("CPU us a chunk", truediv),
        why=PYTHON,
    ),
)


def _contenders(found: Found) -> str:
    lines = []
    for scenario, rows in found["speed"]["results"].items():
        unit = "request" if scenario.startswith("short") else "delta"
        lines += [f"\n### {scenario}\n", f"| | µs a {unit} | × the floor |", "|---|---:|---:|"]
        for name, row in rows.items():
            lines.append(f"| `{name}` | {row['cpu_us']:.2f} | {row['ratio_to_floor']:.2f} |")
    return "\n".join(lines)


def _all_gateways(found: Found) -> str:
    rounds, memory = found["gateways"]["rounds"], found["gateways"]["memory"]
    names = [name for name in ("relay", "swink", "litellm") if name in memory]
    lines = [f"| | {' | '.join(names)} |", f"|---|{'---:|' * len(names)}"]
    for figure in rounds[0]["relay"]:
        medians = [statistics.median(one[name][figure] for one in rounds) for name in names]
        lines.append(f"| {figure} | {' | '.join(f'{value:.2f}' for value in medians)} |")
    for count in memory["relay"]:
        held = [memory[name].get(count) for name in names]
        cells = ["" if value is None else f"{value:.0f}" for value in held]
        lines.append(f"| MB with {int(count):,} streams that wait | {' | '.join(cells)} |")
    return "\n".join(lines)


def page(found: Found) -> str:
    """Return the page."""
    environment = found["speed"]["environment"]
    packages = ", ".join(f"{name} {version}" for name, version in environment["packages"].items())
    floor = hashlib.sha256(inspect.getsource(Floor).encode()).hexdigest()[:12]
    return f"""# Benchmarks

Written by `python -m lab.benchmarks.page`; what each scenario is, and how it is measured, is in
`lab/benchmarks/README.md`. CPU is that of the client's process. A ratio is taken within a
round, where both sides saw the same machine, and the median over
{found["speed"]["rounds"]} rounds is shown. The floor is a bare loop of aiohttp and orjson that
checks nothing and makes nothing (its source:
sha256 {floor}). Where each microsecond goes: [Performance](../explanation/performance.md).

{environment["python"]}, {environment["system"]}, {environment["cpu"]}, {environment["cores"]}
cores; {packages}.

## Against the targets

| measure | target | now | |
|---|---|---|---|
{chr(10).join(row.line(found) for row in ROWS)}

![Burst and paced, over the floor](../pictures/benchmarks-speed.svg)

![Wire formats, over their own floors](../pictures/benchmarks-formats.svg)

## The gateway

One worker before a loopback upstream, over Chat Completions, beside a relay on bare aiohttp that
passes bytes on unread, and litellm's proxy. The upstream, the clients and the contender share the
machine, so requests a second say how much room a gateway leaves, and ratios are of one round.

| measure | target | now | |
|---|---|---|---|
{chr(10).join(row.line(found) for row in GATEWAY_ROWS)}

{_all_gateways(found)}

## Beside its peers

Each in a process and an environment of its own, with its own defaults, taking turns in the same
rounds against the same server. `×`: CPU over that of the floor of the same wire format within a
round; anthropic is asked over Messages and ollama over its own lines, everybody else over Chat
Completions. First content: of an answer of one delta on a warm connection, from the call on. 1,000
streams: all at a time, {libraries.CROWD_DELTAS} deltas each at 50 a second; memory is that of the
process at its highest.

{chr(10).join(libraries.table(found["libraries"]))}

![The cost of a delta, beside peers](../pictures/benchmarks-peers.svg)

![The first content](../pictures/benchmarks-first.svg)

![Memory at 1,000 streams](../pictures/benchmarks-memory.svg)

## Growth

![The cost of a delta by the length of the answer](../pictures/benchmarks-growth.svg)

## All contenders
{_contenders(found)}
"""


def charts(found: Found) -> dict[str, str]:
    """Return the charts, by their file's name."""
    names = ("hand", "swink", "batches", "observed", "all")
    groups = {
        kind: [(name, _speed(kind, name)(found)) for name in names] for kind in ("burst", "paced")
    }
    formats = {"burst, in memory": list(found["in_memory"]["formats"].items())}
    rows = found["libraries"]
    beside = {
        kind: [(name, libraries.ratio(rows, name, kind)) for name in rows]
        for kind in ("burst", "paced")
    }
    first = {"ms": [(name, statistics.median(row["first"])) for name, row in rows.items()]}
    memory = {"MB": [(name, row["crowd"]["MB"]) for name, row in rows.items()]}
    growth = {
        title: [(name, sizes[name]["cpu_us"]) for name in ("floor", "swink", "hand")]
        for title, sizes in found["speed"]["growth"].items()
    }
    return {
        "benchmarks-speed.svg": bars("CPU a delta, in floors", groups),
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
