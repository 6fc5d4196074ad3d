"""`swink doctor`: find problems in the configuration and in plugins, and suggest fixes."""

from __future__ import annotations

import os

import click

from swink_cli.commands.doctor.configuration import (
    chosen_plugins,
    configuration,
    models_file,
    unread,
)
from swink_cli.commands.doctor.plugins import added, examine
from swink_cli.exits import EXIT_FAILURE
from swink_cli.listing import left_out, print_lines
from swink_cli.terminal import printable
from swink_core import Host

__all__ = ["command"]


@click.command("doctor")
def command() -> int:
    """Find problems in the configuration and in plugins, including plugins that are not discovered.

    Checks for misspelt entry-point groups, rows of models.toml without a provider (also in the file
    that SWINK_MODELS names), hooks without @hookimpl, methods that override nothing, wrong plugin
    settings, unknown SWINK_… variables, unknown or doubled names of plugins, stale installs, and
    commands and tools that cannot be loaded. This loads all plugins. The exit code is 1 if a
    problem is found.
    """
    host = Host()
    found = [*configuration(host), *models_file(host), *examine(host), *added()]
    found += [*unread(os.environ), *chosen_plugins(os.environ)]
    for finding in found:
        said = (finding.where, f"  {finding.what}", f"  {finding.advice}", "")
        print_lines(printable(line) for line in said)
    if not found:
        print_lines([f"No problems found in the installed plugins ({len(host.entries())})."])
    if absent := left_out(host):
        print_lines([absent])
    return EXIT_FAILURE if found else 0
