"""swink beside its peers: `python -m lab.benchmarks.libraries [--rounds N] [--json FILE]`.

Each library runs in a separate process and environment (`make bench` installs them; missing ones
are skipped), and all take turns within a round: a burst, a paced answer, calls of one delta, and,
once, 1,000 streams at a time. A ratio is to the floor of the same wire format within the same
round.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from lab.benchmarks.ratios import with_spread, within_rounds
from lab.benchmarks.rounds import server

ROOT = Path(__file__).resolve().parents[2]

FLOORS = {"anthropic": "floor, Messages", "ollama": "floor, Ollama"}
"""Contenders with a format other than Chat Completions, and the floor of that."""

ENVIRONMENTS = {
    "openai": "openai",
    "anthropic": "anthropic",
    "ollama": "ollama",
    "mistralai": "mistralai",
    "any-llm-sdk": "any-llm",
    "langchain-openai": "langchain",
    "pydantic-ai-slim": "pydantic-ai",
    "litellm": "litellm",
}

OURS = ("floor", "swink", "floor, Messages", "swink, Messages", "floor, Ollama", "swink, Ollama")

DELTAS, PACED, CALLS, CROWD, CROWD_DELTAS = 5_000, 100, 20, 1_000, 50

TURNS = {
    "burst": (f"burst-{DELTAS}", 1, DELTAS),
    "paced": (f"paced-{PACED}", 1, PACED),
    "one delta": ("short-1", CALLS, CALLS),
}
"""The requests of a turn, their number, and the divisor of the cost."""


class Library:
    """A library's process, which takes turns."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.version = self._line()["version"]

    def turn(self, *asked: object) -> dict[str, float]:
        """Have it read answers, and return what that took."""
        assert self._process.stdin is not None
        print(*asked, file=self._process.stdin, flush=True)
        return self._line()

    def _line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                found: dict[str, Any] = json.loads(line)
                return found
        raise RuntimeError(f"a library ended: {self._process.args!r}")


def floor_of(name: str) -> str:
    """Return the row that a row is compared with, itself for a floor."""
    kind, _, way = name.partition(", ")
    if way == "uvloop":
        return "floor, uvloop" if kind == "floor" else "floor"
    return f"floor, {way}" if way else FLOORS.get(name, "floor")


@contextmanager
def _opened(python: str, url: str, name: str) -> Iterator[Library]:
    kind, _, way = name.partition(", ")
    run = [kind, url, "uvloop"] if way == "uvloop" else [name, url]
    with subprocess.Popen(
        [python, "-m", "lab.benchmarks.library_turns", *run],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
    ) as process:  # fmt: skip
        try:
            yield Library(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()


def _pythons() -> dict[str, str]:
    """Return the interpreter of each row that can be run."""
    found = dict.fromkeys(OURS, sys.executable)
    try:
        import uvloop  # noqa: F401
    except ImportError:
        print("uvloop is not installed: its rows are left out", file=sys.stderr)
    else:
        found |= dict.fromkeys(("floor, uvloop", "swink, uvloop"), sys.executable)
    for name, environment in ENVIRONMENTS.items():
        python = ROOT / ".venv-peers" / environment / "bin" / "python"
        if python.exists():
            found[name] = str(python)
        else:
            print(f"{name} is not installed: it is left out", file=sys.stderr)
    return found


def measure(rounds: int) -> dict[str, Any]:
    """Return, by row, its version and the figures of each round."""
    with server() as base, ExitStack() as stack:
        url = base.removesuffix("/v1")
        rows = {
            name: stack.enter_context(_opened(python, url, name))
            for name, python in _pythons().items()
        }
        found: dict[str, Any] = {
            name: {"version": row.version, **{turn: [] for turn in TURNS}, "first": []}
            for name, row in rows.items()
        }
        for number in range(rounds + 1):
            for turn, (scenario, calls, units) in TURNS.items():
                for name, row in rows.items():
                    said = row.turn(scenario, calls)
                    if number:  # the first round warms up
                        found[name][turn].append(said["cpu"] / units * 1e6)
                        if turn == "one delta":
                            found[name]["first"].append(said["first"] * 1e3)
        for name, row in rows.items():
            found[name]["crowd"] = row.turn("crowd", f"model-{CROWD_DELTAS}", CROWD)
    return found


def ratios(found: dict[str, Any], name: str, turn: str) -> list[float]:
    """Return a row's figure over its floor's, in each round."""
    return within_rounds(found[name][turn], found[floor_of(name)][turn])


def table(found: dict[str, Any]) -> list[str]:
    """Return the lines of the table, in Markdown."""
    lines = [
        "| | version | burst, × | paced, × | a call of one delta, × | first content, ms | "
        "1,000 streams: CPU | memory |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name, row in found.items():
        is_floor = floor_of(name) == name
        cells = ["1" if is_floor else with_spread(ratios(found, name, turn)) for turn in TURNS]
        first = with_spread(row["first"])
        crowd = row["crowd"]
        lines.append(
            f"| `{name}` | {row['version']} | {' | '.join(cells)} | {first} | "
            f"{crowd['cpu']:.1f} s | {crowd['MB']:.0f} MB |"
        )
    return lines


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(prog="python -m lab.benchmarks.libraries", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to FILE")
    options = parser.parse_args()
    found = measure(options.rounds)
    print("\n".join(table(found)))
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
