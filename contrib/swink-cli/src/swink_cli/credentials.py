"""Which installed provider needs which variable, read without importing any."""

from __future__ import annotations

import os

from swink_cli.key_file import IN_KEYRING
from swink_cli.keys import kept_keys
from swink_cli.listing import no_provider
from swink_cli.terminal import table
from swink_core import (
    Host,
    ProviderInfo,
    SwinkError,
)
from swink_core.providers import Catalog

__all__ = ["choices", "describe", "has_key", "is_ready"]


def is_ready(info: ProviderInfo) -> bool:
    """Tell whether what a provider needs is there, as far as known."""
    return (info.auth in ("none", "optional") or has_key(info)) and not _unset(info)


def has_key(info: ProviderInfo) -> bool:
    """Tell whether there is a key for a provider, in the environment or kept."""
    return _key_variable(info) is not None or info.name in kept_keys()


def describe(info: ProviderInfo) -> str:
    """Say which variables hold what a provider needs and whether they are set."""
    missing = _unset(info)
    return " and ".join([_described(info), *(f"needs {name}" for name in missing)])


def _unset(info: ProviderInfo) -> list[str]:
    return [name for name in info.required_env if not os.environ.get(name)]


def _described(info: ProviderInfo) -> str:
    if found := _key_variable(info):
        return f"{found} is set"
    if place := kept_keys().get(info.name):
        return "its key is kept" + (" in the keyring" if place == IN_KEYRING else "")
    names = " or ".join(info.api_key_env)
    match info.auth:
        case "none":
            return "needs no key"
        case "optional":
            return f"{names} is optional" if names else "needs no key"
        case "key":
            return f"needs {names or 'a key'}"
    return f"needs {names} or {info.auth}" if names else f"needs {info.auth}"


def _key_variable(info: ProviderInfo) -> str | None:
    return next((name for name in info.api_key_env if os.environ.get(name)), None)


def choices() -> str:
    """List what may be asked on this machine, and what works without any key."""
    host = Host()
    catalog = Catalog(host)
    rows: list[tuple[bool, str, str]] = []
    examples: list[str] = []
    for name in host.provider_names():
        try:
            info = catalog.provider(name) or ProviderInfo(name)
            models = [model for model in catalog.models(name) if model.status == "active"]
        except SwinkError:
            continue  # `swink providers` says what is wrong with it
        rows.append((not is_ready(info), name, describe(info)))
        if models and has_key(info):
            examples.append(f"-m {name}/{models[0].id}")
    if not rows:
        return no_provider(host)
    lines = table(["Installed providers:", *(row[1:] for row in sorted(rows))])
    lines += ["", "To keep a key: swink keys set PROVIDER"]
    if examples:
        lines += [f"With the keys that there are, for example: {examples[0]}"]
    without = ["swink demo"]
    if "echo" in host.provider_names():
        without.append('swink ask -m echo/echo "Hello"')
    return "\n".join([*lines, f"Without any key: {' or '.join(without)}"])
