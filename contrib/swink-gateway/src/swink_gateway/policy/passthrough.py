"""What a client's protocol calls its own, given to a provider that speaks the same.

A protocol's reader does not know who will answer. What swink has no word for (fields of the body,
a vendor's own tools and blocks, opaque data that nobody sealed) it keeps under the name of its wire
format. It goes to a provider of that wire format under the provider's name, and to no other: there
its fields are named among what is dropped, and its blocks fall under the core's rules for what is
another's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import evolve

from swink_core import (
    AssistantMessage,
    Block,
    Client,
    Context,
    Error,
    ExtensionBlock,
    FileIdSource,
    InvalidModel,
    Message,
    Model,
    StreamErrorKind,
    SystemMessage,
    Tool,
    UserMessage,
    replace,
)
from swink_core.providers import Fitted
from swink_gateway.protocols import Asked
from swink_gateway.protocols.failures import Refused
from swink_gateway.protocols.tool_names import Known

__all__ = ["Spoken", "addressed", "answerable", "check_named_by_client"]

MOST_KNOWN = 1000
"""Models of which it is remembered over which API they are asked: clients choose their names."""


def check_named_by_client(client: Client, model: Model) -> None:
    """Raise InvalidModel for a model that a client cannot name, but the gateway's owner can.

    A provider that is no service, but runs on this machine, may take the path of a file for a
    model, or the name of one to download: clients name those that it lists.
    """
    info = client.catalog.provider(model.provider)
    is_here = info is not None and info.base_url is None and info.auth == "none"
    if is_here and model.info is None:
        raise InvalidModel(
            f"{str(model)!r} is not listed, and it would be this machine that runs it: clients "
            "name no files of it, and nothing to fetch"
        )


LEANT_ON = {"thread": "thread_unsupported_request"}
"""Fields of a body on which clients lean in their next request, and the word that refuses them:
who is told goes on without."""


SHARED = (
    "metadata", "prompt_cache_retention", "safety_identifier", "service_tier", "store",
)  # fmt: skip
"""Fields that mean the same in Chat Completions and in Responses.

Source: https://developers.openai.com/api/reference, the bodies of both.
"""


class Spoken:
    """In which wire formats models are asked by clients of `client`."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[tuple[str, str, str], str] = {}

    def by(self, model: Model, asked: Asked, wire_format: str, own: Mapping[str, Any]) -> str:
        """Return the one in which a model is asked this by a client that speaks `wire_format`.

        `own` are options that go before the client's.
        A provider with several APIs is asked over the one that its owner set, or else the model's
        own row names, its rules for such a call, or its dialect; where none of them is the client's
        it does not matter which. Raises UsageError for a call that cannot be made.
        """
        info = self._client.catalog.provider(model.provider)
        if info is None:
            return ""
        family = info.wire_format.rpartition("-")[0]
        if wire_format not in [f"{family}-{api}" for api in info.settings.get("api", ())]:
            return info.wire_format
        known = model.provider, model.id, wire_format
        is_set = "settings" in own or "settings" in asked.options
        if not is_set and known in self._known:
            return self._known[known]
        said = {**asked.options, "extra": asked.own, **own}
        options = self._client.target(model, **said).options
        api = options.settings.get("api") or (model.info.api if model.info else None)
        if api is None:
            call = Fitted(model, asked.context, options)
            api = call.wanted_api or info.dialect.get("api")
        elif not is_set and len(self._known) < MOST_KNOWN:
            self._known[known] = f"{family}-{api}"  # whatever is asked
        return f"{family}-{api}" if api else info.wire_format

    def is_own(self, provider: str, wire_format: str) -> bool:
        """Tell whether a provider with several APIs serves `wire_format` as one of them."""
        info = self._client.catalog.provider(provider)
        family, _, api = wire_format.rpartition("-")
        if info is None or not info.wire_format.startswith(f"{family}-"):
            return False
        return api in info.settings.get("api", ())


def answerable(asked: Asked) -> Context:
    """Return a conversation that a model can answer: the last of nothing but instructions is said.

    Some vendors answer instructions alone, most do not.
    """
    messages = asked.context.messages
    if not messages or not all(isinstance(message, SystemMessage) for message in messages):
        return asked.context
    asked.dropped.append("the role of the last message")
    return replace(asked.context, messages=[*messages[:-1], UserMessage(messages[-1].content)])


def addressed(
    asked: Asked, wire_format: str, provider: str, speaks: str | None, is_own: bool = False
) -> Asked:
    """Return what is asked of `provider`, which speaks the wire format `speaks`.

    `is_own`: the provider serves the client's API as well, and its other one is used. Fields that
    both have then go with the request. Raises Refused for what must not be dropped.
    """
    if speaks != wire_format:
        kept = {name: asked.own[name] for name in SHARED if is_own and name in asked.own}
        asked = evolve(asked, own={n: v for n, v in asked.own.items() if n not in kept})
        for name in [name for name in LEANT_ON if asked.own.get(name)]:
            why = f"{provider} has no {name}: send the whole conversation"
            kind = StreamErrorKind.UNSUPPORTED
            raise Refused(Error(error_message=why, error_kind=kind, code=LEANT_ON[name]), 400)
        dropped = [*asked.dropped, *_named(asked)]
        dropped += [] if asked.own_places else _own_blocks(asked.context, wire_format)
        dropped += ["anthropic-beta"] if asked.headers else []
        options = dict(asked.options)
        if "tools" in asked.own and _names_none(options.get("tool_choice"), asked.context.tools):
            dropped.append("tool_choice")  # it is about what is dropped
            del options["tool_choice"]
        if kept:
            options["extra"] = kept
        return evolve(asked, options=options, dropped=dropped, own={}, headers={})
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


def _names_none(choice: Any, tools: Sequence[Tool]) -> bool:
    """Tell whether a choice, if there is one, is none of these tools."""
    if choice in (None, "auto", "none"):
        return False
    return not tools if choice == "required" else choice not in [tool.name for tool in tools]


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
            names = list(fields)
            if asked.tools.get(tool.name, Known(tool.name)).is_free_text:
                inner = fields.get("custom", fields)  # of which no more is lost than a grammar
                names = [name for name in ("format",) if name in inner]
            named += [f"tools.{tool.name}.{name}" for name in names]
    return named


def _own_blocks(context: Context, wire_format: str) -> list[str]:
    """Name what a model said in blocks of the protocol's own, which nobody else is told.

    Such as sound that is known by its id alone.
    """
    said = [m.content for m in context.messages if isinstance(m, AssistantMessage)]
    own = [b for content in said for b in content if isinstance(b, ExtensionBlock)]
    return list(dict.fromkeys(f"messages ({b.kind})" for b in own if b.provider == wire_format))


def _message(message: Message, wire_format: str, provider: str) -> Message:
    if isinstance(message, AssistantMessage) and message.provider == wire_format:
        message = replace(message, provider=provider)
    if isinstance(message.content, str):
        return message
    return replace(message, content=[_block(b, wire_format, provider) for b in message.content])


def _block(block: Block, wire_format: str, provider: str) -> Block:
    source: Any = getattr(block, "source", None)
    if isinstance(block, ExtensionBlock) and block.provider == wire_format:
        return replace(block, provider=provider)
    if isinstance(source, FileIdSource) and source.provider == wire_format:
        named: Any = {"source": replace(source, provider=provider)}
        return replace(block, **named)
    return block


def _tool(tool: Tool, wire_format: str, provider: str) -> Tool:
    if not tool.metadata or wire_format not in tool.metadata:
        return tool
    return replace(tool, metadata={provider: tool.metadata[wire_format]})
