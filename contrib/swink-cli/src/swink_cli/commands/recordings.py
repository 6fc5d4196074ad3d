"""`swink record` and `swink replay`: store an answer with the sizes and times of all network reads,
and replay it through the adapter of the provider.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import click

import swink_core as swink
from swink_cli.calling import exit_code, show_call, show_end
from swink_cli.clients import make_client
from swink_cli.display import make_sink
from swink_cli.exits import EXIT_FAILURE
from swink_cli.listing import reads
from swink_cli.options import CallOptions, call_options
from swink_cli.prompts import prompt_message, prompt_options
from swink_cli.terminal import is_terminal, say
from swink_cli.understood import ask_a_person
from swink_core.providers import AiohttpClient, HTTPProvider
from swink_recorder.capture import Tape
from swink_recorder.recording import Recording
from swink_recorder.replay import ReplayServer
from swink_recorder.saved import saved_answer

__all__ = ["play_recording", "record", "replay"]


@click.command("record")
@call_options
@prompt_options
@click.option(
    "--output",
    "folder",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FOLDER",
    help="The folder for the recording; created if missing.",
)
@click.option(
    "--from-sse",
    "saved",
    type=click.File("rb"),
    metavar="FILE",
    help="Send nothing: use the response in FILE, either the output of `curl -i` or only its body.",
)
@click.option("--note", default="", metavar="TEXT", help="A note about the recording.")
@click.option("--force", is_flag=True, help="Overwrite an existing recording.")
def record(
    call: CallOptions,
    prompt: Sequence[str],
    images: Sequence[str],
    attachments: Sequence[str],
    folder: Path,
    saved: BinaryIO | None,
    note: str,
    force: bool,
) -> int:
    """Ask a model and record the answer, for a test or a bug report.

    The folder contains the request, the raw body with the time of each read, and the resulting
    message. Keys and other credentials are hidden. Check the files before you share them: they
    contain the prompt and the answer. A failed answer is recorded too.

    At a terminal, you confirm or correct the text, tool calls, usage and stop reason that were read
    from the answer. The recording keeps the names of the confirmed parts.

    With --from-sse, the answer comes from a file, and PROMPT is optional.
    """
    call.require_model()
    if file := next((part for part in (folder, *folder.parents) if part.is_file()), None):
        raise swink.UsageError(
            f"{file} is a file",
            title="Nothing was recorded",
            resolution="A recording is a folder of files: choose another path.",
        )
    if (folder / "recording.json").exists() and not force:
        raise swink.UsageError(
            f"{folder} already contains a recording",
            title="Nothing was recorded",
            resolution="Choose another folder, or pass --force.",
        )
    call.options.setdefault("retry", swink.RetryPolicy.none())
    if saved is not None:
        return asyncio.run(_record_saved(call, saved.read(), " ".join(prompt), folder, note))
    return asyncio.run(_record(call, prompt_message(prompt, images, attachments), folder, note))


async def _record(call: CallOptions, message: swink.UserMessage, folder: Path, note: str) -> int:
    async with make_client(call.models) as client:
        context = call.context([message])
        stream = client.stream(call.models, context, limits=call.limits, **call.options)
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
                f"{model.provider} reads no bytes, so there is nothing to record",
                title="Nothing was recorded",
                resolution="The provider creates the events itself.",
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
    """Show a call and save its recording.

    If a local server replayed a saved answer, `below` is the base path of that server's URL, which
    the recording omits; otherwise it is empty.
    """
    tape = Tape(stream.call)
    is_done = show_end(stream, await show_call(stream, make_sink(plain=True)))
    try:
        recording = tape.recording(stream.message, note, stream.call.context)
    except swink.SwinkError:
        if is_done:
            raise
        say("nothing was recorded")  # the error of the call has been shown
        return exit_code(stream.message, call.options)
    if below:  # the times come from the local server, not from the API
        recording.chunks = [(0.0, len(recording.body))]
        recording.request.path = recording.request.path.removeprefix(below)
        recording.origins = []
        recording.asked = None
    if recording.message is not None:
        is_there = is_terminal(sys.stdin) and is_terminal(sys.stderr)
        recording.message, recording.confirmed = ask_a_person(recording.message, is_there)
    recording.save(folder, stream.call.secrets)
    others = len(recording.legs) - 1
    more = f", and {others} more request{'s' * (others > 1)}" if others else ""
    say(f"recorded {len(recording.body)} bytes in {reads(len(recording.chunks))}{more}: {folder}")
    return exit_code(stream.message, call.options)


# -- playing back ----------------------------------------------------------------------------------


@click.command("replay")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--fast", is_flag=True, help="Print everything at once, without the recorded timing.")
@click.option(
    "--plain", is_flag=True, help="Print text as it arrives, without Markdown formatting."
)
def replay(folder: Path, fast: bool, plain: bool) -> int:
    """Replay a recording without a key or network.

    The recording's provider plugin must be installed; it sends a real request to a local server
    that replays the bytes. A plugin that makes no requests gets the bytes directly.
    """
    return play_recording(Recording.load(folder), fast, plain)


def play_recording(recording: Recording, fast: bool, plain: bool) -> int:
    """Stream the answer of a recording, and return the exit code."""
    return asyncio.run(_replay(recording, 0.0 if fast else 1.0, plain))


async def _replay(recording: Recording, speed: float, plain: bool) -> int:
    asked = _asked_again(recording)
    context, options = asked or ("What was recorded?", {})
    async with ReplayServer(speed) as server:
        url = server.add("case", recording)
        async with swink.Client(http=server.through(AiohttpClient(), "case")) as client:
            server.stand_in(client.host.bind(recording.provider).provider)
            stream = client.stream(
                f"{recording.provider}/{recording.model}",
                context,
                base_url=url,
                api_key="replay-needs-no-key",
                retry=swink.RetryPolicy.none(),
                **options,
            )
            display = await show_call(stream, make_sink(plain=plain))
            is_done = show_end(stream, display)
    if len(recording.legs) > 1:
        for problem in server.problems("case") if asked else server.missing("case"):
            say(problem)
    return 0 if is_done else EXIT_FAILURE


def _asked_again(recording: Recording) -> tuple[swink.Context, dict[str, Any]] | None:
    """Return the recorded conversation and options; `None` if either was not fully recorded."""
    asked = recording.asked
    if asked is None or '"sha256:' in json.dumps(asked["context"]):  # a hash stands for media
        return None
    options = {**asked["options"]}
    if "cache" in options:
        options["cache"] = swink.CacheStrategy(**options["cache"])
    return swink.load(swink.Context, asked["context"]), options
