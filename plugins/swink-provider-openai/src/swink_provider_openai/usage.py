"""Read token counts, which have different field names at different services."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from swink_core.providers import EventWriter

__all__ = ["follows_content", "report_usage"]

TICKS_PER_DOLLAR = 1e10
"""xAI reports costs in ticks; this is the number of ticks in a US dollar.

The number was found by comparing the costs in recorded answers with the published prices.
"""

MOST_DOLLARS = 1e6
"""Upper limit of a plausible cost; higher and negative values are ignored."""

_COUNTS: dict[str, tuple[str, ...]] = {
    "input": ("prompt_tokens", "input_tokens"),
    "output": ("completion_tokens", "output_tokens"),
    "total": ("total_tokens",),
    "reasoning": (
        "completion_tokens_details.reasoning_tokens",
        "output_tokens_details.reasoning_tokens",
        "reasoning_tokens",
    ),
    "cache_read": (
        "prompt_tokens_details.cached_tokens",
        "input_tokens_details.cached_tokens",
        "prompt_cache_hit_tokens",  # DeepSeek
        "cached_tokens",  # Together
        "cache_read_input_tokens",  # Databricks, Venice
    ),
    "cache_write": (
        "prompt_tokens_details.cache_write_tokens",
        "input_tokens_details.cache_write_tokens",
        "cache_creation_input_tokens",
    ),
}
"""Maps each of swink's token counts to the usage fields that may contain it, preferred first."""

_DOLLARS = ("cost", "cost.total_cost")  # OpenRouter; Perplexity
_UPSTREAM = "cost_details.upstream_inference_cost"  # OpenRouter
_TICKS = "cost_in_usd_ticks"  # xAI

_KNOWN = frozenset({*(name for names in _COUNTS.values() for name in names), *_DOLLARS, _TICKS})


_BILLED = {
    "prompt_tokens_details.audio_tokens": "input_audio",
    "input_tokens_details.audio_tokens": "input_audio",
    "prompt_tokens_details.image_tokens": "input_image",
    "input_tokens_details.image_tokens": "input_image",
    "completion_tokens_details.audio_tokens": "output_audio",
    "output_tokens_details.audio_tokens": "output_audio",
    "completion_tokens_details.image_tokens": "output_image",
    "prompt_audio_seconds": "audio_seconds",  # Mistral
    "citation_tokens": "citation",  # Perplexity
    "num_search_queries": "searches",
}
"""Maps usage fields with a separate price to the price's name in `swink_core.vocabulary.prices`."""

_READ = _KNOWN | _BILLED.keys()


def report_usage(usage: Mapping[str, Any], out: EventWriter, tier: str | None = None) -> None:
    """Report a response's token counts to `out`, and all other usage fields as `extra`.

    `tier` is the service tier of the response. At some services, the output count does not include
    reasoning (xAI), or the input count does not include audio (Mistral). The reported total then
    exceeds the sum of both counts, and the missing tokens are added to the count concerned.
    """
    flat = _flatten(usage)
    known, billed = _found(tuple(filter(_READ.__contains__, flat)))
    counts: dict[str, int | None] = {}
    for ours, names in known:
        counts[ours] = _first_number(flat, names)
    extra = {k: v for k, v in flat.items() if v is not None and k not in _KNOWN}
    read, wrote, total = counts["input"], counts["output"], counts["total"]
    if read is not None and wrote is not None and total is not None and total > read + wrote:
        beside = total - read - wrote
        if beside == counts["reasoning"]:
            counts["output"] = wrote + beside
        elif beside == flat.get("prompt_tokens_details.audio_tokens"):
            counts["input"] = read + beside
            if flat.get("prompt_audio_seconds"):  # audio is billed by seconds, not by tokens
                extra["billed_input"] = read
    extra |= {ours: flat[name] for name, ours in billed if flat[name]}
    if tier:
        extra["service_tier"] = tier
    out.usage(**counts, cost=_cost(flat), extra=extra)


def follows_content(usage: Mapping[str, Any], choices: Any, out: EventWriter) -> bool:
    """Return True if a chunk contains the usage of the whole answer, not of the content so far.

    Such usage contains the number of output tokens. Its chunk has no choices, or it is the first
    chunk with usage: OpenRouter sends the usage with an empty choice. The caller has to check that
    the choices have no content.
    """
    if choices and out.usage_seen is not None:
        return False
    return any(type(usage.get(name)) in (int, float) for name in _COUNTS["output"])


@lru_cache(maxsize=256)
def _found(fields: tuple[str, ...]) -> tuple[list[Any], list[Any]]:
    """Select from `fields` the fields of each count, and the fields with a separate price.

    The result is cached, because the usage objects of a service mostly have the same fields.
    """
    known = [(ours, [name for name in names if name in fields]) for ours, names in _COUNTS.items()]
    billed = [(name, ours) for name, ours in _BILLED.items() if name in fields]
    return known, billed


def _flatten(usage: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in usage.items():
        if isinstance(value, dict):
            flat.update((f"{name}.{inner}", item) for inner, item in value.items())
        else:
            flat[name] = value
    return flat


def _first_number(flat: Mapping[str, Any], names: list[str]) -> int | None:
    for name in names:
        value = flat[name]
        if type(value) in (int, float):
            return int(value)
    return None


def _cost(flat: Mapping[str, Any]) -> float | None:
    """Return the reported cost; `None` if it is not known.

    OpenRouter's field `cost` is the amount that OpenRouter charges. If `is_byok` is true, the
    vendor bills the user for the answer, and `upstream_inference_cost` is the amount of that bill.
    With other answers, this field is null or repeats `cost`.
    https://openrouter.ai/docs/cookbook/administration/usage-accounting, and recorded answers.
    """
    for name in _DOLLARS:
        dollars = _dollars(flat.get(name))
        if dollars is not None:
            if flat.get("is_byok") is not True:
                return dollars
            upstream = _dollars(flat.get(_UPSTREAM))
            return None if upstream is None else dollars + upstream
    # xAI reports 0 if another service bills for the answer
    return _dollars(flat.get(_TICKS), TICKS_PER_DOLLAR) or None


def _dollars(value: Any, each: float = 1.0) -> float | None:
    if value is None or not isinstance(value, int | float):
        return None
    return value / each if 0 <= value <= MOST_DOLLARS * each else None
