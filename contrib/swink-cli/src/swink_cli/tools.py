"""Run the tools that a model calls: tools of plugins, Python files and MCP servers.

Plugins declare tools in the entry-point group `swink.tools`: a function, a `swink.tool`, or a list
of these. In a Python file, every function whose name does not begin with an underscore is a tool.
Only tools that the user names are imported or started.
"""

from __future__ import annotations

import importlib.util
import sys
import types
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Any

import click
from attrs import define

import swink_core as swink
from swink_cli.completion import complete_file, complete_server
from swink_cli.extensions import installed_tools, owner
from swink_cli.files import user_path
from swink_cli.options import Function, apply_options
from swink_cli.terminal import own_stdout

if TYPE_CHECKING:
    from swink.tools import FunctionTool

__all__ = [
    "TOOL_SOURCES",
    "ToolOptions",
    "plugin_tools",
    "tool_options",
]

MAX_TURNS = 20
"""The default maximum number of model calls for one answer."""

TOOL_SOURCES = (
    click.option(
        "--functions",
        "files",
        multiple=True,
        metavar="FILE|CODE",
        shell_complete=complete_file,
        help="Use the functions of a Python file, or of inline code, as tools.",
    ),
    click.option(
        "--mcp",
        "servers",
        multiple=True,
        metavar="NAME|URL|COMMAND",
        shell_complete=complete_server,
        help=(
            "Use the tools of an MCP server: a configured name, an address, or a command to start."
        ),
    ),
)
"""Options by which tools are selected."""

_TOOL_OPTIONS = (
    *TOOL_SOURCES,
    click.option("-y", "--yes", is_flag=True, help="Run tool calls without confirmation."),
    click.option(
        "--max-turns",
        type=click.IntRange(1),
        default=MAX_TURNS,
        show_default=True,
        help="Maximum number of model calls for one answer with tools.",
    ),
    click.option(
        "--max-tool-calls",
        type=click.IntRange(0),
        metavar="N",
        help="Maximum number of tool calls to run.",
    ),
)


@define
class ToolOptions:
    """The tool options of a command line; `names` are tools of plugins."""

    names: Sequence[str] = ()
    files: Sequence[str] = ()
    servers: Sequence[str] = ()
    yes: bool = False
    max_turns: int = MAX_TURNS

    def __bool__(self) -> bool:
        """Return whether there is any tool to run."""
        return bool(self.names or self.files or self.servers)

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[list[FunctionTool[..., Any]], None]:
        """Load the tools, start the MCP servers, and stop the servers at the end.

        Raises UsageError for an invalid tool option, and PluginError for a broken plugin.
        """
        async with AsyncExitStack() as stack:
            found = [tool for name in self.names for tool in plugin_tools(name)]
            found += [tool for file in self.files for tool in _of_python(file)]
            if self.servers:
                from swink_cli.mcp_servers import connected

                for server in self.servers:
                    found += await stack.enter_async_context(connected(server))
            names = [tool.definition.name for tool in found]
            if twice := sorted({name for name in names if names.count(name) > 1}):
                raise swink.UsageError(
                    f"two tools have the name {twice[0]!r}",
                    title="Duplicate tool",
                    resolution="Omit one of them.",
                )
            yield found


def tool_options(command: Function) -> Function:
    """Add the tool options to a command, which receives them as its argument `tools`."""
    import functools

    @functools.wraps(command)
    def with_tools(
        files: Sequence[str],
        servers: Sequence[str],
        yes: bool,
        max_turns: int,
        max_tool_calls: int | None,
        **given: Any,
    ) -> Any:
        given["call"].limit(tool_calls=max_tool_calls)
        tools = ToolOptions(given["call"].tool_names, files, servers, yes, max_turns)
        if tools and given["call"].tools:
            raise swink.UsageError(
                "tools of a JSON file cannot be combined with tools that swink runs",
                resolution="Pass either --tool FILE, or tools that swink can run.",
            )
        for name in tools.names:
            _claims(name)  # before approval is requested
        with own_stdout() if tools else nullcontext():
            return command(tools=tools, **given)

    return apply_options(_TOOL_OPTIONS, with_tools)


def _claims(name: str) -> list[EntryPoint]:
    """Return the entry points that declare a tool name. Raises UsageError for an unknown name."""
    known = installed_tools()
    if name not in known:
        from difflib import get_close_matches

        near = get_close_matches(name, known, 1)
        raise swink.UsageError(
            f"no plugin provides a tool {name!r}; installed: {', '.join(known) or 'none'}"
            + (f"; did you mean {near[0]!r}?" if near else ""),
            title="Unknown tool",
            resolution="--functions FILE takes those of a Python file, --mcp those of a server.",
        )
    return known[name]


def plugin_tools(name: str) -> list[FunctionTool[..., Any]]:
    """Load the tools that a plugin declares under a name.

    Raises UsageError for an unknown name, and PluginError for a broken plugin.
    """
    claims = _claims(name)
    owners = " and ".join(owner(point.dist) if point.dist else "?" for point in claims)
    if len(claims) > 1:
        raise swink.PluginError(
            f"two distributions provide the tool {name!r}: {owners}",
            title="Duplicate tool",
            resolution="Uninstall one of them.",
        )
    try:
        value = claims[0].load()
        return _made(value if isinstance(value, list | tuple) else [value])
    except (Exception, SystemExit) as error:
        raise swink.PluginError(
            f"the tool {name} of {owners} cannot be loaded: {type(error).__name__}: {error}",
            title="Broken tool",
            resolution="Update that distribution, or uninstall it.",
        ) from error


def _made(values: Sequence[Any]) -> list[FunctionTool[..., Any]]:
    from swink.tools import tools_by_name

    return [*tools_by_name([*values]).values()]


def _of_python(given: str) -> list[FunctionTool[..., Any]]:
    """Load the functions of a file, or of inline code.

    Raises UsageError if the code cannot be loaded or defines no tool.
    """
    is_code = "def " in given
    where = "the code of --functions" if is_code else given
    path = user_path(given)
    if not is_code and not path.is_file():
        raise swink.MediaError(
            f"{given}: no such file",
            resolution="--functions takes a Python file, or code with its functions.",
        )
    name = "swink_functions" if is_code else f"swink_functions_{path.stem}"
    try:
        module = types.ModuleType(name)
        if not is_code:
            spec = importlib.util.spec_from_file_location(name, path)
            module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]  # a .py has one
        sys.modules[name] = module  # annotations of the functions are resolved in this module
        source = given if is_code else path.read_text("utf-8")
        exec(compile(source, where, "exec"), module.__dict__)
    except (Exception, SystemExit) as error:
        raise swink.UsageError(
            f"{where}: {type(error).__name__}: {error}",
            title="The functions cannot be loaded",
            resolution="Correct the code, which runs once when it is loaded.",
        ) from error
    from swink.tools import FunctionTool

    found = [
        value
        for key, value in vars(module).items()
        if not key.startswith("_")
        and (
            isinstance(value, FunctionTool)
            or (isinstance(value, types.FunctionType) and value.__module__ == name)
        )
    ]
    if not found:
        raise swink.UsageError(
            f"{where} has no function",
            title="No tool",
            resolution="Define one whose name does not begin with an underscore.",
        )
    return _made(found)
