"""The charge for an attempt: an amount reserved before it begins, and the final amount.

    reserved    the price of the upper bound of the prompt's tokens, of `max_tokens` output tokens
                (without `max_tokens`: those of a typical answer), and of the searches that tools of
                the provider may make; audio has its own price
    final       the cost of the usage that the provider reported, and nothing else
    estimated   if no usage was reported: the price of the estimated prompt, and of the larger of
                two numbers of output tokens: those that arrived, and those that the model can
                write in the elapsed time (at most the reserved output)

All prices are computed by `cost_of`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from math import ceil
from typing import Any

from swink_core.vocabulary.hosted_tools import native_parts, searches_of, whole_number
from swink_core.vocabulary.messages import Context
from swink_core.vocabulary.models import ModelInfo, ProviderInfo
from swink_core.vocabulary.options import StreamOptions
from swink_core.vocabulary.outcome import Charge, Usage
from swink_core.vocabulary.prices import cost_of
from swink_core.vocabulary.structs import replace
from swink_core.vocabulary.tokens import Estimate, MediaTokens, prompt_tokens, sound_seconds

TYPICAL_OUTPUT = 4_096
"""The assumed output tokens of an answer if neither the call nor the catalogue gives a length."""

OUTPUT_RATE = 150.0
"""The assumed output tokens per second of a model if the catalogue gives no rate."""

SEARCH_RATE = 2.0
"""The assumed searches per second of a provider's tool in an answer without reported usage."""

LONG = 3600
"""Cache writes with at least this lifetime, in seconds, have the price for long-lived caches."""

SEARCH_TOKENS = 8_000
"""The number of prompt tokens to reserve for the results of one search.

Source: https://developers.openai.com/api/docs/pricing, which states this number for some models.
"""

_DEFAULT_MEDIA = MediaTokens()

_MODALITIES = ("modalities", "responseModalities", "response_modalities")
"""The request fields, in different APIs, for the kinds of content in an answer."""

COMPACTED = 50_000
"""The lowest number of prompt tokens at which a provider summarizes the conversation.

Source: https://platform.claude.com/docs/en/build-with-claude/compaction
"""

_ANSWERS = ("n", "num_generations", "candidateCount", "candidate_count", "best_of")
"""The request fields, in different APIs, for the number of answers to one prompt."""

_LENGTHS = (
    "max_tokens", "max_completion_tokens", "max_output_tokens", "max_new_tokens", "maxOutputTokens",
    "maxTokens", "num_predict",
)  # fmt: skip
"""The request fields, in different APIs, for the maximum output tokens.

In `extra`, such a field may override the option `max_tokens`.
"""

_TERMS = ("service_tier", "speed", "serviceTier", "inference_geo")
"""The request fields that select a service tier, a speed or a region with other prices."""

_USUAL_TERMS = ("auto", "default", "flex", "global", "on_demand", "standard", "standard_only")
"""The values of the fields in `_TERMS` that select the usual price or a lower one."""

_SHORT = ("5m", "30m")
"""The values of a cache mark's `ttl` for which cache writes have the normal price."""


def tokens_of(usage: Usage) -> int:
    """Return the sum of the prompt tokens and output tokens; an unknown number counts as 0."""
    return max(usage.total or 0, (usage.input or 0) + (usage.output or 0))


def keeps_long(options: StreamOptions) -> bool:
    """Return True if a call's cache writes are kept for an hour or more."""
    return options.cache is not None and (options.cache.ttl or 0) >= LONG


def reserved_output(info: ModelInfo | None, options: StreamOptions) -> int:
    """Return the number of output tokens to reserve for a call."""
    output = options.max_tokens
    if output is None:
        output = (info.typical_output if info is not None else None) or TYPICAL_OUTPUT
        if info is not None and info.max_output is not None:
            output = min(output, info.max_output)
    if options.extra:
        output = max(output, *map(whole_number, _values(options.extra, _LENGTHS)), 0)
    return output * _answers_of(options)


def _answers_of(options: StreamOptions) -> int:
    """Return the number of answers that a call requests, at least 1."""
    extra = options.extra
    return max([1, *map(whole_number, _values(extra, _ANSWERS))]) if extra else 1


