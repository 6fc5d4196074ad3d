"""Complete models, aliases, tools, servers and files in a shell, without network requests.

On an error, completion offers nothing: a traceback must not appear while someone types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import click
from click.shell_completion import CompletionItem

from swink_cli.extensions import installed_tools

__all__ = [
    "complete_alias", "complete_file", "complete_model", "complete_provider", "complete_server",
    "complete_tool", "model_names",
]  # fmt: skip


def complete_provider(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete installed providers."""
    return _quietly(lambda: _providers(incomplete, ""))


def complete_model(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete aliases and provider names; after `provider/`, complete the provider's models."""
    return [*_quietly(lambda: _aliases(incomplete)), *_quietly(lambda: _models(incomplete))]


def complete_alias(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete aliases of models."""
    return _quietly(lambda: _aliases(incomplete))


def complete_file(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Let the shell complete files."""
    return [CompletionItem(incomplete, type="file")]


def complete_tool(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete tools of plugins; any other text is completed as a file."""
    named = offered(incomplete, installed_tools)
    return named or complete_file(ctx, parameter, incomplete)


def complete_server(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete configured MCP servers."""
    from swink_cli.settings import read_settings

    return offered(incomplete, lambda: read_settings().mcp)


def model_names(start: str) -> list[str]:
    """Return the completions of a partial model name."""
    return [item.value for item in _quietly(lambda: _models(start))]


def offered(start: str, names: Callable[[], Iterable[str]]) -> list[CompletionItem]:
    """Complete the names that a function returns."""
    return _quietly(lambda: [CompletionItem(name) for name in names() if name.startswith(start)])


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
            from swink_cli.clients import bare_names

            return [CompletionItem(id, help=name) for id, name in bare_names(start).items()]
        if len(providers) != 1:
            return providers
        # a shell adds a space after a single choice, so offer the provider's models instead of
        # `provider/`
        provider, start = providers[0].value[:-1], providers[0].value
    known = [f"{provider}/{info.id}" for info in Catalog(Host()).models(provider)]
    names = [name for name in known if name.startswith(start)]
    return [CompletionItem(name) for name in names or ([] if slash else [start])]


def _quietly(offer: Callable[[], list[CompletionItem]]) -> list[CompletionItem]:
    try:
        return offer()
    except Exception:
        return []
