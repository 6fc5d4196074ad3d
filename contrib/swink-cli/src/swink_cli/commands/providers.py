"""`swink providers`: list installed providers without importing them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import click

from swink_cli.completion import complete_provider
from swink_cli.keys import describe, is_ready
from swink_cli.listing import (
    CAPABILITIES,
    Installed,
    installed_providers,
    no_provider,
    print_json,
    print_lines,
    print_paged,
)
from swink_cli.terminal import table
from swink_core import (
    AudioBlock,
    Base64Source,
    Context,
    DocumentBlock,
    Host,
    ImageBlock,
    Model,
    StreamOptions,
    SwinkError,
    Tool,
    UserMessage,
)
from swink_core.providers import OPTIONS, TUNING, Catalog, HTTPProvider, rule_of

__all__ = ["command"]


@click.command("providers")
@click.argument("name", required=False, shell_complete=complete_provider)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(name: str | None, as_json: bool) -> None:
    """List installed providers: name, title, wire format, and the variables they read.

    With a NAME, show the variables, address and settings of that provider, and the options and
    content that it accepts (for each model, if its models differ). Without a NAME, no plugin is
    imported, so the list includes broken plugins.
    """
    host = Host()
    if name is not None:
        host.entry(name)  # raises for an unknown one
    found = installed_providers(host, Catalog(host))
    found = [one for one in found if name in (None, one.name)]
    if as_json:
        print_json(map(_data, found))
    elif not found:
        print_lines([no_provider(host)])
    elif name is not None:
        print_paged(table(_facts(found[0], host)))
    else:
        print_lines(table(_rows(found)))


def _rows(found: list[Installed]) -> list[tuple[str, ...] | str]:
    rows: list[tuple[str, ...] | str] = []
    for one in found:
        title = f"{one.distribution} {one.version}"
        if title not in rows:
            rows.append(title)
        info = one.info
        state = f"broken: {one.error}" if one.error else describe(info)
        rows.append((one.name, info.title, info.wire_format or "-", state))
    return rows


def _facts(one: Installed, host: Host) -> list[tuple[str, ...] | str]:
    """Return table rows that describe one provider, with data from its catalogue and code."""
    info = one.info
    named = {
        "state": f"broken: {one.error}" if one.error else describe(info),
        "key": _listed(info.api_key_env),
        "create a key at": info.portal,
        "needs": _listed(info.required_env),
        "address": info.base_url,
        "another address": _listed(info.base_url_env),
        "wire format": info.wire_format,
        "documentation": info.docs,
        "package": f"{one.distribution} {one.version}",
    }
    rows: list[tuple[str, ...] | str] = [f"{info.title or one.name} ({one.name})"]
    rows += [(name, value) for name, value in named.items() if value]
    if one.error is None:
        try:
            rows += _takes(host, one.name)
        except SwinkError as error:  # its plugin cannot be loaded
            rows += ["What it takes", ("unknown", error.message)]
    if info.settings:
        rows.append("Settings (-o settings.NAME=VALUE)")
        rows += [(name, _word(kind)) for name, kind in info.settings.items()]
    return rows


def _listed(names: Sequence[str]) -> str:
    """List variables, and mark those that are set."""
    return " or ".join(f"{name} (set)" if os.environ.get(name) else name for name in names)


def _word(kind: object) -> str:
    return " or ".join(kind) if isinstance(kind, list | tuple) else str(kind)


PNG = Base64Source("image/png", "iVBORw0KGgo=")
PDF = Base64Source("application/pdf", "JVBERi0xLjQ=")
WAV = Base64Source("audio/wav", "UklGRiQAAABXQVZF")
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
TOOL = Tool("look", "Look.", SCHEMA)

CONTENT: Mapping[str, tuple[Context, dict[str, Any]]] = {
    "images": (Context([UserMessage([ImageBlock(PNG)])]), {}),
    "documents": (Context([UserMessage([DocumentBlock(PDF)])]), {}),
    "audio": (Context([UserMessage([AudioBlock(WAV)])]), {}),
    "tools": (Context([UserMessage("Hi")], tools=[TOOL]), {}),
    "tool_choice": (Context([UserMessage("Hi")], tools=[TOOL]), {"tool_choice": "required"}),
    "strict": (
        Context([UserMessage("Hi")], tools=[Tool("look", "Look.", SCHEMA, strict=True)]),
        {},
    ),
    "structured_output": (Context([UserMessage("Hi")]), {"response_format": SCHEMA}),
    "json": (Context([UserMessage("Hi")]), {"response_format": "json"}),
    "stop": (Context([UserMessage("Hi")]), {"stop": ["END"]}),
}
"""Features that a call may use, each with an example call."""

PLAIN = Context([UserMessage("Hi")])


def _takes(host: Host, name: str) -> list[tuple[str, ...] | str]:
    """List the options and content that the models of a provider accept.

    For each listed model, one sample call per option and content type is validated, but not sent.
    """
    catalog = Catalog(host)
    provider: Any = host.bind(name).provider
    models = [catalog.resolve(Model(name, info.id)) for info in catalog.models(name)]
    models = models or [Model(name, "MODEL", rules=catalog.rules(name, "MODEL"))]
    calls = {word: (PLAIN, {word: OPTIONS[word].example}) for word in TUNING}
    calls["parallel_tool_calls"] = (CONTENT["tools"][0], {"parallel_tool_calls": False})

    def taken(word: str, call: tuple[Context, dict[str, Any]]) -> str:
        """Name the models that accept an option or feature; the text is empty if no model does."""
        values: dict[str, str] = {}
        for model in models:
            how = _fits(provider, model, word, *call)
            if how is not None:
                values[model.id] = how
        return _grouped(values, [model.id for model in models])

    count = len(models)
    whose = f"of {count} listed models" if count > 1 else "of the listed model"
    rows: list[tuple[str, ...] | str] = []
    for title, asked, others in (
        (f"Options {whose}", calls, "ignored, with a notice"),
        ("Content, and features that a call may need", CONTENT, "rejected before the request"),
    ):
        found = {word: taken(word, call) for word, call in asked.items()}
        rows.append(title)
        rows += [(word, who) for word, who in found.items() if who]
        missing = [word for word, who in found.items() if not who]
        rows += [(others, ", ".join(missing))] if missing else []
    return rows


def _fits(
    provider: Any, model: Model, word: str, context: Context, options: dict[str, Any]
) -> str | None:
    """Check whether a model supports the option or feature `word` of a sample call.

    The result is `None` for no support, a text such as `only low, high` for restricted support, and
    an empty text for full support.
    """
    if not isinstance(provider, HTTPProvider):
        lacks = word in CAPABILITIES and model.lacks(word)
        return "" if word in {*provider.features, *provider.knobs} and not lacks else None
    asked = StreamOptions(**options)
    rule = rule_of(model, provider.api(model, asked))
    fitted = provider.fit(model, context, asked)
    plain = {notice.detail for notice in provider.fit(model, PLAIN, StreamOptions()).notices}
    new = [notice for notice in fitted.notices if notice.detail not in plain]
    is_left_out = bool(new) and all(notice.code == "option_ignored" for notice in new)
    if fitted.failure is not None or is_left_out:
        said = rule.takes.get(word, False)
        return f"only {_word([*map(str, said)])}" if isinstance(said, tuple) else None
    return _thinking(rule.efforts, rule.budget) if word == "thinking" else ""


def _thinking(efforts: Mapping[Any, str], budget: tuple[int, int] | None) -> str:
    """Format the levels and token budgets of reasoning."""
    levels = ", ".join(str(getattr(level, "value", level)) for level in efforts)
    tokens = f"{budget[0]} to {budget[1]} tokens" if budget else ""
    return " or ".join(filter(None, (levels, tokens)))


def _grouped(values: Mapping[str, str], ids: Sequence[str]) -> str:
    """Describe which of the models `ids` accept an option.

    Models with the same value in `values` form a group.
    """
    groups: dict[str, list[str]] = {}
    for id, how in values.items():
        groups.setdefault(how, []).append(id)
    by_size = sorted(groups.items(), key=lambda group: len(group[1]))
    parts = [(how, ", ".join(some)) for how, some in by_size]
    missing = [id for id in ids if id not in values]
    if parts and len(missing) < len(by_size[-1][1]):
        others = f"all but {', '.join(missing)}" if missing else "all"
        parts[-1] = (by_size[-1][0], others if len(parts) == 1 else "the others")
        if missing and len(parts) > 1:
            parts.append(("not at all", ", ".join(missing)))
    return "; ".join(f"{how}: {who}" if how else who for how, who in parts)


def _data(one: Installed) -> dict[str, object]:
    info = one.info
    return {
        "name": one.name,
        "title": info.title,
        "wire_format": info.wire_format,
        "version": one.version,
        "distribution": one.distribution,
        "base_url": info.base_url,
        "api_key_env": list(info.api_key_env),
        "base_url_env": list(info.base_url_env),
        "required_env": list(info.required_env),
        "auth": info.auth,
        "settings": dict(info.settings),
        "ready": one.error is None and is_ready(info),
        "docs": info.docs,
        "portal": info.portal,
        "error": one.error,
    }
