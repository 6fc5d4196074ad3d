"""`anthropic/<model>`: the Messages API."""

from __future__ import annotations

from typing import Any

from swink_core import Classification, Context, Failure, Model, Notice, StreamOptions
from swink_core.providers import (
    Fitted,
    HTTPProvider,
    HTTPRequest,
    paths_inside,
    with_extra,
)
from swink_provider_anthropic import errors
from swink_provider_anthropic.claude import changed_options, is_misplaced, takes_system
from swink_provider_anthropic.converter import conversation
from swink_provider_anthropic.marks import MARK, tell_crowded
from swink_provider_anthropic.parameters import KNOBS, PLACES, parameters
from swink_provider_anthropic.parser import MessagesParser
from swink_provider_anthropic.schemas import fit_schemas, limits_in_words

__all__ = ["AnthropicProvider"]

VERSION = "2023-06-01"
"""https://platform.claude.com/docs/en/api/versioning; callers select betas with the header
`anthropic-beta` in `headers`.
"""


class AnthropicProvider(HTTPProvider):
    """The Messages API, Anthropic's own or another's that speaks it."""

    features = frozenset(
        {
            "tools", "tool_choice", "stop", "images", "documents", "structured_output", "file_ids",
            "extensions", "strict", "system_messages",
        }
    )  # fmt: skip
    knobs = KNOBS
    places = PLACES
    system_marks = (MARK,)
    api_name = "messages"
    credential_headers = ("authorization", "x-api-key")
    buffered = True

    def fit(self, model: Model, context: Context, options: StreamOptions) -> Fitted:
        """Add that an instruction inside the conversation goes out at another place, and what
        schemas of strict tools become."""
        call = super().fit(model, context, options)
        fit_schemas(call)
        if takes_system(model, options) and is_misplaced(call.context):
            what = ": an instruction went out behind the user's turn"
            call.tell(what, "system_message_moved", *paths_inside(context))
        tell_crowded(call, self.name)
        return call

    def convert(self, model: Model, context: Context, options: StreamOptions) -> dict[str, Any]:
        """Return the body of a message's creation; see `conversation` and `parameters`.

        `extra` may hold any field of the API. Its `tools` (the server's own) come after the
        conversation's.
        """
        native = conversation(context, self.name, options.cache, takes_system(model, options))
        fields = parameters(self.knobs, model, options)
        if not (native.get("tools") or options.extra.get("tools")):
            fields.pop("tool_choice", None)  # refused without tools
        return with_extra(
            options.extra,
            {**fields, **native, "model": model.id, "stream": options.transport != "buffered"},
        )

    def request(self, model: Model, payload: dict[str, Any], options: StreamOptions) -> HTTPRequest:
        """Add the version of the API."""
        headers = {"anthropic-version": VERSION}
        return self.json_request(self.url(model, options), payload, headers)

    def url(self, model: Model, options: StreamOptions) -> str:
        """Return the endpoint's address."""
        return f"{self.base_url(options).removesuffix('/v1')}/v1/messages"

    def notices(self, model: Model, options: StreamOptions) -> tuple[Notice, ...]:
        """Add notices for schema limits that became descriptions and for replaced fields."""
        changed = limits_in_words(options)
        if options.user is not None and options.session_id is not None:
            changed.append("session_id: its place is taken by user; left out")
        return super().notices(model, options) + changed_options(model, changed)

    def parser(self, model: Model) -> MessagesParser:
        """Make a parser for one answer."""
        return MessagesParser()

    def classify(self, failure: Failure) -> Classification | None:
        """Go by the API's wording and types; see `errors`."""
        return errors.classify(failure)

    def sign(self, request: HTTPRequest, credential: Any, options: StreamOptions) -> None:
        """Send the key as `x-api-key`."""
        request.headers["x-api-key"] = credential
