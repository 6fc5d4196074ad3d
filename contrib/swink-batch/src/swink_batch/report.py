"""The report of a run: lines of text, data for programs, and a chart."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import exp
from pathlib import Path
from textwrap import shorten
from typing import Any

import msgspec

from swink_batch.progress import duration
from swink_batch.tally import FINENESS, SHORTEST, Tally
from swink_cli.summary import money
from swink_core import UsageError

__all__ = ["chart", "data", "lines", "write_report"]

QUANTILES = (0.5, 0.9, 0.99)

FORMS = (".svg", ".json")

BAR = 30
"""The maximum width of a bar, in characters."""

MOST_WORDS = 200
"""The maximum length of a failure's message, in characters."""


def lines(tally: Tally) -> list[str]:
    """Return the report as lines of text."""
    told = [
        f"{tally.answered:,} answered, {tally.failed:,} failed in {duration(tally.seconds)} "
        f"({tally.done / tally.seconds:,.1f} a second)"
    ]
    if tally.kept or tally.kept_failed:
        retry = "; --retry-failed asks those that failed" if tally.kept_failed else ""
        told.append(
            f"{tally.kept:,} answered and {tally.kept_failed:,} failed in earlier runs, not sent "
            f"again ({money(tally.kept_cost)}){retry}"
        )
    elif not (tally.done or tally.stopped):
        told.append("there were no rows")
    if tally.stopped:
        told.append(f"stopped: {tally.stopped}")
    for kind, count in tally.kinds.most_common():
        first = shorten(tally.told[kind], MOST_WORDS, placeholder="…")
        told.append(f"  {count:,} {kind}{', the first' if count > 1 else ''}: {first}")
    used = ", ".join(f"{count:,} {name}" for name, count in tally.tokens.items() if count)
    told.append(f"tokens: {used or 'none reported'}")
    estimated = f" ({money(tally.estimated)} of it estimated)" if tally.estimated else ""
    unpriced = f", and {tally.unpriced:,} answers of unknown price"
    told.append(f"cost: {money(tally.cost)}{estimated}{unpriced if tally.unpriced else ''}")
    if len(tally.models) > 1:
        told.append("models: " + ", ".join(f"{n:,} {m}" for m, n in tally.models.most_common()))
    if tally.retries or tally.refused:
        told.append(f"{tally.retries:,} retries; {tally.refused:,} rejected by rate limits")
    if tally.answered:
        shares = [f"{share:.0%} in {duration(_quantile(tally, share))}" for share in QUANTILES]
        told += [f"answers came: {', '.join(shares)}", *_bars(tally)]
    return told


def data(tally: Tally) -> dict[str, Any]:
    """Return the report as JSON data. Times are in seconds, money in US dollars."""
    names = (
        "total", "answered", "failed", "kept", "kept_failed", "retries", "refused", "seconds",
        "cost", "kept_cost", "estimated", "unpriced", "stopped", "kinds", "models", "tokens",
    )  # fmt: skip
    latency = {f"p{share * 100:g}": tally.latency.quantile(share) for share in QUANTILES}
    return {**{name: getattr(tally, name) for name in names}, "latency": latency}


def write_report(tally: Tally, path: Path) -> None:
    """Write the report, as a chart if the suffix is `.svg`, and as data if it is `.json`."""
    check_form(path)
    if path.suffix == ".svg":
        path.write_text(chart(tally), "utf-8")
    else:
        path.write_bytes(msgspec.json.format(msgspec.json.encode(data(tally))) + b"\n")


def check_form(path: Path) -> None:
    """Raise UsageError if the file name has no supported suffix."""
    if path.suffix not in FORMS:
        raise UsageError(
            f"{path} is not a supported form of report",
            resolution=f"Name it *{' or *'.join(FORMS)}.",
        )


def chart(tally: Tally) -> str:
    """Return two charts as SVG: rows per second over time, and the distribution of durations."""
    speed = [(b - a) / max(t - s, 1e-9) for (s, a), (t, b) in pairwise([(0.0, 0), *tally.course])]
    taken = _classes(tally)
    return "\n".join(
        [
            '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 430" '
            'font-family="sans-serif" font-size="12">',
            '<rect width="640" height="430" fill="white"/>',
            *_panel(20, "rows a second", speed, ("0 s", duration(tally.seconds))),
            *_panel(
                230,
                "answers by the time they took",
                [count for _, count in taken],
                (duration(taken[0][0]), duration(taken[-1][0])) if taken else ("", ""),
            ),
            "</svg>",
            "",
        ]
    )


def _panel(top: int, title: str, values: Sequence[float], ends: tuple[str, str]) -> list[str]:
    most = max(values, default=0.0) or 1.0
    width = 560 / max(1, len(values))
    bars = [
        f'<rect x="{40 + i * width:.1f}" y="{top + 150 - 125 * value / most:.1f}" '
        f'width="{max(width - 1, 0.5):.1f}" height="{125 * value / most:.1f}" fill="#3b6ea5"/>'
        for i, value in enumerate(values)
    ]
    return [
        f'<text x="40" y="{top + 10}">{title} (at most {most:,.0f})</text>',
        *bars,
        f'<text x="40" y="{top + 168}">{ends[0]}</text>',
        f'<text x="600" y="{top + 168}" text-anchor="end">{ends[1]}</text>',
    ]


def _bars(tally: Tally) -> list[str]:
    classes = _classes(tally, 5)
    most = max(count for _, count in classes)
    return [
        f"  {duration(seconds):>8} {'█' * round(BAR * count / most)} {count:,}"
        for seconds, count in classes
    ]


def _classes(tally: Tally, wide: int = 1) -> list[tuple[float, int]]:
    """Return the histogram of durations: (seconds, count), with `wide` adjacent bins merged."""
    counts: dict[int, int] = {}
    for number, count in tally.latency.classes.items():
        counts[number // wide] = counts.get(number // wide, 0) + count
    if not counts:
        return []
    span = range(min(counts), max(counts) + 1)
    return [(SHORTEST * exp((n * wide + wide / 2) * FINENESS), counts.get(n, 0)) for n in span]


def _quantile(tally: Tally, share: float) -> float:
    return tally.latency.quantile(share) or 0.0
