"""Apply the transforms of a route to a request.

Clients may also set options in a vendor's own words: in the option `extra`, in fields of a body
that swink does not model, at any depth, and in blocks that are sent unchanged. If a route limits
the length of answers or leaves options out, such data is removed. Cache marks, for which the option
`cache` stands, are on blocks and tools.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import evolve

from swink_core import Context, ExtensionBlock, Message, replace
from swink_core.providers import hosted_tools
from swink_gateway.policy.config import Transforms
from swink_gateway.policy.permissions import KNOWN_FIELDS, folded
from swink_gateway.protocols import Asked
from swink_gateway.protocols.failures import Refused, of_bad_request

__all__ = ["capped", "transformed"]

CACHE, MAX_TOKENS, TOOLS = "cache", "max_tokens", "tools"

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

VENDORS_WORDS: Mapping[str, frozenset[str]] = {
    option: frozenset(map(folded, names))
    for option, names in {
        TOOLS: ABOUT_TOOLS,
        CACHE: {
            "cachePoint", "cache_control", "prompt_cache_breakpoint", "prompt_cache_options",
            "prompt_cache_retention",
        },
        MAX_TOKENS: {
            "max_completion_tokens", "max_length", "max_new_tokens", "max_output_tokens",
            "n_predict", "num_predict",
        },
        "response_format": {
            "guided_choice", "guided_grammar", "guided_json", "guided_regex",
            "responseJsonSchema", "responseMimeType", "responseSchema", "structured_outputs",
        },
        "session_id": {"prompt_cache_key"},
        "stop": {"stop_sequences"},
        "thinking": {
            "effort", "enable_thinking", "include_reasoning", "prompt_mode", "reasoning",
            "reasoning_effort", "think", "thinkingConfig", "thinking_budget", "thinking_level",
        },
        "tool_choice": {"function_call", "functionCallingConfig"},
        "user": {"safety_identifier", "user_id"},
    }.items()
}  # fmt: skip
"""Body fields that set an option in a vendor's words, in the form that `folded` returns.

A field whose name ends in the name of an option, such as `random_seed`, sets this option too.
Sources: those of `ABOUT_TOOLS`, https://openrouter.ai/docs/api/reference/parameters,
https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html, and
https://github.com/ollama/ollama/blob/main/docs/api.md.
"""

_CLIENTS_DATA = frozenset(map(folded, (
    "client_metadata", "documents", "guided_json", "labels", "metadata", "prediction",
    "responseJsonSchema", "responseSchema", "schema", "structured_outputs", "tools",
)))  # fmt: skip
"""Fields with names that a client chooses, and tools, which have options for their own models."""

_INPUTS = frozenset({"arguments", "input", "input_schema", "parameters"})
"""Fields of blocks and tools that contain a tool's arguments, or a schema for them."""

_NO_TOOLS = (
    "tools: this model is offered without tools, and a block of the conversation defines one"
)


def transformed(asked: Asked, by: Transforms) -> Asked:
    """Return a changed request. Raises Refused for a tool in a block, if tools are left out."""
    if by.max_tokens is not None or by.leave_out:
        asked = _without_vendors_words(asked, by)
    context, own, dropped = asked.context, asked.own, [*asked.dropped]
    options = dict(asked.options)
    own_options = {n: v for n, v in asked.own_options.items() if n not in by.leave_out}
    for name in by.leave_out:
        if name == TOOLS:
            if context.tools:
                context = replace(context, tools=[])
                dropped += [] if TOOLS in dropped else [TOOLS]
            for about in ("tool_choice", "parallel_tool_calls"):
                options.pop(about, None)
            if any(hosted_tools(context)):
                raise Refused(of_bad_request(_NO_TOOLS), 400)
            continue
        is_said = name in options
        options.pop(name, None)
        if name == CACHE:
            marked = context, own
            context = _without_marks(context)
            own = {n: _unmarked(v) if n == TOOLS else v for n, v in own.items()}
            is_said = is_said or (context, own) != marked
        dropped += [name] if is_said else []
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
    return evolve(
        asked, context=context, options=options, own=own, own_options=own_options, dropped=dropped
    )


def capped(options: Mapping[str, Any], by: Transforms) -> dict[str, Any]:
    """Return options of a model; if they set `max_tokens`, at most the transforms' `max_tokens`."""
    if by.max_tokens is None or MAX_TOKENS not in options:
        return {**options}
    return {**options, MAX_TOKENS: min(options[MAX_TOKENS], by.max_tokens)}


def _without_marks(context: Context) -> Context:
    """Return a conversation without cache marks: in metadata, and in blocks sent unchanged."""
    prompt: Any = context.system_prompt
    if isinstance(prompt, list):
        prompt = _unmarked_blocks(prompt)
    messages = [_unmarked_message(message) for message in context.messages]
    tools = [replace(tool, metadata=_unmarked(tool.metadata)) for tool in context.tools]
    return replace(context, system_prompt=prompt, messages=messages, tools=tools)


def _unmarked_message(message: Message) -> Message:
    if isinstance(message.content, str):
        return message
    return replace(message, content=_unmarked_blocks(message.content))


def _unmarked_blocks(blocks: Sequence[Any]) -> list[Any]:
    """Return blocks without cache marks; a block that is only a mark is left out."""
    left: list[Any] = []
    for block in blocks:
        changed = replace(block, metadata=_unmarked(block.metadata))
        if isinstance(block, ExtensionBlock):
            changed = replace(changed, data=_unmarked(block.data))
        if not isinstance(block, ExtensionBlock) or changed.data or not block.data:
            left.append(changed)
    return left


def _unmarked(data: Any) -> Any:
    """Return a copy of JSON data without the fields for cache marks."""
    if isinstance(data, list):
        return [_unmarked(one) for one in data]
    if not isinstance(data, dict):
        return data
    return {
        name: value if name in _INPUTS else _unmarked(value)
        for name, value in data.items()
        if folded(name) not in VENDORS_WORDS[CACHE]
    }


def _without_vendors_words(asked: Asked, by: Transforms) -> Asked:
    """Remove the data in which a client could set what the route limits or leaves out."""

    options, dropped = dict(asked.options), [*asked.dropped]
    if options.pop("extra", None):
        dropped.append("options.extra")
    dropped += [f"call.extra.{name}" for name in asked.extra]
    limited = by.leave_out if by.max_tokens is None else (*by.leave_out, MAX_TOKENS)
    words = frozenset[str]().union(*(VENDORS_WORDS.get(option, ()) for option in limited))
    ends = tuple(map(folded, limited))

    def kept(data: Any, path: str) -> Any:
        """Return the rest of `data`, which is at a path of the body; append to `dropped`."""
        if isinstance(data, list):
            return [kept(one, f"{path}[{at}]") for at, one in enumerate(data)]
        if not isinstance(data, dict):
            return data
        rest = {}
        for name, value in data.items():
            at, plain = f"{path}.{name}" if path else name, folded(name)
            is_unknown = not path and name not in KNOWN_FIELDS and name not in ABOUT_TOOLS
            if is_unknown or plain in words or plain.endswith(ends):
                dropped.append(at)
            elif plain in _CLIENTS_DATA:
                rest[name] = value
            elif (inner := kept(value, at)) or not value:  # not emptied
                rest[name] = inner
        return rest

    own = kept(asked.own, "")
    exact = {} if "thinking" in by.leave_out else asked.exact_thinking
    return evolve(asked, options=options, own=own, exact_thinking=exact, extra={}, dropped=dropped)
