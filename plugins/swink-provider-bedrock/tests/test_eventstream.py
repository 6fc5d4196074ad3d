"""AWS's binary event stream: its vectors, every header, every way to cut and to break it."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any
from uuid import UUID
from zlib import crc32

import pytest
from converse import TEXT, delta, encode, exception, header, said, stop
from hypothesis import given
from hypothesis import strategies as st

from swink_core.providers import DEFAULT_FRAME_LIMIT, FrameError, FrameTooLong
from swink_provider_bedrock import eventstream
from swink_provider_bedrock.eventstream import EventStreamDecoder, message
from swink_test_helpers.corpus import Case, cases, ids, stream_cases
from swink_testing.chunking import byte_by_byte, chunkings, every_cut

VECTORS = cases("eventstream")


def _decoded(*chunks: bytes) -> list[tuple[dict[str, Any], bytes]]:
    decoder = EventStreamDecoder()
    frames = [frame for chunk in chunks for frame in decoder.feed(chunk)]
    assert decoder.finish() == []
    return [tuple(message(frame)) for frame in frames]  # type: ignore[misc]  # a pair it is


@pytest.mark.parametrize("case", [c for c in VECTORS if "positive" in c.features], ids=ids)
def test_messages_of_the_vectors_are_read(case: Case) -> None:
    expected = [
        (frame["headers"], bytes.fromhex(frame["payload_hex"]))
        for frame in case.expect["reference_frames"]
    ]
    assert _decoded(case.body) == expected
    assert _decoded(*byte_by_byte(case.body)) == expected


@pytest.mark.parametrize("case", [c for c in VECTORS if "negative" in c.features], ids=ids)
def test_broken_messages_of_the_vectors_are_refused(case: Case) -> None:
    with pytest.raises(FrameError):
        _decoded(case.body)
    with pytest.raises(FrameError):
        _decoded(*byte_by_byte(case.body))


@pytest.mark.parametrize("case", stream_cases("bedrock_invoke"), ids=ids)
def test_streams_of_the_other_operation_are_read_too(case: Case) -> None:
    frames = _decoded(case.body)
    assert {headers[":event-type"] for headers, _ in frames} == {"chunk"}
    for _, payload in frames:
        [inner] = [base64.b64decode(part) for part in payload.split(b'"')[3:4]]
        assert inner.startswith(b"{")


HEADERS: list[tuple[str, int, bytes, Any]] = [
    ("true", 0, b"", True),
    ("false", 1, b"", False),
    ("a byte", 2, b"\xff", -1),
    ("a short", 3, b"\xff\xfe", -2),
    ("an integer", 4, b"\x00\x00\xa0\x0c", 40972),
    ("a long", 5, b"\xff" * 8, -1),
    ("bytes", 6, b"\x00\x02\x00\xff", b"\x00\xff"),
    ("a string", 7, b"\x00\x03\xe2\x82\xac", "€"),
    ("an empty string", 7, b"\x00\x00", ""),
    ("a time in milliseconds", 8, struct.pack(">q", 1_700_000_000_000), 1_700_000_000_000),
    ("a UUID", 9, bytes(range(16)), UUID(bytes=bytes(range(16)))),
]


@pytest.mark.parametrize(("name", "kind", "value", "expected"), HEADERS)
def test_every_type_of_header(name: str, kind: int, value: bytes, expected: Any) -> None:
    twice = header(name, kind, value) + header("after", 7, b"\x00\x02ok")
    assert _decoded(encode(twice, b"body")) == [({name: expected, "after": "ok"}, b"body")]


@pytest.mark.parametrize(
    ("name", "headers"),
    [
        ("a name longer than what is there", b"\x09ab"),
        ("a name without a type", b"\x02ab"),
        ("a number cut short", header("a", 5, b"\x00")),
        ("a string cut short", header("a", 7, b"\x00\x05abc")),
        ("a string without its length", header("a", 7, b"\x00")),
        ("a UUID cut short", header("a", 9, b"\x00" * 15)),
        ("a string that is not UTF-8", header("a", 7, b"\x00\x01\xff")),
        ("a name that is not UTF-8", b"\x01\xff\x00"),
        ("an unknown type", header("a", 10, b"")),
    ],
)
def test_headers_that_do_not_parse_are_refused(name: str, headers: bytes) -> None:
    with pytest.raises(FrameError, match="header"):
        _decoded(encode(headers))


def test_no_byte_of_a_message_may_be_changed() -> None:
    whole = delta(0, text="Hello")
    for at in range(len(whole)):
        broken = bytearray(whole)
        broken[at] ^= 0x10
        with pytest.raises(FrameError):
            _decoded(bytes(broken))


def test_a_wrong_length_is_not_waited_for() -> None:
    decoder = EventStreamDecoder()
    with pytest.raises(FrameError, match="prelude"):
        decoder.feed(b"\x00\x0f\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00")


@pytest.mark.parametrize(
    ("name", "total", "headers", "error"),
    [
        ("shorter than its frame", 15, 0, FrameError),
        ("shorter than its headers", 40, 25, FrameError),
        ("of nothing but headers", 200_000, 131_073, FrameTooLong),
        ("longer than the limit", DEFAULT_FRAME_LIMIT + 1, 0, FrameTooLong),
    ],
)
def test_lengths_are_bounded(name: str, total: int, headers: int, error: type[FrameError]) -> None:
    lengths = struct.pack(">II", total, headers)
    with pytest.raises(error):
        EventStreamDecoder().feed(lengths + struct.pack(">I", crc32(lengths)))


def test_what_came_before_the_break_is_handed_over() -> None:
    first, second = delta(0, text="one"), delta(0, text="two")
    with pytest.raises(FrameError) as caught:
        EventStreamDecoder().feed(first + b"\x00" + second)
    assert caught.value.frames == [first]


def test_a_message_with_a_wrong_checksum_does_not_take_the_next_with_it() -> None:
    first, second = delta(0, text="one"), delta(0, text="two")
    damaged = first[:-1] + bytes([first[-1] ^ 1])
    assert EventStreamDecoder().feed(damaged + second) == [damaged, second]
    with pytest.raises(FrameError, match="checksum"):
        eventstream.message(damaged)


def test_a_message_at_the_limit_is_taken_and_one_beyond_is_not() -> None:
    body = encode({}, b"x" * 84)
    assert EventStreamDecoder(100).feed(body) == [body]
    with pytest.raises(FrameTooLong, match="longer than the limit of 99 bytes"):
        EventStreamDecoder(99).feed(body)


def test_where_a_read_ends_does_not_matter() -> None:
    body = said(TEXT)
    whole = _decoded(body)
    assert len(whole) == 6
    for chunks in every_cut(body):
        assert _decoded(*chunks) == whole
    for _, chunks in chunkings(body, EventStreamDecoder):
        assert _decoded(*chunks) == whole


@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.text(min_size=1, max_size=20), st.text(max_size=40), max_size=4),
            st.binary(max_size=300),
        ),
        max_size=6,
    ),
    st.integers(1, 64),
)
def test_whatever_was_encoded_is_decoded(
    messages: list[tuple[dict[str, str], bytes]], size: int
) -> None:
    body = b"".join(encode(headers, payload) for headers, payload in messages)
    chunks = [body[at : at + size] for at in range(0, len(body), size)]
    assert _decoded(*chunks) == messages


def test_a_cut_message_leaves_nothing() -> None:
    body = delta(0, text="Hello")
    for size in range(len(body)):
        decoder = EventStreamDecoder()
        assert decoder.feed(body[:size]) == []
        assert decoder.finish() == []


def test_a_message_that_comes_in_small_reads_is_looked_at_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    body = encode({}, b"x" * 10_000)
    sizes: list[int] = []

    def counted(data: bytes) -> int:
        sizes.append(len(data))
        return crc32(data)

    monkeypatch.setattr(eventstream, "crc32", counted)
    decoder = EventStreamDecoder()
    assert [frame for piece in byte_by_byte(body) for frame in decoder.feed(piece)] == [body]
    assert sizes == [8, 8]  # its prelude when it is there, and when all of it is


# -- messages as JSON, as the package's lists have them ----------------------------------------

ERROR = {":message-type": "error", ":error-code": "InternalError", ":error-message": "Gone."}

WRITTEN: list[tuple[str, bytes, dict[str, Any]]] = [
    ("an event", stop(), {"type": "messageStop", "stopReason": "end_turn", "p": "abcdefg"}),
    (
        "an exception",
        exception("throttlingException", message="Wait."),
        {
            ":message-type": "exception",
            ":exception-type": "throttlingException",
            ":content-type": "application/json",
            "message": "Wait.",
        },
    ),
    ("an error without a payload", encode(ERROR), ERROR),
]


@pytest.mark.parametrize(("name", "frame", "data"), WRITTEN, ids=[name for name, _, _ in WRITTEN])
def test_a_message_is_json_and_back(name: str, frame: bytes, data: dict[str, Any]) -> None:
    assert json.loads(EventStreamDecoder.as_json(frame)) == data
    [(headers, payload)] = _decoded(EventStreamDecoder.of_json(json.dumps(data).encode()))
    [(expected, body)] = _decoded(frame)
    assert headers == expected
    assert json.loads(payload or b"{}") == json.loads(body or b"{}")


@pytest.mark.parametrize("payload", [b"{", b"[]", b"3"])
def test_a_message_of_other_data_is_no_json(payload: bytes) -> None:
    with pytest.raises(ValueError, match=r"JSON|Expecting"):
        EventStreamDecoder.as_json(encode({":event-type": "chunk"}, payload))


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"3"])
def test_what_is_no_json_object_is_no_message(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"JSON|Expecting"):
        EventStreamDecoder.of_json(text)


@pytest.mark.parametrize("value", [None, 3, {}, "a" * 65_536])
def test_what_no_header_can_hold_is_no_message(value: Any) -> None:
    with pytest.raises(ValueError, match=r"header :event-type"):
        EventStreamDecoder.of_json(json.dumps({"type": value}).encode())
