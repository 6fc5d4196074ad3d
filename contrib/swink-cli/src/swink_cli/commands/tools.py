"""`swink tools`: list the tools that models may call."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import click

from swink_cli.exits import EXIT_FAILURE
from swink_cli.extensions import installed_tools
from swink_cli.listing import print_json, print_lines
from swink_cli.options import apply_options
from swink_cli.terminal import own_stdout, show_error, table
from swink_cli.tools import TOOL_SOURCES, ToolOptions, plugin_tools
from swink_core import PluginError, Tool, dump

__all__ = ["command"]


@click.command("tools")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@lambda command: apply_options(TOOL_SOURCES, command)
@click.option(
    "--json", "as_json", is_flag=True, help="Print the JSON definitions that are sent to models."
)
def command(
    names: Sequence[str], files: Sequence[str], servers: Sequence[str], as_json: bool
) -> int:
    """List tools of plugins, of a file or of an MCP server.

    \b
      swink tools --functions tools.py
      swink tools --mcp "npx -y @modelcontextprotocol/server-everything"
    """
    broken: list[PluginError] = []
    with own_stdout():
        if not (names or files or servers):
            names, broken = _whole()
            for fault in broken:
                show_error(fault.title, fault.message, fault.resolution or "")
        tools = asyncio.run(_definitions(ToolOptions(names, files, servers)))
    code = EXIT_FAILURE if broken else 0
    if as_json:
        print_json(dump(tool) for tool in tools)
        return code
    rows = [(tool.name, " ".join(tool.description.split())) for tool in tools]
    print_lines(
        table(rows) or [("No plugin provides tools. Use --functions FILE for the tools of a file.")]
    )
    return code


def _whole() -> tuple[list[str], list[PluginError]]:
    """Return the names of the installed tools that load, and the errors of the others."""
    names, broken = [], []
    for name in installed_tools():
        try:
            plugin_tools(name)
            names.append(name)
        except PluginError as fault:
            broken.append(fault)
    return names, broken


async def _definitions(named: ToolOptions) -> list[Tool]:
    async with named.opened() as tools:
        return [tool.definition for tool in tools]