def _values(extra: Mapping[str, Any], names: tuple[str, ...]) -> Iterator[Any]:
    for name, value in extra.items():
        if name in names:
            yield value
        elif isinstance(value, Mapping):
            yield from _values(value, names)


def reservation(
    info: ModelInfo | None, provider: ProviderInfo | None, context: Context, options: StreamOptions
) -> Charge:
    """Return the amount to reserve for a call, using the upper bound of the prompt's tokens."""
    prompt = int(prompt_of(provider, context, options, info).most)
    return reserved(prompt, info, context, options)


def prompt_of(
    provider: ProviderInfo | None,
    context: Context,
    options: StreamOptions,
    info: ModelInfo | None = None,
) -> Estimate:
    """Estimate the tokens of a prompt, including the tools and fields that are sent with it.

    The tokens of images, audio and documents are estimated by the media rules in the model's
    catalogue entry (`info`), or else by those in the provider's entry.
    """
    rules = (place.media for place in (info, provider) if place is not None)
    media = next(filter(None, rules), _DEFAULT_MEDIA)
    return prompt_tokens(context, media, options.response_format, options.extra)


def _is_long(data: Any) -> bool:
    if isinstance(data, Mapping):
        ttl = data.get("ttl")
        return (ttl is not None and ttl not in _SHORT) or any(map(_is_long, data.values()))
    return isinstance(data, list | tuple) and any(map(_is_long, data))


def reserved(
    prompt: int,
    info: ModelInfo | None,
    context: Context,
    options: StreamOptions,
    at: datetime | None = None,
) -> Charge:
    """Return the amount to reserve for a prompt of `prompt` tokens.

    The prices at the time `at` apply (`None`: now). The amount includes the price of writing the
    prompt to the cache, because many models cache prompts even if the request does not ask for it.
    If the request may contain a cache mark that requests a cache of an hour, the price of writing
    to such a cache is used. If the request names a service tier, the higher of the prices of this
    tier and of the standard tier is used. The fees of searches by tools of the provider are
    included, and the tokens of their results. Audio prices apply to sound in the prompt, and to the
    answer if the request asks for audio, unless text has a higher price. If the provider may
    summarize the conversation before it answers, the prompt is counted twice. The cost is `None` if
    the price of the model, of a search or of a requested tier is unknown.
    """
    output = reserved_output(info, options)
    terms = requested_terms(options)
    searches = _reserved_searches(context, options)
    prompt += SEARCH_TOKENS * sum(searches.values())
    sound: dict[str, int] = (
        {} if info is None else _sound_in(prompt, info, sound_seconds(context).most)
    )
    if _compacts(prompt, options):  # before the answer, another request writes the summary
        prompt *= 2
        output += TYPICAL_OUTPUT
    if _asks_for_audio(options):
        sound["output_audio"] = output
    if _has_unknown_price(info, options, searches):
        return Charge(prompt + output, None, True)
    usage = Usage(prompt, output, extra={**terms, **searches})
    costs = [_priced(usage, info, options, at)]
    if terms:  # the provider may use the standard tier and its price
        costs.append(_priced(replace(usage, extra={**searches, **sound}), info, options, at))
    if sound:
        costs.append(_priced(replace(usage, extra={**usage.extra, **sound}), info, options, at))
    is_long = _is_long(options.extra) or any(map(_is_long, native_parts(context)))
    costs.append(_priced(replace(usage, cache_write=prompt), info, options, at, is_long))
    known = [cost for cost in costs if cost is not None]
    return Charge(prompt + output, max(known, default=None), True)


def _reserved_searches(context: Context, options: StreamOptions) -> dict[str, int]:
    """Map the key of searches in `Usage.extra` to the number to reserve for all answers."""
    found = searches_of(context, options)
    return {name: count * _answers_of(options) for name, count in found.items()}


def _has_unknown_price(
    info: ModelInfo | None, options: StreamOptions, searches: Mapping[str, int]
) -> bool:
    """Return True if the prices of a model do not cover a requested search or service tier."""
    if info is None or info.prices is None:
        return True
    words = {word for case in info.prices.cases for word in case.terms}.union(_USUAL_TERMS)
    asked = (word.lower() for word in requested_terms(options).values())
    return not (words.issuperset(asked) and searches.keys() <= info.prices.fees.keys())


