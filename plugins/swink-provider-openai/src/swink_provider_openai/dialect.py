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
"""The values of `reasoning_effort`, if no rule lists those of the model."""

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
"""Fields of an answer for which an endpoint may have other names."""


@define(frozen=True, kw_only=True)
class Dialect:
    """Differences from the wire format; the defaults are what most servers support.

    A dialect describes the wire format. Rules in models.toml describe which options a service or a
    model supports.

    `max_tokens` and `seed` are the names of these fields. `include_usage`: `stream_options` enables
    token counts. `json_object`: the service supports JSON mode; without it, a schema that allows
    any object is sent instead. `developer_role`: for reasoning models, the system prompt has the
    role `developer`. `cache_key` is the field for the session id and `user` the field for the end
    user (`None` if the API has no such field); `shortest_user` is the minimum length of the user
    field. `headers` maps names of request headers to environment variables; variables in the
    provider's `required_env` must be set. `tool_id_length` is the maximum length of a tool call id
    in characters; `None` means unlimited.

    `documents` is the form of documents: `data` is a file with its data, only over Chat
    Completions; `either` is a file with its data or its URL; `address` is a file with its URL;
    `file_url` is a part with this name, with the URL; `media` has the data and the media type in
    separate fields. `image_urls`: images may be given by URL. `media_ids` and `document_ids` are
    prefixes of the ids of uploaded files: the id of an image is sent as a URL, that of a document
    in a system message. `sound` contains the names of the audio part and the data field in it, if
    they differ from OpenAI's.

    `thinking` selects the form of reasoning parameters: `effort` sends `reasoning_effort`;
    `reasoning` sends an object of that name with `effort` or `max_tokens`; `switch` adds `thinking:
    {type}` to the effort; `type` sends only that object if the model's value is a type, and
    otherwise the effort; `template` adds `{enable_thinking}` to the effort, as the field
    `template`; `budget` sends `enable_thinking` and `thinking_budget`; `enabled` turns reasoning
    off by `reasoning: {enabled}` and sends the effort otherwise. `replay` is the field of an
    assistant message in which earlier reasoning is sent back. `think_tags`: reasoning may arrive as
    `<think>…</think>` at the start of the content.

    `api` is the API that is used if neither caller nor model selects one. Its value `agent` is
    Perplexity's variant of Responses, which is then always used. `websocket`: whether the Responses
    API supports WebSockets, and whether they are used by default.

    `places` maps names in braces in the URL to environment variables; settings of the same names
    may set them too. `always` are fields that every request has, unless `extra` overrides them.

    `reasoning_last`: an answer over Responses may end with reasoning, as in other vendors' models.

    `path` is the path of Chat Completions, below the base URL.

    `answer` maps fields of an answer over Chat Completions to the endpoint's names for them:
    `content`, `reasoning_content` (both of a message or its pieces), `usage`, and its fields:
    `usage.prompt_tokens`, `usage.completion_tokens`, `usage.total_tokens`, `usage.cached_tokens`,
    `usage.reasoning_tokens`.

    `regions` is a regular expression for hosts that process data in one region, at another price.

    `gateway`: the gateway's options (`providerOptions.gateway`) enable prompt caching and contain
    the user.

    `own_server`: the server is self-hosted, so an answer costs nothing unless the response reports
    a cost. `marks` are the metadata fields of a block that its message part may have. `prefix`: a
    request that continues an answer marks the answer and uses this path (empty: the usual path).
    `adds` names features that few endpoints have: `strict` (for tools), `video`, `file_ids`,
    `system_messages` anywhere in the conversation, generated `images`, `names` of users over Chat
    Completions; and sampling options such as `top_k`, which Chat Completions accepts under the same
    names.
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
