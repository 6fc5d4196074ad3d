"""`swink models`: list the models of installed catalogues."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Callable, Sequence
from datetime import date
from typing import Any

import click

from swink_cli.clients import kept_options
from swink_cli.completion import complete_provider
from swink_cli.listing import (
    CAPABILITIES,
    installed_providers,
    is_retired,
    print_json,
    print_lines,
    print_paged,
)
from swink_cli.terminal import is_terminal, say, table
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
"""The age in days after which catalogue figures are marked as stale."""

PATIENCE = 10.0
"""How many seconds a server may take to list its models."""

HEADINGS = ("CONTEXT", "OUTPUT", "$ IN", "$ OUT", "AS OF", "FEATURES")


@click.command("models")
@click.argument("provider", required=False, shell_complete=complete_provider)
@click.option(
    "-q",
    "--query",
    "words",
    multiple=True,
    metavar="TEXT",
    help="Only models with TEXT in their name or features; repeat it to require several.",
)
@click.option("--vision", is_flag=True, help="Only models with vision; cheapest first.")
@click.option(
    "--tools", is_flag=True, help="Only models with function calling (tools); cheapest first."
)
@click.option(
    "--under",
    type=click.FloatRange(min=0),
    metavar="USD",
    help="Only models whose output costs at most USD per million tokens; cheapest first.",
)
@click.option(
    "--sort",
    type=click.Choice(["catalog", "price", "name"]),
    help="Sort by catalogue order, output price, or name.",
)
@click.option("--all", "unfolded", is_flag=True, help="List all models, even if the list is long.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    provider: str | None,
    words: Sequence[str],
    vision: bool,
    tools: bool,
    under: float | None,
    sort: str | None,
    unfolded: bool,
    as_json: bool,
) -> None:
    """List known models: token limits, prices in US dollars per million tokens, features.

    A provider may serve more models than its catalogue lists, and you can use those too. If
    PROVIDER is a local server, its own models are also listed. A name that is not a provider is
    used as a search term, as with -q. On a terminal, a long list is summarised in one line per
    provider; --all lists every model, through your pager (PAGER).

    \b
      swink models anthropic
      swink models --vision --tools --under 1
    """
    host = Host()
    catalog = Catalog(host)
    if provider is not None and provider not in host.provider_names():
        if not _found(provider, host, catalog):
            host.entry(provider)  # raises with a similar name as advice
        words = (provider, *words)
        provider = None
    if provider is None:
        found = installed_providers(host, catalog)
        names = [one.name for one in found if one.error is None]
        for one in found:
            if one.error:
                say(f"notice: {one.name} is skipped: {one.error}")
    else:
        names = [provider]
    needed = {"images"} if vision else set()
    needed |= {"tools"} if tools else set()
    filtered = bool(needed) or under is not None
    quiet = bool(words) or filtered
    models = [
        info
        for name in names
        if name == provider or not (filtered and _is_stand_in(catalog, name))
        for info in _models(host, catalog, name, name == provider, quiet)
        if all(_has(info, word) for word in words)
        and needed <= (info.capabilities or frozenset())
        and (under is None or _costs(info) <= under)
        and not (filtered and is_retired(catalog, info))
    ]
    sort = sort or ("price" if filtered else "catalog")
    if sort != "catalog":
        models.sort(key=_by_price if sort == "price" else _by_name)
    if as_json:
        print_json(map(_data, models))
        return
    if not models:
        print_lines([_none(provider, words, filtered)])
        return
    columns, lines = shutil.get_terminal_size()
    width = columns if is_terminal(sys.stdout) else None
    listed = [name for name in names if any(info.provider == name for info in models)]
    if sort != "catalog":
        print_paged(_table(models, "MODEL", width, in_full=True))
    elif width and not unfolded and len(listed) > 1 and len(models) + 2 * len(listed) >= lines:
        print_paged(_folded(listed, models, catalog))
        say(
            "swink models NAME lists the models of a provider, --all lists all; --vision, "
            "--tools, --under USD filter"
        )
    else:
        shown: list[str] = []
        for name in listed:
            own = [info for info in models if info.provider == name]
            shown += [*([""] if shown else []), *_table(own, name, width)]
        print_paged(shown)
    if any(is_stale(info) for info in models):
        say(f"* older than {STALE_AFTER} days: prices and limits may have changed")


def _is_stand_in(catalog: Catalog, name: str) -> bool:
    """Return whether a provider is a mock, such as echo, which filtered lists omit."""
    info = catalog.provider(name)
    return info is not None and info.wire_format == "none"


def _none(provider: str | None, words: Sequence[str], filtered: bool) -> str:
    if filtered:
        return "No listed model matches all filters."
    if words:
        return f"No listed model matches {' and '.join(map(repr, words))}."
    return f"No models are listed for {provider or 'any provider'}; you can use any model name."


def _costs(info: ModelInfo) -> float:
    """Return US dollars per million output tokens (infinite if unknown)."""
    price = info.prices.output if info.prices else None
    return float("inf") if price is None else price


def _by_price(info: ModelInfo) -> tuple[float, float, str]:
    price = info.prices.input if info.prices else None
    return _costs(info), float("inf") if price is None else price, _by_name(info)


def _by_name(info: ModelInfo) -> str:
    return f"{info.provider}/{info.id}"


def _has(info: ModelInfo, word: str) -> bool:
    """Return whether a model's name or features contain a word, ignoring case."""
    said = [f"{info.provider}/{info.id}", info.name or "", *(info.capabilities or ())]
    return any(word.casefold() in text.casefold() for text in said)


