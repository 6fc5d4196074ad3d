"""Which distribution of swink's own brings a provider, installed or not."""

from __future__ import annotations

from pathlib import Path

__all__ = ["distribution_of"]

KNOWN = Path(__file__).resolve().parent / "known_providers.txt"
"""A line for each provider of swink's own: its name and its distribution."""


def distribution_of(provider: str) -> str | None:
    """Return the distribution that brings a provider; `None` for one that is not swink's own."""
    return dict(line.split() for line in KNOWN.read_text("utf-8").splitlines()).get(provider)
