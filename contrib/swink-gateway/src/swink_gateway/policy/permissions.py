"""What the owner of a key with limits may say beside the name of a model.

Fields of a body that swink has no word for go to a provider as they are, and some choose who
answers: `models` and `preset` of OpenRouter, Anthropic's `fallbacks`, `draft_model`, a tool that
asks another model. Tomorrow's do it by names of tomorrow. A key with limited models or a budget is
therefore refused every field that no table of a protocol has, unless the configuration allows it.
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
"""Safe fields of vendors whose API is like one of the protocols."""

KNOWN_FIELDS = _OF_OTHERS.union(
    ID_FIELDS, PRICED_FIELDS, *(row.safe_fields for row in PROTOCOLS.values())
)
"""Fields of bodies of several APIs, none of which says by itself which model answers."""

TOOLS = "tools"

_UNKNOWN = (
    "{}: the gateway has no such field in its tables, and the models or the budget of this key are "
    "limited; the gateway's owner can allow the field with allowed_fields"
)


def permitted(
    asked: Asked, may_ask: Callable[[str], bool], allowed_fields: Collection[str] = ()
) -> Asked:
    """Return what is asked, without what may reach a model for which `may_ask` is false.

    It is asked with the name that the provider has for a model. What is left out is named among
    what is dropped. Raises Refused for a field that neither a table nor `allowed_fields` has.
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
        """Return the fields of a body that are let through. Raises Refused for an unknown one."""
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
        """Return a tool, with its provider's own fields if they are let through."""
        if self._is_open(tool.metadata):
            return tool
        self.dropped.append(f"{TOOLS}.{tool.name}")
        return replace(tool, metadata=None)

    def _is_open(self, data: Any) -> bool:
        return all(map(self.may_ask, _models(data)))


def _models(data: Any, is_model: bool = False) -> Iterator[str]:
    """Yield the texts of fields about models."""
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
