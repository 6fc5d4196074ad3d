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
    help="Continue a conversation saved with /save (JSON).",
)
@click.option(
    "--plain", is_flag=True, help="Print text as it arrives, without Markdown formatting."
)
def command(
    call: CallOptions, tools: ToolOptions, memory: Memory, file: str | None, plain: bool
) -> int:
    """Start a conversation with one model, or with several in turn.

    A line that ends with a backslash continues on the next line. Text between two lines of \"\"\"
    is one message. /help lists the commands. Ctrl-C stops an answer and keeps the partial text;
    Ctrl-D exits. If standard input is a pipe or file, each line is one message.
    """
    from swink_cli.commands.chat.session import Chat

    history = call.go_on(memory.found)
    call.require_model(runs_tools=True)
    return Chat(call, history, memory, tools, plain=plain).run(file)
