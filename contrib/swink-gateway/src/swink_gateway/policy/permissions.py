"""Body fields that the owner of a limited key may set.

Fields that swink does not model pass unchanged to a provider, and some choose the model: `models`
and `preset` of OpenRouter, `fallbacks` of Anthropic, `draft_model`, a tool that calls another
model. Future fields may do so as well. A key with limited models or a budget may therefore use only
the fields in a protocol's table, and those that the configuration allows.

Tools that run at a vendor may have fees that the vendor does not report. A key with a budget may
therefore use only the tools in a table, and those that the configuration allows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from attrs import define, evolve

from swink_core import Tool, replace
from swink_gateway.protocols import Asked
from swink_gateway.protocols.failures import Refused, of_bad_request
from swink_gateway.protocols.table import ID_FIELDS, PRICED_FIELDS, PROTOCOLS

__all__ = ["KNOWN_FIELDS", "permitted"]

_OF_OTHERS = frozenset({
    "chat_template_kwargs", "citation_options", "documents", "enable_search", "enable_thinking",
    "guided_choice", "guided_grammar", "guided_json", "guided_regex", "include_reasoning",
    "keep_alive", "min_p", "options", "prompt_mode", "random_seed", "raw", "reasoning_format",
    "reasoning_split", "repetition_penalty", "return_citations", "safe_prompt",
    "search_domain_filter", "search_mode", "search_parameters", "search_recency_filter", "seed",
    "structured_outputs", "thinking_budget", "top_a", "top_k", "typical_p", "usage",
    "vl_high_resolution_images",
})  # fmt: skip
"""Safe fields of vendors whose APIs are similar to one of the protocols."""

KNOWN_FIELDS = _OF_OTHERS.union(
    ID_FIELDS, PRICED_FIELDS, *(row.safe_fields for row in PROTOCOLS.values())
)
"""Fields in the bodies of several APIs that never choose a model."""

TOOLS = "tools"

CHARGED_TOOLS = frozenset({
    "apply_patch", "bash", "computer", "computerUse", "computer_use", "custom", "file_search",
    "function", "functionDeclarations", "function_declarations", "googleSearch",
    "googleSearchRetrieval", "google_search", "google_search_retrieval", "local_shell", "mcp",
    "mcp_toolset", "memory", "namespace", "text_editor", "tool_search", "tool_search_tool_bm25",
    "tool_search_tool_regex", "urlContext", "url_context", "web_fetch", "web_search", "x_search",
})  # fmt: skip
"""Tools that cost only tokens, or a fee for each use that the vendor reports in the usage.

The names are types of tools without `_preview` and without the date, and fields of Gemini's tools.
Sources: https://developers.openai.com/api/docs/pricing,
https://platform.claude.com/docs/en/about-claude/pricing, https://ai.google.dev/gemini-api/docs/pricing.
"""

UNDATED_TOOLS = frozenset({"codeExecution", "code_execution"})
"""Gemini's code execution costs only tokens; Claude's has a date, and a price for each hour."""

ROUTERS = frozenset({"modelconfig", "modelselectionconfig", "routingconfig"})
"""Fields of Gemini's `generationConfig` that choose a model, or prefer a dearer one.

