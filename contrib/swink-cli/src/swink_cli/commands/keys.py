"""`swink keys`: store API keys of providers for this user."""

from __future__ import annotations

import os
import sys

import click
from click.shell_completion import CompletionItem

from swink_cli.completion import complete_provider, offered
from swink_cli.key_file import keys_path
from swink_cli.keys import checked_key, forget, keep_for, kept_keys
from swink_cli.listing import installed_providers, print_json, print_lines
from swink_cli.terminal import as_unicode, is_terminal, say, table
from swink_core import Host, ProviderInfo, UsageError
from swink_core.providers import Catalog

__all__ = ["command"]


@click.group("keys", invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Store API keys in the system keyring, or in a file if no keyring works.

    A key in the environment takes precedence over a stored key. To use the system keyring: pip
    install 'swink-cli[keyring]'.

    \b
      swink keys set openai
      pass show openai | swink keys set openai
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(show)


@command.command("set")
@click.argument("provider", shell_complete=complete_provider)
def put(provider: str) -> None:
    """Store the API key of a PROVIDER: typed without echo, or read from a pipe."""
    host = Host()
    host.entry(provider)  # raises for an unknown one
    info = Catalog(host).provider(provider)
    if info is not None and info.auth == "none":
        raise UsageError(f"{provider} needs no key", title="Nothing was saved")
    keep_for(info or ProviderInfo(provider), checked_key(_asked_for(info.portal if info else None)))


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(as_json: bool = False) -> None:
    """List the providers that have an API key, and the location of each key; keys are not shown."""
    host = Host()
    kept = kept_keys()
    rows = [
        {"provider": one.name, "place": name}
        for one in installed_providers(host, Catalog(host))
        for name in one.info.api_key_env
        if os.environ.get(name)
    ]
    rows += [{"provider": name, "place": place} for name, place in kept.items()]
    rows.sort(key=lambda row: (row["provider"], row["place"] in kept.values()))
    if as_json:
        print_json(rows)
    else:
        lines = table([(row["provider"], row["place"]) for row in rows], ("PROVIDER", "KEY IN"))
        print_lines(lines if rows else ["no keys stored: swink keys set PROVIDER"])


@command.command("path")
def path() -> None:
    """Print the path of the key file."""
    print_lines([str(keys_path())])


def _complete_kept(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    return offered(incomplete, kept_keys)


@command.command("remove")
@click.argument("provider", shell_complete=_complete_kept)
def remove(provider: str) -> None:
    """Delete the key of a PROVIDER."""
    if not forget(provider):
        raise UsageError(f"no key stored for {provider!r}", resolution="swink keys list")
    say(f"deleted the key of {provider}")


def _asked_for(portal: str | None) -> str:
    """Read a key: typed without echo at a terminal, or else all of standard input."""
    if sys.stdin is None:
        return ""
    if not is_terminal(sys.stdin):
        return as_unicode(sys.stdin.read())
    if portal:
        say(f"create a key at {portal}")
    given: str = click.prompt("Key", hide_input=True, default="", show_default=False, err=True)
    return as_unicode(given)
