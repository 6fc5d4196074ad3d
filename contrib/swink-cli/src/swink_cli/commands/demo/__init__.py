"""`swink demo`: stream from every installed provider at once, without a key or network."""

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
    from swink_cli.commands.demo.recordings import Performance

__all__ = ["command"]


@click.command("demo")
@click.argument("providers", nargs=-1, shell_complete=complete_provider)
@click.option(
    "--speed",
    type=click.FloatRange(min=0, min_open=True),
    default=1.0,
    show_default=True,
    help="Playback speed relative to the recording.",
)
def command(providers: Sequence[str], speed: float) -> int:
    """Watch installed providers stream, side by side.

    A server on this machine replays responses recorded from the real services, with their timing,
    and each provider plugin parses them. With PROVIDERS, all recordings of these providers are
    played.
    """
    return asyncio.run(_demo(providers, speed))


async def _demo(providers: Sequence[str], speed: float) -> int:
    import swink_core as swink
    from swink_cli.commands.demo import recordings

    async with swink.Client(clock=recordings.DemoClock()) as client:
        shown = recordings.plan(client, providers)
        if not shown:
            say("Nothing to show. Install a provider: pip install swink-provider-openai")
            return EXIT_FAILURE
        playing = asyncio.create_task(recordings.perform(client, shown, speed))
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
    for remark in recordings.remarks(shown, providers or client.host.provider_names()):
        say(remark)
    return EXIT_FAILURE if any(one.broken for one in shown) else 0


async def _show(shown: Sequence[Performance]) -> None:
    from rich.console import Console

    from swink_cli.commands.demo import panels, recordings

    console = Console()
    await panels.show_live(shown, console)
    panels.show_table(recordings.HEADINGS, [recordings.result(one) for one in shown], console)


async def _narrate(shown: Sequence[Performance]) -> None:
    """Print one stream after the other, although all run at once.

    The command uses this function if its output is a file or a pipe.
    """
    from swink_cli.commands.demo import recordings

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
    for line in table([recordings.result(one) for one in shown], recordings.HEADINGS):
        click.echo(line)
