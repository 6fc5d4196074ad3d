"""The differences of an endpoint from plain Chat Completions, declared as data."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from typing import Any, Literal, Self, get_args, get_origin, get_type_hints

import msgspec
from attrs import define, field, fields_dict

from swink_core import PluginError
from swink_core.providers import FEATURES, TUNING

__all__ = ["Dialect"]

EFFORTS: dict[str, str] = {
    "off": "none",
    "minimal": "minimal",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "extra_high": "xhigh",
}
"""The values of `reasoning_effort` for each level, if no rule lists the model's own values."""

ANSWER = (
    "content",
    "reasoning_content",
    "usage",
    "usage.prompt_tokens",
    "usage.completion_tokens",
    "usage.total_tokens",
    "usage.cached_tokens",
    "usage.reasoning_tokens",
)
"""Fields of an answer that an endpoint may name differently."""

ADDED = (*FEATURES, "video", "names")
"""The features that a dialect may add."""


@define(frozen=True, kw_only=True)
class Dialect:
    """Differences of an endpoint from OpenAI's format; the default values fit most servers.

    A dialect describes the wire format. Rules in models.toml describe which options a service or a
    model supports.

    `max_tokens` is the name of the request field for the token limit, and `seed` is the name of the
    field for the seed. `include_usage`: the service sends token counts if the request has
    `stream_options`. `json_object`: the service supports JSON mode; without JSON mode, a schema
    that allows any object is sent. `developer_role`: for reasoning models, the system prompt has
    the role `developer`. `cache_key` is the field for the session id and `user` is the field for
    the end user (`None` if the API has no such field); an end user's name with fewer characters
    than `shortest_user` is extended. `headers` maps names of request headers to environment
    variables. A header is left out if its variable is not set, unless the provider's `required_env`
    lists this variable. `tool_id_length` is the maximum length of a tool call id in characters
    (longer ids are replaced by shorter ones); `None` means unlimited.

    `documents` selects how documents are sent over Chat Completions. `data`, `either` and `address`
    send a part of the type `file`: `data` with the document's data, `address` with its URL, and
    `either` with the data or the URL, whichever the caller gives. `file_url` sends a part of the
    type `file_url` with the URL; `media` sends a part with the data and the media type in separate
    fields. `image_urls`: images may be given by URL. `media_ids` and `document_ids` are prefixes of
    the ids of uploaded files: an id of an image is sent as a URL, and an id of a document is sent
    in a system message. `sound` contains the names of the audio part and of the part's data field,
    if they differ from OpenAI's.

    `thinking` selects the form of reasoning parameters. `effort` sends `reasoning_effort`.
    `reasoning` sends an object `reasoning` with `effort` or `max_tokens`. `switch` sends
    `reasoning_effort` and `thinking: {type}`. `type` sends `thinking: {type}` if the rules map the
    thinking level to a type such as `enabled`, and otherwise sends `reasoning_effort`. `template`
    sends `reasoning_effort`, and `enable_thinking` inside a field whose name is the value of the
    dialect's field `template`. `budget` sends `enable_thinking` and `thinking_budget`. `enabled`
    sends `reasoning: {enabled}` to turn reasoning off, and `reasoning_effort` otherwise. `replay`
    is the field of an assistant message in which earlier reasoning is sent back. `think_tags`:
    reasoning may arrive as `<think>…</think>` at the start of the content.

    `api` is the API that is used if neither caller nor model selects one. With the value `agent`,
    Perplexity's variant of the Responses API is always used. `websocket` is `offered` if the
    Responses API supports WebSockets, and `preferred` if calls use them by default.

    `places` maps placeholders in the URL (names in braces) to the environment variables with their
    values. A setting with the name of a placeholder takes precedence over its variable. `always`
    contains fields that every request has; the option `extra` takes precedence over them.

    `reasoning_last`: the Responses API accepts an earlier answer that ends with reasoning.

    `path` is the path of Chat Completions, below the base URL.

    `answer` maps the names of answer fields in OpenAI's Chat Completions to the endpoint's names.
    The fields that may be mapped are `content` and `reasoning_content` (of a message or a delta),
    `usage`, and the fields of `usage`: `usage.prompt_tokens`, `usage.completion_tokens`,
    `usage.total_tokens`, `usage.cached_tokens`, `usage.reasoning_tokens`.

    `regions` is a regular expression for the names of hosts that process data in only one region,
    at a different price.

    `gateway`: the service is a gateway that reads the caching mode and the end user from the
    request field `providerOptions.gateway`.

    `own_server`: the server is self-hosted, so an answer costs nothing unless the response reports
    a cost. `marks` names metadata fields of a block that are sent in the block's message part. If
    `prefix` is set, a request whose last message is an incomplete answer marks this answer as a
    prefix for the model to continue. If a request contains such a prefix, the value of the field
    `prefix` is inserted in the URL, before the path. `adds` names features that few endpoints have:
    `strict` (for tools), `video`, `file_ids`, `system_messages` anywhere in the conversation,
    generated `images`, `names` of users over Chat Completions; and sampling options such as
    `top_k`, which Chat Completions accepts under the same names.
    """

    max_tokens: str = "max_tokens"
    seed: str = "seed"
    include_usage: bool = True
    json_object: bool = True
    developer_role: bool = False
    cache_key: str | None = None
    user: str | None = None
    headers: Mapping[str, str] = field(factory=dict)
    shortest_user: int = 0
    documents: Literal["data", "either", "address", "file_url", "media"] = "data"
    image_urls: bool = True
    media_ids: str | None = None
    document_ids: str | None = None
    sound: Sequence[str] | None = None
    tool_id_length: int | None = None
    thinking: Literal["effort", "reasoning", "switch", "type", "template", "budget", "enabled"] = (
        "effort"
    )
    template: str = "chat_template_kwargs"
    replay: Literal["reasoning_content", "reasoning", "reasoning_details"] | None = None
    think_tags: bool = False
    api: Literal["chat", "responses", "agent"] = "chat"
    websocket: Literal["none", "offered", "preferred"] = "none"
    places: Mapping[str, str] = field(factory=dict)
    always: Mapping[str, Any] = field(factory=dict)
    gateway: bool = False
    own_server: bool = False
    path: str = "chat/completions"
    answer: Mapping[str, str] = field(factory=dict)
    regions: str | None = None
    reasoning_last: bool = False
    marks: tuple[str, ...] = field(default=(), converter=tuple)
    prefix: str | None = None
    adds: frozenset[str] = field(default=frozenset(), converter=frozenset)

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        """Parse the dialect in an entry of models.toml.

        Raises PluginError for an unknown field, and for a value that the field cannot have.
        """
        known = fields_dict(cls)
        for name in row.keys() - known:
            raise PluginError(
                f'dialect in models.toml has "{name}", an unknown field{_meant(name, known)}',
                resolution=f"There are {', '.join(known)}.",
            )
        words = _words_of_fields()
        for name, value in row.items():
            _check_words(name, [value], words[name])
        _check_words("adds", row.get("adds", ()), (*ADDED, *TUNING))
        path = str(row.get("path", ""))
        if "://" in path or path.startswith("//"):
            raise PluginError(
                f'dialect.path in models.toml is "{path}", which is a URL',
                resolution="Write the path below base_url, for example chat/completions.",
            )
        try:
            return msgspec.convert(row, cls)
        except msgspec.ValidationError as error:
            raise PluginError(
                f"dialect in models.toml: {error}", resolution="Correct the value."
            ) from error

    def check_places(self, base_url: str | None) -> None:
        """Raise PluginError if a base URL has placeholders that `places` does not contain."""
        for name in re.findall(r"\{(.*?)\}", base_url or ""):
            if name not in self.places:
                raise PluginError(
                    f'base_url in models.toml has "{{{name}}}", a placeholder that dialect.places '
                    f"does not contain{_meant(name, self.places)}",
                    resolution="Give both the same name.",
                )

    def __attrs_post_init__(self) -> None:
        if unknown := sorted({*self.answer} - {*ANSWER}):
            raise ValueError(
                f"dialect.answer has {', '.join(unknown)}; it may have {', '.join(ANSWER)}"
            )


@cache
def _words_of_fields() -> dict[str, tuple[str, ...]]:
    """Return the words that each field may contain, or an empty tuple for a field of any text."""
    return {name: _words(hint) for name, hint in get_type_hints(Dialect).items()}


def _words(hint: Any) -> tuple[str, ...]:
    each = [hint, *get_args(hint)]
    return next((get_args(one) for one in each if get_origin(one) is Literal), ())


def _check_words(name: str, values: Collection[Any], known: Collection[str]) -> None:
    """Raise PluginError if one of a field's values is a string that is not in `known`.

    If `known` is empty, any value is valid.
    """
    for value in values:
        if known and isinstance(value, str) and value not in known:
            raise PluginError(
                f'dialect.{name} in models.toml has "{value}", which is unknown'
                f"{_meant(value, known)}",
                resolution=f"There are {', '.join(known)}.",
            )


def _meant(name: str, known: Collection[str]) -> str:
    """Suggest the known name that is most similar to `name`, if there is one."""
    return "".join(f'; did you mean "{near}"?' for near in get_close_matches(name, known, 1))
