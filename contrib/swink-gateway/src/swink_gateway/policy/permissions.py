"""Body fields that the owner of a limited key may set.

Fields that swink does not know pass unchanged to a provider, and some of them choose the model:
`models` and `preset` of OpenRouter, `fallbacks` of Anthropic, `draft_model`, a tool that calls
another model. Vendors may add more such fields. A key with limited models or a budget may therefore
use only the fields in a protocol's table, and those that the configuration allows. A field that
names a model which the key does not allow is removed in any case.

Tools that run at a vendor may have fees that the vendor does not report. A key with a budget may
therefore use only the tools in a table, and those that the configuration allows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from attrs import define, evolve

from swink_core import Tool, replace
from swink_core.providers import hosted_tools
from swink_gateway.protocols import Asked
from swink_gateway.protocols.failures import Refused, of_bad_request
from swink_gateway.protocols.table import ID_FIELDS, PRICED_FIELDS, PROTOCOLS

__all__ = ["KNOWN_FIELDS", "folded", "permitted"]

_OF_OTHERS = frozenset({
    "chat_template_kwargs", "citation_options", "documents", "enable_search", "enable_thinking",
    "guided_choice", "guided_grammar", "guided_json", "guided_regex", "include_reasoning",
    "keep_alive", "min_p", "options", "prompt_mode", "random_seed", "raw", "reasoning_format",
    "reasoning_split", "repetition_penalty", "return_citations", "safe_prompt",
    "search_domain_filter", "search_mode", "search_parameters", "search_recency_filter", "seed",
    "structured_outputs", "thinking_budget", "top_a", "top_k", "typical_p", "usage",
    "vl_high_resolution_images",
})  # fmt: skip
"""Fields that never choose a model, of vendors whose APIs are similar to one of the protocols."""

KNOWN_FIELDS = _OF_OTHERS.union(
    ID_FIELDS, PRICED_FIELDS, *(row.safe_fields for row in PROTOCOLS.values())
)
"""Fields in the bodies of several APIs that never choose a model."""

TOOLS = "tools"

CHARGED_TOOLS = frozenset({
    "apply_patch", "bash", "browser_toolset", "computer", "computer_toolset", "computer_use",
    "custom", "file_search", "function", "local_shell", "mcp", "mcp_toolset",
    "mcp_toolset_reference", "memory", "namespace", "text_editor", "tool_reference", "tool_search",
    "tool_search_tool_bm25", "tool_search_tool_regex", "web_fetch", "web_search", "x_search",
})  # fmt: skip
"""Types of tools that cost only tokens, or have a fee that the vendor reports in the usage.

The types are listed without the suffix `_preview` and without a date. Sources:
https://developers.openai.com/api/docs/pricing,
https://platform.claude.com/docs/en/about-claude/pricing.
"""

CHARGED_FIELDS = frozenset({
    "cachePoint", "codeExecution", "code_execution", "computerUse", "computer_use",
    "functionDeclarations", "function_declarations", "googleSearch", "googleSearchRetrieval",
    "google_search", "google_search_retrieval", "toolSpec", "urlContext", "url_context",
})  # fmt: skip
"""Fields in Gemini's and Bedrock's APIs that identify a tool whose fees (if any) are reported.

Tools have no type in these APIs.

Sources: https://ai.google.dev/gemini-api/docs/pricing,
https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Tool.html.
"""

UNCHARGED_FIELDS = frozenset({
    "enterpriseWebSearch", "enterprise_web_search", "googleMaps", "google_maps", "systemTool",
})  # fmt: skip
"""Fields of tools with unreported fees, even if the type of the tool is in `CHARGED_TOOLS`."""

ROUTERS = frozenset({"modelconfig", "modelselectionconfig", "routingconfig"})
"""Fields of Gemini's `generationConfig` that choose a model, or prefer a dearer one.

