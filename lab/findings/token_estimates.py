"""Compare the estimated tokens of recorded prompts with the usage that the providers reported.

    python -m lab.findings.token_estimates FOLDER…

The folders hold cassettes of any form that `lab.reality` reads. Prompts with media or hosted
tools are left out.
"""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from lab.reality.addresses import asked
from lab.reality.cassettes import exchanges_in
from swink_core.vocabulary.tokens import (
    MESSAGE,
    PREFIX,
    TOOL,
    TOOLS,
    Estimate,
    data_tokens,
    text_tokens,
)

_PROMPT = re.compile(rb'"(?:prompt_tokens|input_tokens|promptTokenCount|inputTokens)":\s*(\d+)')
_CACHED = re.compile(rb'"cache_(?:read|creation)_input_tokens":\s*(\d+)')
_TEXTS = ("messages", "input", "system", "instructions", "contents", "systemInstruction")
_MEDIA = ("image", "file", "audio", "document", "inlineData", "inline_data", "media", "video")
_HIDDEN = ("previous_response_id", "conversation", "web_search", "code_", "googleSearch", "mcp")
"""Fields with which a provider adds text to a prompt that the request does not have."""

_SCHEMAS = ("response_format", "text", "output_config", "output_format", "generationConfig")


def texts_in(value: Any) -> Iterator[str]:
    """Yield each text of JSON data that a model reads."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from texts_in(each)
    elif isinstance(value, dict):
        for name, each in value.items():
            if name not in ("role", "type", "id", "call_id", "tool_call_id", "signature"):
                yield from texts_in(each)


def estimate_of(body: dict[str, Any]) -> tuple[Estimate, str]:
    """Return the estimate of a request body, and the class of the prompt."""
    found = [body[name] for name in _TEXTS if name in body]
    texts = [text for each in found for text in texts_in(each)]
    messages = sum(len(each) if isinstance(each, list) else 1 for each in found)
    parts = [text_tokens(text) for text in texts]
    parts += [PREFIX, *([MESSAGE] * messages)]
    if tools := body.get("tools"):
        parts += [data_tokens(tools), *([TOOL] * len(tools)), TOOLS]
    parts += (data_tokens(body[name]) for name in _SCHEMAS if name in body)
    joined = "".join(texts)
    is_plain = joined.isascii()
    kind = "tools" if body.get("tools") else "Latin" if is_plain else "other scripts in it"
    return Estimate().plus(*parts).rounded(), kind


def main() -> None:
    """Print, for each class, the median ratio and how often the bound was passed."""
    ratios: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for folder in sys.argv[1:]:
        for exchange in exchanges_in(Path(folder)):
            if asked(exchange) is None or exchange.status != 200:
                continue
            if any(f'"{name}'.encode() in exchange.request for name in (*_MEDIA, *_HIDDEN)):
                continue
            counts = [int(found) for found in _PROMPT.findall(exchange.answer)]
            if not counts or not max(counts):
                continue
            cached = [int(found) for found in _CACHED.findall(exchange.answer)]
            reported = max(counts) + max(cached, default=0)
            try:
                body = json.loads(exchange.request)
            except ValueError:
                continue
            estimate, kind = estimate_of(body)
            ratios[kind].append((estimate.tokens / reported, estimate.most / reported))
    for kind, pairs in sorted(ratios.items()):
        expected = sorted(pair[0] for pair in pairs)
        low, high = expected[len(expected) // 20], expected[-1 - len(expected) // 20]
        passed = sum(pair[1] < 1 for pair in pairs)
        print(
            f"{kind}: {len(pairs)} prompts, estimate / reported: median {median(expected):.2f}, "
            f"5 % {low:.2f}, 95 % {high:.2f}; bound passed by {passed}"
        )


if __name__ == "__main__":
    main()
