"""What the owner of a key for some models alone may say beside the name of one.

Fields of a body that swink has no word for go to a provider as they are, and some choose who
answers: `models` and `preset` of OpenRouter, Anthropic's `fallbacks`, `draft_model`, a tool that
asks another model. Tomorrow's do it by names of tomorrow, so that what is known to choose nobody is
let through, and not what is known to choose kept back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from attrs import define, evolve

from swink_core import Tool, replace
from swink_gateway.protocols import Asked
from swink_gateway.protocols.table import PROTOCOLS

__all__ = ["CHOOSE_NOBODY", "permitted"]

_OF_OTHERS = frozenset({
    "chat_template_kwargs", "citation_options", "documents", "guided_choice", "guided_grammar",
    "guided_json", "guided_regex", "keep_alive", "options", "prompt_mode", "reasoning_format",
    "search_domain_filter", "search_mode", "search_parameters", "search_recency_filter",
    "structured_outputs", "usage",
})  # fmt: skip
"""Safe fields of vendors whose API is like one of the protocols."""

CHOOSE_NOBODY = _OF_OTHERS.union(*(row.safe_fields for row in PROTOCOLS.values()))
"""Fields with texts in them, of bodies of several APIs, none of which says which model answers."""

TOOLS = "tools"


def permitted(asked: Asked, may_ask: Callable[[str], bool]) -> Asked:
    """Return what is asked, without what may reach a model for which `may_ask` is false.

    It is asked with the name that the provider has for a model. What is left out is named among
    what is dropped.
    """
    permission = _Permission(may_ask, [*asked.dropped])
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
    dropped: list[str]

    def of_fields(self, fields: Mapping[str, Any], path: str = "") -> dict[str, Any]:
        """Return the fields of a body that are let through."""
        found = {}
        for name, value in fields.items():
            if name == TOOLS and isinstance(value, list):
                lost = [tool for tool in value if not self._is_open(tool)]
                self.dropped += [f"{path}{TOOLS} ({_type_of(tool)})" for tool in lost]
                if left := [tool for tool in value if tool not in lost]:
                    found[name] = left
            elif self._is_open({name: value}) and (name in CHOOSE_NOBODY or not _says(value)):
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


def _says(value: Any) -> bool:
    """Tell whether there is a text in a value: a number and a yes name nobody."""
    return next(_models(value, is_model=True), None) is not None


def _type_of(tool: Any) -> str:
    return str(tool.get("type") or next(iter(tool), "")) if isinstance(tool, dict) else str(tool)