def _found(word: str, host: Host, catalog: Catalog) -> bool:
    """Return whether any provider lists a model whose name or features contain the word."""
    sound = (one.name for one in installed_providers(host, catalog) if one.error is None)
    return any(_has(info, word) for name in sound for info in catalog.models(name))


def _models(
    host: Host, catalog: Catalog, name: str, asked_for: bool, quiet: bool
) -> list[ModelInfo]:
    """List a provider's models; if the user named the provider, include the models on its server.

    The catalogue field `lists_models` states whether the server can list its models. If the user
    named no provider, no plugin is imported and no request is sent.
    """
    known = {info.id: info for info in catalog.models(name)}
    info = catalog.provider(name)
    if info is not None and info.dialect.get("lists_models"):
        if not asked_for:
            if not quiet:
                say(f"swink models {name} lists the models of its server")
            return list(known.values())
        try:
            served = asyncio.run(_served(host.bind(name).provider))
            known |= {model.id: model for model in served}
        except (SwinkError, ProviderFailure, TimeoutError) as error:
            say(f"notice: the server of {name} did not list its models: {error}")
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
    """Return whether a model's prices and limits in the catalogue are too old to rely on."""
    if info.as_of is None:
        return False
    try:
        age = (today or date.today()) - date.fromisoformat(info.as_of)
    except ValueError:
        return True  # the age is unknown without a valid date
    return age.days > STALE_AFTER


SHAPES = (
    (HEADINGS, 30),
    (("CONTEXT", "OUTPUT", "$ IN", "$ OUT", "FEATURES"), 30),
    (("CONTEXT", "$ IN", "$ OUT", "FEATURES"), 12),
    (("CONTEXT", "$ IN", "$ OUT"), 0),
    (("$ IN", "$ OUT"), 0),
    (("$ OUT",), 0),
)
"""The columns beside the name, for decreasing terminal widths.

Each row also contains the minimum width of the column FEATURES.
"""


def _table(
    models: Sequence[ModelInfo], first: str, width: int | None, *, in_full: bool = False
) -> list[str]:
    """Format one line per model, at most `width` columns wide (`None`: unlimited).

    `first` is the heading of the name column; `in_full` includes the provider in names.
    """
    rows = [_row(info, in_full) for info in models]
    if width is None:
        return table(rows, (first, *HEADINGS))
    whole = [dict(zip((first, *HEADINGS), row, strict=True)) for row in rows]
    for columns, least in SHAPES:
        shown = [first, *columns]
        longest = [max(map(len, [name, *(row[name] for row in whole)])) for name in shown]
        has_features = shown[-1] == "FEATURES"
        others = longest[:-1] if has_features else longest
        room = width - sum(others) - 2 * (len(shown) - 1)
        if room >= least:
            break
    if has_features:
        for row, info in zip(whole, models, strict=True):
            row["FEATURES"] = _clipped(info, room)
    return table([tuple(row[name] for name in shown) for row in whole], shown)


def _clipped(info: ModelInfo, room: int) -> str:
    """Return the most common features that fit into `room` columns, and an ellipsis for others."""
    words = _features(info, lambda word: CAPABILITIES.index(word) if word in CAPABILITIES else 99)
    while len(" ".join(words)) > room and len(words) > 1:
        words = [*words[: -2 if words[-1] == "…" else -1], "…"]
    return " ".join(words)


def _features(info: ModelInfo, order: Callable[[str], Any]) -> list[str]:
    words = sorted(info.capabilities or (), key=order)
    return ([f"[{info.status}]"] if info.status != "active" else []) + words or ["-"]


def _folded(names: Sequence[str], models: Sequence[ModelInfo], catalog: Catalog) -> list[str]:
    """Format one line per provider: number of models, and the price range of active ones."""
    rows = []
    for name in sorted(names):
        own = [info for info in models if info.provider == name]
        live = [i for i in own if i.status == "active" and not is_retired(catalog, i)]
        prices = sorted({_costs(info) for info in live} - {float("inf")})
        span = "–".join(f"{price:g}" for price in {prices[0]: 0, prices[-1]: 0}) if prices else "-"
        cheapest = min(live, key=_by_price).id if prices else "-"
        rows.append((name, str(len(own)), span, cheapest))
    return table(rows, ("PROVIDER", "MODELS", "$ OUT", "CHEAPEST"))


def _row(info: ModelInfo, in_full: bool) -> tuple[str, ...]:
    prices = info.prices
    return (
        _by_name(info) if in_full else info.id,
        _short(info.context_window),
        _short(info.max_output),
        _price(prices.input if prices else None),
        _price(prices.output if prices else None),
        (info.as_of or "-") + ("*" if is_stale(info) else ""),
        " ".join(_features(info, str)),
    )


def _short(count: int | None) -> str:
    """Format 200000 as 200k; a number that is not round is truncated: 131072 is 131k."""
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
