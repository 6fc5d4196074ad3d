"""`swink default` and `swink alias`: the default model, and short names."""

from __future__ import annotations

from collections.abc import Sequence

import click

from swink_cli.clients import chosen
from swink_cli.completion import complete_alias, complete_model
from swink_cli.listing import print_lines
from swink_cli.settings import change, read_settings
from swink_cli.terminal import say, table
from swink_core import Host, InvalidModel, UsageError
from swink_core.providers import Catalog

__all__ = ["alias", "check_models", "default"]


@click.command("default")
@click.argument("models", nargs=-1, metavar="[MODEL]...", shell_complete=complete_model)
@click.option("--unset", is_flag=True, help="Have none.")
def default(models: Sequence[str], unset: bool) -> None:
    """Show or choose the default model.

    Several are a chain to fall back through. -m and SWINK_MODEL replace it.
    """
    if unset:
        say(f"no default; {change([], 'default', None)}")
    elif models:
        check_models(models)
        say(f"kept in {change([], 'default', [*models])}")
    else:
        print_lines([" ".join(read_settings().default) or "no default: swink default MODEL"])


def check_models(models: Sequence[str]) -> None:
    """Raise InvalidModel for a name that no call could use."""
    if not all(models):
        raise InvalidModel("a model's name is empty", resolution="Name one, as in acme/large.")
    catalog = Catalog(Host())
    for model in chosen(models, begins=True):
        catalog.resolve(model)


@click.command("alias")
@click.argument("name", required=False, shell_complete=complete_alias)
@click.argument("models", nargs=-1, metavar="[MODEL]...", shell_complete=complete_model)
@click.option("--remove", is_flag=True, help="Forget the name.")
def alias(name: str | None, models: Sequence[str], remove: bool) -> None:
    """List short names for models, or give one.

    Several models are a chain to fall back through.

    \b
      swink alias quick openai/gpt-5.4-nano
      swink ask -m quick Why is the sky blue?
    """
    known = read_settings(begins=True).aliases
    if name is None:
        rows = [(short, " ".join(meant)) for short, meant in sorted(known.items())]
        print_lines(table(rows) or ["no short names: swink alias NAME MODEL"])
        return
    if name not in known and not models:
        raise UsageError(f"unknown short name {name!r}", resolution="`swink alias` lists them.")
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
