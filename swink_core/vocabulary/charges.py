"""The charge for an attempt: an amount reserved before it begins, and the final amount.

    reserved    the price of the upper bound of the prompt's tokens, of `max_tokens` output tokens
                (without `max_tokens`: those of a typical answer), and of the searches that tools of
                the provider may make
    final       the cost of the usage that the provider reported, and nothing else
    estimated   if no usage was reported: the price of the estimated prompt, and of the larger of
                two numbers of output tokens: those that arrived, and those that the model can
                write in the elapsed time (at most the reserved output)

All prices are computed by `cost_of`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from math import ceil
from typing import Any

from swink_core.vocabulary.messages import Context, ExtensionBlock
from swink_core.vocabulary.models import ModelInfo, ProviderInfo
from swink_core.vocabulary.options import StreamOptions
from swink_core.vocabulary.outcome import Charge, Cost, Usage
from swink_core.vocabulary.prices import cost_of
from swink_core.vocabulary.structs import replace
from swink_core.vocabulary.tokens import Estimate, MediaTokens, prompt_tokens

TYPICAL_OUTPUT = 4_096
"""The assumed output tokens of an answer if neither the call nor the catalogue gives a length."""

OUTPUT_RATE = 150.0
"""The assumed output tokens per second of a model if the catalogue gives no rate."""

LONG = 3600
"""Cache writes with at least this lifetime, in seconds, have the price for long-lived caches."""

SEARCHES = 5
"""How many searches are reserved for a provider's search tool if the request sets no limit."""

SEARCH_TOKENS = 8_000
"""How many prompt tokens are reserved for the results of one search.

Source: https://developers.openai.com/api/docs/pricing, which states this number for some models.
"""

_DEFAULT_MEDIA = MediaTokens()

_ANSWERS = ("n", "num_generations", "candidateCount", "best_of")
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

_DEFINES_NOTHING = frozenset({
    "arguments", "input_schema", "inputSchema", "json_schema", "parameters", "responseJsonSchema",
    "responseSchema", "schema", "toolChoice", "tool_choice",
})  # fmt: skip
"""Fields that are not searched for a provider's tools, such as schemas and tool arguments."""

_DATED = re.compile(r"_\d{8}$", re.ASCII)

_MOST = 2**62
"""The highest number that is read from a field of a request."""

_SHORT = ("5m", "30m")
"""The values of a cache mark's `ttl` for which cache writes have the normal price."""


def dollars_of(cost: Cost | None) -> float | None:
    """Return the total of a cost, or the sum of the known parts if the total is unknown."""
    if cost is None or cost.total is not None:
        return None if cost is None else cost.total
    parts = (cost.input, cost.output, cost.cache_read, cost.cache_write, cost.fees)
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


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
        output = max(output, *map(_whole, _values(options.extra, _LENGTHS)), 0)
    return output * _answers_of(options)


def _answers_of(options: StreamOptions) -> int:
    """Return the number of answers that a call requests, at least 1."""
    extra = options.extra
    return max([1, *map(_whole, _values(extra, _ANSWERS))]) if extra else 1


def searches_of(context: Context, options: StreamOptions) -> dict[str, int]:
    """Return the number of searches for which to reserve the price.

    The keys are the names under which `Usage.extra` contains the number of searches; searches in
    files have a separate name. Searches are expected if the request defines a tool of the provider
    that searches, or has a field such as `web_search_options`. The number is the limit in the
    request if the provider is known to enforce it (see `_most_uses`), or else at least `SEARCHES`.
    """
    found: dict[str, int] = {}
    extra = options.extra or {}
    for name in extra:
        if extra[name] is not None and (quantity := _quantity(name)):
            found[quantity] = SEARCHES
    for tool in hosted_tools(context, extra):
        kind = tool.get("type")
        names = {name for name, value in tool.items() if isinstance(value, Mapping)}
        names |= set() if kind is None else {str(kind)}
        for name in names:
            if quantity := _quantity(name):
                most = _most_uses(str(kind), tool, extra)
                found[quantity] = found.get(quantity, 0) + most
    return found


def _quantity(name: str) -> str | None:
    """Return the quantity for searches by a tool or field; `None` if it does not search."""
    word = name.lower()
    if "search" not in word or "tool_search" in word:
        return None
    return "file_searches" if "file" in word else "searches"


def _most_uses(kind: str, tool: Mapping[str, Any], extra: Mapping[str, Any]) -> int:
    """Return the number of uses of a search tool for which to reserve the price.

    In the Messages API, whose tools have a date (`web_search_20250305`), the number is the limit
    `max_uses`. In the Responses API, the limit is `max_tool_calls`. Other vendors with this API may
    ignore that limit, so a limit below `SEARCHES` does not lower the number. Sources:
    https://platform.claude.com/docs/en/agents-and-tools/tool-use/web-search-tool,
    https://developers.openai.com/api/reference/resources/responses/methods/create.
    """
    if _DATED.search(kind):
        return _whole(tool.get("max_uses")) or SEARCHES
    return max(SEARCHES, _whole(extra.get("max_tool_calls")))


