"""`swink demo`: every installed provider streams at once, with no key and no network."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from swink_cli.completion import complete_provider
from swink_cli.exits import EXIT_FAILURE
from swink_cli.terminal import is_dumb, is_terminal, printable, say, table

if TYPE_CHECKING:
    from swink_cli.demo import Performance

__all__ = ["command"]


@click.command("demo")
@click.argument("providers", nargs=-1, shell_complete=complete_provider)
@click.option(
    "--speed",
    type=click.FloatRange(min=0, min_open=True),
    default=1.0,
    show_default=True,
    help="How many times as fast as recorded.",
)
def command(providers: Sequence[str], speed: float) -> int:
    """Watch installed providers stream, side by side.

    Each adapter reads, from a server on this machine, what the real service once sent, in the
    time in which it was sent. With PROVIDERS, all recordings of these are shown.
    """
    return asyncio.run(_demo(providers, speed))


async def _demo(providers: Sequence[str], speed: float) -> int:
    import swink_core as swink
    from swink_cli import demo

    async with swink.Client(clock=demo.DemoClock()) as client:
        shown = demo.plan(client, providers)
        if not shown:
            say("Nothing to show. Try: pip install swink-provider-openai")
            return EXIT_FAILURE
        playing = asyncio.create_task(demo.perform(client, shown, speed))
        try:
            if is_terminal(sys.stdout) and not is_dumb():
                await _show(shown)
            else:
                await _narrate(shown)
            await playing
        finally:
            playing.cancel()
            await asyncio.gather(playing, return_exceptions=True)
    for one in shown:
        if one.broken:
            say(f"{one.title}: {one.problem}", fg="red")
    for remark in demo.remarks(shown, providers or client.host.provider_names()):
        say(remark)
    return EXIT_FAILURE if any(one.broken for one in shown) else 0


async def _show(shown: Sequence[Performance]) -> None:
    from rich.console import Console

    from swink_cli import demo, panels

    console = Console()
    await panels.show_live(shown, console)
    panels.show_table(demo.HEADINGS, [demo.result(one) for one in shown], console)


async def _narrate(shown: Sequence[Performance]) -> None:
    """Tells one stream after the other, though all run at once: for a file or a pipe."""
    from swink_cli import demo

    for one in shown:
        click.echo(f"== {one.title} ({one.wire_format}) ==")
        told = 0
        while told < len(one.pieces) or not one.over:
            if told == len(one.pieces):
                one.changed.clear()
                await one.changed.wait()
            new = one.pieces[told:]
            told += len(new)
            click.echo("".join(printable(piece) for _, piece in new), nl=False)
        click.echo(f"\n({one.problem})\n" if one.problem else "\n")
    for line in table([demo.result(one) for one in shown], demo.HEADINGS):
        click.echo(line)
