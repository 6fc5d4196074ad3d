"""`swink default` and `swink alias`: the default model, and aliases."""

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
@click.option("--unset", is_flag=True, help="Remove the default model.")
def default(models: Sequence[str], unset: bool) -> None:
    """Show or choose the default model.

    Several models form a fallback chain. -m and SWINK_MODEL override the default.
    """
    if unset:
        say(f"no default; {change([], 'default', None)}")
    elif models:
        check_models(models)
        say(f"saved in {change([], 'default', [*models])}")
    else:
        print_lines(
            [" ".join(read_settings().default) or ("no default model set: swink default MODEL")]
        )


def check_models(models: Sequence[str]) -> None:
    """Raise InvalidModel for a name that is not a valid model name."""
    if not all(models):
        raise InvalidModel("a model name is empty", resolution="Pass a name such as acme/large.")
    catalog = Catalog(Host())
    for model in chosen(models, begins=True):
        catalog.resolve(model)


@click.command("alias")
@click.argument("name", required=False, shell_complete=complete_alias)
@click.argument("models", nargs=-1, metavar="[MODEL]...", shell_complete=complete_model)
@click.option("--remove", is_flag=True, help="Delete the alias.")
def alias(name: str | None, models: Sequence[str], remove: bool) -> None:
    """List aliases for models, or define one.

    Several models form a fallback chain.

    \b
      swink alias quick openai/gpt-5.4-nano
      swink ask -m quick Why is the sky blue?
    """
    known = read_settings(begins=True).aliases
    if name is None:
        rows = [(short, " ".join(meant)) for short, meant in sorted(known.items())]
        print_lines(table(rows) or ["no aliases defined: swink alias NAME MODEL"])
        return
    if name not in known and not models:
        raise UsageError(f"unknown alias {name!r}", resolution="`swink alias` lists them.")
    if remove:
        say(f"removed from {change(['aliases'], name, None)}")
    elif not models:
        print_lines([" ".join(known[name])])
    else:
        if name in ("set", "remove", "list"):
            raise UsageError(
                f"no alias {name!r}",
                resolution=(
                    "swink alias NAME MODEL defines an alias, swink alias --remove NAME deletes it"
                ),
            )
        if not name.strip() or "/" in name or name != name.strip():
            raise UsageError(
                f"invalid alias: {name!r}", resolution="Choose a name without a slash."
            )
        check_models(models)
        say(f"saved in {change(['aliases'], name, [*models])}")
