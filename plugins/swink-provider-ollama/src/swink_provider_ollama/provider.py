"""`ollama/<model>`: a self-hosted server or Ollama's cloud, over `/api/chat`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any

from swink_core import (
    Classification,
    Context,
    Failure,
    Model,
    ModelInfo,
    ProviderFailure,
    StreamOptions,
    ThinkingLevel,
)
from swink_core import StreamErrorKind as Kind
from swink_core.providers import (
    Exchange,
    Fitted,
    HTTPClient,
    HTTPProvider,
    HTTPResponse,
    Knobs,
    NDJSONDecoder,
    by_tables,
    required_features,
    rule_of,
    sent_options,
    with_extra,
)
from swink_provider_ollama.address import address_of
from swink_provider_ollama.context import context_of, tell_of_length
from swink_provider_ollama.conversion import conversation
from swink_provider_ollama.parser import ChatParser
from swink_provider_ollama.server import Answer, Pulled, Shown, asked

__all__ = ["OllamaProvider"]

WORDINGS = (
    ("404 page not found", Kind.INVALID_REQUEST),  # another server than Ollama, or a wrong path
    ("does not support ", Kind.UNSUPPORTED),  # tools, thinking, image input, chat
    ("missing data required for image input", Kind.UNSUPPORTED),
    ("usage limit", Kind.QUOTA_EXHAUSTED),
    ("requires a subscription", Kind.MODEL_NOT_FOUND),
    ("context length", Kind.CONTEXT_WINDOW_EXCEEDED),
    ("available context size", Kind.CONTEXT_WINDOW_EXCEEDED),
    ("requires more system memory", Kind.RESOURCE),
    ("maximum pending requests exceeded", Kind.OVERLOADED),
    ("running the model", Kind.NETWORK),
    # The process that runs the model has ended; the server starts another one.
    ("llama runner", Kind.NETWORK),
    ("model runner", Kind.NETWORK),
)
"""Parts of error messages, with the kind of failure.

Ollama has no error codes, and an error in a stream has no status.

