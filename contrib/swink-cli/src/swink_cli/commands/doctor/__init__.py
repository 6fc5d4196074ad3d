"""`swink doctor`: what is wrong with the configuration and with plugins, and what to do."""

from __future__ import annotations

import os

import click

from swink_cli.commands.doctor.configuration import configuration, models_file, unread
from swink_cli.commands.doctor.plugins import added, examine
from swink_cli.exits import EXIT_FAILURE
from swink_cli.listing import left_out, print_lines
from swink_cli.terminal import printable
from swink_core import Host

__all__ = ["command"]


@click.command("doctor")
def command() -> int:
    """Say what is wrong with the configuration, and with plugins: those that nobody finds, too.

    It finds entry points of misspelt groups, rows of models.toml that belong to none (in the file
    that SWINK_MODELS names, too), hooks without @hookimpl, methods that override nothing, wrong
    settings of plugins, variables SWINK_… that nothing installed reads, installs that are stale,
    and commands and tools that cannot be loaded. All are loaded. The exit code is 1 where something
    is found.
    """
    host = Host()
    found = [*configuration(host), *models_file(host), *examine(host), *added()]
    found += unread(os.environ)
    for finding in found:
        said = (finding.where, f"  {finding.what}", f"  {finding.advice}", "")
        print_lines(printable(line) for line in said)
    if not found:
        print_lines([f"Nothing is wrong with the plugins installed ({len(host.entries())})."])
    if absent := left_out(host):
        print_lines([absent])
    return EXIT_FAILURE if found else 0
