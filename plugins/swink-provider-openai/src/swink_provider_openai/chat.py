"""Create requests for the Chat Completions API, and parsers for its answers."""

from __future__ import annotations

from typing import Any

from swink_core import Context, Model, StreamOptions
from swink_core.providers import TUNING, with_extra
from swink_provider_openai.cache_marks import caches_by_marks, mark_for_cache
from swink_provider_openai.converter import ChatConverter
from swink_provider_openai.dialect import Dialect
from swink_provider_openai.parameters import chat_knobs, parameters, places_of
from swink_provider_openai.parser import ChatParser
from swink_provider_openai.remembered import Remembered
from swink_provider_openai.renamed import with_names
from swink_provider_openai.several import with_several
from swink_provider_openai.terms import NONE_LONG, REGIONAL, with_terms

__all__ = ["ChatAPI"]

FEATURES = frozenset({
    "tools", "tool_choice", "stop", "images", "documents", "audio", "json", "structured_output",
    "extensions",
})  # fmt: skip


class ChatAPI:
    """The Chat Completions API, with the differences that a dialect declares.

    `converter` is the class that converts messages, and `reader` is the class that parses answers.
    `answers` is the number of answers that the request asks for.
    """

    api_name = "chat"
    buffered = True
    websocket = False
    regional = False
    answers = 1

    def __init__(
        self,
        provider: str,
        dialect: Dialect,
        converter: type[ChatConverter],
        reader: type[ChatParser],
    ) -> None:
        self._provider = provider
        self._dialect = dialect
        self._converter = converter
        self._reader = reader
        self._fields = Remembered[dict[str, Any]]()
        self.system_marks = dialect.marks or None
        self.path = dialect.path.strip("/")
        self.features = FEATURES | (dialect.adds - {*TUNING})
        if "images" in dialect.adds:
            self.features |= {"assistant_images"}
        self.knobs = chat_knobs(dialect)
        self.places = places_of(dialect)

    def convert(self, model: Model, context: Context, options: StreamOptions) -> dict[str, Any]:
        """Return the body of the request; options take precedence over fields of `extra`."""
        native = self._converter(self._provider, self._dialect).conversation(model, context)
        cache = options.cache
        if cache is not None and cache.mode == "auto" and caches_by_marks(model):
            mark_for_cache(native, cache.ttl)
        streamed = options.transport != "buffered"
        defaults: dict[str, Any] = {**self._dialect.always}
        if streamed and self._dialect.include_usage:
            defaults["stream_options"] = {"include_usage": True}
        fields = {**native, **self._options(model, options), "stream": streamed}
        body = with_extra(options.extra, fields, defaults)
        if not streamed:
            body.pop("stream_options", None)
        return body

    def _options(self, model: Model, options: StreamOptions) -> dict[str, Any]:
        """Return the request fields for the options of a call."""
        fields = self._fields.get(model, options, None)
        if fields is None:
            fields = parameters(self.knobs, model, options, self._dialect)
            self._fields.keep(model, options, None, fields)
        return fields

    def parser(self, model: Model) -> Any:
        """Create a parser for one response."""
        terms: dict[str, Any] = {**REGIONAL} if self.regional else {}
        prices = model.info.prices if model.info else None
        rates = (prices, *prices.cases) if prices else ()
        if any(each.cache_write_long for each in rates) and not caches_by_marks(model):
            terms |= NONE_LONG
        parser = with_several(self._reader(self._dialect), self.answers)
        parser = with_names(parser, self._dialect.answer)
        return with_terms(parser, terms)
