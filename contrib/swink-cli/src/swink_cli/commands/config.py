"""`swink config`: read and change the settings file of the command line."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

import click
from click.shell_completion import CompletionItem

from swink_cli.clients import check_defaults, checked_options
from swink_cli.commands.names import check_models
from swink_cli.completion import offered
from swink_cli.files import private_folder
from swink_cli.listing import print_lines
from swink_cli.settings import (
    MODEL_ENV,
    PROFILE_ENV,
    change,
    configured,
    read_settings,
    settings_path,
)
from swink_cli.templates import has_secret, without_credentials
from swink_cli.terminal import say, table
from swink_core import Host, UsageError
from swink_recorder.scrub import is_secret

__all__ = ["command"]

_HIDDEN = frozenset({"args", "env", "headers", "mcp"})
"""Names of lists and tables whose values are not displayed, because they may be credentials."""


@click.group("config", invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Show or change the settings in the configuration file.

    \b
      swink config set system "Answer briefly."
      swink config set options.temperature 0.2
      swink config set providers.openai.base_url https://gateway.example/v1
      swink --profile work config set default azure/gpt-5.4
      swink --profile work "Why is the sky blue?"

    The key `profile` selects the profile to use if neither --profile nor SWINK_PROFILE is given.
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(show)


@command.command("show")
def show() -> None:
    """List the settings and the source of each value; overridden values are listed last."""
    profile = read_settings().profile
    say(f"{settings_path()}{f' · profile {profile}' if profile else ''}")
    rows = [(name, _shown(name, value), whence) for name, value, whence in _sources(profile)]
    lines = table(rows, ("KEY", "VALUE", "FROM"))
    print_lines(lines if rows else ["no settings yet: swink config set default MODEL"])


def _sources(profile: str) -> list[tuple[str, Any, str]]:
    """Return each setting as its key, its value and the source of the value.

    The source is an environment variable, the profile, or the file.
    """
    said = configured()
    profiles = said.pop("profiles", {})
    file = _flat(said)
    own = _flat(profiles.get(profile, {}))
    given: dict[str, tuple[Any, str]] = {}
    if models := os.environ.get(MODEL_ENV):
        given["default"] = (models, MODEL_ENV)
    if profile and profile != file.get("profile"):
        variable = os.environ.get(PROFILE_ENV) == profile
        given["profile"] = (profile, PROFILE_ENV if variable else "--profile")
    layers = [
        given,
        {name: (value, f"profile {profile}") for name, value in own.items()},
        {name: (value, "file") for name, value in file.items()},
    ]
    held: list[tuple[str, Any, str]] = []
    hidden: list[tuple[str, Any, str]] = []
    first: dict[str, str] = {}
    for layer in layers:
        for name, (value, whence) in layer.items():
            if name in first:
                hidden.append((name, value, f"{whence}, replaced by {first[name]}"))
            else:
                first[name] = whence
                held.append((name, value, whence))
    for other, content in profiles.items():
        if other != profile:
            hidden += [
                (f"profiles.{other}.{name}", value, "not in use")
                for name, value in _flat(content).items()
            ]
    return [*held, *hidden]


@command.command("path")
def path() -> None:
    """Print the path of the configuration file."""
    print_lines([str(settings_path())])


def _complete_key(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    return offered(incomplete, lambda: _flat(configured()))


@command.command("get")
@click.argument("key", shell_complete=_complete_key)
def get(key: str) -> None:
    """Print the value of a KEY, such as `default` or `aliases.quick`."""
    value = _value_of(key)
    print_lines(
        [f"{name} = {_written(each)}" for name, each in _flat(value).items()]
        if isinstance(value, dict)
        else [_written(value)]
    )


@command.command("set")
@click.argument("key", shell_complete=_complete_key)
@click.argument("value")
def put(key: str, value: str) -> None:
    """Set a KEY to a VALUE: true, a number, a TOML list, or text."""
    *tables, name = _parts(key)
    if not all([*tables, name]):
        raise UsageError(f"{key!r} is not a key", resolution="For example: aliases.quick")
    _check(tables, name, meant := _value(value))
    say(f"saved in {change(tables, name, meant)}")


def _check(tables: list[str], name: str, value: Any) -> None:
    """Reject values that would be invalid for every call.

    Other errors are found when the changed file is read again.
    """
    if tables[:1] == ["profiles"]:
        tables = tables[2:]
    models = value if isinstance(value, list) else [value]
    is_of_models = (tables, name) == ([], "default") or tables == ["aliases"]
    if is_of_models and all(isinstance(model, str) for model in models):
        check_models(models)
    if (tables, name) == ([], "options") and isinstance(value, dict):
        check_defaults("options", value)
    if tables[:1] == ["options"]:
        given = {name: value} if len(tables) == 1 else {tables[1]: None}
        check_defaults("options", given)
    if tables[:1] == ["providers"] and len(tables) > 1:
        Host().entry(tables[1])  # raises for an unknown provider
        # if only a part of an option is set, only the option's name is checked
        given = {name: value} if len(tables) == 2 else {tables[2]: None}
        checked_options(f"providers.{tables[1]}", given)


@command.command("unset")
@click.argument("key", shell_complete=_complete_key)
def unset(key: str) -> None:
    """Remove a KEY."""
    _value_of(key)  # raises if the key does not exist
    *tables, name = _parts(key)
    say(f"removed from {change(tables, name, None)}")


@command.command("edit")
def edit() -> None:
    """Open the file in your editor (VISUAL, EDITOR)."""
    place = settings_path()
    private_folder(place.parent)
    place.touch(mode=0o600)
    click.edit(filename=str(place))
    read_settings()  # raises if it is invalid


def _flat(data: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in data.items():
        more = _flat(value, f"{before}{name}.") if isinstance(value, dict) else None
        found |= {before + name: value} if more is None else more
    return found


def _parts(key: str) -> list[str]:
    """Split a key into the names of tables and of a value; an alias may contain dots."""
    parts = key.split(".")
    tables = 3 if parts[0] == "profiles" else 1
    if parts[tables - 1 : tables] == ["aliases"]:
        parts[tables:] = [".".join(parts[tables:])] if len(parts) > tables else []
    return parts


def _value_of(key: str) -> Any:
    """Return the effective value of a key: from the profile, or else from the rest of the file."""
    said, profile = configured(), read_settings().profile
    for data in (said.get("profiles", {}).get(profile), said):
        for part in _parts(key):
            data = data.get(part) if isinstance(data, dict) else None
        if data is not None:
            return data
    raise UsageError(f"{key} is not set", resolution="`swink config` lists the keys.")


def _shown(name: str, value: Any) -> str:
    """Return a value for display; values that may be credentials are hidden."""
    if _may_be_secret(name, value):
        return f"(hidden: swink config get {name})"
    return without_credentials(_written(value))


def _may_be_secret(name: str, value: Any) -> bool:
    """Return whether a value may contain a credential, by its name and the names inside it.

    Any argument of an MCP server's command may be one. Of a text with an address, only a part is
    secret, unless the name of the text indicates a secret.
    """
    parts = name.split(".")
    table, *names = parts[2:] if parts[0] == "profiles" else parts
    if table == "aliases":
        return False
    if table in ("mcp", "providers"):
        names = names[1:]  # the first name is that of the server or the provider
    if table == "mcp" and isinstance(value, str | list):
        has_arguments = isinstance(value, list) or len(value.split()) > 1
        return has_arguments or names not in ([], ["command"], ["url"])
    is_named = any(map(is_secret, names))
    if _HIDDEN.intersection(names) or _HIDDEN.intersection(_names(value)):
        return True
    return is_named if isinstance(value, str) else has_secret(value, is_named)


def _names(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _names(each)


def _written(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return " ".join(value)
    return value if isinstance(value, str) else str(value).lower()


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
