"""Answers that are not streamed, made to fit where streams go: a body of one frame, at its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from swink_core.failures.exceptions import ProviderFailure
from swink_core.failures.failure import Failure, MalformedFrame
from swink_core.framing.frame import FrameTooLong
from swink_core.providers.intact import LONE_SURROGATE, REPAIRED, TOO_DEEP, repaired_json
from swink_core.providers.writer import EventWriter
from swink_core.vocabulary.depth import is_too_deep
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
            decode_json(frame, lambda body: self._buffered(body, out), out)
        except (msgspec.DecodeError, MalformedFrame, UnicodeDecodeError, RecursionError) as error:
            is_stream = frame.lstrip().startswith((b"data:", b"event:", b":", b"id:"))
            why = "it is a stream, where it was asked for whole" if is_stream else error
            message = f"the answer does not parse: {why}"
            failure = Failure("finalize", kind=Kind.PROTOCOL, code="malformed", message=message)
            raise ProviderFailure(failure) from error


def decode_json(text: bytes, decode: Callable[[bytes], T], out: EventWriter) -> T:
    """Decode the JSON of a binary frame or of a whole answer, which `EventSource` does not check.

    A text with lone surrogate escapes is repaired, with a notice. Raises msgspec.DecodeError,
    UnicodeDecodeError for invalid UTF-8, and MalformedFrame for deep nesting.
    """
    if not text.isascii():
        text.decode()
    if is_too_deep(text):
        raise MalformedFrame(TOO_DEEP)
    try:
        return decode(text)
    except msgspec.DecodeError:
        repaired = repaired_json(text)
        if repaired is None:
            raise
    data = decode(repaired)
    out.notice(LONE_SURROGATE, REPAIRED)
    return data
