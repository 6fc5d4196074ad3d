"""Determine whether a response is a stream, a complete answer or a failure, and read it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from swink_core.failures.exceptions import ProviderFailure
from swink_core.failures.failure import Failure
from swink_core.failures.redaction import BODY_CAP, excerpt
from swink_core.plugins.time_limits import time_limit
from swink_core.vocabulary.http import HTTPResponse
from swink_core.vocabulary.outcome import StreamErrorKind as Kind

T = TypeVar("T")

REQUEST_ID_HEADERS = ("request-id", "x-request-id", "x-generation-id", "x-amzn-requestid")

ENCODINGS = frozenset({"", "identity", "gzip", "deflate", "br", "zstd"})
"""Accepted content encodings. If the HTTP client cannot decode a body, it raises an error."""

BODY_SECONDS = 5.0
"""How many seconds to wait for the body of an error response.

After this time, the failure is reported with the status and the part of the body that has arrived.
"""


def request_id_of(response: HTTPResponse) -> str:
    """Return the provider's id of the request; an empty string if the response has none."""
    return next(filter(None, map(response.headers.get, REQUEST_ID_HEADERS)), "")


def is_answer(response: HTTPResponse, content_types: Collection[str]) -> bool:
    """Return True if a response has the status 200 and a body of one of these types.

    Also return True for a switch to another protocol, such as WebSocket (status 101).
    """
    if response.status != 200:
        return response.status == 101
    kind = _content_type(response).lower()
    return (not kind or kind in content_types) and _encoding(response) in ENCODINGS


def _content_type(response: HTTPResponse) -> str:
    return response.headers.get("Content-Type", "").partition(";")[0].strip()


def _encoding(response: HTTPResponse) -> str:
    return response.headers.get("Content-Encoding", "").strip().lower()


async def failure_of_answer(
    response: HTTPResponse, secrets: Iterable[str], fill: Callable[[Failure], None]
) -> Failure:
    """Return the failure for an error response.

    `fill` parses the provider's error body and sets the fields of the failure.
    """
    body = b""
    status = response.status
    with suppress(ProviderFailure, TimeoutError):  # the status is enough
        async with time_limit(BODY_SECONDS):
            async for data in response:
                body += data
                if len(body) >= BODY_CAP:
                    break
    failure = Failure("request", status, dict(response.headers), body[:BODY_CAP])
    if 300 <= status < 400:
        target = response.headers.get("Location", "an unknown address")
        failure.code = "redirect"
        failure.kind = Kind.PROTOCOL
        failure.message = f"redirected (HTTP {status}) to {target}"
        return failure
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        fill(failure)
    if status < 300 and _encoding(response) not in ENCODINGS:
        failure.kind = Kind.PROTOCOL
        failure.code = "encoding"
        encoding = response.headers["Content-Encoding"]
        failure.message = f"the answer has the content encoding {encoding}, which was not requested"
    elif status < 300 and not (failure.code or failure.type or failure.message):
        failure.kind = Kind.PROTOCOL
        failure.code = "content_type"
        kind = _content_type(response) or "of unknown type"
        start = excerpt(body, secrets, 80)
        failure.message = f"the answer is {kind}, not a stream: {start}"
    elif not failure.message and body:
        failure.message = f"HTTP {status}: {excerpt(body, secrets, 200)}"
    return failure


async def read_whole(response: HTTPResponse, most: int) -> bytes:
    """Read a body to its end. Raises ProviderFailure for a body of more than `most` bytes."""
    pieces: list[bytes] = []
    size = 0
    async for piece in response:
        pieces.append(piece)
        size += len(piece)
        if size > most:
            why = f"the answer is longer than {most} bytes"
            failure = Failure("request", kind=Kind.PROTOCOL, code="answer", message=why)
            raise ProviderFailure(failure)
    return b"".join(pieces)


def decoded(data: bytes, into: type[T]) -> T:
    """Decode JSON into a type that msgspec supports.

    If `into` is `bytes`, return `data` unchanged. Numbers may be written as strings. Raises
    ProviderFailure (`protocol`) if the data cannot be decoded into this type.
    """
    if into is bytes:
        return data  # type: ignore[return-value]  # T is bytes
    try:
        return msgspec.json.decode(data, type=into, strict=False)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        why = f"the answer cannot be parsed: {error}"
        failure = Failure("request", kind=Kind.PROTOCOL, code="answer", message=why)
        raise ProviderFailure(failure) from None


def read_error(failure: Failure) -> None:
    """Fill in the fields of a failure from an error body in one of the forms that most APIs use."""
    try:
        data = msgspec.json.decode(failure.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    if isinstance(data, list) and data:
        data = data[0]
    if not isinstance(data, dict):
        return
    failure.request_id = failure.request_id or _word(data.get("request_id"))
    error = data.get("error", data)
    if isinstance(error, str):
        failure.message = error
        error = data
    if not isinstance(error, dict):
        return
    failure.code = failure.code or _word(error.get("code")) or _word(error.get("status"))
    failure.type = failure.type or _word(error.get("type"))
    failure.message = failure.message or _word(error.get("message") or error.get("detail"))


def _word(value: Any) -> str | None:
    return None if value is None or isinstance(value, dict | list) else str(value)


def override(headers: dict[str, str], own: Mapping[str, str]) -> None:
    """Override headers with the caller's headers, ignoring the case of their names."""
    if not own:
        return
    names = {name.lower() for name in own}
    for name in [name for name in headers if name.lower() in names]:
        del headers[name]
    headers.update(own)
