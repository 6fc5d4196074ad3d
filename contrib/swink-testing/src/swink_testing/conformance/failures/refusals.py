"""HTTP errors with unexpected bodies and misleading words."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from swink_core import Error
from swink_core import StreamErrorKind as Kind
from swink_testing.conformance.check import DoesNotApply, fail, require
from swink_testing.conformance.subject import Subject
from swink_testing.driver import MemoryResponse
from swink_testing.quiet import quiet

__all__ = ["check_error_bodies", "check_error_wordings"]

_SAID = "nonce of a refusal"

_ODD: tuple[Any, ...] = (
    None, True, 1, "", [], {}, [None], [[]], {"error": None}, {"error": []}, {"error": 1},
    {"error": {}}, {"error": {"message": None, "code": None, "type": None}},
    {"error": {"message": {"a": [1]}, "code": 7, "type": []}}, {"message": 5, "code": {}},
    {"detail": None}, {"errors": [1]},
)  # fmt: skip
"""JSON bodies without a message, of unexpected types."""

_NO_JSON = (
    b"", b" ", b"<html><head><title>Away</title></head></html>", b"\xff\xfe\x00", b"\xef\xbb\xbf{}",
    b'{"error": {"mess', b"NaN",
)  # fmt: skip
"""Bodies of proxies and of servers that broke off."""

_TELLING: tuple[Any, ...] = (
    {"error": {"message": _SAID}}, {"error": _SAID}, {"message": _SAID}, {"detail": _SAID},
    {"detail": [{"loc": ["body", "seed"], "msg": _SAID, "type": "extra_forbidden"}]},
    {"errors": [{"message": _SAID}]}, [{"error": {"message": _SAID}}], _SAID,
)  # fmt: skip
"""JSON bodies that say why, as one API or another, or a proxy before it, writes them."""

_KINDS = {
    400: Kind.INVALID_REQUEST,
    401: Kind.AUTH,
    402: Kind.QUOTA_EXHAUSTED,
    403: Kind.AUTH,
    408: Kind.NETWORK,
    413: Kind.INVALID_REQUEST,
    422: Kind.INVALID_REQUEST,
    429: Kind.THROTTLED,
    500: Kind.NETWORK,
    502: Kind.NETWORK,
    503: Kind.OVERLOADED,
    504: Kind.NETWORK,
    529: Kind.OVERLOADED,
}
"""Kinds of statuses if the body says nothing more."""

_WORDINGS: tuple[tuple[int, str, tuple[Kind, ...]], ...] = (
    (400, "The maximum number of images is exceeded.", ()),
    (400, "stop: at most 4 items are allowed", ()),
    (400, "tools.0.name: the length exceeds 64 characters", ()),
    (400, "max_tokens: must be at least 1", ()),
    (400, "max_tokens is above the limit of this model", (Kind.CONTEXT_WINDOW_EXCEEDED,)),
    (400, "The field `model` is required.", (Kind.MODEL_NOT_FOUND,)),
    (400, "response_format: the schema is invalid", ()),
    (400, "tool_choice: no tool of this name was found", ()),
    (400, "sample_rate: not supported for this audio", ()),
    (400, "timeout: not a positive number", ()),
    (400, "metadata.key: unknown field", ()),
    (400, "metadata.access: unexpected value", ()),
    (400, "context: unknown field", ()),
    (400, "priority: flex capacity cannot be asked for here", ()),
    (400, "service_tier: not available in this region", ()),
    (400, "user: must not be blank", ()),
    (400, "The content of message 3 must be a string.", ()),
    (400, "safety_settings: unknown category", ()),
    (400, "The tokens of logit_bias are not numbers.", ()),
    (401, "The token has expired.", ()),
    (401, "No access to this model: the key is invalid.", (Kind.MODEL_NOT_FOUND,)),
    (422, "Too many stop sequences", ()),
    (429, "Rate limit exceeded", ()),
    (429, "Too many requests: the limit is 60 a minute.", ()),
    (429, "Maximum number of tokens per minute exceeded for this model", ()),
    (429, "Too many concurrent requests for this key.", ()),
    (500, "Internal error: the context of the request is lost.", ()),
    (500, "The request could not be processed: invalid state.", (Kind.OVERLOADED,)),
    (503, "The service is unavailable: its limit is reached.", ()),
)  # fmt: skip
"""Errors whose words others use of other kinds, and which kinds they may be besides."""


def check_error_bodies(subject: Subject) -> None:
    """The status of an HTTP error decides, whatever its body; its message is reported."""
    _require_http(subject)

    async def ask() -> None:
        refused = _Refused(subject)
        bodies = [*(json.dumps(data).encode() for data in _ODD), *_NO_JSON]
        for number, body in enumerate(bodies):
            for status in (400, 503, [*_KINDS][number % len(_KINDS)]):
                await refused.require_kind(status, body, (_KINDS[status],))
        for data in _TELLING:
            body = json.dumps(data).encode()
            error = await refused.require_kind(400, body, (Kind.INVALID_REQUEST,))
            require(
                _SAID in error.error_message,
                f"the message of an HTTP error is not reported, but: {error.error_message}",
                body,
                _SAID,
            )

    with quiet():
        asyncio.run(ask())


def check_error_wordings(subject: Subject) -> None:
    """Words that usually mean another error do not change the kind of an HTTP status."""
    _require_http(subject)

    async def ask() -> None:
        refused = _Refused(subject)
        for status, said, others in _WORDINGS:
            for data in ({"error": {"message": said}}, {"message": said}):
                body = json.dumps(data).encode()
                await refused.require_kind(status, body, (_KINDS[status], *others))

    with quiet():
        asyncio.run(ask())


def _require_http(subject: Subject) -> None:
    if not subject.speaks_http:
        raise DoesNotApply("it does not speak HTTP")


class _Refused:
    """The calls of a client that are refused, one after the other."""

    def __init__(self, subject: Subject) -> None:
        self._http = subject.http()
        self._client, self._options = subject.client(self._http), subject.call_options()
        self._model = subject.model

    async def require_kind(self, status: int, body: bytes, kinds: Sequence[Kind]) -> Error:
        """Return the error that an answer becomes, which is of the first of the kinds at best."""
        headers = {"Content-Type": "application/json"}
        refused = [MemoryResponse([body], status, headers) for _ in range(2)]
        self._http.answer(*refused)  # the second for who renews credentials
        async with self._client.stream(self._model, "Hello", **self._options) as stream:
            events = [event async for event in stream]
        error = events[-1]
        where = f"HTTP {status} with the body {body.decode('utf-8', 'replace')!r:.120}"
        if not isinstance(error, Error):
            fail(f"{where} ends in {error.type}")
        require(
            error.error_kind in kinds,
            f"{where} is Error({error.error_kind}), expected {kinds[0]}: {error.error_message}",
            body,
            kinds[0],
        )
        return error
