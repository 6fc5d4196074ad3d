"""Pass fields that exist only in a vendor's protocol to a provider with the same wire format.

When a request is parsed, the provider that will answer is not known yet. Content that swink does
not model (extra body fields, a vendor's own tools and blocks, opaque data) is stored under the name
of the wire format. A provider with that wire format receives this content under the name of the
provider. For any other provider, the fields are reported as dropped, and the blocks follow the
core's rules for blocks of other providers.
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
    ProviderInfo,
    StreamErrorKind,
    SystemMessage,
    TextBlock,
    ThinkingLevel,
    Tool,
    UserMessage,
    replace,
)
from swink_core.providers import Fitted, rule_of
from swink_gateway.protocols import Asked
from swink_gateway.protocols.failures import Refused, of_bad_request
from swink_gateway.protocols.options import HIGHEST, MARK
from swink_gateway.protocols.tool_names import Known

__all__ = [
    "SHARED",
    "Spoken",
    "addressed",
    "answerable",
    "answering",
    "check_named_by_client",
    "lowers_effort",
    "names_none",
    "own_api",
    "with_exact_thinking",
    "with_shared",
]

MOST_KNOWN = 1000
"""The maximum number of models whose API is cached.

The number is limited because clients choose the names of models.
"""


def check_named_by_client(client: Client, model: Model) -> None:
    """Raise InvalidModel for a model that only the operator may name.

    A provider that runs models on this machine may accept a file path as a model, or download a
    model by name. Clients may use only the models that the provider lists. A provider that runs
    commands can be used only in routes.
    """
    info = client.catalog.provider(model.provider)
    if info is not None and info.runs_commands:
        raise InvalidModel(
            f"{model.provider!r} runs a program that can read files and run commands on the "
            "gateway's machine: clients can use it only in a route of the configuration"
        )
    is_here = info is not None and info.base_url is None and info.auth == "none"
    if is_here and model.info is None:
        raise InvalidModel(
            f"{str(model)!r} is not a listed model: clients cannot name files or downloads of a "
            "provider on the gateway's machine; GET /v1/models lists the models"
        )


LEANT_ON = {"thread": "thread_unsupported_request"}
"""Body fields on which a client's next request relies, with the error code if they are refused.

A client that gets the code sends the whole conversation instead.
"""


SHARED = (
    "metadata", "prompt_cache_retention", "safety_identifier", "service_tier", "store",
)  # fmt: skip
"""Fields with the same meaning in Chat Completions and Responses.

Source: the request bodies of both APIs in https://developers.openai.com/api/reference.
"""


PARTLY_READ = ("output_config", "reasoning", "thinking")
"""Fields of which a part is an option; the names of the other parts are reported."""


def own_api(info: ProviderInfo | None, wire_format: str) -> str | None:
    """Return the name of the API with this wire format at a provider with several APIs.

    Return `None` if the provider does not have this API, or has only one API.
    """
    family, _, api = wire_format.rpartition("-")
    if info is None or not info.wire_format.startswith(f"{family}-"):
        return None
    return api if api in info.settings.get("api", ()) else None


class Spoken:
    """Chooses, for each request of a client, the wire format of the request to the provider."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[tuple[str, str, str], str] = {}

    def by(self, model: Model, asked: Asked, wire_format: str, own: Mapping[str, Any]) -> str:
        """Return the format in which the provider gets a request of a client with `wire_format`.

        `own` are options that override the client's. If the provider has several APIs and the
        client's is one of them, the following are searched in order for the name of an API: the
        operator's setting, the model's catalog entry, the catalog's rules for calls with such
        options, the provider's dialect. If none of them names an API, the result is the provider's
        usual wire format, or `""` for an unknown provider. Raises UsageError for an invalid call.
        """
        info = self._client.catalog.provider(model.provider)
        if info is None:
            return ""
        if own_api(info, wire_format) is None:
            return info.wire_format
        family = wire_format.rpartition("-")[0]
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
            self._known[known] = f"{family}-{api}"  # the same for every request
        return f"{family}-{api}" if api else info.wire_format

    def is_own(self, provider: str, wire_format: str) -> bool:
        """Return True if a provider with several APIs serves `wire_format` as one of them."""
        return own_api(self._client.catalog.provider(provider), wire_format) is not None


