"""`swink new`: create a plugin package from the template."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import click

import swink_core as swink
from swink_cli.terminal import is_terminal, owner_of, say

__all__ = ["command"]

TEMPLATE = Path(__file__).resolve().parent.parent / "template"

NAME = re.compile(r"[a-z][a-z0-9_-]*")
CONSTANTS = ("none", "true", "false")
"""The class is named after the plugin, and a class cannot have the name of a constant."""

ADDRESS = re.compile(r"https?://(\[[0-9a-fA-F:]+\]|[^\s/?#@:\[\]]+)(:\d{1,5})?(/[^\s?#]*)?")
"""An address with a host; a provider appends the paths of requests to it."""

UNFIT = frozenset("\\{}")
PREFIX = "swink-provider-"
"""The prefix that the template adds to a plugin's name to form the distribution's name."""

SIGNING = ("sse", "ndjson", "openai")
"""Kinds of plugins whose code adds the key to a request; the others use no key."""

KINDS = ("sse", "ndjson", "openai", "stream", "observer", "wrapper")


def _check_name(_: click.Context, __: click.Parameter, name: str) -> str:
    name = name.removeprefix(PREFIX) or name
    if not NAME.fullmatch(name):
        raise _failed(
            f"invalid plugin name: {name!r}",
            "Use lower-case letters, digits, - and _, starting with a letter.",
        )
    if name in CONSTANTS or name.endswith(("-", "_")):
        raise _failed(
            f"invalid plugin name: {name!r}",
            "End it with a letter or a digit, and choose no constant of Python.",
        )
    return name


def _check_words(_: click.Context, parameter: click.Parameter, words: str | None) -> str | None:
    """Reject text that would break the TOML, Python and template files it is inserted into."""
    # The template escapes quotes in the author's name.
    unfit = UNFIT if parameter.name == "author" else UNFIT | {'"'}
    if words is not None and (unfit.intersection(words) or not words.isprintable()):
        raise _failed(
            f"{parameter.opts[0]} {words!r} contains characters that cannot be used in the files "
            "of a package",
            "Leave out backslashes and braces; quotes are allowed only in an author's name.",
        )
    return words


def _check_address(
    context: click.Context, parameter: click.Parameter, address: str | None
) -> str | None:
    address = _check_words(context, parameter, address)
    if address is not None and not ADDRESS.fullmatch(address):
        raise _failed(
            f"invalid --base-url {address!r}",
            "Give an address with http:// or https:// and a host, and without credentials or a "
            "query, such as https://api.example.com/v1.",
        )
    return address


def _ask_kind(context: click.Context, _: click.Parameter, kind: str | None) -> str:
    """Ask for the kind at a terminal if the command line does not give it."""
    if kind is None and not context.resilient_parsing:
        if not is_terminal(sys.stdin):
            raise _failed("no kind of plugin given", f"Give --kind: {', '.join(KINDS)}.")
        words = "Wire format (or observer, wrapper for a plugin that is not a provider)"
        kind = click.prompt(words, type=click.Choice(KINDS), default=KINDS[0], err=True)
    return str(kind)


@click.command("new")
@click.argument("name", callback=_check_name)
@click.option(
    "--kind",
    type=click.Choice(KINDS),
    callback=_ask_kind,
    help="SSE or NDJSON over HTTP, an OpenAI-compatible API, a custom stream hook, or a plugin "
    "that is not a provider.",
)
@click.option(
    "--auth",
    type=click.Choice(("bearer", "header", "none")),
    default="bearer",
    show_default=True,
    help="How the key is sent: Authorization: Bearer, an x-api-key header, or none.",
)
@click.option(
    "--title", callback=_check_words, help="The display name. Default: NAME, capitalised."
)
@click.option("--base-url", callback=_check_address, help="The address of the API.")
@click.option(
    "--author", callback=_check_words, help="The author, for pyproject.toml and the licence."
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    help="The folder in which to create the package. Default: the current one.",
)
def command(
    name: str,
    kind: str,
    auth: str,
    title: str | None,
    base_url: str | None,
    author: str | None,
    output: Path,
) -> int:
    """Create a plugin package called NAME, with tests that pass before you write a line.

    \b
      swink new acme --kind sse
      cd swink-provider-acme && pip install -e '.[test]' && pytest
    """
    if auth == "header" and kind not in SIGNING:
        raise _failed(
            f"--auth header has no effect on --kind {kind}",
            f"Omit --auth, or choose --kind {', '.join(SIGNING)}.",
        )
    if (owner := _owner(name)) is not None:
        raise _failed(
            f"the provider {name} already exists, in {owner}",
            f"Install {owner}, or choose another name.",
        )
    try:
        from cookiecutter.exceptions import CookiecutterException, OutputDirExistsException
        from cookiecutter.main import cookiecutter
    except ImportError as error:
        raise swink.SwinkError(
            "swink new needs cookiecutter",
            title="Nothing was created",
            resolution="pip install 'swink-cli[new]'",
        ) from error
    answers = {
        "name": name,
        "kind": kind,
        "auth": auth,
        "title": title,
        "base_url": base_url,
        "author": author,
    }
    given = {key: value for key, value in answers.items() if value is not None}
    try:
        folder = cookiecutter(
            str(TEMPLATE), no_input=True, extra_context=given, output_dir=str(output)
        )
    except OutputDirExistsException as error:
        raise _failed(str(error), "Choose another name or folder.") from error
    except CookiecutterException as error:
        raise _failed(str(error), "") from error
    say(f"made {folder}")
    say(f"next: cd {folder} && pip install -e '.[test]' && pytest")
    return 0


def _owner(name: str) -> str | None:
    """Return the name of a provider's distribution, even if the distribution is not installed.

    The result is `None` for an unknown provider.
    """
    host = swink.Host(environ={})
    if name in host.provider_names():
        return host.entry(name).distribution
    return owner_of(name)


def _failed(message: str, resolution: str) -> swink.UsageError:
    return swink.UsageError(message, title="Nothing was created", resolution=resolution)
