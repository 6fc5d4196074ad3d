"""`swink chat`: a conversation in the terminal, or from a script."""

from __future__ import annotations

import click

from swink_cli.completion import complete_file
from swink_cli.memory import Memory, memory_options
from swink_cli.options import CallOptions, call_options
from swink_cli.tools import ToolOptions, tool_options

__all__ = ["command"]


@click.command("chat")
@call_options
@tool_options
@memory_options
@click.option(
    "--load",
    "file",
    metavar="FILE",
    shell_complete=complete_file,
    help="Go on with a conversation that /save wrote, as JSON.",
)
@click.option("--plain", is_flag=True, help="Show text as it comes, not as formatted Markdown.")
def command(
    call: CallOptions, tools: ToolOptions, memory: Memory, file: str | None, plain: bool
) -> int:
    """Hold a conversation, on one model or on several in turn.

    A line that ends with a backslash goes on; so does everything between two lines of \"\"\".
    /help lists the commands. Ctrl-C stops an answer and keeps what came, Ctrl-D leaves. From a
    pipe or file the lines of standard input are the turns.
    """
    from swink_cli.commands.chat.session import Chat

    history = call.go_on(memory.found)
    call.require_model(runs_tools=True)
    return Chat(call, history, memory, tools, plain=plain).run(file)
