"""The first run: offer a choice of models before any is configured.

Without an API key, the choices are to paste a key, to use a local model, or to try echo; with keys,
the cheapest model of each provider comes first, with its price. Without a terminal, an error
message lists the same choices.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from math import inf

import click
from attrs import define

import swink_core as swink
from swink_cli.clients import kept_options
from swink_cli.keys import checked_key, describe, has_key, keep_for
from swink_cli.listing import is_retired, no_provider
from swink_cli.settings import MODEL_ENV, change, read_settings
from swink_cli.terminal import as_unicode, is_terminal, say, show_error, table
from swink_core.providers import AiohttpClient, Catalog, HTTPClient

__all__ = ["NOTHING_TO_ASK", "choose_model", "is_set_up", "paste_key", "provider_of_key"]

PATIENCE = 0.5
"""How many seconds to wait for a local server; a server that answers later is not offered."""

ECHO = "echo"

ECHO_MODEL = f"{ECHO}/{ECHO}"
"""The default choice (Enter), which needs no key, costs nothing and downloads nothing."""

PASTE = "paste a key"

TRIES = 3
"""The number of attempts to enter a provider's name."""

NOTHING_TO_ASK = (
    "Store a key:       swink keys set PROVIDER\n"
    "Or a local model:  swink ask -m ollama/MODEL, with Ollama running\n"
    f'Or try echo:       swink ask -m {ECHO_MODEL} "Hello" (no key, no network)\n'
    f"Name a model with -m PROVIDER/MODEL, {MODEL_ENV}, or `swink default PROVIDER/MODEL`; "
    "`swink providers` and `swink models` list what there is."
)
"""The advice for a call without a model, if no choice can be offered at a terminal."""


@define
class _Offer:
    """One choice; `model` is `None` for the choice to paste a key."""

    model: str | None
    name: str
    terms: str
    is_kept: bool = True
    """Whether the program offers to store the model as the default."""
    price: tuple[float, float] = (inf, inf)
    """US dollars per million output and input tokens."""


def is_set_up() -> bool:
    """Return whether a model is configured, or an API key is stored or in the environment."""
    return bool(read_settings().default) or any(map(has_key, _infos(swink.Host())))


def choose_model() -> str:
    """Let the user choose one of the available models, and return its name.

    Raises InvalidModel if no terminal is available, and if the user chooses nothing.
    """
    host = swink.Host()
    if not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
        raise _no_model(host)
    offers = _offers(host)
    say("No model is configured. You can use:", bold=True)
    for line in table([(str(n), one.name, one.terms) for n, one in enumerate(offers, 1)]):
        click.echo(line, err=True)
    free = next((n for n, one in enumerate(offers, 1) if one.model == ECHO_MODEL), 0)
    numbers = click.IntRange(0, len(offers))
    number = click.prompt("Choose one (0: none)", default=free, type=numbers, err=True)
    if not number:
        raise _no_model(host)
    chosen = offers[number - 1]
    if chosen.model is None:
        chosen = _with_key(host, paste_key())
    assert chosen.model is not None
    if chosen.is_kept:
        _offer_default(chosen.model)
    return chosen.model


def paste_key() -> str:
    """Read an API key without echo, store the key, and return the provider's name.

    Raises UsageError for text that cannot be a key, and for an unknown provider.
    """
    host = swink.Host()
    infos = [info for info in _infos(host) if info.api_key_env and info.auth != "none"]
    given: str = click.prompt(
        "Key (hidden)", hide_input=True, default="", show_default=False, err=True
    )
    key = checked_key(as_unicode(given))
    info = provider_of_key(key, infos)
    if info is None:
        info = _asked_provider(host, infos)
    else:
        say(f"This is a key of {info.title or info.name}.")
    keep_for(info, key)
    return info.name


def provider_of_key(key: str, infos: Iterable[swink.ProviderInfo]) -> swink.ProviderInfo | None:
    """Return the provider that a key's prefix identifies; `None` unless exactly one matches."""
    found = [info for info in infos if key.startswith(info.key_prefixes or ("\0",))]
    return found[0] if len(found) == 1 else None


def _asked_provider(host: swink.Host, infos: list[swink.ProviderInfo]) -> swink.ProviderInfo:
    """Ask for the provider of a key. Raises UsageError after too many unknown names."""
    say(f"Providers: {', '.join(info.name for info in infos)}")
    known = {info.name: info for info in infos}
    for _ in range(TRIES):
        name: str = click.prompt("Provider of this key", default="", show_default=False, err=True)
        if info := known.get(name.strip().lower()):
            return info
        try:
            host.entry(name.strip())
            say(f"{name} needs no key.")
        except swink.SwinkError as error:
            show_error(error.title, error.message, error.resolution or "")
    raise swink.UsageError(
        "unknown provider of the key",
        title="Nothing was saved",
        resolution="Name the provider: swink keys set PROVIDER",
    )


def _with_key(host: swink.Host, name: str) -> _Offer:
    """Return the choice for a provider whose key was just stored."""
    info = Catalog(host).provider(name) or swink.ProviderInfo(name)
    offer = _of_provider(Catalog(host), info)
    if offer is None:
        raise swink.InvalidModel(
            f"the catalogue lists no models of {name}",
            title="No model chosen",
            resolution=f"Pass one: swink ask -m {name}/MODEL",
        )
    say(f"Asking {offer.name}: {offer.terms}")
    return offer