def hosted_tools(context: Context, *fields: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the tools that a request defines in a provider's format, and that may run there.

    `fields` are fields of the request body. In these fields, and in blocks that are sent unchanged,
    every item of a list named `tools` and every value of a field named `tool` is yielded, at any
    depth. A tool given as a string is yielded as `{"type": string}`. For a tool of the client whose
    metadata has fields for a provider, these fields are yielded, with the type `function` unless
    they contain a type. Schemas, tool choices and lists of an MCP server's tools are not searched,
    because they do not define tools of the provider.
    """
    for tool in context.tools:
        for own in (tool.metadata or {}).values():
            yield {"type": "function", **own}
    for part in (*fields, *_native_parts(context)):
        yield from _tools_inside(part)


def _tools_inside(data: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(data, Mapping):
        if data.get("type") == "mcp_list_tools":
            return
        for name, value in data.items():
            if name == "tools" and isinstance(value, list | tuple):
                yield from _definitions(value)
            elif name == "tool" and isinstance(value, Mapping):
                yield from _definitions([value])
            elif name not in _DEFINES_NOTHING:
                yield from _tools_inside(value)
    elif isinstance(data, list | tuple):
        for value in data:
            yield from _tools_inside(value)


def _definitions(tools: Iterable[Any]) -> Iterator[Mapping[str, Any]]:
    for tool in tools:
        if isinstance(tool, Mapping):
            yield tool
            yield from _tools_inside(tool)  # a namespace contains tools
        elif isinstance(tool, str):
            yield {"type": tool}


def _whole(value: Any) -> int:
    """Convert a number in a request, such as 2, `2.0` or `"2"`, to an integer from 0 to `_MOST`."""
    try:
        number = float(value)
    except OverflowError:
        return _MOST
    except (TypeError, ValueError):
        return 0
    return ceil(min(max(0.0, number), _MOST))


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


def _native_parts(context: Context) -> Iterator[Any]:
    """Yield the parts of a conversation that are already in a provider's format."""
    for tool in context.tools:
        yield from (tool.metadata or {}).values()
    contents = [context.system_prompt, *(message.content for message in context.messages)]
    for content in contents:
        for block in () if content is None or isinstance(content, str) else content:
            if not isinstance(block, str):
                if block.metadata:
                    yield block.metadata
                if isinstance(block, ExtensionBlock):
                    yield block.data


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
    prompt to the cache, because many models do this even if the request does not ask for it. If the
    request may contain a mark for a cache of an hour, the price for such a cache is used. If the
    request names a service tier, the higher of the prices of this tier and of the standard tier is
    used. The fees of searches by tools of the provider are included, and the tokens of their
    results.
    """
    output = reserved_output(info, options)
    terms = requested_terms(options)
    searches = searches_of(context, options)
    if searches:
        searches = {name: count * _answers_of(options) for name, count in searches.items()}
        prompt += SEARCH_TOKENS * sum(searches.values())
    usage = Usage(prompt, output, extra={**terms, **searches})
    costs = [_priced(usage, info, options, at)]
    if terms:  # the provider may use the standard tier and its price
        costs.append(_priced(replace(usage, extra={**searches}), info, options, at))
    is_long = _is_long(options.extra) or any(map(_is_long, _native_parts(context)))
    costs.append(_priced(replace(usage, cache_write=prompt), info, options, at, is_long))
    known = [cost for cost in costs if cost is not None]
    return Charge(prompt + output, max(known, default=None), True)


def requested_terms(options: StreamOptions) -> dict[str, str]:
    """Return the requested service tier and speed, with the keys used in `Usage.extra`."""
    return {f"_{n}": str(word) for n, word in enumerate(_values(options.extra or {}, _TERMS))}


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
    return dollars_of(cost_of(usage, prices, at, is_long or keeps_long(options)))


def completed_usage(
    reported: Usage | None,
    prompt: int,
    seen: int,
    seconds: float,
    is_complete: bool,
    info: ModelInfo | None,
    options: StreamOptions,
) -> Usage:
    """Return the usage to charge if the provider has not reported the usage of the whole answer.

    `prompt` is the estimated number of prompt tokens, and `seen` that of the output tokens that
    arrived in `seconds`. Numbers that the provider reported take precedence over these estimates,
    but if the answer is not complete, the charged output may be higher than the reported one.
    """
    usage = reported if reported is not None else Usage()
    if usage.input is not None:
        prompt = usage.input
    output = usage.output
    if output is None or not is_complete:
        rate = (info.output_rate if info is not None else None) or OUTPUT_RATE
        rate *= _answers_of(options)  # the provider writes them at the same time
        written = min(ceil(max(0.0, seconds) * rate), reserved_output(info, options))
        output = max(output or 0, seen, written)
    return replace(usage, input=prompt, output=output, total=None).added_up()
