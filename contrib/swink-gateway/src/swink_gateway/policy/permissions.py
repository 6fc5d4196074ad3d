"""Body fields that the owner of a limited key may set.

Fields that swink does not model pass unchanged to a provider, and some choose the model: `models`
and `preset` of OpenRouter, `fallbacks` of Anthropic, `draft_model`, a tool that calls another
model. Future fields may do so as well. A key with limited models or a budget may therefore use only
the fields in a protocol's table, and those that the configuration allows.
"""

from __future__ import annotations

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

_UNKNOWN = (
    "{}: the gateway does not know this field, and the models or the budget of this key are "
    "limited; the gateway's owner can allow the field with allowed_fields"
)


def permitted(
    asked: Asked, may_ask: Callable[[str], bool], allowed_fields: Collection[str] = ()
) -> Asked:
    """Return a request without content that could reach a model for which `may_ask` returns False.

    `may_ask` is called with the name by which a provider calls a model. Removed content is reported
    as dropped.
    Raises Refused for a field that is in neither a table nor `allowed_fields`.
    """
    permission = _Permission(may_ask, {*allowed_fields}, [*asked.dropped])
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
    dropped: list[str]

    def of_fields(self, fields: Mapping[str, Any], path: str = "") -> dict[str, Any]:
        """Return the permitted fields of a body. Raises Refused for an unknown field."""
        found = {}
        for name, value in fields.items():
            if name == TOOLS and isinstance(value, list):
                lost = [tool for tool in value if not self._is_open(tool)]
                self.dropped += [f"{path}{TOOLS} ({_type_of(tool)})" for tool in lost]
                if left := [tool for tool in value if tool not in lost]:
                    found[name] = left
            elif name in self.allowed_fields:
                found[name] = value
            elif name not in KNOWN_FIELDS:
                raise Refused(of_bad_request(_UNKNOWN.format(path + name)), 400)
            elif self._is_open({name: value}):
                found[name] = value
            else:
                self.dropped.append(path + name)
        return found

    def of_tool(self, tool: Tool) -> Tool:
        """Return a tool, with its provider's own fields if they are permitted."""
        if self._is_open(tool.metadata):
            return tool
        self.dropped.append(f"{TOOLS}.{tool.name}")
        return replace(tool, metadata=None)

    def _is_open(self, data: Any) -> bool:
        return all(map(self.may_ask, _models(data)))


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


def _type_of(tool: Any) -> str:
    return str(tool.get("type") or next(iter(tool), "")) if isinstance(tool, dict) else str(tool)
