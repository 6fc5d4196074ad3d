"""The charge for an attempt: reserved before it begins, settled by its reported usage.

    reserved    the upper bound of the prompt, and as output `max_tokens` or a typical answer
    settled     the cost of the usage that the provider reported, and nothing else
    estimated   without that: the estimated prompt, and the larger of the output that was seen and
                what the model writes in the time that has passed, up to the reserved output

Everything is priced by `cost_of`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from math import ceil
from typing import Any

from swink_core.vocabulary.messages import Context
from swink_core.vocabulary.models import ModelInfo, ProviderInfo
from swink_core.vocabulary.options import StreamOptions
from swink_core.vocabulary.outcome import Charge, Cost, Usage
from swink_core.vocabulary.prices import cost_of
from swink_core.vocabulary.structs import replace
from swink_core.vocabulary.tokens import Estimate, MediaTokens, prompt_tokens

TYPICAL_OUTPUT = 4_096
"""Tokens of an answer for which neither the call nor the catalogue gives a length."""

OUTPUT_RATE = 150.0
"""Tokens a second that a model writes for which the catalogue gives no rate."""

LONG = 3600
"""Seconds from which on a cache is one that keeps things long."""

_DEFAULT_MEDIA = MediaTokens()

_ANSWERS = ("n", "num_generations", "candidateCount", "best_of")
"""Names of the number of answers to one prompt, in the APIs that give several."""

_TERMS = ("service_tier", "speed", "serviceTier")
"""Names of what an API bills by another price."""


def dollars_of(cost: Cost | None) -> float | None:
    """Return the total of a cost, or the sum of the known parts if the total is unknown."""
    if cost is None or cost.total is not None:
        return None if cost is None else cost.total
    parts = (cost.input, cost.output, cost.cache_read, cost.cache_write, cost.fees)
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def tokens_of(usage: Usage) -> int:
    """Return the tokens of prompt and output; an unknown number counts for nothing."""
    return max(usage.total or 0, (usage.input or 0) + (usage.output or 0))


def keeps_long(options: StreamOptions) -> bool:
    """Tell whether a call's cache writes are kept for an hour or more."""
    return options.cache is not None and (options.cache.ttl or 0) >= LONG


def reserved_output(info: ModelInfo | None, options: StreamOptions) -> int:
    """Return the tokens to reserve for the answers of a call."""
    output = options.max_tokens
    if output is None:
        output = (info.typical_output if info is not None else None) or TYPICAL_OUTPUT
        if info is not None and info.max_output is not None:
            output = min(output, info.max_output)
    extra = options.extra
    if not extra:
        return output
    counts = [value for value in _values(extra, _ANSWERS) if isinstance(value, int)]
    return output * max(1, *counts, 1)


def _values(extra: Mapping[str, Any], names: tuple[str, ...]) -> Iterator[Any]:
    for name, value in extra.items():
        if name in names:
            yield value
        elif isinstance(value, Mapping):
            yield from _values(value, names)


def reservation(
    info: ModelInfo | None, provider: ProviderInfo | None, context: Context, options: StreamOptions
) -> Charge:
    """Return the reservation for a call, by the upper bound of the estimated prompt."""
    return reserved(int(prompt_of(provider, context, options, info).most), info, options)


def prompt_of(
    provider: ProviderInfo | None,
    context: Context,
    options: StreamOptions,
    info: ModelInfo | None = None,
) -> Estimate:
    """Estimate the tokens of a prompt, with the tools and fields that go out beside it.

    The rules for media are those of the model (`info`), by default those of the provider.
    """
    rules = (place.media for place in (info, provider) if place is not None)
    media = next(filter(None, rules), _DEFAULT_MEDIA)
    return prompt_tokens(context, media, options.response_format, options.extra)


def reserved(
    prompt: int, info: ModelInfo | None, options: StreamOptions, at: datetime | None = None
) -> Charge:
    """Return the reservation for a prompt of so many tokens (`at`: when; `None`: now).

    The prompt may be written to a cache at a higher price, if the call caches; a service tier that
    the request names has its price.
    """
    output = reserved_output(info, options)
    terms = requested_terms(options)
    usage = Usage(prompt, output, extra=terms)
    costs = [_priced(usage, info, options, at)]
    if terms:  # a provider may serve at its usual price instead
        costs.append(_priced(replace(usage, extra={}), info, options, at))
    if options.cache is not None or _holds_marks(options.extra):
        costs.append(_priced(replace(usage, cache_write=prompt), info, options, at))
    known = [cost for cost in costs if cost is not None]
    return Charge(prompt + output, max(known, default=None), True)


def requested_terms(options: StreamOptions) -> dict[str, str]:
    """Return the service tier and speed that a request names, as usage reports them."""
    return {f"_{n}": str(word) for n, word in enumerate(_values(options.extra or {}, _TERMS))}


def reports_terms(usage: Usage) -> bool:
    """Tell whether usage reports the service tier or speed that the provider bills."""
    return not usage.extra.keys().isdisjoint(_TERMS)


def _holds_marks(extra: Mapping[str, Any] | None) -> bool:
    return bool(extra) and "cache_control" in (extra or {})


def _priced(
    usage: Usage, info: ModelInfo | None, options: StreamOptions, at: datetime | None
) -> float | None:
    prices = info.prices if info is not None else None
    return dollars_of(cost_of(usage, prices, at, keeps_long(options)))


def completed_usage(
    reported: Usage | None,
    prompt: int,
    seen: int,
    seconds: float,
    is_complete: bool,
    info: ModelInfo | None,
    options: StreamOptions,
) -> Usage:
    """Return the usage to charge where the provider's own is missing or not final.

    `prompt` and `seen` are the estimated tokens of the prompt and of the output that came, in
    `seconds`. Reported numbers stand; those of an answer that is not complete are the least.
    """
    usage = reported if reported is not None else Usage()
    if usage.input is not None:
        prompt = usage.input
    output = usage.output
    if output is None or not is_complete:
        rate = (info.output_rate if info is not None else None) or OUTPUT_RATE
        written = min(ceil(max(0.0, seconds) * rate), reserved_output(info, options))
        output = max(output or 0, seen, written)
    return replace(usage, input=prompt, output=output, total=None).added_up()
