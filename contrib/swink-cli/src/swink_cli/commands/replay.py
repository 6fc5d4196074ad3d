"""`swink replay`: a recording, streamed once more through its provider's own adapter."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

import swink_core as swink
from swink_cli.calling import show_call, show_end
from swink_cli.display import make_sink
from swink_cli.exits import EXIT_FAILURE
from swink_recorder.recording import Recording
from swink_recorder.replay import ReplayServer

__all__ = ["command", "play_recording"]


@click.command("replay")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--fast", is_flag=True, help="All at once instead of in the recorded time.")
@click.option("--plain", is_flag=True, help="Show text as it comes, not as formatted Markdown.")
def command(folder: Path, fast: bool, plain: bool) -> int:
    """Play a recording back: no key, no network.

    The bytes go through a real request to the recording's provider plugin, which must be
    installed. One that makes no requests reads them where it would ask a child process.
    """
    return play_recording(Recording.load(folder), fast, plain)


def play_recording(recording: Recording, fast: bool, plain: bool) -> int:
    """Show a recording's answer as it streams, and return the exit code."""
    return asyncio.run(_replay(recording, 0.0 if fast else 1.0, plain))


async def _replay(recording: Recording, speed: float, plain: bool) -> int:
    async with ReplayServer(speed) as server, swink.Client() as client:
        provider = client.host.bind(recording.provider).provider
        stream = client.stream(
            f"{recording.provider}/{recording.model}",
            "What was recorded?",
            base_url=server.play(provider, "case", recording),
            api_key="replay-needs-no-key",
            retry=swink.RetryPolicy.none(),
        )
        display = await show_call(stream, make_sink(plain=plain))
        return 0 if show_end(stream, display) else EXIT_FAILURE
