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
"""Cache writes with at least this time to live (in seconds) have the price of long-lived ones."""

SEARCHES = 5
"""The assumed number of searches by a tool of the provider if the request sets no limit."""

SEARCH_TOKENS = 8_000
"""The assumed prompt tokens of the results of one search.

Source: https://developers.openai.com/api/docs/pricing, the fixed number for some models.
"""

_DEFAULT_MEDIA = MediaTokens()

_ANSWERS = ("n", "num_generations", "candidateCount", "best_of")
"""The fields with the number of answers to one prompt, in APIs that support several."""

_LENGTHS = (
    "max_tokens", "max_completion_tokens", "max_output_tokens", "max_new_tokens", "maxOutputTokens",
    "maxTokens", "num_predict",
)  # fmt: skip
"""The fields with the length of an answer, in several APIs; they may override `max_tokens`."""

_TERMS = ("service_tier", "speed", "serviceTier", "inference_geo")
"""The request fields that select a service tier or a speed with other prices."""

_DEFINES_NOTHING = frozenset({
    "arguments", "input_schema", "inputSchema", "json_schema", "parameters", "responseJsonSchema",
    "responseSchema", "schema", "toolChoice", "tool_choice",
})  # fmt: skip
"""The fields whose contents start no tool of the provider: schemas, arguments and references."""

_DATED = re.compile(r"_\d{8}$", re.ASCII)

_MOST = 2**62
"""The highest number that is read from a field of a request."""

_SHORT = ("5m", "30m")
"""The values of `ttl` with which cache writes have the normal price."""


def dollars_of(cost: Cost | None) -> float | None:
    """Return the total of a cost, or the sum of the known parts if the total is unknown."""
    if cost is None or cost.total is not None:
        return None if cost is None else cost.total
    parts = (cost.input, cost.output, cost.cache_read, cost.cache_write, cost.fees)
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def tokens_of(usage: Usage) -> int:
    """Return the tokens of prompt and output together; an unknown number counts as 0."""
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
    """Return the number of answers that a call asks for."""
    extra = options.extra
    return max([1, *map(_whole, _values(extra, _ANSWERS))]) if extra else 1


def searches_of(context: Context, options: StreamOptions) -> dict[str, int]:
    """Return the number of searches to reserve, by the name of the quantity in `Usage.extra`.

    A search tool of a provider is a tool that a request defines outside `Context.tools`, or a field
    such as `web_search_options`. Searches in files are counted separately. The number is the
    request's own limit if it is known to hold (see `_most_uses`), or else at least `SEARCHES`.
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
    """Return the number of uses of a tool to reserve.

    `max_uses` is a limit of the Messages API, whose tools have a date, as in `web_search_20250305`.
    `max_tool_calls` is a limit of the Responses API. Vendors with similar APIs may ignore it, so it
    only raises the number.
    Sources: https://platform.claude.com/docs/en/agents-and-tools/tool-use/web-search-tool,
    https://developers.openai.com/api/reference/resources/responses/methods/create.
    """
    if _DATED.search(kind):
        return _whole(tool.get("max_uses")) or SEARCHES
    return max(SEARCHES, _whole(extra.get("max_tool_calls")))


def hosted_tools(context: Context, *fields: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the tools that a request defines in a provider's format; some may run at the provider.

    `fields` are fields of the body. Such tools are the items of lists named `tools`, and values of
    fields named `tool`, at any depth of the fields and of the blocks that are sent unchanged. A
    tool of the client whose metadata has fields for a provider is yielded with these fields and the
    type `function`, which they may replace. A tool that is given as a string is yielded as
    `{"type": string}`. Schemas, tool choices and lists of an MCP server's tools are left out,
    because they start no tool of the provider.
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

    Media are counted by the rules of the model (`info`), or else by those of the provider.
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

    `at` is the time whose prices apply (`None`: now). The prompt is assumed to be written to the
    cache, which may cost more, because many models cache without a request for it, and to be kept
    there for an hour if a mark in the request may ask for this. If the request names a service
    tier, the higher of the prices of this tier and of the standard tier applies. The fees of
    searches by tools of the provider are included, and the tokens of their results.
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
    """Return the usage to charge if the provider's usage report is missing or not final.

    `prompt` and `seen` are the estimated tokens of the prompt and of the output that arrived in
    `seconds`. Reported numbers are kept; if the answer is not complete, they are lower bounds.
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
