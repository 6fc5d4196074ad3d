"""The harness: `python -m lab.benchmarks.run` from the root of the repository.

The speed of a core moves by half within seconds where machines are shared. So contenders take short
turns, several in a round, and the order rotates: a slow moment hits all of them. A ratio is taken
within a round, where both sides saw the same machine, and the median over the rounds is printed.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import importlib.metadata
import json
import os
import platform
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.benchmarks.clients import CONTENDERS, Contender
from lab.benchmarks.ratios import spread, within_rounds
from lab.benchmarks.rounds import Scenario, grown, measured, server, summary_of
from lab.benchmarks.wire import Wire

BURST_LIMIT = 1.5
PACED_LIMIT = 1.3
# What "flat" means: a delta of the longest answer against one of the answer before it. The
# shortest carries the fixed cost of a request and would flatter the comparison.
GROWTH_LIMIT = 1.25
# What plugins may cost in a burst, against none: a wrapper that passes all on, event by event and
# in batches; an observer that does nothing; all that there are, at work.
PLUGIN_LIMITS = {"wrapped": 1.8, "wrapped-b": 1.3, "observed": 1.10, "all": 2.0}

PACKAGES = ("swink-core", "swink-provider-openai", "aiohttp", "orjson", "msgspec")


@dataclass(frozen=True)
class Plan:
    rounds: int
    scenarios: tuple[Scenario, ...]
    growth: tuple[Scenario, ...]


def _plan(rounds: int, quick: bool) -> Plan:
    turns = 2 if quick else 10
    sizes = (1_000, 10_000) if quick else (1_000, 10_000, 50_000)
    return Plan(
        rounds=rounds,
        scenarios=(
            Scenario("burst: many frames a read", "burst", 20_000, turns // 2, 1, "delta"),
            Scenario("paced: one frame a read", "paced", 100, turns, 1, "delta"),
            Scenario("short answers, one connection", "short", 3, turns, 20, "request"),
        ),
        # The same number of deltas a round, whatever the length of the answer.
        growth=tuple(
            Scenario(f"{size:,} deltas", "burst", size, sizes[-1] // size, 1, "delta")
            for size in sizes
        ),
    )


def _print_scenario(scenario: Scenario, rounds: int, summary: dict[str, dict[str, Any]]) -> None:
    requests = rounds * scenario.turns * scenario.requests
    print(f"\n{scenario.title} ({requests:,} requests for {scenario.name})")
    heads = (f"us/{scenario.unit}", "spread", "ratio", "spread", f"reads/{scenario.unit}")
    print(" " * 12 + "".join(f"{head:>15}" for head in heads))
    for name, row in summary.items():
        ratio = row["ratio_to_floor"]
        cells = (
            f"{row['cpu_us']:.2f}",
            spread(row["cpu_us_rounds"]),
            "-" if ratio is None else f"{ratio:.2f}x",
            spread(row["ratio_rounds"]),
            f"{row['reads']:.4f}",
        )
        print(f"  {name:10}" + "".join(f"{cell:>15}" for cell in cells))


def _growth_ratio(growth: dict[str, dict[str, dict[str, Any]]], name: str) -> float:
    """Return the cost of a delta in the longest answer, relative to the second longest."""
    *_, before, longest = (summary[name]["cpu_us_rounds"] for summary in growth.values())
    return statistics.median(within_rounds(longest, before))


def _print_growth(growth: dict[str, dict[str, dict[str, Any]]]) -> None:
    *_, before, longest = growth
    print("\ngrowth: us/delta by length of the answer (burst)")
    print(" " * 12 + "".join(f"{title:>15}" for title in growth) + f"{'growth':>15}")
    for name in growth[longest]:
        cells = "".join(f"{summary[name]['cpu_us']:>15.2f}" for summary in growth.values())
        print(f"  {name:10}{cells}{f'{_growth_ratio(growth, name):.2f}x':>15}")
    print(f"  growth: {longest} to {before}, within a round; flat is 1.00x")


def _plugin_ratios(results: dict[str, dict[str, dict[str, Any]]]) -> dict[str, float]:
    """Return the cost of a burst with the plugins that have a limit, relative to bursts without
    plugins.
    """
    burst = next(rows for name, rows in results.items() if name.startswith("burst"))
    ratios = {}
    for name in PLUGIN_LIMITS:
        if name in burst and "swink" in burst:
            rounds = burst[name]["cpu_us_rounds"], burst["swink"]["cpu_us_rounds"]
            ratios[name] = statistics.median(within_rounds(*rounds))
    return ratios


def _print_plugins(results: dict[str, dict[str, dict[str, Any]]]) -> None:
    ratios = _plugin_ratios(results)
    if ratios:
        print("\nplugins: a burst with them, in bursts without (`swink`), within a round")
    for name, ratio in ratios.items():
        print(f"  {name:10}{ratio:>14.2f}x{f'limit {PLUGIN_LIMITS[name]:.2f}x':>15}")


def _doubts(results: dict[str, dict[str, dict[str, Any]]]) -> list[str]:
    """Return the reasons why a scenario was not as intended, one sentence each."""
    doubts = []
    for scenario, summary in results.items():
        for name, row in summary.items():
            reads, where = row["reads"], f"{name}, {scenario}"
            if scenario.startswith("burst") and reads > 0.1:
                doubts.append(f"{where}: {1 / reads:.1f} deltas a read, a burst has more than 10")
            # The head, role, finish, usage and [DONE] are reads too, so one a delta leaves slack.
            if scenario.startswith("paced") and reads < 1:
                doubts.append(f"{where}: {reads:.2f} reads a delta; the machine is too busy")
            if row["new_connections"]:
                doubts.append(f"{where}: {row['new_connections']} connections were not reused")
    return doubts


def _failures(
    results: dict[str, dict[str, dict[str, Any]]], growth: dict[str, dict[str, dict[str, Any]]]
) -> list[str]:
    """Return the violations of the limits that `--check` enforces, one sentence each."""
    failures = []
    for kind, limit in (("burst", BURST_LIMIT), ("paced", PACED_LIMIT)):
        summary = next(rows for name, rows in results.items() if name.startswith(kind))
        ratio = summary["swink"]["ratio_to_floor"]
        if ratio > limit:
            failures.append(f"swink, {kind}: {ratio:.2f}x the floor, the limit is {limit}x")
    for name, ratio in _plugin_ratios(results).items():
        if ratio > (limit := PLUGIN_LIMITS[name]):
            failures.append(f"{name}, burst: {ratio:.2f}x no plugin, the limit is {limit}x")
    ratio = _growth_ratio(growth, "swink")
    if ratio > GROWTH_LIMIT:
        failures.append(f"swink, growth: {ratio:.2f}x a delta, the limit is {GROWTH_LIMIT}x")
    return failures


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass  # Not Linux.
    return platform.processor() or platform.machine()


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _environment() -> dict[str, Any]:
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "packages": {package: _version(package) for package in PACKAGES},
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def _print_environment(environment: dict[str, Any], rounds: int) -> None:
    print("client CPU (time.process_time of the client process; the server is another process)")
    print(f"  {environment['python']}, {environment['system']}")
    print(f"  {environment['cpu']}, {environment['cores']} cores")
    print("  " + ", ".join(f"{name} {v}" for name, v in environment["packages"].items()))
    print(f"  median of {rounds} rounds; ratio: to the floor, within a round; spread: min-max")


async def _bench(plan: Plan, names: Sequence[str], base_url: str) -> dict[str, Any]:
    wire = Wire()
    wire.install()
    contenders: list[Contender] = [CONTENDERS[name]() for name in names]
    opened: list[Contender] = []
    try:
        for contender in contenders:
            await contender.open(base_url)
            opened.append(contender)
            await contender.run("short-3")  # Lazy imports, the connection.
        # What the imports made is no contender's garbage: keep collections from walking it.
        gc.collect()
        gc.freeze()
        results = {}
        for scenario in plan.scenarios:
            rows = await measured(contenders, scenario, plan.rounds, wire)
            results[scenario.name] = summary_of(rows)
            _print_scenario(scenario, plan.rounds, results[scenario.name])
        _print_plugins(results)
        rows_by_size = await grown(contenders, plan.growth, plan.rounds, wire)
        growth = {title: summary_of(rows) for title, rows in rows_by_size.items()}
        _print_growth(growth)
        return {"results": results, "growth": growth}
    finally:
        for contender in opened:
            await contender.close()


def _names(value: str) -> list[str]:
    names = value.split(",")
    for name in names:
        if name not in CONTENDERS:
            known = ", ".join(CONTENDERS)
            raise argparse.ArgumentTypeError(f"no contender {name!r}; there are: {known}")
    return list(dict.fromkeys(names))


def _positive(value: str) -> int:
    if not value.isdecimal() or int(value) < 1:
        raise argparse.ArgumentTypeError(f"{value!r} is not a positive whole number")
    return int(value)


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m lab.benchmarks.run", description=__doc__)
    parser.add_argument("--rounds", type=_positive, help="measured rounds (7; 3 with --quick)")
    parser.add_argument("--quick", action="store_true", help="a fifth of the work; rough numbers")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write everything to FILE")
    parser.add_argument(
        "--only",
        type=_names,
        default=list(CONTENDERS),
        metavar="NAMES",
        help=f"contenders, separated by commas: {', '.join(CONTENDERS)} (all)",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help=f"exit with 1 if swink costs more than {BURST_LIMIT}x the floor in a burst,"
        f" {PACED_LIMIT}x paced, or {GROWTH_LIMIT}x more a delta in a longer answer",
    )
    options = parser.parse_args(argv)
    if options.check and not {"floor", "swink"} <= set(options.only):
        parser.error("--check compares swink with floor: --only leaves one of them out")
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark and return the exit code."""
    options = _arguments(argv)
    plan = _plan(options.rounds or (3 if options.quick else 7), options.quick)
    environment = _environment()
    _print_environment(environment, plan.rounds)
    with server() as base_url:
        try:
            found = asyncio.run(_bench(plan, options.only, base_url))
        except ModuleNotFoundError as error:
            if error.name != "swink_core":
                raise
            print("\nswink is not installed here: try --only floor,hand", file=sys.stderr)
            return 2
    doubts = _doubts(found["results"])
    for doubt in doubts:
        print(f"\ndoubtful: {doubt}", file=sys.stderr)
    if options.json:
        report = {"environment": environment, "rounds": plan.rounds, "doubts": doubts, **found}
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    if not options.check:
        return 0
    failures = _failures(found["results"], found["growth"])
    for failure in failures:
        print(f"\nfailed: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
