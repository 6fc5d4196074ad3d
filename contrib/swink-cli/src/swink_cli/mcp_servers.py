"""Use tools of MCP servers, through the official SDK (`pip install 'swink-cli[mcp]'`).

    [mcp]
    docs = "https://mcp.example.com/mcp"
    files = "npx -y @modelcontextprotocol/server-filesystem ."

    [mcp.tracker]
    command = ["tracker-mcp", "--stdio"]
    env = { TRACKER_TOKEN = "…" }

A started server gets the environment variables that the SDK passes to every server, and those in
`env`. Results are passed to the model as text, images and audio.
"""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from io import TextIOWrapper
from tempfile import TemporaryFile
from typing import Any, TextIO

import msgspec
from attrs import define

import swink_core as swink
from swink.tools import FunctionTool, failed
from swink_cli.settings import read_settings

__all__ = ["connected"]

CONNECT_SECONDS = 30.0
"""How many seconds a server may take to start and to list its tools."""

LINES_SHOWN = 5
"""How many lines of a server's log to print if the server does not start."""


@asynccontextmanager
async def connected(given: str) -> AsyncGenerator[list[FunctionTool[..., Any]], None]:
    """Connect to a server, given by its configured name, address or command, and return its tools.

    Raises UsageError if the server does not exist or does not answer.
    """
    try:
        from mcp import Client
    except ImportError as error:
        raise swink.UsageError(
            "the MCP SDK is not installed",
            title="No MCP servers",
            resolution="pip install 'swink-cli[mcp]'",
        ) from error
    where = read_settings().mcp.get(given, given)
    # A server's log would appear in the middle of the answer.
    with TemporaryFile() as kept:
        logged = TextIOWrapper(kept, "utf-8", "replace")
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    client = Client(_target(given, where, logged))
                    server: Any = await stack.enter_async_context(client)
                    tools = await _all_tools(server)
            except swink.UsageError:
                raise
            except Exception as error:
                raise _no_answer(given, error, logged) from error
            yield [_MCPTool.of(server, tool) for tool in tools]


def _no_answer(given: str, error: Exception, logged: TextIO) -> swink.UsageError:
    logged.seek(0)
    said = "".join(logged.readlines()[-LINES_SHOWN:])
    return swink.UsageError(
        f"{given}: {_cause(error)}" + (f"\n\n{said}" if said else ""),
        title="The MCP server does not answer",
        resolution="Check its command or address; --mcp accepts either, or a name in the "
        "configuration's table [mcp].",
    )


def _target(given: str, where: Any, log: TextIO) -> Any:
    """Return the URL, or the command's transport, that the SDK uses to connect to a server.

    Raises UsageError if `given` is not a configured name, a URL or a command.
    """
    from mcp import StdioServerParameters, stdio_client

    env: dict[str, str] | None = None
    if isinstance(where, Mapping):
        added = where.get("env", {})
        env = {name: str(value) for name, value in added.items()} or None
        where = where.get("url") or where.get("command")
    if isinstance(where, str) and where.startswith(("http://", "https://")):
        return where
    words = where if isinstance(where, list) else shlex.split(where or "")
    if not words or not all(isinstance(word, str) for word in words):
        raise swink.UsageError(
            f"mcp.{given} defines no server",
            resolution="Give it a `command`, or a `url`.",
        )
    if env is not None and "PATH" not in env:
        env["PATH"] = os.environ.get("PATH", os.defpath)
    started = StdioServerParameters(command=words[0], args=words[1:], env=env)
    return stdio_client(started, errlog=log)


async def _all_tools(server: Any) -> list[Any]:
    found, page = [], await server.list_tools()
    found += page.tools
    while page.next_cursor:
        page = await server.list_tools(cursor=page.next_cursor)
        found += page.tools
    return found


def _cause(error: BaseException) -> str:
    """Return the root cause inside nested exception groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


@define(eq=False)
class _MCPTool(FunctionTool[..., Any]):
    """A tool that a server runs and whose arguments the server validates."""

    server: Any = None

    @classmethod
    def of(cls, server: Any, tool: Any) -> _MCPTool:
        definition = swink.Tool(tool.name, tool.description or "", tool.input_schema)
        return cls(server.call_tool, definition, server=server)

    async def carry_out(self, call: swink.ToolCallBlock) -> swink.ToolResultMessage:
        """Run the tool on the server; return its result, or a result that describes the failure."""
        if call.state != "complete":
            return failed(call, f"The arguments are not a JSON object: {call.raw_arguments or ''}")
        try:
            result = await self.server.call_tool(call.name, dict(call.arguments))
        except Exception as error:
            return failed(call, _cause(error))
        blocks = [_block(part) for part in result.content]
        if not blocks and result.structured_content is not None:
            said = msgspec.json.encode(result.structured_content).decode()
            blocks = [swink.TextBlock(said)]
        message = swink.ToolResultMessage(call.id, call.name, blocks)
        return swink.replace(message, is_error=bool(result.is_error))


def _block(part: Any) -> swink.Block:
    match part.type:
        case "text":
            return swink.TextBlock(part.text)
        case "image":
            return swink.ImageBlock(swink.Base64Source(part.mime_type, part.data))
        case "audio":
            return swink.AudioBlock(swink.Base64Source(part.mime_type, part.data))
        case "resource_link":
            return swink.TextBlock(f"{part.name}: {part.uri}")
    text = getattr(part.resource, "text", None)
    return swink.TextBlock(text if text is not None else f"{part.resource.uri}: no text")
