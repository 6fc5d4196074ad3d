"""`swink providers`: what is installed, read without importing it."""

from __future__ import annotations

import click

from swink_cli.completion import complete_provider
from swink_cli.credentials import describe, is_ready
from swink_cli.listing import Installed, installed_providers, no_provider, print_json, print_lines
from swink_cli.terminal import table
from swink_core import (
    Host,
)
from swink_core.providers import Catalog

__all__ = ["command"]


@click.command("providers")
@click.argument("name", required=False, shell_complete=complete_provider)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(name: str | None, as_json: bool) -> None:
    """List installed providers: name, title, wire format, and the variables they read.

    With a NAME, say all that is known of that one, its settings among it. No plugin is imported:
    a broken one is listed all the same.
    """
    host = Host()
    if name is not None:
        host.entry(name)  # raises for an unknown one
    found = installed_providers(host, Catalog(host))
    found = [one for one in found if name in (None, one.name)]
    if as_json:
        print_json(map(_data, found))
    elif not found:
        print_lines([no_provider(host)])
    elif name is not None:
        print_lines(table(_facts(found[0])))
    else:
        print_lines(table(_rows(found)))


def _rows(found: list[Installed]) -> list[tuple[str, ...] | str]:
    rows: list[tuple[str, ...] | str] = []
    for one in found:
        title = f"{one.distribution} {one.version}"
        if title not in rows:
            rows.append(title)
        info = one.info
        state = f"broken: {one.error}" if one.error else describe(info)
        rows.append((one.name, info.title, info.wire_format or "-", state))
    return rows


def _facts(one: Installed) -> list[tuple[str, ...] | str]:
    """Say what is known of one, a line each; a setting with what it may be."""
    facts = {**_data(one), "state": f"broken: {one.error}" if one.error else describe(one.info)}
    shown = [name for name, value in facts.items() if value and name not in _IN_STATE]
    rows: list[tuple[str, ...] | str] = [
        (name.replace("_", " "), _word(facts[name])) for name in shown
    ]
    settings = one.info.settings.items()
    return rows + [(f"settings.{name}", _word(kind, " or ")) for name, kind in settings]


_IN_STATE = ("settings", "auth", "ready", "error")


def _word(value: object, between: str = ", ") -> str:
    return between.join(value) if isinstance(value, list | tuple) else str(value)


def _data(one: Installed) -> dict[str, object]:
    info = one.info
    return {
        "name": one.name,
        "title": info.title,
        "wire_format": info.wire_format,
        "version": one.version,
        "distribution": one.distribution,
        "base_url": info.base_url,
        "api_key_env": list(info.api_key_env),
        "base_url_env": list(info.base_url_env),
        "required_env": list(info.required_env),
        "auth": info.auth,
        "settings": dict(info.settings),
        "ready": one.error is None and is_ready(info),
        "docs": info.docs,
        "portal": info.portal,
        "error": one.error,
    }
