"""`swink alias`: short names for models."""

from __future__ import annotations

from collections.abc import Sequence

import click

from swink_cli.commands.default import check_models
from swink_cli.completion import complete_alias, complete_model
from swink_cli.listing import print_lines
from swink_cli.settings import change, read_settings
from swink_cli.terminal import say, table
from swink_core import UsageError

__all__ = ["command"]


@click.command("alias")
@click.argument("name", required=False, shell_complete=complete_alias)
@click.argument("models", nargs=-1, metavar="[MODEL]...", shell_complete=complete_model)
@click.option("--remove", is_flag=True, help="Forget the name.")
def command(name: str | None, models: Sequence[str], remove: bool) -> None:
    """List short names for models, or give one.

    Several models are a chain to fall back through.

    \b
      swink alias quick openai/gpt-5.4-nano
      swink ask -m quick Why is the sky blue?
    """
    known = read_settings(begins=True).aliases
    if name is None:
        rows = [(alias, " ".join(meant)) for alias, meant in sorted(known.items())]
        print_lines(table(rows) or ["no short names: swink alias NAME MODEL"])
        return
    if name not in known and not models:
        raise UsageError(f"there is no short name {name!r}", resolution="`swink alias` lists them.")
    if remove:
        say(f"forgotten; {change(['aliases'], name, None)}")
    elif not models:
        print_lines([" ".join(known[name])])
    else:
        if name in ("set", "remove", "list"):
            raise UsageError(
                f"{name!r} is no short name",
                resolution="swink alias NAME MODEL gives one, swink alias --remove NAME forgets it",
            )
        if not name.strip() or "/" in name or name != name.strip():
            raise UsageError(
                f"{name!r} cannot be a short name", resolution="Choose a word without a slash."
            )
        check_models(models)
        say(f"kept in {change(['aliases'], name, [*models])}")
