"""`swink ask`: one question, the answer on stdout as it arrives."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import click
from attrs import evolve

import swink_core as swink
from swink_cli.calling import name_broken_plugins, name_unknown_models, show_call, show_end
from swink_cli.clients import make_client
from swink_cli.display import Sink, make_sink
from swink_cli.exits import EXIT_FAILURE, EXIT_INCOMPLETE, EXIT_INTERRUPTED
from swink_cli.options import CallOptions, call_options
from swink_cli.prompts import prompt_message, prompt_options

__all__ = ["command"]


@click.command("ask")
@call_options
@prompt_options
@click.option("--plain", is_flag=True, help="Show text as it comes, not as formatted Markdown.")
@click.option(
    "--restart",
    is_flag=True,
    help="Begin again if the answer breaks off; outside a terminal it is then written at the end.",
)
def command(
    call: CallOptions,
    prompt: Sequence[str],
    images: Sequence[str],
    attachments: Sequence[str],
    plain: bool,
    restart: bool,
) -> int:
    """Ask a model and stream its answer to standard output.

    What is piped in comes before the PROMPT. Thinking, tool calls, retries and, at the end,
    tokens, cost and speed go to standard error. Ctrl-C stops the answer.

    \b
      swink ask -m openai/gpt-5.4-mini Why is the sky blue?
      git diff | swink ask -m anthropic/claude-sonnet-5-5 Review this change
    """
    call.require_model()
    message = prompt_message(prompt, images, attachments)
    if restart:
        policy = call.options.get("retry", swink.RetryPolicy())
        call.options["retry"] = evolve(policy, restart_after_output=True)
    sink = make_sink(plain=plain, held=restart)
    return asyncio.run(_ask(call, message, sink))


async def _ask(call: CallOptions, message: swink.UserMessage, sink: Sink) -> int:
    async with make_client(call.models) as client:
        context = call.context([message])
        stream = client.stream(call.models, context, **call.options)
        name_broken_plugins(client)
        if "base_url" not in call.options:
            name_unknown_models(client, call.models)
        display = await show_call(stream, sink)
        is_done = show_end(stream, display)
        reason = stream.message.stop_reason
        if is_done:
            return EXIT_INCOMPLETE if reason in _INCOMPLETE else 0
        return EXIT_INTERRUPTED if reason is swink.StopReason.ABORTED else EXIT_FAILURE


_INCOMPLETE = (
    swink.StopReason.LENGTH, swink.StopReason.CONTENT_FILTER, swink.StopReason.PAUSE,
)  # fmt: skip
