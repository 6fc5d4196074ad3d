"""Show a tool loop as it runs: the answer, the tool calls and their results."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import click

import swink_core as swink
from swink import Client, FunctionTool, Run, ToolEnd, ToolStart, TurnStart
from swink_cli.calling import explain, name_broken_plugins, name_unknown_models, show_call
from swink_cli.clients import client_parts
from swink_cli.display import ARGUMENTS_SHOWN, Display, Sink
from swink_cli.exits import EXIT_FAILURE, EXIT_INCOMPLETE, EXIT_INTERRUPTED
from swink_cli.memory import Memory
from swink_cli.options import CallOptions
from swink_cli.summary import run_summary
from swink_cli.terminal import is_terminal, one_screen, printable, say, show_error
from swink_cli.tools import ToolOptions

__all__ = ["CODES", "OpenTools", "ask_with_tools", "show_run"]

CODES: dict[str | None, int] = {
    "max_turns": EXIT_INCOMPLETE, "aborted": EXIT_INTERRUPTED, "error": EXIT_FAILURE,
}  # fmt: skip
"""The exit codes of runs that ended without an answer."""

RESULT_SHOWN = 200
"""The maximum number of characters of a tool's result to print."""


class _RunDisplay(Display):
    """Shows the turns one after the other, with the results of tools between them."""

    def feed(self, batch: Sequence[Any]) -> None:
        for event in batch:
            if isinstance(event, TurnStart):
                self.terminal = self.first_token_at = None
            elif isinstance(event, ToolStart):
                self._sink.end_turn()
            elif isinstance(event, ToolEnd):
                self._note(_said(event), fg="red" if event.result.is_error else "green")
        super().feed(batch)


def _said(event: ToolEnd) -> str:
    content = event.result.content
    blocks = [swink.TextBlock(content)] if isinstance(content, str) else content
    words = " ".join(getattr(block, "text", f"[{block.type}]") for block in blocks)
    line = " ".join(printable(words).split())
    line = line if len(line) <= RESULT_SHOWN else f"{line[:RESULT_SHOWN]}…"
    return f"{event.tool_call.name}: {line}"


async def ask_with_tools(
    call: CallOptions, context: swink.Context, tools: ToolOptions, sink: Sink, memory: Memory
) -> Run:
    """Ask a model that may call tools, and return the tool loop after it has ended."""
    approval = Approval(yes=tools.yes)
    approval.sink = sink
    parts = client_parts(call.models, memory.plugins)
    async with Client(**parts) as client, memory, tools.opened() as found:
        given: Any = call.options
        run = client.run(
            call.models,
            context,
            tools=found,
            max_turns=tools.max_turns,
            approve=approval,
            limits=call.limits,
            **given,
        )
        name_broken_plugins(client)
        if "base_url" not in given:
            name_unknown_models(client, call.models)
        await show_run(run, sink)
        if run.outcome == "done":
            context.messages[:] = run.conversation
            memory.keep(context, call.models, run.call.secrets)
    return run


