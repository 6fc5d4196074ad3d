"""What this machine could ask, for a person who has named no model."""

from __future__ import annotations

import asyncio
import sys

import click

import swink_core as swink
from swink_cli.clients import kept_options
from swink_cli.credentials import choices, describe, has_key
from swink_cli.settings import MODEL_ENV
from swink_cli.terminal import is_terminal, say, table
from swink_core.providers import AiohttpClient, Catalog, HTTPClient

__all__ = ["choose_model"]

PATIENCE = 0.5
"""Seconds within which a server on this machine has to answer to be offered."""

ECHO = "echo"

ECHO_MODEL = f"{ECHO}/{ECHO}"
"""The model that Enter chooses: it needs no key, costs nothing and downloads nothing."""


def choose_model() -> str:
    """Let a person choose among what there is, and return its name.

    Raises InvalidModel where nobody is there, or nothing is chosen.
    """
    if is_terminal(sys.stdin) and is_terminal(sys.stderr) and (offered := _offered()):
        say("No model is named. There are:", bold=True)
        rows = [(str(number), *row) for number, row in enumerate(offered.items(), 1)]
        for line in table(rows):
            click.echo(line, err=True)
        say("To add a provider's key: swink keys set PROVIDER")
        numbers = click.IntRange(0, len(offered))
        free = [*offered].index(ECHO_MODEL) + 1 if ECHO_MODEL in offered else 0
        number = click.prompt("Which one (0: none)", default=free, type=numbers, err=True)
        if number:
            name = [*offered][number - 1]
            say(f"to ask it from now on: swink default {name}")
            return name
    raise swink.InvalidModel(
        f"Name one with -m PROVIDER/MODEL, or set {MODEL_ENV}, or keep one: "
        f"swink default PROVIDER/MODEL\n\n{choices()}",
        title="No model chosen",
    )


def _offered() -> dict[str, str]:
    """Return models, each with what there is to say about it: the likeliest first."""
    host = swink.Host()
    catalog = Catalog(host)
    with_key: dict[str, str] = {}
    servers: list[str] = []
    local: dict[str, str] = {}
    for name in host.provider_names():
        try:
            info = catalog.provider(name) or swink.ProviderInfo(name)
            models = [model for model in catalog.models(name) if model.status == "active"]
        except swink.SwinkError:
            continue  # `swink providers` says what is wrong with it
        if has_key(info) and models:
            with_key[f"{name}/{models[0].id}"] = describe(info) + _price(models[0])
        elif info.auth in ("none", "optional") and info.dialect.get("lists_models"):
            servers.append(name)
        elif models and (size := models[0].extra.get("download")):
            terms = f"a download of {size}, once; {models[0].extra.get('licence')}"
            local[f"{name}/{models[0].id}"] = f"on this machine: {terms}"
    if ECHO in host.provider_names():
        local[ECHO_MODEL] = "says your words back: no key, no network"
    return {**with_key, **asyncio.run(_running(host, servers)), **local}


def _price(model: swink.ModelInfo) -> str:
    if model.prices is None or model.prices.input is None:
        return ""
    return f"; ${model.prices.input:g} in, ${model.prices.output:g} out for a million tokens"


async def _running(host: swink.Host, servers: list[str]) -> dict[str, str]:
    """Return a model of each server that answers."""
    http = AiohttpClient()
    try:
        found = await asyncio.gather(*(_first(host, name, http) for name in servers))
    finally:
        await http.aclose()
    return {f"{model.provider}/{model.id}": "runs on this machine" for model in found if model}


async def _first(host: swink.Host, name: str, http: HTTPClient) -> swink.ModelInfo | None:
    kept = kept_options([name]).get(name, {})
    options = swink.StreamOptions(api_key=kept.get("api_key"), base_url=kept.get("base_url"))
    try:
        listing = host.bind(name).provider.list_models(options, http)
        models: list[swink.ModelInfo] = await asyncio.wait_for(listing, PATIENCE)
    except (swink.SwinkError, swink.ProviderFailure, TimeoutError):
        return None
    return models[0] if models else None
