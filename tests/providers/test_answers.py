"""The handling of a response's head and of an error's body, from any server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from swink_core import Failure, ProviderFailure
from swink_core import StreamErrorKind as Kind
from swink_core.providers.answers import (
    decoded,
    failure_of_answer,
    is_answer,
    override,
    read_error,
    read_whole,
    request_id_of,
)

BODY_CAP = 65_536
CUT = ProviderFailure(Failure("streaming", kind=Kind.NETWORK, message="reset"))


class Response:
    """A response whose body comes in pieces, of which one may be a failure."""

    def __init__(self, *pieces: Any, status: int = 500, **headers: str) -> None:
        self.status = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.pieces: Iterator[Any] = iter(pieces)

    def __aiter__(self) -> Response:
        return self

    async def __anext__(self) -> bytes:
        for piece in self.pieces:
            if isinstance(piece, BaseException):
                raise piece
            return bytes(piece)
        raise StopAsyncIteration

    def close(self) -> None: ...


async def failure_of(*pieces: Any, **answer: Any) -> Failure:
    return await failure_of_answer(Response(*pieces, **answer), ["canary-secret"], read_error)


# -- what is read of a body ----------------------------------------------------------------------


async def test_of_an_error_so_much_is_read_that_its_beginning_is_there() -> None:
    pieces = [b"x" * 40_000, b"y" * 25_536, b"z"]
    response = Response(*pieces)
    failure = await failure_of_answer(response, [], lambda failure: None)
    assert failure.body == b"".join(pieces[:2])
    assert len(failure.body) == BODY_CAP
    assert [*response.pieces] == [b"z"]


async def test_data_of_one_read_beyond_the_limit_is_truncated() -> None:
    assert len((await failure_of(b"x" * BODY_CAP + b"yz")).body) == BODY_CAP


async def test_a_body_that_breaks_is_what_came_of_it() -> None:
    failure = await failure_of(b'{"error": "no', CUT)
    assert (failure.status, failure.body) == (500, b'{"error": "no')
    assert failure.message == """HTTP 500: '{"error": "no'"""


async def test_an_error_without_a_body_has_its_status_alone() -> None:
    failure = await failure_of(status=503)
    assert (failure.status, failure.body, failure.message) == (503, b"", None)


@pytest.mark.parametrize(("status", "length"), [(200, 80), (400, 200)])
async def test_an_excerpt_of_a_body_has_a_length(status: int, length: int) -> None:
    failure = await failure_of(b"x" * 500, status=status)
    assert (failure.message or "").endswith(f": '{'x' * length}'")


async def test_an_excerpt_of_a_body_is_its_beginning_without_secrets() -> None:
    failure = await failure_of(b"canary-secret" + b"x" * 500)
    assert failure.message is not None
    assert failure.message.startswith("HTTP 500: '")
    assert "canary" not in failure.message
    assert len(failure.message) < 250


# (status, headers, body, kind, code, part of the message)
NO_ANSWERS: list[tuple[int, dict[str, str], bytes, Kind | None, str | None, str]] = [
    (300, {"Location": "https://b.example"}, b"", Kind.PROTOCOL, "redirect", "b.example"),
    (399, {}, b"", Kind.PROTOCOL, "redirect", "(HTTP 399) to an unknown address"),
    (400, {}, b"{}", None, None, "HTTP 400: '{}'"),
    (200, {"Content_Type": "text/html; charset=utf-8"}, b"<p>Hi", Kind.PROTOCOL, "content_type",
     "the answer is text/html, not a stream: '<p>Hi'"),
    (200, {}, b"", Kind.PROTOCOL, "content_type", "is of unknown type"),
    (200, {"Content_Encoding": "rot13"}, b"Uv", Kind.PROTOCOL, "encoding", "encoding rot13"),
    (200, {"Content_Type": "text/html"}, b'{"error": {"code": "busy", "message": "Later."}}',
     None, "busy", "Later."),
    (200, {"Content_Type": "text/html"}, b'{"error": {"type": "busy"}}', None, None, ""),
]  # fmt: skip


@pytest.mark.parametrize(("status", "headers", "body", "kind", "code", "message"), NO_ANSWERS)
async def test_a_response_without_an_answer_has_a_reason(
    status: int, headers: dict[str, str], body: bytes, kind: Any, code: Any, message: str
) -> None:
    failure = await failure_of(body, status=status, **headers)
    assert (failure.phase, failure.kind, failure.code) == ("request", kind, code)
    assert failure.headers == {name.replace("_", "-"): value for name, value in headers.items()}
    assert message in (failure.message or "")


# -- what an error's body says -------------------------------------------------------------------

# (a body, its code, its type, its message)
SAID: list[tuple[str, str | None, str | None, str | None]] = [
    ('{"error": {"code": "a", "type": "b", "message": "c"}}', "a", "b", "c"),
    ('{"code": "a", "type": "b", "message": "c"}', "a", "b", "c"),
    ('[{"error": {"code": 429, "status": "b", "message": "c"}}, 5]', "429", None, "c"),
    ('{"error": {"status": "UNAVAILABLE", "message": "c"}}', "UNAVAILABLE", None, "c"),
    ('{"error": "c", "code": "a"}', "a", None, "c"),
    ('{"detail": "c"}', None, None, "c"),
    ('{"error": {"message": "c", "detail": "d"}}', None, None, "c"),
    ('{"detail": [{"loc": ["body"]}]}', None, None, None),
    ('{"error": 5}', None, None, None),
    ("[]", None, None, None),
    ("5", None, None, None),
    ("no JSON", None, None, None),
    ("[" * 100_000, None, None, None),
]


@pytest.mark.parametrize(("body", "code", "type", "message"), SAID, ids=[r[0][:30] for r in SAID])
def test_an_error_is_read_in_the_shapes_that_most_apis_use(
    body: str, code: str | None, type: str | None, message: str | None
) -> None:
    failure = Failure("request", 400, body=body.encode())
    read_error(failure)
    assert (failure.code, failure.type, failure.message) == (code, type, message)


def test_known_facts_outrank_the_body() -> None:
    body = b'{"error": {"code": "a", "type": "b", "message": "c"}, "request_id": "d"}'
    failure = Failure("request", 400, body=body)
    read_error(failure)
    assert failure.request_id == "d"
    known = Failure("request", 400, body=body, code="1", type="2", message="3", request_id="4")
    read_error(known)
    assert (known.code, known.type, known.message, known.request_id) == ("1", "2", "3", "4")


# -- heads ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "id"),
    [
        ({}, ""),
        ({"x_amzn_requestid": "a"}, "a"),
        ({"x_generation_id": "b", "x_amzn_requestid": "a"}, "b"),
        ({"x_request_id": "c", "x_generation_id": "b"}, "c"),
        ({"request_id": "d", "x_request_id": "c"}, "d"),
        ({"request_id": "", "x_request_id": "c"}, "c"),
    ],
)
def test_the_id_of_a_request_is_under_one_of_these_names(headers: dict[str, str], id: str) -> None:
    assert request_id_of(Response(**headers)) == id


@pytest.mark.parametrize(
    ("status", "headers", "answers"),
    [
        (200, {"Content_Type": "Text/Event-Stream; charset=utf-8"}, True),
        (200, {}, True),
        (200, {"Content_Type": "text/html"}, False),
        (200, {"Content_Encoding": " GZIP "}, True),
        (200, {"Content_Encoding": "rot13"}, False),
        (101, {"Content_Type": "text/html"}, True),
        (201, {"Content_Type": "text/event-stream"}, False),
    ],
)
def test_an_answer_is_known_by_its_head(
    status: int, headers: dict[str, str], answers: bool
) -> None:
    assert is_answer(Response(status=status, **headers), {"text/event-stream"}) is answers


def test_a_header_of_the_callers_own_stands_for_ours_whatever_its_case() -> None:
    headers = {"Accept": "text/event-stream", "X-Ours": "1"}
    override(headers, {})
    assert headers == {"Accept": "text/event-stream", "X-Ours": "1"}
    override(headers, {"ACCEPT": "*/*", "X-Theirs": "2"})
    assert headers == {"X-Ours": "1", "ACCEPT": "*/*", "X-Theirs": "2"}


async def test_a_body_that_is_too_long_or_no_json_fails_as_an_answer() -> None:
    with pytest.raises(ProviderFailure, match="longer than 3 bytes") as long:
        await read_whole(Response(b"ab", b"cd"), 3)
    with pytest.raises(ProviderFailure, match="cannot be parsed") as broken:
        decoded(b"{", dict)
    for caught in (long, broken):
        failure = caught.value.failure
        assert (failure.phase, failure.kind, failure.code) == ("request", Kind.PROTOCOL, "answer")
    assert await read_whole(Response(b"ab", b"c"), 3) == b"abc"


def test_numbers_of_an_answer_may_be_written_as_strings() -> None:
    assert decoded(b'{"expires_in": "3600"}', dict[str, int]) == {"expires_in": 3600}
    assert decoded(b"{", bytes) == b"{"