They are in lower case and without underscores, because Google accepts both spellings.
Source: https://cloud.google.com/vertex-ai/generative-ai/docs/reference/rest/v1/GenerationConfig.
"""

_CLIENTS_TOOLS = ("function", "custom")
"""The types of tools that the client runs."""

_SUFFIX = re.compile(r"(_preview)?(_\d[\d_]*)?$")

_UNCHARGED = (
    "tools: the vendor does not report the price of the tool {0!r}, and this key has a budget; the "
    'gateway\'s owner can allow the tool: allowed_fields = ["tools.{0}"]'
)

_UNKNOWN = (
    "{}: the gateway does not know this field, and the models or the budget of this key are "
    "limited; the gateway's owner can allow the field with allowed_fields"
)


def permitted(
    asked: Asked,
    may_ask: Callable[[str], bool],
    allowed_fields: Collection[str] = (),
    has_budget: bool = False,
) -> Asked:
    """Return a request without content that could reach a model for which `may_ask` returns False.

    `may_ask` is called with the name by which a provider calls a model. Removed content is reported
    as dropped.
    Raises Refused for a field that is in neither a table nor `allowed_fields`, and if the key has a
    budget, for a tool whose price the vendor does not report.
    """
    permission = _Permission(may_ask, {*allowed_fields}, has_budget, [*asked.dropped])
    options = dict(asked.options)
    if isinstance(extra := options.get("extra"), dict):
        options["extra"] = permission.of_fields(extra, "options.extra.")
    tools = [permission.of_tool(tool) for tool in asked.context.tools]
    return evolve(
        asked,
        context=replace(asked.context, tools=tools),
        options=options,
        own=permission.of_fields(asked.own),
        extra=permission.of_fields(asked.extra, "call.extra."),
        dropped=permission.dropped,
    )


@define
class _Permission:
    may_ask: Callable[[str], bool]
    allowed_fields: set[str]
    has_budget: bool
    dropped: list[str]

    def of_fields(self, fields: Mapping[str, Any], path: str = "") -> dict[str, Any]:
        """Return the permitted fields of a body. Raises Refused for an unknown field."""
        found = {}
        for name, value in fields.items():
            if name == TOOLS and isinstance(value, list):
                lost = [tool for tool in value if not self._is_open(tool)]
                self.dropped += [f"{path}{TOOLS} ({_type_of(tool)})" for tool in lost]
                if left := [tool for tool in value if tool not in lost]:
                    self._check_prices(left)
                    found[name] = left
            elif name in self.allowed_fields:
                found[name] = value
            elif name not in KNOWN_FIELDS:
                raise Refused(of_bad_request(_UNKNOWN.format(path + name)), 400)
            elif not self._is_open({name: value}):
                self.dropped.append(path + name)
            elif router := _router_of(name, value):
                raise Refused(of_bad_request(_UNKNOWN.format(f"{path}{name}.{router}")), 400)
            else:
                found[name] = value
        return found

    def _check_prices(self, tools: list[Any]) -> None:
        """Raise Refused if the key has a budget and a tool has a price that is not reported."""
        if not self.has_budget:
            return
        for tool in tools:
            for name in _names_of(tool):
                is_charged = name in UNDATED_TOOLS or _SUFFIX.sub("", name, 1) in CHARGED_TOOLS
                if not is_charged:
                    self._refuse(name)

    def _refuse(self, name: str) -> None:
        """Raise Refused for a tool that the configuration does not allow."""
        if f"{TOOLS}.{name}" not in self.allowed_fields:
            raise Refused(of_bad_request(_UNCHARGED.format(name)), 400)

    def of_tool(self, tool: Tool) -> Tool:
        """Return a tool, with its provider's own fields if they are permitted.

        These fields may replace the type of the tool. Raises Refused if the key has a budget and
        the type is no longer that of a client's tool, because nothing is then reserved for it.
        """
        for own in (tool.metadata or {}).values() if self.has_budget else ():
            kind = own.get("type")
            if kind is not None and kind not in _CLIENTS_TOOLS:
                self._refuse(str(kind))
        if self._is_open(tool.metadata):
            return tool
        self.dropped.append(f"{TOOLS}.{tool.name}")
        return replace(tool, metadata=None)

    def _is_open(self, data: Any) -> bool:
        return all(map(self.may_ask, _models(data)))


def _router_of(name: str, value: Any) -> str | None:
    """Return the name of a field in Gemini's configuration by which Google chooses the model."""
    if _folded(name) != "generationconfig" or not isinstance(value, Mapping):
        return None
    return next((inner for inner in value if _folded(inner) in ROUTERS), None)


def _folded(name: str) -> str:
    return name.casefold().replace("_", "")


def _models(data: Any, is_model: bool = False) -> Iterator[str]:
    """Yield the strings in fields that name models."""
    if isinstance(data, str):
        yield from [data] if is_model else []
    elif isinstance(data, dict):
        for name, value in data.items():
            yield from _models(value, is_model or "model" in name.lower())
    elif isinstance(data, list):
        for value in data:
            yield from _models(value, is_model)


def _names_of(tool: Any) -> list[str]:
    """Return the type of a tool, or its fields if it has no type, as in Gemini's API."""
    if not isinstance(tool, dict):
        return [str(tool)]
    return [str(tool["type"])] if "type" in tool else [*tool]


def _type_of(tool: Any) -> str:
    return next(iter(_names_of(tool)), "")
