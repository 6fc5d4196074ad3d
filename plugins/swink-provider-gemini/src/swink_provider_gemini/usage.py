"""Read the token usage of an answer from `usageMetadata`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from swink_core.providers import EventWriter

__all__ = ["count_tokens"]

BILLED = {
    "input_audio": ("promptTokensDetails", "AUDIO"),
    "cache_read_audio": ("cacheTokensDetails", "AUDIO"),
    "output_audio": ("candidatesTokensDetails", "AUDIO"),
    "output_image": ("candidatesTokensDetails", "IMAGE"),
}
"""Tokens with a separate price: maps the price's name to a usage field and a modality.

The names of prices are from `swink_core.vocabulary.prices`.
"""

_COUNTED = frozenset(
    {
        "promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount",
        "cachedContentTokenCount", "totalTokenCount",
    }
)  # fmt: skip


def count_tokens(usage: dict[str, Any], out: EventWriter) -> None:
    """Report the token counts, which are cumulative.

    The API counts thoughts separately from the answer, and the output of server-side tools
    separately from the prompt. The thoughts are added to the output, and the output of server-side
    tools to the input. The API omits a count of 0. If the total equals the input, the answer has no
    output tokens.
    """
    prompt, tools = _number(usage, "promptTokenCount"), _number(usage, "toolUsePromptTokenCount")
    told, thoughts = _number(usage, "candidatesTokenCount"), _number(usage, "thoughtsTokenCount")
    total = _number(usage, "totalTokenCount")
    is_empty = out.stop_reason is not None and not out.has_answer
    has_none = is_empty and prompt is not None and total == prompt + (tools or 0)
    counted = has_none or told is not None or thoughts is not None
    out.usage(
        input=None if prompt is None else prompt + (tools or 0),
        output=(told or 0) + (thoughts or 0) if counted else None,
        cache_read=_number(usage, "cachedContentTokenCount"),
        reasoning=thoughts,
        total=total,
        extra={name: value for name, value in usage.items() if name not in _COUNTED}
        | {name: count for name, count in _billed(usage) if count},
    )


def _billed(usage: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield each price name in `BILLED` with the number of tokens that have this price."""
    for ours, (name, modality) in BILLED.items():
        rows = usage.get(name)
        for row in rows if isinstance(rows, list) else ():
            if isinstance(row, dict) and row.get("modality") == modality:
                yield ours, _number(row, "tokenCount") or 0


def _number(usage: dict[str, Any], name: str) -> int | None:
    value = usage.get(name)
    return int(value) if isinstance(value, int | float) else None
