"""What the listing commands share: installed plugins from metadata, output as text or JSON."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from typing import Any

import click
from attrs import define

from swink_cli.files import encode_json
from swink_cli.terminal import fitted, is_terminal, table
from swink_core import (
    Host,
    ModelInfo,
    ProviderInfo,
    SwinkError,
)
from swink_core.providers import Catalog

__all__ = [
    "PROVIDER_GROUP",
    "Installed",
    "installed_providers",
    "is_retired",
    "left_out",
    "no_provider",
    "print_json",
    "print_lines",
    "print_paged",
    "print_rows",
    "reads",
]

LEAST = 16
"""Columns that the last cell needs; a table that leaves it fewer is none."""

PROVIDER_GROUP = "swink.providers"


@define
class Installed:
    """An installed provider; `error` is why its catalogue cannot be read."""

    name: str
    distribution: str
    version: str
    info: ProviderInfo
    error: str | None = None


def installed_providers(host: Host, catalog: Catalog) -> list[Installed]:
    """List the providers by distribution and name, importing none."""
    found = []
    for entry in host.entries():
        if entry.group != PROVIDER_GROUP:
            continue
        error = None
        try:
            info = catalog.provider(entry.name)
        except SwinkError as fault:
            info, error = None, fault.message
        info = info or ProviderInfo(entry.name)
        found.append(Installed(entry.name, entry.distribution, entry.version, info, error))
    return sorted(found, key=lambda one: (one.distribution, one.name))


def is_retired(catalog: Catalog, info: ModelInfo) -> bool:
    """Tell whether the provider no longer serves a model, by the rules that hold for it."""
    today = date.today().isoformat()
    rules = catalog.resolve(f"{info.provider}/{info.id}").rules
    return any(rule.retires and rule.retires <= today for rule in rules)


def left_out(host: Host) -> str:
    """Say which variables keep installed plugins from loading, if any do."""
    if len(host.entries()) == len(Host(environ={}).entries()):
        return ""
    said = [f"{name}={os.environ[name]}" for name in _CHOOSING if os.environ.get(name)]
    return f"Installed plugins are left out by {' and '.join(said)}"


_CHOOSING = ("SWINK_PLUGINS", "SWINK_DISABLE_PLUGINS")


def no_provider(host: Host) -> str:
    """Say why a host has no provider: none may load, or none is installed."""
    return left_out(host) or "No provider is installed. Try: pip install swink-provider-openai"


def print_json(rows: Iterable[dict[str, Any]]) -> None:
    """Print a list of objects."""
    click.echo(encode_json(list(rows), indent=1), nl=False)


def print_lines(lines: Iterable[str]) -> None:
    """Print lines, without styles where nobody would see them."""
    for line in lines:
        click.echo(line if "\x1b" in line else fitted(line, to_stdout=True))


def print_paged(lines: Sequence[str]) -> None:
    """Print lines, through the user's pager (PAGER) where a terminal has fewer rows."""
    if not is_terminal(sys.stdout) or len(lines) < shutil.get_terminal_size().lines:
        print_lines(lines)
        return
    os.environ.setdefault("LESS", "-FRX")
    click.echo_via_pager("".join(f"{line}\n" for line in lines))


def print_rows(
    rows: Sequence[Sequence[str]],
    headings: Sequence[str],
    short: Callable[..., Sequence[str]],
) -> None:
    """Print rows; `short` makes two cells of all cells of one, for a narrow terminal."""
    columns = [*zip(*rows, headings, strict=True)]
    needed = sum(max(map(len, cells)) + 2 for cells in columns[:-1]) + LEAST
    if is_terminal(sys.stdout) and needed > shutil.get_terminal_size().columns:
        print_lines(table([short(*row) for row in rows]))
    else:
        print_lines(table(rows, headings))


def reads(count: int) -> str:
    """Say in how many reads of the network something came."""
    return f"{count} read{'' if count == 1 else 's'}"
