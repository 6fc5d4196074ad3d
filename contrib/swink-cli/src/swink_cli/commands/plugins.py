"""`swink plugins`: list every installed plugin, including broken ones."""

from __future__ import annotations

from contextlib import suppress

import click

from swink_cli.exits import EXIT_FAILURE
from swink_cli.listing import PROVIDER_GROUP, left_out, print_json, print_lines
from swink_cli.terminal import printable, table
from swink_core import Host, PluginError

__all__ = ["command"]

NO_PLUGIN = "No plugins installed. Try: pip install swink-provider-openai"


@click.command("plugins")
@click.option("--load", is_flag=True, help="Load each plugin and report errors.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(load: bool, as_json: bool) -> int:
    """List installed plugins: providers, and shared plugins that process every call.

    Without --load, no plugin is imported. With --load, the exit code is 0 if all plugins were
    loaded. SWINK_PLUGINS and SWINK_DISABLE_PLUGINS, comma-separated names, select the plugins that
    may load. Commands (`swink --help`), tools (`swink tools`) and guards of the gateway, which
    distributions add too, are not in the list.
    """
    host = Host()
    clashes = _load_all(host) if load else {}
    rows: list[dict[str, str | None]] = [
        {
            "name": entry.name,
            "group": entry.group,
            "distribution": entry.distribution,
            "version": entry.version,
            "object": entry.value,
            "error": entry.error
            or (clashes.get(entry.name) if entry.group == PROVIDER_GROUP else None),
        }
        for entry in host.entries()
    ]
    if as_json:
        print_json(rows)
    elif not rows:
        print_lines([left_out(host) or NO_PLUGIN])
    else:
        headings = ("NAME", "GROUP", "DISTRIBUTION", "VERSION", "STATE")
        shown = len(headings) if load else -1
        print_lines(table([_cells(row)[:shown] for row in rows], headings[:shown]))
    for damage in host.damaged():
        click.echo(printable(f"{damage}. Run swink doctor for advice."), err=True)
    return EXIT_FAILURE if any(row["error"] for row in rows) else 0


def _load_all(host: Host) -> dict[str, str]:
    """Load every plugin (shared plugins load with the first provider).

    Returns a dictionary of provider names and error messages, for errors that concern several
    plugins (such as two plugins with the same name).
    """
    errors: dict[str, str] = {}
    for name in host.provider_names():
        try:
            host.entry(name)
        except PluginError as error:
            errors[name] = error.message
            continue
        with suppress(PluginError):  # its entry keeps the error
            host.bind(name)
    return errors


def _cells(row: dict[str, str | None]) -> tuple[str, ...]:
    state = f"broken: {row['error']}" if row["error"] else "loads"
    texts = (row["name"], row["group"], row["distribution"], row["version"], state)
    return tuple(text or "-" for text in texts)
