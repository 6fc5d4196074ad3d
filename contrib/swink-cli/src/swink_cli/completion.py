"""Shell completion of providers and models, from catalogues alone; a fault completes nothing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import click
from click.shell_completion import CompletionItem

__all__ = ["complete_model", "complete_provider", "model_names"]


def complete_provider(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offer the installed providers."""
    return _quietly(lambda: _providers(incomplete, ""))


def complete_model(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offer short names and `provider/`, and the models of a provider that is certain."""
    return [*_quietly(lambda: _aliases(incomplete)), *_quietly(lambda: _models(incomplete))]


def model_names(start: str) -> list[str]:
    """List what the beginning of a model's name may become."""
    return [item.value for item in _quietly(lambda: _models(start))]


def _providers(start: str, end: str) -> list[CompletionItem]:
    from swink_core import Host
    from swink_core.providers import Catalog

    host = Host()
    catalog = Catalog(host)
    return [
        CompletionItem(name + end, help=getattr(catalog.provider(name), "title", None))
        for name in host.provider_names()
        if name.startswith(start)
    ]


def _aliases(start: str) -> list[CompletionItem]:
    from swink_cli.settings import read_settings

    known = read_settings().aliases.items()
    return [CompletionItem(a, help=" ".join(m)) for a, m in known if a.startswith(start)]


def _models(start: str) -> list[CompletionItem]:
    from swink_core import Host
    from swink_core.providers import Catalog

    provider, slash, _ = start.partition("/")
    if not slash:
        providers = _providers(start, "/")
        if not providers:
            return _bare_names(start)
        if len(providers) != 1:
            return providers
        # a shell adds a space to the only choice; several models keep it at `provider/`
        provider, start = providers[0].value[:-1], providers[0].value
    known = [f"{provider}/{info.id}" for info in Catalog(Host()).models(provider)]
    names = [name for name in known if name.startswith(start)]
    return [CompletionItem(name) for name in names or ([] if slash else [start])]


def _bare_names(start: str) -> list[CompletionItem]:
    from swink_core import Host, SwinkError
    from swink_core.providers import Catalog

    host = Host()
    catalog = Catalog(host)
    owners: dict[str, str] = {}
    for name in host.provider_names():
        with suppress(SwinkError):  # one broken catalogue is no reason to hide the others
            owners |= {info.id: name for info in catalog.models(name) if info.id.startswith(start)}
    return [CompletionItem(id, help=name) for id, name in owners.items()]


def _quietly(offer: Callable[[], list[CompletionItem]]) -> list[CompletionItem]:
    """Complete nothing on a broken catalogue: no traceback between a person's keystrokes."""
    try:
        return offer()
    except Exception:
        return []
