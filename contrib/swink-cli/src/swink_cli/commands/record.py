"""`swink record`: a live stream, kept with its byte boundaries and times."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import click

import swink_core as swink
from swink_cli.calling import exit_code, show_call, show_end
from swink_cli.clients import make_client
from swink_cli.display import make_sink
from swink_cli.listing import reads
from swink_cli.options import CallOptions, call_options
from swink_cli.prompts import prompt_message, prompt_options
from swink_cli.terminal import say
from swink_core.providers import HTTPProvider
from swink_recorder.capture import Tape
from swink_recorder.replay import ReplayServer
from swink_recorder.saved import saved_answer

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
@click.option(
    "--from-sse",
    "saved",
    type=click.File("rb"),
    metavar="FILE",
    help="Ask nobody: record the answer that FILE holds, as `curl -i` printed it, or its body.",
)
@click.option("--note", default="", metavar="TEXT", help="What the recording shows.")
@click.option("--force", is_flag=True, help="Replace a recording that is there already.")
def command(
    call: CallOptions,
    prompt: Sequence[str],
    images: Sequence[str],
    attachments: Sequence[str],
    folder: Path,
    saved: BinaryIO | None,
    note: str,
    force: bool,
) -> int:
    """Ask a model and keep the answer as it came, for a test or a bug report.

    The folder gets the request, the raw body with the time of each read, and the message that
    it made. Keys and other credentials are hidden; look at the files before you share them:
    the prompt and the answer are in them. A failed answer is recorded too.

    With --from-sse the answer is one that was saved, and PROMPT may be left out.
    """
    call.require_model()
    if file := next((part for part in (folder, *folder.parents) if part.is_file()), None):
        raise swink.UsageError(
            f"{file} is a file",
            title="Nothing was recorded",
            resolution="A recording is a folder of files: choose another place.",
        )
    if (folder / "recording.json").exists() and not force:
        raise swink.UsageError(
            f"{folder} holds a recording already",
            title="Nothing was recorded",
            resolution="Choose another folder, or pass --force.",
        )
    call.options.setdefault("retry", swink.RetryPolicy.none())
    if saved is not None:
        return asyncio.run(_record_saved(call, saved.read(), " ".join(prompt), folder, note))
    return asyncio.run(_record(call, prompt_message(prompt, images, attachments), folder, note))


async def _record(call: CallOptions, message: swink.UserMessage, folder: Path, note: str) -> int:
    async with make_client(call.models) as client:
        stream = client.stream(call.models, call.context([message]), **call.options)
        return await _keep(call, stream, folder, note)


async def _record_saved(
    call: CallOptions, data: bytes, prompt: str, folder: Path, note: str
) -> int:
    async with swink.Client() as client, ReplayServer() as server:
        target = client.target(call.models[0])
        model = target.model
        provider = target.binding.provider
        if not isinstance(provider, HTTPProvider):
            raise swink.UsageError(
                f"{model.provider} reads no bytes, so none can be recorded",
                title="Nothing was recorded",
                resolution="Its provider makes the events itself.",
            )
        answer = saved_answer(data, model.provider, model.id, provider.content_types[0])
        url = server.play(provider, "saved", answer)
        asked = {"api_key": "none", **call.options, "base_url": url}
        context = call.context([swink.UserMessage(prompt or "What was saved?")])
        stream = client.stream(model, context, **asked)
        return await _keep(call, stream, folder, note, "/saved")


async def _keep(
    call: CallOptions, stream: swink.EventStream, folder: Path, note: str, below: str = ""
) -> int:
    """Show a call and save it; `below` is where in the address it was served from."""
    tape = Tape(stream.call)
    is_done = show_end(stream, await show_call(stream, make_sink(plain=True)))
    try:
        recording = tape.recording(stream.message, note)
    except swink.SwinkError:
        if is_done:
            raise
        say("nothing was recorded")  # the error of the call says why
        return exit_code(stream.message, call.options)
    if below:  # the times are those of this machine
        recording.chunks = [(0.0, len(recording.body))]
        recording.request.path = recording.request.path.removeprefix(below)
    recording.save(folder, stream.call.secrets)
    say(f"recorded {len(recording.body)} bytes in {reads(len(recording.chunks))}: {folder}")
    return exit_code(stream.message, call.options)
