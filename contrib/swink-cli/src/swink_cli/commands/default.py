"""`swink default`: the model that is asked where none is named."""

from __future__ import annotations

from collections.abc import Sequence

import click

from swink_cli.clients import chosen
from swink_cli.completion import complete_model
from swink_cli.listing import print_lines
from swink_cli.settings import change, read_settings
from swink_cli.terminal import say
from swink_core import Host, InvalidModel
from swink_core.providers import Catalog

__all__ = ["check_models", "command"]


@click.command("default")
@click.argument("models", nargs=-1, metavar="[MODEL]...", shell_complete=complete_model)
@click.option("--unset", is_flag=True, help="Have none.")
def command(models: Sequence[str], unset: bool) -> None:
    """Show or choose the model that is asked where none is named.

    Several are a chain to fall back through. What -m or SWINK_MODEL names goes before it.
    """
    if unset:
        say(f"no default; {change([], 'default', None)}")
    elif models:
        check_models(models)
        say(f"kept in {change([], 'default', [*models])}")
    else:
        print_lines([" ".join(read_settings().default) or "no default: swink default MODEL"])


def check_models(models: Sequence[str]) -> None:
    """Raise for a name that is no model's, before it is kept."""
    if not all(models):
        raise InvalidModel("a model's name is empty", resolution="Name one, as in acme/large.")
    catalog = Catalog(Host())
    for model in chosen(models, begins=True):
        catalog.resolve(model)
