"""Prevent clients from using each other's data at a vendor, where they share one account.

A vendor stores files, conversations, vector stores, containers, caches and answers, and later
requests refer to them by id. An id belongs to the key whose answer contained it; the configuration
can allow further ids. A request with any other id is refused with 404, whether or not the id exists
at the vendor.

Ids are recognized by field names: those in a protocol's table, and any other field whose name ends
like `file_id` or `fileIds`. A value that is the full name of a resource of Google Cloud or of a
preset of OpenRouter is an id in every field. Tools, schemas and labels that the client defines are
not searched, and neither are texts for the model.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any
from urllib.parse import unquote

import msgspec
from attrs import evolve

from swink_core import (
    AssistantMessage,
    Block,
    Call,
    Client,
    Context,
    ExtensionBlock,
    FileIdSource,
    Model,
    SystemMessage,
    TextBlock,
    UrlSource,
    dump,
)
from swink_gateway.policy.permissions import folded
from swink_gateway.policy.rules import is_like
from swink_gateway.policy.unicode_forms import compatible
from swink_gateway.protocols import Asked
from swink_gateway.protocols.failures import Refused, of_bad_request
from swink_gateway.protocols.table import ID_FIELDS

__all__ = [
    "MOST_URL",
    "Names",
    "check_ids",
    "distinct",
    "ids_in_answer",
    "ids_in_request",
    "ids_unknown_to",
    "renamed",
    "with_names",
    "without_texts",
]

_ID_NAME = re.compile(r".*((?i:_ids?)|[a-z](Id|ID)s?)")
"""Matches the names of fields that contain an id."""


_ID_FIELDS = frozenset(map(folded, ID_FIELDS))

_FILE_ADDRESS = re.compile(r"//generativelanguage\.googleapis\.com|/v1[a-z0-9]*/+files/")
"""A part of the URL of every file at Google (https://ai.google.dev/api/files)."""

_STORED = frozenset({
    "agent", "agentreference", "apikeysecret", "apikeysecretversion", "credentialsecret",
    "indexname", "preset", "ragcorpora", "serviceaccount",
})  # fmt: skip
"""Further fields that name data which an account stores or is allowed to read.

The names are in the form that `folded` returns. Examples are the indexes of Azure's
`data_sources`, agents of Azure, presets of OpenRouter, and corpora and secrets of Google Cloud.
"""

_IS_FILE = re.compile(r"\s*fileid://", re.IGNORECASE)

_STORED_MODEL = re.compile(r"@preset/|:prompt/", re.IGNORECASE)
"""Matches the names of presets of OpenRouter and of prompts that Bedrock stores."""

_STORED_VALUE = re.compile(
    r"\s*(?:(?:(?:https?:)?//[\w.-]+/+(?:v\w+/+)?)?projects/+[^/\s]+/+\S+|[^\s@]*@preset/\S+)\s*",
    re.IGNORECASE,
)
"""Matches the full name of a resource of Google Cloud, or a model with a preset of OpenRouter.

Vertex AI reads search engines, corpora and secrets by such names, and OpenRouter's `models`,
plugins and tools contain presets.
"""

_FILE_IN_TEXT = re.compile(r"fileid://([^\s,]+)", re.IGNORECASE)
"""Matches the reference to a file in a message for Qwen-Long.

Source: https://www.alibabacloud.com/help/en/model-studio/long-context-qwen-long
"""

MOST_NAMED = 2_000
"""The maximum number of ids in a request, which are looked up before a limit of the key counts."""

MOST_NAME = 4_096
"""The most characters of a value that is compared with `_STORED_VALUE`; names are shorter."""

MOST_URL = 65_536
"""The maximum length, in characters, of a URL that is checked.

Decoding a URL takes a hundred times its memory.
"""

_OTHER_IDS = frozenset({
    "app_id", "call_id", "client_id", "event_id", "external_id", "generation_id", "model_id",
    "modelId", "request_id", "search_id", "session_id", "span_id", "tool_call_id", "tool_use_id",
    "toolCallId", "trace_id", "user_id",
})  # fmt: skip
"""Names of fields that look like ids, but do not refer to stored data."""

_CLIENTS_OWN = frozenset({
    "arguments", "chat_template_kwargs", "client_metadata", "input_examples", "input_schema",
    "labels", "metadata", "parameters", "parametersJsonSchema", "responseJsonSchema",
    "responseSchema", "schema",
})  # fmt: skip
"""Fields whose content the client defines."""

_PREDICTION = "prediction"

_TEXTS = ((_PREDICTION, "content"), (_PREDICTION, "content", "text"))
"""The paths of texts in fields of a body: the answer that a client predicts."""

_NAMES_OF_ID = ("id", "uri", "name")
"""If a field for an id contains an object, these fields of the object contain the id."""

_MADE_UP = _CLIENTS_OWN | {
    "action", "additionalModelResponseFields", "args", "attributes", "document", "executed_tools",
    "operation", "response", "tool_output",
}  # fmt: skip
"""Fields of an answer whose content the client, the model or a tool's server defines.

Cohere's citations repeat documents and results of tools, and clients choose which fields Bedrock
returns in `additionalModelResponseFields`.
"""

_KEPT_ITEMS = frozenset({"compaction", "item_reference", "reasoning"})
"""Types of items that a vendor looks up by their `id`, besides calls of the vendor's tools."""

_SEALED_ITEMS = frozenset({"compaction", "reasoning"})
"""Types of items whose whole content is in their field `encrypted_content`."""

_WRITTEN_CALLS = frozenset({"custom_tool_call", "function_call", "tool_call"})
"""Types of calls that are contained in full in a request."""

_NAMED = frozenset({"prompt_cache_key", "safety_identifier", "session_id", "user", "user_id"})
"""Fields that identify an end user to the vendor."""

_HI = Context.of("Hi")

MOST_MODELS = 1000
"""The maximum number of models whose user options are cached.

Clients choose the names of models, so the cache would otherwise grow without limit.
"""


def ids_in_request(asked: Asked) -> list[tuple[str, str]]:
    """Return the paths and values of ids in a request that may refer to stored data."""
    found: list[tuple[str, str]] = []
    if _STORED_MODEL.search(asked.model):
        found.append(("model", asked.model))
    for place, fields in (
        ("", asked.own),
        ("options.extra.", asked.options.get("extra")),
        ("call.extra.", asked.extra),
        ("options.settings.", asked.options.get("settings")),
    ):
        if isinstance(fields, Mapping):
            if _PREDICTION in fields:
                fields = without_texts(fields, _TEXTS)
            found += ((place + at, id) for at, id in _ids(fields))
    found += _in_texts(asked.context.system_prompt or "", True)
    for message in asked.context.messages:
        content = message.content
        found += _in_texts(content, isinstance(message, SystemMessage))
        for block in () if isinstance(content, str) else content:
            source = getattr(block, "source", None)
            if isinstance(source, FileIdSource):
                found.append(("messages.file_id", source.id))
            elif isinstance(source, UrlSource) and _is_file_address(source.url):
                found.append(("messages.url", source.url))
            found += ((f"messages.{at}", id) for at, id in _block_ids(block, _CLIENTS_OWN))
    for tool in asked.context.tools:
        found += ((f"tools.{at}", id) for at, id in _ids(tool.metadata))
    return found


def without_texts(fields: Mapping[str, Any], paths: Iterable[Sequence[str]]) -> Mapping[str, Any]:
    """Return fields of a body without the texts at `paths`, which lead through lists too.

    Objects at these paths are not texts, and remain.
    """
    for path in paths:
        fields = _without_text(fields, path)
    return fields


def _without_text(data: Any, path: Sequence[str]) -> Any:
    if isinstance(data, list | tuple):
        kept = (one for one in data if path or isinstance(one, list | tuple | Mapping))
        return [_without_text(one, path) for one in kept]
    if path and isinstance(data, Mapping) and path[0] in data:
        return {**data, path[0]: _without_text(data[path[0]], path[1:])}
    return None if not path and isinstance(data, str) else data


def _in_texts(content: str | Sequence[Block], is_system: bool) -> list[tuple[str, str]]:
    """Return the ids of files in instructions, or at the beginning of another message's text."""
    blocks = [TextBlock(content)] if isinstance(content, str) else content
    texts = [block.text for block in blocks if isinstance(block, TextBlock)]
    return [
        ("messages.fileid", id)
        for text in texts
        if is_system or _IS_FILE.match(text)
        for id in _files_in(text)
    ]


def _files_in(text: str) -> Iterator[str]:
    """Yield the ids of files in a text.

    The function first searches for `://`, because a case-insensitive search of a long text is slow.
    """
    at = text.find("://")
    while at >= 0:
        found = _FILE_IN_TEXT.match(text, max(0, at - len("fileid")))
        if found is not None:
            yield found[1]
        at = text.find("://", at + 1 if found is None else found.end())


def ids_in_answer(message: AssistantMessage, continues: bool) -> set[str]:
    """Return the ids in an answer; with `continues`, the answer's own id is one of them."""
    found = {message.response_id} if continues and message.response_id else set[str]()
    for block in message.content:
        if not (isinstance(block, ExtensionBlock) and "mcp" in block.kind):
            found |= {id for _, id in _block_ids(block, _MADE_UP)}  # not `mcp`: others write it
    return found | {id for _, id in _ids(message.metadata, unread=_MADE_UP)}


def ids_unknown_to(call: Call, ids: Iterable[str]) -> set[str]:
    """Return the ids that the request of a call does not contain.

    A vendor's answer can repeat what the client wrote, but an id that the vendor has just made is
    not in the request.
    """
    asked = msgspec.json.encode([dump(call.context), call.options.extra], enc_hook=repr)
    return {id for id in ids if msgspec.json.encode(id)[1:-1] not in asked}


def distinct(named: Iterable[tuple[str, str]]) -> set[str]:
    """Return the ids that `ids_in_request` found. Raises Refused for more than `MOST_NAMED`."""
    found = {id for _, id in named}
    if len(found) > MOST_NAMED:
        why = (
            f"the request names {len(found):,} ids of stored data; at most {MOST_NAMED:,} are read"
        )
        raise Refused(of_bad_request(why), 400)
    return found


def check_ids(
    named: Iterable[tuple[str, str]], owned: Iterable[str], allowed: Iterable[str]
) -> None:
    """Raise Refused if an id is not in `owned` and matches no pattern in `allowed`."""
    owned, allowed = {*owned}, [*allowed]
    for place, id in named:
        if id not in owned and not any(is_like(id, pattern) for pattern in allowed):
            why = f"{place}: not found for this key: {id!r:.100}"
            raise Refused(of_bad_request(why), 404)


def _is_file_address(url: str) -> bool:
    """Return True if a vendor may read a URL as the address of a file that it stores.

    Return True for a longer URL than `MOST_URL` too.
    """
    if len(url) > MOST_URL:
        return True
    plain = compatible(unquote(url)).casefold()
    return _FILE_ADDRESS.search("".join(plain.split()).replace("\\", "/")) is not None


def _block_ids(block: Any, unread: Set[str]) -> Iterator[tuple[str, str]]:
    """Yield the ids in the data that a vendor attached to a block, with their paths."""
    data, metadata = (getattr(block, name, None) for name in ("data", "metadata"))
    if isinstance(data, Mapping) and data.get("type") is None and isinstance(data.get("id"), str):
        yield "id", data["id"]  # an item without a type refers to another one
    yield from _ids([data, metadata], unread=unread)


def _ids(data: Any, place: str = "", unread: Set[str] = _CLIENTS_OWN) -> Iterator[tuple[str, str]]:
    """Yield the ids in data, with their paths, but not those in fields named in `unread`.

    In the data of an answer, the field's name alone decides, because a model can write any value.
    """
    if isinstance(data, list | tuple):
        for value in data:
            yield from _ids(value, place, unread)
    elif isinstance(data, str):
        if len(data) <= MOST_NAME and unread <= _CLIENTS_OWN and _STORED_VALUE.fullmatch(data):
            yield place, data
    elif isinstance(data, Mapping):
        kind = data.get("type")
        if isinstance(kind, str) and ":" in kind:  # a tool of OpenRouter's servers
            unread = unread - {"parameters"}
        for name, value in data.items():
            at = f"{place}.{name}" if place else name
            if (
                (plain := folded(name)) in _ID_FIELDS
                or plain in _STORED
                or (_ID_NAME.fullmatch(name) and name not in _OTHER_IDS)
                or (name == "id" and _is_kept(kind, data))
                or (name == "voice" and isinstance(value, Mapping))  # OpenAI's custom voices
            ):
                yield from _values(value, at, unread)
            elif not (name in unread or (name == "input" and _is_tool_use(kind))):
                inner = unread - {"parameters"} if name == "data_sources" else unread
                yield from _ids(value, at, inner)


def _values(value: Any, place: str, unread: Set[str]) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _values(one, place, unread)
    elif isinstance(value, Mapping):
        for name in _NAMES_OF_ID:
            if isinstance(id := value.get(name), str):
                yield f"{place}.{name}", id
        rest = {n: one for n, one in value.items() if n not in _NAMES_OF_ID}
        yield from _ids(rest, place, unread)
        if place.endswith("ids"):  # an object in place of a list
            yield from ((f"{place}.{n}", one) for n, one in rest.items() if isinstance(one, str))


def _is_kept(kind: Any, item: Mapping[str, Any]) -> bool:
    if not isinstance(kind, str) or kind in _WRITTEN_CALLS:
        return False
    if kind in _SEALED_ITEMS and item.get("encrypted_content"):
        return False
    return kind in _KEPT_ITEMS or kind.endswith("_call")


def _is_tool_use(kind: Any) -> bool:
    return isinstance(kind, str) and kind.endswith("tool_use")


# -- names of users --------------------------------------------------------------------------------


class Names:
    """Hashes the names of end users before they are sent to a vendor, differently for each key.

    Without separate names, all keys would share a prompt cache and limits at a vendor, and the
    suspension of one end user would affect all keys.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._taken: dict[tuple[str, str], frozenset[str]] = {}

    def options(self, model: Model, asked: Asked, owner: str) -> dict[str, str]:
        """Return the options `user` and `session_id` for a call.

        They are those that the model accepts, or that the client set.
        """
        taken = self._options_of(model)
        given = {name: asked.options.get(name) for name in ("user", "session_id")}
        return {
            name: hashed(owner, value)
            for name, value in given.items()
            if name in taken or value is not None
        }

    def _options_of(self, model: Model) -> frozenset[str]:
        known = model.provider, model.id
        if known not in self._taken:
            if len(self._taken) >= MOST_MODELS:
                self._taken.clear()
            self._taken[known] = self._fitting(model)
        return self._taken[known]

    def _fitting(self, model: Model) -> frozenset[str]:
        info = self._client.catalog.provider(model.provider)
        names = {"user"}
        if info is not None and info.wire_format.startswith("openai"):
            names.add("session_id")
        probe: Any = dict.fromkeys(names, "a")
        target = self._client.target(model, **probe)
        fit = getattr(target.binding.provider, "fit", None)
        if fit is None:
            return frozenset()
        notices = fit(model, _HI, target.options).notices
        left_out = {path for one in notices if one.code == "option_ignored" for path in one.paths}
        return frozenset(name for name in names if f"options.{name}" not in left_out)


def hashed(owner: str, value: object) -> str:
    """Return a hash of a client's `value` that is different for each owner."""
    text = f"{owner}\0{'' if value is None else value}"
    return "swink-" + hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def with_names(asked: Asked, owner: str) -> Asked:
    """Hash the names of end users in request fields that are passed unchanged to a provider."""
    options = dict(asked.options)
    if isinstance(extra := options.get("extra"), Mapping):
        options["extra"] = renamed(extra, owner)
    own, extra = renamed(asked.own, owner), renamed(asked.extra, owner)
    return evolve(asked, options=options, own=own, extra=extra)


def renamed(fields: Mapping[str, Any], owner: str) -> dict[str, Any]:
    """Return the fields of a body with hashed names of end users."""
    found = dict(fields)
    for name, value in fields.items():
        if name in _NAMED and value is not None:
            found[name] = hashed(owner, value)
        elif name == "metadata" and isinstance(value, Mapping) and "user_id" in value:
            found[name] = {**value, "user_id": hashed(owner, value["user_id"])}
    return found