def _sound_in(prompt: int, info: ModelInfo, seconds: float) -> dict[str, int]:
    """Return the tokens and seconds of sound in a prompt, by their names in the price table."""
    media = info.media or _DEFAULT_MEDIA
    tokens = min(prompt, ceil(media.audio_second * seconds))
    return {"input_audio": tokens, "audio_seconds": ceil(seconds)} if seconds else {}


def _asks_for_audio(options: StreamOptions) -> bool:
    """Return True if a request asks for an answer in audio."""
    asked = _values(options.extra or {}, _MODALITIES)
    return any("audio" in str(modalities).lower() for modalities in asked)


def _compacts(prompt: int, options: StreamOptions) -> bool:
    """Return True if the provider may summarize a conversation of `prompt` tokens."""
    for setting in _values(options.extra or {}, ("context_management",)):
        has_edits = isinstance(setting, Mapping)
        edits = setting.get("edits") if has_edits else setting
        for edit in edits if isinstance(edits, list | tuple) else ():
            kind = edit.get("type") if isinstance(edit, Mapping) else None
            if str(kind).startswith("compact") and (prompt >= COMPACTED or not has_edits):
                return True
    return False


def requested_terms(options: StreamOptions) -> dict[str, str]:
    """Return the requested service tier, speed and region, under keys for `Usage.extra`.

    The keys are arbitrary, because prices depend only on the values.
    """
    found: dict[str, str] = {}
    for word in _values(options.extra or {}, _TERMS):
        word = word.get("type") if isinstance(word, Mapping) else word
        if word is not None:
            found[f"_{len(found)}"] = str(word).lower()
    return found


def reports_terms(usage: Usage) -> bool:
    """Return True if `usage` contains the service tier or speed that the provider billed."""
    return not usage.extra.keys().isdisjoint(_TERMS)


def _priced(
    usage: Usage,
    info: ModelInfo | None,
    options: StreamOptions,
    at: datetime | None,
    is_long: bool = False,
) -> float | None:
    prices = info.prices if info is not None else None
    cost = cost_of(usage, prices, at, is_long or keeps_long(options))
    return cost.total if cost is not None else None


def completed_usage(
    reported: Usage | None,
    prompt: int,
    seen: int,
    seconds: float,
    is_complete: bool,
    info: ModelInfo | None,
    options: StreamOptions,
    context: Context,
) -> Usage:
    """Return the usage to charge if the provider has not reported the usage of the whole answer.

    `prompt` is the estimated number of prompt tokens, and `seen` is the estimated number of output
    tokens that arrived in `seconds`. Numbers that the provider reported take precedence over these
    estimates, but if the answer is not complete, the charged output may be higher than the reported
    one. Estimated sound in `context` and in the answer is counted as audio. For a request with a
    search tool of the provider, the searches that are possible in `seconds` are counted, with the
    tokens of their results, but not more than are reserved.
    """
    usage = reported if reported is not None else Usage()
    quantities: dict[str, Any] = {}
    if usage.input is not None:
        prompt = usage.input
    elif info is not None:
        quantities = {**_sound_in(prompt, info, sound_seconds(context).tokens)}
    output = usage.output
    if output is None or not is_complete:
        rate = (info.output_rate if info is not None else None) or OUTPUT_RATE
        rate *= _answers_of(options)  # the provider writes them at the same time
        written = min(ceil(max(0.0, seconds) * rate), reserved_output(info, options))
        output = max(output or 0, seen, written)
        if _asks_for_audio(options):
            quantities["output_audio"] = output
        possible = ceil(max(0.0, seconds) * SEARCH_RATE)
        for name, most in _reserved_searches(context, options).items():
            known = usage.extra.get(name)
            known = known if isinstance(known, int | float) else 0
            searches = max(0, min(most, possible) - known)
            quantities[name] = known + searches
            prompt += ceil(SEARCH_TOKENS * searches)
    extra = {**usage.extra, **quantities}
    return replace(usage, input=prompt, output=output, total=None, extra=extra).added_up()
