"""`swink record`: a live stream, kept with its byte boundaries and times."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import click

import swink_core as swink
from swink_cli.calling import show_call, show_end
from swink_cli.clients import make_client
from swink_cli.display import make_sink
from swink_cli.exits import EXIT_FAILURE
from swink_cli.options import CallOptions, call_options
from swink_cli.prompts import prompt_message, prompt_options
from swink_cli.terminal import say
from swink_recorder.capture import Tape

__all__ = ["command"]


@click.command("record")
@call_options
@prompt_options
@click.option(
    "--output",
    "folder",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FOLDER",
    help="Where to write the recording; made if it does not exist.",
)
@click.option("--note", default="", metavar="TEXT", help="What the recording shows.")
@click.option("--force", is_flag=True, help="Replace a recording that is there already.")
def command(
    call: CallOptions,
    prompt: Sequence[str],
    images: Sequence[str],
    attachments: Sequence[str],
    folder: Path,
    note: str,
    force: bool,
) -> int:
    """Ask a model and keep the answer as it came, for a test or a bug report.

    The folder gets the request, the raw body with the time of each read, and the message that
    it made. Keys and other credentials are hidden; look at the files before you share them:
    the prompt and the answer are in them. A failed answer is recorded too.
    """
    call.require_model()
    if (folder / "recording.json").exists() and not force:
        raise swink.UsageError(
            f"{folder} holds a recording already",
            title="Nothing was recorded",
            resolution="Choose another folder, or pass --force.",
        )
    call.options.setdefault("retry", swink.RetryPolicy.none())
    return asyncio.run(_record(call, prompt_message(prompt, images, attachments), folder, note))


async def _record(call: CallOptions, message: swink.UserMessage, folder: Path, note: str) -> int:
    async with make_client(call.models) as client:
        stream = client.stream(call.models, call.context([message]), **call.options)
        tape = Tape(stream.call)
        whole = show_end(stream, await show_call(stream, make_sink(plain=True)))
        recording = tape.recording(stream.message, note)
        recording.save(folder, stream.call.secrets)
    say(f"recorded {len(recording.body)} bytes in {len(recording.chunks)} reads: {folder}")
    return 0 if whole else EXIT_FAILURE
