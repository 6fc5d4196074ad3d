"""Checks of a provider's package: its imports and the data in `models.toml`."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from swink_core import ModelInfo
from swink_testing.conformance.check import DoesNotApply, require
from swink_testing.conformance.subject import NO_WIRE_FORMAT, Subject

__all__ = [
    "check_catalogue",
    "check_imports_are_light",
    "check_provider_info",
]

HEAVY = (
    "aiohttp", "anthropic", "azure", "boto3", "botocore", "cerebras", "cohere", "fireworks",
    "google.auth", "google.genai", "google.generativeai", "groq", "httpx", "huggingface_hub",
    "litellm", "llama_cpp", "mistralai", "numpy", "ollama", "openai", "pandas", "pydantic",
    "requests", "tiktoken", "together", "torch", "transformers", "urllib3", "vertexai",
    "websockets", "xai_sdk", "xllamacpp",
)  # fmt: skip
"""Modules that are slow or large to import. A plugin imports one only when a call needs it."""

CAPABILITIES = frozenset(
    {"tools", "images", "documents", "audio", "thinking", "json", "structured_output"}
)

SANE_CONTEXT = range(256, 100_000_001)
"""Plausible sizes of a context window, in tokens. The largest known one has ten million."""

DEAREST = 10_000.0
"""The highest plausible price in US dollars per million tokens.

A higher price is probably given in a wrong unit.
"""

_EARLIEST = datetime.date(2020, 1, 1)
IMPORT_SECONDS = 60

_IMPORT = """
import importlib, json, sys
sys.path[:0] = json.loads(sys.argv[2])
importlib.import_module(sys.argv[1])
print(json.dumps(sorted(sys.modules)))
"""


def check_imports_are_light(subject: Subject) -> None:
    """Importing the plugin imports neither aiohttp nor a vendor's SDK."""
    _ = subject.provider  # it must be importable at all
    module = subject.entry.value.partition(":")[0]
    loaded = _imported_with(module, tuple(path for path in sys.path if path))
    heavy = [name for name in (*HEAVY, *subject.heavy) if name in loaded]
    require(not heavy, f"importing {module} imports {', '.join(heavy)}")


@cache
def _imported_with(module: str, path: tuple[str, ...]) -> frozenset[str]:
    """Return the modules that are imported together with a module.

    The result is cached, because several providers can be in one module.
    """
    done = subprocess.run(
        [sys.executable, "-c", _IMPORT, module, json.dumps(path)],
        capture_output=True,
        text=True,
        timeout=IMPORT_SECONDS,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    require(done.returncode == 0, f"{module} cannot be imported by itself: {done.stderr[-400:]}")
    return frozenset(json.loads(done.stdout.splitlines()[-1]))


def check_provider_info(subject: Subject) -> None:
    """`models.toml` contains the data that the core needs before it imports the provider."""
    _ = subject.provider  # a plugin that cannot be loaded may have no data
    info = subject.info
    if info is None:
        raise AssertionError(f'models.toml has no provider "{subject.name}"')
    require(
        info.wire_format, 'models.toml states no wire_format ("none" for providers without one)'
    )
    if info.auth == "key":
        require(info.api_key_env, 'auth is "key", and no api_key_env names a variable for it')
    if subject.speaks_http:
        require(
            info.base_url or info.base_url_env,
            "models.toml states neither base_url nor base_url_env",
        )
    if info.base_url is not None:
        url = urlsplit(info.base_url)
        is_safe = url.scheme == "https" or url.hostname in ("localhost", "127.0.0.1", "::1")
        require(url.scheme in ("http", "https"), f"base_url is not a valid URL: {info.base_url}")
        require(is_safe, f"base_url has http, which shows keys and prompts: {info.base_url}")
    require(
        not (info.wire_format == NO_WIRE_FORMAT and subject.speaks_http),
        'it speaks HTTP, and its wire_format is "none"',
    )


def check_catalogue(subject: Subject) -> None:
    """Models in the catalogue have plausible limits, prices and dates; rules have dates."""
    _ = subject.provider
    file = subject.entry.catalog()
    undated = [
        rule.name or f"number {number}"
        for number, rule in enumerate(file.own_rules, 1)
        if not rule.as_of
    ]
    require(
        not undated or file.rules_as_of is not None,
        f"of the [[rules]] in models.toml, these have no date on which they were checked: "
        f"{', '.join(undated[:3])}; write as_of in them, or rules_as_of at the top of the file",
    )
    models = subject.catalog.models(subject.name)
    if not models:
        raise DoesNotApply("models.toml lists no models")
    for info in models:
        _require_limits(info)
        _require_prices(info)
        unknown = sorted((info.capabilities or frozenset()) - CAPABILITIES)
        require(
            not unknown,
            f"{info.id} has unknown capabilities: {', '.join(unknown)}; "
            f"known are {', '.join(sorted(CAPABILITIES))}",
        )


def _require_limits(info: ModelInfo) -> None:
    window, most = info.context_window, info.max_output
    require(
        window is None or window in SANE_CONTEXT,
        f"{info.id} has a context window of {window} tokens",
    )
    require(
        most is None or 0 < most <= (window or SANE_CONTEXT.stop),
        f"{info.id} answers with up to {most} tokens, its context window holds {window}",
    )


def _require_prices(info: ModelInfo) -> None:
    prices = info.prices
    figures: dict[str, Any] = {}
    if prices is not None:
        figures = {
            "input": prices.input,
            "output": prices.output,
            "cache reads": prices.cache_read,
            "cache writes": prices.cache_write,
        }
    for name, price in figures.items():
        require(
            price is None or 0 <= price <= DEAREST,
            f"a million tokens of {name} of {info.id} cost ${price}",
        )
    require(
        not any(figures.values()) or info.as_of is not None,
        f"{info.id} has prices without as_of, the date of the figures",
    )
    if info.as_of is not None:
        tomorrow = datetime.date.today() + datetime.timedelta(days=1)
        try:
            day = datetime.date.fromisoformat(info.as_of)
        except ValueError:
            day = None
        require(
            day is not None and _EARLIEST <= day <= tomorrow,
            f"as_of of {info.id} is {info.as_of!r}, not a date (YYYY-MM-DD) up to today",
        )