def _offer_default(model: str) -> None:
    if click.confirm(f"Use {model} by default from now on?", err=True):
        say(f"saved in {change([], 'default', [model])}")
    else:
        say(f"to make it the default: swink default {model}")


def _no_model(host: swink.Host) -> swink.InvalidModel:
    ready = [
        offer.model
        for info in _infos(host)
        if has_key(info) and (offer := _of_provider(Catalog(host), info)) is not None
    ]
    what = "No model given, and no API key is set."
    if ready:
        what = f"No model given. With the API keys that are set, for example: -m {ready[0]}"
    elif not host.provider_names():
        what = f"No model given. {no_provider(host)}"
    return swink.InvalidModel(what, title="No model chosen", resolution=NOTHING_TO_ASK)


def _infos(host: swink.Host) -> list[swink.ProviderInfo]:
    """Return the catalogue entries of installed providers, except entries that cannot be read."""
    catalog = Catalog(host)
    found = []
    for name in host.provider_names():
        try:
            found.append(catalog.provider(name) or swink.ProviderInfo(name))
        except swink.SwinkError:
            continue  # `swink providers` reports the error
    return found


def _offers(host: swink.Host) -> list[_Offer]:
    """List the choices: models with keys, local models, pasting a key, echo."""
    catalog = Catalog(host)
    infos = _infos(host)
    with_key = [offer for info in infos if has_key(info) and (offer := _of_provider(catalog, info))]
    with_key.sort(key=lambda offer: offer.price)
    servers = [
        info.name
        for info in infos
        if info.auth in ("none", "optional") and info.dialect.get("lists_models")
    ]
    local = [
        _Offer(
            f"{model.provider}/{model.id}", f"{model.provider}/{model.id}", "runs on this machine"
        )
        for model in asyncio.run(_running(host, servers))
    ]
    for info in infos:
        models = _active(catalog, info.name)
        if models and (size := models[0].extra.get("download")):
            name = f"{info.name}/{models[0].id}"
            terms = f"on this machine: one download of {size}; {models[0].extra.get('licence')}"
            local.append(_Offer(name, name, terms))
    paste = [_Offer(None, PASTE, _pasted(infos))] if any(i.api_key_env for i in infos) else []
    echo = [_Offer(ECHO_MODEL, ECHO_MODEL, "repeats your words: no key, no network", is_kept=False)]
    most_likely = [*with_key, *local, *paste] if with_key else [*paste, *local]
    return [*most_likely, *(echo if ECHO in host.provider_names() else [])]


def _pasted(infos: list[swink.ProviderInfo]) -> str:
    named = [info.title or info.name for info in infos if info.key_prefixes]
    return f"of {', '.join(named[:3])} …" if named else "of a provider"


def _of_provider(catalog: Catalog, info: swink.ProviderInfo) -> _Offer | None:
    """Return the cheapest active model of a provider; models with tools are preferred."""
    models = _active(catalog, info.name)
    able = [model for model in models if "tools" in (model.capabilities or ())] or models
    priced = [model for model in able if _output_price(model) is not None]
    if not able:
        return None
    model = min(priced, key=_price_key) if priced else able[0]
    name = f"{info.name}/{model.id}"
    price = _price_key(model) if priced else (inf, inf)
    return _Offer(name, name, f"{_price(model)}{describe(info)}", price=price)


def _active(catalog: Catalog, name: str) -> list[swink.ModelInfo]:
    return [
        model
        for model in catalog.models(name)
        if model.status == "active" and not is_retired(catalog, model)
    ]


def _output_price(model: swink.ModelInfo) -> float | None:
    return model.prices.output if model.prices and model.prices.input is not None else None


def _price_key(model: swink.ModelInfo) -> tuple[float, float]:
    prices = model.prices
    assert prices is not None
    return (prices.output or 0.0, prices.input or 0.0)


def _price(model: swink.ModelInfo) -> str:
    if _output_price(model) is None or model.prices is None:
        return ""
    return f"${model.prices.input:g} in, ${model.prices.output:g} out per million tokens; "


async def _running(host: swink.Host, servers: list[str]) -> list[swink.ModelInfo]:
    """Return one model of each local server that answers in time."""
    http = AiohttpClient()
    try:
        found = await asyncio.gather(*(_first(host, name, http) for name in servers))
    finally:
        await http.aclose()
    return [model for model in found if model is not None]


async def _first(host: swink.Host, name: str, http: HTTPClient) -> swink.ModelInfo | None:
    kept = kept_options([name]).get(name, {})
    options = swink.StreamOptions(api_key=kept.get("api_key"), base_url=kept.get("base_url"))
    try:
        listing = host.bind(name).provider.list_models(options, http)
        models: list[swink.ModelInfo] = await asyncio.wait_for(listing, PATIENCE)
    except (swink.SwinkError, swink.ProviderFailure, TimeoutError):
        return None
    return models[0] if models else None
