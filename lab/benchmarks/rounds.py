"""Turns and rounds of contenders before one server, and what they cost."""

from __future__ import annotations

import gc
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.benchmarks.clients import Contender
from lab.benchmarks.ratios import within_rounds
from lab.benchmarks.server import expected_text
from lab.benchmarks.wire import Wire


@dataclass(frozen=True)
class Scenario:
    """The requests of a contender in one round, and the divisor of the cost."""

    title: str
    kind: str
    deltas: int
    turns: int
    requests: int  # In one turn.
    unit: str

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.deltas}"

    @property
    def units(self) -> int:
        return self.turns * self.requests * (self.deltas if self.unit == "delta" else 1)


@dataclass
class Row:
    """The costs of one contender in one scenario, one value per round."""

    cpu_us: list[float] = field(default_factory=list)
    reads: list[float] = field(default_factory=list)
    connections: int = 0


@contextmanager
def server(certificate: Path | None = None) -> Iterator[str]:
    """Start the server in its own process and yield the base URL.

    It uses TLS if it gets a certificate with its key.
    """
    own = [] if certificate is None else [str(certificate)]
    with subprocess.Popen(
        [sys.executable, "-m", "lab.benchmarks.server", *own],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            port = process.stdout.readline().strip()
            if not port:
                raise RuntimeError("the benchmark's server did not start")
            scheme = "https" if own else "http"
            yield f"{scheme}://127.0.0.1:{port}/v1"
        finally:
            process.stdin.close()


async def _turn(contender: Contender, scenario: Scenario) -> float:
    """Return the CPU seconds of one turn, after making sure that the text is right."""
    texts = []
    # Everyone starts without garbage; the collector stays on, because its work on what a contender
    # allocates is that contender's cost.
    gc.collect()
    start = time.process_time()
    for _ in range(scenario.requests):
        texts.append(await contender.run(scenario.name))
    await contender.settle()
    cpu = time.process_time() - start
    expected = expected_text(scenario.deltas)
    for text in texts:
        if text != expected:
            raise AssertionError(
                f"{contender.name}, {scenario.name}: {len(text):,} characters that are not the"
                f" {len(expected):,} expected ones; they end with {text[-40:]!r}"
            )
    return cpu


async def _round(
    contenders: Sequence[Contender], scenario: Scenario, wire: Wire, rows: dict[str, Row]
) -> None:
    cpu = dict.fromkeys(rows, 0.0)
    reads = dict.fromkeys(rows, 0)
    for turn in range(scenario.turns):
        shift = turn % len(contenders)
        for contender in (*contenders[shift:], *contenders[:shift]):
            reads_before, connections_before = wire.reads, wire.connections
            cpu[contender.name] += await _turn(contender, scenario)
            reads[contender.name] += wire.reads - reads_before
            rows[contender.name].connections += wire.connections - connections_before
    for name, row in rows.items():
        row.cpu_us.append(cpu[name] * 1e6 / scenario.units)
        row.reads.append(reads[name] / scenario.units)


async def measured(
    contenders: Sequence[Contender], scenario: Scenario, rounds: int, wire: Wire
) -> dict[str, Row]:
    """Measure a scenario after a turn that is thrown away: rows by contender."""
    rows = {contender.name: Row() for contender in contenders}
    for contender in contenders:
        await _turn(contender, scenario)
    for _ in range(rounds):
        await _round(contenders, scenario, wire, rows)
    return rows


async def grown(
    contenders: Sequence[Contender], sizes: Sequence[Scenario], rounds: int, wire: Wire
) -> dict[str, dict[str, Row]]:
    """Measure answers of different lengths: rows by title and contender."""
    rows = {size.title: {contender.name: Row() for contender in contenders} for size in sizes}
    for _ in range(rounds):
        for contender in contenders:
            # Here lengths are compared, not contenders, so it is the lengths that stand together.
            for size in sizes:
                one = {contender.name: rows[size.title][contender.name]}
                await _round([contender], size, wire, one)
    return rows


def summary_of(rows: dict[str, Row]) -> dict[str, dict[str, Any]]:
    """Summarise the rounds by contender; a ratio is relative to the floor."""
    floor = rows.get("floor")
    summary = {}
    for name, row in rows.items():
        ratios = within_rounds(row.cpu_us, floor.cpu_us) if floor else []
        summary[name] = {
            "cpu_us": statistics.median(row.cpu_us),
            "ratio_to_floor": statistics.median(ratios) if ratios else None,
            "reads": statistics.median(row.reads),
            "new_connections": row.connections,
            "cpu_us_rounds": row.cpu_us,
            "ratio_rounds": ratios,
        }
    return summary