def answerable(asked: Asked) -> Context:
    """Return the conversation; if it has only system messages, the last one becomes a user message.

    Most vendors refuse a request without a user message.
    """
    messages = asked.context.messages
    if not messages or not all(isinstance(message, SystemMessage) for message in messages):
        return asked.context
    asked.dropped.append("the role of the last message")
    return replace(asked.context, messages=[*messages[:-1], UserMessage(messages[-1].content)])


def answering(
    chain: Sequence[tuple[Model, Mapping[str, Any]]],
    spoken: Sequence[str],
    asked: Asked,
    wire_format: str,
) -> tuple[list[tuple[Model, dict[str, Any]]], list[str]]:
    """Return the models of a chain that can give the requested number of answers.

    Other models are left out, because a fallback to them would give only one answer. `spoken` are
    the wire formats of the requests to the models; the formats for the returned models are returned
    as a second list. Raises Refused if no model is left.
    """
    left: list[tuple[Model, dict[str, Any]]] = []
    for (model, own), speaks in zip(chain, spoken, strict=True):
        if speaks != wire_format:
            continue
        is_other = bool(left) and model.provider != left[0][0].provider
        if is_other or "extra" in own:  # such a model does not get the fields of the call
            path = asked.answers_field.split(".")
            own = {**own, "extra": _with(own.get("extra"), path, asked.answers)}
        left.append((model, dict(own)))
    if not left:
        why = (
            f"{asked.answers_field} is {asked.answers}: {chain[0][0]} does not use the client's "
            "protocol, and the gateway cannot get several answers over another one; send a request "
            "for each answer"
        )
        raise Refused(of_bad_request(why), 400)
    return left, [wire_format] * len(left)


def lowers_effort(model: Model, asked: Asked) -> bool:
    """Return True if the client asks for the effort `max`, and the model gets a lower one."""
    lowered = asked.highest_effort and "thinking" in asked.options
    return bool(lowered) and rule_of(model).efforts.get(ThinkingLevel.EXTRA_HIGH) != HIGHEST


_OF_CLIENTS = ("extra", "headers", "settings")
"""Options of clients that apply to a single provider."""


def with_shared(
    targets: Sequence[tuple[Any, Mapping[str, Any]]],
    chain: Sequence[tuple[Model, Mapping[str, Any]]],
    options: Mapping[str, Any],
) -> list[tuple[Any, Mapping[str, Any]]]:
    """Return the targets of a call; those of the first model's provider get the options of clients.

    The core applies `_OF_CLIENTS` in the options of the call to the first model's address only,
    because a caller's options may contain credentials; a client's do not. The operator's options
    override them; of the headers, only those with the same name.
    """
    shared = {name: options[name] for name in _OF_CLIENTS if options.get(name)}
    if not shared:
        return [*targets]
    first = chain[0][0].provider
    models = (model for model, _ in chain)
    return [
        (to, _with_clients(own, shared) if model.provider == first else own)
        for model, (to, own) in zip(models, targets, strict=True)
    ]


def _with_clients(own: Mapping[str, Any], shared: Mapping[str, Any]) -> dict[str, Any]:
    found = {**shared, **own}
    if "headers" in shared and "headers" in own:
        names = {name.lower() for name in own["headers"]}
        kept = {name: v for name, v in shared["headers"].items() if name.lower() not in names}
        found["headers"] = {**kept, **own["headers"]}
    return found


def with_exact_thinking(
    client: Client,
    chain: Sequence[tuple[Model, Mapping[str, Any]]],
    spoken: Sequence[str],
    asked: Asked,
    wire_format: str,
) -> list[tuple[Any, dict[str, Any]]]:
    """Return the targets of a call without the option `thinking`, which becomes theirs.

    A model with efforts gets the fields in `exact_thinking` in place of the level: `extra`
    overrides an option of the target. Other models, and models for which the operator sets
    `thinking` or `extra`, get the level. If the first model is one of them, the fields are reported
    as dropped. `spoken` are the wire formats of the requests to the models.
    """
    level = asked.options["thinking"]
    targets: list[tuple[Any, dict[str, Any]]] = []
    for (model, own), speaks in zip(chain, spoken, strict=True):
        has_efforts = speaks == wire_format and level in rule_of(model).efforts
        if has_efforts and own.keys().isdisjoint({"thinking", "extra"}):
            is_other = model.provider != chain[0][0].provider
            fields = {} if is_other else asked.own  # as in `with_shared`
            exact = {n: {**fields.get(n, {}), **part} for n, part in asked.exact_thinking.items()}
            target = client.target(model, thinking=level)
            targets.append((target, {**own, "extra": {**fields, **exact}}))
            continue
        if not targets:
            asked.dropped += _named_fields(asked.exact_thinking)
        targets.append((model, {"thinking": level, **own}))
    return targets


