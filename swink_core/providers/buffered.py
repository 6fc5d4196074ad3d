"""Adapt answers that are not streamed to the streaming interface: the body is a single frame."""

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
"""The maximum size of an answer that is not streamed, in bytes."""


class BufferedDecoder:
    """Collects a body, which becomes one frame at the end of the input."""

    def __init__(self) -> None:
        self._body = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Store the data and return an empty list. Raises FrameTooLong if the body is too long."""
        self._body += data
        if len(self._body) > BUFFERED_LIMIT:
            raise FrameTooLong("an answer", BUFFERED_LIMIT)
        return []

    def finish(self) -> list[bytes]:
        """Return the body as the only frame."""
        return [bytes(self._body)]


class BufferedParser:
    """Passes a body to the method `buffered(body, out)` of a parser."""

    def __init__(self, parser: Any) -> None:
        self._buffered = parser.buffered

    def feed(self, frame: bytes, out: EventWriter) -> None:
        """Report the content of the body to `out`.

        Raises ProviderFailure for a body that cannot be parsed. The body was received completely,
        so the failure has the kind `protocol`, not `network`.
        """
        try:
            out.decode_json(frame, lambda body: self._buffered(body, out))
        except (msgspec.DecodeError, MalformedFrame, UnicodeDecodeError, RecursionError) as error:
            is_stream = frame.lstrip().startswith((b"data:", b"event:", b":", b"id:"))
            why = "the server sent a stream for an unstreamed request" if is_stream else error
            message = f"the answer cannot be parsed: {why}"
            failure = Failure("finalize", kind=Kind.PROTOCOL, code="malformed", message=message)
            raise ProviderFailure(failure) from error
