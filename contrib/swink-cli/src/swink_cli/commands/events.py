"""`swink events`: ask a question and print every event of the answer as a line of JSON."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

import click

import swink_core as swink
from swink_cli.calling import exit_code, interruptible
from swink_cli.clients import make_client
from swink_cli.files import encode_json
from swink_cli.options import CallOptions, call_options
from swink_cli.prompts import prompt_message, prompt_options

__all__ = ["command"]


@click.command("events")
@call_options
@prompt_options
def command(
    call: CallOptions, prompt: Sequence[str], images: Sequence[str], attachments: Sequence[str]
) -> int:
    """Ask a model and print every event as it arrives, as a line of JSON (UTF-8).

    The last line is a `done` or an `error` event; the exit codes are those of `swink ask`.
    """
    call.require_model()
    message = prompt_message(prompt, images, attachments)
    return asyncio.run(_print_events(call, message))


async def _print_events(call: CallOptions, message: swink.UserMessage) -> int:
    async with make_client(call.models) as client:
        context = call.context([message])
        stream = client.stream(call.models, context, limits=call.limits, **call.options)
        async with stream, interruptible(stream):
            async for batch in stream.batches():
                sys.stdout.buffer.write(b"".join(encode_json(swink.dump(event)) for event in batch))
                sys.stdout.buffer.flush()
        return exit_code(stream.message, call.options)
