"""What a client's protocol calls its own, given to a provider that speaks the same.

A protocol's reader does not know who will answer. What swink has no word for (fields of the body,
a vendor's own tools and blocks, opaque data that nobody sealed) it keeps under the name of its wire
format. It goes to a provider of that wire format under the provider's name, and to no other: there
its fields are named among what is dropped, and its blocks fall under the core's rules for what is
another's.
"""

from __future__ import annotations

from typing import Any

from attrs import evolve

from swink_core import (
    AssistantMessage,
    Block,
    Client,
    Context,
    ExtensionBlock,
    FileIdSource,
    Message,
    Model,
    Tool,
)
from swink_core.providers import Fitted, rule_of
from swink_gateway.protocols import Asked

__all__ = ["addressed", "spoken_by"]


def spoken_by(client: Client, model: Model, asked: Asked) -> str:
    """Return the wire format in which a model is asked this.

    A provider with several APIs is asked over the one that its owner set, or else the model's own
    row names, its rules for such a call, or its dialect. Raises UsageError for a call that cannot
    be made.
    """
    info = client.catalog.provider(model.provider)
    if info is None:
        return ""
    if "api" not in info.settings:
        return info.wire_format
    options = client.stream(model, asked.context, **asked.options).call.options
    api = options.settings.get("api") or (model.info.api if model.info else None)
    if api is None:
        ruled = rule_of(model, call=Fitted(model, asked.context, options))
        api = ruled.api or info.dialect.get("api")
    family = info.wire_format.rpartition("-")[0]
    return f"{family}-{api}" if api else info.wire_format


def addressed(asked: Asked, wire_format: str, provider: str, speaks: str | None) -> Asked:
    """Return what is asked of `provider`, which speaks the wire format `speaks`."""
    if speaks != wire_format:
        dropped = [*asked.dropped, *_named(asked), *(["anthropic-beta"] if asked.headers else [])]
        return evolve(asked, dropped=dropped, own={}, headers={})
    options = dict(asked.options)
    if asked.own:
        options["extra"] = asked.own
    if asked.headers:
        options["headers"] = asked.headers
    context = Context(
        [_message(message, wire_format, provider) for message in asked.context.messages],
        asked.context.system_prompt,
        [_tool(tool, wire_format, provider) for tool in asked.context.tools],
    )
    return evolve(asked, context=context, options=options)


def _named(asked: Asked) -> list[str]:
    if asked.own_places:
        return asked.own_places
    named = []
    for name, value in asked.own.items():
        if name == "tools":
            named += [f"tools ({tool.get('type')})" for tool in value]
        else:
            named.append(name)
    for tool in asked.context.tools:
        for fields in (tool.metadata or {}).values():
            named += [f"tools.{tool.name}.{name}" for name in fields]
    return named


def _message(message: Message, wire_format: str, provider: str) -> Message:
    if isinstance(message, AssistantMessage) and message.provider == wire_format:
        message = evolve(message, provider=provider)
    if isinstance(message.content, str):
        return message
    return evolve(message, content=[_block(b, wire_format, provider) for b in message.content])


def _block(block: Block, wire_format: str, provider: str) -> Block:
    source: Any = getattr(block, "source", None)
    if isinstance(block, ExtensionBlock) and block.provider == wire_format:
        return evolve(block, provider=provider)
    if isinstance(source, FileIdSource) and source.provider == wire_format:
        named: Any = {"source": evolve(source, provider=provider)}
        return evolve(block, **named)
    return block


def _tool(tool: Tool, wire_format: str, provider: str) -> Tool:
    if not tool.metadata or wire_format not in tool.metadata:
        return tool
    return evolve(tool, metadata={provider: tool.metadata[wire_format]})