They are in lower case and without underscores, because Google accepts both spellings.
Source: https://cloud.google.com/vertex-ai/generative-ai/docs/reference/rest/v1/GenerationConfig.
"""

_NAMES_MODELS = re.compile(r"model|fallback(?!_?credit)", re.IGNORECASE)
"""Matches the names of fields that name models; `fallback_credit_token` does not."""

_OVERRIDES = frozenset({"output_config", "speed", "thinking"})
"""Fields with options, not models, in an entry of Anthropic's `fallbacks`.

Source: https://platform.claude.com/docs/en/build-with-claude/refusals-and-fallback.
"""

_SCHEMAS = frozenset({"input_schema", "parameters"})
"""The fields with the schema of a tool's arguments; only tools of the client have one."""

_SUFFIX = re.compile(r"(_preview)?(_\d[\d_]*)?\Z", re.ASCII)

_UNCHARGED = (
    "tools: the vendor does not report the price of the tool {0!r}, and this key has a budget; the "
    'gateway\'s owner can allow the tool: allowed_fields = ["tools.{0}"]'
)

USAGE = "stream_options"
"""The field of Chat Completions that contains `include_usage`."""

_UNREPORTED = (
    f"{USAGE}: include_usage must be true, because this key has a budget and the usage is charged"
)

BACKGROUND = "background"
"""The field of Responses with which the vendor goes on without a connection."""

_GOES_ON = (
    f"{BACKGROUND}: the vendor may complete the response even if the client leaves, and this key "
    f'has a budget; the gateway\'s owner can allow the field: allowed_fields = ["{BACKGROUND}"]'
)

_UNKNOWN = (
    "{}: the gateway does not know this field, and the models or the budget of this key are "
    'limited; the gateway\'s owner can allow the field: allowed_fields = ["{}"]'
)


def permitted(
    asked: Asked,
    providers: Sequence[str],
    may_ask: Callable[[str], bool],
    allowed_fields: Collection[str] = (),
    has_budget: bool = False,
) -> Asked:
    """Return a request without content that could reach a model for which `may_ask` returns False.

    `may_ask` is called with a model's full name. `providers` are those of the models that may
    answer, in order. The body fields reach the first one; if the client asks for several answers,
    it may be a later one. The fields of tools reach all of them. Removed content is reported as
    dropped, even if `allowed_fields` lists the field. Raises Refused for a field that is in neither
    `allowed_fields` nor the tables of this module and of the protocols. If the key has a budget, a
    tool whose fees the vendor does not report is refused too.
    """
    reached = providers if asked.answers > 1 else providers[:1]
    permission = _Permission(reached, providers, may_ask, {*allowed_fields}, [*asked.dropped])
    options = dict(asked.options)
    if isinstance(extra := options.get("extra"), dict):
        options["extra"] = permission.of_fields(extra, "options.extra.")
    tools = [permission.of_tool(tool) for tool in asked.context.tools]
    found = evolve(
        asked,
        context=replace(asked.context, tools=tools),
        options=options,
        own=permission.of_fields(asked.own),
        extra=permission.of_fields(asked.extra, "call.extra."),
        dropped=permission.dropped,
    )
    if has_budget:
        permission.check_prices(found)
    return found