class OpenTools:
    """Tools that a separate task keeps open between the turns of a chat.

    The constructor raises UsageError if tool calls need approval but no terminal is available.
    """

    def __init__(self, tools: ToolOptions) -> None:
        self.approval = Approval(yes=tools.yes)
        self._tools = tools
        self._found: list[FunctionTool[..., Any]] = []
        self._is_over = asyncio.Event()
        self._holding: asyncio.Task[None] | None = None

    @property
    def options(self) -> dict[str, Any]:
        """The options of a run that uses these tools."""
        turns = self._tools.max_turns
        return {"tools": self._found, "approve": self.approval, "max_turns": turns}

    async def open(self) -> None:
        """Load tools and start servers.

        Raises UsageError for an invalid tool option, and PluginError for a broken plugin.
        """
        is_ready = asyncio.Event()
        self._holding = asyncio.create_task(self._hold(is_ready))
        ready = asyncio.create_task(is_ready.wait())
        await asyncio.wait([self._holding, ready], return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if self._holding.done():
            self._holding.result()

    async def aclose(self) -> None:
        """Stop the servers."""
        self._is_over.set()
        if self._holding is not None:
            await asyncio.wait([self._holding])

    async def _hold(self, is_ready: asyncio.Event) -> None:
        async with self._tools.opened() as self._found:
            is_ready.set()
            await self._is_over.wait()


async def show_run(run: Run, sink: Sink) -> None:
    """Show a tool loop until it ends, and print its usage."""
    display = await show_call(run, sink, _RunDisplay(sink))
    if one_screen() and display.first_token_at is not None:
        say("")
    if isinstance(display.terminal, swink.Error):
        explain(run.call, display.terminal)
    elif run.outcome == "aborted":
        say("stopped")
    elif run.outcome == "max_turns":
        say(f"stopped after turn {run.turns}: the model still calls tools (--max-turns)")
    elif run.outcome == "error":
        try:
            await run.result()
        except swink.SwinkError as error:  # the run reached a limit, which no call reports
            show_error(error.title, error.message, error.resolution)
    say(run_summary(run))


# -- approval of tool calls ----------------------------------------------------------------------

REFUSED = "The user did not allow this call."


class Approval:
    """Decides which tool calls may run: all of them (`yes`), or those that the user approves.

    The calls of a turn are approved one after the other. If `yes` is false and no terminal is
    available, the constructor raises UsageError before any request is sent.
    """

    def __init__(self, *, yes: bool) -> None:
        if not yes and not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
            raise swink.UsageError(
                "tool calls need approval, which requires a terminal",
                title="Approval required",
                resolution="Run it on a terminal, or pass --yes to allow every call.",
            )
        self.sink: Sink | None = None
        self._yes = yes
        self._always: set[str] = set()
        self._one_at_a_time = asyncio.Lock()

    async def __call__(self, call: swink.ToolCallBlock) -> bool | str:
        """Return True if a call may run; otherwise False, or a reason, which the model receives."""
        if self._yes:
            return True
        async with self._one_at_a_time:
            return call.name in self._always or await self._ask(call)

    async def _ask(self, call: swink.ToolCallBlock) -> bool | str:
        whole = shown = _in_sight(json.dumps(call.arguments, ensure_ascii=False))
        if len(whole) > ARGUMENTS_SHOWN:
            shown = f"{whole[:ARGUMENTS_SHOWN]}… ({len(whole):,} characters)"
        if self.sink is not None:
            self.sink.step_aside()
        _forget_what_was_typed()
        while True:
            say(f"Run {_in_sight(call.name)} {shown}?", fg="yellow")
            more = "" if shown is whole else "[w]hole, "
            click.echo(f"[y]es, [n]o, [a]lways, {more}or a reason for no: ", nl=False, err=True)
            answer = (await _line()).strip()
            match answer.lower():
                case "w" | "whole" if more:
                    shown = whole
                case "y" | "yes":
                    return True
                case "a" | "always":
                    self._always.add(call.name)
                    return True
                case "n" | "no":
                    return REFUSED
                case "":
                    say(
                        "Answer y, n or a; any other text refuses the call and is passed to "
                        "the model."
                    )
                case _:
                    return f"{REFUSED} They say: {answer}"


def _in_sight(text: str) -> str:
    """Escape characters that would hide a part of a JSON text or reorder it on the screen."""
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def _forget_what_was_typed() -> None:
    """Discard input that the user typed before the question appeared.

    Otherwise a key pressed earlier could approve a call that the user had not seen.
    """
    with suppress(ImportError):  # Windows
        import termios

        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


async def _line() -> str:
    """Read a line from the terminal. No thread is used, because it could not be stopped."""
    loop = asyncio.get_running_loop()
    file = sys.stdin.fileno()
    ready = asyncio.Event()
    try:
        loop.add_reader(file, ready.set)
    except NotImplementedError:  # an event loop of Windows
        return await asyncio.to_thread(sys.stdin.readline) or "n"
    try:
        await ready.wait()
    except asyncio.CancelledError:
        click.echo(err=True)  # the cursor is still after the question: end the line
        raise
    finally:
        loop.remove_reader(file)
    # a terminal delivers whole lines; an empty result is the end of input, which allows nothing
    return os.read(file, 65536).decode("utf-8", "replace") or "n"
