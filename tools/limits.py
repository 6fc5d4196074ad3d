"""Limits and capabilities of models, as public tables tell them.

Two shapes are read: that of models.dev (https://models.dev/api.json), by provider and model, and
that of litellm (`model_prices_and_context_window_backup.json` in its package), by names that begin
with a provider's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.request import urlopen

Table = Mapping[str, Any]

NAMES = {
    "bedrock": ["amazon-bedrock"],
    "claude-code": ["anthropic"],
    "cloudflare": ["cloudflare-workers-ai"],
    "dashscope": ["alibaba"],
    "fireworks": ["fireworks-ai"],
    "gemini": ["google"],
    "moonshot": ["moonshotai"],
    "perplexity": ["perplexity-agent"],
    "together": ["togetherai"],
    "vertex": ["google-vertex", "google-vertex-anthropic"],
}
"""Names of providers in models.dev, if they differ."""

PREFIXES = {
    "anthropic": [""],
    "bedrock": ["", "bedrock/", "bedrock/us-east-1/"],
    "claude-code": [""],
    "cohere": ["", "cohere/"],
    "fireworks": ["fireworks_ai/"],
    "openai": [""],
    "together": ["together_ai/"],
    "vertex": ["vertex_ai/", "gemini-", "gemini/"],
}
"""How litellm begins its names of a provider's models, if not by `provider/`."""

FEATURES = {
    "supports_function_calling": "tools",
    "supports_vision": "images",
    "supports_pdf_input": "documents",
    "supports_audio_input": "audio",
    "supports_reasoning": "thinking",
    "supports_response_schema": "structured_output",
}
FLAGS = {"tool_call": "tools", "reasoning": "thinking", "structured_output": "structured_output"}
INPUTS = {"image": "images", "pdf": "documents", "audio": "audio"}
WORDS = ("tools", "images", "documents", "audio", "thinking", "structured_output", "json")


def tables_of(places: Iterable[str]) -> list[Table]:
    """Return the tables at each place, a file or a URL."""
    return [json.loads(_read(place)) for place in places]


def _read(place: str) -> bytes:
    if "://" not in place:
        return Path(place).read_bytes()
    with urlopen(place, timeout=60) as answer:
        return bytes(answer.read())


def limits_of(provider: str, model_id: str, tables: Iterable[Table]) -> dict[str, Any]:
    """Return the fields of a row that the tables tell.

    The limit of the first table that has one is used; a capability is present if any table has it,
    because a missing capability rejects a call before it is sent.
    """
    row: dict[str, Any] = {}
    words: set[str] = set()
    known = False
    for found, can in _entries(provider, model_id, tables):
        known = True
        words |= can
        for name, most in found.items():
            if most:
                row.setdefault(name, int(most))
    if known:
        row["capabilities"] = in_order(words)
    return row


def in_order(words: Iterable[str]) -> list[str]:
    """Return capabilities as rows have them."""
    return sorted(set(words), key=WORDS.index)


def _entries(
    provider: str, model_id: str, tables: Iterable[Table]
) -> Iterator[tuple[dict[str, Any], set[str]]]:
    for table in tables:
        for name in NAMES.get(provider, [provider]):
            of_provider = table.get(name, {}).get("models", {})
            # a router's id may end in who is to answer, a cloud's in a version
            ids = (model_id, f"{model_id}@default", model_id.rpartition(":")[0])
            if model := next(filter(None, map(of_provider.get, ids)), None):
                limit = model["limit"]
                found = {"context_window": limit["context"], "max_output": limit["output"]}
                can = {word for flag, word in FLAGS.items() if model.get(flag)}
                taken = model.get("modalities", {}).get("input", ())
                yield found, can | {word for kind, word in INPUTS.items() if kind in taken}
                break
        for prefix in PREFIXES.get(provider, [f"{provider}/"]):
            model = table.get(prefix + model_id, {})
            if "litellm_provider" in model:
                found = {
                    "context_window": model.get("max_input_tokens"),
                    "max_output": model.get("max_output_tokens"),
                }
                yield found, {word for flag, word in FEATURES.items() if model.get(flag)}
                break
