"""A page for each installed provider: quickstart, API key, models, options, and what is special.

The rows of the catalogue and the adapters' features are the source; nothing here names a provider.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import cache
from unittest.mock import patch

from empty_cells import reason_of
from provider_rows import NOTHING, Row, codes, credentials, rows
from reference_parts import MARK, code, joined, table

from swink_core import Model
from swink_core.providers import TUNING

CONTENT = ("images", "documents", "audio")
FEATURES = ("tools", "tool_choice", "structured_output", "json", "thinking", "stop")
OPTIONS = (*TUNING, "strict")

WORDS = {
    "audio": "audio",
    "documents": "documents (PDF and other files)",
    "images": "images (vision)",
    "json": "JSON mode",
    "stop": "stop sequences",
    "structured_output": "structured output (JSON Schema)",
    "thinking": "reasoning",
    "tool_choice": "`tool_choice`",
    "tools": "function calling (tools)",
}
"""The features in the words of the field."""

MOST_MODELS = 20
"""The maximum number of models that a page lists; `swink models NAME` lists all models."""


@cache
def found() -> dict[str, list[Row]]:
    """Return the rows of each provider by its name, independent of the environment variables."""
    with patch.dict(os.environ, clear=True):
        by_name: dict[str, list[Row]] = {}
        for row in rows():
            by_name.setdefault(row.name, []).append(row)
    return by_name


def overview() -> str:
    """Return the page that lists the providers."""
    lines = [
        (
            f"[{rows[0].info.title}]({name}.md)",
            code(name),
            f"`{rows[0].distribution}`",
            credentials(rows[0].info),
        )
        for name, rows in found().items()
    ]
    return joined(
        "# Providers and models",
        MARK,
        "A provider is a plugin for one service or local server. Install its package, set its\n"
        "API key, and name a model as `provider/model`. Each provider has a page with a\n"
        "quickstart, its API key, models, prices and options.",
        table(("provider", "name", "package", "API key"), lines),
        "`swink providers` lists the installed providers and whether their API keys are set.\n"
        "`swink models --tools --vision --under 1` finds models by feature and price.\n"
        "A table compares [the features of all providers](../reference/providers.md). For a\n"
        "service that is not listed, set `base_url` of a provider with the same API, or\n"
        "[write a provider](../tutorials/write-a-provider.md).",
    )


def page(name: str) -> str:
    """Return the page of a provider."""
    main, *others = found()[name]
    return joined(
        f"# {main.info.title}",
        MARK,
        *_quickstart(main, others),
        *_key(main),
        *_models(name),
        *_features(name),
        *_settings(main),
        *_special(name),
    )


def _example(rows: Iterable[Row]) -> str:
    models = [model for row in rows for model in row.models]
    active = [model for model in models if model.info and model.info.status == "active"]
    return str(active[0]) if active else ""


def _quickstart(main: Row, others: list[Row]) -> Iterator[str]:
    model = _example([main, *others]) or f"{main.name}/MODEL"
    yield (
        "You can stream answers of this provider in Python or on the command line. The\n"
        f"provider's name is `{main.name}`, and its package is `{main.distribution}`."
    )
    yield "## Quickstart"
    lines = [f"pip install swink swink-cli {main.distribution}"]
    if main.info.api_key_env and main.info.auth != "none":
        lines.append(f"swink keys set {main.name}")
    lines.append(f'swink ask -m {model} "Why is the sky blue?"')
    yield "\n".join(f"    {line}" for line in lines)
    yield (
        "```python\nimport swink\n\n"
        f'model = "{model}"\n'
        'with swink.SyncClient().stream(model, "Why is the sky blue?") as stream:\n'
        "    for piece in stream.text:\n"
        '        print(piece, end="", flush=True)\n```'
    )
    if model.endswith("/MODEL"):
        yield "Replace `MODEL` by the id of a model that the service or your server offers."


def _key(main: Row) -> Iterator[str]:
    info = main.info
    yield "## API key and base URL"
    lines = [("API key", credentials(info))]
    if info.portal:
        lines.append(("create a key", f"<{info.portal}>"))
    if info.required_env:
        lines.append(("also required", codes(info.required_env)))
    lines.append(("base URL", info.base_url or NOTHING))
    if info.base_url_env:
        lines.append(("change the base URL", f"`base_url=…`, or {codes(info.base_url_env)}"))
    if info.docs:
        lines.append(("API documentation", f"<{info.docs}>"))
    yield table(("setting", "value"), lines)
    if info.api_key_env:
        yield (
            "The option `api_key` takes precedence over the environment variables in the table.\n"
            "[API keys and proxies](../how-to/keys-and-proxies.md) explains all ways to set a key."
        )


def _models(name: str) -> Iterator[str]:
    models = [model for row in found()[name] for model in row.models]
    listed = [model for model in models if model.info and model.info.status == "active"]
    yield "## Models"
    if not listed:
        yield "The catalogue lists no models of this provider. Use any model id of the service."
        return
    yield table(
        ("model", "context window", "maximum output", "input price", "output price", "features"),
        (_model_line(model) for model in listed[:MOST_MODELS]),
    )
    yield (
        "The context window and the maximum output are in tokens, and prices in US dollars per\n"
        f"million tokens. `swink models {name}` lists the catalogue's models of this provider\n"
        f"({len(models)}). You can also use models that are not listed."
    )


def _model_line(model: Model) -> tuple[str, ...]:
    info = model.info
    assert info is not None
    prices = info.prices
    return (
        code(info.id),
        _number(info.context_window),
        _number(info.max_output),
        _price(prices.input if prices else None),
        _price(prices.output if prices else None),
        ", ".join(sorted(info.capabilities or ())) or NOTHING,
    )


def _number(value: int | None) -> str:
    return NOTHING if value is None else f"{value:,}"


def _price(value: object) -> str:
    return NOTHING if value is None else f"${value}"


def _features(name: str) -> Iterator[str]:
    yield "## Features and options"
    takes = set[str]().union(*(row.takes for row in found()[name]))
    names = (*FEATURES, *CONTENT)
    yield "Supported: " + ", ".join(WORDS[each] for each in names if each in takes) + "."
    if missing := [WORDS[each] for each in names if each not in takes]:
        yield (
            f"Not supported: {', '.join(missing)}.\n"
            "A call that needs one of these features fails with the kind `unsupported` before it\n"
            "is sent."
        )
    tuned = [each for each in OPTIONS if each in takes]
    yield f"Supported [options](../reference/options.md) for sampling and limits: {codes(tuned)}."
    yield f"`swink providers {name}` shows which models support which option."


def _settings(main: Row) -> Iterator[str]:
    if not main.info.settings:
        return
    yield "## Settings"
    if "*" in main.info.settings:
        yield "The option [`settings`](../reference/extra-and-settings.md) can contain any key."
        return
    yield (
        "Pass these settings in the option [`settings`](../reference/extra-and-settings.md), for\n"
        f'example `settings={{"{next(iter(main.info.settings))}": …}}`.'
    )
    yield table(
        ("setting", "values"),
        (
            (code(each), kind if isinstance(kind, str) else codes(kind))
            for each, kind in main.info.settings.items()
        ),
    )


def _special(name: str) -> Iterator[str]:
    main, *others = found()[name]
    notes = [f"The wire format (the format of requests and answers) is `{main.wire}`."]
    if main.wire == "none":
        notes = ["The provider sends no requests and therefore has no wire format."]
    notes += [f"Some models use the wire format `{row.wire}`." for row in others if row.models]
    if getattr(main.provider, "speaks_http", False):
        if main.api.buffered:
            notes.append('`transport="buffered"` requests a complete answer without streaming.')
        if any(row.api.websocket for row in (main, *others)):
            notes.append('`transport="websocket"` streams over a WebSocket.')
    takes = set[str]().union(*(row.takes for row in found()[name]))
    reasons: dict[str, list[str]] = {}
    for feature in (*CONTENT, *(each for each in FEATURES if each != "thinking")):
        if feature not in takes and "providers" in (why := reason_of(feature, name)):
            reasons.setdefault(why["why"], []).append(WORDS[feature])
    notes += [
        f"Not supported: {', '.join(words)}. Reason: {why}." for why, words in reasons.items()
    ]
    yield "## What is special"
    yield "\n".join(f"* {note}" for note in notes)


def pages() -> dict[str, str]:
    """Return the text of every page, by its file's name."""
    return {"index.md": overview(), **{f"{name}.md": page(name) for name in found()}}