Sources: https://github.com/ollama/ollama/blob/main/server/routes.go and its issue tracker.
"""

PLACES = {"thinking": ("think",), "response_format": ("format",), "stop": ("options.stop",)}
"""The request fields of options that a function converts. `KNOBS` names all other fields."""

CODES = {"load": Kind.INVALID_REQUEST, "unload": Kind.INVALID_REQUEST}


def _think(model: Model, options: StreamOptions) -> dict[str, Any]:
    if (level := options.thinking_level) is None:
        return {}
    word = rule_of(model).efforts.get(level, "false" if level is ThinkingLevel.OFF else level)
    return {"think": {"true": True, "false": False}.get(word, word)}


KNOBS: Knobs = {
    "temperature": "options.temperature",
    "top_p": "options.top_p",
    "top_k": "options.top_k",
    "min_p": "options.min_p",
    "presence_penalty": "options.presence_penalty",
    "frequency_penalty": "options.frequency_penalty",
    "max_tokens": "options.num_predict",
    "seed": "options.seed",
    "thinking": _think,
}
"""Maps sampling and output options to fields of the request."""


class OllamaProvider(HTTPProvider):
    """Ollama's native chat API."""

    features = frozenset(
        {"tools", "images", "assistant_images", "json", "structured_output", "stop"}
    )
    knobs = KNOBS
    places = PLACES
    api_name = "chat"
    path = "/api/chat"
    decoder = NDJSONDecoder
    # `application/json` is the media type of notices about loading a model, and of some proxies.
    content_types = ("application/x-ndjson", "application/json")
    buffered = True

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._shown: dict[tuple[str, str], Shown] = {}

    def fit(self, model: Model, context: Context, options: StreamOptions) -> Fitted:
        """Return the call, adapted to the model.

        If the server has reported the model's capabilities, they replace those of the catalogue.
        """
        return super().fit(self._told_of(model, options), context, options)

    def learned(self, model: Model, options: StreamOptions) -> bool:
        """Return True if the server has described the model."""
        return bool(self._shown) and (self.base_url(options), model.id) in self._shown

    def convert(self, model: Model, context: Context, options: StreamOptions) -> dict[str, Any]:
        """Return the body of `/api/chat`; see `conversation`.

        `extra` may contain any field of the API, such as `keep_alive`. `extra["options"]` may
        contain any parameter of the model, such as `num_ctx`. By default, `num_ctx` is the context
        length that the conversation needs, and is not sent if the server's default is enough.
        """
        model = self._told_of(model, options)
        native = conversation(context, self.name)
        fields = {**native, **sent_options(self.knobs, model, options)}
        fields |= {"model": model.id, "stream": options.transport != "buffered"}
        if options.stop:
            fields.setdefault("options", {})["stop"] = list(options.stop)
        # a server truncates a long prompt silently
        defaults: dict[str, Any] = {"truncate": False, "shift": False}
        if options.rules and (length := context_of(model, native, options)) is not None:
            defaults["options"] = {"num_ctx": length}
        if options.response_format is not None:
            fields["format"] = options.response_format
        return with_extra(options.extra, fields, defaults)

    def exchange(self, x: Exchange) -> AsyncIterator[bytes]:
        """Send the call, adapted to the model on the server, and yield the bytes of the answer."""
        return x.stream(respond=partial(self._respond, x))

    async def _respond(self, x: Exchange) -> HTTPResponse:
        """Send the call, adapted to the model as the server describes it.

        The provider first requests the server's description of the model if the conversation is
        long, or if the call uses a feature such as tools and the catalogue does not list the
        model's features. If the server does not describe the model, the call is sent unchanged.
        """
        model = x.model
        options = x.options
        call = x.call
        cloud = model.id.partition(":")[2].endswith("cloud")  # any server forwards these calls
        if not cloud and self.is_free(model, options):
            call.attempt.report_cost(0.0)
        if options.rules:
            await x.convert()
            place = (self.base_url(options), model.id)
            before = self._shown.get(place)
            await self._learn(x)
            if self._shown.get(place) is not before:
                x.options = self.plan_again(call, call.options).options
                x.payload = call.convert()
            tell_of_length(self._told_of(model, x.options), x.payload, x.options, call)
        return await x.send()

    def _told_of(self, model: Model, options: StreamOptions) -> Model:
        """Return a model, with the capabilities that its server has reported, if any."""
        shown = self._shown.get((self.base_url(options), model.id))
        return shown.told_of(model) if shown else model

    async def list_models(self, options: StreamOptions, http: HTTPClient) -> list[ModelInfo]:
        """Return the models that the server has pulled, with the status `pulled`.

        Raises ProviderFailure if the server cannot be reached.
        """
        names = await self._ask("tags", {}, Pulled, options, http)
        models = [Model(self.name, tag.name) for tag in (names or Pulled()).models]
        asked = (self._ask("show", {"model": m.id}, Shown, options, http) for m in models)
        found = await asyncio.gather(*asked)
        return [
            (shown or Shown()).info(model, "pulled")
            for model, shown in zip(models, found, strict=True)
        ]

    async def _learn(self, x: Exchange) -> None:
        """Request and store the server's description of a model, if it may change the call."""
        model = x.model
        options = x.options
        wants = {"thinking"} if options.thinking is not None else set()
        wants |= required_features(x.call.context, options, self.name) & {"tools", "images"}
        listed = model.info is not None and model.info.capabilities is not None
        place = (self.base_url(options), model.id)
        long = context_of(model, x.payload, options) is not None
        if place not in self._shown and (long or (wants and not listed)):
            url = f"{self.base_url(options)}/api/show"
            request = self.json_request(url, {"model": model.id})
            try:
                self._shown[place] = await x.read(request, Shown)
            except ProviderFailure as error:  # without a description, the call is sent unchanged
                if error.failure.phase == "connect":
                    raise

    async def _ask(
        self,
        what: str,
        body: dict[str, str],
        kind: type[Answer],
        options: StreamOptions,
        http: HTTPClient,
    ) -> Answer | None:
        request = self.json_request(f"{self.base_url(options)}/api/{what}", body)
        request.headers["Accept"] = "application/json"
        if not body:
            request.method, request.body = "GET", b""
        request.headers.update(options.headers)
        if not self.has_credentials(request) and (key := self.api_key(options)) is not None:
            request.headers["Authorization"] = f"Bearer {key}"
        return await asked(http, request, kind, options.timeouts.connect)

    def parser(self, model: Model) -> ChatParser:
        """Create a parser for one answer."""
        return ChatParser()

    def classify(self, failure: Failure) -> Classification | None:
        """Classify a failure by the error message, because the API has no error codes."""
        return by_tables(failure, CODES, WORDINGS)

    def error_facts(self, failure: Failure) -> None:
        """Set the fields of `failure` from the response, and add advice for a missing model.

        The advice contains no command with the model's name, which is user input.
        """
        super().error_facts(failure)
        missing = re.match(r"model ['\"].+?['\"] not found", failure.message or "")
        if missing:
            failure.message = f"{missing[0]}; `ollama list` shows those that are there, and "
            failure.message += "`ollama pull` downloads one of https://ollama.com/library"

    def base_url(self, options: StreamOptions, environ: Mapping[str, str] | None = None) -> str:
        """Return the server's URL, from any form that Ollama allows in `OLLAMA_HOST`.

        In `OLLAMA_HOST`, the scheme, the host or the port may be missing, and the host may be an
        address on which a server listens, such as 0.0.0.0 (https://docs.ollama.com/faq).
        """
        return address_of(super().base_url(options, environ))
