"""Apply the transforms of a route to a request.

Clients may also set options in a vendor's own words: in the option `extra`, in fields of a body
that swink does not model, and in blocks that are sent unchanged. If a route limits the length of
answers or leaves options out, such data is removed.
"""

from __future__ import annotations

from typing import Any

from attrs import evolve

from swink_core import replace
from swink_core.providers import hosted_tools
from swink_gateway.policy.config import Transforms
from swink_gateway.policy.permissions import KNOWN_FIELDS
from swink_gateway.protocols import Asked
from swink_gateway.protocols.failures import Refused, of_bad_request

__all__ = ["transformed"]

TOOLS = "tools"

ABOUT_TOOLS = frozenset({
    "enable_search", "function_call", "functions", "max_tool_calls", "mcp_servers",
    "search_parameters", "toolConfig", "tool_choice", "tools", "web_search_options",
})  # fmt: skip
"""Body fields that define tools or turn on a search of the vendor.

Sources: https://developers.openai.com/api/reference/resources/chat,
https://platform.claude.com/docs/en/api/messages, https://ai.google.dev/api/generate-content,
https://docs.x.ai/docs/guides/live-search,
https://help.aliyun.com/zh/model-studio/web-search.
"""

_NO_TOOLS = (
    "tools: this model is offered without tools, and a block of the conversation defines one"
)


def transformed(asked: Asked, by: Transforms) -> Asked:
    """Return a changed request. Raises Refused for a tool in a block, if tools are left out."""
    if by.max_tokens is not None or by.leave_out:
        asked = _without_vendors_words(asked, by)
    context, dropped = asked.context, [*asked.dropped]
    options = dict(asked.options)
    for name in by.leave_out:
        if name == TOOLS:
            if context.tools:
                context = replace(context, tools=[])
                dropped += [] if TOOLS in dropped else [TOOLS]
            for about in ("tool_choice", "parallel_tool_calls"):
                options.pop(about, None)
            if any(hosted_tools(context)):
                raise Refused(of_bad_request(_NO_TOOLS), 400)
        elif name in options:
            del options[name]
            dropped.append(name)
    options = {**by.defaults, **options}
    if by.max_tokens is not None:
        options["max_tokens"] = min(options.get("max_tokens") or by.max_tokens, by.max_tokens)
    if by.system_prompt is not None:
        prompt: Any = context.system_prompt
        if isinstance(prompt, list):
            prompt = [by.system_prompt, *prompt]
        else:
            prompt = "\n\n".join(filter(None, [by.system_prompt, prompt]))
        context = replace(context, system_prompt=prompt)
    return evolve(asked, context=context, options=options, dropped=dropped)


def _without_vendors_words(asked: Asked, by: Transforms) -> Asked:
    """Remove the data in which a client could set what the route limits or leaves out."""

    def is_kept(name: str) -> bool:
        if name in ABOUT_TOOLS:
            return TOOLS not in by.leave_out
        return name in KNOWN_FIELDS and not any(map(name.endswith, by.leave_out))

    options, dropped = dict(asked.options), [*asked.dropped]
    if options.pop("extra", None):
        dropped.append("options.extra")
    dropped += [f"call.extra.{name}" for name in asked.extra]
    dropped += [name for name in asked.own if not is_kept(name)]
    own = {name: value for name, value in asked.own.items() if is_kept(name)}
    return evolve(asked, options=options, own=own, extra={}, dropped=dropped)
