"""`swink template`: named prompts and options."""

from __future__ import annotations

import click

from swink_cli.files import private_folder, replace_file
from swink_cli.listing import print_lines
from swink_cli.templates import (
    complete_template,
    template_folder,
    template_names,
    template_path,
)
from swink_cli.terminal import printable, say, table
from swink_core import UsageError

__all__ = ["command"]

STARTER = """# prompt = "Translate into $language: $input"
# system = ""
# model = "provider/model"
#
# [defaults]
# language = "French"
"""


_name = click.argument("name", shell_complete=complete_template)


@click.group("template", invoke_without_command=True)
@click.pass_context
def command(context: click.Context) -> None:
    """List, show and edit templates.

    \b
      swink ask -s 'You translate into $language.' --save translate
      swink -t translate -p language=French Good morning
    """
    if context.invoked_subcommand is None:
        context.invoke(list_templates)


@command.command("list")
def list_templates() -> None:
    """List the templates with the beginning of each."""
    rows = [(name, _beginning(name)) for name in template_names()]
    say(str(template_folder()))
    print_lines(table(rows) or ["no templates yet: swink ask … --save NAME"])


@command.command("show")
@_name
def show(name: str) -> None:
    """Print a template."""
    print_lines(_text(name).rstrip("\n").split("\n"))


@command.command("path")
@click.argument("name", required=False, shell_complete=complete_template)
def path(name: str | None) -> None:
    """Print the path of the template folder, or of one template."""
    print_lines([str(template_folder() if name is None else template_path(name))])


@command.command("edit")
@_name
def edit(name: str) -> None:
    """Open a template in your editor (VISUAL, EDITOR), creating it if it does not exist."""
    file = template_path(name)
    private_folder(file.parent)
    if not file.exists():
        replace_file(file, STARTER.encode())
    click.edit(filename=str(file))


@command.command("remove")
@_name
def remove(name: str) -> None:
    """Delete a template."""
    _text(name)
    template_path(name).unlink()
    say(f"removed {template_path(name)}")


def _text(name: str) -> str:
    try:
        return template_path(name).read_text("utf-8", "replace")
    except OSError as error:
        raise UsageError(
            f"unknown template {name!r}; templates: {', '.join(template_names()) or 'none'}",
            resolution="`swink template edit` creates one.",
        ) from error


def _beginning(name: str) -> str:
    words = " ".join(printable(_text(name)).split())
    return words if len(words) <= 80 else f"{words[:79]}…"
