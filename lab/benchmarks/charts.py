"""Bars as SVG: as little drawing as a page of figures needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

WIDTH, LABEL, BAR, GAP, HEAD = 640, 150, 18, 6, 30


def bars(title: str, groups: Mapping[str, Sequence[tuple[str, float]]]) -> str:
    """Return a chart: a bar for each pair of a name and a value, by group; a line stands at 1."""
    largest = max(value for rows in groups.values() for _, value in rows)
    scale = (WIDTH - LABEL - 60) / max(largest, 1.0)
    drawn, y = [f'<text x="8" y="20" font-weight="bold">{escape(title)}</text>'], HEAD
    for group, rows in groups.items():
        drawn.append(f'<text x="8" y="{y + 14}" font-style="italic">{escape(group)}</text>')
        y += BAR + GAP
        for name, value in rows:
            width = value * scale
            drawn += [
                f'<text x="{LABEL - 8}" y="{y + 14}" text-anchor="end">{escape(name)}</text>',
                f'<rect x="{LABEL}" y="{y}" width="{width:.1f}" height="{BAR}" fill="#4c78a8"/>',
                f'<text x="{LABEL + width + 6:.1f}" y="{y + 14}">{value:.2f}</text>',
            ]
            y += BAR + GAP
    at = LABEL + scale
    drawn.append(f'<path d="M{at:.1f} {HEAD}V{y}" stroke="#e45756" stroke-dasharray="4 3"/>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + GAP}" '
        f'font-family="sans-serif" font-size="13" fill="#555">\n' + "\n".join(drawn) + "\n</svg>\n"
    )
