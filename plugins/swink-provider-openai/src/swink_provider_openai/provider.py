"""`OpenAIProvider`: Chat Completions at the address and in the dialect of its catalogue row."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from swink_core import (
    Call,
    Classification,
    Context,
    Failure,
    HTTPProvider,
    HTTPRequest,
    Model,
    Notice,
    StreamOptions,
    ThinkingLevel,
)
from swink_provider_openai.converter import ChatConverter
from swink_provider_openai.dialect import Dialect
from swink_provider_openai.errors import classify, read_error
from swink_provider_openai.parameters import effort, keeps_long, parameters
from swink_provider_openai.parser import ChatParser

__all__ = ["OpenAIProvider"]

FEATURES = frozenset({
    "tools", "tool_choice", "stop", "images", "documents", "audio", "json", "structured_output",
})  # fmt: skip
KNOBS = frozenset({
    "temperature", "top_p", "max_tokens", "seed", "thinking", "parallel_tool_calls",
})  # fmt: skip


class OpenAIProvider(HTTPProvider):
    """One of the services that speak Chat Completions; the entry point's name says which.

    A package for another service subclasses it and ships a row with a `dialect` of its own;
    `converter` is the class that writes its messages.
    """

    buffered = True
    converter: type[ChatConverter] = ChatConverter

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.dialect = Dialect(**self.info.dialect)
        self.features = FEATURES - self.dialect.lacks
        self.knobs = KNOBS - self.dialect.lacks
        if self.dialect.cache_key is not None:
            self.knobs |= {"session_id", "cache"}

    def convert(self, model: Model, context: Context, options: StreamOptions) -> Any:
        """This will return `messages` and `tools`."""
        return self.converter(self.name, self.dialect).conversation(model, context)

    def request(self, model: Model, payload: Any, options: StreamOptions) -> HTTPRequest:
        """This will return the request of `body` to `url`."""
        body = self.body(model, payload, options)
        return self.json_request(self.url(model, options), body, self.own_headers())

    def url(self, model: Model, options: StreamOptions) -> str:
        """This will return the endpoint's address."""
        return f"{self.base_url(options)}/chat/completions"

    def body(self, model: Model, payload: Any, options: StreamOptions) -> dict[str, Any]:
        """This will add the options; what the caller put in `extra` gives way to them."""
        body: dict[str, Any] = {"model": model.id, "stream": True}
        if self.dialect.include_usage:
            body["stream_options"] = {"include_usage": True}
        body |= options.extra
        body |= payload | parameters(model, options, self.dialect)
        if "tools" not in body:
            body.pop("parallel_tool_calls", None)  # OpenAI refuses it where there are none
        if options.transport == "buffered":
            body["stream"] = False
            body.pop("stream_options", None)
        return body

    async def authorize(self, request: HTTPRequest, options: StreamOptions, call: Call) -> None:
        """This will add the key, and note that one's own server costs nothing."""
        await super().authorize(request, options, call)
        priced = call.model.info is not None and call.model.info.prices is not None
        if self.dialect.own_server and not priced:
            call.reported_cost = 0.0

    def own_headers(self, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
        """This will return the headers that the dialect takes from the environment."""
        return {
            name: environ[variable]
            for name, variable in self.dialect.headers.items()
            if environ.get(variable)
        }

    def parser(self, model: Model) -> ChatParser:
        """This will make a parser for one response."""
        return ChatParser(self.dialect)

    def notices(self, model: Model, options: StreamOptions) -> tuple[Notice, ...]:
        """This will add that reasoning cannot be turned off, and that caching needs no asking."""
        notices = super().notices(model, options)
        cached = options.cache is not None and options.cache.mode == "auto"
        if cached and "cache" in self.knobs and not keeps_long(options):
            detail = f"{model} caches prompts by itself; nothing was sent"
            notices += (Notice("option_ignored", detail),)
        off = options.thinking_level is ThinkingLevel.OFF and not model.lacks("thinking")
        by_effort = self.dialect.thinking in ("effort", "reasoning")
        if off and by_effort and effort(model, options, self.dialect) is None:
            detail = f"{model} has no word for thinking off; nothing was sent"
            notices += (Notice("option_ignored", detail),)
        return notices

    def classify(self, failure: Failure) -> Classification | None:
        """This will classify by the tables of this wire format."""
        return classify(failure)

    def error_facts(self, failure: Failure) -> None:
        """This will read an HTTP error as an error frame is read."""
        try:
            read_error(msgspec.json.decode(failure.body), failure)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return
