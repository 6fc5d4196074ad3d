"""Use the Responses API by default, and Chat Completions as the fallback.

A server at a base URL other than OpenAI's may support only Chat Completions. Such a server answers
requests to the Responses API with 404 or 405, and the provider remembers this for its lifetime.
"""

from __future__ import annotations

from typing import Any

import msgspec

from swink_core import Model
from swink_core.providers import EventWriter
from swink_provider_openai.chat import ChatAPI
from swink_provider_openai.dialect import Dialect
from swink_provider_openai.parser import ChatParser
from swink_provider_openai.responses.api import ResponsesAPI
from swink_provider_openai.responses.parser import ResponsesParser

__all__ = ["MISSING", "NO_MODEL", "EitherAPI"]

MISSING = (404, 405)
"""Statuses of servers without the Responses API."""

NO_MODEL = "model_not_found"
"""The error code of a 404 for a missing model (not for a missing Responses API)."""


class _Frame(msgspec.Struct):
    choices: Any = None
    type: Any = None


_decode = msgspec.json.Decoder(_Frame).decode


class EitherAPI(ResponsesAPI):
    """The Responses API, with a parser that also accepts answers of Chat Completions."""

    def __init__(self, provider: str, dialect: Dialect, chat: ChatAPI) -> None:
        super().__init__(provider, dialect)
        self._chat = chat

    def parser(self, model: Model) -> Any:
        """Create a parser for one response."""
        return _EitherParser(super().parser(model), self._chat.parser(model))


class _EitherParser:
    """Parses one response of either API. The first recognised frame shows which API it is from."""

    def __init__(self, responses: ResponsesParser, chat: ChatParser) -> None:
        self._parser: ResponsesParser | ChatParser = responses
        self._chat = chat
        self._seen = False

    def feed(self, frame: bytes, out: EventWriter) -> None:
        """Report the content of a frame to `out`."""
        if not self._seen:
            self._look(frame)
        if self._seen:
            self.feed = self._parser.feed  # type: ignore[method-assign]  # for the next read
        self._parser.feed(frame, out)

    def buffered(self, body: bytes, out: EventWriter) -> None:
        """Report to `out` the content of an answer that was not streamed."""
        self._look(body)
        self._parser.buffered(body, out)

    def _look(self, frame: bytes) -> None:
        seen = _decode(frame)
        if seen.choices is not None:
            self._parser = self._chat
        own = isinstance(seen.type, str) and seen.type.startswith("response.")
        self._seen = own or self._parser is self._chat
