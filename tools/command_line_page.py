"""The page of the command line: what `swink COMMAND --help` says, of every command."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import cleandoc
from textwrap import dedent

import click
from reference_parts import MARK, code, joined, table

from swink_cli import exits
from swink_cli.main import cli

CODES = (
    (
        0,
        "the answer is complete, or it calls tools that were only described",
        "every row has an answer, from this run or an earlier one",
    ),
    (
        exits.EXIT_FAILURE,
        "the call failed, also because of an invalid key, header or URL; or the answer could not "
        "be written or copied",
        "a row failed, in this run or an earlier one, or a file is not usable",
    ),
    (
        exits.EXIT_USAGE,
        "the call is invalid: for example, an unknown provider, a wrong option, a missing file",
        "the run could not begin: an invalid call, the journal of another job, or an invalid first "
        "row",
    ),
    (
        exits.EXIT_INCOMPLETE,
        "the answer is incomplete: token limit, content filter, pause, or still calling tools "
        "after --max-turns turns; or it does not match the requested JSON",
        "the run ended before the last row: a limit was reached, or every call failed",
    ),
    (
        exits.EXIT_INTERRUPTED,
        "stopped by Ctrl-C, which closes the connection",
        "stopped by Ctrl-C or SIGTERM; the next run continues where this one stopped",
    ),
    (exits.EXIT_BROKEN_PIPE, "the reader of standard output closed the pipe", ""),
)


COMPLETION = """```bash
swink completion --install        # for the shell in the variable SHELL
swink completion zsh --install    # or bash, or fish
```"""


def page() -> str:
    """Return the page."""
    context = click.Context(cli, info_name="swink")
    return joined(
        "# The command line",
        MARK,
        "This page contains the help of all commands; `swink COMMAND --help` shows it in a\n"
        "terminal. Some commands come from other distributions of this repository. Your own\n"
        "packages can [add commands](../how-to/add-a-command.md) too.",
        "Shell completion covers commands, options, models, tools, files and stored names:",
        COMPLETION,
        *_command(cli, context, "##"),
        "## Exit codes",
        table(
            ("code", "meaning", "meaning for `swink batch`"),
            [(str(number), *texts) for number, *texts in CODES],
        ),
    )


def _command(command: click.Command, context: click.Context, heading: str) -> Iterator[str]:
    """Describe a command, and below it those of a group."""
    if context.parent is not None:
        yield f"{heading} `{context.command_path}`"
    pieces = [context.command_path, *command.collect_usage_pieces(context)]
    yield f"```text\n{' '.join(pieces)}\n```"
    yield from _paragraphs(command.help or "")
    if rows := list(_options(command, context)):
        yield table(("option", "what it does"), rows)
    if isinstance(command, click.Group):
        below = heading if context.parent is None else heading + "#"
        for name in command.list_commands(context):
            one = command.get_command(context, name)
            assert one is not None
            yield from _command(one, click.Context(one, info_name=name, parent=context), below)


def _paragraphs(text: str) -> Iterator[str]:
    r"""Yield a help text's paragraphs; one that begins with \b keeps its lines."""
    for paragraph in cleandoc(text).split("\n\n"):
        if paragraph.startswith("\b"):
            yield f"```text\n{dedent(paragraph[1:].strip(chr(10)))}\n```"
        else:
            yield paragraph


def _options(command: click.Command, context: click.Context) -> Iterator[tuple[str, str]]:
    for parameter in command.get_params(context):
        if isinstance(parameter, click.Option) and "--help" not in parameter.opts:
            record = parameter.get_help_record(context)
            if record is not None:
                yield code(record[0]), record[1]
