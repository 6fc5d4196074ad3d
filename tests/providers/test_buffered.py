"""Answers that are not streamed: one frame, which must be readable as a whole."""

from __future__ import annotations

from typing import Any

import pytest

from swink_core import ProviderFailure
from swink_core import StreamErrorKind as Kind
from swink_core.providers import EventWriter, FrameTooLong, MalformedFrame, buffered
from swink_core.providers.buffered import BufferedDecoder, BufferedParser


class Refusing:
    """A parser that accepts no body."""

    def buffered(self, body: bytes, out: EventWriter) -> None:
        raise MalformedFrame("no answer")


def test_a_body_is_one_frame_at_the_end() -> None:
    decoder = BufferedDecoder()
    assert (decoder.feed(b"a"), decoder.feed(b"b")) == ([], [])
    assert decoder.finish() == [b"ab"]


def test_a_body_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffered, "BUFFERED_LIMIT", 2)
    decoder = BufferedDecoder()
    assert decoder.feed(b"ab") == []
    with pytest.raises(FrameTooLong, match="an answer"):
        decoder.feed(b"c")


STREAM = "the server sent a stream for an unstreamed request"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"{}", "no answer"),
        (b"data: {}", STREAM),
        (b" \n event: a", STREAM),
        (b": ping", STREAM),
        (b"id: 1", STREAM),
        (b"date: {}", "no answer"),
    ],
)
def test_a_body_that_cannot_be_parsed_is_a_protocol_error(body: bytes, why: str) -> None:
    parser: Any = Refusing()
    with pytest.raises(ProviderFailure) as caught:
        BufferedParser(parser).feed(body, EventWriter("toy", "c1", "toy/large"))
    failure = caught.value.failure
    assert (failure.phase, failure.kind, failure.code) == ("finalize", Kind.PROTOCOL, "malformed")
    assert failure.message == f"the answer cannot be parsed: {why}"
