"""`gemini/<model>`: the Gemini API."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any

from swink_core import (
    Classification,
    Context,
    DocumentBlock,
    Failure,
    Model,
    StreamOptions,
)
from swink_core.providers import (
    Fitted,
    HTTPProvider,
    HTTPRequest,
    rule_of,
    with_extra,
)
from swink_provider_gemini import errors
from swink_provider_gemini.converter import conversation
from swink_provider_gemini.parameters import KNOBS, PLACES, parameters, tool_config
from swink_provider_gemini.parser import GenerateContentParser
from swink_provider_gemini.wire import StreamDecoder

__all__ = ["GeminiProvider"]

VERSIONS = ("/v1beta", "/v1alpha", "/v1")
"""Endings of a base URL that select a version of the API; the first one is the default."""


class GeminiProvider(HTTPProvider):
    """`streamGenerateContent` of the Gemini API, or of another server with the same API."""

    features = frozenset(
        {
            "tools", "tool_choice", "stop", "images", "documents", "audio", "json",
            "structured_output", "extensions", "file_ids", "assistant_images",
            "assistant_documents", "assistant_audio",
        }
    )  # fmt: skip
    knobs = KNOBS
    places = PLACES
    decoder = StreamDecoder
    system_marks = ()
    api_name = "generateContent"
    credential_headers = ("authorization", "x-goog-api-key")
    buffered = True
    asks_for_several = False

    def api(self, model: Model, options: StreamOptions) -> Any:
        """Return this provider, or a copy whose parser reads several answers."""
        if not _asks_for_several(options):
            return self
        found = copy(self)
        found.asks_for_several = True
        return found

    def fit(self, model: Model, context: Context, options: StreamOptions) -> Fitted:
        """Return the call, adapted to the API and the model.

        A notice reports that names of documents are not sent, because the API has no field for
        them.
        """
        call = super().fit(model, context, options)
        named = [
            f"messages[{at}].content[{place}].name"
            for at, message in enumerate(context.messages)
            for place, block in enumerate(message.content)
            if isinstance(block, DocumentBlock) and block.name
        ]
        if named:
            what = " does not support names of documents; they were not sent"
            call.tell(what, "option_ignored", *named)
        return call

    def convert(self, model: Model, context: Context, options: StreamOptions) -> dict[str, Any]:
        """Return the body of `streamGenerateContent`; see `conversation`.

        `extra` may contain any field of the API. The server-side tools in `extra["tools"]` are
        added after the tools of the conversation. `generationConfig` and `toolConfig` in `extra`
        are merged with the fields of the options.
        """
        facts = rule_of(model).facts
        signed, office = (bool(facts.get(name)) for name in ("signatures", "office"))
        native = conversation(context, self.name, signed, office)
        known = native.get("generationConfig", {})
        fields = {**native, **parameters(self.knobs, model, options, known)}
        body = with_extra(options.extra, fields)
        declared = any("functionDeclarations" in tool for tool in body.get("tools", ()))
        # Without functions, the API refuses this field.
        if declared and (choice := tool_config(options)) is not None:
            body = with_extra(options.extra, {**fields, "toolConfig": choice})
        return body

    def url(self, model: Model, options: StreamOptions) -> str:
        """Return the URL of `streamGenerateContent`, or of `generateContent` without streaming."""
        whole = options.transport == "buffered"
        verb = "generateContent" if whole else "streamGenerateContent?alt=sse"
        return f"{self.model_url(model, options)}:{verb}"

    def model_url(self, model: Model, options: StreamOptions) -> str:
        """Return the URL of a model, whose name may include the collection, as in `models/…`."""
        name = model.id if "/" in model.id else f"models/{model.id}"
        base = self.base_url(options)
        if not base.endswith(VERSIONS):
            base += VERSIONS[0]
        return f"{base}/{self.model_path(model, name, '/')}"

    def buffers(self, model: Model, context: Context, options: StreamOptions) -> bool:
        """Return True for a call for several answers.

        Vertex AI's `streamGenerateContent` does not support several answers, see `candidateCount`
        in https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/inference. The
        Gemini API also refuses to stream several answers
        (https://github.com/theopenco/llmgateway/pull/2630).
        """
        return _asks_for_several(options)

    def parser(self, model: Model) -> GenerateContentParser:
        """Create a parser for one answer."""
        return GenerateContentParser(self.asks_for_several)

    def error_facts(self, failure: Failure) -> None:
        """Read the status name, reason, quota and delay; see `errors`."""
        errors.read_error(failure)
        if failure.message is None:  # the error comes from a server in front of the API
            super().error_facts(failure)

    def classify(self, failure: Failure) -> Classification | None:
        """Classify a failure by quota and reason, by message and by status name; see `errors`."""
        return errors.classify(failure)

    def sign(self, request: HTTPRequest, credential: Any, options: StreamOptions) -> None:
        """Send the key as `x-goog-api-key`."""
        request.headers["x-goog-api-key"] = credential


def _asks_for_several(options: StreamOptions) -> bool:
    config = options.extra.get("generationConfig")
    count = config.get("candidateCount") if isinstance(config, Mapping) else None
    return count not in (None, 1, "1")