def _with(fields: Any, path: Sequence[str], value: Any) -> dict[str, Any]:
    """Return a copy of an object's fields with `value` at a path of nested fields."""
    fields = fields if isinstance(fields, Mapping) else {}
    name, *inner = path
    return {**fields, name: _with(fields.get(name), inner, value) if inner else value}


def addressed(
    asked: Asked, wire_format: str, provider: str, speaks: str | None, is_own: bool = False
) -> Asked:
    """Prepare a request for `provider`, which uses the wire format `speaks`.

    `is_own`: the provider also serves the client's API, but another one is used; fields common to
    both are passed on. Raises Refused for a field that must not be dropped.
    """
    if speaks != wire_format:
        kept = {name: asked.own[name] for name in SHARED if is_own and name in asked.own}
        own = {n: v for n, v in asked.own.items() if n not in kept and n != MARK}
        if "cache" in asked.own_options:
            asked = evolve(asked, context=_unmarked(asked.context))
        asked = evolve(asked, own=own)
        for name in [name for name in LEANT_ON if asked.own.get(name)]:
            why = f"{provider} has no {name}: send the whole conversation"
            kind = StreamErrorKind.UNSUPPORTED
            raise Refused(Error(error_message=why, error_kind=kind, code=LEANT_ON[name]), 400)
        dropped = [*asked.dropped, *_named(asked)]
        dropped += [] if asked.own_places else _own_blocks(asked.context, wire_format)
        dropped += asked.headers
        options = dict(asked.options)
        if "tools" in asked.own and names_none(options.get("tool_choice"), asked.context.tools):
            dropped.append("tool_choice")  # it refers to dropped tools
            del options["tool_choice"]
        if kept:
            options["extra"] = kept
        return evolve(asked, options=options, dropped=dropped, own={}, headers={})
    options = dict(asked.options)
    for name in asked.own_options.keys() & options.keys():
        if (own_option := asked.own_options[name]) is None:
            del options[name]
        else:
            options[name] = own_option
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


def _unmarked(context: Context) -> Context:
    """Return a conversation without the cache marks for which the option `cache` stands."""
    prompt = context.system_prompt
    tools = []
    for tool in context.tools:
        own = {name: _without_mark(fields) for name, fields in (tool.metadata or {}).items()}
        tools.append(replace(tool, metadata={n: f for n, f in own.items() if f} or None))
    if isinstance(prompt, list):
        prompt = "\n\n".join(block.text for block in prompt if isinstance(block, TextBlock))
    return replace(context, system_prompt=prompt or None, tools=tools)


def _without_mark(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name != MARK}


def names_none(choice: Any, tools: Sequence[Tool]) -> bool:
    """Return True if a tool choice refers to a tool that is not in `tools`."""
    if choice in (None, "auto", "none"):
        return False
    return not tools if choice == "required" else choice not in [tool.name for tool in tools]


def _named(asked: Asked) -> list[str]:
    if asked.own_places:
        return asked.own_places
    named = _named_fields(asked.own)
    for tool in asked.context.tools:
        for fields in (tool.metadata or {}).values():
            names = list(fields)
            if asked.tools.get(tool.name, Known(tool.name)).is_free_text:
                inner = fields.get("custom", fields)  # only a grammar is lost
                names = [name for name in ("format",) if name in inner]
            named += [f"tools.{tool.name}.{name}" for name in names]
    return named


def _named_fields(fields: Mapping[str, Any]) -> list[str]:
    named = []
    for name, value in fields.items():
        if name == "tools":
            named += [f"tools ({tool.get('type')})" for tool in value]
        elif name in PARTLY_READ and isinstance(value, Mapping):
            named += [f"{name}.{inner}" for inner in value]
        else:
            named.append(name)
    return named


def _own_blocks(context: Context, wire_format: str) -> list[str]:
    """Return the paths of blocks in answers that only providers of this wire format support.

    An example is audio that is known only by its id.
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
