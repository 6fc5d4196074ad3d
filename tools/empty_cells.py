"""Why a cell of the table of providers is empty, as `empty_cells.toml` has it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from reference_parts import words

from swink_core.providers import TUNING

FACTS = Path(__file__).with_name("empty_cells.toml")


@cache
def _reasons() -> list[dict[str, Any]]:
    reasons: list[dict[str, Any]] = tomllib.loads(FACTS.read_text("utf-8"))["reasons"]
    return reasons


def reason_of(column: str, provider: str) -> dict[str, Any]:
    """Return the reason why a provider's cell is empty.

    An entry that names the provider comes first, then one that names the column; `tuning` stands
    for every option that tunes an answer, and `*` for any column. Raises LookupError if no entry
    covers the cell.
    """
    for by_provider in (True, False):
        for name in (column, "tuning" if column in TUNING else "*", "*"):
            for each in _reasons():
                covers = provider in each["providers"] if "providers" in each else not by_provider
                if covers and name in each["columns"] and by_provider == ("providers" in each):
                    return each
    raise LookupError(f"{FACTS.name} does not say why {provider} has no {column}")


def explained(cells: Iterable[tuple[str, str]]) -> list[tuple[str, str, str]]:
    """Return a line for each reason that empty `(column, provider)` cells have: which, whose, why.

    Raises LookupError for a cell without one, and for a reason that no cell has.
    """
    found: dict[int, dict[str, dict[str, None]]] = {}
    for column, provider in cells:
        number = _reasons().index(reason_of(column, provider))
        both = found.setdefault(number, {"columns": {}, "providers": {}})
        both["columns"][column] = both["providers"][provider] = None
    if idle := [each["why"] for n, each in enumerate(_reasons()) if n not in found]:
        raise LookupError(f"{FACTS.name} explains what is not empty: {idle}")
    return [
        (words(both["columns"]), words(both["providers"]), _reasons()[number]["why"])
        for number, both in sorted(found.items())
    ]
