"""Shared code of the listing commands: installed plugins from metadata, output as text or JSON."""

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
    "CAPABILITIES",
    "CHOOSING",
    "PLUGIN_GROUP",
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
"""The minimum width of the last column; with less space, each row is merged into two cells."""

PLUGIN_GROUP, PROVIDER_GROUP = "swink.plugins", "swink.providers"

CAPABILITIES = ("tools", "images", "thinking", "documents", "audio", "structured_output", "json")
"""The capabilities that the catalogue entry of a model may declare, most common first."""


@define
class Installed:
    """An installed provider; `error` says why its catalogue or its API level makes it unusable."""

    name: str
    distribution: str
    version: str
    info: ProviderInfo
    error: str | None = None


def installed_providers(host: Host, catalog: Catalog) -> list[Installed]:
    """List the providers by distribution and name, without importing them."""
    found = []
    for entry in host.entries():
        if entry.group != PROVIDER_GROUP:
            continue
        info = None
        error = None
        try:
            info = catalog.provider(entry.name)
            entry.check_level()
        except SwinkError as fault:
            error = fault.message
        info = info or ProviderInfo(entry.name)
        found.append(Installed(entry.name, entry.distribution, entry.version, info, error))
    return sorted(found, key=lambda one: (one.distribution, one.name))


def is_retired(catalog: Catalog, info: ModelInfo) -> bool:
    """Return whether the catalogue's rules for a model say that it is no longer served."""
    today = date.today().isoformat()
    rules = catalog.resolve(f"{info.provider}/{info.id}").rules
    return any(rule.retires and rule.retires <= today for rule in rules)


def left_out(host: Host) -> str:
    """Name the environment variables that disable installed plugins, or return an empty text."""
    if len(host.entries()) == len(Host(environ={}).entries()):
        return ""
    said = [f"{name}={os.environ[name]}" for name in CHOOSING if os.environ.get(name)]
    return f"Installed plugins are disabled by {' and '.join(said)}"


CHOOSING = ("SWINK_PLUGINS", "SWINK_DISABLE_PLUGINS")
"""The environment variables that select the plugins that may load."""


def no_provider(host: Host) -> str:
    """Explain why a host has no provider: disabled, or not installed."""
    return left_out(host) or "No provider is installed. Try: pip install swink-provider-openai"


def print_json(rows: Iterable[dict[str, Any]]) -> None:
    """Print a list of objects."""
    click.echo(encode_json(list(rows), indent=1), nl=False)


def print_lines(lines: Iterable[str]) -> None:
    """Print lines, without styles if the output does not show them."""
    for line in lines:
        click.echo(line if "\x1b" in line else fitted(line, to_stdout=True))


def print_paged(lines: Sequence[str]) -> None:
    """Print lines, through the user's pager (PAGER) if they do not fit the terminal."""
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
    """Print rows; on a narrow terminal, `short` merges the cells of a row into two."""
    columns = [*zip(*rows, headings, strict=True)]
    needed = sum(max(map(len, cells)) + 2 for cells in columns[:-1]) + LEAST
    if is_terminal(sys.stdout) and needed > shutil.get_terminal_size().columns:
        print_lines(table([short(*row) for row in rows]))
    else:
        print_lines(table(rows, headings))


def reads(count: int) -> str:
    """Format a number of network reads."""
    return f"{count} read{'' if count == 1 else 's'}"
