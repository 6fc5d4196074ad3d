"""Create the client of a command, with the keys and settings stored for each provider.

A provider receives only its own keys and settings. Keys and settings are not passed through the
environment, where every child process could read them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

import swink_core as swink
from swink_cli.keys import kept_keys, read_key
from swink_cli.pairs import with_parts
from swink_cli.settings import Settings, read_settings, settings_path
from swink_core import Client, Host
from swink_core.providers import Catalog, first_set

__all__ = [
    "PERSONAL", "bare_names", "check_defaults", "checked_options", "chosen", "client_parts",
    "configured_options", "default_options", "kept_options", "make_client",
]  # fmt: skip


PERSONAL = ("api_key", "base_url", "headers", "settings", "extra")
"""Options that apply only to the first provider of a call."""


@cache
def _host() -> Host:
    return Host()


def make_client(models: Iterable[str] | None = None, plugins: Sequence[Any] = ()) -> Client:
    """Return a client with the stored keys and settings of the models' providers (`None`: all
    providers).
    """
    return Client(**client_parts(models, plugins))


def client_parts(models: Iterable[str] | None, plugins: Sequence[Any]) -> dict[str, Any]:
    """Return the arguments for creating a client; `plugins` are added to the installed plugins."""
    names = None if models is None else {name.partition("/")[0] for name in models}
    host = Host(plugins) if plugins else _host()
    return {"host": host, "providers": kept_options(names, host)}


def kept_options(
    providers: Iterable[str] | None = None, host: Host | None = None
) -> dict[str, dict[str, Any]]:
    """Return the stored options of providers, by the providers' names.

    `providers` are the names of providers to include (`None`: all); names that are not installed
    are skipped. A stored key is omitted if the environment has a key, which takes precedence.
    """
    host = host or _host()
    catalog = Catalog(host)
    settings, kept = read_settings().providers, kept_keys()
    installed = host.provider_names() if settings or kept else []
    found: dict[str, dict[str, Any]] = {}
    for name in installed if providers is None else set(installed).intersection(providers):
        options = configured_options(name, settings.get(name, {}))
        if name in kept and not _in_environment(catalog, name):
            options["api_key"] = read_key(name)
        found[name] = {option: value for option, value in options.items() if value is not None}
    return {name: options for name, options in found.items() if options}


def configured_options(provider: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configured options of a provider, in the form that `Client` accepts.

    Raises InvalidOption for an invalid option; the message names the configuration key and the
    file.
    """
    with _naming_the_file():
        return checked_options(f"configured: providers.{provider}", options)


def default_options(settings: Settings) -> dict[str, Any]:
    """Check the configured default options and return them unchanged, as nested tables.

    Raises InvalidOption for an invalid option; the message names the configuration key and the
    file.
    """
    with _naming_the_file():
        check_defaults("options", settings.options)
    return settings.options


@contextmanager
def _naming_the_file() -> Iterator[None]:
    """Add the path of the settings file to the advice of an InvalidOption."""
    try:
        yield
    except swink.InvalidOption as error:
        raise swink.InvalidOption(
            error.message,
            resolution=f"{error.resolution or 'Correct it.'} The file is {settings_path()}",
        ) from error


def check_defaults(where: str, options: Mapping[str, Any]) -> None:
    """Raise InvalidOption for a default option that is unknown or provider-specific, or has a wrong
    value.
    """
    for name in options:
        if name in PERSONAL:
            raise swink.InvalidOption(
                f"{where}.{name}: this option applies to a single provider",
                resolution=f"Write providers.NAME.{name}.",
            )
        if name == "timeout":
            raise swink.InvalidOption(
                f"{where} has no option 'timeout'", resolution="Write timeouts.total, in seconds."
            )
    checked_options(where, options)


def checked_options(where: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Convert options from nested tables to the form that `Client` accepts.

    Raises InvalidOption for an unknown or invalid option. The message begins with `where`, the
    configuration key of the table that contains the options.
    """
    for name in options:
        _check_name(where, name)
    made = with_parts(dict(options), f"{where}.")
    for name in swink.StreamOptions.names() & made.keys():
        try:
            swink.StreamOptions(**{name: made[name]})
        except ValueError as error:
            raise swink.InvalidOption(
                f"{where}.{error}", resolution="Correct the value."
            ) from error
    return made


def _check_name(where: str, name: str) -> None:
    known = sorted(swink.StreamOptions.names() - {"api_key"} | {"timeout"})
    if name not in (*known, "api_key"):  # errors in keys are reported when the key file is read
        from difflib import get_close_matches

        near = get_close_matches(name, known, 1)
        raise swink.InvalidOption(
            f"{where} has no option {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""),
            resolution=f"Options are {', '.join(known)}.",
        )


def chosen(models: Sequence[str], *, begins: bool = False) -> list[str]:
    """Return the full names of the requested models (default: of the configured models).

    Aliases and names without a provider are resolved. If `begins` is True, the selected profile may
    be missing from the settings file.
    """
    settings = read_settings(begins=begins)
    named = models or settings.default
    meant = [model for name in named for model in settings.aliases.get(name, [name])]
    return [name if "/" in name else _full_name(name) for name in meant]


def bare_names(start: str = "") -> dict[str, str]:
    """Map the known bare model names that begin with `start` to full names (`provider/id`)."""
    host = _host()
    catalog = Catalog(host)
    owners: dict[str, str] = {}
    for name in host.provider_names():
        with suppress(swink.SwinkError):  # one broken catalogue must not hide the others
            owners |= {info.id: name for info in catalog.models(name) if info.id.startswith(start)}
    return owners


def _full_name(model: str) -> str:
    """Complete a bare model name to `provider/id`.

    Raises InvalidModel if no provider lists the model, or if several do and the choice is unclear.

    If several providers list the model, a provider with an API key (stored or in the environment)
    is preferred.
    """
    host = _host()
    catalog = Catalog(host)
    kept = kept_keys()
    environ: Mapping[str, str] = os.environ
    if kept:
        infos = [catalog.provider(name) for name in host.provider_names() if name in kept]
        environ = {**environ, **{v: "kept" for info in infos if info for v in info.api_key_env}}
    try:
        return str(Catalog(host, environ).resolve(model))
    except swink.InvalidModel as error:
        if not (near := _like(model)):
            raise
        raise swink.InvalidModel(
            error.message,
            title=error.title,
            resolution=f"Did you mean {' or '.join(near)}? `swink models` lists known ones.",
        ) from error


def _like(model: str) -> list[str]:
    """Return aliases and bare names similar to a misspelt name; none if the name is valid."""
    from difflib import get_close_matches

    known = {*read_settings().aliases, *bare_names()}
    return [] if model in known else get_close_matches(model, sorted(known), 2)


def _in_environment(catalog: Catalog, provider: str) -> bool:
    try:
        info = catalog.provider(provider)
    except swink.SwinkError:
        return False  # the call will report what is wrong
    return info is not None and first_set(info.api_key_env) is not None
