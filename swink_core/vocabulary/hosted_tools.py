"""Find the tools in a request that may run at the provider, and the searches to expect.

Requests define such tools in the provider's format: in fields that swink does not model, in blocks
that are sent unchanged, or in the metadata of a client's tool.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import ceil
from typing import Any

from swink_core.vocabulary.messages import Context, ExtensionBlock
from swink_core.vocabulary.options import StreamOptions

SEARCHES = 5
"""If a request sets no limit, the price of this many searches is reserved for a search tool."""

_DEFINES_NOTHING = frozenset({
    "arguments", "chat_template_kwargs", "configs", "documents", "guided_json", "input_examples",
    "input_schema", "inputSchema", "json_schema", "parameters", "responseJsonSchema",
    "responseSchema", "response_json_schema", "response_schema", "schema", "structured_outputs",
    "toolChoice", "tool_choice",
})  # fmt: skip
"""Fields that are not searched for a provider's tools, such as schemas and tool arguments."""

_DATED = re.compile(r"_\d{8}\Z", re.ASCII)

_MOST = 2**62
"""The highest number that is read from a field of a request."""


def searches_of(context: Context, options: StreamOptions) -> dict[str, int]:
    """Return the number of searches to expect, so that their price can be reserved.

    The keys are the names under which `Usage.extra` contains the number of searches; searches in
    files have a separate name. Searches are expected if the request defines a tool of the provider
    that searches, or has a field such as `web_search_options`. The number is the limit in the
    request if the provider is known to enforce it (see `_most_uses`), or else at least `SEARCHES`.
    """
    found: dict[str, int] = {}
    extra = options.extra or {}
    for name in extra:
        is_set = extra[name] is not None and extra[name] is not False
        if is_set and (quantity := _quantity(name)):
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
    """Return the key in `Usage.extra` for searches by a tool or field; `None` without searches."""
    word = name.lower()
    if "search" not in word or "tool_search" in word:
        return None
    return "file_searches" if "file" in word else "searches"


def _most_uses(kind: str, tool: Mapping[str, Any], extra: Mapping[str, Any]) -> int:
    """Return the number of searches whose price is reserved for a search tool.

    Only the Messages API has tools whose type ends with a date (`web_search_20250305`). For such a
    tool, the number is the limit in its field `max_uses`, or `SEARCHES` if it has no limit. For
    other tools, the limit is the field `max_tool_calls` of a request to the Responses API. Other
    vendors with that API may ignore the limit, so a limit below `SEARCHES` does not lower the
    number. Sources: https://platform.claude.com/docs/en/agents-and-tools/tool-use/web-search-tool,
    https://developers.openai.com/api/reference/resources/responses/methods/create.
    """
    if _DATED.search(kind):
        return whole_number(tool.get("max_uses")) or SEARCHES
    return max(SEARCHES, whole_number(extra.get("max_tool_calls")))


def hosted_tools(context: Context, *fields: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the tools that a request defines in a provider's format and that the provider may run.

    `fields` are fields of the request body. In these fields, and in blocks that are sent unchanged,
    every item of a list named `tools` and the tool of every `tool_addition` is yielded, at any
    depth. A tool given as a string is yielded as `{"type": string}`. For a tool of the client whose
    metadata has fields for a provider, these fields are yielded, with the type `function` unless
    they contain a type. Schemas, tool choices and the arguments of tool calls are not searched,
    because they do not define tools of the provider.
    """
    for tool in context.tools:
        for own in (tool.metadata or {}).values():
            yield {"type": "function", **own}
    for part in (*fields, *native_parts(context)):
        yield from _tools_inside(part)


def _tools_inside(data: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(data, Mapping):
        is_addition = data.get("type") == "tool_addition"
        for name, value in data.items():
            is_list = name == "tools" and isinstance(value, list | tuple)
            is_arguments = name == "input" and isinstance(value, Mapping)  # of a tool call
            if is_list or (name == "tool" and is_addition):
                yield from _definitions(value)
            elif name not in _DEFINES_NOTHING and not is_arguments:
                yield from _tools_inside(value)
    elif isinstance(data, list | tuple):
        for value in data:
            yield from _tools_inside(value)


def _definitions(data: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(data, Mapping):
        yield data
        yield from _tools_inside(data)  # a namespace contains tools
    elif isinstance(data, str):
        yield {"type": data}
    elif isinstance(data, list | tuple):
        for each in data:
            yield from _definitions(each)


def whole_number(value: Any) -> int:
    """Convert a number in a request, such as 2, `2.0` or `"2"`, to an integer from 0 to `_MOST`."""
    try:
        number = float(value)
    except OverflowError:
        return _MOST
    except (TypeError, ValueError):
        return 0
    return ceil(min(max(0.0, number), _MOST))


def native_parts(context: Context) -> Iterator[Any]:
    """Yield the parts of a conversation that are already in a provider's format.

    A list of an MCP server's tools is left out, because it defines no tool of the provider.
    """
    for tool in context.tools:
        yield from (tool.metadata or {}).values()
    contents = [context.system_prompt, *(message.content for message in context.messages)]
    for content in contents:
        for block in () if content is None or isinstance(content, str) else content:
            if not isinstance(block, str):
                if block.metadata:
                    yield block.metadata
                if isinstance(block, ExtensionBlock) and not _lists_mcp_tools(block.data):
                    yield block.data


def _lists_mcp_tools(data: Any) -> bool:
    return isinstance(data, Mapping) and data.get("type") == "mcp_list_tools"
