"""Answers that are not streamed, made to fit where streams go: a body of one frame, at its end."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from swink_core.failures.exceptions import ProviderFailure
from swink_core.failures.failure import Failure, MalformedFrame
from swink_core.framing.frame import FrameTooLong
from swink_core.providers.writer import EventWriter
from swink_core.vocabulary.outcome import StreamErrorKind as Kind

T = TypeVar("T")

BUFFERED_LIMIT = 64 * 1024 * 1024
"""Bytes of an answer that is not streamed."""


class BufferedDecoder:
    """Collects a body: its only frame comes at the end."""

    def __init__(self) -> None:
        self._body = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Return nothing yet. Raises FrameTooLong."""
        self._body += data
        if len(self._body) > BUFFERED_LIMIT:
            raise FrameTooLong("an answer", BUFFERED_LIMIT)
        return []

    def finish(self) -> list[bytes]:
        """Return the body."""
        return [bytes(self._body)]


class BufferedParser:
    """Hands a body to a parser's `buffered(body, out)`."""

    def __init__(self, parser: Any) -> None:
        self._buffered = parser.buffered

    def feed(self, frame: bytes, out: EventWriter) -> None:
        """Tell `out` what the body says. Raises ProviderFailure where it does not parse:
        it came to its end, so it was not cut."""
        try:
            out.decode_json(frame, lambda body: self._buffered(body, out))
        except (msgspec.DecodeError, MalformedFrame, UnicodeDecodeError, RecursionError) as error:
            is_stream = frame.lstrip().startswith((b"data:", b"event:", b":", b"id:"))
            why = "the server sent a stream for an unstreamed request" if is_stream else error
            message = f"the answer cannot be parsed: {why}"
            failure = Failure("finalize", kind=Kind.PROTOCOL, code="malformed", message=message)
            raise ProviderFailure(failure) from error
