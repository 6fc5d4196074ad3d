"""What is wrong with what the user has set: the configuration, and a file of models."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from swink_cli.clients import configured_options
from swink_cli.commands.default import check_models
from swink_cli.commands.doctor.findings import LIKENESS, Finding, failing, instead
from swink_cli.commands.doctor.plugins import ABLE, RULED
from swink_cli.settings import read_settings, settings_path
from swink_core import Host, SwinkError
from swink_core.providers import Catalog

__all__ = ["configuration", "models_file"]

USER_FILE_ENV = "SWINK_MODELS"
"""Names a file of the user's, in the form of a package's models.toml."""


def configuration(host: Host) -> list[Finding]:
    """Look at the configuration file, as far as the profile at hand has it."""
    try:
        settings = read_settings()
    except SwinkError as error:
        return [Finding.of("the configuration", error)]
    file = settings_path()
    checks: dict[str, Callable[[], object]] = {}
    for name, options in settings.providers.items():
        checks[f"{file}, providers.{name}"] = partial(_usable, host, name, options)
    for name, models in {"default": settings.default, **settings.aliases}.items():
        if models:
            key = name if name == "default" else f"aliases.{name}"
            checks[f"{file}, {key}"] = partial(check_models, models)
    return failing(checks)


def models_file(host: Host) -> list[Finding]:
    """Look at the user's own file of models, and find rows that no provider has."""
    try:
        users = Catalog(host).users
    except SwinkError as error:
        return [Finding.of(USER_FILE_ENV, error)]
    where = f"{USER_FILE_ENV}, {os.environ.get(USER_FILE_ENV)}"
    known = Host(environ={}).provider_names()  # those that may not load now, too
    rows = {f'the provider "{name}"': name for name in users.providers}
    rows |= {f'the model "{model_id}"': name for name, model_id in users.models}
    found = [
        Finding(where, f"{row} is of no provider that is installed", _meant(name, known))
        for row, name in rows.items()
        if name not in known
    ]
    for what, words, asked in (
        *(
            (f'the model "{info.id}" has', info.capabilities, ABLE)
            for info in users.models.values()
        ),
        *(
            (f'the rule "{rule.name or rule.match}" takes', rule.takes, RULED)
            for rule in users.rules()
        ),
    ):
        for word in sorted({*(words or ())} - {*asked}):
            said = f'{what} "{word}", which nobody asks'
            found.append(Finding(where, said, instead(word, asked)))
    return found


def _meant(name: str, known: Sequence[str]) -> str:
    """Say which provider a row may be meant for."""
    near = difflib.get_close_matches(name, known, 1, LIKENESS) or ("NAME",)
    return f'Write provider = "{near[0]}", one that swink providers lists, or install it.'


def _usable(host: Host, provider: str, options: dict[str, Any]) -> None:
    host.entry(provider)
    configured_options(provider, options)
