"""The differences of an endpoint from plain Chat Completions, declared as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Literal, Self

from attrs import define, field, fields_dict

from swink_core import PluginError

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


@define(frozen=True, kw_only=True)
class Dialect:
    """Differences from the wire format; the default values fit most servers.

    A dialect describes the wire format. Rules in models.toml describe which options a service or a
    model supports.

    `max_tokens` is the name of the request field for the token limit, and `seed` is the name of the
    field for the seed. `include_usage`: the service sends token counts if the request has
    `stream_options`. `json_object`: the service supports JSON mode; without JSON mode, a schema
    that allows any object is sent. `developer_role`: for reasoning models, the system prompt has
    the role `developer`. `cache_key` is the field for the session id and `user` is the field for
    the end user (`None` if the API has no such field); `shortest_user` is the minimum length of the
    end user's name. `headers` maps names of request headers to environment variables; variables in
    the provider's `required_env` must be set. `tool_id_length` is the maximum length of a tool call
    id in characters; `None` means unlimited.

    `documents` selects how documents are sent. `data` sends a message part of the type `file` with
    the data, but only over Chat Completions; `either` sends a `file` with the data or the URL;
    `address` sends a `file` with the URL; `file_url` sends a part of the type `file_url` with the
    URL; `media` sends a part with the data and the media type in separate fields. `image_urls`:
    images may be given by URL. `media_ids` and `document_ids` are prefixes of the ids of uploaded
    files: an id of an image is sent as a URL, and an id of a document is sent in a system message.
    `sound` contains the names of the audio part and of the part's data field, if they differ from
    OpenAI's.

    `thinking` selects the form of reasoning parameters. `effort` sends `reasoning_effort`.
    `reasoning` sends an object `reasoning` with `effort` or `max_tokens`. `switch` sends
    `reasoning_effort` and `thinking: {type}`. `type` sends only `thinking: {type}` if the rules map
    the thinking level to a type such as `enabled`, and only `reasoning_effort` otherwise.
    `template` sends `reasoning_effort`, and `{enable_thinking}` in the field that `template` names.
    `budget` sends `enable_thinking` and `thinking_budget`. `enabled` sends `reasoning: {enabled}`
    to turn reasoning off, and `reasoning_effort` otherwise. `replay` is the field of an assistant
    message in which earlier reasoning is sent back. `think_tags`: reasoning may arrive as
    `<think>…</think>` at the start of the content.

    `api` is the API that is used if neither caller nor model selects one. With the value `agent`,
    Perplexity's variant of the Responses API is always used. `websocket`: whether the Responses API
    supports WebSockets, and whether they are used by default.

    `places` maps placeholders (names in braces) in the URL to environment variables with their
    values. Settings with the names of the placeholders may set these values too. `always` contains
    fields of every request; `extra` may override them.

    `reasoning_last`: an answer over Responses may end with reasoning, as answers of other vendors'
    models do.

    `path` is the path of Chat Completions, below the base URL.

    `answer` maps fields of an answer over Chat Completions to the endpoint's own names: `content`
    and `reasoning_content` (of a message or a delta), `usage`, and the fields of `usage`:
    `usage.prompt_tokens`, `usage.completion_tokens`, `usage.total_tokens`, `usage.cached_tokens`,
    `usage.reasoning_tokens`.

    `regions` is a regular expression for the names of hosts that process data in only one region,
    at a different price.

    `gateway`: the service is a gateway, and the request field `providerOptions.gateway` enables
    prompt caching and contains the user.

    `own_server`: the server is self-hosted, so an answer costs nothing unless the response reports
    a cost. `marks` are metadata fields of a block that are sent in its message part. `prefix`: a
    request that continues an incomplete answer marks that answer as a prefix and uses this path
    (empty: the usual path). `adds` names features that few endpoints have: `strict` (for tools),
    `video`, `file_ids`, `system_messages` anywhere in the conversation, generated `images`, `names`
    of users over Chat Completions; and sampling options such as `top_k`, which Chat Completions
    accepts under the same names.
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
        """Parse the dialect in an entry of models.toml. Raises PluginError for unknown fields."""
        known = fields_dict(cls)
        for name in row.keys() - known:
            near = "".join(
                f'; did you mean "{each}"?' for each in get_close_matches(name, known, 1)
            )
            raise PluginError(
                f'dialect in models.toml has "{name}", an unknown field{near}',
                resolution=f"There are {', '.join(known)}.",
            )
        return cls(**row)

    def __attrs_post_init__(self) -> None:
        if unknown := sorted({*self.answer} - {*ANSWER}):
            raise ValueError(
                f"dialect.answer has {', '.join(unknown)}; it may have {', '.join(ANSWER)}"
            )