@define
class _Permission:
    reached: Sequence[str]
    providers: Sequence[str]
    may_ask: Callable[[str], bool]
    allowed_fields: set[str]
    dropped: list[str]

    def of_fields(self, fields: Mapping[str, Any], path: str = "") -> dict[str, Any]:
        """Return the permitted fields of a body. Raises Refused for an unknown field."""
        found = {}
        for name, value in fields.items():
            is_allowed = name in self.allowed_fields
            if name == TOOLS and isinstance(value, list):
                lost = [tool for tool in value if not self._is_open(tool, self.reached)]
                self.dropped += [f"{path}{TOOLS} ({_type_of(tool)})" for tool in lost]
                if left := [tool for tool in value if tool not in lost]:
                    found[name] = left
            elif name not in KNOWN_FIELDS and not is_allowed:
                raise Refused(of_bad_request(_UNKNOWN.format(path + name, name)), 400)
            elif not self._is_open({name: value}, self.reached):
                self.dropped.append(path + name)
            elif not is_allowed and (router := _router_of(name, value)):
                place = f"{path}{name}.{router}"
                raise Refused(of_bad_request(_UNKNOWN.format(place, name)), 400)
            else:
                found[name] = value
        return found

    def check_prices(self, asked: Asked) -> None:
        """Raise Refused for a request of which the vendor might not report the whole price.

        It has a tool with unreported fees, turns off the usage report of a stream, or asks for a
        response that the vendor completes even if the client leaves.
        """
        extra = asked.options.get("extra") or {}
        fields = (extra, asked.own, asked.extra)
        for passed in (extra, asked.extra):
            usage = passed.get(USAGE)
            is_reported = isinstance(usage, Mapping) and usage.get("include_usage")
            if USAGE in passed and not is_reported:
                raise Refused(of_bad_request(_UNREPORTED), 400)
        if BACKGROUND not in self.allowed_fields and any(each.get(BACKGROUND) for each in fields):
            raise Refused(of_bad_request(_GOES_ON), 400)
        for tool in hosted_tools(asked.context, *fields):
            for name in _uncharged(tool):
                if f"{TOOLS}.{name}" not in self.allowed_fields:
                    raise Refused(of_bad_request(_UNCHARGED.format(name)), 400)

    def of_tool(self, tool: Tool) -> Tool:
        """Return a tool, with its provider's own fields if they are permitted."""
        if self._is_open(tool.metadata, self.providers):
            return tool
        self.dropped.append(f"{TOOLS}.{tool.name}")
        return replace(tool, metadata=None)

    def _is_open(self, data: Any, providers: Sequence[str]) -> bool:
        """Return True if the key may use all models that `data` names, at all providers."""
        names = [*_models(data)]
        return all(
            self.may_ask(f"{to}/{name}") for to in dict.fromkeys(providers) for name in names
        )


def _router_of(name: str, value: Any) -> str | None:
    """Return the name of a field in Gemini's configuration by which Google chooses the model."""
    if folded(name) != "generationconfig" or not isinstance(value, Mapping):
        return None
    return next((inner for inner in value if folded(inner) in ROUTERS), None)


def folded(name: str) -> str:
    """Return a field's name in lower case and without underscores.

    Google's servers accept both `ragCorpus` and `rag_corpus`, and others accept any case.
    """
    return name.casefold().replace("_", "")


def _models(data: Any, is_model: bool = False) -> Iterator[str]:
    """Yield the strings in fields that name models."""
    if isinstance(data, str):
        yield from [data] if is_model else []
    elif isinstance(data, dict):
        for name, value in data.items():
            is_inside = is_model and name not in _OVERRIDES
            yield from _models(value, is_inside or _NAMES_MODELS.search(name) is not None)
    elif isinstance(data, list):
        for value in data:
            yield from _models(value, is_model)


def _uncharged(tool: Mapping[str, Any]) -> Iterator[str]:
    """Yield the type or the fields that show that a tool may have unreported fees."""
    fields = [name for name, value in tool.items() if value is not None]
    kind = tool.get("type")
    if kind is None and (tool.keys() & _SCHEMAS or "function" in tool):
        kind = "function"
    place = tool.get("environment")
    if kind == "shell" and isinstance(place, Mapping) and place.get("type") == "local":
        kind = "local_shell"
    if kind is None:
        yield from (name for name in fields if name not in CHARGED_FIELDS)
    else:
        if _SUFFIX.sub("", str(kind), 1) not in CHARGED_TOOLS:
            yield str(kind)
        yield from (name for name in fields if name in UNCHARGED_FIELDS)


def _type_of(tool: Any) -> str:
    """Return the type of a tool; without a type, its first field."""
    if not isinstance(tool, dict):
        return str(tool)
    return str(tool["type"]) if "type" in tool else next(iter(tool), "")
