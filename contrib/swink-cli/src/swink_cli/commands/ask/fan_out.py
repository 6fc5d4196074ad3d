"""Ask several models at once: a live table on a terminal, then the answers in order.

In a pipe, the answers are printed one after the other, each below its model's name. A failure of
one model does not affect the answers of the others.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import click
from attrs import define
from rich.console import Console
from rich.live import Live
from rich.segment import Segments
from rich.table import Table
from rich.text import Text

import swink_core as swink
from swink_cli.calling import (
    exit_code,
    explain,
    interruptible,
    name_broken_plugins,
    name_unknown_models,
)
from swink_cli.clients import make_client
from swink_cli.display import Display, HeldText
from swink_cli.exits import worst
from swink_cli.markdown import joined, render
from swink_cli.memory import Memory
from swink_cli.options import CallOptions
from swink_cli.summary import amount, money, seconds, summary
from swink_cli.terminal import ECHO, printable, say
from swink_cli.troubles import TROUBLES

__all__ = ["ask_several"]

REDRAW = 1 / 10
"""How many seconds pass between two redraws."""

TICKER = 400
"""How many recent pieces of text are kept for the preview line: more than fit on one line."""

ROOMY = 60
"""The terminal width below which the table omits the cost."""


class _Kept(HeldText):
    """Collects the text of an answer, to print it after the table."""

    @cached_property
    def text(self) -> str:
        """The text to print, once the answer is complete."""
        return self._made("".join(self._parts))

    @property
    def end(self) -> str:
        return " ".join(printable("".join(self._parts[-TICKER:])).split())

    def close(self) -> None:
        """Do nothing: nothing has been printed yet."""


class _Quiet(Display):
    """Collects notices about an answer, to print them later."""

    def __init__(self, sink: _Kept) -> None:
        super().__init__(sink)
        self.notes: list[str] = []

    def feed(self, batch: Sequence[swink.AssistantMessageEvent]) -> None:
        thought = [event for event in batch if isinstance(event, swink.ThinkingDelta)]
        if thought:
            self._token()
        super().feed([event for event in batch if not isinstance(event, swink.ThinkingDelta)])

    def _note(self, text: str, **style: Any) -> None:
        self.notes.append(text)


@define
class _Asked:
    """One of the requested models, with its answer and notices."""

    models: list[str]
    stream: swink.EventStream
    sink: _Kept
    display: _Quiet
    since: float

    @property
    def name(self) -> str:
        return ", ".join(self.models)

    async def run(self, memory: Memory, context: swink.Context) -> None:
        """Read the answer to its end and store it."""
        memory.mark()
        async with self.stream as stream:
            async for batch in stream.batches():
                self.display.feed(batch)
        self.display.close()
        if isinstance(self.display.terminal, swink.Done):
            said = swink.Context([*context.messages, stream.message], context.system_prompt)
            memory.keep(said, self.models, stream.call.secrets)


class _All:
    """The streams of all models, as one object that Ctrl-C can stop."""

    def __init__(self, asked: list[_Asked]) -> None:
        self._asked = asked

    async def aclose(self) -> None:
        """Close all streams."""
        await asyncio.gather(*(one.stream.aclose() for one in self._asked))


def ask_several(
    call: CallOptions, context: swink.Context, memory: Memory, made: Callable[[str], str]
) -> int:
    """Ask every model, convert each answer's text with `made`, print it, and return an exit code.

    Provider-specific options apply only to the provider of the first model.
    """
    return asyncio.run(_ask_all(call, context, memory, made))


async def _ask_all(
    call: CallOptions, context: swink.Context, memory: Memory, made: Callable[[str], str]
) -> int:
    console = Console()
    chains = [call.models, *call.others]
    parts = [model for chain in chains for model in chain], memory.plugins
    async with make_client(*parts) as client, memory:
        asked = []
        for models in chains:
            options = call.options_for(models)
            stream = client.stream(models, context, limits=call.limits, **options)
            sink = _Kept(made)
            asked.append(_Asked(models, stream, sink, _Quiet(sink), time.monotonic()))
            name_unknown_models(client, models)
        name_broken_plugins(client)
        with TROUBLES.held():
            async with interruptible(_All(asked)):
                tasks = [asyncio.create_task(one.run(memory.branch(), context)) for one in asked]
                if console.is_terminal and not console.is_dumb_terminal:
                    await _draw(asked, tasks, console)
                for one, task in zip(asked, tasks, strict=True):
                    await task
                    _show(one, console)
    codes = []
    for one in asked:
        whose = f"The answer of {one.name}"
        codes.append(exit_code(one.stream.message, call.options, one.sink.text, whose))
    return worst(codes)


def _show(one: _Asked, console: Console) -> None:
    text = one.sink.text
    if console.is_terminal:
        console.print(Text(printable(one.name), style="bold"))
        console.print(Segments(joined(render(text, console))), end="")
    else:
        click.echo("\n\n".join(filter(None, (f"## {one.name}", text.rstrip()))) + "\n")
    sys.stdout.flush()
    for note in one.display.notes:
        say(f"{one.name}: {note}")
    if isinstance(one.display.terminal, swink.Error):
        explain(one.stream.call, one.display.terminal)
    say(summary(one.stream, one.display))
    if console.is_terminal:
        say("")


async def _draw(asked: list[_Asked], tasks: list[asyncio.Task[None]], console: Console) -> None:
    """Redraw the table until all answers have ended, and then erase it."""
    with Live(console=console, auto_refresh=False, transient=True) as live:
        while True:
            live.update(_table(asked, console.width - ECHO), refresh=True)
            _, left = await asyncio.wait(tasks, timeout=REDRAW)
            if not left:
                return


def _table(asked: list[_Asked], width: int) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.width = width
    table.add_column(no_wrap=True, overflow="ellipsis", max_width=max(12, width // 3))
    for _ in range(2 + (width >= ROOMY)):
        table.add_column(no_wrap=True, justify="right")
    table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    for one in asked:
        terminal = one.display.terminal
        usage, cost = one.stream.call.usage, one.stream.call.cost
        took = (one.display.ended_at or time.monotonic()) - one.since
        cells = [seconds(took), amount(usage.output) if usage else ""]
        if width >= ROOMY:
            cells.append(money(cost.total) if cost and cost.total is not None else "")
        style, words = "green" if terminal else "yellow", one.sink.end[-max(8, width // 3) :]
        if isinstance(terminal, swink.Error):
            style, words = "red", " ".join(printable(terminal.error_message).split())
        elif not words and one.display.first_token_at is not None:
            words = "thinking…"
        table.add_row(Text(printable(one.name), style), *map(Text, cells), Text(words))
    return table
