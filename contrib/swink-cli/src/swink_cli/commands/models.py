"""`swink models`: what installed catalogues know of models."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import date
from typing import Any

import click

from swink_cli.clients import kept_options
from swink_cli.completion import complete_provider
from swink_cli.listing import installed_providers, print_json, print_lines
from swink_cli.terminal import say, table
from swink_core import (
    Host,
    ModelInfo,
    ProviderFailure,
    StreamOptions,
    SwinkError,
)
from swink_core.providers import AiohttpClient, Catalog

__all__ = ["command", "is_stale"]

STALE_AFTER = 180
"""Days after which a catalogue's figures are marked."""

PATIENCE = 10.0
"""Seconds within which a server has to say which models it has."""

HEADINGS = ("CONTEXT", "OUTPUT", "$ IN", "$ OUT", "AS OF", "FEATURES")


@click.command("models")
@click.argument("provider", required=False, shell_complete=complete_provider)
@click.option(
    "-q",
    "--query",
    "words",
    multiple=True,
    metavar="TEXT",
    help="Only models with TEXT in their name or features; of several, all have to be found.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(provider: str | None, words: Sequence[str], as_json: bool) -> None:
    """List known models: limits in tokens, US dollars per million tokens, features.

    A provider may serve more models than its catalogue knows; they can be asked all the same.
    Of a provider named here, a server of your own is asked for those that it has pulled. What is
    no provider's name is looked for, as with -q.
    """
    host = Host()
    catalog = Catalog(host)
    if provider is not None and provider not in host.provider_names():
        if not _found(provider, host, catalog):
            host.entry(provider)  # raises, with a name that is near
        words = (provider, *words)
        provider = None
    if provider is None:
        found = installed_providers(host, catalog)
        names = [one.name for one in found if one.error is None]
        for one in found:
            if one.error:
                say(f"notice: {one.name} is left out: {one.error}")
    else:
        names = [provider]
    quiet = bool(words)
    models = [
        info
        for name in names
        for info in _models(host, catalog, name, name == provider, quiet)
        if all(_has(info, word) for word in words)
    ]
    if as_json:
        print_json(map(_data, models))
        return
    if not models:
        whose = provider or "any provider"
        print_lines(
            [f"No model with {' and '.join(map(repr, words))} is listed."]
            if words
            else [f"No models are listed for {whose}; any name can be asked."]
        )
        return
    listed = [name for name in names if any(info.provider == name for info in models)]
    for number, name in enumerate(listed):
        rows = [_row(info) for info in models if info.provider == name]
        print_lines([""] * bool(number) + table(rows, (name, *HEADINGS)))
    if any(is_stale(info) for info in models):
        say(f"* older than {STALE_AFTER} days: prices and limits may have changed")


def _has(info: ModelInfo, word: str) -> bool:
    """Tell whether a model's name or features hold a word, in whatever case."""
    said = [f"{info.provider}/{info.id}", info.name or "", *(info.capabilities or ())]
    return any(word.casefold() in text.casefold() for text in said)


def _found(word: str, host: Host, catalog: Catalog) -> bool:
    """Tell whether any installed provider lists a model with a word."""
    sound = (one.name for one in installed_providers(host, catalog) if one.error is None)
    return any(_has(info, word) for name in sound for info in catalog.models(name))


def _models(
    host: Host, catalog: Catalog, name: str, asked_for: bool, quiet: bool
) -> list[ModelInfo]:
    """List a provider's models, with those that its server has where it was asked for by name.

    Whether there is a server that can tell is a word of the catalogue, `lists_models`. A list of
    everything imports no plugin and asks nobody.
    """
    known = {info.id: info for info in catalog.models(name)}
    info = catalog.provider(name)
    if info is not None and info.dialect.get("lists_models"):
        if not asked_for:
            if not quiet:
                say(f"swink models {name} asks its server which models it has")
            return list(known.values())
        try:
            served = asyncio.run(_served(host.bind(name).provider))
            known |= {model.id: model for model in served}
        except (SwinkError, ProviderFailure, TimeoutError) as error:
            say(f"notice: the server of {name} does not say what it has: {error}")
    return list(known.values())


async def _served(provider: Any) -> list[ModelInfo]:
    http = AiohttpClient()
    try:
        kept = kept_options([provider.name]).get(provider.name, {})
        options = StreamOptions(api_key=kept.get("api_key"), base_url=kept.get("base_url"))
        listing = provider.list_models(options, http)
        found: list[ModelInfo] = await asyncio.wait_for(listing, PATIENCE)
        return found
    finally:
        await http.aclose()


def is_stale(info: ModelInfo, today: date | None = None) -> bool:
    """Tell whether a model's figures are too old to rely on."""
    if info.as_of is None:
        return False
    try:
        age = (today or date.today()) - date.fromisoformat(info.as_of)
    except ValueError:
        return True  # a date that cannot be read says nothing of its age
    return age.days > STALE_AFTER


def _row(info: ModelInfo) -> tuple[str, ...]:
    prices = info.prices
    features = sorted(info.capabilities or ())
    if info.status != "active":
        features.insert(0, f"[{info.status}]")
    return (
        info.id,
        _short(info.context_window),
        _short(info.max_output),
        _price(prices.input if prices else None),
        _price(prices.output if prices else None),
        (info.as_of or "-") + ("*" if is_stale(info) else ""),
        " ".join(features) or "-",
    )


def _short(count: int | None) -> str:
    """Write 200000 as 200k, and a number that is not round as it is told: 131072 is 131k."""
    if count is None:
        return "-"
    if count >= 1_000_000:
        return f"{count / 1_000_000:.2f}".rstrip("0").rstrip(".") + "M"
    return f"{count / 1000:.0f}k" if count >= 1000 else str(count)


def _price(dollars: float | None) -> str:
    return "-" if dollars is None else f"{dollars:g}"


def _data(info: ModelInfo) -> dict[str, object]:
    prices = info.prices
    return {
        "id": info.id,
        "provider": info.provider,
        "name": info.name,
        "context_window": info.context_window,
        "max_output": info.max_output,
        "capabilities": None if info.capabilities is None else sorted(info.capabilities),
        "status": info.status,
        "prices": prices
        and {
            "input": prices.input,
            "output": prices.output,
            "cache_read": prices.cache_read,
            "cache_write": prices.cache_write,
        },
        "as_of": info.as_of,
        "stale": is_stale(info),
    }
