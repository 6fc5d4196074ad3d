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
"""The version of the API, see https://platform.claude.com/docs/en/api/versioning.

Callers select betas with the header `anthropic-beta` in `headers`.
"""


class AnthropicProvider(HTTPProvider):
    """The Messages API, from Anthropic or from another server with the same API."""

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
        """Return the call, adapted to the API and the model.

        System messages inside the conversation are moved, and the schemas of strict tools are
        converted. A notice reports each of these changes.
        """
        call = super().fit(model, context, options)
        fit_schemas(call)
        if takes_system(model, options) and is_misplaced(call.context):
            what = ": a system message was moved behind the user message"
            call.tell(what, "system_message_moved", *paths_inside(context))
        tell_crowded(call, self.name)
        return call

    def convert(self, model: Model, context: Context, options: StreamOptions) -> dict[str, Any]:
        """Return the body of the request; see `conversation` and `parameters`.

        `extra` may contain any field of the API. The server-side tools in `extra["tools"]` are
        added after the tools of the conversation.
        """
        native = conversation(context, self.name, options.cache, takes_system(model, options))
        fields = parameters(self.knobs, model, options)
        if not (native.get("tools") or options.extra.get("tools")):
            fields.pop("tool_choice", None)  # the API refuses it without tools
        return with_extra(
            options.extra,
            {**fields, **native, "model": model.id, "stream": options.transport != "buffered"},
        )

    def request(self, model: Model, payload: dict[str, Any], options: StreamOptions) -> HTTPRequest:
        """Return the request with the header for the version of the API."""
        headers = {"anthropic-version": VERSION}
        return self.json_request(self.url(model, options), payload, headers)

    def url(self, model: Model, options: StreamOptions) -> str:
        """Return the URL of the endpoint."""
        return f"{self.base_url(options).removesuffix('/v1')}/v1/messages"

    def notices(self, model: Model, options: StreamOptions) -> tuple[Notice, ...]:
        """Return the notices about options.

        The notices also report limits of the answer schema that were moved into descriptions, and a
        `session_id` that is not sent because `user` uses the same field.
        """
        changed = limits_in_words(options)
        if options.user is not None and options.session_id is not None:
            changed.append("session_id: not sent, because the API has one field for it and user")
        return super().notices(model, options) + changed_options(model, changed)

    def parser(self, model: Model) -> MessagesParser:
        """Create a parser for one answer."""
        return MessagesParser()

    def classify(self, failure: Failure) -> Classification | None:
        """Classify a failure by the type and text of the error; see `errors`."""
        return errors.classify(failure)

    def sign(self, request: HTTPRequest, credential: Any, options: StreamOptions) -> None:
        """Send the key as `x-api-key`."""
        request.headers["x-api-key"] = credential
