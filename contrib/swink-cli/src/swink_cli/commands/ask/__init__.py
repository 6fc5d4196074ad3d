"""`swink ask`: ask one question and stream the answer to standard output."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import click
from attrs import evolve

import swink_core as swink
from swink_cli.calling import (
    exit_code,
    name_broken_plugins,
    name_unknown_models,
    show_call,
    show_end,
)
from swink_cli.clients import make_client
from swink_cli.display import LastText, Sink, make_sink
from swink_cli.memory import Memory, memory_options
from swink_cli.options import CallOptions, call_options
from swink_cli.prompts import prompt_message, prompt_options
from swink_cli.terminal import is_terminal, say, stdout
from swink_cli.tools import ToolOptions, tool_options

__all__ = ["command"]


@click.command("ask")
@call_options
@prompt_options
@tool_options
@memory_options
@click.option(
    "-x", "--extract", is_flag=True, help="Print only the first code block of the answer."
)
@click.option("--copy", is_flag=True, help="Also copy the output to the clipboard.")
@click.option(
    "--plain", is_flag=True, help="Print text as it arrives, without Markdown formatting."
)
@click.option(
    "--restart",
    is_flag=True,
    help=(
        "Retry from the start if the answer is cut off. If stdout is not a terminal, the "
        "answer is then printed once complete."
    ),
)
@click.option("--save", metavar="NAME", help="Send nothing; save these options as a template.")
def command(
    call: CallOptions,
    tools: ToolOptions,
    memory: Memory,
    prompt: Sequence[str],
    images: Sequence[str],
    attachments: Sequence[str],
    extract: bool,
    copy: bool,
    plain: bool,
    restart: bool,
    save: str | None,
) -> int:
    """Ask a model and stream its answer to standard output.

    Piped text comes before the PROMPT. Reasoning, tool calls and retries go to standard error,
    followed by tokens, cost and speed. Ctrl-C stops the answer.

    \b
      swink ask -m openai/gpt-5.4-mini Why is the sky blue?
      git diff | swink ask -m anthropic/claude-sonnet-5-5 Review this change
      swink ask -c And at night?
    """
    if save is not None:
        from swink_cli.templates import save_template

        say(f"saved in {save_template(save, prompt, click.get_current_context())}")
        return 0
    history = call.go_on(memory.found)
    call.require_model(several=True, runs_tools=True)
    message = prompt_message(prompt, images, attachments)
    if restart:
        policy = swink.StreamOptions(retry=call.options.get("retry")).retry
        call.options["retry"] = evolve(policy, restart_after_output=True)
    context = call.context([*history, message])
    if call.others:
        return _ask_several(call, context, memory, bool(tools or copy), extract)
    is_json = bool(tools) and "response_format" in call.options
    asking = _ask(call, context, tools, _sink(extract, is_json, plain, restart), memory)
    said, code = asyncio.run(asking)
    if said is None:
        return code
    text = said.text
    if extract:
        from swink_cli.extraction import code_in

        text = code_in(text) or text
    code = exit_code(said, call.options, text)
    if copy:
        from swink_cli.extraction import copy_text

        say(f"copied by {copy_text(text)}")
    return code


def _ask_several(
    call: CallOptions, context: swink.Context, memory: Memory, wants_one: bool, extract: bool
) -> int:
    if wants_one:
        raise swink.InvalidOption(
            "Tools and --copy work with one model only, but several models were given.",
            resolution="Pass one model, or a fallback chain: -m A,B",
        )
    from swink_cli.commands.ask.fan_out import ask_several
    from swink_cli.extraction import extracted

    return ask_several(call, context, memory, extracted if extract else str)


def _sink(extract: bool, is_json: bool, plain: bool, restart: bool) -> Sink:
    if extract:
        from swink_cli.extraction import extracted

        return LastText(extracted)
    if is_json and not is_terminal(stdout()):
        return LastText()
    return make_sink(plain=plain, held=restart)


async def _ask(
    call: CallOptions, context: swink.Context, tools: ToolOptions, sink: Sink, memory: Memory
) -> tuple[swink.AssistantMessage | None, int]:
    """Return the answer (`None` if it is incomplete) and the exit code."""
    if tools:
        from swink_cli.tool_loop import CODES, ask_with_tools

        run = await ask_with_tools(call, context, tools, sink, memory)
        code = CODES.get(run.outcome)
        return (run.message, 0) if code is None else (None, code)
    async with make_client(call.models, memory.plugins) as client, memory:
        stream = client.stream(call.models, context, limits=call.limits, **call.options)
        name_broken_plugins(client)
        if "base_url" not in call.options:
            name_unknown_models(client, call.models)
        display = await show_call(stream, sink)
        is_done = show_end(stream, display)
        if is_done:
            context.messages.append(stream.message)
            memory.keep(context, call.models, stream.call.secrets)
        return (stream.message, 0) if is_done else (None, exit_code(stream.message, {}))
